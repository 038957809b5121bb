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

    /// True while one has done so for longer than is usual: clients are better off elsewhere.
    pub(crate) fn is_stuck(&self, now: Millis) -> bool {
        [&self.stuck_until, &self.after_held_until]
            .into_iter()
            .any(|until| until.load(Ordering::Relaxed) > now)
    }
}

#[cfg(test)]
mod tests {
    use reactor::sys::monotonic_ms;

    use super::*;
    use crate::engine::Config;
    use crate::log::Log;
    use crate::turn::Loop;

    #[test]
    fn a_worker_counts_as_busier_from_the_first_sign_on_that_a_thread_burns_until_nobody_does() {
        let turn =
            Loop::new(Config { threads: 8, ..Config::default() }, Log::none(), Vec::new()).expect("a loop");
        let (engine, strain, now) = (turn.engine(), Strain::new(), monotonic_ms());
        engine.inside.begins();
        let one_is_busy = engine.level(now);
        strain.note(520, now);
        engine.strained(&strain);
        assert!(engine.level(now) > one_is_busy && engine.burns(now + 9) && !engine.burns(now + 10));
        assert!(!engine.is_strained(now) && !engine.is_stuck(now), "that may be a short request");
        assert_eq!(engine.level(now + 10), one_is_busy, "nobody has seen more of it");
        for wait in [0, 0, 0, 10] {
            strain.note(0, now + wait);
        }
        engine.strained(&strain);
        assert_eq!(engine.level(now), one_is_busy, "nobody burns any more");
    }
}
