//! Connections that go to another worker: idle ones, and one with a request that nobody has begun.
//!
//! Knows: which of them can leave. Does not know: when it is time (`share.rs`), or on which way they go (`handoff.rs`). Runs under the
//! baton.

use std::sync::Arc;

use wire::Millis;

use super::Connections;
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::handoff::To;
use crate::poller::Poller;

impl Connections {
    /// Gives every idle connection to whoever is free to take it.
    pub fn hand_over_idle(&mut self, poller: &mut Poller) {
        self.ask_streams_to_leave(poller);
        let now = poller.now;
        let goes =
            |(token, one, _): (u64, &Connection, Millis)| self.handover.may_leave(one, now).then_some(token);
        let idle: Vec<u64> = self.slots.parked().filter_map(goes).collect();
        if idle.is_empty() {
            return;
        }
        let before = self.engine.counters.connections_handed_over.get();
        for token in idle {
            let Some(connection) = self.slots.check_out(token) else { continue };
            if let Some(kept) = self.hand_over(connection, poller) {
                // As many are under way as there may be: the rest goes another time.
                self.handover.switch(false);
                self.park(kept, poller);
                break;
            }
        }
        let given = self.engine.counters.connections_handed_over.get() - before;
        self.engine
            .log
            .debug(|| format!("has given {given} idle connections to other workers: it is held up"));
        // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
        self.engine.publish(poller.now);
    }

    /// Gives up to so many idle connections to others, as this worker takes requests that compute and they would meet those. How many
    /// have gone.
    pub fn give_idle(&mut self, most: u64, poller: &mut Poller) -> u64 {
        let given = self.give_up_to(most, poller);
        if given > 0 {
            (0..given).for_each(|_| self.handover.returns().gave(poller.now));
            self.engine.publish(poller.now);
        }
        given
    }

    /// Gives up to so many idle connections back to a worker that has had them. How many have gone.
    pub fn give_back(&mut self, most: u64, poller: &mut Poller) -> u64 {
        let given = self.give_up_to(most, poller);
        self.engine
            .log
            .debug(|| format!("has given {given} idle connections back: they were another worker's"));
        self.engine.publish(poller.now);
        given
    }

    fn give_up_to(&mut self, most: u64, poller: &mut Poller) -> u64 {
        let now = poller.now;
        let idle = self.slots.parked().filter(|(_, one, _)| self.handover.may_leave(one, now));
        let idle: Vec<u64> = idle.take(most as usize).map(|(token, _, _)| token).collect();
        let mut given = 0;
        for token in idle {
            let Some(connection) = self.slots.check_out(token) else { continue };
            if let Some(kept) = self.send_away(connection, poller) {
                self.park(kept, poller);
                break;
            }
            given += 1;
        }
        given
    }

    /// Gives a connection that can leave to another worker, as this one is held up; given back where that cannot be
    /// now.
    pub(super) fn hand_over(
        &mut self,
        connection: Box<Connection>,
        poller: &Poller,
    ) -> Option<Box<Connection>> {
        let kept = self.send_away(connection, poller);
        if kept.is_none() {
            self.handover.returns().gave(poller.now);
        }
        kept
    }

    /// Gives a request that nobody has begun to another worker, with its connection; given back where that cannot be now.
    pub fn give_request(
        &mut self,
        mut exchange: Box<Exchange>,
        to: To,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        // What is known of it here would keep it from leaving.
        self.slots.take_pipelined(exchange.token());
        poller.statistics.forget(&mut exchange.times);
        let engine = Arc::clone(&self.engine);
        let give =
            |connection: &mut Connection, note: &[u8]| self.handover.send_with(connection, note, to, poller);
        match exchange.leave(&engine, give) {
            Err(kept) => Some(kept),
            Ok(connection) => {
                engine.counters.requests_handed_over.add();
                engine.counters.connections_handed_over.add();
                self.close(connection);
                None
            }
        }
    }

    fn send_away(&mut self, mut connection: Box<Connection>, poller: &Poller) -> Option<Box<Connection>> {
        if !self.handover.send(&mut connection, poller) {
            return Some(connection);
        }
        self.engine.counters.connections_handed_over.add();
        self.close(connection);
        None
    }
}
