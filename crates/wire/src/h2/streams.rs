//! The streams of one connection, as far as they receive (RFC 9113 §5.1).
//!
//! Knows: which are answered, and how those that are gone have ended. Does not know: frames, or what is sent. A stream
//! is here until its call is over and its reply is sent, whatever the peer does meanwhile: so long it counts.
//!
//! ```text
//!   idle ──HEADERS──► OPEN ──END_STREAM──► ENDED ──┐
//!                      │ └──(refused)──► UNWANTED ─┤ released ──► gone: how it ended is remembered for a while
//!                      └──(RST, either side)► CUT ─┘
//! ```

use std::collections::VecDeque;

use super::windows::Window;
use crate::limits::Limits;
use crate::{Millis, body};

/// So many streams that were cut are remembered.
const REMEMBERED: usize = 64;

/// What may still come on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More of its body.
    Open,
    /// The same, but it is answered already: it is dropped.
    Unwanted,
    Ended,
    Cut {
        by_peer: bool,
    },
}

/// One stream that is answered.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    pub state: State,
    pub window: Window,
    /// What its window has beyond what all begin with.
    pub grown: u64,
    /// What `content-length` says.
    pub expected: Option<u64>,
    pub received: u64,
    pub since: Millis,
    /// When something of its body came last.
    pub heard: Millis,
    /// Small frames that nobody has read.
    pub small: u64,
    /// What its head holds.
    pub head_bytes: u64,
    /// It has become something else than a request (RFC 8441): what comes has neither a size nor a pace.
    pub is_tunnel: bool,
    /// It was refused without the application, or after it: its end forgives nothing.
    pub is_refused: bool,
}

impl Stream {
    /// Until when more of its body has to come; none: nothing has to, or the peer may send nothing.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        let waits = self.state == State::Open && self.window.left() > 0 && !self.is_tunnel;
        waits.then(|| body::patience(self.since, self.received, self.heard, limits))
    }

    /// It is answered with a refusal: what still comes is dropped.
    pub fn refuse(&mut self) {
        self.is_refused = true;
        if self.state == State::Open {
            self.state = State::Unwanted;
        }
    }

    /// The peer may send again: until now it was not its slowness.
    pub fn resume(&mut self, now: Millis) {
        self.since = self.since.saturating_add(now.saturating_sub(self.heard));
        self.heard = now;
    }
}

/// What is known of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It has not begun, or is none that a client can begin.
    Idle,
    /// By its place.
    Live(usize),
    /// Its sender has ended it.
    Ended,
    Cut {
        by_peer: bool,
    },
    /// A higher one has begun, and it never did.
    Skipped,
    /// It was long ago: it may have been cut.
    Forgotten,
}

/// All of one connection's.
#[derive(Debug, Default)]
pub struct Streams {
    /// By number.
    live: Vec<Stream>,
    cut: VecDeque<(u32, bool)>,
    /// Up to this number, some that were cut are not remembered.
    forgotten: u32,
    last: u32,
    /// Numbers between these were skipped last.
    gap: (u32, u32),
    head_bytes: u64,
}

impl Streams {
    pub fn find(&self, id: u32) -> Found {
        if id > self.last || id.is_multiple_of(2) {
            return Found::Idle;
        }
        if let Ok(place) = self.live.binary_search_by_key(&id, |stream| stream.id) {
            return Found::Live(place);
        }
        if let Some(&(_, by_peer)) = self.cut.iter().find(|(cut, _)| *cut == id) {
            return Found::Cut { by_peer };
        }
        if self.gap.0 < id && id < self.gap.1 {
            return Found::Skipped;
        }
        if id <= self.forgotten { Found::Forgotten } else { Found::Ended }
    }

    pub fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.live.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.live.get_mut(place)
    }

    /// The highest number that has begun.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// A number begins, whether or not it is answered.
    pub fn begin(&mut self, id: u32) {
        if id > self.last + 2 {
            self.gap = (self.last, id);
        }
        self.last = id;
    }

    /// A stream is answered from now on. Its number is the highest.
    pub fn add(&mut self, stream: Stream) {
        self.head_bytes += stream.head_bytes;
        self.live.push(stream);
    }

    /// Nothing is owed to it any more.
    pub fn remove(&mut self, id: u32) -> Option<Stream> {
        let place = self.live.binary_search_by_key(&id, |stream| stream.id).ok()?;
        let stream = self.live.remove(place);
        self.head_bytes -= stream.head_bytes;
        if self.live.is_empty() {
            self.live.shrink_to(2);
        }
        Some(stream)
    }

    /// It was cut, or never answered: frames that were under way mean nothing.
    pub fn remember_cut(&mut self, id: u32, by_peer: bool) {
        if self.cut.iter().any(|(known, _)| *known == id) {
            return;
        }
        if self.cut.len() == REMEMBERED
            && let Some((id, _)) = self.cut.pop_front()
        {
            self.forgotten = self.forgotten.max(id);
        }
        self.cut.push_back((id, by_peer));
    }

    pub fn live(&self) -> &[Stream] {
        &self.live
    }

    pub fn live_mut(&mut self) -> &mut [Stream] {
        &mut self.live
    }

    /// What the heads of all hold.
    pub fn head_bytes(&self) -> u64 {
        self.head_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream {
        Stream {
            id,
            state: State::Open,
            window: Window::new(100, 0),
            grown: 0,
            expected: None,
            received: 0,
            since: 0,
            heard: 0,
            small: 0,
            head_bytes: 10,
            is_tunnel: false,
            is_refused: false,
        }
    }

    #[test]
    fn a_number_is_found_as_what_it_was() {
        let mut streams = Streams::default();
        for id in [1, 3, 9] {
            streams.begin(id);
            streams.add(stream(id));
        }
        assert_eq!(streams.head_bytes(), 30);
        streams.remove(1);
        streams.remove(3);
        streams.remember_cut(3, true);
        let found = [0, 1, 2, 3, 5, 7, 9, 11].map(|id| streams.find(id));
        let (idle, skipped) = (Found::Idle, Found::Skipped);
        let cut = Found::Cut { by_peer: true };
        assert_eq!(found, [idle, Found::Ended, idle, cut, skipped, skipped, Found::Live(0), idle]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut streams = Streams::default();
        for id in (1..=2 * REMEMBERED as u32 + 3).step_by(2) {
            streams.begin(id);
            streams.remember_cut(id, false);
        }
        assert_eq!(streams.cut.len(), REMEMBERED);
        assert_eq!([streams.find(1), streams.find(3)], [Found::Forgotten; 2]);
        assert_eq!(streams.find(5), Found::Cut { by_peer: false });
    }

    #[test]
    fn a_peer_that_may_send_nothing_is_not_slow() {
        let limits = Limits::default();
        let mut one = stream(1);
        assert!(one.deadline(&limits).is_some());
        assert!(one.window.take(100));
        assert_eq!(one.deadline(&limits), None);
        assert!(one.window.read(100, 100, 70_000).is_some());
        one.resume(70_000);
        assert_eq!(one.deadline(&limits), Some(70_000 + limits.body_grace));
    }
}
