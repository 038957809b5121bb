//! What the requests of one server share: their event loop, what is made once, and what one uses after the other.
//!
//! Knows: how a request waits and is woken. Does not know: requests. Runs on the event loop's thread.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use server::engine::Engine;
use server::reply_builder::ReplyBuilder;
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
    builders: GilCell<Vec<ReplyBuilder>>,
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
            builders: GilCell::new(Vec::new()),
        }
    }

    pub fn builder(&self, py: Python<'_>) -> ReplyBuilder {
        self.builders.borrow(py).and_then(|mut builders| builders.pop()).unwrap_or_default()
    }

    /// Keeps a builder for the next request.
    pub fn keep_scribe(&self, py: Python<'_>, builder: ReplyBuilder) {
        if let Some(mut builders) = self.builders.borrow(py)
            && builders.len() < KEPT_SCRIBES
        {
            builders.push(builder);
        }
    }

    /// Somebody has ended this future: with a result, or given up.
    pub fn is_done(&self, py: Python<'_>, future: &Py<PyAny>) -> bool {
        let done = future.bind(py).call_method0(intern!(py, "done"));
        done.is_ok_and(|done| done.is_truthy().unwrap_or(true))
    }

    /// Ends futures, but for those that somebody has.
    pub fn resolve_all(&self, py: Python<'_>, futures: &[Py<PyAny>]) {
        for future in futures {
            if !self.is_done(py, future)
                && let Err(error) = future.bind(py).call_method1(intern!(py, "set_result"), (py.None(),))
            {
                error.print(py);
            }
        }
    }
}
