//! A connection of many streams, looked at: it is read, its machine's events are followed, what is framed is sent.
//!
//! Knows: one connection at a time, which stays while its streams leave. Does not know: frames (`wire::h2` does), or who
//! answers. Runs under the baton.
//!
//! A look goes on as long as it brings something and others are not kept waiting: so many requests, so many reads. While
//! the peer takes nothing of what is framed, nothing more is read of it.

mod bodies;
mod events;

use std::collections::VecDeque;
use std::sync::Arc;

use reactor::Read;
use wire::h2::Receive;
use wire::{Millis, Shared};

use super::Connections;
use crate::connection::{After, Connection, Phase};
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::h2_framing::H2Framing;
use crate::listener::is_among;
use crate::multiplexed::{Multiplexed, Origin};
use crate::output::Flushed;
use crate::poller::Poller;
use crate::send_half::AHEAD;
use crate::slots::{Slots, Wakeup};
use crate::statistics::Statistics;
use crate::storing::Storing;
use crate::stream::Ended;
use crate::streams::{Place, Streams};

/// So many requests one look brings: as many again come when others have had their turn.
const REQUESTS_A_VISIT: usize = 8;

/// What a look at a connection's streams needs of the loop.
struct Visit<'a> {
    engine: &'a Arc<Engine>,
    shared: &'a mut Shared,
    slots: &'a mut Slots,
    storing: &'a Storing,
    opened: &'a mut VecDeque<Box<Exchange>>,
    statistics: &'a mut Statistics,
    /// The connection's own token.
    token: u64,
    /// Parts of bodies that have come.
    pieces: u32,
    now: Millis,
}

/// How far the input of a look came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    All,
    /// Others come first; there is more.
    Enough,
    /// It ends with a fault.
    Fault,
}

impl Connections {
    /// Looks at a connection by its token, if it is there. What that brings of requests is told by
    /// [`Connections::next_opened`], but for one of a connection that has none of many streams.
    pub fn visit(&mut self, token: u64, poller: &mut Poller) -> Option<Box<Exchange>> {
        let connection = self.slots.check_out(token)?;
        self.progress(connection, poller)
    }

    /// The next request of a stream.
    #[inline]
    pub fn next_opened(&mut self) -> Option<Box<Exchange>> {
        self.opened.pop_front()
    }

    /// The exchange of a stream is over.
    pub fn end_stream(&mut self, ended: Ended, now: Millis) {
        self.slots.free_of_stream(ended.token);
        let cut = ended.shared.half().take_cut(ended.id);
        if let Some(row) = self.slots.get(ended.shared.origin().token)
            && let crate::slots::Place::Parked(connection) = &mut row.place
            && let Some(mut streams) = connection.take_streams()
        {
            let over = streams.call_is_over(ended.id, cut, self.reader.shared(), now);
            connection.put_streams(streams);
            if let Some(cut) = over {
                self.unsettled.end((ended.shared.origin().token, ended.id), cut);
            }
        } else {
            self.unsettled.end((ended.shared.origin().token, ended.id), true);
        }
    }

    fn visiting<'a>(&'a mut self, token: u64, statistics: &'a mut Statistics, now: Millis) -> Visit<'a> {
        Visit {
            statistics,
            engine: &self.engine,
            shared: self.reader.shared(),
            slots: &mut self.slots,
            storing: &self.storing,
            opened: &mut self.opened,
            token,
            pieces: 0,
            now,
        }
    }

