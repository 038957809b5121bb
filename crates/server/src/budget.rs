//! What is kept for slow readers, all together.
//!
//! Knows: how many bytes of large replies are alive for their peers, and who of them takes least.
//! Does not know: what waits for whom (`output.rs`). Any thread takes and gives back; the loop
//! ends readers (`connections/slow_readers.rs`).
//!
//! A thread that answers waits for its reader while more is kept than may be, as the number of
//! threads is a bound of its own. Under an event loop or a hub nothing can wait for a reply that
//! is complete: there the readers that take least are reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
