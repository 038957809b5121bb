//! Bytes out and in: what a ready socket leads to. `settle` says what came of it.

use super::Worker;
use crate::client::Role;
use crate::reply::Step;
use crate::system::{self, Moved, NoConnection, Ready};
use crate::timers::Slot;

/// Pipelined requests go out together, up to so many bytes.
const GATHERED: usize = 64 * 1024;
/// Buffers that one connection may fill before the others have their turn.
pub const READS_A_TURN: u32 = 16;

impl Worker<'_> {
    pub(super) fn ready(&mut self, ready: Ready) {
        let slot = Slot::of_token(ready.token);
        if !self.is_present(slot) {
            return;
        }
        let index = slot.index;
        let client = &self.clients[index as usize];
        let Some(socket) = &client.socket else { return };
        if !client.connected {
            if ready.failed
                && let Some(why) = system::connect_error(socket)
            {
                return self.no_connection(index, why, self.clock.now());
            }
            if client.connected_at > 0 {
                return self.agree(index);
            }
            if !ready.writable {
                return;
            }
            self.connected(index, self.clock.now());
            // Its edge may be past where the server speaks first.
            if self.is_present(slot) && !self.clients[index as usize].connected {
                return self.agree(index);
            }
        } else if ready.writable && client.has_output() && self.job.slow_write().is_none() {
            self.flush(index, self.clock.now());
        }
        if (ready.readable || ready.ended) && self.is_present(slot) {
            self.readable(index, ready.ended);
        }
    }

    /// Sends what is to be sent, as far as the socket takes it.
    pub(super) fn flush(&mut self, index: u32, now: u64) {
        let (job, slow) = (self.job, self.job.slow_write());
        if self.clients[index as usize].http2.is_some() {
            self.turn_streams(index, now);
            return;
        }
        while self.clients[index as usize].is_sending() {
            let client = &mut self.clients[index as usize];
            let outgoing = client.outgoing;
            let bytes_of = |flight: &crate::client::Flight| {
                let template = &job.templates[flight.template as usize];
                if flight.last { &template.last[..] } else { &template.bytes[..] }
            };
            let mut bytes = &bytes_of(&client.flights[outgoing.written])[outgoing.offset..];
            if let Some(slow) = slow {
                bytes = &bytes[..bytes.len().min(slow.bytes)];
            } else if client.flights.len() > outgoing.written + 1 {
                self.gathered.clear();
                self.gathered.extend_from_slice(bytes);
                for flight in client.flights.range(outgoing.written + 1..) {
                    if self.gathered.len() < GATHERED {
                        self.gathered.extend_from_slice(bytes_of(flight));
                    }
                }
                bytes = &self.gathered;
            }
            match client.write(bytes) {
                Moved::Bytes(count) => {
                    self.record.second.tally.counts.bytes_sent += count as u64;
                    let mut left = count;
                    while left > 0 {
                        let flight = &mut client.flights[client.outgoing.written];
                        let take = left.min(bytes_of(flight).len() - client.outgoing.offset);
                        client.outgoing.offset += take;
                        left -= take;
                        if client.outgoing.offset == bytes_of(flight).len() {
                            flight.sent = now.max(1);
                            client.outgoing.written += 1;
                            client.outgoing.offset = 0;
                        }
                    }
                    client.deadlines.limit = now + job.first_byte_limit;
                    if let (Some(slow), true) = (slow, client.is_sending()) {
                        client.deadlines.wake = now + crate::job::nanoseconds(slow.every_s);
                        break;
                    }
                }
                Moved::Later => {
                    client.deadlines.limit = now + job.first_byte_limit;
                    break;
                }
                Moved::End | Moved::Reset | Moved::Cut | Moved::Bad => {
                    // The server may have replied before it closed: reading tells, and decides the kind.
                    client.outgoing.written = client.flights.len();
                    client.outgoing.offset = 0;
                    self.again.push(Slot { index, generation: client.generation });
                    break;
                }
            }
        }
        // What is encrypted already has no place among what is to be sent.
        let client = &mut self.clients[index as usize];
        if let (Some(socket), Some(tls)) = (&client.socket, &mut client.tls) {
            let _ = tls.flush(socket);
        }
        self.schedule(index);
    }

    /// Reads what there is. `ended`: an end was announced, so reading goes on until it is found.
    pub(super) fn readable(&mut self, index: u32, ended: bool) {
        if self.clients[index as usize].paused {
            return;
        }
        let slow = self.job.slow_read();
        let (mut buffer, mut plain) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.plain));
        let room = slow.map_or(buffer.len(), |slow| slow.bytes.min(buffer.len()));
        for reads in 1.. {
            let client = &mut self.clients[index as usize];
            let Some(socket) = &client.socket else { break };
            // A stream without end must not keep this thread from its other work.
            if reads > READS_A_TURN {
                self.again.push(self.slot(index));
                break;
            }
            let (moved, more) = if let Some(tls) = &mut client.tls {
                plain.clear();
                let moved = tls.read(socket, &mut buffer[..room], &mut plain);
                (moved, tls.is_closed())
            } else {
                (system::read(socket, &mut buffer[..room]), false)
            };
            match moved {
                Moved::Bytes(count) => {
                    let now = self.clock.now();
                    let came = if self.job.tls.is_some() { &plain[..] } else { &buffer[..count] };
                    self.record.second.tally.counts.bytes_received += came.len() as u64;
                    if !came.is_empty() && !self.feed(index, came, now) {
                        break;
                    }
                    let awaits_more = !self.clients[index as usize].flights.is_empty();
                    if let (Some(slow), true) = (slow, awaits_more) {
                        let client = &mut self.clients[index as usize];
                        client.paused = true;
                        client.deadlines.wake =
                            client.deadlines.wake.min(now + crate::job::nanoseconds(slow.every_s));
                        self.schedule(index);
                        break;
                    }
                    if count < room && !ended && !more {
                        break;
                    }
                }
                Moved::Later => break,
                Moved::End | Moved::Cut => {
                    self.ended(index, moved == Moved::End, self.clock.now());
                    break;
                }
                Moved::Reset | Moved::Bad => {
                    self.reset(index, moved == Moved::Bad, self.clock.now());
                    break;
                }
            }
        }
        (self.buffer, self.plain) = (buffer, plain);
    }

    /// Gives bytes to the reader. False when the connection is not this client's any more.
    pub(super) fn feed(&mut self, index: u32, bytes: &[u8], now: u64) -> bool {
        if self.clients[index as usize].http2.is_some() {
            return self.feed_streams(index, bytes, now);
        }
        let mut input = bytes;
        while !input.is_empty() {
            let client = &mut self.clients[index as usize];
            let Some(flight) = client.flights.front_mut() else {
                self.extra_bytes(index);
                return false;
            };
            if flight.first_byte == 0 {
                flight.first_byte = now.max(1);
                client.deadlines.limit = now + self.job.body_limit;
            }
            let expected = &self.job.templates[flight.template as usize].expected;
            let goes_on = match client.reader.step(&mut input, expected) {
                None => break,
                Some(Step::Reply(reply)) => self.replied(index, reply, !input.is_empty(), now),
                Some(Step::Bad(wrong)) => {
                    self.fail(index, wrong, now);
                    false
                }
            };
            if !goes_on {
                return false;
            }
        }
        let client = &self.clients[index as usize];
        // Once for all replies that were read together: what is pipelined goes out together too.
        if client.role == Role::Loop || client.is_sending() {
            self.go(index, now);
        } else {
            self.schedule(index);
        }
        true
    }

    /// A connection whose time to connect is not over, but whose queue was full.
    pub(super) fn connect_again(&mut self, index: u32, now: u64) {
        if self.clients[index as usize].deadlines.limit <= now {
            self.no_connection(index, NoConnection::Full, now);
        } else {
            self.connect(index, now);
        }
    }
}
