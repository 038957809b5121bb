//! The protocol that a connection speaks, as one thing with the verbs that all of them have.
//!
//! Knows: which protocol it is. Does not know: its grammar (the machines of `wire` do), the connection,
//! the loop. Owned by the connection, or by a body that is still arriving (`incoming.rs`).

use wire::{Event, Fault, Http1, Limits, Millis, Shared, Tick};

use crate::listener::Protocol;

/// One connection's place in its protocol.
pub enum Machine {
    Http1(Http1),
}

impl Machine {
    /// At the beginning of a connection. `variant` as [`crate::listener::variant`] makes it.
    pub fn new(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::new(variant, now)),
        }
    }

    /// Of a connection that has had requests elsewhere: the next one may take the keep-alive time.
    pub fn kept(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::kept(variant, now)),
        }
    }

    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Http1(_) => Protocol::Http,
        }
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        match self {
            Self::Http1(machine) => machine.variant(),
        }
    }

    /// Takes it away, for as long as a body arrives that somebody else reads. What is left in its place
    /// sees none of the connection's bytes.
    pub fn take(&mut self, now: Millis) -> Self {
        let left = Self::new(self.protocol(), self.variant(), now);
        std::mem::replace(self, left)
    }

    /// Consumes from the front of the input and says what it meant; [`Event::NeedMore`]: all of it.
    #[inline]
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        match self {
            Self::Http1(machine) => machine.advance(input, shared, now),
        }
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        match self {
            Self::Http1(machine) => machine.eof(),
        }
    }

    /// When its patience ends; none: it waits for nothing.
    #[inline]
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        match self {
            Self::Http1(machine) => machine.deadline(limits),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        match self {
            Self::Http1(machine) => machine.tick(now, limits),
        }
    }

    /// Between messages, with nothing of the next received.
    #[inline]
    pub fn idle(&self) -> bool {
        match self {
            Self::Http1(machine) => machine.idle(),
        }
    }

    /// The reply is done: the keep-alive time begins.
    #[inline]
    pub fn answered(&mut self, now: Millis) {
        match self {
            Self::Http1(machine) => machine.answered(now),
        }
    }

    /// True once a request has begun here, or elsewhere before.
    pub fn was_used(&self) -> bool {
        match self {
            Self::Http1(machine) => machine.was_used(),
        }
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        match self {
            Self::Http1(machine) => machine.reader_paused(span),
        }
    }
}
