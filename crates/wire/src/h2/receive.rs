//! What a client sends, frame by frame: bytes in, events out (RFC 9113 §4 to §6).
//!
//! Knows: one connection's place in a frame, its streams, and what it owes the peer of frames that no stream sends
//! (acknowledgements, resets, windows, GOAWAY), which it keeps until they are taken ([`Receive::take_output`]). Does not
//! know: replies, which `send.rs` frames, or who answers. Used by whoever owns the connection; time is an argument.
//!
//! ```text
//!   PREFACE ──► HEAD ──► PAYLOAD ──► HEAD      any ──(connection error)──► FAILED, for good: GOAWAY is in the output
//!                │ └───► DATA ─────► HEAD
//!                └─────► SKIP ─────► HEAD
//! ```
//!
//! A body's bytes are borrowed from the input and never kept here; other frames are gathered where they are not whole.

mod accounts;
mod clock;
mod control;
mod data;
mod headers;

use super::PREFACE;
use super::budget::Budget;
use super::event::{Event, Request};
use super::fault::{self, Wrong};
use super::frame::{self, Frame, HEAD, Kind};
use super::request::Asked;
use super::settings::{self, FIRST_WINDOW};
use super::streams::Streams;
use super::windows::Window;
use crate::Millis;
use crate::head_cache::Hint;
use crate::hpack::Decoder;
use crate::http1::Shared;

/// Where it is in the bytes.
enum State {
    /// So many bytes of the preface have come.
    Preface(usize),
    Head {
        bytes: [u8; HEAD],
        have: usize,
    },
    Payload {
        frame: Frame,
        bytes: Vec<u8>,
    },
    /// A frame of content, whose head was judged. `dropped`: nobody wants it.
    Data(data::Part),
    Skip(u32),
    Failed(Wrong),
}

impl State {
    const HEAD: Self = Self::Head { bytes: [0; HEAD], have: 0 };

    fn skip(length: u32) -> Self {
        if length > 0 { Self::Skip(length) } else { Self::HEAD }
    }

    /// Without more bytes nothing happens.
    fn needs_bytes(&self) -> bool {
        match self {
            Self::Failed(_) => false,
            Self::Payload { frame, bytes } => bytes.len() < frame.length as usize,
            _ => true,
        }
    }
}

/// How far a graceful end has come (§6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parting {
    No,
    /// It was announced.
    Announced(Millis),
    /// Streams above this are not answered.
    Last(u32),
}

/// How far the beginning has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handshake {
    /// Nothing has come.
    Silent,
    /// The preface and the first SETTINGS have not come whole.
    Begun,
    /// Our settings are not acknowledged; since when the peer's are known.
    Unacknowledged(Millis),
    Done,
}

/// The receiving half of one connection.
pub struct Receive {
    state: State,
    block: Option<Box<headers::Block>>,
    decoder: Decoder,
    /// The last block that left the table as it was, and what it asked: most clients repeat themselves.
    repeated: Option<Box<headers::Repeated>>,
    streams: Streams,
    window: Window,
    /// What the windows of live streams have beyond what all begin with.
    grown: u64,
    /// When content came last, on whichever stream.
    heard: Millis,
    budget: Budget,
    output: Vec<u8>,
    variant: u32,
    hint: Hint,
    connect: bool,
    handshake: Handshake,
    parting: Parting,
    /// Since when it waits for the beginning, or for a request.
    since: Millis,
    /// Since when a frame or a block is not whole.
    partial_since: Option<Millis>,
}

/// Whether a step has an event, or the next one is to be tried.
type Step<'a> = Result<Option<Event<'a>>, Wrong>;

impl Receive {
    /// At the beginning of a connection. `variant`: which heads of the cache are its own. `connect`: the application
    /// speaks WebSocket, so that streams may (RFC 8441). Our settings are in the output at once.
    pub fn new(variant: u32, connect: bool, shared: &Shared, now: Millis) -> Self {
        let limits = &shared.limits;
        let mut output = Vec::with_capacity(64);
        settings::write_ours(limits, connect, &mut output);
        let window = settings::connection_window(limits);
        if let Ok(more @ 1..) = u32::try_from(window - u64::from(FIRST_WINDOW)) {
            frame::window_update(0, more, &mut output);
        }
        Self {
            state: State::Preface(0),
            block: None,
            decoder: Decoder::default(),
            repeated: None,
            streams: Streams::default(),
            window: Window::new(window, now),
            grown: 0,
            heard: now,
            budget: Budget::new(now),
            output,
            variant,
            hint: Hint::default(),
            connect,
            handshake: Handshake::Silent,
            parting: Parting::No,
            since: now,
            partial_since: None,
        }
    }

