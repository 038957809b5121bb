//! How many threads there may be (`--threads auto`): more while they finish more requests, fewer where they do not.
//!
//! Knows: windows of figures, and what was tried before. Does not know: threads, clocks, requests. A pure state machine;
//! the watchdog gives it a window each half second (`pool/growing.rs`).
//!
//! ```text
//!   WATCHING ──requests wait──► TRYING more ──they finish more──► WATCHING (and the next step is larger)
//!      ▲                            └──they do not: back──► TRYING fewer ──as many are finished──► fewer still
//!      └──────────────── a rest, longer each time ◄──── back ◄──── fewer are finished
//! ```
//!
//! Where nobody waits for a thread, all may wait inside for one another (a pool of ten connections, a lock, a processor). Calls
//! that take twice as long as they did are the sign of it: then fewer than are inside are tried as well, and taken back at once
//! where less is finished. If it was for nothing, calls take that long by themselves, which is not asked again.
//!
//! Nothing is asked of what requests wait for: a database that takes ten connections finishes as much with ten threads as
//! with forty, and that is seen. Where a view computes, more threads finish no more, and that is seen as well.

use wire::Millis;

pub(crate) use self::advice::Advice;
use self::climb::Climb;
use self::window::{ENOUGH, LONG_WINDOWS, MOST_WINDOWS};
pub use self::window::{Early, Window};

mod advice;
mod climb;
mod window;

/// Where it begins, unless fewer are allowed.
pub const START: u32 = 32;
/// Fewer are not tried.
pub const LEAST: u32 = 4;
/// Calls that take long have to end before anything is known of the threads that they were begun with: it is waited for so many times as
/// long as those before took, but not longer than half a minute.
const LONG_CALLS: f64 = 1.5;
const LONGEST_TRIAL_MS: f64 = 30_000.0;
/// More threads must finish more: so much of the share that is more of them inside. Where threads are what is missing it is
/// all of it, and where they are not nothing.
const GAIN: f64 = 0.5;
/// Fewer may finish less: so much of the share that was taken away.
const LOSS: f64 = 0.25;
/// Twice as many failures as before, and no fewer than one in so many: more threads are too much for what is behind.
const FAILURES: f64 = 0.02;
/// After both directions were tried for nothing, for so long nothing is; twice as long each time, ...
const REST_MS: Millis = 30_000;
/// ... but not longer than this.
const LONGEST_REST_MS: Millis = 600_000;
/// Threads beyond [`START`] of which half are idle for so long become fewer, by one in eight.
const IDLE_MS: Millis = 60_000;

/// Calls that take so many times as long as they did may wait for one another, ...
const LONGER: f64 = 2.0;
/// ... where no fewer are inside and those have been for so many windows, ...
const CROWD: u32 = 8;
const CROWDED_WINDOWS: u32 = 20;
/// ... and what calls take says something by so many of them.
const CALLS: u64 = 20;
/// Of those inside so many are tried.
const CLOSER: f64 = 0.75;

/// What is being tried.
#[derive(Debug)]
struct Trial {
    from: u32,
    before: Window,
    after: Window,
    /// Requests that were begun before count for nothing: the first window is left out.
    begun: bool,
    /// Fewer than were inside, though nobody waited.
    closer: bool,
    /// More, before anything was known of what they finish.
    climb: Option<Climb>,
}

impl Trial {
    /// The share of those inside before for whom there is no thread among so many.
    fn share(&self, threads: u32) -> f64 {
        1.0 - (f64::from(threads) / self.before.inside().max(1.0)).min(1.0)
    }

    /// It is known what has come of it; `window`: the last one.
    fn is_over(&self, window: &Window, more: bool) -> bool {
        if !more && !self.closer {
            return self.after.is_enough_for_fewer();
        }
        if !more || self.before.done >= ENOUGH {
            return self.after.is_enough();
        }
        // While those are inside that were not before it is waited for what they finish.
        let lasts_ms = (LONG_CALLS * self.before.call_ms()).min(LONGEST_TRIAL_MS);
        let may_be_seen = window.inside() > self.before.inside() && (self.after.ms as f64) < lasts_ms;
        self.after.is_enough_for_half() || self.after.is_enough() && !may_be_seen
    }

