//! How long a connection of FastCGI waits for what, and whether it waits at all.
//!
//! Knows: which limit bounds which state. Does not know: records. Pure; time is an argument.

use super::{FastCgi, State};
use crate::Millis;
use crate::body;
use crate::fault;
use crate::http1::Tick;
use crate::limits::Limits;

impl FastCgi {
    /// When its patience ends; none: it waits for nothing.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        let patience = match &self.state {
            State::Answering | State::Over | State::Failed(_) => return None,
            State::Body { heard, .. } => {
                return Some(body::patience(self.since, self.received, *heard, limits));
            }
            State::Between if !self.idle() => limits.header_timeout,
            State::Between if self.used => limits.keep_alive_timeout,
            State::Between => limits.first_byte_timeout,
            State::Params(_) | State::Ready(..) => limits.header_timeout,
        };
        Some(self.since.saturating_add(patience))
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        if self.deadline(limits).is_none_or(|at| now < at) {
            return Tick::Nothing;
        }
        let fault = match &self.state {
            _ if self.idle() => return Tick::Close,
            State::Body { .. } => body::too_late(self.since, self.received, now, limits),
            _ => fault::HEAD_TOO_SLOW,
        };
        self.state = State::Failed(fault);
        Tick::Fault(fault)
    }

    /// Between requests, with nothing of the next received.
    pub fn idle(&self) -> bool {
        matches!(self.state, State::Between) && self.arrived == 0 && self.at_the_end_of_a_record()
    }

    /// The reply is done: the keep-alive time begins, or the connection ends.
    pub fn answered(&mut self, now: Millis) {
        if matches!(self.state, State::Answering) {
            self.go_on();
            self.since = now;
        }
    }

    /// A body is arriving, and has not ended.
    pub fn awaits_body(&self) -> bool {
        matches!(self.state, State::Body { .. })
    }

    /// For so long nobody asked for what the peer sends: that is not the peer's slowness.
    pub fn reader_paused(&mut self, span: Millis) {
        if let State::Body { heard, .. } = &mut self.state {
            *heard = heard.saturating_add(span);
            self.since = self.since.saturating_add(span);
        }
    }

    /// True once a request has begun.
    pub fn was_used(&self) -> bool {
        self.used
    }
}
