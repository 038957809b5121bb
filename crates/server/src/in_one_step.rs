//! Whether requests end without having waited for anything, lately.
//!
//! Knows: how many in a row have. Does not know: what follows. Runs on the event loop's thread.

use std::sync::atomic::{AtomicU32, Ordering};

/// After so many in a row the next ones are taken to end so, too.
const QUIET: u32 = 32;

/// How many requests in a row have ended without having waited for anything.
#[derive(Default)]
pub struct InOneStep(AtomicU32);

impl InOneStep {
    /// One has ended so.
    #[inline]
    pub fn note(&self) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_add(1), Ordering::Relaxed);
    }

    /// One has not, or has done something with its task.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The next ones are likely to end so, too.
    pub fn is_usual(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_thirty_two_in_a_row_it_is_usual_and_after_one_that_waits_no_more() {
        let steps = InOneStep::default();
        for ended in 0..=QUIET + 1 {
            assert_eq!(steps.is_usual(), ended >= QUIET, "{ended}");
            steps.note();
        }
        steps.reset();
        assert!(!steps.is_usual());
    }
}
