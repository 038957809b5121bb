//! A transport that is encrypted: a socket, and the TLS session on it.
//!
//! Knows: the verbs of a transport, with records in between. Does not know: what the bytes mean, or when a handshake may
//! take place (`porch.rs`). Any thread that has a share of it may send; its lock is held while records are made and given
//! to the kernel, and never while anybody waits.
//!
//! What a sender is told is gone has been given to the kernel: sealed bytes that it did not take are kept, and the sender,
//! who is told that there is no room, offers the same bytes again when there is. So all that is known of slow readers
//! holds here, too.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use reactor::file::read_some;
use reactor::sys::wall_seconds;
use reactor::{PIECES, PollFor, Reactor, Read, Sent, Socket};
use rustls::ServerConfig;

use super::facts::{ClientCertificate, Facts};
use super::resolver::Shown;
use super::sealing::RECORD;
use super::session::Session;
use crate::sync::lock;

/// So much is sealed at a time.
const AHEAD: usize = 64 * 1024;
/// A record of the largest kind, with its head and what goes around it.
const RECORD_ROOM: usize = RECORD + 2048 + 5;
/// So many reads in a row may bring no plaintext; then others have their turn.
const SILENT_READS: u32 = 4;

/// What a handshake is to be like.
#[derive(Debug, Clone)]
pub struct Terms {
    pub config: Arc<ServerConfig>,
    /// Clients are asked for a certificate.
    pub asks_clients: bool,
}

/// How far a handshake has come.
#[derive(Debug)]
pub enum Handshake {
    /// It is complete.
    Done,
    /// An edge will tell.
    Waits,
    /// The peer has left.
    Left,
    /// What came is no TLS; its first bytes.
    Other(Box<[u8]>),
    /// Why it cannot be completed.
    Failed(String),
}

/// A socket, and the session on it.
#[derive(Debug)]
pub struct Encrypted {
    socket: Socket,
    session: Mutex<Session>,
    /// Clients were asked for a certificate, ...
    asks: bool,
    /// ... and this one has shown one that is believed.
    client: Option<Box<ClientCertificate>>,
}

impl Encrypted {
    /// A connection whose handshake is about to begin.
    ///
    /// # Errors
    /// rustls', where the configuration cannot be used.
    pub fn new(socket: Socket, terms: &Terms) -> io::Result<Self> {
        let session = Session::new(Arc::clone(&terms.config)).map_err(io::Error::other)?;
        Ok(Self { socket, session: Mutex::new(session), asks: terms.asks_clients, client: None })
    }

    /// Takes note of what a handshake that is complete has shown.
    pub fn learn(&mut self) {
        if self.asks {
            let session = lock(&self.session);
            self.client = ClientCertificate::of(session.facts().peer_certificates(), wall_seconds());
        }
    }

    /// What there is to be known of every connection.
    pub fn facts(&self) -> Facts {
        let session = lock(&self.session);
        Facts::of(session.facts(), session.is_resumed())
    }

    /// Clients were asked for a certificate.
    pub fn asks_clients(&self) -> bool {
        self.asks
    }

    /// The client's certificate.
    pub fn client(&self) -> Option<&ClientCertificate> {
        self.client.as_deref()
    }

    /// The name that the client has asked for.
    pub fn server_name(&self) -> Option<Box<str>> {
        lock(&self.session).server_name().map(Box::from)
    }

    /// What the client has agreed to speak (ALPN, RFC 7301); none: it has offered nothing.
    pub fn protocol(&self) -> Option<Box<[u8]>> {
        lock(&self.session).facts().alpn_protocol().map(Box::from)
    }

    /// The certificate that it was shown.
    pub fn shown(&self) -> Option<Shown> {
        lock(&self.session).shown()
    }

    /// The client has named another host in the handshake, where its certificate is asked for: what it may there it may
    /// not do here (RFC 9110 §7.4).
    pub fn is_misdirected(&self, host: Option<&[u8]>) -> bool {
        self.asks
            && self
                .server_name()
                .zip(host)
                .is_some_and(|(named, host)| !without_port(host).eq_ignore_ascii_case(named.as_bytes()))
    }

