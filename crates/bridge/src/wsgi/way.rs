//! How a request's code waits: its thread does, or its greenlet while others run.
//!
//! Knows: what is waited for (a body's next bytes, room for more of the reply). Does not know:
//! greenlets ([`Suspends`] does). Runs on the thread that plays the exchange.

use std::sync::Arc;

use pyo3::prelude::*;
use reactor::PollFor;
use reactor::sys::monotonic_ms;
use server::engine::Stage;
use server::exchange::Exchange;
use server::incoming::{Arrival, BodyError, Incoming};
use wire::Millis;

use super::call::Detached;
use super::iterate::Failure;
use super::reply::{Reply, over};
use crate::ffi::outside;

/// How often a thread that waits for a slow reader looks whether its request still lives, in
/// milliseconds.
const LOOK_MS: Millis = 1000;

/// Lets others run on this thread while one request waits.
pub trait Suspends: Send + Sync {
    /// Returns when the connection has an edge, or at `until`, or earlier; zero: when others
    /// have had their turn.
    ///
    /// # Errors
    /// What is raised in the one that waits: it is killed, or its time is over.
    fn suspend(&self, py: Python<'_>, token: u64, until: Millis) -> PyResult<()>;

    /// From now on edges of this connection are told.
    fn watch(&self, py: Python<'_>, exchange: &mut Exchange);

    /// True for what is raised in requests that a stop has ended.
    fn is_farewell(&self, py: Python<'_>, error: &PyErr) -> bool;
}

/// How a request's code waits.
#[derive(Clone, Default)]
pub enum Way {
    /// The thread waits, without the interpreter.
    #[default]
    Thread,
    /// Nothing waits on the thread: what the peer does not take is queued, and whoever has
    /// queued too much lets others run.
    Suspended(Arc<dyn Suspends>),
}

/// Why a read of a body brought nothing.
pub enum ReadError {
    Body(BodyError),
    Raised(PyErr),
}

impl Way {
    /// A reply is complete, and more is kept for slow readers than may be: a thread waits for its
    /// own; a hub cannot wait for each of its greenlets, and the loop ends readers.
    #[cold]
    pub fn see_off(&self, py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
        let Self::Thread = self else { return Ok(()) };
        reply.engine.counters.kept_waits.add();
        self.make_room(py, reply)
    }

    /// Waits until no more waits for the peer than is allowed. Nothing is borrowed while it
    /// waits, so that the request can end meanwhile.
    #[cold]
    pub fn make_room(&self, py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
        let engine = &*reply.engine;
        engine.counters.reply_waits.add();
        let mut begun = false;
        loop {
            let waits = reply.exchange.with(py, |exchange| {
                if !std::mem::replace(&mut begun, true)
                    && let Self::Suspended(others) = self
                {
                    others.watch(py, exchange);
                }
                exchange.push(engine)?;
                if exchange.has_room(engine) || exchange.may_be_left(engine) {
                    return Ok(None);
                }
                if engine.stage() == Stage::Aborting {
                    return Err(exchange.give_up(engine));
                }
                // No edge will tell of a socket that takes more.
                let until = if exchange.awaits_edge() { exchange.send_until() } else { 0 };
                Ok(Some((Arc::clone(exchange.transport()), exchange.token(), until)))
            });
            // None: the request has ended meanwhile.
            let Some((transport, token, until)) = waits.ok_or_else(over)?? else { return Ok(()) };
            match self {
                Self::Thread => {
                    let patience = until.saturating_sub(monotonic_ms()).clamp(1, LOOK_MS);
                    // What is wrong with the socket shows at the next look.
                    let _ = outside(|let_go| transport.wait(PollFor::Writable, patience, let_go));
                }
                Self::Suspended(others) => {
                    drop(transport);
                    others.suspend(py, token, until)?;
                }
            }
        }
    }

    /// Appends up to `most` bytes of a body that is still arriving; zero: it is complete.
    pub fn read(
        &self,
        py: Python<'_>,
        (incoming, token): (&Incoming, u64),
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<usize, ReadError> {
        let Self::Suspended(others) = self else {
            return incoming.read(into, most, &Detached).map_err(ReadError::Body);
        };
        let before = into.len();
        loop {
            match incoming.try_read(into, most).map_err(ReadError::Body)? {
                Arrival::Some { .. } => return Ok(into.len() - before),
                Arrival::None { until } => others.suspend(py, token, until).map_err(ReadError::Raised)?,
            }
        }
    }
}
