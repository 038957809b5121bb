//! Samples the stack of an event loop's thread, for the watchdog that finds it blocked.
//!
//! Knows: that `forehand.slow` reads frames, and how a thread that is not Python's own comes to
//! run it. Does not know: when to look. Runs on the watchdog's thread, which waits for the
//! interpreter for as long as whoever blocks the loop keeps it.

use pyo3::intern;
use pyo3::prelude::*;
use server::evented::Evented;
use server::watchdog::{Sight, Watchdog, Witness};

use crate::ffi::thread_ident;

/// Reads the frames of one thread.
struct Sampler {
    thread: u64,
    /// `forehand.slow.describe`.
    describe: Py<PyAny>,
    /// None under gevent's hub.
    event_loop: Option<Py<PyAny>>,
}

impl Witness for Sampler {
    fn look(&mut self, still: &dyn Fn() -> bool) -> Sight {
        let seen = Python::try_attach(|py| {
            if !still() {
                return Sight::TooLate;
            }
            let event_loop = self.event_loop.as_ref().map(|it| it.bind(py));
            match self.describe.bind(py).call1((self.thread, event_loop)).and_then(|told| told.extract()) {
                Ok(Some((key, what, place))) => Sight::Place { key, what, place },
                // What cannot be described, memory being short, is not worth more of it.
                Ok(None) | Err(_) => Sight::Nothing,
            }
        });
        // An interpreter that is about to end has nothing to be told of.
        seen.unwrap_or(Sight::Nothing)
    }
}

/// Watches the calling thread, which drives this loop.
///
/// # Errors
/// Python's, or the system's where no thread can be started.
pub fn watch(py: Python<'_>, driver: &Evented, event_loop: Option<Py<PyAny>>) -> PyResult<Watchdog> {
    let describe = py.import(intern!(py, "forehand.slow"))?.getattr(intern!(py, "describe"))?.unbind();
    let sampler = Sampler { thread: thread_ident(), describe, event_loop };
    Ok(Watchdog::start(driver, Box::new(sampler))?)
}
