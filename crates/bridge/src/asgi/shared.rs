//! What the requests of one server share: their event loop, what is made once, and what one uses after the other.
//!
//! Knows: how a request waits and is woken. Does not know: requests. Runs on the event loop's thread.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use server::engine::Engine;
use server::scribe::Scribe;
use wire::ws::Deflater;

use super::constants::Constants;
use crate::event_loop::EventLoop;
use crate::ffi::GilCell;

/// Scribes that are kept for the next request.
const KEPT_SCRIBES: usize = 64;

/// One server's.
pub struct Shared {
    pub event_loop: EventLoop,
    pub engine: Arc<Engine>,
    pub constants: Constants,
    /// Bytes that may wait for a peer before `send` does.
    pub room: u64,
    /// What all WebSockets of the loop use, one after the other.
    pub deflater: GilCell<Deflater>,
    pub read_buffer: GilCell<Vec<u8>>,
    scribes: GilCell<Vec<Scribe>>,
}

impl Shared {
    pub fn new(event_loop: EventLoop, constants: Constants) -> Self {
        let engine = Arc::clone(&event_loop.engine);
        Self {
            room: engine.config.limits.response_buffer_bytes,
            event_loop,
            engine,
            constants,
            deflater: GilCell::new(Deflater::new()),
            read_buffer: GilCell::new(Vec::new()),
            scribes: GilCell::new(Vec::new()),
        }
    }

    pub fn scribe(&self, py: Python<'_>) -> Scribe {
        self.scribes.borrow(py).and_then(|mut scribes| scribes.pop()).unwrap_or_default()
    }

    /// Keeps a scribe for the next request.
    pub fn keep_scribe(&self, py: Python<'_>, scribe: Scribe) {
        if let Some(mut scribes) = self.scribes.borrow(py)
            && scribes.len() < KEPT_SCRIBES
        {
            scribes.push(scribe);
        }
    }

    /// Ends a future, unless somebody has.
    pub fn resolve(&self, py: Python<'_>, future: &Py<PyAny>) {
        let future = future.bind(py);
        let done =
            future.call_method0(intern!(py, "done")).is_ok_and(|done| done.is_truthy().unwrap_or(true));
        if !done && let Err(error) = future.call_method1(intern!(py, "set_result"), (py.None(),)) {
            error.print(py);
        }
    }
}
