//! How busy a worker is, as the others see it.
//!
//! Knows: threads inside the application, who holds them up, and room for connections. Does not know: what follows
//! from it (`share.rs`). Any thread.

use wire::Millis;

use crate::engine::{Engine, Stage};
use crate::rows::LEAVING;
use crate::scoreboard::{Field, Scoreboard};

/// A thread keeps the interpreter: nothing is done here before it lets go.
const HELD: u64 = 300;
/// Every thread is inside the application, or those that are left are kept for quick requests while others wait.
pub(crate) const FULL: u64 = 200;
/// Has no room for another connection: it would have to close one for it.
pub(crate) const CROWDED: u64 = 100;
/// For so long a worker counts as crowded that had no file descriptor for a connection.
const CROWDED_MS: Millis = 1000;
/// Doubling the threads that are busy makes so much of a difference, ...
const STEP: u64 = 2;
/// ... a thread that has not come back from an overdue request as much as being twice as busy: the
/// worker will be replaced; it is worse only where it burns, which is a strain, ...
const LOST: u64 = 2;
/// ... and that one of them holds up the others more than all of these together: who sleeps costs a
/// request nothing. Where every request burns, all workers are strained, and their number counts.
pub(crate) const STRAINED: u64 = 30;
/// That one perhaps begins to counts as being three times as busy, as it may be done at once: where it has most of the
/// requests that sleep, the other one is as good a place.
const BURNS: u64 = STEP + STEP / 2;
/// One that computes, as was known before it began, counts more than all that sleep, and each of several does, ...
pub(crate) const COMPUTES: u64 = 22;
/// ... up to so many.
const MOST_COMPUTING: u32 = 3;

/// One that takes those of all workers is worse than any where requests sleep, and better than where one computes.
pub(crate) const APART: u64 = COMPUTES + 1;

/// What a worker does, as far as others go by it.
#[derive(Debug, Clone, Copy, Default)]
struct Doing {
    /// Threads inside the application.
    busy: u32,
    held: bool,
    full: bool,
    strained: bool,
    burns: bool,
    /// Threads that are known to compute.
    computing: u32,
    lost: bool,
    crowded: bool,
    /// Those that compute come here from all workers.
    apart: bool,
}

impl Doing {
    fn level(self) -> u64 {
        if self.held {
            return HELD;
        }
        if self.full {
            return FULL;
        }
        let step = STEP * u64::from(u32::BITS - self.busy.leading_zeros());
        let computing = COMPUTES * u64::from(self.computing.min(MOST_COMPUTING));
        let burns = self.burns && !self.strained && computing == 0;
        let more = [
            (self.strained, STRAINED),
            (true, computing),
            (self.apart, APART),
            (burns, BURNS),
            (self.lost, LOST),
            (self.crowded, CROWDED),
        ];
        step + more.into_iter().filter_map(|(is, much)| is.then_some(much)).sum::<u64>()
    }
}

/// A worker at that level still serves, so that it may be replaced a little later.
fn can_wait(level: u64) -> bool {
    level < FULL
}

impl Engine {
    /// How unwilling this worker is: 0 is idle. Steps are wide, so that workers that are busy
    /// alike do not step back for one another.
    pub(crate) fn level(&self, now: Millis) -> u64 {
        let busy = self.in_flight();
        // Whoever held up the others has come back where nobody is inside; in a loop anything may run.
        let inside = busy > 0 || self.config.evented;
        Doing {
            busy,
            held: inside && self.is_held() || self.is_held_from_leader(),
            full: (busy >= self.threads() || self.short_of_threads() > 0) && !self.config.evented,
            // One that draws those who held it up takes them at once: nobody else shall.
            // And of those that are known to burn each counts, for as long as that is usual.
            strained: inside
                && self.is_strained(now)
                && self.draws(now) == 0
                && (self.computing() == 0 || self.is_stuck(now)),
            burns: inside && self.burns(now),
            computing: self.computing(),
            lost: self.deadlines.any_lost(),
            crowded: self.is_crowded(now),
            apart: self.computing.is_apart(),
        }
        .level()
    }

    /// Tells the other workers as soon as a thread has come back late: a client that asks again
    /// at once is quicker than the loop.
    pub(crate) fn show_level(&self) {
        if let Some(scoreboard) = &self.config.scoreboard
            && self.stage() == Stage::Serving
        {
            scoreboard.set(Field::Level, self.level(reactor::sys::monotonic_ms()));
        }
    }

    /// This worker has no room for a new connection. True: another one has, and hears of it.
    pub(crate) fn another_has_room(&self) -> bool {
        let Some(scoreboard) = &self.config.scoreboard else { return false };
        let other = scoreboard.somebody_is_freer(CROWDED);
        if other {
            scoreboard.notify_all();
        }
        other
    }

