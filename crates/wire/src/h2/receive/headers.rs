//! Header blocks: HEADERS and CONTINUATION into requests and trailers (RFC 9113 §4.3, §6.2, §6.10, §8.1).
//!
//! A block is decoded whatever becomes of its stream, as the tables of both sides have to stay the same; what a stream
//! that is not answered says is not kept.

use super::{Parting, Receive, Step, request};
use crate::Millis;
use crate::fault as answer;
use crate::h2::event::Event;
use crate::h2::fault::{self, Wrong};
use crate::h2::frame::{self, Frame};
use crate::h2::request::{self, Asked, Refusal};
use crate::h2::settings;
use crate::h2::streams::{Found, State as StreamState, Stream};
use crate::h2::windows::Window;
use crate::head::Framing;
use crate::hpack::List;
use crate::http1::Shared;

/// Larger blocks are rarely repeated.
const REPEATED_BYTES: usize = 1024;

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Request,
    Trailers,
    /// Its stream is gone: it is decoded and forgotten.
    Nothing,
    /// The same, and the stream is reset.
    Reset(Wrong),
}

/// A block that has not come whole.
pub(super) struct Block {
    pub(super) stream: u32,
    purpose: Purpose,
    end: bool,
    bytes: Vec<u8>,
    continuations: u64,
}

impl Block {
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A block that changed nothing in the table, and what it asked. As long as nothing changes there, it asks the same.
pub(super) struct Repeated {
    bytes: Box<[u8]>,
    changes: u64,
    end: bool,
    asked: Asked,
}

impl Repeated {
    pub(super) fn held(&self) -> usize {
        self.bytes.len() + self.asked.head.raw_len()
    }
}

impl Receive {
    pub(super) fn headers<'a>(
        &mut self,
        frame: Frame,
        payload: &[u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Step<'a> {
        let mut fragment = payload;
        if frame.has(frame::PADDED) {
            fragment = frame::unpadded(payload).ok_or(fault::PADDING)?;
        }
        let mut depends_on = 0;
        if frame.has(frame::PRIORITY) {
            // RFC 9113 §5.3.2: the old priorities mean nothing, but are still there.
            let Some((first, rest)) = fragment.split_first_chunk::<5>() else {
                return Err(fault::FRAME_SIZE);
            };
            let [a, b, c, d, _] = *first;
            (depends_on, fragment) = (frame::number(&[a, b, c, d]), rest);
        }
        let end = frame.has(frame::END_STREAM);
        let mut purpose = self.purpose(frame.stream, end, shared)?;
        if depends_on == frame.stream && purpose == Purpose::Request {
            purpose = Purpose::Reset(fault::SELF_DEPENDENCY);
        }
        let mut block = Block { stream: frame.stream, purpose, end, bytes: Vec::new(), continuations: 0 };
        if frame.has(frame::END_HEADERS) {
            return self.block(&block, fragment, shared, now);
        }
        block.bytes.extend_from_slice(fragment);
        judge_length(&block, shared)?;
        self.block = Some(Box::new(block));
        Ok(None)
    }

