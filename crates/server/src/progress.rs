//! What one connection does next, as far as it goes without waiting.
//!
//! Knows: one connection at a time, and the loop that it belongs to. Does not know: threads
//! or Python. Runs under the baton.

use std::sync::Arc;

use reactor::Read;
use wire::{Event, Fault, Framing, Head, Whose};

use crate::body::{Body, BodyBuffer};
use crate::connection::{After, Connection, Phase, Receiving};
use crate::exchange::{Exchange, content_length};
use crate::incoming::{Flow, Incoming};
use crate::log::Level;
use crate::output::Flushed;
use crate::patience::Patience;
use crate::slots::Place;
use crate::storing::Stored;
use crate::turn::Loop;

/// What came of some input.
pub(crate) enum Step {
    /// All of it was taken; more is needed.
    More,
    /// A request is complete, or is to be answered while its body arrives.
    Ready(Arc<Head>, Body),
    /// What has been received of a body goes to its file before more is read.
    Store,
    Refuse(Fault),
    /// The peer has ended.
    Ended,
}

impl Loop {
    /// Carries a connection on until it yields a request, waits at home, or is closed.
    pub(crate) fn progress(&mut self, mut connection: Box<Connection>) -> Option<Exchange> {
        let mut reads = 0;
        loop {
            match connection.phase {
                // Whoever does not take its replies is not asked for another one.
                Phase::Reading if self.owes_much(&connection) => {
                    connection.phase = Phase::Flushing(After::Continue);
                }
                Phase::Reading => {
                    let step = if !connection.pending.is_empty() {
                        self.digest_pending(&mut connection)
                    } else if connection.more && self.allowance.may_read(reads) {
                        reads += 1;
                        connection.more = false;
                        self.receive(&mut connection)
                    } else if connection.sending.is_empty() {
                        self.park(connection);
                        return None;
                    } else {
                        connection.phase = Phase::Flushing(After::Continue);
                        continue;
                    };
                    match step {
                        Step::More => {}
                        Step::Ready(head, body) => return Some(self.take_out(connection, head, body)),
                        Step::Store => {
                            self.storing.store(connection);
                            return None;
                        }
                        Step::Refuse(fault) => self.refuse(&mut connection, &fault),
                        Step::Ended => connection.phase = Phase::Flushing(After::Close),
                    }
                }
                Phase::Flushing(after) => match self.flush(&mut connection) {
                    Ok(Flushed::All) => match after {
                        After::Continue => connection.phase = Phase::Reading,
                        After::Linger { left } => self.linger(&mut connection, left),
                        After::Close => {
                            // The end is the message. Where a process has been forked that our handlers
                            // have not seen, close(2) alone would not send it.
                            if reactor::sys::has_forked() {
                                connection.transport.shut_write();
                            }
                            self.close(connection);
                            return None;
                        }
                    },
                    Ok(flushed) => {
                        self.send_later(connection, flushed);
                        return None;
                    }
                    Err(_) => {
                        self.engine.counters.replies_incomplete.add();
                        self.close(connection);
                        return None;
                    }
                },
                Phase::Lingering { left } => {
                    if self.discard(&mut connection, left) {
                        self.park(connection);
                    } else {
                        self.close(connection);
                    }
                    return None;
                }
            }
        }
    }

    /// More is to be sent when the socket has room or, if it has, when others have had their turn.
    fn send_later(&mut self, connection: Box<Connection>, flushed: Flushed) {
        let token = connection.token;
        self.park(connection);
        if flushed == Flushed::More {
            self.engine.counters.send_bursts.add_alone();
            self.allowance.count_sent(self.engine.config.limits.send_burst_bytes);
            self.slots.resume(token);
        }
    }

    /// As much waits of earlier replies as may wait while the next request is answered.
    #[inline]
    fn owes_much(&self, connection: &Connection) -> bool {
        let carried = connection.sending.carry.as_ref().map_or(0, |carry| carry.waiting());
        carried > 0 && carried as u64 >= self.engine.config.limits.response_buffer_bytes
    }