    /// There was no descriptor for a connection, and none is expected for a while: until then.
    pub(crate) fn is_crowded_for_a_while(&self, now: Millis) -> Millis {
        self.crowded_until(now + CROWDED_MS);
        now + CROWDED_MS
    }

    /// True when connections that wait may be taken by a worker without a free thread: no
    /// other worker has one.
    pub(crate) fn nobody_is_free(&self) -> bool {
        self.config.scoreboard.as_ref().is_none_or(|scoreboard| !scoreboard.somebody_is_freer(FULL))
    }

    /// True where a thread holds up another worker: a new one, which is to take this one's place, would begin on the processors that are
    /// left. Not where this one has no free thread: it is needed at once.
    pub(crate) fn is_bad_moment_to_be_replaced(&self, now: Millis) -> bool {
        let somebody = |scoreboard: &Scoreboard| scoreboard.somebody_is_strained(FULL);
        self.config.scoreboard.as_ref().is_some_and(somebody) && can_wait(self.level(now))
    }

    /// This worker is on its way out.
    pub(crate) fn leave_scoreboard(&self) {
        if let Some(scoreboard) = &self.config.scoreboard {
            scoreboard.set(Field::Level, LEAVING);
            scoreboard.set(Field::Watching, 0);
            scoreboard.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most threads that a worker may have (`--threads`).
    const THREADS: u32 = 1024;

    fn busy(busy: u32) -> Doing {
        Doing { busy, ..Doing::default() }
    }

    fn burns(busy: u32) -> Doing {
        Doing { busy, burns: true, ..Doing::default() }
    }

    fn strained(busy: u32) -> Doing {
        Doing { busy, strained: true, ..Doing::default() }
    }

    #[test]
    fn a_worker_with_a_lost_thread_can_wait_to_be_replaced_while_it_has_a_free_one() {
        for (doing, can) in [
            (Doing { lost: true, ..busy(THREADS) }, true),
            (Doing { lost: true, ..strained(2) }, true),
            (Doing { lost: true, full: true, ..busy(THREADS) }, false),
            (Doing { lost: true, full: true, ..busy(1) }, false),
            (Doing { lost: true, held: true, ..busy(1) }, false),
        ] {
            assert_eq!(can_wait(doing.level()), can, "{doing:?}");
        }
    }

    #[test]
    fn a_worker_that_is_held_up_is_worse_than_any_with_a_free_thread() {
        for sleeping in 0..THREADS {
            let lost = Doing { lost: true, ..busy(sleeping) };
            assert!(strained(1).level() > lost.level(), "{sleeping} threads sleep in the other one");
        }
    }

    #[test]
    fn a_worker_where_a_thread_may_begin_to_burn_is_as_one_with_three_times_as_many_requests() {
        for number in 1..THREADS / 4 {
            assert!(burns(number).level() > busy(2 * number).level(), "{number}");
            assert!(burns(number).level() < busy(4 * number).level(), "{number}");
        }
        let worst = Doing { lost: true, ..burns(THREADS - 1) };
        assert!(worst.level() < strained(1).level());
    }

    #[test]
    fn one_that_is_known_to_compute_counts_more_than_all_that_sleep_and_each_does_up_to_three() {
        let computing = |computing, busy| Doing { computing, burns: true, ..self::busy(busy) }.level();
        assert!(computing(1, 1) > busy(THREADS - 1).level());
        for number in 0..4 {
            let more = computing(number + 1, 1) > computing(number, THREADS - 1);
            assert_eq!(more, number < MOST_COMPUTING, "{number}");
        }
        let crowded = Doing { crowded: true, ..Doing::default() };
        assert!(computing(9, THREADS - 1) < crowded.level());
    }

    #[test]
    fn one_that_takes_those_of_all_is_worse_than_any_where_requests_sleep_and_better_than_where_one_computes()
    {
        let apart = |computing, busy| Doing { computing, apart: true, ..self::busy(busy) }.level();
        assert!(apart(0, 0) > busy(THREADS - 1).level());
        assert!(apart(0, 0) < Doing { computing: 1, ..busy(1) }.level());
        assert!(apart(MOST_COMPUTING, 3) < CROWDED, "what computes still goes there");
    }

    #[test]
    fn of_two_that_are_held_up_the_one_with_fewer_requests_is_better() {
        assert!(strained(1).level() < strained(2).level());
        assert!(strained(2).level() < strained(4).level());
    }

    #[test]
    fn a_worker_without_a_free_thread_is_worse_than_one_that_is_held_up_and_crowded() {
        let full = Doing { full: true, ..busy(8) };
        let held_up = Doing { lost: true, crowded: true, ..strained(THREADS - 1) };
        assert!(held_up.level() < full.level());
        assert!(full.level() < Doing { held: true, ..busy(1) }.level());
    }

    #[test]
    fn a_worker_without_room_is_worse_than_one_that_is_held_up() {
        let crowded = Doing { crowded: true, ..Doing::default() };
        assert!(strained(THREADS - 1).level() < crowded.level());
    }
}