    /// Consumes from the front of the input and says what it meant. After [`Event::NeedMore`] and [`Event::Fault`] all
    /// of it has been consumed. Events that are for the sending half are told to it before the next call.
    pub fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        loop {
            match self.step(input, shared, now) {
                Ok(Some(event)) => return event,
                Ok(None) => {}
                Err(wrong) => {
                    *input = &[];
                    return self.fail(wrong);
                }
            }
        }
    }

    fn step<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Step<'a> {
        if let State::Data(part) = self.state {
            return self.content(part, input, shared, now);
        }
        if input.is_empty() && self.state.needs_bytes() {
            return Ok(Some(Event::NeedMore));
        }
        match &mut self.state {
            State::Failed(wrong) => Err(*wrong),
            State::Preface(_) => self.preface(input, now),
            State::Head { bytes, have } => {
                self.partial_since.get_or_insert(now);
                let length = input.len().min(HEAD - *have);
                let (part, rest) = input.split_at(length);
                bytes[*have..*have + length].copy_from_slice(part);
                *input = rest;
                *have += length;
                if *have < HEAD {
                    return Ok(Some(Event::NeedMore));
                }
                let frame = Frame::read(bytes);
                self.state = State::HEAD;
                let begun = self.begin(frame, shared, now);
                self.note_whole();
                begun
            }
            State::Skip(left) => {
                let length = input.len().min(*left as usize);
                *input = &input[length..];
                *left -= length as u32;
                if *left == 0 {
                    self.state = State::HEAD;
                    self.note_whole();
                }
                Ok(None)
            }
            State::Payload { .. } => {
                let event = self.payload(input, shared, now);
                self.note_whole();
                event
            }
            State::Data(_) => Ok(None),
        }
    }

    /// §3.4.
    fn preface<'a>(&mut self, input: &mut &'a [u8], now: Millis) -> Step<'a> {
        let State::Preface(have) = &mut self.state else { return Ok(None) };
        let length = input.len().min(PREFACE.len() - *have);
        let (part, rest) = input.split_at(length);
        if part != &PREFACE[*have..*have + length] {
            return Err(fault::PREFACE);
        }
        *input = rest;
        *have += length;
        if *have == PREFACE.len() {
            self.state = State::HEAD;
        }
        if self.handshake == Handshake::Silent {
            (self.handshake, self.since) = (Handshake::Begun, now);
        }
        Ok(None)
    }

    /// More of a frame that is taken whole. Where all of it is in the input, as it mostly is, nothing is copied.
    fn payload<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Step<'a> {
        let State::Payload { frame, bytes } = &mut self.state else { return Ok(None) };
        let (frame, length) = (*frame, frame.length as usize);
        let (part, rest) = input.split_at(input.len().min(length - bytes.len()));
        *input = rest;
        if part.len() == length {
            self.state = State::HEAD;
            return self.frame(frame, part, shared, now);
        }
        bytes.extend_from_slice(part);
        if bytes.len() < length {
            return Ok(Some(Event::NeedMore));
        }
        let bytes = std::mem::take(bytes);
        self.state = State::HEAD;
        self.frame(frame, &bytes, shared, now)
    }

    /// A frame is whole where its head comes next: then nothing is waited for, unless a block goes on.
    fn note_whole(&mut self) {
        if matches!(self.state, State::Head { have: 0, .. } | State::Data(_)) && self.block.is_none() {
            self.partial_since = None;
        }
    }

    /// Judges a head: what no payload can make right (§4.1 and the first lines of each kind).
    fn begin<'a>(&mut self, frame: Frame, shared: &Shared, now: Millis) -> Step<'a> {
        if frame.length > settings::frame_size(&shared.limits) {
            return Err(fault::FRAME_SIZE);
        }
        if self.handshake == Handshake::Begun && (frame.kind != Kind::Settings || frame.has(frame::ACK)) {
            // §3.4.
            return Err(fault::FIRST_FRAME);
        }
        match &self.block {
            Some(block) if frame.kind != Kind::Continuation || frame.stream != block.stream => {
                return Err(fault::EXPECTED_CONTINUATION);
            }
            None if frame.kind == Kind::Continuation => return Err(fault::CONTINUATION),
            _ => {}
        }
        let (on_stream, length) = match frame.kind {
            Kind::Data | Kind::Headers | Kind::Continuation => (true, None),
            Kind::Priority => (true, Some(5)),
            Kind::ResetStream => (true, Some(4)),
            Kind::Settings => (false, frame.has(frame::ACK).then_some(0)),
            Kind::Ping => (false, Some(8)),
            Kind::Goaway | Kind::PriorityUpdate => (false, None),
            Kind::WindowUpdate => (frame.stream > 0, Some(4)),
            Kind::PushPromise => return Err(fault::PUSH),
            Kind::Unknown => {
                self.glitch(now, &shared.limits)?;
                self.state = State::skip(frame.length);
                return Ok(None);
            }
        };
        if on_stream != (frame.stream > 0) {
            return Err(fault::FRAME_STREAM);
        }
        let least = match frame.kind {
            Kind::Goaway => 8,
            Kind::PriorityUpdate => 4,
            _ => 0,
        };
        let is_sized = frame.kind != Kind::Settings || frame.length.is_multiple_of(6);
        if length.is_some_and(|length| length != frame.length) || frame.length < least || !is_sized {
            return Err(fault::FRAME_SIZE);
        }
        match frame.kind {
            Kind::Data => self.data(frame, shared, now),
            // §6.2: a stream that can have no such frame need not be decoded.
            Kind::Headers if frame.stream.is_multiple_of(2) => Err(fault::STREAM_NUMBER),
            _ => {
                self.state = State::Payload { frame, bytes: Vec::new() };
                Ok(None)
            }
        }
    }

    fn frame<'a>(&mut self, frame: Frame, payload: &[u8], shared: &mut Shared, now: Millis) -> Step<'a> {
        match frame.kind {
            Kind::Headers => self.headers(frame, payload, shared, now),
            Kind::Continuation => self.continuation(frame, payload, shared, now),
            _ => self.control(frame, payload, shared, now),
        }
    }

    /// The connection is over: the peer is told once.
    fn fail<'a>(&mut self, wrong: Wrong) -> Event<'a> {
        if !matches!(self.state, State::Failed(_)) {
            frame::goaway(self.streams.last(), &wrong, &mut self.output);
            self.state = State::Failed(wrong);
            (self.block, self.repeated, self.partial_since) = (None, None, None);
        }
        Event::Fault(wrong)
    }
}

/// A request of a block, on its stream.
fn request(stream: u32, asked: Asked, end: bool) -> Box<Request> {
    let Asked { head, scheme, protocol, priority } = asked;
    Box::new(Request { stream, head, scheme, protocol, priority, end })
}
