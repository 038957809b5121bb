//! Requests that compute run apart: one worker takes them from all others and gives its idle connections to those.
//!
//! Knows: what this worker has done of late, and by the scoreboard what the others have. Does not know: when it is worth while
//! (`apart.rs`), or which requests those are (`turn/computing.rs`). Runs under the baton.
//!
//! That worker is the first of those that live, so that all agree on it, and it says so on the scoreboard. It counts as busier than
//! any where requests only sleep (`load.rs`), so that new connections go elsewhere. Requests that compute come to it on a way of
//! their own, which nobody else watches; what waits there for too long is taken back by whoever gave it, and what nobody
//! gave who still lives, by anybody.

use reactor::sys::process_cpu_ns;
use wire::Millis;

use super::{LOOK_MS, PORTION, Sharing};
use crate::apart::{BEGINS_AFTER, Figures, Share, Together, WINDOW_MS};
use crate::connections::Connections;
use crate::engine::Engine;
use crate::listeners::Listeners;
use crate::load::CROWDED;
use crate::log::Level;
use crate::poller::Poller;
use crate::slots::NEVER;

/// It begins where a request that computes was found to hold up others so long ago at most.
const HELD_UP_MS: Millis = 4_000;
/// So long after an end it may begin again, ...
const AGAIN_MS: Millis = 10_000;
/// ... and so long after it has found that nobody gives what computes.
const IN_VAIN_MS: Millis = 120_000;
/// So many are there at most, inside or waiting: one more would wait for too long.
const MOST_HERE: u32 = 3;
/// So often idle connections are given away, and no more often than this where there were none.
const GIVE_MS: Millis = 20;
const NONE_MS: Millis = 200;

/// True: one more may come to so many.
fn may_come(here: u32) -> bool {
    here < MOST_HERE
}

/// What one worker knows of it.
#[derive(Debug)]
pub(super) struct Apart {
    figures: Figures,
    share: Share,
    /// When the window began, and what had been counted by then; never: none has.
    began: Millis,
    counted: (u64, u64),
    used_us: u64,
    requests: u64,
    /// When it is over.
    ends_at: Millis,
    /// For so many windows it has been worth while, or has been so.
    windows: u32,
    not_before: Millis,
    /// When idle connections are given away.
    gives_at: Millis,
    /// When it is looked whether what was given has been taken, and whether some waited at the last look.
    looks_at: Millis,
    waited: bool,
}

impl Default for Apart {
    fn default() -> Self {
        Self {
            figures: Figures::default(),
            share: Share::default(),
            began: NEVER,
            counted: (0, 0),
            used_us: 0,
            requests: 0,
            ends_at: 0,
            windows: 0,
            not_before: 0,
            gives_at: NEVER,
            looks_at: NEVER,
            waited: false,
        }
    }
}

impl Apart {
    /// When there is something to do; an event loop has nothing to do with it.
    #[inline]
    pub fn next(&self) -> Millis {
        self.ends_at.min(self.wakes_at())
    }

    /// When there is something to do even if nothing happens.
    #[inline]
    pub fn wakes_at(&self) -> Millis {
        self.gives_at.min(self.looks_at)
    }

    /// Nothing of it is for this worker.
    pub fn never(&mut self) {
        self.ends_at = NEVER;
    }

    /// A window is over, and the next one begins. False: it was the first look.
    fn close_window(&mut self, engine: &Engine, now: Millis) -> bool {
        let (counted, used_us) = (engine.computing.so_far(), process_cpu_ns() / 1000);
        let requests = engine.counters.own_requests();
        let is_first = self.began == NEVER;
        if !is_first {
            let calls = counted.0 - self.counted.0;
            let others = (requests - self.requests).saturating_sub(calls);
            let computed = (calls, counted.1 - self.counted.1);
            self.figures.add(now - self.began, computed, used_us.saturating_sub(self.used_us), others);
            let Share { is_apart, takes, .. } = self.share;
            self.share = Share { is_apart, takes, ..self.figures.share() };
        }
        (self.began, self.ends_at) = (now, now + WINDOW_MS);
        (self.counted, self.used_us, self.requests) = (counted, used_us, requests);
        !is_first
    }
}

