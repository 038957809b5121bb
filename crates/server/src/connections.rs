//! All connections of a loop: each is in the table, or in flight with whoever answers its request.
//!
//! Knows: which are idle, which are to be read, and how each ends. Does not know: where they come from, or in which
//! order requests are answered. Runs under the baton.

mod eviction;
mod expiry;
mod giving;
mod pipelines;
mod progress;
mod slow_readers;
mod streams;
mod unsettled;

use std::collections::VecDeque;
use std::sync::Arc;

use reactor::sys::FreeList;
use wire::{Fault, Millis};

use self::eviction::EvictionQueue;
pub(crate) use self::pipelines::{MOST_NAMED, Waiting};
use self::unsettled::Unsettled;
use crate::connection::{Connection, Phase};
use crate::engine::{Engine, Stage};
use crate::exchange::Exchange;
use crate::handoff::{Handover, Source};
use crate::listener::{Kind, Protocol};
use crate::patience::Patience;
use crate::poller::Poller;
use crate::reading::Reader;
use crate::shutdown::Shutdown;
use crate::slots::{Place, Slots, Wakeup};
use crate::storing::Storing;
use crate::transport::Transport;

/// The memory of so many requests that have ended is kept for the next ones: of twice as many as are read before the first is
/// answered.
const FREE: usize = 32;

/// The connections, and what is done with them when nobody answers a request of theirs.
pub(crate) struct Connections {
    engine: Arc<Engine>,
    slots: Slots,
    reader: Reader,
    /// Those whose bodies are being written to a file.
    storing: Storing,
    /// The way on which idle ones go to other workers.
    handover: Handover,
    shutdown: Shutdown,
    /// The connection whose earlier replies wait for the request that was begun last.
    held_up: Option<u64>,
    /// Who makes room for another connection.
    evictable: EvictionQueue,
    /// One has been closed since this was last asked, or is back that may be closed for another.
    one_closed: bool,
    /// Requests of streams that the loop has not taken.
    opened: VecDeque<Box<Exchange>>,
    unsettled: Unsettled,
    /// Where requests were that have ended.
    free: FreeList<Exchange>,
}

impl Connections {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            slots: Slots::default(),
            reader: Reader::new(Arc::clone(&engine)),
            storing: Storing::new(Arc::clone(&engine.spool), Arc::clone(&engine.waker)),
            handover: Handover::new(engine.config.handoff.clone(), engine.config.apart.clone()),
            shutdown: Shutdown::default(),
            held_up: None,
            evictable: EvictionQueue::default(),
            one_closed: false,
            opened: VecDeque::new(),
            unsettled: Unsettled::default(),
            free: FreeList::new(FREE),
            engine,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// There is none, and no stream of one that is gone is away.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many are in flight, streams included.
    pub fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// How many go on without an edge.
    #[inline]
    pub fn resuming(&self) -> usize {
        self.slots.resuming()
    }

