//! For which requests the thread's clock is read, and for which of those how much memory there is: for all where they are few,
//! and for so many a second where they are many.
//!
//! Knows: when they were read. Does not know: requests. To read the clock twice takes four microseconds, and to look at memory
//! twice ten, as nothing of that is in the cache where it is seldom done: half of the time of a quick request. So one of many
//! hundreds of those is measured under full load, and what that costs is bounded by time and not by requests.

/// One long call in so many nanoseconds is measured, ...
const LONG_NS: u64 = 100_000;
/// ... one of the others in so many, ...
const SHORT_NS: u64 = 32_000_000;
/// ... of all that are measured one in so many is weighed, ...
const WEIGHED_NS: u64 = 64_000_000;
/// ... and more of them one after the other, as far as none was for so long.
const SAVED_NS: u64 = 8_192_000_000;

/// Decides it.
#[derive(Debug, Default)]
pub struct Sampling {
    /// The time up to which as many were measured as may be.
    used: u64,
    /// The same of those that were weighed.
    weighed: u64,
}

impl Sampling {
    /// Whether a call is measured that begins at that stamp.
    #[inline]
    pub fn takes(&mut self, stamp: u64, is_long: impl FnOnce() -> bool) -> bool {
        // Where not even a long one is, most often, nobody needs to know; and what was saved makes no difference to one that is not.
        stamp >= self.used + LONG_NS && {
            let costs = if is_long() { LONG_NS } else { SHORT_NS };
            stamp >= self.used + costs && self.spends(stamp, costs)
        }
    }

    #[cold]
    fn spends(&mut self, stamp: u64, costs: u64) -> bool {
        spend(&mut self.used, stamp, costs)
    }

    /// Whether one that is measured is weighed, too.
    #[cold]
    pub fn weighs(&mut self, stamp: u64) -> bool {
        spend(&mut self.weighed, stamp, WEIGHED_NS)
    }
}

/// Takes so many nanoseconds of what was saved since, if they are there.
fn spend(spent: &mut u64, stamp: u64, costs: u64) -> bool {
    let used = (*spent).max(stamp.saturating_sub(SAVED_NS));
    let takes = stamp >= used + costs;
    if takes {
        *spent = used + costs;
    }
    takes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// Nothing was measured for long.
    const BEGINNING: u64 = 2 * SAVED_NS;

    /// Nothing is saved any more.
    fn spent() -> Sampling {
        Sampling { used: BEGINNING, weighed: BEGINNING }
    }

    /// How many of calls are measured that begin so far apart, for a second.
    fn taken(mut sampling: Sampling, pause: u64, long: bool) -> u64 {
        let begins = (1..=SECOND / pause).map(|call| BEGINNING + call * pause);
        begins.filter(|stamp| sampling.takes(*stamp, || long)).count() as u64
    }

    #[test]
    fn all_are_measured_where_they_are_few() {
        assert_eq!(taken(spent(), SHORT_NS, false), SECOND / SHORT_NS);
        assert_eq!(taken(spent(), 2 * LONG_NS, true), 5000);
    }

    #[test]
    fn so_many_a_second_are_measured_where_they_are_many() {
        assert_eq!(taken(spent(), 5_000, false), SECOND / SHORT_NS);
        assert_eq!(taken(spent(), 5_000, true), SECOND / LONG_NS);
    }

    #[test]
    fn so_many_a_second_are_weighed() {
        let mut sampling = spent();
        let begins = (1..=SECOND / 5000).map(|call| BEGINNING + call * 5000);
        assert_eq!(begins.filter(|stamp| sampling.weighs(*stamp)).count() as u64, SECOND / WEIGHED_NS);
    }

    #[test]
    fn after_a_pause_as_many_more_are_measured_as_were_not() {
        for paused in [SHORT_NS, 100 * SHORT_NS, SAVED_NS, 2 * SAVED_NS] {
            let sampling = Sampling { used: BEGINNING - paused, weighed: 0 };
            let more = paused.min(SAVED_NS) / SHORT_NS;
            assert_eq!(taken(sampling, 100_000, false), more + SECOND / SHORT_NS, "{paused}");
        }
    }

    #[test]
    fn a_crowd_of_long_ones_after_a_pause_is_measured() {
        let mut sampling = Sampling::default();
        let taken = (0..100_000).filter(|call| sampling.takes(BEGINNING + call, || true)).count() as u64;
        assert_eq!(taken, SAVED_NS / LONG_NS);
    }
}
