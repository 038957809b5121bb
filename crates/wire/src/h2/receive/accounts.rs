//! What streams and frames cost, what is given back, and what the owner of a connection says of it.

use super::{Event, Receive, State, Step};
use crate::Millis;
use crate::h2::fault::{self, Wrong};
use crate::h2::frame;
use crate::h2::settings::{self, FIRST_WINDOW, LARGEST_WINDOW};
use crate::h2::streams::State as StreamState;
use crate::http1::Shared;
use crate::limits::Limits;

/// A body may begin in a window of so many times the size that all streams have.
const FIRST_GROWTH: u64 = 16;

/// Of what windows may grow by, so much is for bodies of which nothing is read yet.
const UNREAD_SHARE: u64 = 4;

impl Receive {
    /// A frame that serves no request, or one of a peer that breaks a rule.
    pub(super) fn glitch(&mut self, now: Millis, limits: &Limits) -> Result<(), Wrong> {
        self.budget.glitch(now, limits)
    }

    /// A stream ends with an error, the connection goes on (§5.4.2).
    pub(super) fn reset<'a>(&mut self, stream: u32, wrong: Wrong, shared: &Shared, now: Millis) -> Step<'a> {
        self.glitch(now, &shared.limits)?;
        self.room_for_control(&shared.limits)?;
        frame::reset(stream, wrong.code, &mut self.output);
        let Some(live) = self.streams.get(stream) else {
            self.streams.remember_cut(stream, false);
            return Ok(Some(Event::StreamError { stream, wrong }));
        };
        live.state = StreamState::Cut { by_peer: false };
        self.drop_waiting(stream, &shared.limits, now);
        Ok(Some(Event::StreamError { stream, wrong }))
    }

    /// Our answers wait because the peer reads nothing: it gets no more of them (CVE-2019-9512).
    pub(super) fn room_for_control(&self, limits: &Limits) -> Result<(), Wrong> {
        if self.output.len() as u64 > limits.h2_control_bytes { Err(fault::CONTROL_QUEUE) } else { Ok(()) }
    }

    /// What nobody will read of a stream counts as read.
    pub(super) fn drop_waiting(&mut self, stream: u32, limits: &Limits, now: Millis) {
        if let Some(live) = self.streams.get(stream) {
            let waiting = live.window.waiting();
            // The stream itself gets no window for it.
            let _ = live.window.read(waiting, 0, now);
            self.give_back(waiting, limits, now);
        }
    }

    /// So much of the connection's window was read.
    pub(super) fn give_back(&mut self, length: u64, limits: &Limits, now: Millis) {
        let was_closed = self.window.left() == 0;
        // It grows with its streams' alone.
        if let Some(increment) = self.window.read(length, 0, now) {
            frame::window_update(0, increment, &mut self.output);
        }
        self.give_back_early(limits);
        if was_closed && self.window.left() > 0 {
            self.streams.live_mut().iter_mut().for_each(|stream| stream.resume(now));
        }
    }

    /// Little is left of the connection's window, as much waits for readers: what was read of others is given back now.
    pub(super) fn give_back_early(&mut self, limits: &Limits) {
        if let Some(increment) = self.window.give_back_early(u64::from(settings::frame_size(limits))) {
            frame::window_update(0, increment, &mut self.output);
        }
    }

    /// A stream's window has grown: with it the connection's, so that all streams together never need more than it has.
    fn note_growth(&mut self, more: u64, limits: &Limits) {
        self.grown += more;
        let wanted = (settings::connection_window(limits) + self.grown).min(u64::from(LARGEST_WINDOW));
        let more = wanted.saturating_sub(self.window.size());
        if let Ok(increment @ 1..) = u32::try_from(more) {
            self.window.grow(more);
            frame::window_update(0, increment, &mut self.output);
        }
    }

    /// By how much windows of streams may still grow.
    fn growth_left(&self, limits: &Limits) -> u64 {
        limits.h2_window_most_bytes.saturating_sub(self.grown)
    }

    /// A body begins, for which the window that all begin with is small.
    pub(super) fn expect_body(&mut self, stream: u32, limits: &Limits) {
        let first = settings::window(limits);
        let left = (limits.h2_window_most_bytes / UNREAD_SHARE).saturating_sub(self.grown);
        let Some(live) = self.streams.get(stream) else { return };
        let wanted = live.expected.unwrap_or(u64::MAX).min(first.saturating_mul(FIRST_GROWTH));
        let more = wanted.saturating_sub(live.window.size()).min(left);
        if let Ok(increment @ 1..) = u32::try_from(more) {
            live.window.grow(more);
            live.grown += more;
            frame::window_update(stream, increment, &mut self.output);
            self.note_growth(more, limits);
        }
    }

