//! The protocols of web servers that hand requests on as variables: uwsgi and SCGI, and FastCGI (`fastcgi/`).
//!
//! Knows: their framing (a file each), and what their variables mean (`variables.rs`, `paths.rs`). Does not know: which peers
//! may say such things, or how the reply is written. Pure; time is an argument. Used by whoever owns the connection.
//!
//! ```text
//!   HEAD ──(no body)──► OVER            HEAD, BODY ──(fault)──► FAILED, for good
//!     └──(length)─► BODY ──► OVER
//! ```
//!
//! A connection is one request: its reply ends with the connection, and what comes behind the body is nobody's.

pub mod fastcgi;
pub(crate) mod given;
mod paths;
mod scgi;
mod uwsgi;
mod variables;

use std::sync::Arc;

use crate::Millis;
use crate::body;
use crate::fault::{self, Fault};
use crate::head::Framing;
use crate::head_cache::Hint;
use crate::http1::{BodyLeft, Event, Shared, Tick};
use crate::limits::Limits;

pub use fastcgi::FastCgi;
pub use given::Given;
use given::Pair;
pub use paths::Paths;

/// How the variables of a request are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gateway {
    Uwsgi,
    Scgi,
}

/// What the beginning of a connection shows.
enum Look {
    Incomplete,
    /// The head has so many bytes, and these variables.
    Complete(usize, Vec<Pair>),
}

enum State {
    /// What has arrived of the head.
    Head(Vec<u8>),
    Body {
        left: u64,
        heard: Millis,
    },
    Over,
    Failed(Fault),
}

/// The machine of one connection; its verbs are those of [`crate::Http1`].
pub struct GatewayMachine {
    gateway: Gateway,
    state: State,
    variant: u32,
    since: Millis,
    received: u64,
    used: bool,
    given: Option<Arc<Given>>,
    /// What came in the place of a request looks like this.
    seen: &'static str,
}

impl GatewayMachine {
    pub fn new(gateway: Gateway, variant: u32, now: Millis) -> Self {
        Self {
            gateway,
            state: State::Head(Vec::new()),
            variant,
            since: now,
            received: 0,
            used: false,
            given: None,
            seen: "nothing",
        }
    }

    pub fn gateway(&self) -> Gateway {
        self.gateway
    }

    /// Takes it away, for as long as a body arrives that somebody else reads. What is left in its place takes nothing
    /// for a request, and still has what was said of this one.
    pub fn take(&mut self, now: Millis) -> Self {
        let mut left = Self::new(self.gateway, self.variant, now);
        (left.state, left.used, left.given) = (State::Over, self.used, self.given.clone());
        std::mem::replace(self, left)
    }

    /// What was expected here and what came instead look like, for a log line.
    pub fn expected_and_seen(&self) -> (&'static str, &'static str) {
        let expected = match self.gateway {
            Gateway::Uwsgi => "a uwsgi request",
            Gateway::Scgi => "an SCGI request",
        };
        (expected, self.seen)
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        self.variant
    }

    /// What the web server has said of the request beside its head; none before there is one.
    pub fn given(&self) -> Option<&Given> {
        self.given.as_deref()
    }

    /// Consumes from the front of the input and says what it meant. After [`Event::NeedMore`] all of the input has
    /// been consumed. A body's bytes are borrowed from the caller's input.
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        let event = match &mut self.state {
            State::Failed(fault) => return Event::Fault(*fault),
            State::Head(_) => self.head(input, shared, now),
            State::Body { left: 0, .. } => {
                (self.state, self.since) = (State::Over, now);
                Ok(Event::End)
            }
            State::Body { left, heard } => {
                let Some(part) = body::next_part(input, left) else { return Event::NeedMore };
                *heard = now;
                self.received += part.len() as u64;
                return Event::Body(part);
            }
            State::Over => {
                *input = &[];
                Ok(Event::NeedMore)
            }
        };
        event.unwrap_or_else(|fault| {
            if let State::Head(bytes) = &self.state {
                self.seen = crate::looks_like(bytes);
            }
            self.state = State::Failed(fault);
            Event::Fault(fault)
        })
    }

    fn head<'a>(
        &mut self,
        input: &mut &'a [u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Event<'a>, Fault> {
        let State::Head(bytes) = &mut self.state else { return Ok(Event::NeedMore) };
        if input.is_empty() {
            return Ok(Event::NeedMore);
        }
        let before = bytes.len();
        if before == 0 {
            self.since = now;
        }
        bytes.extend_from_slice(input);
        let found = match self.gateway {
            Gateway::Uwsgi => uwsgi::look(bytes, &shared.limits)?,
            Gateway::Scgi => scgi::look(bytes, &shared.limits)?,
        };
        let Look::Complete(end, pairs) = found else {
            *input = &[];
            return Ok(Event::NeedMore);
        };
        *input = &input[end - before..];
        bytes.truncate(end);
        let bytes = std::mem::take(bytes);
        let (head, given) =
            variables::judge(bytes, &pairs, None, (self.variant, &mut Hint::default()), shared, now)?;
        self.given = Some(Arc::new(given));
        (self.used, self.received, self.since) = (true, 0, now);
        self.state = match head.framing {
            Framing::Length(left) if left > 0 => State::Body { left, heard: now },
            _ => State::Over,
        };
        Ok(Event::Request(Arc::clone(&head)))
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        match &self.state {
            State::Over => None,
            State::Head(bytes) if bytes.is_empty() => None,
            State::Failed(fault) => Some(*fault),
            State::Head(_) | State::Body { .. } => {
                self.state = State::Failed(fault::INCOMPLETE);
                Some(fault::INCOMPLETE)
            }
        }
    }

    /// When its patience ends; none: it waits for nothing.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        match &self.state {
            State::Head(bytes) if bytes.is_empty() => {
                Some(self.since.saturating_add(limits.first_byte_timeout))
            }
            State::Head(_) => Some(self.since.saturating_add(limits.header_timeout)),
            State::Body { heard, .. } => Some(body::patience(self.since, self.received, *heard, limits)),
            State::Over | State::Failed(_) => None,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        if self.deadline(limits).is_none_or(|at| now < at) {
            return Tick::Nothing;
        }
        let fault = match &self.state {
            State::Head(bytes) if bytes.is_empty() => return Tick::Close,
            State::Head(_) => fault::HEAD_TOO_SLOW,
            _ => body::too_late(self.since, self.received, now, limits),
        };
        self.state = State::Failed(fault);
        Tick::Fault(fault)
    }

    /// Nothing of a request has been received, or all of it.
    pub fn idle(&self) -> bool {
        match &self.state {
            State::Head(bytes) => bytes.is_empty(),
            State::Over => true,
            State::Body { .. } | State::Failed(_) => false,
        }
    }

    /// The reply is done; the connection ends with it.
    pub fn answered(&mut self, now: Millis) {
        self.since = now;
    }

    /// True once a request has begun.
    pub fn was_used(&self) -> bool {
        self.used
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        if let State::Body { heard, .. } = &mut self.state {
            *heard = heard.saturating_add(span);
            self.since = self.since.saturating_add(span);
        }
    }

    /// A body is arriving, and has not ended.
    pub fn awaits_body(&self) -> bool {
        matches!(self.state, State::Body { .. })
    }

    /// How much of the body is still to come.
    pub fn body_left(&self) -> BodyLeft {
        match &self.state {
            State::Body { left, .. } => BodyLeft::Length(*left),
            _ => BodyLeft::None,
        }
    }
}
