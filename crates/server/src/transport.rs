//! What a connection reads from and writes to.
//!
//! Knows: how bytes of a connection cross the kernel, and the verbs for it. Does not know: what the bytes
//! mean, or who asks. Any thread that has a share of it may send; the connection's owner reads.
//!
//! Nobody else in this crate or above it has a socket in hand, so that a transport that is more than
//! one (TLS, `tls/encrypted.rs`) is an arm of each `match` here and nothing elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use reactor::sys::Handoff;
use reactor::{MayWait, PollFor, Reactor, Read, Sent, Socket};

use crate::tls::Encrypted;

/// The way to a peer and back.
#[derive(Debug)]
pub enum Transport {
    /// The bytes themselves, over TCP or a unix socket.
    Plain(Socket),
    /// Within TLS. Behind a pointer: idle connections without it are many.
    Encrypted(Box<Encrypted>),
}

impl From<Box<Encrypted>> for Transport {
    fn from(encrypted: Box<Encrypted>) -> Self {
        Self::Encrypted(encrypted)
    }
}

impl From<Socket> for Transport {
    fn from(socket: Socket) -> Self {
        Self::Plain(socket)
    }
}

impl Transport {
    /// Receives once.
    #[inline]
    pub fn read<'a>(&self, into: &'a mut [u8]) -> Read<'a> {
        match self {
            Self::Plain(socket) => Reactor::read(into, socket),
            Self::Encrypted(tls) => tls.read(into),
        }
    }

    /// Sends what fits.
    ///
    /// # Errors
    /// The connection's: the peer is gone.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        match self {
            Self::Plain(socket) => socket.send(bytes),
            Self::Encrypted(tls) => tls.send(bytes),
        }
    }

    /// Sends up to [`reactor::PIECES`] pieces in order, what fits of them.
    ///
    /// # Errors
    /// As [`Transport::send`].
    #[inline]
    pub fn send_pieces(&self, pieces: &[&[u8]]) -> io::Result<Sent> {
        match self {
            Self::Plain(socket) => socket.send_pieces(pieces),
            Self::Encrypted(tls) => tls.send_pieces(pieces),
        }
    }

    /// Sends up to `count` bytes of a file. `Some(0)`: the file ended before that.
    ///
    /// # Errors
    /// As [`Transport::send`], and the file's.
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Sent> {
        match self {
            Self::Plain(socket) => socket.send_file(file, offset, count),
            Self::Encrypted(tls) => tls.send_file(file, offset, count),
        }
    }

    /// Bounds what the kernel takes beyond what is on its way to the peer; zero bounds it no more.
    pub fn bound_unsent(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self {
            Self::Plain(socket) => socket.bound_unsent(bytes),
            Self::Encrypted(tls) => tls.socket().bound_unsent(bytes),
        }
    }

    /// Says something small, before whatever is sent next, of which nobody wants to hear what became of it.
    ///
    /// # Errors
    /// As [`Transport::send`].
    pub fn say(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            // It is said on a socket that has room for it, as nothing of a reply was sent.
            Self::Plain(socket) => socket.send(bytes).map(drop),
            Self::Encrypted(tls) => tls.say(bytes),
        }
    }

    /// Something has been taken from the kernel that nobody has read, so that no edge will tell.
    #[inline]
    pub fn has_unread(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(tls) => tls.has_unread(),
        }
    }

    /// What is known of its TLS; none where there is none.
    #[inline]
    pub fn tls(&self) -> Option<&Encrypted> {
        match self {
            Self::Plain(_) => None,
            Self::Encrypted(tls) => Some(tls),
        }
    }

    /// It is about to be closed, and all that was to be said is said: where the end has to be told, it is.
    #[inline]
    pub fn end(&self) {
        match self {
            // Closing says it.
            Self::Plain(_) => {}
            Self::Encrypted(tls) => tls.end(),
        }
    }

    /// Waits until bytes can be read or sent, at most so many milliseconds. False: the time is over.
    /// For a thread that answers an exchange, never for the loop; `let_go`: it holds nothing that others need.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, what: PollFor, milliseconds: u64, may_wait: &MayWait) -> io::Result<bool> {
        match self {
            Self::Plain(socket) => socket.wait(what, milliseconds, may_wait),
            Self::Encrypted(tls) if tls.is_ready(what) => Ok(true),
            Self::Encrypted(tls) => tls.socket().wait(what, milliseconds, may_wait),
        }
    }

    /// Ends our side: the peer reads what is under way, then the end.
    pub fn shut_write(&self) {
        match self {
            Self::Plain(socket) => socket.shut_write(),
            Self::Encrypted(tls) => {
                tls.end();
                tls.socket().shut_write();
            }
        }
    }

    /// Ends both sides at once: the peer, and whoever here reads or writes, see the end.
    pub fn shut_both(&self) {
        match self {
            Self::Plain(socket) => socket.shut_both(),
            Self::Encrypted(tls) => {
                tls.end();
                tls.socket().shut_both();
            }
        }
    }

    /// True when the peer has ended its side and nothing of what it sent is unread. Takes nothing.
    pub fn peer_has_left(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.peer_has_left(),
            Self::Encrypted(tls) => tls.peer_has_left(),
        }
    }

    /// Looks at what has arrived, and takes nothing; none where there is nothing, or nobody.
    pub fn peek<'a>(&self, into: &'a mut [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Plain(socket) => socket.peek(into),
            // Only web servers' own protocols are looked at, which are not spoken within TLS.
            Self::Encrypted(_) => None,
        }
    }

    /// Makes the close that follows a reset, so that the peer cannot take a cut reply for a whole one.
    pub fn reset_at_close(&self) {
        match self {
            Self::Plain(socket) => socket.reset_at_close(),
            Self::Encrypted(tls) => tls.cut(),
        }
    }

    /// Has the reactor tell of edges, under this token, for as long as it is open.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn watch(&self, reactor: &Reactor, token: u64) -> io::Result<()> {
        match self {
            Self::Plain(socket) => reactor.watch(socket, token),
            Self::Encrypted(tls) => tls.watch(reactor, token),
        }
    }

    /// Another process may have it: all that there is to know of it is its descriptor. Keys of a TLS session are not.
    pub fn can_leave(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Encrypted(_) => false,
        }
    }

    /// Gives it to another process, with a note. False: so many are under way that no more fit. Ours
    /// stays open until it is dropped.
    ///
    /// # Errors
    /// The kernel's.
    pub fn hand_over(&self, handoff: &Handoff, note: &[u8]) -> io::Result<bool> {
        match self {
            Self::Plain(socket) => handoff.give(socket, note),
            Self::Encrypted(_) => Ok(false),
        }
    }
}

impl AsFd for Transport {
    /// What the kernel knows it by: for the reactor, not for reading or writing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Encrypted(tls) => tls.as_fd(),
        }
    }
}