    /// The socket alone, of a peer that speaks no TLS.
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    /// Has the reactor tell of edges.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&self, reactor: &Reactor, token: u64) -> io::Result<()> {
        reactor.watch(&self.socket, token)
    }

    /// The socket, for verbs that are the same with and without encryption.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Goes on with the handshake, as far as it goes without waiting. `room`: some [`AHEAD`] bytes, of which the first
    /// `begun` have come behind what was said before it, where nothing else has.
    pub fn shake_hands(&self, room: &mut [u8], mut begun: usize) -> Handshake {
        let mut session = lock(&self.session);
        loop {
            match self.send_sealed(&mut session, 0) {
                Ok(_) if session.is_handshaking() => {}
                Ok(_) if session.unsent().is_empty() => return Handshake::Done,
                // A client of TLS 1.2 says nothing before it has heard the last word.
                Ok(_) => return Handshake::Waits,
                Err(_) => return Handshake::Left,
            }
            if session.held() >= room.len() {
                return Handshake::Failed("a message is too long".into());
            }
            let held = session.held();
            let received = match mem::take(&mut begun) {
                0 => self.socket.recv(&mut room[held..]),
                begun => Ok(Some(begun)),
            };
            match received {
                Ok(Some(0)) | Err(_) => return Handshake::Left,
                Ok(None) => return Handshake::Waits,
                Ok(Some(count)) => {
                    let silent = session.is_new();
                    session.put_held(room);
                    let arrived = &mut room[..held + count];
                    // Each record of a handshake begins with its type (RFC 8446 §5.1): alerts and key changes, too.
                    if silent && !matches!(arrived[0], 0x14..=0x17) {
                        return Handshake::Other(arrived[..arrived.len().min(64)].into());
                    }
                    let opened = session.open(arrived);
                    session.notice();
                    if let Err(error) = opened {
                        let why = session.blame(&error);
                        let _ = self.send_sealed(&mut session, 0);
                        return Handshake::Failed(why);
                    }
                }
            }
        }
    }

    /// Nothing has come of the client's first message.
    pub fn is_silent(&self) -> bool {
        lock(&self.session).is_new()
    }

    /// The client's first message has not come whole, so that it has got no answer.
    pub fn is_unanswered(&self) -> bool {
        lock(&self.session).is_unanswered()
    }

    /// The handshake was one of a client that came again.
    pub fn is_resumed(&self) -> bool {
        lock(&self.session).is_resumed()
    }

    /// Receives once.
    pub fn read<'a>(&self, into: &'a mut [u8]) -> Read<'a> {
        let mut session = lock(&self.session);
        for _ in 0..SILENT_READS {
            if session.has_opened() {
                let count = session.give(into);
                // The socket may hold more since these bytes were received, and no edge will tell.
                return Read::Data { bytes: &into[..count], more: true };
            }
            if session.peer_ended {
                return Read::Ended;
            }
            match self.receive(&mut session, into) {
                Ok(Received::Some { filled }) if session.has_opened() => {
                    let count = session.give(into);
                    // The end is told by a read of its own.
                    let more = filled || session.has_opened() || session.peer_ended;
                    return Read::Data { bytes: &into[..count], more };
                }
                Ok(Received::Some { .. }) => {}
                Ok(Received::Nothing) => return Read::Nothing,
                // Without the word that nothing more will come: whoever reads knows whether something is missing.
                Ok(Received::Ended) => return Read::Ended,
                Err(error) => return Read::Failed(error),
            }
        }
        Read::Data { bytes: &[], more: true }
    }

    /// Receives once and opens what has come. `room` is used for it where it is large enough for a record.
    fn receive(&self, session: &mut Session, room: &mut [u8]) -> io::Result<Received> {
        let needed = session.held() + RECORD_ROOM;
        let mut own = Vec::new();
        let room = if room.len() >= needed {
            room
        } else {
            own.resize(needed, 0);
            &mut own[..]
        };
        let held = session.held();
        match self.socket.recv(&mut room[held..])? {
            None => Ok(Received::Nothing),
            Some(0) => Ok(Received::Ended),
            Some(count) => {
                session.put_held(room);
                let opened = session.open(&mut room[..held + count]);
                // What is to be said of it goes at once, or before whatever is sent next.
                let sent = self.send_sealed(session, 0);
                opened.map_err(io::Error::other)?;
                sent?;
                Ok(Received::Some { filled: held + count == room.len() })
            }
        }
    }

    /// Plaintext has been opened that nobody has read, or the end is known: no edge will tell.
    pub fn has_unread(&self) -> bool {
        let session = lock(&self.session);
        session.has_opened() || session.peer_ended
    }

    /// Sends what fits.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        self.send_made(bytes.len(), |session| session.seal(&bytes[..bytes.len().min(AHEAD)]))
    }

    /// Sends up to [`PIECES`] pieces in order, what fits of them, in as few records as they need.
    ///
    /// # Errors
    /// As [`Encrypted::send`].
    pub fn send_pieces(&self, pieces: &[&[u8]]) -> io::Result<Sent> {
        let pieces = &pieces[..pieces.len().min(PIECES)];
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.send_made(total, |session| {
            let mut plain = Vec::with_capacity(total.min(AHEAD));
            for piece in pieces {
                plain.extend_from_slice(&piece[..piece.len().min(AHEAD - plain.len())]);
            }
            session.seal(&plain)
        })
    }

    /// Sends up to `count` bytes of a file, which have to be read for it. `Some(0)`: the file ended before that.
    ///
    /// # Errors
    /// As [`Encrypted::send`], and the file's.
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Sent> {
        let mut ended = false;
        let sent = self.send_made(count, |session| {
            let mut plain = vec![0; count.min(AHEAD)];
            let read = read_some(file, &mut plain, offset)?;
            ended = read == 0;
            if ended { Ok(()) } else { session.seal(&plain[..read]) }
        });
        if ended { Ok(Sent::Some(0)) } else { sent }
    }

    /// Sends what waits; then, of `offered` bytes, what `seal` makes ready.
    fn send_made(
        &self,
        offered: usize,
        seal: impl FnOnce(&mut Session) -> io::Result<()>,
    ) -> io::Result<Sent> {
        if offered == 0 {
            return Ok(Sent::Some(0));
        }
        let mut session = lock(&self.session);
        let mut told = self.send_sealed(&mut session, offered)?;
        if told == 0 && session.unsent().is_empty() && !session.owes() {
            seal(&mut session)?;
            told = self.send_sealed(&mut session, offered)?;
        }
        Ok(if told > 0 { Sent::Some(told) } else { Sent::Full })
    }

    /// Gives sealed bytes to the kernel, as many as it takes. How much of `offered` bytes is gone by that.
    fn send_sealed(&self, session: &mut Session, offered: usize) -> io::Result<usize> {
        let mut told = 0;
        while !session.unsent().is_empty() {
            match self.socket.send(session.unsent())? {
                Sent::Some(count) => told += session.has_sent(count, offered - told),
                Sent::Full => return Ok(told),
            }
        }
        Ok(told + session.has_sent(0, offered - told))
    }

    /// Says something small that goes before whatever is sent next. Whoever says it does not hear what became of it.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn say(&self, bytes: &[u8]) -> io::Result<()> {
        let mut session = lock(&self.session);
        session.seal_aside(bytes)?;
        self.send_sealed(&mut session, 0).map(|_| ())
    }

    /// Says that nothing more will come, where that is so.
    pub fn end(&self) {
        let mut session = lock(&self.session);
        session.end();
        // A peer that is gone need not hear it.
        let _ = self.send_sealed(&mut session, 0);
    }

    /// The peer must not take what it has got for the whole.
    pub fn cut(&self) {
        lock(&self.session).cut();
        self.socket.reset_at_close();
    }

    /// Something can be read, or sent, without waiting.
    pub fn is_ready(&self, what: PollFor) -> bool {
        what == PollFor::Readable && self.has_unread()
    }

    /// True when the peer has ended its side and nothing of what it sent is unread. What is read for that is kept.
    pub fn peer_has_left(&self) -> bool {
        let mut session = lock(&self.session);
        for _ in 0..SILENT_READS {
            if session.has_opened() {
                return false;
            }
            if session.peer_ended || self.socket.peer_has_left() {
                return true;
            }
            match self.receive(&mut session, &mut []) {
                Ok(Received::Some { .. }) => {}
                Ok(Received::Nothing) => return false,
                Ok(Received::Ended) | Err(_) => return true,
            }
        }
        false
    }
}

/// A host as the Host header has it, but for its port.
fn without_port(host: &[u8]) -> &[u8] {
    let port = host.iter().rposition(|&byte| byte == b':');
    port.filter(|&at| host[at + 1..].iter().all(u8::is_ascii_digit)).map_or(host, |at| &host[..at])
}

/// What a read of the socket has brought.
enum Received {
    /// `filled`: as much as there was room for, so that there may be more.
    Some {
        filled: bool,
    },
    Nothing,
    Ended,
}

impl AsFd for Encrypted {
    /// What the kernel knows it by.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