    /// So much less was finished in a window that it is not by chance.
    fn loses(&self, window: &Window, threads: u32) -> bool {
        window.rate() < self.before.rate() * (1.0 - 0.5 * self.share(threads))
    }
}

/// The number of threads of one worker, and how it came about.
#[derive(Debug)]
pub struct Growth {
    most: u32,
    threads: u32,
    step: u32,
    /// More did not help: fewer are tried next.
    downward: bool,
    seen: Window,
    /// The shortest time that calls have taken, in milliseconds, and windows in which they took much longer.
    call_ms: f64,
    crowded: Window,
    trial: Option<Trial>,
    rest_ms: Millis,
    rest_until: Millis,
    idle_since: Option<Millis>,
    /// Why it does not try more, once that was told: it is not told again before something else happens.
    told: Option<Bound>,
    /// More are not tried again before anything is known of them until then.
    climb_after: Millis,
    climb_rest_ms: Millis,
    /// Until then nobody may wait only because those are still inside that were begun when there were more threads.
    drains_until: Millis,
}

/// What keeps it from more threads, though requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// There are as many as may be.
    Most,
    Memory(Memory),
}

/// Of which memory four fifths would be taken with more threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// What the control group may have.
    Container,
    /// What the worker may hold.
    Worker,
}

impl Memory {
    fn told(self) -> &'static str {
        match self {
            Memory::Container => "the container's (its control group's)",
            Memory::Worker => "--max-worker-memory",
        }
    }
}

/// A new number of threads, or the reason why the one that is tried stays.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    pub threads: u32,
    pub why: String,
}

impl Growth {
    /// `most`: there are never more.
    pub fn new(most: u32) -> Self {
        Self::beginning(START, most)
    }

    /// With as many as other workers of the server have come to.
    pub fn beginning(threads: u32, most: u32) -> Self {
        let threads = threads.min(most);
        Self {
            most,
            threads,
            step: first_step(threads),
            downward: false,
            seen: Window::default(),
            call_ms: f64::MAX,
            crowded: Window::default(),
            trial: None,
            rest_ms: REST_MS,
            rest_until: 0,
            idle_since: None,
            told: None,
            climb_after: 0,
            climb_rest_ms: REST_MS,
            drains_until: 0,
        }
    }

    /// How many there may be now.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// How many there may come to be while requests wait: as many as are allowed, where more are being tried or are next. What
    /// they will finish is not known yet.
    pub fn may_come_to(&self, now: Millis) -> u32 {
        let more = match &self.trial {
            Some(trial) => self.threads > trial.from,
            None => !self.downward && now >= self.rest_until && self.told.is_none(),
        };
        if more { self.most } else { self.threads }
    }

    /// A window has passed. `short_of`: which memory there is not enough of for more threads.
    pub fn look(&mut self, window: &Window, short_of: Option<Memory>, now: Millis) -> Option<Change> {
        if window.counts_others {
            return self.begin_anew();
        }
        match self.trial.take() {
            Some(trial) if trial.climb.is_some() => self.climb(trial, window, short_of, now),
            Some(trial) => self.judge(trial, window, now),
            None => self.watch(window, short_of, now),
        }
    }

    /// What was seen before says nothing of what comes now.
    fn begin_anew(&mut self) -> Option<Change> {
        (self.seen, self.crowded) = (Window::default(), Window::default());
        self.downward = false;
        let mut trial = self.trial.take()?;
        if trial.climb.is_some() {
            // It goes by calls that are slow.
            trial.after = Window::default();
            self.trial = Some(trial);
            return None;
        }
        Some(self.back(&trial, "others are counted from now on, as it is known which are quick".into()))
    }

