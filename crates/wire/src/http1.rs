//! HTTP/1.0 and 1.1 requests as a machine: bytes in, events out (RFC 9112).
//!
//! Knows: one connection's place in the protocol, and how long it may stay there. Does not
//! know: sockets or clocks; time is an argument. Used by whoever owns the connection.
//!
//! ```text
//!   HEAD ──(no body)──► HEAD            any ──(fault)──► FAILED, for good
//!     ├──(length)──► LENGTH ──► HEAD
//!     └──(chunked)─► CHUNKED ─► HEAD
//! ```

mod scan;

use std::sync::Arc;

use scan::Scan;

use crate::Millis;
use crate::block::Block;
use crate::body;
use crate::chunked::{Chunk, Chunked};
use crate::fault::{self, Fault};
use crate::fields;
use crate::head::{Framing, Head};
use crate::head_cache::{HeadCache, Hint};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::request_line::{self, Version};
use crate::trust::Trust;

/// What the machines of one loop share.
pub struct Shared {
    pub heads: HeadCache,
    pub limits: Limits,
    pub policy: Policy,
    /// Whose forwarding headers are believed: a web server's variables may name another peer for each request.
    pub trust: Trust,
    /// Room in which a web server's variables become the text of a head.
    text: Vec<u8>,
    /// The request that a machine has just refused, until whoever answers asks for it.
    refused: Option<Arc<Head>>,
}

/// Room that is kept from one request to the next: as much as most heads need.
const MOST_TEXT: usize = 4096;

impl Shared {
    /// Where nobody's forwarding headers are believed.
    pub fn new(limits: Limits, policy: Policy) -> Self {
        Self {
            heads: HeadCache::new(&limits),
            limits,
            policy,
            trust: Trust::none(),
            text: Vec::new(),
            refused: None,
        }
    }

    /// The same where those of `trust` are.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// The request of the fault that a machine has just told of, for the log: as far as it was understood. None where
    /// nothing of it is a request line, or where [`Event::Request`] was told of it before.
    pub fn take_refused(&mut self) -> Option<Arc<Head>> {
        self.refused.take()
    }

    /// A request that is refused is told of already.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Remembers a request that is refused; the fault again. A line that is too long is nothing to tell of.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        line: &[u8],
        version: Option<Version>,
        (fault, block): (Fault, Arc<Block>),
    ) -> Fault {
        let longest = self.limits.request_line_bytes.saturating_add(2);
        self.refused = match line.len() as u64 <= longest {
            true => Head::refused(line, version, block, &self.policy).map(Arc::new),
            false => None,
        };
        fault
    }

    /// The same of one that is whole; the fault again.
    #[cold]
    pub(crate) fn refuse_whole(&mut self, head: Arc<Head>, fault: Fault) -> Fault {
        self.refused = Some(head);
        fault
    }

    /// Room for the text of a head, empty, until it is given back.
    pub(crate) fn lend_text(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// Takes it back.
    pub(crate) fn give_text(&mut self, mut text: Vec<u8>) {
        if text.capacity() <= MOST_TEXT {
            text.clear();
            self.text = text;
        }
    }
}

/// What the input meant.
pub enum Event<'a> {
    /// All of it was consumed.
    NeedMore,
    /// A request begins; its body follows unless its framing says that there is none.
    Request(Arc<Head>),
    /// Part of the body.
    Body(&'a [u8]),
    /// The body is complete, its trailers are judged.
    End,
    /// The message cannot be taken; nothing more will be.
    Fault(Fault),
}

/// What the passing of time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    Nothing,
    /// Nothing was said for too long: close without a word.
    Close,
    Fault(Fault),
}

/// How much of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLeft {
    None,
    Length(u64),
    Unknown,
}

enum State {
    Head(Option<Box<Partial>>),
    /// `heard`: when something of the body arrived last.
    Length {
        left: u64,
        heard: Millis,
    },
    Chunked {
        chunked: Box<Chunked>,
        heard: Millis,
    },
    Failed(Fault),
}

/// A head that has not arrived as a whole.
#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    scan: Scan,
}

/// Keeps the line of a head that is refused before it is whole. What follows the first line of another protocol is left
/// to whoever speaks that: `end` is where that is in the input.
#[cold]
fn stop(
    fault: Fault,
    (line, variant): (Option<&[u8]>, u32),
    (input, end): (&mut &[u8], usize),
    shared: &mut Shared,
) -> Fault {
    if fault == fault::PRIOR_KNOWLEDGE {
        *input = &input[end.min(input.len())..];
    } else if let Some(line) = line {
        shared.refuse(line, None, (fault, Arc::new(Block::without_fields(variant))));
    }
    fault
}

/// The machine of one connection.
pub struct Http1 {
    state: State,
    variant: u32,
    hint: Hint,
    /// Since when it waits for what it waits for now.
    since: Millis,
    /// Bytes of the body so far, for its rate.
    received: u64,
    /// It has had a request: the next one may take the keep-alive time.
    used: bool,
}