    pub(crate) fn flush(&mut self, connection: &mut Connection) -> std::io::Result<Flushed> {
        connection.flush(&self.engine.config.limits, self.now)
    }

    /// Reads once and lets the machine have it.
    #[inline]
    fn receive(&mut self, connection: &mut Connection) -> Step {
        self.count_read();
        let mut lent = self.reactor.take_lent();
        let step = match connection.transport.read(&mut lent) {
            Read::Data { bytes, more } => {
                connection.more = more || connection.hung_up;
                let mut input = bytes;
                let step = self.digest(connection, &mut input);
                if !input.is_empty() && matches!(step, Step::Ready(..) | Step::Store) {
                    connection.pending.keep(input);
                }
                self.begin_stream(connection, step)
            }
            Read::Nothing => Step::More,
            Read::Ended => self.ended(connection),
            Read::Failed(_) => {
                self.engine.counters.requests_incomplete.add();
                connection.sending = Default::default();
                Step::Ended
            }
        };
        self.reactor.give_lent(lent);
        step
    }

    #[inline]
    fn count_read(&mut self) {
        self.allowance.count_read();
        self.engine.counters.reads.add_alone();
    }

    /// Goes on with bytes that came together with an earlier request.
    fn digest_pending(&mut self, connection: &mut Connection) -> Step {
        let (bytes, at) = connection.pending.take();
        let mut input = &bytes[at..];
        let step = self.digest(connection, &mut input);
        let read = bytes.len() - input.len();
        if matches!(step, Step::Ready(..) | Step::Store) {
            connection.pending.put(bytes, read);
        }
        self.begin_stream(connection, step)
    }

    fn ended(&mut self, connection: &mut Connection) -> Step {
        if let Some(fault) = connection.machine.eof() {
            self.engine.counters.requests_incomplete.add();
            self.engine.counters.refused(&fault);
        }
        Step::Ended
    }

    /// Lets the machine read until a request is complete or the input is used up.
    #[inline]
    fn digest(&mut self, connection: &mut Connection, input: &mut &[u8]) -> Step {
        loop {
            match connection.machine.advance(input, &mut self.shared, self.now) {
                Event::NeedMore => return Step::More,
                Event::Request(head) => match head.framing {
                    Framing::None | Framing::Length(0) => return Step::Ready(head, Body::Empty),
                    _ => {
                        if let Some(step) = self.begin_body(connection, head, input.is_empty()) {
                            return step;
                        }
                    }
                },
                Event::Body(bytes) => {
                    self.allowance.count_piece();
                    if let Some(receiving) = &mut connection.receiving {
                        receiving.body.add(bytes);
                    }
                }
                Event::End => return self.end_body(connection),
                Event::Fault(fault) => return Step::Refuse(fault),
            }
        }
    }

    /// A head whose body follows.
    fn begin_body(
        &mut self,
        connection: &mut Connection,
        head: Arc<Head>,
        nothing_yet: bool,
    ) -> Option<Step> {
        if !self.engine.config.request_buffering {
            return Some(Step::Ready(head, Body::Empty));
        }
        if let Framing::Length(length) = head.framing
            && !self.engine.config.evented
            && self.engine.config.limits.lacks_disk(length, self.engine.spool.disk.used())
        {
            return Some(Step::Refuse(wire::BODIES_DISK));
        }
        // Buffered bodies are wanted at once; one that has begun to arrive needs no word
        // (RFC 9110 §10.1.1).
        if head.expects_continue && nothing_yet && !self.engine.config.evented {
            connection.queue(&self.engine.config.limits, self.now).copy(wire::CONTINUE);
            // What the socket does not take now goes when it does.
            let _ = self.flush(connection);
        }
        connection.receiving = Some(Box::new(Receiving { head, body: BodyBuffer::new(), complete: false }));
        None
    }

    fn end_body(&mut self, connection: &mut Connection) -> Step {
        if let Some(receiving) = &mut connection.receiving {
            receiving.complete = true;
        }
        // Under an event loop a body that is complete here came with one read.
        let limit = match self.engine.config.evented {
            true => u64::MAX,
            false => self.engine.config.limits.body_memory_bytes,
        };
        match &connection.receiving {
            Some(receiving) if receiving.body.has_a_rest(limit) => self.hold(connection),
            _ => Self::take_body(connection),
        }
    }

