//! What was found out about something that is kept, remembered with it.
//!
//! Knows: a number. Does not know: what it stands for.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that follows from what it is kept with, and is not zero. Two that look at the same time find the same.
#[derive(Default)]
pub(crate) struct FoundOut(AtomicU64);

impl FoundOut {
    /// What was found out the first time, by whoever asks.
    #[inline]
    pub(crate) fn once(&self, find_out: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let found = find_out();
                self.0.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_out_once() {
        let found = FoundOut::default();
        assert_eq!(found.once(|| 7), 7);
        assert_eq!(found.once(|| unreachable!("it is known")), 7);
    }
}
