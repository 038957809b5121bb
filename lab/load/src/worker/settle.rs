//! What came of a request: reply, error, timeout; and what its client does next.

use super::Worker;
use crate::client::{Flight, Role};
use crate::kinds::Wrong;
use crate::record::{self, Trace};
use crate::reply::{Reply, Step};
use crate::timers::NEVER;

/// An end this soon after a request on a connection that was used before may have crossed it on the way.
const RACE_WINDOW: u64 = 100_000_000;
/// How long a server that said that it closes is waited for.
const LEAVING: u64 = 1_000_000_000;

impl Worker<'_> {
    /// A whole reply to the first request on its way. False when the connection is not this client's any more.
    pub(super) fn replied(&mut self, index: u32, reply: Reply, more: bool, now: u64) -> bool {
        let client = &mut self.clients[index as usize];
        let Some(flight) = client.flights.pop_front() else { return true };
        let was_sent = client.outgoing.written > 0;
        client.outgoing.written = client.outgoing.written.saturating_sub(1);
        client.replies += 1;
        client.deadlines.limit =
            if client.flights.is_empty() { NEVER } else { now + self.job.first_byte_limit };
        let extra = more && client.flights.is_empty();
        self.judged(index, &flight, &reply, was_sent, now);
        if extra {
            self.record.error(Some(flight.template), Wrong::ExtraBytes);
        }
        if reply.keeps_alive && self.job.keeps_alive && !flight.last && !extra && was_sent {
            self.next(index, now);
            return true;
        }
        if extra || !was_sent {
            self.part(index);
            self.next(index, now);
            self.go(index, now);
        } else {
            self.leave(index, now);
        }
        false
    }

    /// Counts a whole reply, good or not.
    pub(super) fn judged(&mut self, index: u32, flight: &Flight, reply: &Reply, was_sent: bool, now: u64) {
        self.present.in_flight -= 1;
        self.present.last_reply = now;
        *self.record.second.tally.statuses.entry(reply.status).or_default() += 1;
        if let Some(wrong) = reply.wrong {
            self.record.error(Some(flight.template), wrong);
        } else {
            self.record.reply(flight.template, now.saturating_sub(flight.planned), now < self.planned.until);
            let times = &mut self.record.second.times;
            record::record(times.service(), now.saturating_sub(flight.began));
            record::record(
                times.first_byte(),
                if was_sent { flight.first_byte.saturating_sub(flight.sent) } else { 0 },
            );
            record::record(times.transfer(), now.saturating_sub(flight.first_byte));
        }
        self.trace(index, flight, now, reply.wrong.map_or(Ok(reply.status), Err));
    }

    /// The connection is over, but the server closes first; its client goes on in another place.
    fn leave(&mut self, index: u32, now: u64) {
        let client = &mut self.clients[index as usize];
        let role = std::mem::replace(&mut client.role, Role::Leaving);
        let mut flights = std::mem::take(&mut client.flights);
        client.outgoing = crate::client::Outgoing::default();
        client.deadlines.limit = now + LEAVING;
        self.present.leaving += 1;
        self.schedule(index);
        // Its end may have come with the reply, and its edge with it.
        self.again.push(self.slot(index));
        for flight in &mut flights {
            (flight.sent, flight.first_byte) = (0, 0);
        }
        let successor = self.new_client(role);
        self.clients[successor as usize].flights = flights;
        self.next(successor, now);
        self.go(successor, now);
    }

    /// What a client does after a reply; `go` then does it.
    pub(super) fn next(&mut self, index: u32, now: u64) {
        let has_socket = self.clients[index as usize].socket.is_some();
        match self.clients[index as usize].role {
            Role::Loop => {
                self.refill(index, now);
                // A loop whose load is over needs no place without a connection.
                if !has_socket && self.clients[index as usize].in_flight() == 0 {
                    self.release(index);
                }
            }
            Role::Pooled if !has_socket => self.release(index),
            Role::Pooled => match self.queue.pop_front() {
                Some((planned, template)) => self.put_waiting(index, planned, template, now),
                None => self.offer(self.slot(index)),
            },
            Role::Session { left: 0 | 1 } => {
                self.record.second.tally.counts.sessions_finished += 1;
                self.release(index);
            }
            Role::Session { left } => {
                self.clients[index as usize].role = Role::Session { left: left - 1 };
                if self.job.think == 0 {
                    self.think_no_more(index, now, now);
                } else {
                    self.clients[index as usize].deadlines.wake = now + self.job.think;
                    self.schedule(index);
                }
            }
            Role::Leaving => {}
        }
    }

    fn put_waiting(&mut self, index: u32, planned: u64, template: u16, now: u64) {
        self.put(index, planned, template);
        self.go(index, now);
    }

    /// The first request on its way has failed, and with it the connection and what was behind it.
    pub(super) fn fail(&mut self, index: u32, wrong: Wrong, now: u64) {
        self.mark_started(index, now);
        self.fail_all(index, wrong);
        self.part(index);
        self.after_failure(index, now);
    }

    pub(super) fn fail_all(&mut self, index: u32, wrong: Wrong) {
        let behind = match wrong {
            Wrong::ResetInReply | Wrong::ResetBeforeReply => Wrong::ResetBeforeReply,
            Wrong::FirstByteTimeout | Wrong::BodyTimeout => Wrong::FirstByteTimeout,
            Wrong::Refused
            | Wrong::Unreachable
            | Wrong::ConnectTimeout
            | Wrong::TlsFailed
            | Wrong::NotHttp2 => wrong,
            _ => Wrong::EndBeforeReply,
        };
        let flights = self.clients[index as usize].take_flights();
        self.present.in_flight -= flights.len() as u64;
        for (place, flight) in flights.iter().enumerate() {
            let wrong = if place == 0 { wrong } else { behind };
            self.record.error(Some(flight.template), wrong);
            self.trace(index, flight, self.clock.now(), Err(wrong));
        }
    }

    /// Keeps a request's moments, where the plan wants that.
    pub(super) fn trace(&mut self, index: u32, flight: &Flight, ended: u64, outcome: Result<u16, Wrong>) {
        if self.job.plan.trace.is_none() {
            return;
        }
        let client = &self.clients[index as usize];
        self.record.second.traces.push(Trace {
            template: flight.template,
            planned: flight.planned,
            connect: client.connect_began,
            connected: client.connected_at,
            sent: flight.sent,
            first_byte: flight.first_byte,
            ended,
            outcome,
        });
    }

    pub(super) fn after_failure(&mut self, index: u32, now: u64) {
        match self.clients[index as usize].role {
            Role::Session { .. } => {
                self.record.second.tally.counts.sessions_failed += 1;
                self.release(index);
            }
            Role::Loop => {
                self.next(index, now);
                self.go(index, now);
            }
            Role::Pooled | Role::Leaving => self.release(index),
        }
    }

    /// The server has ended the connection; `announced`: and its TLS before, if there is any.
    pub(super) fn ended(&mut self, index: u32, announced: bool, now: u64) {
        if self.clients[index as usize].http2.is_some() {
            return self.streams_ended(index, now);
        }
        let client = &mut self.clients[index as usize];
        self.record.second.tally.counts.closed_by_server += 1;
        let Some(flight) = client.flights.front().copied() else {
            if client.role != Role::Leaving {
                self.record.second.tally.counts.closed_while_idle += 1;
            }
            return self.lose_idle(index);
        };
        let expected = &self.job.templates[flight.template as usize].expected;
        match client.reader.end(expected) {
            // Without a length, only TLS tells a whole body from one that was cut.
            Some(Step::Reply(reply)) if announced || self.job.tls.is_none() => {
                // The connection leaves now, is read once more, and counted then.
                self.record.second.tally.counts.closed_by_server -= 1;
                self.replied(index, reply, false, now);
            }
            _ if flight.first_byte > 0 => self.fail(index, Wrong::Truncated, now),
            _ if self.may_be_a_race(index, now) => self.fail(index, Wrong::KeepAliveRace, now),
            _ => self.fail(index, Wrong::EndBeforeReply, now),
        }
    }

    /// The server has reset the connection, or, `bad`, sent what is no TLS of its own.
    pub(super) fn reset(&mut self, index: u32, bad: bool, now: u64) {
        if self.clients[index as usize].http2.is_some() {
            return self.streams_reset(index, bad, now);
        }
        let client = &self.clients[index as usize];
        match client.flights.front() {
            None => {
                self.record.error(None, Wrong::ResetAfterReply);
                self.lose_idle(index);
            }
            Some(_) if bad => self.fail(index, Wrong::TlsBroken, now),
            Some(flight) if flight.first_byte > 0 => self.fail(index, Wrong::ResetInReply, now),
            Some(_) if self.may_be_a_race(index, now) => self.fail(index, Wrong::KeepAliveRace, now),
            Some(_) => self.fail(index, Wrong::ResetBeforeReply, now),
        }
    }

    fn may_be_a_race(&self, index: u32, now: u64) -> bool {
        let flight = self.clients[index as usize].flights.front();
        flight.is_some_and(|flight| self.may_have_crossed(index, flight, now))
    }

    /// Whether the server may have ended the connection before it saw this request.
    pub(super) fn may_have_crossed(&self, index: u32, flight: &Flight, now: u64) -> bool {
        let sent = flight.sent.max(flight.began);
        self.clients[index as usize].replies > 0 && now.saturating_sub(sent) <= RACE_WINDOW
    }

    /// A connection on which nothing was asked is gone. A session that thinks goes on thinking.
    pub(super) fn lose_idle(&mut self, index: u32) {
        match self.clients[index as usize].role {
            Role::Pooled | Role::Leaving => self.release(index),
            Role::Session { .. } | Role::Loop => self.part(index),
        }
    }

    /// Bytes that answer nothing.
    pub(super) fn extra_bytes(&mut self, index: u32) {
        self.record.error(None, Wrong::ExtraBytes);
        self.lose_idle(index);
    }

    /// A deadline of this client is here, or was moved later since it was entered.
    pub(super) fn fire(&mut self, index: u32, now: u64) {
        let slot = self.slot(index);
        self.clients[index as usize].deadlines.entered = NEVER;
        if self.clients[index as usize].deadlines.wake <= now {
            self.wake(index, now);
        }
        if self.is_present(slot) && self.clients[index as usize].deadlines.limit <= now {
            // What has come while this thread was away, or in this very moment, is in time.
            if self.clients[index as usize].connected {
                self.readable(index, true);
            } else if self.clients[index as usize].tls.is_some() {
                self.agree(index);
            }
            if self.is_present(slot) && self.clients[index as usize].deadlines.limit <= now {
                self.time_is_up(index, now);
            }
        }
        if self.is_present(slot) {
            self.schedule(index);
        }
    }

    fn wake(&mut self, index: u32, now: u64) {
        let client = &mut self.clients[index as usize];
        let planned = std::mem::replace(&mut client.deadlines.wake, NEVER);
        let was_paused = std::mem::replace(&mut client.paused, false);
        let slot = self.slot(index);
        let client = &self.clients[index as usize];
        match (client.role, client.socket.is_some(), client.connected) {
            (_, true, false) => self.connect_again(index, now),
            (Role::Session { .. }, ..) if client.flights.is_empty() => {
                self.think_no_more(index, planned, now)
            }
            (Role::Loop, false, _) => {
                self.next(index, now);
                if self.is_present(slot) {
                    self.go(index, now);
                }
            }
            _ => {
                if client.is_sending() {
                    self.flush(index, now);
                }
                if was_paused && self.is_present(slot) {
                    self.readable(index, true);
                }
            }
        }
    }

    fn time_is_up(&mut self, index: u32, now: u64) {
        if self.clients[index as usize].http2.is_some() {
            return self.streams_time_up(index, now);
        }
        let client = &mut self.clients[index as usize];
        client.deadlines.limit = NEVER;
        match (client.role, client.connected, client.flights.front()) {
            (Role::Leaving, ..) => self.release(index),
            (_, false, _) => self.fail(index, Wrong::ConnectTimeout, now),
            (_, true, Some(flight)) if flight.first_byte == 0 => {
                self.fail(index, Wrong::FirstByteTimeout, now)
            }
            (_, true, Some(_)) => self.fail(index, Wrong::BodyTimeout, now),
            (_, true, None) => {}
        }
    }
}
