//! One thread holds up the others: until when, by what the leader's waits have said.
//!
//! Knows: some times. Does not know: how they are found (`strain.rs`), or what follows from them (`share.rs`, `load.rs`). The
//! leader writes; any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::monotonic_ms;
use wire::Millis;

use super::Engine;
use crate::strain::{FRESH_MS, STRAIN_MS, Strain};

/// Where requests compute of which it was known before, and known how long they take, clients move for it only after so long
/// without a break: one such request after the other is no reason, but one that never ends may hide among them.
const KNOWN_MS: Millis = 1_000;

impl Engine {
    /// The leader has come back from a wait, and that has said something, or nothing.
    #[inline]
    pub(crate) fn strained(&self, strain: &Strain) {
        let burns = strain.burns_until();
        if burns != self.burns_until.load(Ordering::Relaxed) {
            self.burns_until.store(burns, Ordering::Relaxed);
            self.strained_until.store(strain.until(), Ordering::Relaxed);
            if burns > 0 {
                self.computing.others_wait(burns - FRESH_MS);
            }
            let is_stuck = match self.computing() {
                0 => strain.is_stuck_since(self.computing.over_at.load(Ordering::Relaxed)),
                _ => strain.lasted_since(0) >= KNOWN_MS,
            };
            let until = if is_stuck { strain.stuck_until() } else { 0 };
            self.stuck_until.store(until, Ordering::Relaxed);
        }
    }

    /// So many requests are inside that compute, as others of their routes have, and so many that do so for long.
    #[inline]
    pub(crate) fn note_computing(&self, requests: u32, burning: u32) {
        self.computing.note_burning(burning);
        if requests == 0 && self.computing() > 0 {
            self.computing.over_at.store(monotonic_ms(), Ordering::Relaxed);
        }
        self.computing.inside.store(requests, Ordering::Relaxed);
    }

    /// True where a thread burns, by a sign that is fresh: who comes new is better off elsewhere.
    pub(crate) fn burns(&self, now: Millis) -> bool {
        self.is_shown(&self.burns_until, FRESH_MS, now)
    }

    /// How many requests are inside of which it was known that they would compute.
    #[inline]
    pub(crate) fn computing(&self) -> u32 {
        self.computing.inside.load(Ordering::Relaxed)
    }

    /// True while one thread holds up the others.
    pub(crate) fn is_strained(&self, now: Millis) -> bool {
        self.computing.burns()
            || self.is_shown(&self.strained_until, STRAIN_MS, now)
            || self.after_held_until.load(Ordering::Relaxed) > now
    }

    /// True while one has done so for longer than is usual, or is known to: clients are better off elsewhere.
    pub(crate) fn is_stuck(&self, now: Millis) -> bool {
        self.computing.burns()
            || self.is_shown(&self.stuck_until, STRAIN_MS, now)
            || self.after_held_until.load(Ordering::Relaxed) > now
    }

    /// True until then, where the last sign, so long before that, was not of one that was known to compute and is over.
    fn is_shown(&self, until: &AtomicU64, lasts: Millis, now: Millis) -> bool {
        let until = until.load(Ordering::Relaxed);
        until > now && until - lasts > self.computing.over_at.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::Config;
    use crate::log::Log;
    use crate::turn::Loop;

    /// An engine, and waits of its leader that last for so long.
    fn burnt(since: Millis, lasts: Millis) -> (Arc<Engine>, Strain) {
        let config = Config { threads: 8, ..Config::default() };
        let turn = Loop::new(config, Log::none(), Vec::new()).expect("a loop");
        let strain = Strain::new();
        for now in since..=since + lasts {
            strain.note(520, now);
        }
        (Arc::clone(turn.engine()), strain)
    }

    #[test]
    fn beside_what_is_known_to_compute_nobody_moves_before_a_second_without_a_break() {
        for (computing, lasts, is_stuck) in
            [(0, 119, false), (0, 120, true), (1, 999, false), (1, 1_000, true)]
        {
            let (engine, strain) = burnt(1_000, lasts);
            engine.note_computing(computing, 0);
            engine.strained(&strain);
            assert_eq!(engine.is_stuck(1_001 + lasts), is_stuck, "{computing}, {lasts} ms");
            assert!(engine.is_strained(1_001 + lasts));
        }
    }

    #[test]
    fn who_is_known_to_compute_for_long_holds_up_all_others_from_the_beginning_to_the_end() {
        let (engine, _) = burnt(1_000, 0);
        for burning in [0, 1, 2, 0] {
            engine.note_computing(0, burning);
            assert_eq!((engine.is_strained(2_000), engine.is_stuck(2_000)), (burning > 0, burning > 0));
        }
    }

    #[test]
    fn signs_of_what_was_known_to_compute_tell_nothing_once_it_is_over() {
        let now = monotonic_ms();
        let (engine, strain) = burnt(now, 200);
        engine.note_computing(1, 0);
        engine.note_computing(0, 0);
        let over = engine.computing.over_at.load(Ordering::Relaxed);
        assert!(over >= now);
        for (over, is_strained, is_stuck) in
            [(now + 200, false, false), (now + 199, true, false), (now + 80, true, true)]
        {
            engine.computing.over_at.store(over, Ordering::Relaxed);
            engine.burns_until.store(0, Ordering::Relaxed);
            engine.strained(&strain);
            let told = (engine.burns(now + 201), engine.is_strained(now + 201), engine.is_stuck(now + 201));
            assert_eq!(told, (is_strained, is_strained, is_stuck), "{}", over - now);
        }
    }

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