impl Http1 {
    pub fn new(variant: u32, now: Millis) -> Self {
        Self {
            state: State::Head(None),
            variant,
            hint: Hint::default(),
            since: now,
            received: 0,
            used: false,
        }
    }

    /// A connection that has had requests elsewhere: the next one may take the keep-alive time.
    pub fn kept(variant: u32, now: Millis) -> Self {
        Self { used: true, ..Self::new(variant, now) }
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        self.variant
    }

    /// True once a request has begun here, or elsewhere before.
    pub fn was_used(&self) -> bool {
        self.used
    }

    /// Consumes from the front of the input and says what it meant. After
    /// [`Event::NeedMore`] all of the input has been consumed, after [`fault::PRIOR_KNOWLEDGE`] the line that shows it. A
    /// body's bytes are borrowed from the caller's input, never from inside.
    #[inline]
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        if let State::Head(None) = self.state
            && let Some(head) = shared.heads.front(&mut self.hint, self.variant, input, now)
        {
            *input = &input[head.raw_len()..];
            return self.begin(head, now);
        }
        match self.step(input, shared, now) {
            Ok(event) => event,
            Err(fault) => {
                self.state = State::Failed(fault);
                Event::Fault(fault)
            }
        }
    }

    fn step<'a>(
        &mut self,
        input: &mut &'a [u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Event<'a>, Fault> {
        match &mut self.state {
            State::Failed(fault) => Err(*fault),
            State::Head(_) => {
                if input.is_empty() {
                    return Ok(Event::NeedMore);
                }
                match self.head(input, shared, now)? {
                    Some(head) => Ok(self.begin(head, now)),
                    None => Ok(Event::NeedMore),
                }
            }
            State::Length { left: 0, .. } => Ok(self.end(now)),
            State::Length { left, heard } => {
                let Some(part) = body::next_part(input, left) else { return Ok(Event::NeedMore) };
                *heard = now;
                self.received += part.len() as u64;
                Ok(Event::Body(part))
            }
            State::Chunked { chunked, heard } => {
                if !input.is_empty() {
                    *heard = now;
                }
                match chunked.advance(input, (&shared.limits, &shared.policy))? {
                    Chunk::NeedMore => Ok(Event::NeedMore),
                    Chunk::End => Ok(self.end(now)),
                    Chunk::Data(data) => {
                        self.received += data.len() as u64;
                        Ok(Event::Body(data))
                    }
                }
            }
        }
    }

    #[inline]
    fn begin<'a>(&mut self, head: Arc<Head>, now: Millis) -> Event<'a> {
        self.used = true;
        self.received = 0;
        self.since = now;
        self.state = match head.framing {
            Framing::None | Framing::Length(0) => State::Head(None),
            Framing::Length(left) => State::Length { left, heard: now },
            Framing::Chunked => State::Chunked { chunked: Box::default(), heard: now },
        };
        Event::Request(head)
    }

    fn end<'a>(&mut self, now: Millis) -> Event<'a> {
        self.state = State::Head(None);
        self.since = now;
        Event::End
    }

    /// Reads a head, from the input alone where it is all there.
    fn head(
        &mut self,
        input: &mut &[u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Option<Arc<Head>>, Fault> {
        let State::Head(partial) = &mut self.state else { return Ok(None) };
        let Some(partial) = partial else {
            if let Some(head) = self.beside_known_block(input, shared, now) {
                *input = &input[head.raw_len()..];
                return Ok(Some(head));
            }
            let mut scan = Scan::default();
            let found = scan.look(input, (&shared.limits, &shared.policy));
            let stopped = |fault| {
                let line = scan.line(input);
                stop(fault, (line, self.variant), (input, scan.at), shared)
            };
            if let Some(end) = found.map_err(stopped)? {
                let whole = &input[scan.start..end];
                *input = &input[end..];
                return self.parse(whole, scan.block.unwrap_or(end) - scan.start, shared, now).map(Some);
            }
            self.since = now;
            self.state = State::Head(Some(Box::new(Partial { bytes: input.to_vec(), scan })));
            *input = &[];
            return Ok(None);
        };
        let before = partial.bytes.len();
        partial.bytes.extend_from_slice(input);
        let found = partial.scan.look(&partial.bytes, (&shared.limits, &shared.policy));
        let stopped = |fault| {
            let line = partial.scan.line(&partial.bytes);
            let end = partial.scan.at.saturating_sub(before);
            stop(fault, (line, self.variant), (input, end), shared)
        };
        let Some(end) = found.map_err(stopped)? else {
            *input = &[];
            return Ok(None);
        };
        *input = &input[end - before..];
        let partial = std::mem::take(&mut **partial);
        self.state = State::Head(None);
        let start = partial.scan.start;
        let line_length = partial.scan.block.unwrap_or(end) - start;
        self.parse(&partial.bytes[start..end], line_length, shared, now).map(Some)
    }

    /// A request of another path by a client that was met: only its line is read. None for
    /// whatever is not plainly so; then all of it is read, and refused where it must be.
    fn beside_known_block(&mut self, input: &[u8], shared: &mut Shared, now: Millis) -> Option<Arc<Head>> {
        let end = memchr::memchr(b'\n', input)? + 1;
        let (line, rest) = input.split_at(end);
        let text = line.strip_suffix(b"\r\n")?;
        let block = shared.heads.front_block(&mut self.hint, self.variant, rest, now)?;
        if text.len() as u64 > shared.limits.request_line_bytes {
            return None;
        }
        self.join(line, text, block, shared, now).ok()
    }

    /// A line, also without its ending, and a block.
    fn join(
        &mut self,
        line: &[u8],
        text: &[u8],
        block: Arc<Block>,
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Arc<Head>, Fault> {
        if let Some(head) = shared.heads.head(&mut self.hint, line, &block, now) {
            return Ok(head);
        }
        let parts = request_line::parse(text, &shared.policy)?;
        let joined = Head::join(line, parts, block, (&shared.limits, &shared.policy));
        let head = Arc::new(joined.map_err(|refused| shared.refuse(line, None, refused))?);
        shared.heads.keep(&mut self.hint, &head, now);
        Ok(head)
    }

    /// A complete head: its line has so many bytes, the rest is the block.
    fn parse(
        &mut self,
        whole: &[u8],
        line: usize,
        shared: &mut Shared,
        now: Millis,
    ) -> Result<Arc<Head>, Fault> {
        let (line, raw) = whole.split_at(line);
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let block = match shared.heads.block(&mut self.hint, self.variant, raw, now) {
            Some(block) => block,
            None => fields::parse(raw, self.variant, &shared.policy).map_err(|fault| {
                shared.refuse(line, None, (fault, Arc::new(Block::without_fields(self.variant))))
            })?,
        };
        self.join(line, text, block, shared, now)
    }

    /// The peer has ended. A fault if that was in the middle of a message.
    pub fn eof(&mut self) -> Option<Fault> {
        match &self.state {
            State::Head(None) => None,
            State::Failed(fault) => Some(*fault),
            // Empty lines alone are no message (RFC 9112 §2.2).
            State::Head(Some(partial)) if partial.bytes.iter().all(|byte| b"\r\n".contains(byte)) => None,
            _ => {
                self.state = State::Failed(fault::INCOMPLETE);
                Some(fault::INCOMPLETE)
            }
        }
    }

    /// When its patience ends.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        let patience = match self.state {
            State::Head(Some(_)) => limits.header_timeout,
            State::Head(None) if self.used => limits.keep_alive_timeout,
            State::Head(None) => limits.first_byte_timeout,
            State::Length { heard, .. } | State::Chunked { heard, .. } => {
                let silent = heard.saturating_add(limits.body_idle_timeout);
                return Some(silent.min(self.rate_deadline(limits)));
            }
            State::Failed(_) => return None,
        };
        Some(self.since.saturating_add(patience))
    }

    /// How long the body may go on, by what has come of it so far and the rate that is asked for.
    fn rate_deadline(&self, limits: &Limits) -> Millis {
        body::rate_deadline(self.since, self.received, limits)
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        if let State::Length { heard, .. } | State::Chunked { heard, .. } = &mut self.state {
            *heard = heard.saturating_add(span);
            self.since = self.since.saturating_add(span);
        }
    }

    /// The request of which a part of the head is still to come, for whoever refuses it.
    #[cold]
    pub fn arriving(&self, policy: &Policy) -> Option<Arc<Head>> {
        let State::Head(Some(partial)) = &self.state else { return None };
        let line = partial.scan.line(&partial.bytes)?;
        let block = Arc::new(Block::without_fields(self.variant));
        Head::refused(line, None, block, policy).map(Arc::new)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        if self.deadline(limits).is_none_or(|at| now < at) {
            return Tick::Nothing;
        }
        let fault = match &self.state {
            State::Head(None) => return Tick::Close,
            State::Head(Some(_)) => fault::HEAD_TOO_SLOW,
            _ if now >= self.rate_deadline(limits) => fault::BODY_TOO_SLOW,
            _ => fault::BODY_STALLED,
        };
        self.state = State::Failed(fault);
        Tick::Fault(fault)
    }

    /// Between messages, with nothing of the next received.
    #[inline]
    pub fn idle(&self) -> bool {
        matches!(self.state, State::Head(None))
    }

    /// The reply is done: the keep-alive time begins.
    #[inline]
    pub fn answered(&mut self, now: Millis) {
        if self.idle() {
            self.since = now;
        }
    }

    /// How much of the body is still to come.
    pub fn body_left(&self) -> BodyLeft {
        match &self.state {
            State::Length { left, .. } => BodyLeft::Length(*left),
            State::Chunked { .. } => BodyLeft::Unknown,
            State::Head(_) | State::Failed(_) => BodyLeft::None,
        }
    }
}
