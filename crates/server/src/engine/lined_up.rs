//! What is counted of requests that wait in lanes, for whoever decides how many threads there are.
//!
//! Knows: figures that the holder of the baton adds to, and that the watchdog reads. Does not know: what follows from them
//! (`growth.rs`).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wire::Millis;

use crate::growth::Early;

/// Requests that are not known to be quick: how many were finished, how many of them with 500 or more, and how many threads
/// there may be for them before long.
#[derive(Debug, Default)]
pub struct LinedUp {
    done: AtomicU64,
    failed: AtomicU64,
    threads_to_come: AtomicU32,
    told_apart: AtomicBool,
    early: EarlyCalls,
}

/// Of those that were finished, those that were begun before a moment; nought: none are counted.
#[derive(Debug, Default)]
struct EarlyCalls {
    before_ms: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    took_ms: AtomicU64,
}

impl LinedUp {
    /// One was finished, at such a time, and had taken so long. Only the holder of the baton says so.
    pub(crate) fn count(&self, status: u16, now_us: u64, took_us: u64) {
        self.done.store(self.done.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let failed = u64::from(status >= 500);
        self.failed.store(self.failed.load(Ordering::Relaxed) + failed, Ordering::Relaxed);
        // The watchdog takes these away, so that they are added as one.
        if now_us.saturating_sub(took_us) / 1000 < self.early.before_ms.load(Ordering::Relaxed) {
            self.early.took_ms.fetch_add(took_us / 1000, Ordering::Relaxed);
            self.early.failed.fetch_add(failed, Ordering::Relaxed);
            self.early.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Quick ones are known, and not counted; as long as none are, all are.
    pub(crate) fn note_told_apart(&self, told_apart: bool) {
        self.told_apart.store(told_apart, Ordering::Relaxed);
    }

    pub(crate) fn are_told_apart(&self) -> bool {
        self.told_apart.load(Ordering::Relaxed)
    }

    /// Those that were begun before such a time are counted apart from now on.
    pub(crate) fn count_early(&self, before: Option<Millis>) {
        self.early.before_ms.store(before.unwrap_or(0), Ordering::Relaxed);
    }

    /// How many of these have ended since it was asked last.
    pub(crate) fn take_early(&self) -> Early {
        Early {
            done: self.early.done.swap(0, Ordering::Relaxed),
            failed: self.early.failed.swap(0, Ordering::Relaxed),
            took_ms: self.early.took_ms.swap(0, Ordering::Relaxed),
        }
    }

    /// How many threads there may be before long, where they become more by themselves (`growth.rs`).
    pub(crate) fn threads_to_come(&self) -> u32 {
        self.threads_to_come.load(Ordering::Relaxed)
    }

    pub(crate) fn expect_threads(&self, threads: u32) {
        self.threads_to_come.store(threads, Ordering::Relaxed);
    }

    /// Finished, and failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_were_begun_before_a_moment_are_counted_apart_until_they_are_taken_away() {
        let lined_up = LinedUp::default();
        lined_up.count(200, 5_000_000, 4_000_000);
        assert_eq!(lined_up.take_early(), Early::default(), "nobody has asked for them");
        lined_up.count_early(Some(1_000));
        for (begun_ms, status) in [(999, 500), (1_000, 500), (1_001, 200), (0, 200)] {
            lined_up.count(status, 5_000_000, 5_000_000 - begun_ms * 1_000);
        }
        assert_eq!(lined_up.take_early(), Early { done: 2, failed: 1, took_ms: 4_001 + 5_000 });
        assert_eq!((lined_up.take_early(), lined_up.counts()), (Early::default(), (5, 2)));
        lined_up.count_early(None);
        lined_up.count(200, 5_000_000, 5_000_000);
        assert_eq!(lined_up.take_early(), Early::default());
    }
}
