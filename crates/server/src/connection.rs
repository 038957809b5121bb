//! One connection's life: what has been received, what is being received, what waits to be sent.
//!
//! Knows: its machine and its queues. Does not know: the loop, or who answers. Owned by its
//! slot while it is parked and by one thread while its exchange is in flight.
//!
//! ```text
//!   PREFACE (where the listener's kind has one) ──► STREAMS (HTTP/2) ──► FLUSHING
//!      ▼     ┌────────────── the reply is sent, keep-alive ───────────────┐
//!      │     ▼                                                            │
//!   READING ─► (exchange: in flight with a thread) ─► FLUSHING ─► close        │
//!      │ fault                                     │  └───────────────────┘
//!      └────────────── refusal ──► FLUSHING ──► LINGERING ──► close
//!
//!   (a web server's body that nobody has read) ──► FLUSHING ──► DISCARDING ──► READING, or LINGERING
//! ```

mod sending;

use std::io;
use std::sync::Arc;

use reactor::Address;
use reactor::sys::NOTE_BYTES;
use wire::gateway::Given;
use wire::proxy::Proxied;
use wire::{Fault, Head, Limits, Millis, Peer, Trust};

pub use self::sending::Sending;
use crate::body::BodyBuffer;
use crate::listener::{self, Kind, Protocol};
use crate::log::{Level, Log};
use crate::machine::Machine;
use crate::output::{Flushed, Output};
use crate::patience::Patience;
use crate::pending::Pending;
use crate::preface::{Awaited, Verdict};
use crate::stated::{Said, Stated};
use crate::streams::Streams;
use crate::transport::Transport;

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for what its listener's connections begin with, before their protocol.
    Preface,
    /// Waiting for requests, or in the middle of one.
    Reading,
    /// Its protocol has streams, whose requests leave while it stays (`streams.rs`).
    Streams,
    /// The socket is full; what follows when it has taken everything.
    Flushing(After),
    /// A web server sends the rest of a body that nobody wants, and may not look at its reply before that: its machine
    /// goes on, which knows how long that may take and where it ends. Kept: what follows is the next request.
    Discarding { keep: bool },
    /// Our side has ended; what the peer still sends is read and thrown away, so that it is
    /// not met with a reset before it has read our reply (RFC 9112 §9.6). With nothing left to
    /// read, it only waits: the peer's own writing stops when its buffers are full.
    Lingering { left: u64 },
}

/// What follows a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Continue,
    Close,
    Discard {
        keep: bool,
    },
    /// Read and throw away at most so many bytes.
    Linger {
        left: u64,
    },
}

/// A request whose body is being received.
pub struct Receiving {
    pub head: Arc<Head>,
    pub body: BodyBuffer,
    /// All of it has arrived; what is in memory is being added to its file.
    pub complete: bool,
}

impl Receiving {
    /// A request of which the head has come.
    pub fn told(head: Arc<Head>) -> Box<Self> {
        Box::new(Self { head, body: BodyBuffer::new(), complete: false })
    }
}

/// Bytes of a preface that another worker can be told of, beside the four that it is told of every connection.
const SAID_BYTES: usize = NOTE_BYTES - 4;

/// How much of what has arrived is looked at for a request's end, where it is not received.
const LOOK_BYTES: usize = 256;

/// One connection.
pub struct Connection {
    /// Shared with what may have to speak for a thread that is stuck (`request_deadlines.rs`, `PipelinedReplies`).
    pub transport: Arc<Transport>,
    pub token: u64,
    pub peer: Address,
    /// Which listener it came from.
    pub listener: u16,
    /// The set watches it.
    pub watched: bool,
    /// The socket may hold more, and no edge will tell.
    pub more: bool,
    /// The peer has ended its side, or the connection broke: the edge that said so does not
    /// come again, so there is more to read until a read tells the end.
    pub hung_up: bool,
    /// Its time was over, and its socket was looked at once more; until it has been answered.
    pub looked_late: bool,
    pub phase: Phase,
    /// Until when the peer has time to take what waits, or to end while nobody reads.
    pub patience: Patience,
    pub machine: Machine,
    /// Its preface; none where its listener expects none, and once one is over that changed nothing. In its place the
    /// streams of a protocol that has some, from its first look on.
    preface: Option<Box<Stated>>,
    pub pending: Pending,
    pub receiving: Option<Box<Receiving>>,
    pub sending: Sending,
}

