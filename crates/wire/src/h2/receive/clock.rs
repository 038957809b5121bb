//! How long a peer may take for what it has begun, and what happens when it takes longer.

use super::{Handshake, Parting, Receive, State};
use crate::Millis;
use crate::body;
use crate::h2::event::Event;
use crate::h2::fault::{self, Wrong};
use crate::h2::streams::State as StreamState;
use crate::http1::Shared;
use crate::limits::Limits;

impl Receive {
    /// When its patience ends; none: it waits for nothing but its own side.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        let parting = self.parting_ends(limits);
        let body = self.slow_body(limits).map(|(_, at)| at);
        [self.patience_ends(limits).map(|(_, at)| at), parting, body].into_iter().flatten().min()
    }

    /// What ends the connection next, and when.
    fn patience_ends(&self, limits: &Limits) -> Option<(Wrong, Millis)> {
        if let State::Failed(_) = self.state {
            return None;
        }
        let begin = match self.handshake {
            Handshake::Silent => Some((fault::IDLE, self.since.saturating_add(limits.first_byte_timeout))),
            Handshake::Begun => {
                Some((fault::HEAD_TOO_SLOW, self.since.saturating_add(limits.header_timeout)))
            }
            Handshake::Unacknowledged(since) => {
                Some((fault::SETTINGS_TIMEOUT, since.saturating_add(limits.h2_settings_timeout)))
            }
            Handshake::Done => None,
        };
        let partial = self
            .partial_since
            .map(|since| (fault::HEAD_TOO_SLOW, since.saturating_add(limits.header_timeout)));
        let is_idle = self.streams.live().is_empty() && self.handshake != Handshake::Silent;
        let idle = is_idle.then(|| (fault::IDLE, self.since.saturating_add(limits.keep_alive_timeout)));
        [begin, partial, idle].into_iter().flatten().min_by_key(|(_, at)| *at)
    }

    fn parting_ends(&self, limits: &Limits) -> Option<Millis> {
        match self.parting {
            Parting::Announced(since) => Some(since.saturating_add(limits.h2_goaway_grace)),
            Parting::No | Parting::Last(_) => None,
        }
    }

    /// The stream whose body comes too slowly first. While the connection's window is used up, nobody can send.
    fn slow_body(&self, limits: &Limits) -> Option<(u32, Millis)> {
        if self.window.left() == 0 {
            return None;
        }
        let deadlines = self.streams.live().iter().filter_map(|stream| {
            let at = stream.deadline(limits)?;
            Some((stream.id, at))
        });
        deadlines.min_by_key(|(_, at)| *at)
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        if let Some(since) = &mut self.partial_since {
            *since = since.saturating_add(span);
        }
        if let Handshake::Unacknowledged(since) = &mut self.handshake {
            *since = since.saturating_add(span);
        }
        for stream in self.streams.live_mut() {
            stream.since = stream.since.saturating_add(span);
            stream.heard = stream.heard.saturating_add(span);
        }
    }

    /// Time has passed: one thing that it means, until that is [`Event::NeedMore`].
    pub fn tick(&mut self, shared: &Shared, now: Millis) -> Event<'static> {
        let limits = &shared.limits;
        if self.parting_ends(limits).is_some_and(|at| now >= at) {
            self.name_last();
        }
        if let Some((wrong, at)) = self.patience_ends(limits)
            && now >= at
        {
            return self.fail(wrong);
        }
        if let Some((stream, at)) = self.slow_body(limits)
            && now >= at
            && let Some(slow) = self.streams.get(stream)
        {
            let fault = body::too_late(slow.since, slow.received, now, limits);
            slow.refuse();
            self.drop_waiting(stream, limits, now);
            return Event::Refused { stream, fault };
        }
        Event::NeedMore
    }

    /// The peer has ended: the bodies that are not complete, one after the other, as cut streams; then
    /// [`Event::NeedMore`]. What is still sent may arrive.
    pub fn eof(&mut self, shared: &Shared, now: Millis) -> Event<'static> {
        let cut = self.streams.live().iter().find(|stream| stream.state == StreamState::Open);
        let Some(stream) = cut.map(|stream| stream.id) else { return Event::NeedMore };
        if let Some(open) = self.streams.get(stream) {
            open.state = StreamState::Cut { by_peer: true };
        }
        self.drop_waiting(stream, &shared.limits, now);
        Event::Reset { stream, code: fault::Code::Cancel as u32 }
    }
}
