//! HTTP/2: requests onto streams, outcomes off them, and the end of a connection that several share. `http2` has the protocol.

use super::Worker;
use crate::client::{Flight, Role};
use crate::http2::{Lost, Outcome};
use crate::kinds::Wrong;
use crate::system::Moved;
use crate::timers::NEVER;

/// How often a request may find that its server is going away, before that is its error.
const MOST_UNSEEN: u8 = 3;

impl Worker<'_> {
    /// Bytes have come. False when the connection is not this client's any more.
    pub(super) fn feed_streams(&mut self, index: u32, bytes: &[u8], now: u64) -> bool {
        if let Some(http2) = &self.clients[index as usize].http2 {
            http2.come(bytes);
        }
        self.turn_streams(index, now)
    }

    /// Asks what waits, looks at what has come, and sends what is to be sent. False when the connection is gone.
    pub(super) fn turn_streams(&mut self, index: u32, now: u64) -> bool {
        let (slot, links) = (self.slot(index), self.clients[index as usize].links);
        loop {
            let asked = self.ask_waiting(index, now);
            let Some(http2) = &mut self.clients[index as usize].http2 else { return false };
            if http2.busy {
                return true;
            }
            http2.busy = true;
            let mut outcomes = std::mem::take(&mut self.outcomes);
            let over = http2.turn(self.job, now, &mut outcomes);
            let none = outcomes.is_empty();
            for outcome in outcomes.drain(..) {
                // An outcome may end the connection: then it has taken all others along.
                if self.is_present(slot) && self.clients[index as usize].links == links {
                    self.outcome(index, outcome, now);
                }
            }
            self.outcomes = outcomes;
            if !self.is_present(slot) || self.clients[index as usize].links != links {
                return false;
            }
            if let Some(http2) = &mut self.clients[index as usize].http2 {
                http2.busy = false;
            }
            if let Some(over) = over {
                self.send_streams(index);
                self.streams_over(index, over.err(), none, now);
                return false;
            }
            if none && !asked {
                break;
            }
        }
        self.send_streams(index);
        let Some(http2) = &self.clients[index as usize].http2 else { return false };
        if http2.is_closing() && http2.streams.is_empty() {
            self.streams_over(index, None, false, now);
            return false;
        }
        let limit = http2.limit().unwrap_or(NEVER);
        self.clients[index as usize].deadlines.limit = limit;
        self.schedule(index);
        true
    }

    /// Gives streams to requests that wait for one; whether any did.
    fn ask_waiting(&mut self, index: u32, now: u64) -> bool {
        let (job, mut any) = (self.job, false);
        let client = &mut self.clients[index as usize];
        let Some(http2) = &mut client.http2 else { return false };
        while let Some(flight) = client.flights.front_mut() {
            let Some(asked) = &job.templates[flight.template as usize].asked else { break };
            if !http2.has_room(job.depth) {
                break;
            }
            if flight.began == 0 {
                flight.began = now.max(1);
                self.record.second.tally.counts.started += 1;
            }
            if !http2.ask(*flight, asked) {
                break;
            }
            client.flights.pop_front();
            any = true;
        }
        any
    }

    fn send_streams(&mut self, index: u32) {
        let client = &mut self.clients[index as usize];
        // It is lent out, because it and the socket are parts of one client.
        let Some(http2) = client.http2.take() else { return };
        let mut gone = false;
        while http2.has_output() && !gone {
            http2.output(|bytes| match client.write(bytes) {
                Moved::Bytes(count) => {
                    self.record.second.tally.counts.bytes_sent += count as u64;
                    count
                }
                Moved::Later => {
                    gone = true;
                    0
                }
                // The server may have replied before it closed: reading tells.
                _ => {
                    gone = true;
                    bytes.len()
                }
            });
        }
        if let (Some(socket), Some(tls)) = (&client.socket, &mut client.tls) {
            let _ = tls.flush(socket);
        }
        client.http2 = Some(http2);
    }

    fn outcome(&mut self, index: u32, outcome: Outcome, now: u64) {
        let Outcome { flight, was_sent, came } = outcome;
        match came {
            Ok(reply) => {
                self.clients[index as usize].replies += 1;
                self.judged(index, &flight, &reply, was_sent, now);
                if self.job.keeps_alive {
                    self.next(index, now);
                } else {
                    self.part(index);
                    self.next(index, now);
                    self.go(index, now);
                }
            }
            Err(Lost::Unseen) if flight.unseen < MOST_UNSEEN => {
                let again = Flight { sent: 0, first_byte: 0, unseen: flight.unseen + 1, ..flight };
                let flights = &mut self.clients[index as usize].flights;
                // Who was turned away more often goes first: a server that ends its connections early shall not see the same
                // one last each time.
                let place = flights.partition_point(|other| other.unseen >= again.unseen);
                flights.insert(place, again);
            }
            Err(lost) => {
                let wrong = if let Lost::Wrong(wrong) = lost { wrong } else { Wrong::GoAway };
                self.lose(index, &flight, wrong, now);
                // Its connection goes on, and so does who has others on it.
                match self.clients[index as usize].role {
                    Role::Session { .. } => self.after_failure(index, now),
                    _ => self.next(index, now),
                }
            }
        }
    }

    fn lose(&mut self, index: u32, flight: &Flight, wrong: Wrong, now: u64) {
        self.present.in_flight -= 1;
        self.record.error(Some(flight.template), wrong);
        self.trace(index, flight, now, Err(wrong));
    }

    /// HTTP/2 is over on this connection: the server said goodbye, or something that cannot be.
    /// `alone`: no stream has been told of it.
    fn streams_over(&mut self, index: u32, wrong: Option<Wrong>, alone: bool, now: u64) {
        self.record.second.tally.counts.closed_by_server += 1;
        let is_idle = self.clients[index as usize].in_flight() == 0;
        match wrong {
            Some(_) if is_idle && alone => self.record.error(None, Wrong::ResetAfterReply),
            None if is_idle => self.record.second.tally.counts.closed_while_idle += 1,
            _ => {}
        }
        self.end_streams(index, now, |_, _| wrong.unwrap_or(Wrong::EndBeforeReply));
    }

    /// The server has ended the connection without a word of HTTP/2.
    pub(super) fn streams_ended(&mut self, index: u32, now: u64) {
        let counts = &mut self.record.second.tally.counts;
        counts.closed_by_server += 1;
        counts.closed_while_idle += u64::from(self.clients[index as usize].in_flight() == 0);
        self.end_streams(index, now, |flight, crossed| match (flight.first_byte, crossed) {
            (1.., _) => Wrong::Truncated,
            (0, true) => Wrong::KeepAliveRace,
            (0, false) => Wrong::EndBeforeReply,
        });
    }

    pub(super) fn streams_reset(&mut self, index: u32, bad: bool, now: u64) {
        if self.clients[index as usize].in_flight() == 0 {
            self.record.error(None, Wrong::ResetAfterReply);
        }
        self.end_streams(index, now, |flight, crossed| match (flight.first_byte, crossed) {
            _ if bad => Wrong::TlsBroken,
            (1.., _) => Wrong::ResetInReply,
            (0, true) => Wrong::KeepAliveRace,
            (0, false) => Wrong::ResetBeforeReply,
        });
    }

    /// The connection is gone, and its streams with it. Requests without a stream are asked on another.
    fn end_streams(&mut self, index: u32, now: u64, wrong: impl Fn(&Flight, bool) -> Wrong) {
        let client = &mut self.clients[index as usize];
        let streams = client.http2.as_mut().map_or_else(Vec::new, |http2| std::mem::take(&mut http2.streams));
        for stream in &streams {
            let crossed = self.may_have_crossed(index, &stream.flight, now);
            self.lose(index, &stream.flight, wrong(&stream.flight, crossed), now);
        }
        let waits = !self.clients[index as usize].flights.is_empty();
        match self.clients[index as usize].role {
            Role::Session { .. } if !streams.is_empty() => {
                self.part(index);
                self.after_failure(index, now);
            }
            Role::Loop => {
                self.part(index);
                self.after_failure(index, now);
            }
            _ if waits => {
                self.part(index);
                self.go(index, now);
            }
            _ => self.lose_idle(index),
        }
    }

    /// A timeout of one stream, or of several; the others go on.
    pub(super) fn streams_time_up(&mut self, index: u32, now: u64) {
        let (slot, links) = (self.slot(index), self.clients[index as usize].links);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        if let Some(http2) = &mut self.clients[index as usize].http2 {
            http2.expire(now, &mut outcomes);
        }
        for outcome in outcomes.drain(..) {
            self.outcome(index, outcome, now);
        }
        self.outcomes = outcomes;
        if self.is_present(slot) && self.clients[index as usize].links == links {
            self.turn_streams(index, now);
        }
    }
}