impl Sharing {
    /// Does what is due: figures are told, it is decided, connections go.
    #[cold]
    pub(super) fn look_apart(
        &mut self,
        listeners: &mut Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) {
        let now = poller.now;
        if now >= self.apart.ends_at {
            // A new worker has no figures yet, but may find what waits for one that is gone, with whoever gave it.
            if self.apart.close_window(&self.engine, now) {
                self.decide_apart(listeners, connections, poller);
            }
            self.take_over_apart(listeners);
        }
        if now >= self.apart.looks_at {
            let waits = listeners.any_apart();
            if waits && self.apart.waited {
                listeners.take_neglected_apart();
            }
            self.apart.waited = waits;
            self.apart.looks_at = if waits { now + LOOK_MS } else { NEVER };
        }
        if now >= self.apart.gives_at {
            let given = self.give_idle(listeners, connections, poller);
            self.apart.gives_at = now + if given == PORTION { GIVE_MS } else { NONE_MS };
        }
    }

    fn decide_apart(&mut self, listeners: &mut Listeners, connections: &mut Connections, poller: &Poller) {
        let (engine, now) = (self.engine.clone(), poller.now);
        let Some(scoreboard) = &engine.config.scoreboard else { return };
        scoreboard.show_share(self.apart.share);
        let (mut own, mut is_first, mut before, mut another) = (None, true, false, false);
        let shares = scoreboard.shares().map(|(row, share)| {
            let own = *own.get_or_insert(row);
            is_first &= row >= own;
            another |= share.is_apart && row != own;
            before |= share.is_apart && row < own;
            share
        });
        let together = Together::of(shares);
        let serves = !connections.shutdown().has_begun() && listeners.is_open();
        if self.apart.share.is_apart {
            self.apart.windows += 1;
            let windows = self.apart.windows;
            if !serves || before || engine.is_stuck(now) || !together.still_fits(windows) {
                let pause = if together.comes(windows) { AGAIN_MS } else { IN_VAIN_MS };
                self.end_apart(now + pause, listeners, poller);
                self.say_apart("takes requests like all other workers again", together);
            }
        } else {
            // Connections that are encrypted stay where they are, so that nothing would come. Where it is switched off what a worker
            // of before was to take is looked for all the same.
            let may = engine.config.computing_apart && engine.porch.is_none();
            let begins = may
                && serves
                && is_first
                && !another
                && now >= self.apart.not_before
                && engine.computing.held_up_at() + HELD_UP_MS > now
                && connections.handover().may_begin(now)
                && listeners.apart_has_room()
                && together.fits();
            self.apart.windows = if begins { self.apart.windows + 1 } else { 0 };
            if self.apart.windows >= BEGINS_AFTER {
                self.begin_apart(together, listeners, poller);
            }
        }
    }

