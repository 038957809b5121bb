//! One thread holds up the others: until when, by what the leader's waits have said.
//!
//! Knows: some times. Does not know: how they are found (`strain.rs`), or what follows from them (`share.rs`, `load.rs`). The
//! leader writes; any thread reads.

use std::sync::atomic::Ordering;

use wire::Millis;

use super::Engine;
use crate::strain::Strain;

impl Engine {
    /// The leader has come back from a wait, and that has said something, or nothing.
    #[inline]
    pub(crate) fn strained(&self, strain: &Strain) {
        let burns = strain.burns_until();
        if burns != self.burns_until.load(Ordering::Relaxed) {
            self.burns_until.store(burns, Ordering::Relaxed);
            self.strained_until.store(strain.until(), Ordering::Relaxed);
            self.lasts_until.store(strain.lasts_until(), Ordering::Relaxed);
            self.stuck_until.store(strain.stuck_until(), Ordering::Relaxed);
        }
    }

    /// True where a thread burns, by a sign that is fresh: who comes new is better off elsewhere.
    pub(crate) fn burns(&self, now: Millis) -> bool {
        self.burns_until.load(Ordering::Relaxed) > now
    }

    /// True while one thread holds up the others.
    pub(crate) fn is_strained(&self, now: Millis) -> bool {
        [&self.strained_until, &self.after_held_until]
            .into_iter()
            .any(|until| until.load(Ordering::Relaxed) > now)
    }

    /// True where one has done so for longer than is usual, and is taken to go on: what arrives is better off elsewhere.
    #[inline]
    pub(crate) fn passes_on(&self, now: Millis) -> bool {
        self.lasts_until.load(Ordering::Relaxed) > now
    }

    /// True while one has done so for much longer: so are the clients that are here.
    pub(crate) fn is_stuck(&self, now: Millis) -> bool {
        [&self.stuck_until, &self.after_held_until]
            .into_iter()
            .any(|until| until.load(Ordering::Relaxed) > now)
    }
}
