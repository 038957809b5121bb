//! A graceful shutdown: how far it has come, and until when what is idle may come back.
//!
//! Knows: stages and times. Does not know: connections. Runs under the baton.

use wire::{Limits, Millis};

use crate::engine::Stage;
use crate::slots::NEVER;

/// How one loop stops.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// How far it has come.
    stage: Stage,
    /// When it ends; none: it has not begun.
    ends_at: Option<Millis>,
    /// Until when idle connections may come back while it lasts.
    idle_until: Millis,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { stage: Stage::Serving, ends_at: None, idle_until: NEVER }
    }
}

impl Shutdown {
    /// Goes on to a stage. False: it has been there before, or there is nothing more to be graceful about.
    pub fn advance(&mut self, stage: Stage, limits: &Limits, now: Millis) -> bool {
        if self.stage >= stage || stage == Stage::Aborting {
            return false;
        }
        self.stage = stage;
        let grace = if stage == Stage::Retiring { limits.drain_keep_alive } else { 0 };
        self.idle_until = now.saturating_add(grace.min(limits.graceful_timeout));
        self.ends_at = Some(now.saturating_add(limits.graceful_timeout));
        true
    }

    /// It has begun.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.ends_at.is_some()
    }

    /// When it ends, in monotonic milliseconds; none: it has not begun.
    pub fn ends_at(&self) -> Option<Millis> {
        self.ends_at
    }

    /// Until when idle connections may come back.
    pub fn idle_until(&self) -> Millis {
        self.idle_until
    }

    /// A worker that leaves has waited for idle connections long enough.
    pub fn closes_idle(&self, now: Millis) -> bool {
        self.has_begun() && now >= self.idle_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_come_back_for_a_while_where_others_go_on_and_not_at_all_where_nobody_does() {
        let limits = Limits { graceful_timeout: 30_000, drain_keep_alive: 2000, ..Limits::default() };
        for (stage, idle_until) in [(Stage::Retiring, 3000), (Stage::Draining, 1000)] {
            let mut shutdown = Shutdown::default();
            assert!(!shutdown.has_begun() && !shutdown.closes_idle(u64::MAX - 1));
            assert!(shutdown.advance(stage, &limits, 1000) && !shutdown.advance(stage, &limits, 5000));
            assert_eq!((shutdown.ends_at(), shutdown.idle_until()), (Some(31_000), idle_until));
            assert!(!shutdown.closes_idle(idle_until - 1) && shutdown.closes_idle(idle_until));
        }
    }

    #[test]
    fn it_goes_further_and_never_back() {
        let mut shutdown = Shutdown::default();
        assert!(shutdown.advance(Stage::Draining, &Limits::default(), 0));
        assert!(!shutdown.advance(Stage::Retiring, &Limits::default(), 0));
        assert!(!shutdown.advance(Stage::Aborting, &Limits::default(), 0));
    }
}
