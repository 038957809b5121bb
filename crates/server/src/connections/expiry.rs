//! Patience and its end: what is due.
//!
//! Knows: deadlines. Does not know: why they are what they are (the machines and limits.rs
//! do). Runs under the baton.
//!
//! A deadline is a number in the connection's slot, so that setting one costs a store. The
//! timer is set to the earliest; when it fires, the table is looked through. That is cheaper
//! than a sorted queue, because almost every deadline is moved before it comes.

use std::sync::Arc;

use wire::{Millis, Tick};

use super::Connections;
use crate::connection::{Connection, Phase, Receiving};
use crate::poller::Poller;
use crate::slots::NEVER;

impl Connections {
    /// Looks through the table for what is due. When something will be next.
    pub fn expire(&mut self, poller: &mut Poller) -> Millis {
        let now = poller.now;
        let mut next = NEVER;
        let mut over = Vec::new();
        for (token, _, deadline) in self.slots.parked() {
            if deadline <= now {
                over.push(token);
            } else {
                next = next.min(deadline);
            }
        }
        for token in over {
            if let Some(connection) = self.slots.check_out(token) {
                self.time_out(connection, poller);
            }
        }
        next = next.min(self.slots.wake_due(now));
        if let Some(sweep) = self.reader.sweep(now) {
            next = next.min(sweep);
        }
        next.min(self.shutdown.ends_at().unwrap_or(NEVER))
    }

    /// Looks once more at what a peer has sent whose time seems to be over. This process may have had no processor, or
    /// the application may have held the interpreter: what has arrived in time and was not read is not late.
    fn look_once_more(&mut self, mut connection: Box<Connection>, poller: &mut Poller) {
        let token = connection.token;
        connection.looked_late = true;
        connection.more = true;
        self.park(connection, poller);
        self.slots.resume(token);
    }

    /// Nothing has come of a request for too long.
    fn run_out(&mut self, mut connection: Box<Connection>, poller: &mut Poller) {
        let engine = Arc::clone(&self.engine);
        let arriving = connection.machine.arriving(&engine.config.policy);
        match connection.machine.tick(poller.now, &engine.config.limits) {
            Tick::Nothing => self.park(connection, poller),
            Tick::Close => {
                engine.counters.idle_timeouts.add();
                self.close(connection);
            }
            Tick::Fault(fault) => {
                engine.counters.request_timeouts.add();
                if let Some(head) = arriving {
                    connection.receiving = Some(Receiving::told(head));
                }
                self.refuse(&mut connection, &fault, poller);
                let none = self.progress(connection, poller);
                debug_assert!(none.is_none(), "a refused connection yields no request");
            }
        }
    }

    fn time_out(&mut self, mut connection: Box<Connection>, poller: &mut Poller) {
        let engine = Arc::clone(&self.engine);
        match connection.phase {
            Phase::Reading | Phase::Streams | Phase::Preface | Phase::Discarding { .. }
                if !connection.looked_late =>
            {
                self.look_once_more(connection, poller);
            }
            // A worker that leaves has waited for it long enough.
            Phase::Reading if connection.is_idle() && self.shutdown.closes_idle(poller.now) => {
                engine.counters.connections_drained.add();
                self.close(connection);
            }
            Phase::Reading => self.run_out(connection, poller),
            Phase::Streams => self.time_out_streams(connection, poller),
            Phase::Preface => {
                if connection.is_idle() {
                    engine.counters.idle_timeouts.add();
                } else {
                    engine.counters.request_timeouts.add();
                }
                self.close(connection);
            }
            Phase::Flushing(_) => {
                if self.has_moved(&mut connection, poller.now) {
                    let token = connection.token;
                    self.park(connection, poller);
                    self.slots.resume(token);
                    return;
                }
                engine.counters.write_timeouts.add();
                // What is queued will not be read; a reset says that the reply is cut.
                connection.transport.reset_at_close();
                self.close(connection);
            }
            Phase::Discarding { .. } | Phase::Lingering { .. } => {
                engine.counters.lingers_cut.add();
                self.close(connection);
            }
        }
    }

    /// True where a slow reader has taken something since: the kernel tells only when a third of
    /// its buffer is free, which may be more than a reader takes within its time.
    fn has_moved(&self, connection: &mut Connection, now: Millis) -> bool {
        connection.flush(&self.engine.config.limits, now).is_ok() && !connection.patience.is_over(now)
    }
}