    /// One look; given back where it goes on in another phase. Not where requests of HTTP/1 pass: its room on the stack is
    /// large.
    #[inline(never)]
    pub(super) fn visit_streams(
        &mut self,
        mut connection: Box<Connection>,
        poller: &mut Poller,
    ) -> Option<Box<Connection>> {
        let now = poller.now;
        let mut streams = match connection.take_streams() {
            Some(streams) => streams,
            None => self.begin_streams(&connection, now),
        };
        streams.shared.visit_begins();
        if let Some(since) = streams.unread_since.take() {
            streams.receive.reader_paused(now.saturating_sub(since));
        }
        if self.shutdown.has_begun() {
            streams.receive.leave(now);
        }
        streams.give_back(self.reader.shared(), now);
        let lives = self.read_streams(&mut connection, &mut streams, poller);
        if !self.engine.keeps_connections() && !streams.calls.is_empty() {
            // Its peer has asked something: that is answered, and what comes behind it goes elsewhere.
            streams.receive.leave(now);
        }
        let sent = if lives { self.send_streams(&mut streams, now) } else { None };
        let Some(sent) = sent else {
            self.engine.counters.requests_incomplete.add_many(u64::from(!streams.calls.is_empty()));
            connection.put_streams(streams);
            self.close(connection);
            return None;
        };
        let over = streams.ends || streams.receive.is_over();
        let over = over || streams.peer_ended && streams.calls.is_empty();
        let half = streams.shared.half();
        streams.shared.loop_waits(over || streams.receive.owes() || half.waiting() >= AHEAD);
        let waiting = half.waiting();
        if over && waiting == 0 {
            if self.shutdown.has_begun() {
                self.engine.counters.connections_drained.add();
            }
            // Who has not read the farewell must not meet a reset.
            let left = self.engine.config.limits.drain_bytes;
            connection.phase =
                Phase::Flushing(if streams.peer_ended { After::Close } else { After::Linger { left } });
            self.end_streams(*streams);
            return Some(connection);
        }
        // Behind a full transport nothing is read: an edge tells when it is not.
        let full = waiting >= AHEAD;
        streams.unread_since = full.then_some(now);
        // What has come in time counts, and not that something has come: its next deadline is looked at anew.
        connection.looked_late &= streams.deadline(&self.engine.config.limits) <= now;
        connection.put_streams(streams);
        let goes_on = !full && (connection.more || !connection.pending.is_empty());
        let more = std::mem::replace(&mut connection.more, goes_on);
        let token = connection.token;
        self.park(connection, poller);
        if more
            && !goes_on
            && let Some(row) = self.slots.get(token)
            && let crate::slots::Place::Parked(connection) = &mut row.place
        {
            connection.more = true;
        }
        if sent == Flushed::More {
            self.engine.counters.send_bursts.add_alone();
            poller.allowance.count_sent(self.engine.config.limits.send_burst_bytes);
            self.slots.resume(token);
        }
        None
    }

    fn begin_streams(&mut self, connection: &Connection, now: Millis) -> Box<Streams> {
        let origin = Origin {
            token: connection.token,
            peer: connection.peer,
            listener: connection.listener,
            proxied: connection.proxied().cloned().map(Box::new),
            is_trusted: is_among(&connection.peer, &self.engine.config.trust),
        };
        let framing = Box::<H2Framing>::default();
        let visits = Arc::clone(&self.engine.visits);
        let websockets = self.engine.config.websockets;
        let shared = Multiplexed::new(Arc::clone(&connection.transport), origin, framing, visits);
        let receive = Receive::new(connection.machine.variant(), websockets, self.reader.shared(), now);
        Box::new(Streams::new(receive, shared))
    }

    /// Reads and follows events. False: the connection broke.
    fn read_streams(
        &mut self,
        connection: &mut Connection,
        streams: &mut Streams,
        poller: &mut Poller,
    ) -> bool {
        let (token, now) = (connection.token, poller.now);
        let mut reads = 0;
        while !streams.ends && streams.shared.half().waiting() < AHEAD {
            let heard;
            if !connection.pending.is_empty() {
                let pending = connection.pending.take();
                let mut input = pending.rest();
                let mut visit = self.visiting(token, &mut poller.statistics, now);
                heard = visit.hear(streams, &mut input);
                poller.allowance.count_pieces(visit.pieces);
                let left = input.len();
                connection.pending.put(pending, left);
            } else if connection.more && poller.allowance.may_read(reads) {
                reads += 1;
                connection.more = false;
                self.reader.count_read(poller);
                let mut lent = poller.reactor.take_lent();
                let most = poller.allowance.read_bytes().min(lent.len());
                let result = match connection.transport.read(&mut lent[..most]) {
                    Read::Data { bytes, more } => {
                        connection.more = more || connection.hung_up;
                        let mut input = bytes;
                        let mut visit = self.visiting(token, &mut poller.statistics, now);
                        let heard = visit.hear(streams, &mut input);
                        poller.allowance.count_pieces(visit.pieces);
                        connection.pending.keep(input);
                        Some(heard)
                    }
                    Read::Nothing => Some(Heard::All),
                    Read::Ended => {
                        streams.peer_ended = true;
                        self.visiting(token, &mut poller.statistics, now).hear_the_end(streams);
                        Some(Heard::All)
                    }
                    Read::Failed(_) => None,
                };
                poller.reactor.give_lent(lent);
                let Some(result) = result else { return false };
                heard = result;
            } else {
                break;
            }
            if heard != Heard::All {
                break;
            }
        }
        true
    }

