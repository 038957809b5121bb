//! What waits to be taken, and is left for a moment to another worker that shall rather have it.
//!
//! Knows: since when, and whether it was taken. Does not know: listeners, or who shall have it and why (`share.rs`). Runs
//! under the baton.
//!
//! ```text
//!          something is there              at so many looks it still waits
//!   TAKES ────────────────────► OFFERS ────────────────────────────────────► TAKES ALL
//!     ▲                           │  at a look nothing waits                     │
//!     └───────────────────────────┴────────────── after a while ─────────────────┘
//! ```
//!
//! Whoever shall have it may be held up or stopped at this very moment, and nobody knows yet: then it costs some moments, and
//! what comes behind it nothing.

use wire::Millis;

/// How it is offered.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// So long it is left before a look, ...
    pub moment: Millis,
    /// ... so many of which in a row find that it waits before it is taken, ...
    pub looks: u32,
    /// ... and everything for so long.
    pub takes_all: Millis,
}

/// New connections, for a worker that draws them. Who is idle takes them in a tenth of a moment; a loop that is blocked has
/// said so, as slow steps usually go, before they are offered again.
pub const NEWCOMERS: Terms = Terms { moment: 5, looks: 1, takes_all: 100 };
/// Those that were given away, for a worker whose loop moves. At one look another may have come just then.
pub const GIFTS: Terms = Terms { moment: 100, looks: 2, takes_all: 1_000 };

/// One kind of what waits.
#[derive(Debug)]
pub struct Offer {
    terms: Terms,
    until: Option<Millis>,
    /// So many looks in a row have found it.
    found: u32,
    takes_all_until: Millis,
}

impl Offer {
    pub fn new(terms: Terms) -> Self {
        Self { terms, until: None, found: 0, takes_all_until: 0 }
    }

    /// Something is there that another worker shall have. Until when it is left; none: it is taken.
    pub fn leave(&mut self, now: Millis) -> Option<Millis> {
        if now < self.takes_all_until {
            return None;
        }
        let until = *self.until.get_or_insert(now + self.terms.moment);
        // What is over is looked at with the next timer, at once.
        Some(until.max(now + 1))
    }

    /// True when it is to be looked whether it still waits.
    #[inline]
    pub fn is_due(&self, now: Millis) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// It was looked. True: it was left in vain, and is taken from now on.
    pub fn looked(&mut self, waits: bool, now: Millis) -> bool {
        self.until = None;
        self.found = if waits { self.found + 1 } else { 0 };
        if self.found < self.terms.looks {
            return false;
        }
        self.found = 0;
        self.takes_all_until = now + self.terms.takes_all;
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_moment_ends_when_it_was_to_end_however_many_come() {
        let mut offer = Offer::new(NEWCOMERS);
        assert!(!offer.is_due(1_000));
        assert_eq!((offer.leave(1_000), offer.leave(1_004)), (Some(1_005), Some(1_005)));
        assert!(!offer.is_due(1_004) && offer.is_due(1_005));
        assert_eq!(offer.leave(1_007), Some(1_008), "nobody has looked yet");
    }

    #[test]
    fn where_it_was_taken_the_next_is_left_as_well() {
        let mut offer = Offer::new(NEWCOMERS);
        offer.leave(1_000);
        assert!(!offer.looked(false, 1_005) && !offer.is_due(1_005));
        assert_eq!(offer.leave(1_005), Some(1_010));
    }

    #[test]
    fn where_it_was_left_in_vain_everything_is_taken_for_a_while() {
        for (now, left) in [(1_005, None), (1_104, None), (1_105, Some(1_110))] {
            let mut offer = Offer::new(NEWCOMERS);
            offer.leave(1_000);
            assert!(offer.looked(true, 1_005));
            assert_eq!(offer.leave(now), left, "{now}");
        }
    }

    #[test]
    fn a_gift_is_taken_when_two_looks_in_a_row_have_found_it() {
        for (looks, taken) in [
            (vec![true], false),
            (vec![true, true], true),
            (vec![true, false, true], false),
            (vec![true, true, true], false),
        ] {
            let (mut offer, mut now, mut last) = (Offer::new(GIFTS), 1_000, false);
            for &waits in &looks {
                offer.leave(now);
                now += GIFTS.moment;
                last = offer.looked(waits, now);
            }
            assert_eq!(last, taken, "{looks:?}");
        }
    }
}
