//! Content: frames of DATA, and what becomes of their bytes (RFC 9113 §6.1).

use super::{Receive, State, Step};
use crate::Millis;
use crate::fault as answer;
use crate::h2::event::Event;
use crate::h2::fault;
use crate::h2::frame::{self, Frame};
use crate::h2::streams::{Found, State as StreamState};
use crate::http1::Shared;

/// Content in frames of fewer bytes is small.
const SMALL: u32 = 64;

/// What has not come of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    stream: u32,
    /// Bytes of content.
    left: u32,
    padding: u32,
    /// Of a padded frame the length of its padding has not come.
    padded: bool,
    /// Its content was found to be no more than was said and is allowed.
    judged: bool,
    end: bool,
}

impl Receive {
    /// The head of a frame. Windows count all of the payload, padding included (§6.9.1), and whether or not anybody
    /// wants it.
    pub(super) fn data<'a>(&mut self, frame: Frame, shared: &Shared, now: Millis) -> Step<'a> {
        let length = u64::from(frame.length);
        let (id, end, padded) = (frame.stream, frame.has(frame::END_STREAM), frame.has(frame::PADDED));
        let found = self.streams.find(id);
        if found == Found::Idle {
            return Err(fault::IDLE_STREAM);
        }
        if padded && frame.length == 0 {
            return Err(fault::FRAME_SIZE);
        }
        if !self.window.take(length) {
            return Err(fault::CONNECTION_WINDOW);
        }
        self.give_back_early(&shared.limits);
        self.heard = now;
        if frame.length == 0 && !end {
            // CVE-2019-9518.
            self.glitch(now, &shared.limits)?;
        }
        let part = Part { stream: id, left: frame.length, padding: 0, padded, judged: false, end };
        let Found::Live(_) = found else {
            self.drop_frame(part, shared, now);
            return match found {
                // What was under way when we cut it.
                Found::Cut { by_peer: false } | Found::Forgotten => self.unwanted(frame, shared, now),
                Found::Cut { by_peer: true } => self.reset(id, fault::STREAM_CLOSED, shared, now),
                _ => Err(fault::STREAM_CLOSED),
            };
        };
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        match stream.state {
            StreamState::Open => {}
            StreamState::Unwanted => {
                if end {
                    stream.state = StreamState::Ended;
                }
                self.drop_frame(part, shared, now);
                return self.unwanted(frame, shared, now);
            }
            StreamState::Cut { by_peer: false } => {
                self.drop_frame(part, shared, now);
                return self.unwanted(frame, shared, now);
            }
            StreamState::Cut { by_peer: true } | StreamState::Ended => {
                self.drop_frame(part, shared, now);
                return self.reset(id, fault::STREAM_CLOSED, shared, now);
            }
        }
        if !stream.window.take(length) {
            self.drop_frame(part, shared, now);
            return self.reset(id, fault::STREAM_WINDOW, shared, now);
        }
        stream.heard = now;
        if frame.length < SMALL && frame.length > 0 && !end {
            stream.small += 1;
            if stream.small > shared.limits.h2_small_frames {
                self.glitch(now, &shared.limits)?;
            }
        }
        self.state = State::Data(part);
        Ok(None)
    }

    /// Nobody wants a frame: it is passed over, and counts as read.
    fn drop_frame(&mut self, part: Part, shared: &Shared, now: Millis) {
        self.state = State::skip(part.left);
        self.give_back(u64::from(part.left), &shared.limits, now);
    }

    /// What was under way when its stream was cut comes for nothing, but not for ever.
    fn unwanted<'a>(&mut self, frame: Frame, shared: &Shared, now: Millis) -> Step<'a> {
        if frame.length < SMALL {
            self.budget.answer(now, &shared.limits)?;
        }
        Ok(None)
    }

    /// More of a frame.
    pub(super) fn content<'a>(
        &mut self,
        mut part: Part,
        input: &mut &'a [u8],
        shared: &Shared,
        now: Millis,
    ) -> Step<'a> {
        if part.padded {
            let Some((&padding, rest)) = input.split_first() else { return Ok(Some(Event::NeedMore)) };
            *input = rest;
            part.left = (part.left - 1).checked_sub(u32::from(padding)).ok_or(fault::PADDING)?;
            (part.padding, part.padded) = (u32::from(padding), false);
            // Padding is read by being passed over.
            self.read(part.stream, usize::from(padding) + 1, shared, now);
            if part.left == 0 && !part.end {
                self.glitch(now, &shared.limits)?;
            }
        }
        if !part.judged {
            part.judged = true;
            self.state = State::Data(part);
            return self.judge_length(part, shared, now);
        }
        self.state = State::Data(part);
        if part.left > 0 {
            if input.is_empty() {
                return Ok(Some(Event::NeedMore));
            }
            let (data, rest) = input.split_at(input.len().min(part.left as usize));
            *input = rest;
            part.left -= data.len() as u32;
            self.state = State::Data(part);
            return Ok(self.bytes(part.stream, data, now));
        }
        if part.padding > 0 {
            if input.is_empty() {
                return Ok(Some(Event::NeedMore));
            }
            let length = input.len().min(part.padding as usize);
            *input = &input[length..];
            part.padding -= length as u32;
            self.state = State::Data(part);
            return Ok(None);
        }
        self.state = State::HEAD;
        if part.end { self.end(part.stream, shared, now) } else { Ok(None) }
    }

    /// A frame brings no more than was said, and no more than is allowed: known before any of it is given to anybody.
    fn judge_length<'a>(&mut self, part: Part, shared: &Shared, now: Millis) -> Step<'a> {
        let id = part.stream;
        let Some(stream) = self.streams.get(id).filter(|stream| stream.state == StreamState::Open) else {
            return Ok(None);
        };
        let received = stream.received + u64::from(part.left);
        if stream.expected.is_some_and(|expected| received > expected) {
            // §8.1.1.
            return self.reset(id, fault::BODY_LENGTH, shared, now);
        }
        if received > shared.limits.body_bytes && !stream.is_tunnel {
            stream.refuse();
            self.drop_waiting(id, &shared.limits, now);
            return Ok(Some(Event::Refused { stream: id, fault: answer::BODY_TOO_LARGE }));
        }
        Ok(None)
    }

    /// Bytes of a body, if anybody wants them.
    fn bytes<'a>(&mut self, id: u32, data: &'a [u8], now: Millis) -> Option<Event<'a>> {
        let stream = self.streams.get(id).filter(|stream| stream.state == StreamState::Open)?;
        stream.received += data.len() as u64;
        stream.heard = now;
        Some(Event::Data { stream: id, data })
    }

    /// The peer has ended a stream.
    pub(super) fn end<'a>(&mut self, id: u32, shared: &Shared, now: Millis) -> Step<'a> {
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        match stream.state {
            StreamState::Open if stream.expected.is_some_and(|expected| expected != stream.received) => {
                self.reset(id, fault::BODY_LENGTH, shared, now)
            }
            StreamState::Open => {
                stream.state = StreamState::Ended;
                Ok(Some(Event::End { stream: id }))
            }
            StreamState::Unwanted => {
                stream.state = StreamState::Ended;
                Ok(None)
            }
            StreamState::Ended | StreamState::Cut { .. } => Ok(None),
        }
    }
}
