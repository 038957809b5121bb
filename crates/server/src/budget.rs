//! What is kept for slow readers, all together.
//!
//! Knows: how many bytes of large replies are alive for their peers, and who of them takes least.
//! Does not know: what waits for whom (`output.rs`). Any thread takes and gives back; the loop
//! ends readers under the baton.
//!
//! A thread that answers waits for its reader while more is kept than may be, as the number of
//! threads is a bound of its own. Under an event loop or a hub nothing can wait for a reply that
//! is complete: there the readers that take least are reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::Phase;
use crate::turn::Loop;

/// Bytes that are kept, and how many may be.
#[derive(Debug)]
pub struct Budget {
    kept: AtomicU64,
    most: u64,
}

/// Some of them: given back when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { kept: AtomicU64::new(0), most })
    }

    /// So many more are kept.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Share {
        let bytes = bytes as u64;
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        Share { budget: Arc::clone(self), bytes }
    }

    /// More is kept than may be.
    pub fn is_over(&self) -> bool {
        self.kept.load(Ordering::Relaxed) > self.most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Loop {
    /// Ends readers until no more is kept than may be, first those whose patience ends first,
    /// and at first none that takes something when it is asked once more. `newest` has just come
    /// and stays: one reply is served whatever its size.
    #[cold]
    pub(crate) fn keep_budget(&mut self, newest: u64) {
        if !self.engine.budget.is_over() {
            return;
        }
        let mut readers: Vec<_> = self
            .slots
            .home()
            .filter(|(token, connection, _)| *token != newest && connection.sending.keeps())
            .map(|(token, connection, _)| (connection.patience.until(), token))
            .collect();
        readers.sort_unstable();
        for forgives in [true, false] {
            for (_, token) in &readers {
                if !self.engine.budget.is_over() {
                    return;
                }
                self.ask_once_more(*token, forgives);
            }
        }
    }

    /// Sends a reader what it takes, and resets it if that is nothing or none is forgiven.
    fn ask_once_more(&mut self, token: u64, forgives: bool) {
        let Some(mut connection) = self.slots.lift(token) else { return };
        let before = connection.sending.waiting();
        let lives = self.flush(&mut connection).is_ok();
        let takes = connection.sending.waiting() < before;
        if lives && (forgives && takes || !connection.sending.keeps()) {
            debug_assert!(
                matches!(connection.phase, Phase::Flushing(_)),
                "only who is sent to keeps something"
            );
            self.park(connection);
            // It may have taken all, and no edge will tell.
            return self.slots.resume(token);
        }
        self.engine.counters.kept_resets.add();
        connection.transport.reset_at_close();
        self.close(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_may_be_as_much_as_the_limit_and_no_more() {
        for (bytes, over) in [(99, false), (100, false), (101, true)] {
            let budget = Budget::new(100);
            let share = budget.take(bytes);
            assert_eq!(budget.is_over(), over, "{bytes}");
            let more = budget.take(100);
            assert!(budget.is_over());
            drop((share, more));
            assert!(!budget.is_over());
        }
    }
}