    /// Takes what waits there where no worker does.
    fn take_over_apart(&self, listeners: &mut Listeners) {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return };
        if listeners.any_apart() && !scoreboard.shares().any(|(_, share)| share.is_apart) {
            listeners.take_neglected_apart();
        }
    }

    fn begin_apart(&mut self, together: Together, listeners: &mut Listeners, poller: &Poller) {
        self.show_apart(true);
        self.apart.windows = 0;
        self.apart.gives_at = poller.now;
        listeners.take_apart(true, &poller.reactor);
        self.say_apart(
            "takes the requests that compute from all workers, and leaves the others to those",
            together,
        );
    }

    fn end_apart(&mut self, not_before: Millis, listeners: &mut Listeners, poller: &Poller) {
        self.show_apart(false);
        self.apart.windows = 0;
        self.apart.gives_at = NEVER;
        self.apart.not_before = not_before;
        listeners.take_apart(false, &poller.reactor);
    }

    /// Tells the other workers and this one's level.
    fn show_apart(&mut self, is_apart: bool) {
        self.engine.computing.set_apart(is_apart);
        self.apart.share.is_apart = is_apart;
        self.apart.share.takes = is_apart;
        if let Some(scoreboard) = &self.engine.config.scoreboard {
            scoreboard.show_share(self.apart.share);
        }
    }

    /// Says whether one more may come. Called before every wait of the worker that takes them.
    #[cold]
    pub(super) fn show_room_apart(&mut self) {
        let takes = may_come(self.engine.computing.here());
        if takes != self.apart.share.takes
            && let Some(scoreboard) = &self.engine.config.scoreboard
        {
            self.apart.share.takes = takes;
            scoreboard.show_share(self.apart.share);
        }
    }

    fn say_apart(&self, what: &str, together: Together) {
        let Share { computed, others, .. } = together.all;
        let percent = computed / 10;
        self.engine.log.say(
            Level::Info,
            &format!("{what}: they use {percent} % of a processor beside {others} other requests a second (docs/workers.md)"),
        );
    }

    /// Gives some idle connections to workers that are sound. How many have gone.
    fn give_idle(
        &mut self,
        listeners: &Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> u64 {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return 0 };
        let may_give = !connections.shutdown().has_begun() && connections.handover().may_begin(poller.now);
        // Where it watches itself, it is as good a place as the others.
        if listeners.are_watched()
            || !may_give
            || !scoreboard.somebody_is_sound(self.level, self.engine.config.limits.connections)
        {
            return 0;
        }
        connections.give_idle(PORTION, poller)
    }

    /// A request that computes goes to the worker that takes those of all. False: there is none, or it has enough of them.
    pub fn goes_apart(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return false };
        let may_give = !connections.shutdown().has_begun() && connections.handover().may_begin(poller.now);
        may_give
            && !self.apart.share.is_apart
            && scoreboard.somebody_takes_computing(CROWDED, self.engine.config.limits.connections)
    }

    /// One has gone there: it is looked whether it was taken.
    pub fn gave_apart(&mut self, now: Millis) {
        if self.apart.looks_at == NEVER {
            self.apart.looks_at = now + LOOK_MS;
        }
    }

    /// There is no room for what comes, or this worker ends: what waits goes to anybody, who takes new connections.
    pub fn stays_with_others(&mut self, listeners: &mut Listeners, poller: &Poller) {
        listeners.take_apart(false, &poller.reactor);
        let (takes, gives) = (self.apart.share.is_apart, self.apart.looks_at != NEVER);
        if takes {
            self.show_apart(false);
            self.apart.windows = 0;
            self.apart.gives_at = NEVER;
            self.apart.not_before = poller.now + AGAIN_MS;
        }
        if takes || gives {
            listeners.pass_on_apart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_are_there_at_most() {
        for (here, may) in [(MOST_HERE - 1, true), (MOST_HERE, false), (MOST_HERE + 1, false)] {
            assert_eq!(may_come(here), may, "{here}");
        }
    }

    #[test]
    fn of_a_window_that_is_told_as_much_as_was_counted_in_it() {
        let mut apart = Apart::default();
        let engine =
            crate::turn::Loop::new(crate::engine::Config::default(), crate::log::Log::none(), Vec::new())
                .map(|turn| turn.engine().clone())
                .expect("a loop");
        assert!(!apart.close_window(&engine, 1_000), "nothing is known before the first window");
        engine.computing.ended(40_000);
        engine.computing.ended(60_000);
        for (now, computed, calls) in [(2_000, 100, 20), (3_000, 46, 9)] {
            assert!(apart.close_window(&engine, now));
            assert_eq!((apart.share.computed, apart.share.calls), (computed, calls), "{now}");
        }
    }
}