    /// A body is complete, and where it shall be.
    fn take_body(connection: &mut Connection) -> Step {
        let Some(receiving) = connection.receiving.take() else { return Step::More };
        let Receiving { head, body, .. } = *receiving;
        Step::Ready(head, body.finish())
    }

    /// Counts what has been received of a body, and has it stored where that is much.
    #[cold]
    fn hold(&mut self, connection: &mut Connection) -> Step {
        let Some(receiving) = &mut connection.receiving else { return Step::More };
        let (limits, spool) = (&self.engine.config.limits, &self.engine.spool);
        let held = receiving.body.charge(spool);
        if held > limits.bodies_memory_bytes {
            return Step::Refuse(wire::BODIES_MEMORY);
        }
        let short = held > limits.bodies_memory_bytes / 2;
        let stores = receiving.complete || receiving.body.shall_be_stored(limits.body_memory_bytes, short);
        if !stores {
            return Step::More;
        }
        if receiving.body.charge_disk(spool) > limits.bodies_disk_bytes {
            return Step::Refuse(wire::BODIES_DISK);
        }
        Step::Store
    }

    /// A connection whose body was written comes back.
    pub(crate) fn take_up(&mut self, stored: Stored) -> Option<Exchange> {
        let Stored { mut connection, result } = stored;
        self.slots.catch_up(&mut connection);
        match result {
            Ok(first) => {
                if first {
                    self.engine.counters.bodies_spooled.add();
                }
                if connection.receiving.as_ref().is_some_and(|receiving| receiving.complete)
                    && let Step::Ready(head, body) = Self::take_body(&mut connection)
                {
                    return Some(self.take_out(connection, head, body));
                }
            }
            Err(error) => {
                let fault = self.cannot_store(&error);
                self.refuse(&mut connection, &fault);
            }
        }
        self.progress(connection)
    }

    fn cannot_store(&self, error: &std::io::Error) -> Fault {
        self.engine.counters.spool_failures.add();
        self.engine.log.complain(Level::Error, || {
            format!("a request body cannot be stored in {}: {error}", std::env::temp_dir().display())
        });
        wire::NO_STORAGE
    }

    /// Without buffering, the receiving half goes to the application with the request.
    fn begin_stream(&mut self, connection: &mut Connection, step: Step) -> Step {
        if self.engine.config.evented {
            return self.stream_rest(connection, step);
        }
        if connection.receiving.is_some() && matches!(step, Step::More) {
            return self.hold(connection);
        }
        let Step::Ready(head, Body::Empty) = step else { return step };
        if self.engine.config.request_buffering || matches!(head.framing, Framing::None | Framing::Length(0))
        {
            return Step::Ready(head, Body::Empty);
        }
        let transport = Arc::clone(&connection.transport);
        let variant = u32::from(connection.listener) << 1;
        let machine = std::mem::replace(&mut connection.machine, wire::Http1::new(variant, self.now));
        let pending = std::mem::take(&mut connection.pending);
        let expects = head.expects_continue && pending.is_empty();
        let config = &self.engine.config;
        let flow = Flow::new(transport, machine, pending, (&config.limits, &config.policy), expects)
            .behind(connection.sending.carry.as_ref());
        Step::Ready(head, Body::Stream(Arc::new(Incoming::new(flow))))
    }

    #[inline]
    fn take_out(&mut self, connection: Box<Connection>, head: Arc<Head>, body: Body) -> Exchange {
        self.engine.counters.requests_total.add_alone();
        Exchange::new(connection, head, body, &self.engine, self.now)
    }

