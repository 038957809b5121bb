//! A request body that is still arriving while the application works (option
//! `request_buffering` off): the receiving half of a connection, lent to the exchange.
//!
//! Knows: the machine and the transport. Does not know: the loop. Runs on whichever thread the
//! application reads from, and on the exchange's own, which may take the half back at any time:
//! its lock is held for a look, and by nobody who waits.

use std::io;
use std::sync::{Arc, Mutex};

use reactor::sys::monotonic_ms;
use reactor::{PollFor, Read};
use wire::{Event, Fault, Limits, Millis, Policy, Tick};

use crate::allowance::{CRUMBS_BYTES, READ_BYTES};
pub use crate::arrival::{AT_ONCE, Arrival, BodyError};
use crate::inlet::Inlet;
use crate::machine::Machine;
use crate::output::Flushed;
use crate::outside::Outside;
use crate::pending::Pending;
use crate::pipelined::PipelinedReplies;
use crate::sync::lock;
use crate::transport::Transport;

/// So many reads of the socket without a wait, and whoever else runs on the reader's thread has a turn.
const READS_A_TURN: u32 = 4;
/// How often a waiting reader looks whether its exchange still lives, in milliseconds.
const LOOK_MS: Millis = 1000;

/// Where a body comes from.
pub enum Incoming {
    /// A connection of its own, whose receiving half is lent; none: it was taken back.
    Connection(Mutex<Option<Box<Flow>>>),
    /// A stream, whose connection is read by the loop.
    Stream(Arc<Inlet>),
}

/// The half itself, given back to the connection at the end.
pub struct Flow {
    transport: Arc<Transport>,
    pub machine: Machine,
    pub pending: Pending,
    shared: wire::Shared,
    /// `100 Continue` is owed at the first read (RFC 9110 §10.1.1).
    continue_owed: bool,
    /// Replies to earlier requests of this connection that are not sent yet.
    earlier: Option<Arc<PipelinedReplies>>,
    complete: bool,
    fault: Option<Fault>,
    /// The peer has left before the end.
    lost: bool,
    /// Since when nobody has asked for more; none while somebody waits for it.
    left_since: Option<Millis>,
    /// Reads of the socket since the reader last waited.
    reads: u32,
    /// More of the last read was framing than body: the pieces are small, and the next read brings less.
    crumbs: bool,
    bytes: Vec<u8>,
    at: usize,
}

impl Flow {
    /// A body that begins with `pending`.
    pub fn new(
        transport: Arc<Transport>,
        machine: Machine,
        pending: Pending,
        rules: (&Limits, &Policy),
        expects: bool,
    ) -> Self {
        let mut limits = rules.0.clone();
        // Only a body passes through here, so no head is worth keeping.
        limits.cached_heads = 1;
        Self {
            transport,
            machine,
            pending,
            shared: wire::Shared::new(limits, rules.1.clone()),
            continue_owed: expects,
            earlier: None,
            complete: false,
            fault: None,
            lost: false,
            left_since: Some(monotonic_ms()),
            reads: 0,
            crumbs: false,
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// With what has been received of the body already.
    #[must_use]
    pub fn seeded(mut self, bytes: Vec<u8>) -> Self {
        self.bytes = bytes;
        self
    }

    /// With replies to earlier requests that wait in `pipelined`, if there are any.
    #[must_use]
    pub fn behind(mut self, pipelined: Option<&Arc<PipelinedReplies>>) -> Self {
        self.earlier = pipelined.filter(|pipelined| !pipelined.is_empty()).cloned();
        self
    }

    /// True once every byte of the body has been received and judged.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The refusal that ended the body, if one did.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// What an application does between two reads is not its client's slowness.
    fn end_pause(&mut self) {
        if let Some(since) = self.left_since.take() {
            self.machine.reader_paused(monotonic_ms().saturating_sub(since));
        }
    }

    /// Hands out received bytes, at most `most`.
    fn hand_out(&mut self, into: &mut Vec<u8>, most: usize) -> usize {
        let rest = &self.bytes[self.at..];
        let n = rest.len().min(most);
        into.extend_from_slice(&rest[..n]);
        self.at += n;
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
        }
        n
    }

    /// Feeds what is pending to the machine, as far as it goes.
    fn digest(&mut self, now: Millis) -> Result<(), BodyError> {
        let pending = self.pending.take();
        let mut input = pending.rest();
        let result = self.advance(&mut input, now);
        let left = input.len();
        self.pending.put(pending, left);
        result
    }

    fn advance(&mut self, input: &mut &[u8], now: Millis) -> Result<(), BodyError> {
        while !self.complete {
            match self.machine.advance(input, &mut self.shared, now) {
                Event::NeedMore => return Ok(()),
                Event::Body(part) => self.bytes.extend_from_slice(part),
                Event::End | Event::Request(_) => self.complete = true,
                Event::Fault(wire::GATEWAY_ABORTED) => {
                    // The web server's client has left, as one of ours would.
                    self.lost = true;
                    return Err(BodyError::Incomplete);
                }
                Event::Fault(fault) => {
                    self.fault = Some(fault);
                    return Err(BodyError::Fault(fault));
                }
            }
        }
        Ok(())
    }

    /// Receives once, if something is there.
    fn look(&mut self) -> Result<bool, BodyError> {
        if self.speak_first().is_err() {
            // Who does not hear that its body may come has left, and there is nothing else to say.
            self.lost = true;
            return Err(BodyError::Incomplete);
        }
        let mut room = vec![0; if self.crumbs { CRUMBS_BYTES } else { READ_BYTES }];
        match self.transport.read(&mut room) {
            Read::Data { bytes, .. } => {
                let (got, before) = (bytes.len(), self.bytes.len());
                self.pending.keep(bytes);
                self.digest(monotonic_ms())?;
                self.crumbs = got > 2 * (self.bytes.len() - before);
                Ok(true)
            }
            Read::Ended | Read::Failed(_) => {
                self.lost = true;
                Err(BodyError::Incomplete)
            }
            Read::Nothing => Ok(false),
        }
    }

    /// Sends what the peer must have before it says more: replies to its earlier requests, then
    /// the word that this body may come (RFC 9112 §9.3.2: in the order of the requests).
    fn speak_first(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.continue_owed) {
            match &self.earlier {
                Some(pipelined) => drop(pipelined.add(&[wire::CONTINUE], usize::MAX)),
                None => self.transport.say(wire::CONTINUE)?,
            }
        }
        if let Some(pipelined) = &self.earlier
            && pipelined.send()? == Flushed::All
        {
            self.earlier = None;
        }
        Ok(())
    }

