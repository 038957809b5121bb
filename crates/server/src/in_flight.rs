//! How many requests are inside the application.
//!
//! Knows: how many were begun, and how many have come back. Does not know: requests, or who asks. Whoever has the baton
//! writes, or the event loop's thread, so that no instruction of a usual request is locked; threads that come back late
//! have no baton, and count apart. Any thread reads.

use std::sync::atomic::{AtomicU32, Ordering};

/// The requests that are inside.
#[derive(Default)]
pub(crate) struct InFlight {
    begun: AtomicU32,
    /// Those that have come back, ...
    back: AtomicU32,
    /// ... and those that have come back to somebody else's lead.
    late: AtomicU32,
}

impl InFlight {
    /// One is begun, by who has the baton.
    #[inline]
    pub fn begins(&self) {
        self.begun.store(self.begun.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One has come back, to who has the baton.
    #[inline]
    pub fn is_back(&self) {
        self.back.store(self.back.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// One has come back, and somebody else leads.
    pub fn is_back_late(&self) {
        self.late.fetch_add(1, Ordering::Release);
    }

    /// How many are inside now. Those that have come back are looked at first, so that what happens meanwhile never makes
    /// more of them than were begun.
    #[inline]
    pub fn count(&self) -> u32 {
        let back = self.back.load(Ordering::Acquire).wrapping_add(self.late.load(Ordering::Acquire));
        self.begun.load(Ordering::Relaxed).wrapping_sub(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_back_are_inside_no_more_whoever_leads() {
        let inside = InFlight::default();
        (0..3).for_each(|_| inside.begins());
        inside.is_back();
        assert_eq!(inside.count(), 2);
        inside.is_back_late();
        inside.is_back();
        assert_eq!(inside.count(), 0);
    }

    #[test]
    fn numbers_go_round() {
        let inside = InFlight {
            begun: AtomicU32::new(u32::MAX),
            back: AtomicU32::new(u32::MAX - 1),
            ..InFlight::default()
        };
        inside.begins();
        assert_eq!(inside.count(), 2);
    }
}
