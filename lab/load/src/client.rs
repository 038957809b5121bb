//! A client of the load: its role, its connection and the requests on their way. Data only; `worker` acts on it, one thread's.
//!
//! Small, because there may be 20,000: no buffer of its own, an empty queue of requests while it thinks.

use crate::reply::Reader;
use crate::timers::NEVER;
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
    pub connected: bool,
    /// How many connections it has had: tells an old one's news from the present one's.
    pub links: u32,
    pub connect_began: u64,
    pub connected_at: u64,
    /// Replies on this connection.
    pub replies: u32,
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
            connected: false,
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

    /// No connection any more. Requests on their way stay, as if nothing of them had been sent.
    pub fn part(&mut self) -> Option<OwnedFd> {
        self.connected = false;
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