    /// The fault, if the machine's patience has ended; or else when it will.
    fn patience(&mut self) -> Result<Millis, BodyError> {
        if let Tick::Fault(fault) = self.machine.tick(monotonic_ms(), &self.shared.limits) {
            self.fault = Some(fault);
            return Err(BodyError::Fault(fault));
        }
        Ok(self.machine.deadline(&self.shared.limits).unwrap_or(Millis::MAX))
    }
}

impl Flow {
    /// As [`Incoming::try_read`].
    fn try_read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<Arrival, BodyError> {
        if let Some(fault) = self.fault {
            return Err(BodyError::Fault(fault));
        }
        self.end_pause();
        loop {
            if self.hand_out(into, most) > 0 || self.complete {
                self.left_since = Some(monotonic_ms());
                // What is at hand tells whether this was the last of it.
                if !self.complete && self.bytes.is_empty() && !self.pending.is_empty() {
                    self.digest(monotonic_ms())?;
                }
                return Ok(Arrival::Some { last: self.complete && self.bytes.is_empty() });
            }
            if self.pending.is_empty() {
                self.reads += 1;
                if self.reads > READS_A_TURN {
                    self.reads = 0;
                    return Ok(Arrival::None { until: AT_ONCE });
                }
                if !self.look()? {
                    self.reads = 0;
                    return Ok(Arrival::None { until: self.patience()? });
                }
            } else {
                self.digest(monotonic_ms())?;
            }
        }
    }

    /// As [`Incoming::stop`].
    fn stop(&mut self) -> (bool, Option<Fault>) {
        if !self.pending.is_empty() && !self.complete && self.fault.is_none() && !self.continue_owed {
            // A fault is kept in the flow, which the caller is told of.
            let _ = self.digest(monotonic_ms());
        }
        (self.complete, self.fault)
    }
}

impl Incoming {
    pub fn new(flow: Flow) -> Self {
        Self::Connection(Mutex::new(Some(Box::new(flow))))
    }

    /// Appends up to `most` bytes of the body, at least one unless it is complete; waits for
    /// them. Zero: the body is complete. The wait holds nothing but the transport, so that the
    /// exchange can end meanwhile; the reader sees so at its next look.
    ///
    /// # Errors
    /// As [`BodyError`] says.
    pub fn read(&self, into: &mut Vec<u8>, most: usize, away: &dyn Outside) -> Result<usize, BodyError> {
        if most == 0 {
            return Ok(0);
        }
        let before = into.len();
        loop {
            let seen = match self {
                Self::Connection(_) => 0,
                Self::Stream(inlet) => inlet.seen(),
            };
            let until = match self.try_read(into, most)? {
                Arrival::Some { .. } => return Ok(into.len() - before),
                Arrival::None { until } => until,
            };
            let patience = until.saturating_sub(monotonic_ms()).clamp(1, LOOK_MS);
            match self {
                Self::Connection(flow) => {
                    let transport = match lock(flow).as_ref() {
                        Some(flow) => Arc::clone(&flow.transport),
                        None => return Err(BodyError::Over),
                    };
                    let mut result = Ok(true);
                    away.outside(&mut |may_wait| {
                        result = transport.wait(PollFor::Readable, patience, may_wait);
                    });
                    result.map_err(BodyError::Io)?;
                }
                Self::Stream(inlet) => away.outside(&mut |may_wait| inlet.wait(seen, patience, may_wait)),
            }
        }
    }

