//! Do new connections come one after the other, or in a crowd?
//!
//! Knows: how many a worker has taken in the last seconds. Does not know: connections, or what follows (`share.rs`). Runs under the
//! baton.
//!
//! Where they come in a crowd each has one request or few, and who is free takes the next: nothing is gained by choosing a worker
//! for them, and each would wait for the choice.

use wire::Millis;

use crate::rows::LATELY_MS;

/// More than so many in such a time are a crowd: four a second.
const MANY: u64 = 20;

/// Those that were taken, in this span of time and in the one before.
#[derive(Debug, Default)]
pub struct Crowd {
    since: Millis,
    now: u64,
    before: u64,
}

impl Crowd {
    fn pass(&mut self, now: Millis) {
        let spans = now.saturating_sub(self.since) / LATELY_MS;
        if spans > 0 {
            self.before = if spans == 1 { self.now } else { 0 };
            (self.since, self.now) = (self.since + spans * LATELY_MS, 0);
        }
    }

    /// One was taken.
    pub fn took(&mut self, now: Millis) {
        self.pass(now);
        self.now += 1;
    }

    /// True where they come in a crowd. So many `others` do not count.
    pub fn is_one(&mut self, others: u64, now: Millis) -> bool {
        self.pass(now);
        self.now.max(self.before) > MANY + others
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many were taken at that time.
    fn took(count: u64, now: Millis) -> Crowd {
        let mut crowd = Crowd::default();
        (0..count).for_each(|_| crowd.took(now));
        crowd
    }

    #[test]
    fn more_than_twenty_in_five_seconds_are_a_crowd() {
        for (count, others, is_one) in [(20, 0, false), (21, 0, true), (21, 1, false), (22, 1, true)] {
            assert_eq!(
                took(count, 7_000).is_one(others, 7_000),
                is_one,
                "{count}, {others} of which do not count"
            );
        }
    }

    #[test]
    fn a_crowd_is_one_until_the_end_of_the_span_behind_it() {
        for (now, is_one) in [(9_999, true), (10_000, true), (14_999, true), (15_000, false), (99_999, false)]
        {
            assert_eq!(took(21, 7_000).is_one(0, now), is_one, "{now}");
        }
    }
}