    /// One has been closed since the last call.
    #[inline]
    pub fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.one_closed)
    }

    /// Takes in a new one, of which `source` tells where it comes from. `peer`: its address, and what is spoken on
    /// its listener's connections.
    pub fn admit(
        &mut self,
        transport: Transport,
        (peer, kind): (reactor::Address, Kind),
        source: Source,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        let token = self.slots.take();
        let config = &self.engine.config;
        let rules = (kind, &config.trust, &config.limits);
        let mut connection = Connection::new(transport, token, (peer, source.listener), rules, poller.now);
        if source.handed_over {
            connection.take_over((source.used, &source.said), &config.trust, poller.now);
            // Mostly it is idle: if it is not, the set tells as soon as it hears of it. Where the end has begun it would not be asked.
            connection.more = !source.used || self.shutdown.has_begun();
        }
        let Some(carried) = source.carried else { return self.progress(Box::new(connection), poller) };
        connection.pending.keep(&carried.bytes);
        let mut exchange = self.progress(Box::new(connection), poller)?;
        self.engine.counters.requests_taken_over.add();
        exchange.came_over(carried.arrived, &self.engine);
        Some(exchange)
    }

    /// Takes in one that is refused before anything of it is read.
    pub fn admit_refused(
        &mut self,
        transport: Transport,
        peer: reactor::Address,
        source: Source,
        fault: &Fault,
        poller: &mut Poller,
    ) {
        let token = self.slots.take();
        let config = &self.engine.config;
        let rules = (Kind::HTTP, &config.trust, &config.limits);
        let mut connection = Connection::new(transport, token, (peer, source.listener), rules, poller.now);
        self.refuse(&mut connection, fault, poller);
        let none = self.progress(Box::new(connection), poller);
        debug_assert!(none.is_none(), "a refused connection yields no request");
    }

    /// An edge belongs to a connection that is parked, or is remembered for one that is in flight,
    /// or comes too late for one that is gone.
    #[inline]
    pub fn edge(
        &mut self,
        token: u64,
        readable: bool,
        hung_up: bool,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        let Some(mut connection) = self.slots.check_out(token) else {
            self.slots.miss_edge(token, readable, hung_up);
            return None;
        };
        connection.note_edge(readable, hung_up);
        self.progress(connection, poller)
    }

    /// Goes on with the next one whose socket holds more; its request, if that completed one. None: there is no
    /// such connection, or others come first.
    #[inline]
    pub fn resume_next(&mut self, poller: &mut Poller) -> Option<Option<Box<Exchange>>> {
        if !poller.allowance.visit() {
            return None;
        }
        let resumed = self.slots.next_resumed()?;
        Some(resumed.and_then(|connection| self.progress(connection, poller)))
    }

    /// One comes back from whoever has answered its request.
    #[inline]
    pub fn take_back(&mut self, connection: &mut Connection, now: Millis) {
        self.slots.deliver_missed_edges(connection);
        connection.more |= connection.transport.has_unread();
        connection.answered(now);
    }

    /// A request is begun: replies to earlier ones of its connection may wait for it.
    #[inline]
    pub fn begins(&mut self, exchange: &Exchange) {
        if let Some(replies) = exchange.pipelined_replies() {
            let token = exchange.token();
            self.slots.note_pipelined(token, replies);
            self.held_up = Some(token);
        }
    }

    /// Whoever was waited for is back.
    #[inline]
    pub fn nobody_is_held_up(&mut self) {
        self.held_up = None;
    }

    /// Whoever is waited for takes long: what waits for it is sent.
    pub fn relieve(&mut self) {
        if let Some(replies) = self.held_up.take().and_then(|token| self.slots.take_pipelined(token)) {
            // An error shows again when the connection comes back.
            let _ = replies.send();
        }
    }

    /// Those whose bodies have been written come back.
    pub fn fetch_stored(&mut self) {
        self.storing.fetch();
    }

    /// [`Connections::next_stored`] has something.
    #[inline]
    pub fn any_stored(&self) -> bool {
        self.storing.any()
    }

    /// Goes on with the next one whose body has been written; its request, if that is complete.
    #[inline]
    pub fn next_stored(&mut self, poller: &mut Poller) -> Option<Option<Box<Exchange>>> {
        let stored = self.storing.next()?;
        Some(self.resume_stored(stored, poller))
    }

    /// Those that are in flight and have an edge or a deadline are told to whoever has them.
    pub fn tell_of_in_flight(&mut self) {
        self.slots.tell_of_in_flight();
    }

    /// Appends those that are in flight and shall be looked at.
    pub fn take_wakeups(&mut self, into: &mut Vec<Wakeup>) {
        self.slots.take_wakeups(into);
    }

    /// Has one that is in flight looked at with the next turn.
    pub fn wake(&mut self, token: u64) {
        if self.slots.wake(Wakeup { token, hung_up: false }) {
            self.engine.waker.wake();
        }
    }

    /// What one was to be sent has been read from the disk: it goes on, with all its patience, as it was not the one
    /// that was slow.
    pub fn go_on(&mut self, token: u64, poller: &mut Poller) -> Option<Box<Exchange>> {
        let Some(mut connection) = self.slots.check_out(token) else {
            self.wake(token);
            return None;
        };
        if let Some(streams) = connection.streams() {
            streams.shared.disk_has_read(&self.engine.config.limits, poller.now);
        }
        if matches!(connection.phase, Phase::Flushing(_)) {
            connection.patience = Patience::to_write(&self.engine.config.limits, poller.now);
        }
        self.progress(connection, poller)
    }

    /// Has one that is in flight looked at no later than `at`.
    pub fn wake_at(&mut self, token: u64, at: Millis, poller: &mut Poller) {
        if let Some(row) = self.slots.get(token) {
            row.deadline = row.deadline.min(at);
            poller.wake_by(at);
        }
    }

    /// Puts a connection into the table, where an edge or a deadline will find it.
    #[inline]
    fn park(&mut self, mut connection: Box<Connection>, poller: &mut Poller) {
        if self.handover.is_on() {
            // What is known of it here would keep it from leaving.
            self.slots.take_pipelined(connection.token);
        }
        if self.handover.is_on() && self.handover.may_leave(&connection, poller.now) {
            match self.hand_over(connection, poller) {
                Some(kept) => connection = kept,
                None => return,
            }
        }
        // One of streams says that it leaves, and ends when that is heard.
        let leaving = self.shutdown.has_begun() && connection.phase != Phase::Streams && connection.is_idle();
        if leaving && self.shutdown.closes_idle(poller.now) {
            self.engine.counters.connections_drained.add();
            return self.close(connection);
        }
        if poller.watch(&mut connection).is_err() {
            return self.close(connection);
        }
        if !connection.machine.idle() {
            self.note_partial(&connection, poller);
        }
        let mut deadline = connection.deadline(&self.engine.config.limits);
        if leaving {
            deadline = deadline.min(self.shutdown.idle_until());
        }
        poller.wake_by(deadline);
        let token = connection.token;
        self.one_closed |= self.engine.config.unfinished_make_room;
        // Behind a full socket nothing is read, so that there is nothing to go on with.
        if connection.more && !matches!(connection.phase, Phase::Flushing(_)) {
            self.slots.resume(token);
        }
        if let Some(row) = self.slots.get(token) {
            row.deadline = deadline;
            row.place = Place::Parked(connection);
        }
    }

    /// Closes a connection and frees its slot.
    fn close(&mut self, mut connection: Box<Connection>) {
        self.slots.free(connection.token);
        if self.handover.staying().any() {
            self.may_come_again(connection.token);
        }
        self.unsettled.forget(&connection);
        if let Some(streams) = connection.take_streams() {
            if streams.shared.half().waiting() == 0 {
                connection.transport.end();
            }
            self.end_streams(*streams);
            connection.transport.shut_both();
        } else {
            if connection.sending.is_empty() {
                connection.transport.end();
            }
            if connection.machine.protocol() == Protocol::Http2 {
                // Whoever answers a stream of it still may have it in hand.
                connection.transport.shut_both();
            }
        }
        drop(connection);
        self.note_closed();
    }

    /// A connection has ended: where its requests have held up the loop, its client may come again with another one.
    #[cold]
    fn may_come_again(&mut self, token: u64) {
        let now = reactor::sys::monotonic_ms();
        if self.handover.staying().ended(token, now) {
            self.engine.draws_newcomers(now, true);
        }
    }

    /// A request has held up the event loop: its connection stays here.
    #[cold]
    pub fn has_held_up(&mut self, exchange: &Exchange) {
        self.handover.staying().held_up(exchange.connection_token(), reactor::sys::monotonic_ms());
    }

    /// One that was accepted is open no more.
    pub fn note_closed(&mut self) {
        self.engine.counters.connections_closed.add_alone();
        self.one_closed = true;
    }

    /// How idle ones go to other workers.
    pub fn handover(&mut self) -> &mut Handover {
        &mut self.handover
    }

    /// The graceful shutdown, as far as it has come.
    #[inline]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// The word to stop has come: closes what is idle. Where others go on, what is idle has time to come back
    /// once more. False: that has been done.
    pub fn begin_stop(&mut self, stage: Stage, poller: &mut Poller) -> bool {
        if !self.shutdown.advance(stage, &self.engine.config.limits, poller.now) {
            return false;
        }
        if let Some(end) = self.shutdown.ends_at() {
            poller.wake_by(end);
        }
        self.handover.switch(false);
        // Those that are parked are looked at once more: a request that has arrived is served,
        // one that is only idle is closed by `park`.
        let parked: Vec<u64> = self.slots.parked().map(|(token, _, _)| token).collect();
        for token in parked {
            if let Some(row) = self.slots.get(token)
                && let Place::Parked(connection) = &mut row.place
            {
                connection.more = true;
            }
            self.slots.resume(token);
        }
        true
    }
}
