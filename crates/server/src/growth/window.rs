//! What has happened while requests waited for threads, and when that is enough to be judged by.
//!
//! Knows: figures of half a second, or of several of those. Does not know: what is done about it.

use wire::Millis;

/// A window in which requests wait: in so many of the looks, ...
const WAITS: f64 = 0.9;
/// ... and each for so long, in milliseconds.
const WAIT_MS: f64 = 5.0;
/// So many windows say something, if as many requests as that were finished in them; ...
const WINDOWS: u32 = 2;
pub(super) const ENOUGH: u64 = 300;
/// ... and so many do in any case.
pub(super) const MOST_WINDOWS: u32 = 20;
/// Fewer threads are judged by so many requests at least, or by so many windows.
const FEW: u64 = 100;
const LONGEST_WINDOWS: u32 = 60;
/// Of calls that take long fewer say whether half as many threads more are worth it: so many for each that is inside, ...
pub(super) const ROUNDS: f64 = 2.0;
/// ... in no fewer windows than these.
pub(super) const LONG_WINDOWS: u32 = 6;
/// A process that has used such a part of a processor computes, and more threads would wait for the interpreter.
const COMPUTES: f64 = 0.75;
/// So many requests come in a window that its use of processors may be for quick ones.
const MANY_COME: u64 = 100;

/// Calls that were begun before a moment and have ended: how many, how many of them failed, and how long they took together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Early {
    pub done: u64,
    pub failed: u64,
    pub took_ms: Millis,
}

impl Early {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            failed: self.failed + other.failed,
            took_ms: self.took_ms + other.took_ms,
        }
    }
}

/// What has happened in one window, or in several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    pub ms: Millis,
    /// Requests that were finished, of those that have to wait for threads.
    pub done: u64,
    /// Of these, those that were answered with 500 or more.
    pub failed: u64,
    /// Looks at who waits, in how many of them somebody did, and how many there were in all of them together.
    pub looks: u64,
    pub waits: u64,
    pub waiting: u64,
    /// Threads that were inside, in all looks together.
    pub busy: u64,
    /// None of those that wait has waited for longer, where that is known.
    pub longest_ms: Option<Millis>,
    /// Requests that have come, of any kind.
    pub came: u64,
    /// Looks in which a thread held up the others, as it computes.
    pub burns: u64,
    /// For how long the process has used processors.
    pub cpu_us: u64,
    /// Of those that were finished, those that were begun before the threads became more ([`super::Growth::climbs_since`]).
    pub early: Early,
    /// Since quick ones are known, or are known no more, others are counted than before: nothing can be compared.
    pub counts_others: bool,
    /// Of how many it was added up; zero: it is one.
    pub(super) windows: u32,
}

impl Window {
    /// With another one, which came after it.
    pub(super) fn add(&mut self, other: &Window) {
        *self = Window {
            ms: self.ms + other.ms,
            done: self.done + other.done,
            failed: self.failed + other.failed,
            looks: self.looks + other.looks,
            waits: self.waits + other.waits,
            waiting: self.waiting + other.waiting,
            busy: self.busy + other.busy,
            longest_ms: self.longest_ms.max(other.longest_ms),
            came: self.came + other.came,
            burns: self.burns + other.burns,
            cpu_us: self.cpu_us + other.cpu_us,
            early: self.early.and(other.early),
            counts_others: self.counts_others || other.counts_others,
            windows: self.windows + 1,
        };
    }

    /// How long a request waits, in milliseconds, by how many there are and how fast they are done (Little's law): no
    /// longer than there has been anybody who waits, as in a window that is shorter than a call hardly any is done.
    pub fn wait_ms(&self) -> f64 {
        let waiting = self.waiting as f64 / self.looks.max(1) as f64;
        let wait_ms = waiting * self.ms as f64 / self.done.max(1) as f64;
        self.longest_ms.map_or(wait_ms, |longest| wait_ms.min(longest as f64))
    }

    /// Requests wait for threads.
    pub fn is_pressed(&self) -> bool {
        self.waits as f64 >= WAITS * self.looks.max(1) as f64 && self.wait_ms() >= WAIT_MS
    }

    /// More threads would wait for the interpreter.
    pub(super) fn computes(&self) -> bool {
        self.cpu_us as f64 >= COMPUTES * self.ms as f64 * 1000.0
    }

    /// Threads hold up one another, as they compute: in half of the looks, or by what the process has used. Where many requests
    /// come, that may be theirs, and whoever reads them would have seen it.
    pub(super) fn is_burning(&self) -> bool {
        self.burns * 2 >= self.looks.max(1) || self.computes() && self.came < MANY_COME
    }

    /// Requests a second.
    pub(super) fn rate(&self) -> f64 {
        self.done as f64 * 1000.0 / self.ms.max(1) as f64
    }

    /// Threads that were inside, on average.
    pub(super) fn inside(&self) -> f64 {
        self.busy as f64 / self.looks.max(1) as f64
    }

    /// How long a call takes, in milliseconds, by how many are inside and how fast they are done.
    pub(super) fn call_ms(&self) -> f64 {
        self.inside() * self.ms as f64 / self.done.max(1) as f64
    }

    /// The share of requests that failed.
    pub(super) fn failing(&self) -> f64 {
        self.failed as f64 / self.done.max(1) as f64
    }

    /// It says something.
    pub(super) fn is_enough(&self) -> bool {
        self.windows >= WINDOWS && self.done >= ENOUGH || self.windows >= MOST_WINDOWS
    }

    /// For a step down, which may make less be finished.
    pub(super) fn is_enough_for_fewer(&self) -> bool {
        self.is_enough() && self.done >= FEW || self.windows >= LONGEST_WINDOWS
    }

    /// For a step of half as many, where calls take long: each thread that is inside has had some of them.
    pub(super) fn is_enough_for_half(&self) -> bool {
        self.windows >= LONG_WINDOWS && self.done as f64 >= ROUNDS * self.inside()
    }
}