impl Connection {
    /// The queue. With the first that waits in it the peer's patience begins.
    pub fn queue(&mut self, limits: &Limits, now: Millis) -> &mut Output {
        if self.sending.is_empty() {
            self.patience = Patience::to_write(limits, now);
        }
        self.sending.output.get_or_insert_with(Box::default)
    }

    /// Sends more of what waits. What the peer takes, and nothing else, renews its patience.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        let most = usize::try_from(limits.send_burst_bytes).unwrap_or(usize::MAX);
        let (flushed, taken) = self.sending.flush(&self.transport, most)?;
        self.patience.earn(taken, limits, now);
        Ok(flushed)
    }

    /// More is to be sent, and it is not the next request of a pipeline that it waits for.
    #[inline]
    pub fn waits_for_its_peer(&self) -> bool {
        self.sending.output.is_some() || self.pending.is_empty() && !self.sending.is_empty()
    }

    /// A connection that was just accepted: whose it is and through which listener it came, of what
    /// kind that is, who is trusted, and the limits.
    pub fn new(
        transport: Transport,
        token: u64,
        peer: (Address, u16),
        (kind, trust, limits): (Kind, &Trust, &Limits),
        now: Millis,
    ) -> Self {
        let variant = listener::variant(peer.1, &peer.0, trust);
        Self {
            transport: Arc::new(transport),
            token,
            peer: peer.0,
            listener: peer.1,
            watched: false,
            more: true,
            hung_up: false,
            looked_late: false,
            phase: if kind.preface.is_some() { Phase::Preface } else { first_phase(kind.protocol) },
            patience: Patience::of(0, now),
            machine: Machine::new(kind.protocol, variant, now),
            preface: kind.preface.map(|new| Box::new(Stated::Awaited(Awaited::new(new, limits, now)))),
            pending: Pending::default(),
            receiving: None,
            sending: Sending::default(),
        }
    }

    /// Its peer, as a log line names it.
    pub fn shown_peer(&self) -> String {
        shown(&self.client())
    }

    /// A request has been answered: the next one has all its time.
    #[inline]
    pub fn answered(&mut self, now: Millis) {
        self.looked_late = false;
        self.machine.answered(now);
    }

    /// An edge came, now or while it was in flight.
    #[inline]
    pub fn note_edge(&mut self, readable: bool, hung_up: bool) {
        self.hung_up |= hung_up;
        self.more |= readable | hung_up;
    }

    /// A connection that was just taken over from another worker, where its preface was judged and, if
    /// `used`, it has had requests. `said`: what that preface was, if it has changed something.
    pub fn take_over(&mut self, (used, said): (bool, &[u8]), trust: &Trust, now: Millis) {
        // What was taken for valid in one worker is so in all; if it were not, one would be expected still.
        if said.is_empty() {
            self.preface = None;
        }
        if said.is_empty() || self.hear_preface(said, trust, now).is_ok() && self.awaited().is_none() {
            self.phase = first_phase(self.machine.protocol());
        }
        if used {
            self.machine = Machine::kept(self.machine.protocol(), self.machine.variant(), now);
        }
    }

    /// Bytes have come while its preface is awaited: what is not part of it waits for the machine.
    ///
    /// # Errors
    /// Why it is refused: nothing was said that could be answered, so the connection is closed.
    pub fn hear_preface(&mut self, bytes: &[u8], trust: &Trust, now: Millis) -> Result<(), Fault> {
        let Some(Stated::Awaited(preface)) = self.preface.as_deref_mut() else { return Ok(()) };
        let mut input = bytes;
        match preface.advance(&mut input) {
            Verdict::More => return Ok(()),
            Verdict::Refused(fault) => return Err(fault),
            Verdict::Over { length, peer, proxied } => {
                let said = preface.take_said(length);
                self.preface = (peer.is_some() || proxied.is_some())
                    .then(|| Box::new(Stated::Said(Said { bytes: said, proxied })));
                self.peer = peer.unwrap_or(self.peer);
            }
        }
        let variant = listener::variant(self.listener, &self.peer, trust);
        self.machine = Machine::new(self.machine.protocol(), variant, now);
        self.phase = first_phase(self.machine.protocol());
        if !input.is_empty() {
            self.pending.keep(input);
        }
        Ok(())
    }

    /// Its streams, where its protocol has some.
    pub fn streams(&self) -> Option<&Streams> {
        match self.preface.as_deref()? {
            Stated::Streams(streams) => streams.as_deref(),
            Stated::Awaited(_) | Stated::Said(_) => None,
        }
    }

    /// The same, taken out to be looked at.
    pub fn take_streams(&mut self) -> Option<Box<Streams>> {
        match self.preface.as_deref_mut()? {
            Stated::Streams(streams) => streams.take(),
            Stated::Awaited(_) | Stated::Said(_) => None,
        }
    }

    /// Puts them back, or there for the first time.
    pub fn put_streams(&mut self, streams: Box<Streams>) {
        match self.preface.as_deref_mut() {
            Some(Stated::Streams(place)) => *place = Some(streams),
            _ => self.preface = Some(Box::new(Stated::Streams(Some(streams)))),
        }
    }

    /// A client that speaks HTTP/2 by prior knowledge, and may: what it has said is read anew.
    #[cold]
    pub fn turns_to_streams(&mut self, said: &[u8]) {
        self.machine = Machine::Http2(self.machine.variant());
        self.phase = Phase::Streams;
        self.pending.keep(said);
    }

    /// What is expected of its preface and what has come of it look like, for a log line.
    pub fn expected_and_seen(&self) -> (&'static str, &'static str) {
        self.awaited().map_or(("nothing", "nothing"), Awaited::expected_and_seen)
    }

    /// The bytes of a preface that has changed something; empty where there was none.
    pub fn preface_said(&self) -> &[u8] {
        self.said().map_or(&[], |said| &said.bytes)
    }

    fn awaited(&self) -> Option<&Awaited> {
        self.preface.as_ref()?.awaited()
    }

    #[inline]
    fn said(&self) -> Option<&Said> {
        self.preface.as_ref()?.said()
    }

    /// What a load balancer has said of its client, where it has.
    #[inline]
    pub fn proxied(&self) -> Option<&Proxied> {
        self.said()?.proxied.as_deref()
    }

    /// The client of the request that is under way: whom a web server names as its own, for that request alone, or
    /// else the peer.
    #[inline]
    pub fn client(&self) -> Address {
        match self.machine.given().and_then(Given::peer) {
            Some(Peer::Ip(ip, port)) => Address::Ip(ip, port),
            Some(Peer::Unix) => Address::Unix,
            None => self.peer,
        }
    }

    /// What has been received behind the request that is answered gives it up.
    pub fn is_given_up(&self) -> bool {
        self.machine.aborts(self.pending.rest())
    }

    /// The same of what has arrived and was not received: as much of it as one look shows, which takes nothing.
    pub fn is_given_up_unread(&self) -> bool {
        let mut room = [0; LOOK_BYTES];
        self.is_given_up()
            || self.pending.is_empty()
                && self.machine.aborts(self.transport.peek(&mut room).unwrap_or_default())
    }

    /// Between requests, with nothing received and nothing to send.
    pub fn is_idle(&self) -> bool {
        let between = match self.phase {
            Phase::Reading => self.machine.idle(),
            Phase::Streams => self.streams().is_none_or(Streams::is_idle),
            Phase::Preface => self.awaited().is_none_or(Awaited::is_silent),
            Phase::Flushing(_) | Phase::Discarding { .. } | Phase::Lingering { .. } => false,
        };
        between && self.pending.is_empty() && self.receiving.is_none() && self.sending.is_empty()
    }

    /// Idle, and nobody here knows its transport but itself: another process may have it, which asks the
    /// kernel whose it is.
    pub fn can_leave(&self) -> bool {
        self.is_idle()
            && self.phase == Phase::Reading
            && self.preface_said().len() <= SAID_BYTES
            && self.transport.can_leave()
            && self.is_alone()
    }

    /// The same of one that is in flight, whose request nobody has begun: that is told as it came. Once it is alone.
    pub fn can_leave_with_request(&self) -> bool {
        matches!(self.machine, Machine::Http1(_))
            && self.phase == Phase::Reading
            && self.receiving.is_none()
            && self.sending.is_empty()
            && self.transport.can_leave()
    }

    /// Nobody here knows its transport but itself.
    pub fn is_alone(&self) -> bool {
        let own = self
            .sending
            .pipelined
            .as_ref()
            .map_or(Some(1), |pipelined| (Arc::strong_count(pipelined) == 1).then_some(2));
        own == Some(Arc::strong_count(&self.transport))
    }

    /// When its patience ends.
    pub fn deadline(&self, limits: &Limits) -> Millis {
        match self.phase {
            Phase::Reading | Phase::Discarding { .. } => self.machine.deadline(limits).unwrap_or(Millis::MAX),
            Phase::Streams => self.streams().map_or(Millis::MAX, |streams| streams.deadline(limits)),
            Phase::Preface => self.awaited().map_or(Millis::MAX, |preface| preface.deadline(limits)),
            Phase::Flushing(_) | Phase::Lingering { .. } => self.patience.until(),
        }
    }
}