    fn watch(&mut self, window: &Window, short_of: Option<Memory>, now: Millis) -> Option<Change> {
        if window.done >= CALLS {
            self.call_ms = self.call_ms.min(window.call_ms());
        }
        if !window.is_pressed() && now < self.drains_until {
            // All are still there that were begun when there were more.
            return None;
        }
        if !window.is_pressed() {
            self.seen = Window::default();
            self.downward = false;
            return self.try_closer(window, now).or_else(|| self.shrink_idle(window, now));
        }
        self.crowded = Window::default();
        self.idle_since = None;
        self.seen.add(window);
        if now < self.rest_until {
            if self.seen.windows >= MOST_WINDOWS {
                self.seen = Window::default();
            }
            return None;
        }
        let may_begin = !self.downward && now >= self.climb_after && self.seen.windows >= LONG_WINDOWS;
        if may_begin && self.may_climb(&self.seen, window, short_of) {
            return Some(self.begin_climb(window, now));
        }
        let is_enough = match self.downward {
            true => self.seen.is_enough_for_fewer(),
            false => self.seen.is_enough() || self.seen.is_enough_for_half(),
        };
        if !is_enough {
            return None;
        }
        let next = if self.downward {
            self.threads.saturating_sub(first_step(self.threads)).max(LEAST.min(self.threads))
        } else if short_of.is_none() {
            // What few calls say is told from chance if the step is large.
            let least = if self.seen.done < ENOUGH { self.threads / 2 } else { 1 };
            (self.threads + self.step.max(least)).min(self.most)
        } else {
            self.threads
        };
        if next == self.threads && self.downward {
            // None fewer are tried. What is behind them may change, and then so few would not do: the rest is a short one.
            self.downward = false;
            self.rest_ms = REST_MS;
            let why = format!("no fewer are tried; {}", self.rest(now));
            return Some(Change { threads: next, why });
        }
        if next == self.threads {
            return self.stay(short_of, self.seen.wait_ms());
        }
        self.told = None;
        let why = if self.downward {
            format!("more than {} finish no more: do {next} finish as much?", self.threads)
        } else {
            format!("requests wait {:.0} ms for one", self.seen.wait_ms())
        };
        let before = std::mem::take(&mut self.seen);
        self.begin(next, before, false);
        Some(Change { threads: next, why })
    }

    fn begin(&mut self, next: u32, before: Window, closer: bool) {
        self.trial = Some(Trial {
            from: self.threads,
            before,
            after: Window::default(),
            begun: false,
            closer,
            climb: None,
        });
        self.threads = next;
    }

    /// Nobody waits for a thread: fewer than are inside, if these may wait for one another.
    fn try_closer(&mut self, window: &Window, now: Millis) -> Option<Change> {
        let inside = window.inside();
        let longer = window.done > 0 && window.call_ms() >= LONGER * self.call_ms;
        if inside < f64::from(CROWD.max(self.threads / 2)) || !longer {
            self.crowded = Window::default();
            return None;
        }
        self.crowded.add(window);
        if now < self.rest_until || self.crowded.windows < CROWDED_WINDOWS || self.crowded.done < ENOUGH {
            return None;
        }
        let before = std::mem::take(&mut self.crowded);
        let next = ((before.inside() * CLOSER) as u32).clamp(LEAST, self.threads);
        let (took, shortest) = (before.call_ms(), self.call_ms);
        self.begin(next, before, true);
        let why = format!("calls take {took:.0} ms, and have taken {shortest:.0}: do {next} finish as much?");
        Some(Change { threads: next, why })
    }

    /// Requests wait, and there cannot be more threads: says why, once.
    fn stay(&mut self, short_of: Option<Memory>, wait_ms: f64) -> Option<Change> {
        let bound = match short_of {
            _ if self.threads >= self.most => Bound::Most,
            None => return None,
            Some(memory) => Bound::Memory(memory),
        };
        if self.told.replace(bound) == Some(bound) {
            return None;
        }
        let why = match bound {
            Bound::Most => {
                format!("requests wait {wait_ms:.0} ms for one, and --threads-max allows no more")
            }
            Bound::Memory(memory) => format!(
                "requests wait {wait_ms:.0} ms for one, and for more there is no memory: a fifth of {} is left free",
                memory.told()
            ),
        };
        Some(Change { threads: self.threads, why })
    }

