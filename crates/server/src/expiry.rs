//! Patience and its end: what is due, and how the whole loop stops.
//!
//! Knows: deadlines. Does not know: why they are what they are (the machines and limits.rs
//! do). Runs under the baton.
//!
//! A deadline is a number in the connection's slot, so that setting one costs a store. The
//! timer is set to the earliest; when it fires, the table is looked through. That is cheaper
//! than a sorted queue, because almost every deadline is moved before it comes.

use std::sync::Arc;

use wire::{Millis, Tick};

use crate::connection::{Connection, Phase};
use crate::engine::Stage;
use crate::slots::NEVER;
use crate::turn::Loop;

/// Looks through the table are at least so far apart: a deadline is kept to within this.
const GRAIN_MS: Millis = 100;

impl Loop {
    /// Sees to it that the loop looks at deadlines no later than `at`.
    #[inline]
    pub(crate) fn wake_by(&mut self, at: Millis) {
        if at < self.due {
            self.due = at;
            self.reactor.wake_at(at.max(self.now + GRAIN_MS));
        }
    }

    /// Looks through the table for what is due.
    pub(crate) fn expire(&mut self) {
        let now = self.now;
        self.due = NEVER;
        let mut next = NEVER;
        let mut over = Vec::new();
        for (token, _, deadline) in self.slots.home() {
            if deadline <= now {
                over.push(token);
            } else {
                next = next.min(deadline);
            }
        }
        for token in over {
            if let Some(connection) = self.slots.lift(token) {
                self.lose_patience(connection);
            }
        }
        if let Some(roused) = &mut self.roused {
            next = next.min(self.slots.away_due(now, roused));
        }
        if let Some(sweep) = self.shared.heads.sweep(now) {
            next = next.min(sweep);
        }
        match self.listeners.paused_until() {
            Some(until) if until <= now => self.listeners.resume(&self.reactor),
            Some(until) => next = next.min(until),
            None => {}
        }
        if let Some(stop) = self.stop_at {
            next = next.min(stop);
        }
        if next != NEVER {
            self.wake_by(next);
        }
    }

    fn lose_patience(&mut self, mut connection: Box<Connection>) {
        let engine = Arc::clone(&self.engine);
        match connection.phase {
            // A worker that leaves has waited for it long enough.
            Phase::Reading
                if self.stop_at.is_some() && connection.is_idle() && self.now >= self.idle_until =>
            {
                engine.counters.connections_drained.add();
                self.close(connection);
            }
            Phase::Reading => match connection.machine.tick(self.now, &engine.config.limits) {
                Tick::Nothing => self.park(connection),
                Tick::Close => {
                    engine.counters.idle_timeouts.add();
                    self.close(connection);
                }
                Tick::Fault(fault) => {
                    engine.counters.request_timeouts.add();
                    self.refuse(&mut connection, &fault);
                    let none = self.progress(connection);
                    debug_assert!(none.is_none(), "a refused connection yields no request");
                }
            },
            Phase::Flushing(_) => {
                if self.has_moved(&mut connection) {
                    let token = connection.token;
                    self.park(connection);
                    self.slots.resume(token);
                    return;
                }
                engine.counters.write_timeouts.add();
                // What is queued will not be read; a reset says that the reply is cut.
                connection.transport.reset_at_close();
                self.close(connection);
            }
            Phase::Lingering { .. } => {
                engine.counters.lingers_cut.add();
                self.close(connection);
            }
        }
    }

    /// True where a slow reader has taken something since: the kernel tells only when a third of
    /// its buffer is free, which may be more than a reader takes within its time.
    fn has_moved(&mut self, connection: &mut Connection) -> bool {
        self.flush(connection).is_ok() && !connection.patience.is_over(self.now)
    }

    /// The word to stop has come: takes what has been accepted by the kernel already, then
    /// nothing new, and closes what is idle. Where others go on, what the kernel holds is
    /// theirs, and what is idle has time to come back once more.
    pub(crate) fn begin_stop(&mut self) {
        let stage = self.engine.stage();
        if self.stopping >= stage || stage == Stage::Aborting {
            return;
        }
        self.stopping = stage;
        let limits = &self.engine.config.limits;
        let stop_at = self.now.saturating_add(limits.graceful_timeout);
        let grace = if stage == Stage::Retiring { limits.drain_keep_alive } else { 0 };
        self.idle_until = self.now.saturating_add(grace.min(limits.graceful_timeout));
        self.stop_at = Some(stop_at);
        self.gives_away = false;
        self.wake_by(stop_at);
        self.leave_board();
        if stage == Stage::Retiring {
            self.listeners.close(&self.reactor);
        } else if self.listeners.is_open() {
            self.listeners.all_ready();
        }
        // Those that are home are looked at once more: a request that has arrived is served,
        // one that is only idle is closed by `park`.
        let home: Vec<u64> = self.slots.home().map(|(token, _, _)| token).collect();
        for token in home {
            if let Some(row) = self.slots.get(token)
                && let crate::slots::Place::Home(connection) = &mut row.place
            {
                connection.more = true;
            }
            self.slots.resume(token);
        }
    }

    /// True when there is nothing left to do and nothing will come.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        if self.engine.stage() == Stage::Serving {
            return false;
        }
        self.is_over_now()
    }

    #[cold]
    fn is_over_now(&mut self) -> bool {
        if self.engine.stage() == Stage::Aborting {
            return self.cut();
        }
        self.begin_stop();
        let Some(stop_at) = self.stop_at else { return false };
        if self.now >= stop_at {
            return self.cut();
        }
        if self.listeners.any_ready() || self.slots.resuming() > 0 {
            return false;
        }
        if self.listeners.is_open() {
            self.listeners.close(&self.reactor);
        }
        self.slots.len() == 0
    }

    fn cut(&mut self) -> bool {
        for _ in 0..self.slots.away() {
            self.engine.counters.requests_cut.add();
        }
        true
    }
}