/// What a connection is about when its protocol begins.
fn first_phase(protocol: Protocol) -> Phase {
    if protocol == Protocol::Http2 { Phase::Streams } else { Phase::Reading }
}

/// Says so where what could not be sent was a file that had become shorter. Other errors are the peer's.
pub fn complain_of_file(log: &Log, error: &io::Error, peer: &Address) {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        log.complain(Level::Error, || {
            let peer = shown(peer);
            format!("a file became shorter while it was sent to {peer}, whose connection is reset")
        });
    }
}

/// An address, as a log line names it.
pub fn shown(address: &Address) -> String {
    match *address {
        Address::Ip(ip, port) => std::net::SocketAddr::new(ip, port).to_string(),
        Address::Unix => "unix".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use reactor::Socket;

    use super::*;
    use crate::preface::Preface;

    /// One byte: whether the connection speaks for somebody else; or more of them, until a dot.
    struct Byte;

    impl Preface for Byte {
        fn most(&self) -> usize {
            2 * SAID_BYTES
        }

        fn expects(&self) -> &'static str {
            "a byte"
        }

        fn judge(&mut self, bytes: &[u8]) -> Verdict {
            let length = bytes.iter().position(|&byte| byte == b'.').map_or(1, |at| at + 1);
            Verdict::Over { length, peer: (bytes[0] == b'x').then_some(Address::Unix), proxied: None }
        }
    }

    #[test]
    fn an_idle_connection_is_no_larger_for_what_other_listeners_speak() {
        assert!(size_of::<Connection>() <= 184, "{}", size_of::<Connection>());
    }

    #[test]
    fn who_speaks_for_another_leaves_with_what_was_said_or_not_at_all() {
        let long = |length: usize| [&vec![b'x'; length - 1][..], b"."].concat();
        for (said, leaves) in [
            (b"x".to_vec(), true),
            (b"-".to_vec(), true),
            (long(SAID_BYTES - 1), true),
            (long(SAID_BYTES), true),
            (long(SAID_BYTES + 1), false),
        ] {
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
            let kind = Kind { preface: Some(|_| Box::new(Byte)), ..Kind::HTTP };
            let (trust, limits) = (Trust::none(), Limits::default());
            let rules = (kind, &trust, &limits);
            let mut connection = Connection::new(socket.into(), 0, (Address::Unix, 0), rules, 0);
            assert!(connection.is_idle() && !connection.can_leave(), "its preface is awaited");
            connection.hear_preface(&said, &trust, 0).expect("a preface");
            assert_eq!((connection.is_idle(), connection.can_leave()), (true, leaves), "{}", said.len());
            let kept = if said == b"-" { &[][..] } else { &said };
            assert_eq!(connection.preface_said(), kept);
        }
    }
}