    /// The peer knows by now what all streams begin with: those that have begun with more have that no longer.
    pub(super) fn correct_first_windows(&mut self, limits: &Limits) {
        let more = u64::from(FIRST_WINDOW).saturating_sub(settings::window(limits));
        for stream in self.streams.live_mut() {
            stream.window.shrink(more);
            stream.grown -= more.min(stream.grown);
            self.grown -= more.min(self.grown);
        }
    }

    /// A stream has begun with a larger window than all shall have, as its peer did not know better.
    pub(super) fn note_first_window(&mut self, stream: u32, limits: &Limits) {
        let Some(live) = self.streams.get(stream) else { return };
        live.grown = live.window.size().saturating_sub(settings::window(limits));
        let more = live.grown;
        self.note_growth(more, limits);
    }

    /// The application has read so much of a body: the peer may send more.
    pub fn read(&mut self, stream: u32, length: usize, shared: &Shared, now: Millis) {
        let left = self.growth_left(&shared.limits);
        let Some(live) = self.streams.get(stream) else { return };
        let length = (length as u64).min(live.window.waiting());
        let (was_closed, before) = (live.window.left() == 0, live.window.size());
        // Whoever has sent all needs no more room.
        let most = if live.state == StreamState::Open { before.saturating_add(left) } else { 0 };
        let increment = live.window.read(length, most, now);
        let more = live.window.size() - before;
        live.grown += more;
        if live.window.waiting() == 0 {
            live.small = 0;
        }
        if was_closed && increment.is_some() {
            live.resume(now);
        }
        if let Some(increment) = increment.filter(|_| live.state == StreamState::Open) {
            frame::window_update(stream, increment, &mut self.output);
        }
        if more > 0 {
            self.note_growth(more, &shared.limits);
        }
        self.give_back(length, &shared.limits, now);
    }

    /// The sending half has cut a stream: what is under way of it is dropped.
    pub fn was_cut(&mut self, stream: u32, shared: &Shared, now: Millis) {
        if let Some(live) = self.streams.get(stream) {
            live.state = StreamState::Cut { by_peer: false };
            self.drop_waiting(stream, &shared.limits, now);
        }
    }

    /// A stream's call is over, and all of its reply is framed: it does not count any more. A peer that is still
    /// sending is told that it need not (RFC 9113 §8.1).
    pub fn release(&mut self, stream: u32, shared: &Shared, now: Millis) {
        self.drop_waiting(stream, &shared.limits, now);
        let Some(gone) = self.streams.remove(stream) else { return };
        self.grown -= gone.grown;
        match gone.state {
            StreamState::Open | StreamState::Unwanted => {
                frame::reset(stream, fault::Code::NoError, &mut self.output);
                self.streams.remember_cut(stream, false);
            }
            StreamState::Cut { by_peer } => self.streams.remember_cut(stream, by_peer),
            StreamState::Ended if gone.is_refused => {}
            StreamState::Ended => self.budget.forgive(),
        }
        self.since = now;
    }

    /// The sending half has sent so many frames of content: so much the peer may say about them.
    pub fn sent(&mut self, frames: u32) {
        self.budget.earn(frames);
    }

    /// The frames that it owes the peer, to be sent before anything that is framed later; empty where there are none.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// There are frames for [`Receive::take_output`].
    pub fn owes(&self) -> bool {
        !self.output.is_empty()
    }

    /// Which heads of the cache are its own.
    pub fn variant(&self) -> u32 {
        self.variant
    }

    /// Streams that count: those that were not released.
    pub fn streams(&self) -> usize {
        self.streams.live().len()
    }

    /// Frames ever that served no request.
    pub fn glitches(&self) -> u64 {
        self.budget.glitches()
    }

    /// Bytes that it holds for the peer, the bodies' not counted, which are with whoever reads them.
    pub fn held(&self) -> usize {
        let partial = match &self.state {
            State::Payload { bytes, .. } => bytes.capacity(),
            _ => 0,
        };
        let block = self.block.as_ref().map_or(0, |block| block.held());
        let repeated = self.repeated.as_ref().map_or(0, |repeated| repeated.held());
        partial
            + block
            + repeated
            + self.output.capacity()
            + self.decoder.table_size()
            + self.streams.head_bytes() as usize
    }
}
