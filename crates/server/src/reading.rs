//! What has arrived on a connection, up to a request that is complete.
//!
//! Knows: one connection at a time, its machine and its body, and what all machines share. Does not know: what becomes
//! of a request, or where connections are kept. Runs under the baton.

use std::sync::Arc;

use reactor::Read;
use wire::h2::PREFACE;
use wire::{Event, Fault, Framing, Head, Millis, Shared};

use crate::body::Body;
use crate::connection::{Connection, Phase, Receiving};
use crate::engine::Engine;
use crate::incoming::{Flow, Incoming};
use crate::listener::is_among;
use crate::log::Level;
use crate::poller::Poller;

/// What came of some input.
pub(crate) enum Step {
    /// All of it was taken; more is needed.
    More,
    /// A request is complete, or is to be answered while its body arrives.
    Ready(Arc<Head>, Body),
    /// A body that nobody wants has ended.
    Discarded,
    /// What has been received of a body goes to its file before more is read.
    Store,
    Refuse(Fault),
    /// The same of what is no request of HTTP/1, and looks like that.
    Mistaken(Fault, &'static str),
    /// It speaks HTTP/2 by prior knowledge, and may.
    Streams,
    /// The peer has ended.
    Ended,
}

impl Step {
    /// What follows in the input is somebody's.
    #[inline]
    fn leaves_input(&self) -> bool {
        matches!(self, Self::Ready(..) | Self::Store | Self::Discarded)
    }
}

/// So much of what a connection of HTTP/2 begins with is a line to HTTP/1.
const FIRST_LINE: usize = 16;

/// Reads for all connections of a loop.
pub(crate) struct Reader {
    engine: Arc<Engine>,
    /// Head cache, limits and policy: what the machines share.
    shared: Shared,
}

impl Reader {
    pub fn new(engine: Arc<Engine>) -> Self {
        let config = &engine.config;
        let shared = Shared::new(config.limits.clone(), config.policy.clone()).trusting(config.trust.clone());
        Self { engine, shared }
    }

    /// Forgets heads that nobody has used for a while. When there is more to forget.
    pub fn sweep(&mut self, now: Millis) -> Option<Millis> {
        self.shared.heads.sweep(now)
    }

    /// Reads once and lets the machine have it.
    #[inline]
    pub fn receive(&mut self, connection: &mut Connection, poller: &mut Poller) -> Step {
        self.count_read(poller);
        let mut lent = poller.reactor.take_lent();
        let most = poller.allowance.read_bytes().min(lent.len());
        let step = match connection.transport.read(&mut lent[..most]) {
            Read::Data { bytes, more } => {
                connection.more = more || connection.hung_up;
                let mut input = bytes;
                let step = self.digest(connection, &mut input, poller);
                if !input.is_empty() && step.leaves_input() {
                    connection.pending.keep(input);
                }
                self.begin_stream(connection, step, poller)
            }
            // What a body has left to be said is said behind its request.
            Read::Nothing => self.speak(connection, Step::More, poller.now),
            // Whoever has looked at its reply before that need not send the rest.
            Read::Ended | Read::Failed(_) if matches!(connection.phase, Phase::Discarding { .. }) => {
                Step::Ended
            }
            Read::Ended => self.ended(connection),
            Read::Failed(_) => {
                self.engine.counters.requests_incomplete.add();
                connection.sending.drop_waiting();
                Step::Ended
            }
        };
        poller.reactor.give_lent(lent);
        step
    }

    /// Reads once while a preface is awaited. False: there is nobody to go on with.
    pub fn receive_preface(&mut self, connection: &mut Connection, poller: &mut Poller) -> bool {
        self.count_read(poller);
        let mut lent = poller.reactor.take_lent();
        let heard = match connection.transport.read(&mut lent) {
            Read::Data { bytes, more } => {
                connection.more = more || connection.hung_up;
                let config = &self.engine.config;
                connection.hear_preface(bytes, &config.trust, poller.now).and_then(|()| {
                    let over = connection.phase == Phase::Reading;
                    let gateway = over && connection.machine.protocol().speaks_for_others();
                    match gateway && !is_among(&connection.peer, &config.gateway_from) {
                        true => Err(wire::GATEWAY_PEER),
                        false => Ok(true),
                    }
                })
            }
            Read::Nothing => Ok(true),
            // Who has said nothing only wanted to know whether somebody listens.
            Read::Ended | Read::Failed(_) if connection.is_idle() => Ok(false),
            Read::Ended | Read::Failed(_) => Err(wire::INCOMPLETE),
        };
        poller.reactor.give_lent(lent);
        heard.unwrap_or_else(|fault| {
            self.engine.counters.connections_refused.add();
            self.engine.counters.refused(&fault);
            self.engine.log.complain(Level::Warning, || {
                let (expected, seen) = connection.expected_and_seen();
                let peer = connection.shown_peer();
                if fault == wire::GATEWAY_PEER {
                    return format!("refused a connection from {peer}: {} (--gateway-allow)", fault.text);
                }
                format!("refused a connection from {peer}: expected {expected}, got {seen}: {}", fault.text)
            });
            false
        })
    }

