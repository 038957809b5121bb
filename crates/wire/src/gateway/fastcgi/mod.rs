//! FastCGI as a machine: the responder's side of one connection, one request at a time.
//!
//! Knows: which record may follow which (specification 1.0, §3, §5, §6). Does not know: which peers may say such things,
//! or what a reply is made of. Pure; time is an argument.
//!
//! ```text
//!   BETWEEN ─(BEGIN)─► PARAMS ─(empty PARAMS)─► READY ─(STDIN)─► BODY ─(empty STDIN)─► ANSWERING ─┐
//!      ▲                                          └──────(empty STDIN)──────────────────▲         │
//!      └─────────────────────────────── the reply is sent, FCGI_KEEP_CONN ────────────────────────┘
//! ```
//!
//! A body may have no length: its end is then the end of STDIN. Records of a second request are answered with
//! CANT_MPX_CONN and skipped, as nobody multiplexes; an ABORT_REQUEST ends what has begun. What comes while a request is
//! answered waits, but for that: [`FastCgi::aborts`] looks for it.

mod record;
mod reply;
mod times;

use std::sync::Arc;

use record::Record;

use super::{Given, Pair, variables};
use crate::Millis;
use crate::body;
use crate::fault::{self, Fault};
use crate::head::{Framing, Head};
use crate::head_cache::Hint;
use crate::http1::{Event, Shared};
use crate::limits::Limits;

pub use record::{Ended, end};
pub use reply::Records;

/// Where the request is.
enum State {
    Between,
    Params(Vec<u8>),
    /// All variables are there; whether there is a body, the first STDIN shows.
    Ready(Vec<u8>, Vec<Pair>),
    /// So much of it is left, if that was told.
    Body {
        left: Option<u64>,
        heard: Millis,
    },
    Answering,
    /// The connection is to end: what comes is nobody's.
    Over,
    Failed(Fault),
}

/// What is done with a record's content.
enum Content {
    Skip,
    /// It is held until it is complete.
    Hold(Record, Vec<u8>),
    Params,
    Stdin,
}

/// The machine of one connection.
pub struct FastCgi {
    state: State,
    id: u16,
    /// FCGI_KEEP_CONN of the request that is under way.
    keep: bool,
    /// What has arrived of a record's head, and how much that is.
    head: [u8; record::HEAD],
    arrived: usize,
    content: Content,
    left: u16,
    padding: u8,
    variant: u32,
    hint: Hint,
    since: Millis,
    received: u64,
    used: bool,
    given: Option<Arc<Given>>,
    output: Vec<u8>,
    /// What came in the place of a record looks like this.
    seen: &'static str,
}

impl FastCgi {
    pub fn new(variant: u32, now: Millis) -> Self {
        Self {
            state: State::Between,
            id: 0,
            keep: false,
            head: [0; record::HEAD],
            arrived: 0,
            content: Content::Skip,
            left: 0,
            padding: 0,
            variant,
            hint: Hint::default(),
            since: now,
            received: 0,
            used: false,
            given: None,
            output: Vec::new(),
            seen: "nothing",
        }
    }

    /// A connection that has had requests elsewhere: the next one may take the keep-alive time.
    pub fn kept(variant: u32, now: Millis) -> Self {
        Self { used: true, ..Self::new(variant, now) }
    }

    /// Takes it away, for as long as a body arrives that somebody else reads. What is left in its place takes nothing
    /// for a request, and still knows this one.
    pub fn take(&mut self, now: Millis) -> Self {
        let mut left = Self::new(self.variant, now);
        (left.state, left.used, left.given) = (State::Over, self.used, self.given.clone());
        (left.id, left.keep) = (self.id, self.keep);
        std::mem::replace(self, left)
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        self.variant
    }

    /// What the web server has said of the request beside its head; none before there is one.
    pub fn given(&self) -> Option<&Given> {
        self.given.as_deref()
    }

