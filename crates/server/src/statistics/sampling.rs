//! For which requests the thread's clock is read, and for which of those how much memory there is: for all where they are few,
//! and for so many a second where they are many.
//!
//! Knows: when they were read. Does not know: requests. To read the clock twice takes a microsecond, a tenth of a quick
//! request: so one of some hundred of those is measured under full load, and what that costs is bounded by time and not by
//! requests. To look at memory twice takes two.

/// One long call in so many nanoseconds is measured, ...
const LONG_NS: u64 = 100_000;
/// ... one of the others in so many, ...
const SHORT_NS: u64 = 4_000_000;
/// ... of all that are measured one in so many is weighed, ...
const WEIGHED_NS: u64 = 4_000_000;
/// ... and more of them one after the other, as far as none was for so long.
const SAVED_NS: u64 = 256_000_000;

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
        // Where not even a long one is, most often, nobody needs to know.
        stamp >= self.used + LONG_NS
            && spend(&mut self.used, stamp, if is_long() { LONG_NS } else { SHORT_NS })
    }

    /// Whether one that is measured is weighed, too.
    #[inline]
    pub fn weighs(&mut self, stamp: u64) -> bool {
        spend(&mut self.weighed, stamp, WEIGHED_NS)
    }
}

/// Takes so many nanoseconds of what was saved since, if they are there.
#[inline]
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

    /// How many of calls are measured that begin so far apart, for a second.
    fn taken(pause: u64, long: bool) -> u64 {
        let mut sampling = Sampling::default();
        (0..SECOND / pause).filter(|call| sampling.takes(SECOND + call * pause, || long)).count() as u64
    }

    #[test]
    fn all_are_measured_where_they_are_few() {
        assert_eq!(taken(4_000_000, false), 250);
        assert_eq!(taken(200_000, true), 5000);
    }

    #[test]
    fn so_many_a_second_are_measured_where_they_are_many() {
        let saved = |costs| SAVED_NS / costs;
        assert!((250..=250 + saved(SHORT_NS)).contains(&taken(5_000, false)));
        assert!((10_000..=10_000 + saved(LONG_NS)).contains(&taken(5_000, true)));
    }

    #[test]
    fn so_many_a_second_are_weighed() {
        let mut sampling = Sampling::default();
        let taken = (0..SECOND / 5000).filter(|call| sampling.weighs(SECOND + call * 5000)).count() as u64;
        assert!((250..=250 + SAVED_NS / WEIGHED_NS).contains(&taken));
    }

    #[test]
    fn a_crowd_of_long_ones_after_a_pause_is_measured() {
        let mut sampling = Sampling::default();
        let taken = (0..10_000).filter(|call| sampling.takes(SECOND + call, || true)).count() as u64;
        assert_eq!(taken, SAVED_NS / LONG_NS);
    }
}
