//! What serves no request: how much of it a peer may send (RFC 9113 §10.5).
//!
//! Knows: one leaky bucket, and what a peer has earned. Does not know: which frames cost something; who reads them does.
//! One bucket for every kind, so that no mixture of floods is cheaper than one.

use super::fault::{self, Wrong};
use crate::Millis;
use crate::limits::Limits;

/// A glitch, so that fractions of one can leak away each millisecond.
const GLITCH: u64 = 1000;
/// What a peer can have earned at most: a window of replies that it answers later.
const MOST_EARNED: u32 = 1024;

/// One connection's.
#[derive(Debug)]
pub struct Budget {
    level: u64,
    at: Millis,
    /// Frames that come with what is asked and answered: windows, pings that measure, priorities.
    earned: u32,
    /// All glitches ever, for counters.
    glitches: u64,
}

impl Budget {
    /// A connection begins with some windows and priorities.
    pub fn new(now: Millis) -> Self {
        Self { level: 0, at: now, earned: 8, glitches: 0 }
    }

    /// A frame that serves nothing.
    ///
    /// # Errors
    /// There were too many.
    pub fn glitch(&mut self, now: Millis, limits: &Limits) -> Result<(), Wrong> {
        let leaked = now.saturating_sub(self.at).saturating_mul(limits.h2_glitch_rate);
        (self.level, self.at) = (self.level.saturating_sub(leaked) + GLITCH, now);
        self.glitches += 1;
        if self.level > limits.h2_glitches.saturating_mul(GLITCH) { Err(fault::GLITCHES) } else { Ok(()) }
    }

    /// A frame that answers others, as long as there were some.
    ///
    /// # Errors
    /// As [`Budget::glitch`].
    pub fn answer(&mut self, now: Millis, limits: &Limits) -> Result<(), Wrong> {
        match self.earned.checked_sub(1) {
            Some(left) => {
                self.earned = left;
                Ok(())
            }
            None => self.glitch(now, limits),
        }
    }

    /// So many frames were sent that such answers belong to, or a request has begun.
    pub fn earn(&mut self, frames: u32) {
        self.earned = self.earned.saturating_add(frames.saturating_mul(2)).min(MOST_EARNED);
    }

    /// A request was answered.
    pub fn forgive(&mut self) {
        self.level = self.level.saturating_sub(GLITCH);
    }

    pub fn glitches(&self) -> u64 {
        self.glitches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_the_limit_and_no_more() {
        let limits = Limits::default();
        for (count, good) in [(199, true), (200, true), (201, false)] {
            let mut budget = Budget::new(0);
            let last = (0..count).map(|_| budget.glitch(0, &limits)).last().expect("one");
            assert_eq!((last.is_ok(), budget.glitches()), (good, count), "{count}");
        }
    }

    #[test]
    fn time_and_answered_requests_forgive() {
        let limits = Limits { h2_glitches: 1, h2_glitch_rate: 2, ..Limits::default() };
        let mut budget = Budget::new(0);
        assert_eq!(budget.glitch(0, &limits), Ok(()));
        assert_eq!(budget.glitch(500, &limits), Ok(()), "two a second");
        assert_eq!(budget.glitch(999, &limits), Err(fault::GLITCHES));
        budget.forgive();
        budget.forgive();
        assert_eq!(budget.glitch(999, &limits), Ok(()));
    }

    #[test]
    fn what_was_earned_is_spent_first_and_is_bounded() {
        let limits = Limits { h2_glitches: 0, ..Limits::default() };
        let mut budget = Budget::new(0);
        budget.earn(u32::MAX);
        assert_eq!((0..2000).take_while(|_| budget.answer(0, &limits).is_ok()).count(), MOST_EARNED as usize);
    }
}