    /// How the reply to the request under way is framed.
    pub fn records(&self) -> Records {
        Records::new(self.id, self.keep)
    }

    /// What was expected here and what came instead look like, for a log line.
    pub fn expected_and_seen(&self) -> (&'static str, &'static str) {
        ("a FastCGI request", self.seen)
    }

    /// Records that are to be sent before anything else: answers to management records, and to requests that are not
    /// taken.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The connection is to end, and no request is under way.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// True where what has arrived behind the request under way gives that request up (§5.4). For a request whose reply
    /// is not complete: afterwards these bytes are of the next one.
    pub fn aborts(&self, mut ahead: &[u8]) -> bool {
        if !matches!(self.state, State::Answering) {
            return false;
        }
        let mut skip = usize::from(self.left) + usize::from(self.padding);
        loop {
            ahead = ahead.get(skip..).unwrap_or_default();
            let Some((head, _)) = ahead.split_first_chunk() else { return false };
            let record = Record::read(*head);
            if (record.kind, record.id) == (record::ABORT, self.id) {
                return true;
            }
            skip = record::HEAD + usize::from(record.content) + usize::from(record.padding);
        }
    }

    /// Consumes from the front of the input and says what it meant. After [`Event::NeedMore`] all of the input has
    /// been consumed. A body's bytes are borrowed from the caller's input.
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        if self.idle()
            && let Some(head) = self.again(input, shared, now)
        {
            return Event::Request(head);
        }
        let all = *input;
        loop {
            match self.step(input, shared, now) {
                Ok(Some(event)) => return event,
                Ok(None) => {}
                Err(fault) => {
                    if !matches!(self.state, State::Failed(_)) {
                        self.seen = crate::looks_like(all);
                    }
                    self.state = State::Failed(fault);
                    return Event::Fault(fault);
                }
            }
        }
    }

    /// The request that was met last, if it is what comes next and all of it is there: no record of it is opened.
    #[inline]
    fn again(&mut self, input: &mut &[u8], shared: &mut Shared, now: Millis) -> Option<Arc<Head>> {
        let (request, rest) = record::whole(input)?;
        let (head, given) = variables::again(request.params, self.variant, shared, now)?;
        *input = rest;
        (self.id, self.keep, self.state) = (request.id, request.keep, State::Answering);
        self.taken(given, now);
        Some(head)
    }

    /// A request has begun.
    fn taken(&mut self, given: Given, now: Millis) {
        self.given = Some(Arc::new(given));
        (self.used, self.received, self.since) = (true, 0, now);
    }

    /// One part of a record. None: there may be more in the input.
    fn step<'a>(
        &mut self,
        input: &mut &'a [u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Option<Event<'a>>, Fault> {
        match self.state {
            State::Failed(fault) => return Err(fault),
            State::Over => *input = &[],
            _ => {}
        }
        if input.is_empty() {
            return Ok(Some(Event::NeedMore));
        }
        if self.left > 0 {
            return self.read_content(input, shared, now);
        }
        if self.padding > 0 {
            let size = usize::from(self.padding).min(input.len());
            *input = &input[size..];
            self.padding -= size as u8;
            return Ok(None);
        }
        if self.arrived == 0 {
            // The first byte is the version, and says most surely that something else speaks.
            if input[0] != 1 {
                return Err(fault::GATEWAY_FORMAT);
            }
            if matches!(self.state, State::Between) {
                self.since = now;
            }
        }
        let size = (record::HEAD - self.arrived).min(input.len());
        self.head[self.arrived..self.arrived + size].copy_from_slice(&input[..size]);
        *input = &input[size..];
        self.arrived = (self.arrived + size) % record::HEAD;
        if self.arrived > 0 {
            return Ok(Some(Event::NeedMore));
        }
        self.open(Record::read(self.head), shared, now)
    }

    fn at_the_end_of_a_record(&self) -> bool {
        self.left == 0 && self.padding == 0
    }

    /// A record begins.
    fn open<'a>(
        &mut self,
        record: Record,
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Option<Event<'a>>, Fault> {
        (self.left, self.padding, self.content) = (record.content, record.padding, Content::Skip);
        let active = !matches!(self.state, State::Between) && record.id == self.id;
        match record.kind {
            record::GET_VALUES if record.id == 0 => self.hold(record, &shared.limits),
            record::BEGIN if record.id != 0 && record.content == 8 => self.hold(record, &shared.limits),
            // A management record that is not known is answered so, whatever it holds.
            kind if record.id == 0 && kind > record::UNKNOWN_TYPE => {
                record::unknown_type(kind, &mut self.output);
                self.bounded_output(&shared.limits)
            }
            record::ABORT if active => self.abort(),
            record::PARAMS if active => self.open_params(record, &shared.limits),
            record::STDIN if active => self.open_stdin(record, shared, now),
            // Those of a request that was not taken, or has been answered.
            record::ABORT | record::PARAMS | record::STDIN | record::DATA if record.id != 0 => Ok(None),
            _ => Err(fault::GATEWAY_FORMAT),
        }
    }

    fn hold<'a>(&mut self, record: Record, limits: &Limits) -> Result<Option<Event<'a>>, Fault> {
        self.content = Content::Hold(record, Vec::new());
        if record.content == 0 { self.held(record, &[], limits) } else { Ok(None) }
    }

    /// What is to be answered while nobody sends it must not grow without end.
    fn bounded_output<'a>(&self, limits: &Limits) -> Result<Option<Event<'a>>, Fault> {
        if self.output.len() as u64 > limits.header_bytes { Err(fault::HEADERS_TOO_LARGE) } else { Ok(None) }
    }

    fn open_params<'a>(&mut self, record: Record, limits: &Limits) -> Result<Option<Event<'a>>, Fault> {
        let State::Params(bytes) = &mut self.state else { return Err(fault::GATEWAY_FORMAT) };
        if bytes.len() as u64 + u64::from(record.content) > limits.header_bytes {
            return Err(fault::HEADERS_TOO_LARGE);
        }
        if record.content > 0 {
            bytes.reserve_exact(usize::from(record.content));
            self.content = Content::Params;
            return Ok(None);
        }
        let bytes = std::mem::take(bytes);
        let pairs = record::pairs(&bytes)?;
        self.state = State::Ready(bytes, pairs);
        Ok(None)
    }

    fn open_stdin<'a>(
        &mut self,
        record: Record,
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Option<Event<'a>>, Fault> {
        self.content = Content::Stdin;
        match &mut self.state {
            State::Ready(..) => {
                self.begin(record.content > 0, shared, now).map(|head| Some(Event::Request(head)))
            }
            State::Body { left, .. } if record.content == 0 => {
                if left.is_some_and(|left| left > 0) {
                    return Err(fault::INCOMPLETE);
                }
                self.state = State::Answering;
                Ok(Some(Event::End))
            }
            State::Body { left: Some(left), .. } if u64::from(record.content) > *left => {
                Err(fault::GATEWAY_FORMAT)
            }
            State::Body { left: None, .. }
                if self.received + u64::from(record.content) > shared.limits.body_bytes =>
            {
                Err(fault::BODY_TOO_LARGE)
            }
            State::Body { .. } => Ok(None),
            _ => Err(fault::GATEWAY_FORMAT),
        }
    }

    /// All that comes before a body is there.
    fn begin(&mut self, has_body: bool, shared: &mut Shared, now: Millis) -> Result<Arc<Head>, Fault> {
        let (bytes, pairs) = match std::mem::replace(&mut self.state, State::Answering) {
            State::Ready(bytes, pairs) => (bytes, pairs),
            _ => return Err(fault::GATEWAY_FORMAT),
        };
        let cache = (self.variant, &mut self.hint);
        let (head, given) = variables::judge(bytes, &pairs, Some(has_body), cache, shared, now)?;
        let left = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::None | Framing::Chunked => None,
        };
        match (has_body, left) {
            // A body that was announced and does not come, or comes and was announced as none.
            (false, Some(1..)) => return Err(shared.refuse_whole(head, fault::INCOMPLETE)),
            (true, Some(0)) => return Err(shared.refuse_whole(head, fault::GATEWAY_FORMAT)),
            (true, Some(left)) if u64::from(self.left) > left => {
                return Err(shared.refuse_whole(head, fault::GATEWAY_FORMAT));
            }
            (true, None) if u64::from(self.left) > shared.limits.body_bytes => {
                return Err(shared.refuse_whole(head, fault::BODY_TOO_LARGE));
            }
            (true, left) => self.state = State::Body { left, heard: now },
            (false, _) => {}
        }
        self.taken(given, now);
        Ok(head)
    }

    fn read_content<'a>(
        &mut self,
        input: &mut &'a [u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Option<Event<'a>>, Fault> {
        let mut left = u64::from(self.left);
        let Some(part) = body::next_part(input, &mut left) else { return Ok(Some(Event::NeedMore)) };
        self.left = left as u16;
        match (&mut self.content, &mut self.state) {
            (Content::Params, State::Params(bytes)) => bytes.extend_from_slice(part),
            (Content::Stdin, State::Body { left, heard }) => {
                *heard = now;
                *left = left.map(|left| left - part.len() as u64);
                self.received += part.len() as u64;
                return Ok(Some(Event::Body(part)));
            }
            (Content::Hold(record, held), _) => {
                let record = *record;
                if u64::from(record.content) > shared.limits.header_bytes {
                    return Err(fault::HEADERS_TOO_LARGE);
                }
                if part.len() == usize::from(record.content) {
                    return self.held(record, part, &shared.limits);
                }
                held.extend_from_slice(part);
                if self.left == 0 {
                    let held = std::mem::take(held);
                    return self.held(record, &held, &shared.limits);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// A record that had to be complete is.
    fn held<'a>(
        &mut self,
        record: Record,
        content: &[u8],
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Fault> {
        if record.kind == record::GET_VALUES {
            record::values(content, limits.connections, &mut self.output)?;
            return self.bounded_output(limits);
        }
        let (role, keep) = (u16::from_be_bytes([content[0], content[1]]), content[2] & 1 != 0);
        match self.state {
            State::Between if role == 1 => {
                (self.id, self.keep, self.state) = (record.id, keep, State::Params(Vec::new()));
            }
            // Authorizers and filters are other programs.
            State::Between => {
                record::end(record.id, Ended::UnknownRole, &mut self.output);
                if !keep {
                    self.state = State::Over;
                }
            }
            _ if record.id == self.id => return Err(fault::GATEWAY_FORMAT),
            _ => record::end(record.id, Ended::CannotMultiplex, &mut self.output),
        }
        self.bounded_output(limits)
    }

    /// The web server gives the request up: its client has left.
    fn abort<'a>(&mut self) -> Result<Option<Event<'a>>, Fault> {
        match self.state {
            State::Params(_) | State::Ready(..) => {
                record::end(self.id, Ended::Complete, &mut self.output);
                self.go_on();
                Ok(None)
            }
            _ => Err(fault::GATEWAY_ABORTED),
        }
    }

    /// A request is over.
    fn go_on(&mut self) {
        self.state = if self.keep { State::Between } else { State::Over };
        (self.id, self.given) = (0, None);
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        match &self.state {
            State::Failed(fault) => Some(*fault),
            State::Answering | State::Over => None,
            State::Between if self.arrived == 0 && self.at_the_end_of_a_record() => None,
            _ => {
                self.state = State::Failed(fault::INCOMPLETE);
                Some(fault::INCOMPLETE)
            }
        }
    }
}
