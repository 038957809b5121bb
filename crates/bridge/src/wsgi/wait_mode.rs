//! How a request's code waits: its thread blocks, or its greenlet lets others run.
//!
//! Knows: the two modes, and how a body's next bytes are waited for. Does not know: greenlets
//! ([`Scheduler`] does). Runs on the thread that calls the application.

use std::sync::Arc;

use pyo3::prelude::*;
use reactor::MayWait;
use server::exchange::Exchange;
use server::incoming::{Arrival, BodyError, Incoming};
use server::outside::Outside;
use wire::Millis;

use crate::ffi::outside;

/// Lets others run on this thread while one request waits: gevent's hub.
pub trait Scheduler: Send + Sync {
    /// Returns when the connection has an edge, or at `until`, or earlier; zero: when others
    /// have had their turn.
    ///
    /// # Errors
    /// What is raised in the one that waits: it is killed, or its time is over.
    fn suspend(&self, py: Python<'_>, token: u64, until: Millis) -> PyResult<()>;

    /// From now on edges of this connection are told.
    fn watch(&self, py: Python<'_>, exchange: &mut Exchange);

    /// True for what is raised in requests that a stop has ended.
    fn has_killed(&self, py: Python<'_>, error: &PyErr) -> bool;
}

/// How a request's code waits.
#[derive(Clone, Default)]
pub enum WaitMode {
    /// The thread blocks, without the interpreter.
    #[default]
    Blocking,
    /// Nothing waits on the thread: what the peer does not take is queued, and whoever has
    /// queued too much lets others run.
    Cooperative(Arc<dyn Scheduler>),
}

/// Why a read of a body brought nothing.
pub enum ReadError {
    Body(BodyError),
    Raised(PyErr),
}

impl WaitMode {
    /// Appends up to `most` bytes of a body that is still arriving; zero: it is complete.
    pub fn read(
        &self,
        py: Python<'_>,
        (incoming, token): (&Incoming, u64),
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<usize, ReadError> {
        let Self::Cooperative(scheduler) = self else {
            return incoming.read(into, most, &Detached).map_err(ReadError::Body);
        };
        let before = into.len();
        loop {
            match incoming.try_read(into, most).map_err(ReadError::Body)? {
                Arrival::Some { .. } => return Ok(into.len() - before),
                Arrival::None { until } => scheduler.suspend(py, token, until).map_err(ReadError::Raised)?,
            }
        }
    }
}

/// Waits without the interpreter.
struct Detached;

impl Outside for Detached {
    fn outside(&self, wait: &mut dyn FnMut(&MayWait)) {
        outside(wait);
    }
}
