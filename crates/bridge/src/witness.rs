//! Where an event loop's thread stands, for the watchdog that finds it blocked.
//!
//! Knows: that `forehand.slow` reads frames, and how a thread that is not Python's own comes to
//! run it. Does not know: when to look. Runs on the watchdog's thread, which waits for the
//! interpreter for as long as whoever blocks the loop keeps it.

use pyo3::intern;
use pyo3::prelude::*;
use server::evented::Evented;
use server::watchdog::{Sight, Watchdog, Witness};

use crate::ffi::{GilCell, thread_ident};

/// Reads the frames of one thread.
struct Frames {
    thread: u64,
    /// `forehand.slow.describe`.
    describe: Py<PyAny>,
    /// None under gevent's hub.
    event_loop: Option<Py<PyAny>>,
}

impl Witness for Frames {
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
    let frames = Frames { thread: thread_ident(), describe, event_loop };
    Ok(Watchdog::start(driver, Box::new(frames))?)
}

/// Ends the watch, and waits until it has ended: the interpreter may go after this.
pub fn end_watch(py: Python<'_>, driver: &GilCell<Evented>, watchdog: &GilCell<Option<Watchdog>>) {
    let Some(driver) = driver.borrow(py) else { return };
    if driver.engine().is_a_copy() {
        // A forked child has no such thread.
        return;
    }
    driver.watched().end();
    drop(driver);
    let watchdog = watchdog.borrow(py).and_then(|mut watchdog| watchdog.take());
    if let Some(watchdog) = watchdog {
        py.detach(|| watchdog.join());
    }
}
