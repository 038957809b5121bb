//! A client of the load: its role, its connection and the requests on their way. Data; `worker` acts on it, one thread's.
//!
//! Small, because there may be 20,000: no buffer of its own, an empty queue of requests while it thinks. With TLS or HTTP/2 it is
//! as large as their libraries make it.

use crate::http2::Http2;
use crate::reply::Reader;
use crate::system::{self, Moved};
use crate::timers::NEVER;
use crate::tls::Session;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;

/// What a client does when a reply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Asks again: a connection of a closed loop.
    Loop,
    /// Waits among the idle ones for the next planned request.
    Pooled,
    /// Thinks, then asks again, so many times more.
    Session { left: u32 },
    /// Asks no more: it waits for the server to end the connection, and sees what comes before that.
    Leaving,
}

/// A request on its way. Nanoseconds from second 0; 0: not yet.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub planned: u64,
    /// When the work for it began: connecting, or sending.
    pub began: u64,
    pub sent: u64,
    pub first_byte: u64,
    pub template: u16,
    /// The last request of its session, which says so.
    pub last: bool,
    /// How often a server that was going away has left it unseen.
    pub unseen: u8,
}

/// How far sending has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing {
    /// Flights that are wholly written.
    pub written: usize,
    /// Bytes of the next one.
    pub offset: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// A timeout, or the end of leaving.
    pub limit: u64,
    /// Something to do then: think no more, read or write on, try again.
    pub wake: u64,
    /// The moment of the entry in the heap that counts.
    pub entered: u64,
}

#[derive(Debug)]
pub struct Client {
    pub generation: u32,
    pub role: Role,
    pub socket: Option<OwnedFd>,
    /// None: in the clear.
    pub tls: Option<Box<Session>>,
    /// None: HTTP/1, or not yet connected.
    pub http2: Option<Box<Http2>>,
    /// Requests can be sent: TLS, if there is any, is agreed on.
    pub connected: bool,
    /// Among the idle ones, which may be given a request. With HTTP/2 that is one that has room.
    pub offered: bool,
    /// How many connections it has had: tells an old one's news from the present one's.
    pub links: u32,
    pub connect_began: u64,
    /// When the kernel had it connected; 0: not yet.
    pub connected_at: u64,
    /// Replies on this connection.
    pub replies: u32,
    /// Requests on their way, in order; with HTTP/2, those that have no stream yet.
    pub flights: VecDeque<Flight>,
    pub outgoing: Outgoing,
    pub reader: Reader,
    /// A slow reader that has read its share, and waits.
    pub paused: bool,
    pub deadlines: Deadlines,
}

impl Client {
    pub fn new(role: Role) -> Client {
        Client {
            generation: 0,
            role,
            socket: None,
            tls: None,
            http2: None,
            connected: false,
            offered: false,
            links: 0,
            connect_began: 0,
            connected_at: 0,
            replies: 0,
            flights: VecDeque::new(),
            outgoing: Outgoing::default(),
            reader: Reader::default(),
            paused: false,
            deadlines: Deadlines { limit: NEVER, wake: NEVER, entered: NEVER },
        }
    }

    /// Whether something of the first request is still to be sent.
    pub fn is_sending(&self) -> bool {
        self.outgoing.written < self.flights.len()
    }

    /// Whether bytes wait for room in the socket.
    pub fn has_output(&self) -> bool {
        let encrypted = self.tls.as_ref().is_some_and(|tls| tls.has_output());
        let plain = self.http2.as_ref().map_or_else(|| self.is_sending(), |http2| http2.has_output());
        encrypted || plain
    }

    /// How many requests it has, with and without a stream.
    pub fn in_flight(&self) -> usize {
        self.flights.len() + self.http2.as_ref().map_or(0, |http2| http2.streams.len())
    }

    /// All that it has on its way, streams first; it has none then.
    pub fn take_flights(&mut self) -> VecDeque<Flight> {
        let streams = self.http2.as_mut().map_or_else(Vec::new, |http2| std::mem::take(&mut http2.streams));
        let mut flights: VecDeque<Flight> = streams.iter().map(|stream| stream.flight).collect();
        flights.append(&mut self.flights);
        flights
    }

    /// Sends bytes, encrypted where the connection is.
    pub fn write(&mut self, bytes: &[u8]) -> Moved {
        match (&self.socket, &mut self.tls) {
            (Some(socket), Some(tls)) => tls.write(socket, bytes),
            (Some(socket), None) => system::write(socket, bytes),
            (None, _) => Moved::Reset,
        }
    }

    /// No connection any more. Requests on their way stay, as if nothing of them had been sent.
    pub fn part(&mut self) -> Option<OwnedFd> {
        self.connected = false;
        self.connected_at = 0;
        self.tls = None;
        self.http2 = None;
        self.links = self.links.wrapping_add(1);
        self.replies = 0;
        self.outgoing = Outgoing::default();
        self.reader = Reader::default();
        self.paused = false;
        self.deadlines.limit = NEVER;
        for flight in &mut self.flights {
            flight.sent = 0;
            flight.first_byte = 0;
        }
        self.socket.take()
    }
}
