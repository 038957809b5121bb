//! Connections of many streams that shall be looked at, as other threads have done something with their streams.
//!
//! Knows: their tokens, and how the loop is woken. Does not know: what has been done. Any thread asks; the loop takes.

use std::sync::Arc;

use reactor::Waker;

use crate::inbox::Inbox;

/// What the threads of one loop ask of it.
pub struct Visits {
    tokens: Inbox<u64>,
    waker: Arc<Waker>,
}

impl Visits {
    /// Whoever asks wakes the loop by this.
    pub fn new(waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { tokens: Inbox::default(), waker })
    }

    /// Has the connection of a token looked at.
    pub fn ask(&self, token: u64) {
        if self.tokens.put(token) {
            self.waker.wake();
        }
    }

    /// Those that were asked for since the last call.
    pub fn take(&self) -> Vec<u64> {
        if self.tokens.is_full() { self.tokens.take() } else { Vec::new() }
    }
}
