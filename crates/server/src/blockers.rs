//! Requests of which a step was seen to hold up the event loop.
//!
//! Knows: which, by the slots that the statistics have given them. Does not know: what follows (`staying.rs`, `share.rs`). The
//! watchdog says who does; the loop's thread asks, and takes back what is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::statistics::layout::SLOT_COUNT;
use crate::statistics::phase::NO_SLOT;

/// A bit for each slot, and for the number that stands for none.
const WORDS: usize = SLOT_COUNT / 64 + 1;

/// Those that are inside.
pub struct Blockers {
    words: [AtomicU64; WORDS],
    /// There may be some.
    any: AtomicBool,
}

impl Default for Blockers {
    fn default() -> Self {
        Self { words: [const { AtomicU64::new(0) }; WORDS], any: AtomicBool::new(false) }
    }
}

impl Blockers {
    fn at(&self, slot: u16) -> Option<(&AtomicU64, u64)> {
        let word = self.words.get(usize::from(slot) / 64).filter(|_| slot != NO_SLOT)?;
        Some((word, 1 << (slot % 64)))
    }

    /// A step of the request in that slot holds up the loop, or does not after all.
    pub fn note(&self, slot: u16, blocks: bool) {
        let Some((word, bit)) = self.at(slot) else { return };
        if blocks {
            word.fetch_or(bit, Ordering::Relaxed);
            self.any.store(true, Ordering::Release);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// True where a step of the request in that slot has held up the loop.
    #[inline]
    pub fn has(&self, slot: u16) -> bool {
        self.any.load(Ordering::Relaxed)
            && self.at(slot).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// The request in that slot is over. True: it has held up the loop.
    #[inline]
    pub fn take(&self, slot: u16) -> bool {
        self.any.load(Ordering::Relaxed) && self.take_now(slot)
    }

    #[cold]
    fn take_now(&self, slot: u16) -> bool {
        // First: one that is told of meanwhile is looked for again.
        self.any.swap(false, Ordering::Acquire);
        let found =
            self.at(slot).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0);
        if self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0) {
            self.any.store(true, Ordering::Relaxed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_blocked_is_told_once_and_by_no_other_request() {
        let blockers = Blockers::default();
        let last = SLOT_COUNT as u16;
        assert!(!blockers.has(1) && !blockers.take(1));
        for slot in [1, 63, 64, last] {
            blockers.note(slot, true);
        }
        assert!(!blockers.has(2) && !blockers.take(2) && !blockers.take(NO_SLOT));
        for slot in [last, 64, 63, 1] {
            assert!(blockers.has(slot) && blockers.take(slot), "{slot}");
            assert!(!blockers.has(slot) && !blockers.take(slot), "{slot}");
        }
        assert!(!blockers.any.load(Ordering::Relaxed), "requests that are over cost a look at one flag");
    }

    #[test]
    fn nobody_has_blocked_where_it_was_the_machine_or_no_request() {
        let blockers = Blockers::default();
        blockers.note(3, true);
        blockers.note(3, false);
        blockers.note(NO_SLOT, true);
        blockers.note(u16::MAX, true);
        assert!([3, NO_SLOT, u16::MAX].iter().all(|&slot| !blockers.take(slot)));
    }
}