    /// Goes on with bytes that came together with an earlier request.
    pub fn digest_pending(&mut self, connection: &mut Connection, poller: &mut Poller) -> Step {
        let pending = connection.pending.take();
        let mut input = pending.rest();
        let step = self.digest(connection, &mut input, poller);
        let left = input.len();
        if step.leaves_input() {
            connection.pending.put(pending, left);
        }
        self.begin_stream(connection, step, poller)
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
    fn digest(&mut self, connection: &mut Connection, input: &mut &[u8], poller: &mut Poller) -> Step {
        loop {
            match connection.machine.advance(input, &mut self.shared, poller.now) {
                Event::NeedMore => return Step::More,
                Event::Request(head) if is_misdirected(connection, &head) => {
                    connection.receiving = Some(Receiving::told(head));
                    return Step::Refuse(wire::MISDIRECTED);
                }
                Event::Request(head) => match head.framing {
                    Framing::None | Framing::Length(0) => return Step::Ready(head, Body::Empty),
                    _ => {
                        let nothing_yet = input.is_empty();
                        if let Some(step) = self.begin_body(connection, head, nothing_yet, poller.now) {
                            return step;
                        }
                    }
                },
                Event::Body(bytes) => {
                    poller.allowance.count_piece();
                    if let Some(receiving) = &mut connection.receiving {
                        receiving.body.add(bytes);
                    }
                }
                Event::End => return self.end_body(connection),
                Event::Fault(wire::PRIOR_KNOWLEDGE) if self.may_have_streams(connection) => {
                    connection.turns_to_streams(&[&PREFACE[..FIRST_LINE], *input].concat());
                    *input = &[];
                    return Step::Streams;
                }
                Event::Fault(fault) => {
                    if let Some(head) = self.shared.take_refused() {
                        connection.receiving = Some(Receiving::told(head));
                    }
                    return refusal(connection, fault, input);
                }
            }
        }
    }

    /// Who is trusted to speak for others may have streams without an address for them; nothing was asked before.
    #[cold]
    fn may_have_streams(&self, connection: &Connection) -> bool {
        let agreed_otherwise = connection.transport.tls().is_some();
        !agreed_otherwise
            && !connection.machine.was_used()
            && is_among(&connection.peer, &self.engine.config.trust)
    }

    /// What all machines share, for those of streams.
    pub fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    /// A head whose body follows.
    fn begin_body(
        &mut self,
        connection: &mut Connection,
        head: Arc<Head>,
        nothing_yet: bool,
        now: Millis,
    ) -> Option<Step> {
        if !self.engine.config.request_buffering {
            return Some(Step::Ready(head, Body::Empty));
        }
        if let Framing::Length(length) = head.framing
            && !self.engine.config.evented
            && self.engine.config.limits.lacks_disk(length, self.engine.spool.disk.used())
        {
            connection.receiving = Some(Receiving::told(head));
            return Some(Step::Refuse(wire::BODIES_DISK));
        }
        // Buffered bodies are wanted at once; one that has begun to arrive needs no word
        // (RFC 9110 §10.1.1).
        if head.expects_continue && nothing_yet && !self.engine.config.evented {
            let limits = &self.engine.config.limits;
            connection.queue(limits, now).copy(wire::CONTINUE);
            // What the socket does not take now goes when it does.
            let _ = connection.flush(limits, now);
        }
        connection.receiving = Some(Receiving::told(head));
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
            Some(_) => Self::take_body(connection),
            None => Step::Discarded,
        }
    }