    pub(super) fn continuation<'a>(
        &mut self,
        frame: Frame,
        payload: &[u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Step<'a> {
        let Some(mut block) = self.block.take() else { return Err(fault::CONTINUATION) };
        block.continuations += 1;
        block.bytes.extend_from_slice(payload);
        judge_length(&block, shared)?;
        if frame.has(frame::END_HEADERS) {
            let bytes = std::mem::take(&mut block.bytes);
            return self.block(&block, &bytes, shared, now);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// What a block on this stream is for (§5.1). A stream begins here, whether or not it is answered.
    fn purpose(&mut self, id: u32, end: bool, shared: &Shared) -> Result<Purpose, Wrong> {
        let place = match self.streams.find(id) {
            Found::Idle => {
                self.streams.begin(id);
                self.budget.earn(1);
                let full = self.streams.live().len() as u64 >= shared.limits.h2_streams;
                return Ok(match self.parting {
                    Parting::Last(last) if id > last => Purpose::Nothing,
                    _ if full => Purpose::Reset(fault::TOO_MANY_STREAMS),
                    _ => Purpose::Request,
                });
            }
            Found::Live(place) => place,
            Found::Skipped => return Err(fault::STREAM_NUMBER),
            Found::Ended => return Err(fault::STREAM_CLOSED),
            Found::Cut { by_peer: true } => return Ok(Purpose::Reset(fault::STREAM_CLOSED)),
            Found::Cut { by_peer: false } | Found::Forgotten => return Ok(Purpose::Nothing),
        };
        Ok(match self.streams.live()[place].state {
            StreamState::Open | StreamState::Unwanted if end => Purpose::Trailers,
            // §8.1: a second head is trailers, and ends the stream.
            StreamState::Open | StreamState::Unwanted => Purpose::Reset(fault::TRAILERS),
            StreamState::Ended | StreamState::Cut { by_peer: true } => Purpose::Reset(fault::STREAM_CLOSED),
            StreamState::Cut { by_peer: false } => Purpose::Nothing,
        })
    }

    /// A whole block.
    fn block<'a>(&mut self, block: &Block, bytes: &[u8], shared: &mut Shared, now: Millis) -> Step<'a> {
        if bytes.len() as u64 > shared.limits.h2_block_bytes {
            return Err(fault::BLOCK_TOO_LARGE);
        }
        if block.purpose == Purpose::Request
            && let Some(repeated) = &self.repeated
            && repeated.changes == self.decoder.changes()
            && repeated.end == block.end
            && *repeated.bytes == *bytes
        {
            let asked = repeated.asked.clone();
            asked.head.repeat();
            return self.open(block, asked, shared, now);
        }
        let room = match block.purpose {
            Purpose::Request => shared.limits.header_bytes,
            Purpose::Trailers => shared.limits.trailer_bytes,
            Purpose::Nothing | Purpose::Reset(_) => 0,
        };
        let mut list = List::new(usize::try_from(room).unwrap_or(usize::MAX));
        let before = self.decoder.changes();
        self.decoder.decode(bytes, &mut list).map_err(|_| fault::COMPRESSION)?;
        match block.purpose {
            Purpose::Request => {
                let cache = (self.variant, &mut self.hint);
                let asked = request::judge(&list, (block.end, self.connect), cache, shared, now);
                drop(list);
                if let Ok(asked) = &asked
                    && before == self.decoder.changes()
                    && bytes.len() <= REPEATED_BYTES
                {
                    let (bytes, asked) = (bytes.into(), asked.clone());
                    self.repeated =
                        Some(Box::new(Repeated { bytes, changes: before, end: block.end, asked }));
                }
                match asked {
                    Ok(asked) => self.open(block, asked, shared, now),
                    Err(Refusal::Malformed(wrong)) => self.reset(block.stream, wrong, shared, now),
                    Err(Refusal::Answered(fault)) => self.refuse(block, fault, shared, now),
                }
            }
            Purpose::Trailers => self.trailers(block.stream, &list, shared, now),
            Purpose::Nothing => {
                self.glitch(now, &shared.limits)?;
                Ok(None)
            }
            Purpose::Reset(wrong) => self.reset(block.stream, wrong, shared, now),
        }
    }

    /// A request begins.
    fn open<'a>(&mut self, block: &Block, asked: Asked, shared: &Shared, now: Millis) -> Step<'a> {
        let head_bytes = asked.head.raw_len() as u64;
        if self.streams.head_bytes() + head_bytes > shared.limits.h2_heads_bytes {
            return self.reset(block.stream, fault::HEADS_TOO_LARGE, shared, now);
        }
        let expected = match asked.head.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked => None,
        };
        self.add(block, expected, head_bytes, shared, now);
        if let Some(stream) = self.streams.get(block.stream) {
            stream.is_tunnel = asked.protocol.is_some();
        }
        if !block.end && asked.protocol.is_none() {
            self.expect_body(block.stream, &shared.limits);
        }
        Ok(Some(Event::Request(request(block.stream, asked, block.end))))
    }

    /// A request that is answered without the application.
    fn refuse<'a>(&mut self, block: &Block, fault: answer::Fault, shared: &Shared, now: Millis) -> Step<'a> {
        self.glitch(now, &shared.limits)?;
        self.add(block, None, 0, shared, now);
        if let Some(stream) = self.streams.get(block.stream) {
            stream.refuse();
        }
        Ok(Some(Event::Refused { stream: block.stream, fault }))
    }

    fn add(&mut self, block: &Block, expected: Option<u64>, head_bytes: u64, shared: &Shared, now: Millis) {
        // Until the peer knows of a smaller window, it may use the usual one (RFC 9113 §6.9.2).
        let window = settings::window(&shared.limits).max(match self.handshake {
            super::Handshake::Done => 0,
            _ => u64::from(settings::FIRST_WINDOW),
        });
        let state = if block.end { StreamState::Ended } else { StreamState::Open };
        self.streams.add(Stream {
            id: block.stream,
            state,
            window: Window::new(window, now),
            grown: 0,
            expected,
            received: 0,
            since: now,
            heard: now,
            small: 0,
            head_bytes,
            is_tunnel: false,
            is_refused: false,
        });
        self.note_first_window(block.stream, &shared.limits);
    }

    /// The fields behind the content: judged as they would be in HTTP/1, and dropped.
    fn trailers<'a>(&mut self, id: u32, list: &List, shared: &Shared, now: Millis) -> Step<'a> {
        let is_unwanted = self.streams.get(id).is_some_and(|stream| stream.state == StreamState::Unwanted);
        let too_many = list.fields().count() as u64 > shared.limits.trailer_lines;
        if (list.is_over() || too_many) && !is_unwanted {
            if let Some(stream) = self.streams.get(id) {
                stream.refuse();
                stream.state = StreamState::Ended;
            }
            self.drop_waiting(id, &shared.limits, now);
            let fault = if too_many { answer::TOO_MANY_TRAILERS } else { answer::TRAILERS_TOO_LARGE };
            return Ok(Some(Event::Refused { stream: id, fault }));
        }
        for (name, value) in list.fields() {
            // What frames or routes a message cannot come behind it (RFC 9110 §6.5.1); no pseudo-header is a token.
            let is_head = matches!(name, b"content-length" | b"host" | b"authorization" | b"cookie" | b"te");
            if is_head || request::judge_field(name, value).is_err() {
                return self.reset(id, fault::TRAILERS, shared, now);
            }
        }
        self.end(id, shared, now)
    }
}

/// Bounds what a block can hold before it is whole: its bytes, and frames that bring none (CVE-2024-27316).
fn judge_length(block: &Block, shared: &Shared) -> Result<(), Wrong> {
    if block.bytes.len() as u64 > shared.limits.h2_block_bytes {
        return Err(fault::BLOCK_TOO_LARGE);
    }
    if block.continuations > shared.limits.h2_continuations { Err(fault::CONTINUATIONS) } else { Ok(()) }
}
