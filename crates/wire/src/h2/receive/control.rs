//! Frames that carry neither fields nor content (RFC 9113 §6.3 to §6.9, RFC 9218 §7.1), and the end of a connection.

use super::{Handshake, Parting, Receive, State, Step};
use crate::Millis;
use crate::h2::event::Event;
use crate::h2::fault::{self, Wrong};
use crate::h2::frame::{self, Frame, Kind};
use crate::h2::priority::Priority;
use crate::h2::send::Overflow;
use crate::h2::settings::{LARGEST_WINDOW, Settings};
use crate::h2::streams::{Found, State as StreamState};
use crate::http1::Shared;
use crate::limits::Limits;

/// What the PING of a graceful end says: when it comes back, the peer has read that the connection ends.
const PARTING_PING: &[u8; 8] = b"parting.";

impl Receive {
    pub(super) fn control<'a>(
        &mut self,
        frame: Frame,
        payload: &[u8],
        shared: &mut Shared,
        now: Millis,
    ) -> Step<'a> {
        match (frame.kind, payload) {
            (Kind::Settings, _) if frame.has(frame::ACK) => self.acknowledged(shared, now),
            (Kind::Settings, _) => self.settings(payload, shared, now),
            (Kind::Ping, _) => self.ping(frame, payload, shared, now),
            (Kind::ResetStream, [a, b, c, d]) => {
                self.reset_by_peer(frame.stream, u32::from_be_bytes([*a, *b, *c, *d]), shared, now)
            }
            (Kind::WindowUpdate, [a, b, c, d]) => {
                self.window(frame.stream, frame::number(&[*a, *b, *c, *d]), shared, now)
            }
            (Kind::Priority, [a, b, c, d, _]) => {
                self.glitch(now, &shared.limits)?;
                if frame::number(&[*a, *b, *c, *d]) != frame.stream {
                    return Ok(None);
                }
                // §5.4.2: a stream that has not begun cannot be reset.
                match self.streams.find(frame.stream) {
                    Found::Live(_) => self.reset(frame.stream, fault::SELF_DEPENDENCY, shared, now),
                    _ => Err(fault::SELF_DEPENDENCY),
                }
            }
            (Kind::PriorityUpdate, [a, b, c, d, value @ ..]) => {
                self.answer(now, &shared.limits)?;
                match frame::number(&[*a, *b, *c, *d]) {
                    0 => Err(fault::FRAME_STREAM),
                    stream if matches!(self.streams.find(stream), Found::Live(_)) => {
                        Ok(Some(Event::Priority { stream, priority: Priority::read(value) }))
                    }
                    // RFC 9218 §7.1 lets a server forget what is said of a stream that has not begun.
                    _ => Ok(None),
                }
            }
            (Kind::Goaway, [_, _, _, _, a, b, c, d, ..]) => {
                self.glitch(now, &shared.limits)?;
                Ok(Some(Event::Goaway { code: u32::from_be_bytes([*a, *b, *c, *d]) }))
            }
            _ => Err(fault::FRAME_SIZE),
        }
    }

    /// A frame that belongs to what is asked and answered, as long as there was some of that.
    fn answer(&mut self, now: Millis, limits: &Limits) -> Result<(), Wrong> {
        self.budget.answer(now, limits)
    }

    fn settings<'a>(&mut self, payload: &[u8], shared: &Shared, now: Millis) -> Step<'a> {
        let settings = Settings::read(payload)?;
        if self.handshake == Handshake::Begun {
            self.handshake = Handshake::Unacknowledged(now);
            self.since = now;
        } else {
            self.glitch(now, &shared.limits)?;
        }
        self.room_for_control(&shared.limits)?;
        frame::write(Kind::Settings, frame::ACK, 0, b"", &mut self.output);
        Ok(Some(Event::Settings(settings)))
    }

    fn acknowledged<'a>(&mut self, shared: &Shared, now: Millis) -> Step<'a> {
        if let Handshake::Unacknowledged(_) = self.handshake {
            self.handshake = Handshake::Done;
            self.correct_first_windows(&shared.limits);
            self.decoder.allow(usize::try_from(shared.limits.h2_table_bytes).unwrap_or(usize::MAX));
        } else {
            self.glitch(now, &shared.limits)?;
        }
        Ok(None)
    }

    fn ping<'a>(&mut self, frame: Frame, payload: &[u8], shared: &Shared, now: Millis) -> Step<'a> {
        if !frame.has(frame::ACK) {
            self.answer(now, &shared.limits)?;
            self.room_for_control(&shared.limits)?;
            frame::write(Kind::Ping, frame::ACK, 0, payload, &mut self.output);
        } else if matches!(self.parting, Parting::Announced(_)) && payload == PARTING_PING {
            self.name_last();
        } else {
            self.glitch(now, &shared.limits)?;
        }
        Ok(None)
    }

    fn reset_by_peer<'a>(&mut self, id: u32, code: u32, shared: &Shared, now: Millis) -> Step<'a> {
        let found = self.streams.find(id);
        if found == Found::Idle {
            return Err(fault::IDLE_STREAM);
        }
        // CVE-2023-44487: it costs as much as whatever it asked for and did not wait for.
        self.glitch(now, &shared.limits)?;
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        if matches!(stream.state, StreamState::Cut { .. }) {
            return Ok(None);
        }
        stream.state = StreamState::Cut { by_peer: true };
        self.drop_waiting(id, &shared.limits, now);
        Ok(Some(Event::Reset { stream: id, code }))
    }

    fn window<'a>(&mut self, id: u32, increment: u32, shared: &Shared, now: Millis) -> Step<'a> {
        self.answer(now, &shared.limits)?;
        if id == 0 {
            return match increment {
                0 => Err(fault::WINDOW_ZERO),
                _ => Ok(Some(Event::Window { stream: 0, increment })),
            };
        }
        match self.streams.find(id) {
            Found::Idle => Err(fault::IDLE_STREAM),
            Found::Live(place) if matches!(self.streams.live()[place].state, StreamState::Cut { .. }) => {
                Ok(None)
            }
            Found::Live(_) if increment == 0 => self.reset(id, fault::WINDOW_ZERO, shared, now),
            Found::Live(_) => Ok(Some(Event::Window { stream: id, increment })),
            // It was under way when the stream ended.
            _ => Ok(None),
        }
    }

    /// The sending half could not follow an event: a window would be too large (§6.9.1).
    pub fn overflow(&mut self, overflow: Overflow, shared: &Shared, now: Millis) -> Event<'static> {
        let reset = match overflow {
            Overflow::Stream(stream) => self.reset(stream, fault::WINDOW_OVERFLOW, shared, now),
            Overflow::Connection => Err(fault::WINDOW_OVERFLOW),
        };
        match reset {
            Ok(event) => event.unwrap_or(Event::NeedMore),
            Err(wrong) => self.fail(wrong),
        }
    }

    /// Begins a graceful end (§6.8): the peer is told, and what it asked before it has read that is answered.
    pub fn leave(&mut self, now: Millis) {
        if self.parting == Parting::No && !matches!(self.state, State::Failed(_)) {
            self.parting = Parting::Announced(now);
            frame::goaway(LARGEST_WINDOW, &fault::GOING, &mut self.output);
            frame::write(Kind::Ping, 0, 0, PARTING_PING, &mut self.output);
        }
    }

    /// The second GOAWAY: later streams are not answered.
    pub(super) fn name_last(&mut self) {
        let last = self.streams.last();
        self.parting = Parting::Last(last);
        frame::goaway(last, &fault::GOING, &mut self.output);
    }

    /// A graceful end is complete: nothing is answered any more, and the connection can be closed when the output is
    /// sent.
    pub fn is_over(&self) -> bool {
        let left = matches!(self.parting, Parting::Last(_)) && self.streams.live().is_empty();
        left || matches!(self.state, State::Failed(_))
    }
}