    /// A body is complete, and where it shall be.
    pub fn take_body(connection: &mut Connection) -> Step {
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

    /// Sends what the protocol has to say for itself, before what the step brings. A connection of which nothing more
    /// is expected ends.
    #[inline]
    fn speak(&self, connection: &mut Connection, step: Step, now: Millis) -> Step {
        let (output, over) = connection.machine.take_output();
        if !output.is_empty() {
            let limits = &self.engine.config.limits;
            connection.queue(limits, now).copy(&output);
            // What the socket does not take now goes when it does.
            let _ = connection.flush(limits, now);
        }
        if over && matches!(step, Step::More) { Step::Ended } else { step }
    }

    /// Without buffering, the receiving half goes to the application with the request.
    fn begin_stream(&mut self, connection: &mut Connection, step: Step, poller: &Poller) -> Step {
        let step = self.speak(connection, step, poller.now);
        if self.engine.config.evented {
            return self.stream_rest(connection, step, poller.now);
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
        let machine = connection.machine.take(poller.now);
        let pending = std::mem::take(&mut connection.pending);
        let expects = head.expects_continue && pending.is_empty();
        let config = &self.engine.config;
        let flow = Flow::new(transport, machine, pending, (&config.limits, &config.policy), expects)
            .behind(connection.sending.pipelined.as_ref());
        Step::Ready(head, Body::Stream(Arc::new(Incoming::new(flow))))
    }

    /// A body that has not arrived whole goes to the application as it comes.
    fn stream_rest(&self, connection: &mut Connection, step: Step, now: Millis) -> Step {
        let Step::More = step else { return step };
        let Some(receiving) = connection.receiving.take() else { return step };
        let Receiving { head, body, .. } = *receiving;
        let bytes = body.into_bytes();
        let transport = Arc::clone(&connection.transport);
        let machine = connection.machine.take(now);
        let pending = std::mem::take(&mut connection.pending);
        // A body that has begun to arrive needs no word (RFC 9110 §10.1.1).
        let expects = head.expects_continue && bytes.is_empty();
        let config = &self.engine.config;
        let flow = Flow::new(transport, machine, pending, (&config.limits, &config.policy), expects)
            .behind(connection.sending.pipelined.as_ref());
        Step::Ready(head, Body::Stream(Arc::new(Incoming::new(flow.seeded(bytes)))))
    }

    /// Reads and throws away. False: the peer has ended.
    pub fn discard(&self, connection: &mut Connection, mut left: u64, poller: &mut Poller) -> bool {
        let mut lent = poller.reactor.take_lent();
        let mut goes_on = true;
        // Who speaks for others may not look at a refusal before it has sent all, and is trusted.
        let sends_first = connection.machine.protocol().speaks_for_others();
        for reads in 0.. {
            if !goes_on || left == 0 || !poller.allowance.may_read(reads) {
                break;
            }
            if !std::mem::take(&mut connection.more) {
                break;
            }
            self.count_read(poller);
            match connection.transport.read(&mut lent) {
                Read::Data { bytes, .. } => {
                    left = left.saturating_sub(bytes.len() as u64);
                    connection.more = left > 0;
                    if sends_first {
                        connection.patience.hear(bytes.len() as u64, &self.engine.config.limits, poller.now);
                    }
                }
                Read::Nothing => {}
                Read::Ended | Read::Failed(_) => goes_on = false,
            }
        }
        poller.reactor.give_lent(lent);
        connection.more &= left > 0;
        connection.phase = Phase::Lingering { left };
        goes_on
    }

    #[inline]
    pub fn count_read(&self, poller: &mut Poller) {
        poller.allowance.count_read();
        self.engine.counters.reads.add_alone();
    }
}

/// It was sent to another host than the one that was named when the client was asked for its certificate.
#[inline]
fn is_misdirected(connection: &Connection, head: &Head) -> bool {
    connection.transport.tls().is_some_and(|tls| tls.is_misdirected(head.host()))
}

/// What comes in the place of a first request may be another protocol, whose name says more than what is wrong with it.
#[cold]
fn refusal(connection: &Connection, fault: Fault, input: &[u8]) -> Step {
    let is_line = matches!(fault, wire::NOT_HTTP | wire::VERSION | wire::REQUEST_LINE);
    match wire::another_protocol(input).filter(|_| is_line && !connection.machine.was_used()) {
        Some(seen) => Step::Mistaken(fault, seen),
        None => Step::Refuse(fault),
    }
}