    fn judge(&mut self, mut trial: Trial, window: &Window, now: Millis) -> Option<Change> {
        let more = self.threads > trial.from;
        let begun = std::mem::replace(&mut trial.begun, true);
        if trial.closer && trial.loses(window, self.threads) {
            // Nobody has waited before, and nobody shall for the sake of a trial.
            let what = format!("{} requests finished", compared(window.rate() / trial.before.rate() - 1.0));
            let what = format!("{what}; {}", self.rest(now));
            return Some(self.back(&trial, what));
        }
        if !begun {
            self.trial = Some(trial);
            return None;
        }
        trial.after.add(window);
        if !trial.is_over(window, more) {
            self.trial = Some(trial);
            return None;
        }
        let change = trial.after.rate() / trial.before.rate().max(0.001) - 1.0;
        if more {
            return Some(self.judge_more(&trial, change));
        }
        if !trial.after.is_pressed() && !trial.closer {
            // There is less to be done than before: nothing can be compared.
            self.downward = false;
            return Some(self.back(&trial, "nobody waits any more".into()));
        }
        Some(self.judge_fewer(&trial, change, now))
    }

    fn judge_more(&mut self, trial: &Trial, change: f64) -> Change {
        // By how many are inside: threads that nobody needs say nothing, and calls that wait there for one another do.
        let share = trial.after.inside() / trial.before.inside().max(1.0) - 1.0;
        let (before, after) = (trial.before.failing(), trial.after.failing());
        if after >= FAILURES && after >= 2.0 * before {
            self.downward = true;
            let why = format!("of {} requests {} failed", trial.after.done, trial.after.failed);
            return self.back(trial, why);
        }
        let what = format!("{} requests inside, {} finished", compared(share), compared(change));
        let gain = if trial.climb.is_some() { climb::GAIN } else { GAIN };
        if change < gain * share {
            self.downward = true;
            return self.back(trial, what);
        }
        self.rest_ms = REST_MS;
        self.step = (self.step * 2).min(self.threads / 2).max(1);
        self.seen = trial.after;
        Change { threads: self.threads, why: what }
    }

    fn judge_fewer(&mut self, trial: &Trial, change: f64, now: Millis) -> Change {
        let share = match trial.closer {
            true => trial.share(self.threads),
            false => f64::from(trial.from - self.threads) / f64::from(trial.from),
        };
        let what = format!("{} threads finish {} requests", compared(-share), compared(change));
        if change < -LOSS * share {
            self.downward = false;
            if trial.closer {
                // They take so long by themselves.
                self.call_ms = trial.before.call_ms();
            }
            let what = format!("{what}; {}", self.rest(now));
            return self.back(trial, what);
        }
        // Whether still fewer do is seen next.
        self.downward = true;
        self.seen = trial.after;
        Change { threads: self.threads, why: what }
    }

    /// Neither more nor fewer helped: for how long nothing is tried, in words.
    fn rest(&mut self, now: Millis) -> String {
        self.rest_until = now + self.rest_ms;
        let words = format!("nothing else is tried for {} s", self.rest_ms / 1000);
        self.rest_ms = (self.rest_ms * 2).min(LONGEST_REST_MS);
        words
    }

    fn back(&mut self, trial: &Trial, why: String) -> Change {
        self.threads = trial.from;
        self.step = first_step(self.threads);
        self.seen = if self.downward { trial.before } else { Window::default() };
        Change { threads: self.threads, why }
    }

    fn shrink_idle(&mut self, window: &Window, now: Millis) -> Option<Change> {
        let half_idle = window.busy * 2 <= window.looks * u64::from(self.threads);
        if self.threads <= START || !half_idle {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        if now < since + IDLE_MS {
            return None;
        }
        self.idle_since = Some(now);
        self.threads = (self.threads - self.threads / 8).max(START);
        self.step = first_step(self.threads);
        Some(Change { threads: self.threads, why: "half of them have been idle for a minute".into() })
    }
}

/// How many that are, beside as many as before, in words.
fn compared(change: f64) -> String {
    match (change * 100.0).round() as i64 {
        0 => "as many".into(),
        more @ 1.. => format!("{more} % more"),
        fewer => format!("{} % fewer", -fewer),
    }
}

/// A quarter more, or fewer.
fn first_step(threads: u32) -> u32 {
    (threads / 4).max(1)
}

#[cfg(test)]
mod tests;
