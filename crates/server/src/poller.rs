//! What happened, what time it is, and when to look again.
//!
//! Knows: the reactor, the clock as of the last look, the timer, and how much may be done before the
//! next look. Does not know: what a token stands for. Runs under the baton; the loop lends it to its
//! parts.

use std::io;

use reactor::sys::{compare_clocks, monotonic_ms, monotonic_us};
use reactor::{Event, Reactor};
use wire::Millis;

use crate::allowance::Allowance;
use crate::connection::Connection;
use crate::engine::{Config, Engine};
use crate::log::Log;
use crate::slots::NEVER;
use crate::statistics::Statistics;

/// From so many happenings at once on, more are expected at once.
const BRISK: usize = 4;

/// Looks through the table are at least so far apart: a deadline is kept to within this.
const GRAIN_MS: Millis = 100;

/// How often the clocks are compared, while there is anything to do.
const COMPARE_MS: Millis = 100;

/// The reactor of one loop, and the time of its last look.
pub(crate) struct Poller {
    pub reactor: Reactor,
    /// What may be done before the next look.
    pub allowance: Allowance,
    /// What is counted and timed, for others to read.
    pub statistics: Statistics,
    /// Monotonic milliseconds, as of the last look or later.
    pub now: Millis,
    /// When the last look was. Whoever was away and finds it long after was overtaken, and not only held up.
    pub looked: Millis,
    /// No deadline that anybody has asked for is earlier.
    due: Millis,
    /// When somebody wakes it who cannot wait for a grain of the timer.
    soon: Millis,
    /// Clocks are compared at the next look from then on.
    compare_at: Millis,
    brisk: bool,
}

impl Poller {
    /// # Errors
    /// The kernel's, when a descriptor cannot be had.
    pub fn new(config: &Config, log: &Log) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let statistics = Statistics::new(config, log);
        let allowance = Allowance::default();
        let now = monotonic_ms();
        compare_clocks();
        Ok(Self {
            reactor,
            allowance,
            statistics,
            now,
            looked: now,
            due: NEVER,
            soon: NEVER,
            compare_at: now,
            brisk: false,
        })
    }

    /// Asks the kernel what happened; so many connections go on without an edge. Nothing is found
    /// where it cannot be asked.
    #[inline]
    pub fn poll(&mut self, waits: bool, resuming: usize, engine: &Engine) -> usize {
        self.statistics.looks();
        let found = self.reactor.poll(waits).unwrap_or_else(|error| engine.cannot_poll(&error));
        engine.counters.looks.add_alone();
        self.now = monotonic_ms();
        self.looked = self.now;
        if self.now >= self.compare_at {
            compare_clocks();
            self.compare_at = self.now + COMPARE_MS;
        }
        self.statistics.looked();
        self.brisk = found >= BRISK;
        self.allowance.renew(resuming);
        found
    }

    /// The next thing that the last look found.
    #[inline]
    pub fn next(&mut self) -> Option<Event> {
        self.reactor.take_next()
    }

    /// The last look found much: another one without waiting is worth its system call, and so is
    /// another accept. Where little happens at a time both would mostly find nothing.
    #[inline]
    pub fn is_brisk(&self) -> bool {
        self.brisk
    }

    /// Time has passed since the last look.
    #[inline]
    pub fn look_at_clock(&mut self) {
        self.now = monotonic_ms();
    }

    /// Sees to it that the loop looks at deadlines no later than `at`.
    #[inline]
    pub fn wake_by(&mut self, at: Millis) {
        if at < self.due {
            self.due = at;
            self.reactor.wake_at(at.max(self.now + GRAIN_MS).min(self.soon));
        }
    }

    /// The same for what is worth a wake-up of its own: in so many milliseconds. The loop's own clock may be a tick of the kernel's
    /// behind: the time would be over already, and so would the next one, and the loop go round until that tick.
    pub fn wake_soon(&mut self, ms: Millis) {
        let at = monotonic_us() / 1000 + ms;
        if at < self.soon {
            self.soon = at;
            self.due = self.due.min(at);
            self.reactor.wake_at(at);
        }
    }

    /// The timer has fired, and is set to nothing.
    pub fn is_due(&mut self) {
        self.due = NEVER;
        self.soon = NEVER;
    }

    /// Has edges of a connection told from now on.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn watch(&self, connection: &mut Connection) -> io::Result<()> {
        if !connection.watched {
            connection.transport.watch(&self.reactor, connection.token)?;
            connection.watched = true;
        }
        Ok(())
    }

    /// Hears no more of a connection that stays open: the set watches what is open, not who has it open.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unwatch(&self, connection: &mut Connection) -> io::Result<()> {
        if connection.watched {
            self.reactor.unwatch(&*connection.transport)?;
            connection.watched = false;
        }
        Ok(())
    }
}
