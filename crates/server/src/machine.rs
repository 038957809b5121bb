//! The protocol that a connection speaks, as one thing with the verbs that all of them have.
//!
//! Knows: which protocol it is. Does not know: its grammar (the machines of `wire` do), the connection,
//! the loop. Owned by the connection, or by a body that is still arriving (`incoming.rs`).

use wire::gateway::{GatewayMachine, Given};
use wire::{Event, Fault, Http1, Limits, Millis, ReplyForm, Shared, Tick};

use crate::listener::Protocol;

/// One connection's place in its protocol.
pub enum Machine {
    Http1(Http1),
    /// uwsgi or SCGI. Behind a pointer: idle connections of HTTP/1 are many.
    Gateway(Box<GatewayMachine>),
}

impl Machine {
    /// At the beginning of a connection. `variant` as [`crate::listener::variant`] makes it.
    pub fn new(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::new(variant, now)),
            Protocol::Gateway(gateway) => Self::Gateway(Box::new(GatewayMachine::new(gateway, variant, now))),
        }
    }

    /// Of a connection that has had requests elsewhere: the next one may take the keep-alive time.
    pub fn kept(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::kept(variant, now)),
            // None of these has another request.
            Protocol::Gateway(_) => Self::new(protocol, variant, now),
        }
    }

    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Http1(_) => Protocol::Http,
            Self::Gateway(machine) => Protocol::Gateway(machine.gateway()),
        }
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        match self {
            Self::Http1(machine) => machine.variant(),
            Self::Gateway(machine) => machine.variant(),
        }
    }

    /// Takes it away, for as long as a body arrives that somebody else reads. What is left in its place
    /// sees none of the connection's bytes.
    pub fn take(&mut self, now: Millis) -> Self {
        if let Self::Gateway(machine) = self {
            return Self::Gateway(Box::new(machine.take(now)));
        }
        let left = Self::new(self.protocol(), self.variant(), now);
        std::mem::replace(self, left)
    }

    /// How replies to its requests are written.
    #[inline]
    pub fn form(&self) -> ReplyForm {
        match self {
            Self::Http1(_) => ReplyForm::Http1,
            Self::Gateway(machine) => match machine.gateway() {
                wire::gateway::Gateway::Uwsgi => ReplyForm::Uwsgi,
                wire::gateway::Gateway::Scgi => ReplyForm::Cgi,
            },
        }
    }

    /// What a web server has said of the request beside its head, where one hands its requests on.
    #[inline]
    pub fn given(&self) -> Option<&Given> {
        match self {
            Self::Http1(_) => None,
            Self::Gateway(machine) => machine.given(),
        }
    }

    /// What a fault of the framing is about, for a log line: what was expected, and what has come.
    pub fn expected_and_seen(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Http1(_) => None,
            Self::Gateway(machine) => Some(machine.expected_and_seen()),
        }
    }

    /// Consumes from the front of the input and says what it meant; [`Event::NeedMore`]: all of it.
    #[inline]
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        match self {
            Self::Http1(machine) => machine.advance(input, shared, now),
            Self::Gateway(machine) => machine.advance(input, shared, now),
        }
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        match self {
            Self::Http1(machine) => machine.eof(),
            Self::Gateway(machine) => machine.eof(),
        }
    }

    /// When its patience ends; none: it waits for nothing.
    #[inline]
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        match self {
            Self::Http1(machine) => machine.deadline(limits),
            Self::Gateway(machine) => machine.deadline(limits),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        match self {
            Self::Http1(machine) => machine.tick(now, limits),
            Self::Gateway(machine) => machine.tick(now, limits),
        }
    }

    /// Between messages, with nothing of the next received.
    #[inline]
    pub fn idle(&self) -> bool {
        match self {
            Self::Http1(machine) => machine.idle(),
            Self::Gateway(machine) => machine.idle(),
        }
    }

    /// The reply is done: the keep-alive time begins.
    #[inline]
    pub fn answered(&mut self, now: Millis) {
        match self {
            Self::Http1(machine) => machine.answered(now),
            Self::Gateway(machine) => machine.answered(now),
        }
    }

    /// True once a request has begun here, or elsewhere before.
    pub fn was_used(&self) -> bool {
        match self {
            Self::Http1(machine) => machine.was_used(),
            Self::Gateway(machine) => machine.was_used(),
        }
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        match self {
            Self::Http1(machine) => machine.reader_paused(span),
            Self::Gateway(machine) => machine.reader_paused(span),
        }
    }
}