    /// Sends what is framed and what the machine has to say, in this order; goes on with what is left of replies, and lets
    /// go of streams that are done. None: the connection broke.
    fn send_streams(&mut self, streams: &mut Streams, now: Millis) -> Option<Flushed> {
        let limits = &self.engine.config.limits;
        let sent = loop {
            let had_room = streams.shared.half().has_room();
            streams.speak();
            let sent = streams.shared.write(limits, now).ok()?;
            let released = streams.release_finished(self.reader.shared(), now);
            for (stream, cut) in &released {
                self.unsettled.end((streams.shared.origin().token, *stream), *cut);
            }
            // What the machine has to say waits for room, of which no edge need tell.
            let room_was_made = !had_room && streams.shared.half().has_room();
            if sent == Flushed::More || released.is_empty() && !room_was_made {
                break sent;
            }
        };
        streams.note_taken(limits, now);
        for token in streams.shared.take_starved() {
            self.slots.wake(Wakeup { token, hung_up: false });
        }
        Some(sent)
    }

    /// Idle ones cannot be given to another worker, as their peers have tables here: they are told that they end, and come
    /// back to whoever takes them.
    pub(super) fn ask_streams_to_leave(&mut self, poller: &mut Poller) {
        let idle: Vec<u64> = self
            .slots
            .parked()
            .filter(|(_, connection, _)| connection.streams().is_some_and(Streams::is_idle))
            .map(|(token, ..)| token)
            .filter(|&token| !self.handover.stays(token, poller.now))
            .collect();
        if !idle.is_empty() {
            self.engine.draws_nobody();
        }
        for token in idle {
            let Some(mut connection) = self.slots.check_out(token) else { continue };
            if let Some(mut streams) = connection.take_streams() {
                streams.receive.leave(poller.now);
                connection.put_streams(streams);
            }
            let none = self.progress(connection, poller);
            debug_assert!(none.is_none(), "requests of streams are told apart");
        }
    }

    /// Its connection is gone, or waits for nothing but that its peer reads the farewell: whoever answers a stream of it
    /// hears so, and nothing is kept of what it has said.
    pub(super) fn end_streams(&mut self, mut streams: Streams) {
        streams.shared.close();
        lose_all(&mut self.slots, &mut streams);
    }

    /// The time of a connection is over, or that of one of its streams.
    pub(super) fn time_out_streams(&mut self, mut connection: Box<Connection>, poller: &mut Poller) {
        let now = poller.now;
        let Some(mut streams) = connection.take_streams() else { return self.close(connection) };
        streams.note_taken(&self.engine.config.limits, now);
        if streams.patience.is_some_and(|patience| patience.is_over(now)) {
            self.engine.counters.write_timeouts.add();
            connection.transport.reset_at_close();
            connection.put_streams(streams);
            return self.close(connection);
        }
        self.engine.counters.write_timeouts.add_many(streams.shared.give_up(now));
        // Of what is not read, nothing is late.
        if streams.unread_since.is_none() {
            self.visiting(connection.token, &mut poller.statistics, now).tick(&mut streams);
        }
        connection.put_streams(streams);
        connection.looked_late = false;
        let none = self.progress(connection, poller);
        debug_assert!(none.is_none(), "requests of streams are told apart");
    }
}

/// Everybody who has a stream of this connection hears that it is over.
fn lose_all(slots: &mut Slots, streams: &mut Streams) {
    for call in std::mem::take(&mut streams.calls) {
        if let Place::Away { token, inlet } = call.place {
            if let Some(inlet) = inlet {
                inlet.lose();
            }
            slots.wake(Wakeup { token, hung_up: true });
        }
    }
}
