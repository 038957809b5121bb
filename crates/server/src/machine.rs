//! The protocol that a connection speaks, as one thing with the verbs that all of them have.
//!
//! Knows: which protocol it is. Does not know: its grammar (the machines of `wire` do), the connection,
//! the loop. Owned by the connection, or by a body that is still arriving (`incoming.rs`).

use std::sync::Arc;

use wire::gateway::{FastCgi, Gateway, GatewayMachine, Given};
use wire::{Event, Fault, Head, Http1, Limits, Millis, Policy, ReplyForm, Shared, Tick};

use crate::listener::Protocol;

/// One connection's place in its protocol.
pub enum Machine {
    Http1(Http1),
    /// uwsgi or SCGI. Behind a pointer: idle connections of HTTP/1 are many.
    Gateway(Box<GatewayMachine>),
    FastCgi(Box<FastCgi>),
    /// HTTP/2: its events name streams, so that its machine is with them (`streams.rs`). Which heads of the cache are its own.
    Http2(u32),
}

/// The same verb of whichever it is.
macro_rules! each {
    ($machine:expr, $one:ident => $call:expr, of_streams: $other:expr) => {
        match $machine {
            Machine::Http1($one) => $call,
            Machine::Gateway($one) => $call,
            Machine::FastCgi($one) => $call,
            Machine::Http2(_) => $other,
        }
    };
}

impl Machine {
    /// At the beginning of a connection. `variant` as [`crate::listener::variant`] makes it.
    pub fn new(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::new(variant, now)),
            Protocol::Http2 => Self::Http2(variant),
            Protocol::Gateway(gateway) => Self::Gateway(Box::new(GatewayMachine::new(gateway, variant, now))),
            Protocol::FastCgi => Self::FastCgi(Box::new(FastCgi::new(variant, now))),
        }
    }

    /// Of a connection that has had requests elsewhere: the next one may take the keep-alive time.
    pub fn kept(protocol: Protocol, variant: u32, now: Millis) -> Self {
        match protocol {
            Protocol::Http => Self::Http1(Http1::kept(variant, now)),
            // None of these has another request.
            Protocol::Gateway(_) | Protocol::Http2 => Self::new(protocol, variant, now),
            Protocol::FastCgi => Self::FastCgi(Box::new(FastCgi::kept(variant, now))),
        }
    }

    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Http1(_) => Protocol::Http,
            Self::Gateway(machine) => Protocol::Gateway(machine.gateway()),
            Self::FastCgi(_) => Protocol::FastCgi,
            Self::Http2(_) => Protocol::Http2,
        }
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        match self {
            Self::Http1(machine) => machine.variant(),
            Self::Gateway(machine) => machine.variant(),
            Self::FastCgi(machine) => machine.variant(),
            Self::Http2(variant) => *variant,
        }
    }

    /// Takes it away, for as long as a body arrives that somebody else reads. What is left in its place
    /// sees none of the connection's bytes.
    pub fn take(&mut self, now: Millis) -> Self {
        match self {
            Self::Http1(machine) => {
                let left = Http1::new(machine.variant(), now);
                Self::Http1(std::mem::replace(machine, left))
            }
            Self::Gateway(machine) => Self::Gateway(Box::new(machine.take(now))),
            Self::FastCgi(machine) => Self::FastCgi(Box::new(machine.take(now))),
            Self::Http2(variant) => Self::Http2(*variant),
        }
    }

    /// How replies to its requests are written.
    #[inline]
    pub fn form(&self) -> ReplyForm {
        match self {
            Self::Http1(_) => ReplyForm::Http1,
            Self::Gateway(machine) => match machine.gateway() {
                Gateway::Uwsgi => ReplyForm::Uwsgi,
                Gateway::Scgi => ReplyForm::Cgi,
            },
            Self::FastCgi(machine) => ReplyForm::FastCgi(machine.records()),
            Self::Http2(_) => ReplyForm::Stream,
        }
    }

    /// What a web server has said of the request beside its head, where one hands its requests on.
    #[inline]
    pub fn given(&self) -> Option<&Given> {
        // Most often; the compiler would look it up in a table.
        if let Self::Http1(_) = self {
            return None;
        }
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Gateway(machine) => machine.given(),
            Self::FastCgi(machine) => machine.given(),
        }
    }

    /// What a fault of the framing is about, for a log line: what was expected, and what has come.
    pub fn expected_and_seen(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Gateway(machine) => Some(machine.expected_and_seen()),
            Self::FastCgi(machine) => Some(machine.expected_and_seen()),
        }
    }

    /// What the protocol itself has to say to the peer before anything else is sent; and whether the connection is to
    /// end, though no request has ended it.
    #[inline]
    pub fn take_output(&mut self) -> (Vec<u8>, bool) {
        match self {
            Self::FastCgi(machine) => (machine.take_output(), machine.is_over()),
            Self::Http1(_) | Self::Gateway(_) | Self::Http2(_) => (Vec::new(), false),
        }
    }

    /// True where what has arrived behind the request that is answered gives it up.
    pub fn aborts(&self, ahead: &[u8]) -> bool {
        matches!(self, Self::FastCgi(machine) if machine.aborts(ahead))
    }

    /// A web server's body is arriving, and has not ended: before that it may not look at its reply.
    pub fn awaits_body(&self) -> bool {
        match self {
            Self::Http1(_) | Self::Http2(_) => false,
            Self::Gateway(machine) => machine.awaits_body(),
            Self::FastCgi(machine) => machine.awaits_body(),
        }
    }

    /// Consumes from the front of the input and says what it meant; [`Event::NeedMore`]: all of it.
    #[inline]
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        each!(self, machine => machine.advance(input, shared, now), of_streams: Event::NeedMore)
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        each!(self, machine => machine.eof(), of_streams: None)
    }

    /// When its patience ends; none: it waits for nothing.
    #[inline]
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        each!(self, machine => machine.deadline(limits), of_streams: None)
    }

    /// The request of which a part of the head is still to come, where its line is there.
    pub fn arriving(&self, policy: &Policy) -> Option<Arc<Head>> {
        match self {
            Self::Http1(machine) => machine.arriving(policy),
            Self::Gateway(_) | Self::FastCgi(_) | Self::Http2(_) => None,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        each!(self, machine => machine.tick(now, limits), of_streams: Tick::Nothing)
    }

    /// Between messages, with nothing of the next received.
    #[inline]
    pub fn idle(&self) -> bool {
        each!(self, machine => machine.idle(), of_streams: true)
    }

    /// The reply is done: the keep-alive time begins.
    #[inline]
    pub fn answered(&mut self, now: Millis) {
        each!(self, machine => machine.answered(now), of_streams: {});
    }

    /// True once a request has begun here, or elsewhere before.
    pub fn was_used(&self) -> bool {
        each!(self, machine => machine.was_used(), of_streams: true)
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        each!(self, machine => machine.reader_paused(span), of_streams: {});
    }
}