    /// Answers with a refusal; nothing that follows is read as a request.
    pub(crate) fn refuse(&mut self, connection: &mut Connection, fault: &Fault) {
        self.engine.counters.refused(fault);
        self.engine.log.complain(Level::Info, || {
            format!("refused a request from {}: {} {}", peer(connection), fault.status, fault.text)
        });
        let date = wire::DateLine::at(reactor::sys::wall_seconds());
        let mut reply = Vec::new();
        fault.reply(&date, &self.engine.config.server_header, false, &mut reply);
        let head = connection.receiving.as_ref().map(|receiving| &*receiving.head);
        if let Some(access) = &self.engine.config.access {
            let said = (fault.status, content_length(&reply));
            access.write_refusal(connection.peer, head, &self.engine.config.trust, said);
        }
        let limits = &self.engine.config.limits;
        connection.queue(limits, self.now).copy(&reply);
        connection.receiving = None;
        // A body that is too large, or that we cannot keep, is already on its way: as much of it as
        // is allowed is read, so that the peer comes to read the refusal (RFC 9110 §15.5.14).
        let unkept = fault.status == 413 || fault.whose == Whose::Us;
        let body = if unkept { limits.body_bytes } else { 0 };
        let left = limits.drain_bytes.saturating_add(body);
        connection.phase = Phase::Flushing(After::Linger { left });
    }

    /// Ends our side and begins to read what the peer still sends.
    fn linger(&mut self, connection: &mut Connection, left: u64) {
        connection.transport.shut_write();
        connection.patience = Patience::of(self.engine.config.limits.linger_timeout, self.now);
        connection.more = true;
        connection.phase = Phase::Lingering { left };
    }

    /// Reads and throws away. False: the peer has ended.
    fn discard(&mut self, connection: &mut Connection, mut left: u64) -> bool {
        let mut lent = self.reactor.take_lent();
        let mut goes_on = true;
        for reads in 0.. {
            if !goes_on || left == 0 || !self.allowance.may_read(reads) {
                break;
            }
            if !std::mem::take(&mut connection.more) {
                break;
            }
            self.count_read();
            match connection.transport.read(&mut lent) {
                Read::Data { bytes, .. } => {
                    left = left.saturating_sub(bytes.len() as u64);
                    connection.more = left > 0;
                }
                Read::Nothing => {}
                Read::Ended | Read::Failed(_) => goes_on = false,
            }
        }
        self.reactor.give_lent(lent);
        connection.more &= left > 0;
        connection.phase = Phase::Lingering { left };
        goes_on
    }

    /// Puts a connection into the table, where an edge or a deadline will find it.
    #[inline]
    pub(crate) fn park(&mut self, mut connection: Box<Connection>) {
        if self.gives_away && connection.can_leave() {
            match self.hand_over(connection) {
                Some(kept) => connection = kept,
                None => return,
            }
        }
        let leaving = self.stop_at.is_some() && connection.is_idle();
        if leaving && self.now >= self.idle_until {
            self.engine.counters.connections_drained.add();
            return self.close(connection);
        }
        if !connection.watched {
            if connection.transport.watch(&self.reactor, connection.token).is_err() {
                return self.close(connection);
            }
            connection.watched = true;
        }
        let mut deadline = connection.deadline(&self.engine.config.limits);
        if leaving {
            deadline = deadline.min(self.idle_until);
        }
        self.wake_by(deadline);
        let token = connection.token;
        // Behind a full socket nothing is read, so that there is nothing to go on with.
        if connection.more && !matches!(connection.phase, Phase::Flushing(_)) {
            self.slots.resume(token);
        }
        if let Some(row) = self.slots.get(token) {
            row.deadline = deadline;
            row.place = Place::Home(connection);
        }
    }

    /// Closes a connection and frees its slot.
    pub(crate) fn close(&mut self, connection: Box<Connection>) {
        self.slots.free(connection.token);
        drop(connection);
        self.engine.counters.connections_closed.add_alone();
        if self.listeners.paused_until().is_some() {
            self.listeners.resume(&self.reactor);
        }
    }
}

/// A peer, as a log line names it.
fn peer(connection: &Connection) -> String {
    match connection.peer {
        reactor::Address::Ip(ip, port) => std::net::SocketAddr::new(ip, port).to_string(),
        reactor::Address::Unix => "unix".into(),
    }
}
