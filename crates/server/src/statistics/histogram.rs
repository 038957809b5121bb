//! Distributions of times: sixteen buckets for each doubling, and the bounds of OpenTelemetry among theirs.
//!
//! Knows: nanoseconds and buckets. Does not know: what is measured. One thread writes, anybody reads.
//!
//! The buckets are those of an exponential histogram of scale 4 (base 2^(1/16)) from 2^-20 to 2^9 seconds: the ends of
//! one are 4.4 % apart, so that a quantile is as near wherever in it the times were. Prometheus takes them to be spread over
//! the whole bucket, and with eight of them for a doubling found one by up to 9 % wrong where all were at an end of it. A bucket that one of the fourteen bounds of `http.server.request.duration` lies in is two, so
//! that what is at most as long as a bound is known exactly. All bounds belong to the bucket below them, as in Prometheus.

use std::num::NonZeroU64;
use std::sync::OnceLock;

use super::layout::{self, HISTOGRAM, STRIDE, Word, add, load};
use super::phase::Phase;

/// The upper bounds that OpenTelemetry's conventions give for durations of requests, in nanoseconds.
pub const BOUNDS: [u64; 14] = [
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    75_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    750_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    7_500_000_000,
    10_000_000_000,
];
/// Each doubling has so many buckets, to the power of two.
pub const SCALE: i32 = 4;
const STEPS: usize = 1 << SCALE;
/// The doublings: from 2^LOW seconds to 2^HIGH.
const LOW: i32 = -20;
/// The end of the first bucket, which begins at zero.
pub const ZERO_SECONDS: f64 = 1.0 / (1 << -LOW) as f64;
/// The longest time of the first bucket, in nanoseconds.
const SHORT_NS: u64 = 1_000_000_000 >> -LOW;
const HIGH: i32 = 9;
/// Where the buckets of all doublings end.
const ENDS: usize = (HIGH - LOW) as usize * STEPS + 1;
/// Steps of doublings of a nanosecond that are below the first bucket's end.
const BELOW: usize = 158;
/// The steps of a doubling are looked up by the bits behind the highest one, which leave one or the next.
const BITS: u32 = 6;

/// Where buckets end.
pub struct Scale {
    /// The longest time of each bucket, in nanoseconds; the last has no end.
    upper: [u64; HISTOGRAM],
    /// Where steps end within each doubling, as numbers whose highest bit is set; then none.
    marks: [u64; 2 * STEPS],
    /// For the highest bit and those behind it: the step of the shortest time that has them.
    first: [u8; 2 << BITS],
    /// Of [`BOUNDS`] those that are not the end of a step anyway.
    between: Vec<u64>,
}

/// The end of a step, in nanoseconds. The same in all doublings but for a power of two, so that none is rounded otherwise.
fn end(step: i32) -> f64 {
    let steps = STEPS as i32;
    (f64::from(step.rem_euclid(steps)) / f64::from(steps)).exp2()
        * 1e9
        * f64::from(step.div_euclid(steps)).exp2()
}

impl Scale {
    fn new() -> Self {
        let steps = STEPS as i32;
        let grid: Vec<u64> = (LOW * steps..=HIGH * steps).map(|step| end(step) as u64).collect();
        let between: Vec<u64> = BOUNDS.into_iter().filter(|bound| !grid.contains(bound)).collect();
        let mut ends = [grid.as_slice(), &between].concat();
        ends.sort_unstable();
        let mut upper = [u64::MAX; HISTOGRAM];
        upper[..ends.len()].copy_from_slice(&ends);
        // A number whose highest bit is set is 2^63 of a doubling and more.
        let highest = 1_u64 << 63;
        let mut marks = [u64::MAX; 2 * STEPS];
        for (mark, step) in marks.iter_mut().zip(0..steps) {
            let part = end(step) / end(step).log2().floor().exp2();
            *mark = (part * highest as f64) as u64;
        }
        marks[..STEPS].sort_unstable();
        let mut first = [0; 2 << BITS];
        for (cell, first) in first.iter_mut().enumerate() {
            let shortest = (cell as u64) << (63 - BITS);
            *first = marks.iter().filter(|mark| **mark < shortest).count() as u8;
        }
        Self { upper, marks, first, between }
    }

    /// How many steps of doublings end below a time.
    #[inline]
    fn steps(&self, ns: NonZeroU64) -> usize {
        let high = ns.ilog2();
        // Its highest bit is the last one of these, too, and the bits behind that are looked up.
        let normal = ns.get() << (63 - high);
        let first = usize::from(self.first[(normal >> (63 - BITS)) as usize % (2 << BITS)]);
        high as usize * STEPS + first + usize::from(normal > self.marks[first % (2 * STEPS)])
    }