    /// Like [`Incoming::read`], without waiting: where nothing has arrived, until when the
    /// peer has time.
    ///
    /// # Errors
    /// As [`BodyError`] says.
    pub fn try_read(&self, into: &mut Vec<u8>, most: usize) -> Result<Arrival, BodyError> {
        match self {
            Self::Connection(flow) => match lock(flow).as_mut() {
                Some(flow) => flow.try_read(into, most),
                None => Err(BodyError::Over),
            },
            Self::Stream(inlet) => inlet.try_read(into, most),
        }
    }

    /// Looks at what has arrived already, without waiting: a small body that the application
    /// never asked for is complete then, and the connection can be kept. Returns whether it
    /// is, and the refusal if what arrived is no body.
    pub fn stop(&self) -> (bool, Option<Fault>) {
        match self {
            Self::Connection(flow) => lock(flow).as_mut().map_or((false, None), |flow| flow.stop()),
            Self::Stream(inlet) => inlet.stop(),
        }
    }

    /// True when a read has found that the peer left before the body was complete.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Connection(flow) => lock(flow).as_ref().is_some_and(|flow| flow.lost),
            Self::Stream(inlet) => inlet.is_lost(),
        }
    }

    /// Takes back what was read of a stream and is not wanted yet.
    pub fn unread(&self, bytes: &[u8]) {
        if let Self::Stream(inlet) = self {
            inlet.unread(bytes);
        }
    }

    /// Ends the loan: later reads say that the exchange is over.
    pub fn take_back(&self) -> Option<Box<Flow>> {
        match self {
            Self::Connection(flow) => {
                let mut flow = lock(flow).take()?;
                if !flow.complete {
                    flow.end_pause();
                }
                Some(flow)
            }
            Self::Stream(inlet) => {
                inlet.end_reading();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Protocol;
    use reactor::sys::{Accepted, ListenerFd, accept};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// The receiving half of a body of so many bytes, and its peer.
    fn body(length: u64) -> (Incoming, TcpStream) {
        framed(&format!("Content-Length: {length}"))
    }

    /// The receiving half of a body that is framed so, and its peer.
    fn framed(framing: &str) -> (Incoming, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let fd = ListenerFd::new(listener.as_raw_fd()).expect("a listener");
        let Ok(Accepted::Connection(socket, _)) = accept(&fd) else { panic!("nobody came") };
        let (limits, policy) = (Limits::default(), Policy::default());
        let mut machine = Machine::new(Protocol::Http, 0, monotonic_ms());
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        let mut shared = wire::Shared::new(limits.clone(), policy.clone());
        let event = machine.advance(&mut head.as_bytes(), &mut shared, monotonic_ms());
        assert!(matches!(event, Event::Request(_)));
        let flow = Flow::new(Arc::new(socket.into()), machine, Pending::default(), (&limits, &policy), false);
        (Incoming::new(flow), peer)
    }

    #[test]
    fn a_body_that_is_always_there_lets_others_have_their_turn() {
        let (incoming, mut peer) = body(20_000_000);
        let writer = std::thread::spawn(move || peer.write_all(&vec![b'x'; 20_000_000]).map(|()| peer));
        let (mut total, mut turns, mut parts) = (0, 0, 0);
        while total < 20_000_000 {
            let mut into = Vec::new();
            match incoming.try_read(&mut into, READ_BYTES).expect("a body") {
                Arrival::Some { .. } => parts += 1,
                Arrival::None { until: AT_ONCE } => turns += 1,
                Arrival::None { .. } => {
                    parts = 0;
                    std::thread::yield_now();
                }
            }
            total += into.len();
            if turns > 0 {
                (parts, turns) = (0, 0);
            }
            assert!(parts <= READS_A_TURN, "{parts} parts in one go");
        }
        assert!(writer.join().expect("a writer").is_ok());
    }

    #[test]
    fn of_a_body_in_crumbs_less_is_taken_apart_at_once() {
        let (incoming, mut peer) = framed("Transfer-Encoding: chunked");
        peer.write_all(&b"1\r\na\r\n".repeat(20_000)).expect("room");
        let parts = |incoming: &Incoming| {
            let mut into = Vec::new();
            while let Arrival::None { .. } = incoming.try_read(&mut into, READ_BYTES).expect("a body") {}
            into.len()
        };
        assert!(parts(&incoming) > CRUMBS_BYTES / 6 + 1, "the first read brought much");
        for _ in 0..4 {
            assert!(parts(&incoming) <= CRUMBS_BYTES / 6 + 1);
        }
    }
}