    /// The bucket of a time.
    #[inline]
    fn index(&self, ns: NonZeroU64) -> usize {
        let bucket = self.steps(ns).saturating_sub(BELOW);
        if ns.get() <= BOUNDS[0] { bucket } else { self.long(ns.get(), bucket) }
    }

    /// The same for one behind the first of those bounds, which come on top.
    fn long(&self, ns: u64, bucket: usize) -> usize {
        bucket.min(ENDS) + self.between.iter().take_while(|bound| **bound < ns).count()
    }
}

/// The one scale that there is.
pub fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(Scale::new)
}

/// Adds a time of a phase to their sum, in a block that nobody else writes.
#[inline]
pub fn sum(words: &[Word; STRIDE], phase: Phase, ns: u64) {
    add(&words[layout::SUMS + phase as usize], ns);
}

/// Counts a time of a phase for so many requests. The first buckets of all phases stand side by side: most requests wait for
/// nothing, and then it is one line of the cache that has most of what there is to count.
#[inline]
pub fn count(scale: &Scale, words: &[Word; STRIDE], phase: Phase, (ns, requests): (u64, u64)) {
    let place = match NonZeroU64::new(ns) {
        Some(ns) if ns.get() > SHORT_NS => {
            layout::PHASES + phase as usize * HISTOGRAM + scale.index(ns) % HISTOGRAM
        }
        _ => layout::SHORT + phase as usize,
    };
    add(&words[place], requests);
}

/// A distribution as exponential histograms have it, in which no bucket is two.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exponential {
    /// How many took [`ZERO_SECONDS`] at most.
    pub zero: u64,
    /// Those that have something, from below: by the place of each, 2^(place/16) seconds is its end.
    pub buckets: Vec<(i32, u64)>,
}

/// A distribution that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    /// Nanoseconds.
    pub sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; HISTOGRAM], sum: 0 }
    }
}

impl Histogram {
    /// Adds what a block has of a phase, by its place.
    pub fn add(&mut self, words: &[Word], phase: usize) {
        let from = layout::PHASES + phase * HISTOGRAM;
        for (count, word) in self.counts.iter_mut().zip(&words[from..from + HISTOGRAM]) {
            *count += load(word);
        }
        self.counts[0] += load(&words[layout::SHORT + phase]);
        self.sum += load(&words[layout::SUMS + phase]);
    }

    /// What has come since it was like that.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self
            .counts
            .iter()
            .zip(&earlier.counts)
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        Self { counts, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// How many times were counted: the sum of the buckets that were read, so that no bucket has more.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The buckets that have something: the longest time of each, in nanoseconds, and how many it has. The last one's
    /// time is that of the bucket below, as it has no end.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let upper = &scale().upper;
        let end = move |place: usize| match upper[place] {
            u64::MAX => place.checked_sub(1).map_or(0, |below| upper[below]),
            end => end,
        };
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(move |(place, count)| (end(place), *count))
    }

    /// The same, where the last one has the highest end that there is.
    pub(super) fn by_ends(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts
            .iter()
            .zip(&scale().upper)
            .filter(|(count, _)| **count > 0)
            .map(|(count, end)| (*end, *count))
    }

    /// The same without [`BOUNDS`]. What is in the last bucket, which has no end, is in the next step.
    pub fn exponential(&self) -> Exponential {
        let Scale { upper, between, .. } = scale();
        let mut all = Exponential::default();
        let mut place = LOW * STEPS as i32;
        for (count, end) in self.counts.iter().zip(upper) {
            match all.buckets.last_mut() {
                _ if *count == 0 => {}
                _ if place == LOW * STEPS as i32 => all.zero += count,
                Some((last, sum)) if *last == place => *sum += count,
                _ => all.buckets.push((place, *count)),
            }
            // Two buckets with a bound between them are one step.
            if !between.contains(end) {
                place += 1;
            }
        }
        all
    }

    /// How many took at most as long as each of [`BOUNDS`].
    pub fn below(&self) -> [u64; BOUNDS.len()] {
        BOUNDS.map(|bound| self.counts.iter().take(bucket_of(bound) + 1).sum())
    }

    /// The time that this share of all took at most, in nanoseconds, within the error of a bucket; none of nothing.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted && count > &0
        })?;
        Some(middle(found))
    }
}

/// The bucket of any time.
pub(super) fn bucket_of(ns: u64) -> usize {
    NonZeroU64::new(ns).map_or(0, |ns| scale().index(ns))
}

/// A time in the middle of a bucket, as far as it has an end.
fn middle(index: usize) -> u64 {
    let upper = &scale().upper;
    match (index.checked_sub(1).map_or(0, |below| upper[below]), upper[index]) {
        (below, u64::MAX) => below,
        (below, end) => below + (end - below) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    fn observed(times: &[u64]) -> Histogram {
        let words = words();
        let block = words.first_chunk().expect("a block");
        for ns in times {
            sum(block, Phase::App, *ns);
            count(scale(), block, Phase::App, (*ns, 1));
        }
        let mut read = Histogram::default();
        read.add(&words, Phase::App as usize);
        read
    }

    #[test]
    fn a_time_is_in_one_bucket_and_longer_ones_are_in_no_earlier_one() {
        let upper = &scale().upper;
        let mut last = 0;
        let mut ns = 1_u64;
        while ns < 2_000_000_000_000 {
            let index = bucket_of(ns);
            assert!(index == last || index == last + 1, "{ns}: {index} after {last}");
            assert!(ns <= upper[index], "{ns} is longer than its bucket");
            assert!(index == 0 || ns > upper[index - 1], "{ns} is in a later one");
            last = index;
            ns += 1 + ns / 2000;
        }
        assert_eq!(bucket_of(u64::MAX), last, "the last bucket is for all that is longer");
        assert!(last < HISTOGRAM);
    }

    #[test]
    fn the_first_bucket_is_all_that_is_below() {
        assert_eq!(scale().upper[0], SHORT_NS);
        assert_eq!(scale().steps(NonZeroU64::new(SHORT_NS).expect("some")), BELOW);
    }

    #[test]
    fn buckets_end_where_they_say() {
        let ends: Vec<u64> = scale().upper.iter().copied().filter(|end| *end != u64::MAX).collect();
        assert_eq!(ends.len(), ENDS + 11, "three of OpenTelemetry's bounds are powers of two of a second");
        for (place, end) in ends.into_iter().enumerate() {
            assert_eq!([end - 1, end, end + 1].map(bucket_of), [place, place, place + 1], "{end}");
        }
    }

    #[test]
    fn as_long_as_a_bound_is_below_it_and_a_nanosecond_more_is_not() {
        for (place, bound) in BOUNDS.into_iter().enumerate() {
            for (ns, inside) in [(bound - 1, 1), (bound, 1), (bound + 1, 0)] {
                let read = observed(&[ns]);
                assert_eq!((read.below()[place], read.count(), read.sum), (inside, 1, ns), "{ns}");
            }
        }
    }

    #[test]
    fn what_took_no_time_is_counted() {
        let read = observed(&[0, 0, 7, SHORT_NS, SHORT_NS + 1]);
        assert_eq!((read.count(), read.sum, read.below()[0]), (5, 2 * SHORT_NS + 8, 5));
        assert_eq!(read.filled().map(|one| one.1).collect::<Vec<_>>(), [4, 1]);
    }

    #[test]
    fn buckets_that_have_something_are_told_with_their_ends() {
        let found = observed(&[0, 3_000_000, 3_000_001, u64::MAX]);
        let filled: Vec<_> = found.filled().collect();
        assert_eq!(filled.iter().map(|one| one.1).collect::<Vec<_>>(), [1, 2, 1]);
        assert!(filled[1].0 > 3_000_000 && filled[1].0 < 3_150_000, "{filled:?}");
        assert_eq!(filled[2].0, 512_000_000_000, "the last has no end, and tells the one below");
    }

    #[test]
    fn steps_of_doublings_are_told_without_the_bounds_among_them() {
        // 5 ms lies within the step that ends at 2^(-122/16) s.
        let found =
            observed(&[0, 900, 960, 4_900_000, 5_000_000, 5_000_001, 1_000_000_000, u64::MAX]).exponential();
        let buckets = vec![(-319, 1), (-122, 3), (0, 1), (145, 1)];
        assert_eq!(found, Exponential { zero: 2, buckets });
        for ns in [1_000, 30_000, 1_234_567, 50_000_000, 51_000_000, 9_000_000_000_u64] {
            let [(place, 1)] = observed(&[ns]).exponential().buckets[..] else {
                panic!("{ns} is in no bucket")
            };
            let end = (f64::from(place) / 16.0).exp2() * 1e9;
            assert!(ns as f64 <= end && ns as f64 > end / 2_f64.powf(0.0625), "{ns} is not below {end}");
        }
        assert_eq!(Histogram::default().exponential(), Exponential::default());
    }

    #[test]
    fn whoever_reads_a_bucket_as_either_of_its_ends_is_wrong_by_less_than_a_twentieth() {
        // As Prometheus does of the first and the last of times that were all alike.
        let ends: Vec<u64> = scale().upper.iter().copied().filter(|end| *end != u64::MAX).collect();
        for pair in ends.windows(2) {
            assert!((pair[1] - 1) * 1000 <= pair[0] * 1045, "{pair:?}, and one as times are whole");
        }
    }

    #[test]
    fn a_quantile_is_right_within_the_error_of_a_bucket() {
        for ns in [2_000, 30_000, 1_234_567, 50_000_000, 51_000_000, 9_000_000_000] {
            let found = observed(&[ns; 100]).quantile(0.99).expect("something was counted");
            assert!(found.abs_diff(ns) * 100 <= ns * 3, "{ns} was read as {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
