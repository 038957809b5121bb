//! The rule: which routes are slow beside which others, and how many threads are kept for the quick ones.
//!
//! Knows: how long calls of each route have a thread, and how many threads there are. Does not know: requests, clocks,
//! or who asks. A pure function of a window of figures.
//!
//! Threads are kept for short work and may idle: with work whose lengths lie far apart that costs the long little and
//! saves the short everything (DARC: Demoulin et al., "When Idling is Ideal", SOSP 2021). Where the lengths do not lie
//! far apart nothing is kept, and everybody waits in one queue.

use super::Lane;

/// Microseconds.
pub type Micros = u64;

/// Nobody is kept waiting by calls that are shorter than this.
pub const SLOW_US: Micros = 5_000;
/// With fewer threads none can be spared.
pub const FEWEST_THREADS: u32 = 4;
/// Slow calls take so many times as long as quick ones, on average, ...
const APART: f64 = 8.0;
/// ... and no less than this once they are told apart.
const STILL_APART: f64 = 4.0;
/// A gap between routes that is so many times as wide as the one they are told apart at takes its place.
const CLEARER: f64 = 2.0;
/// Shorter calls hardly wait for anything: the thread that leads does one after the other, and more threads would only
/// wait for the interpreter.
const WAITS_US: Micros = 200;
/// No more than one thread in so many is kept.
const SHARE: u32 = 4;

/// What is known of one route.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// How long a call has a thread, on average.
    pub mean_us: Micros,
    /// Calls that the average is made of, at least one.
    pub calls: u32,
    /// Threads that have been inside at a time, on average.
    pub busy: f64,
}

/// Where routes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Calls of a slow route take so long or longer, on average.
    pub at_us: Micros,
    /// Threads that are kept for the others.
    pub reserve: u32,
    /// Some of the slow ones take much longer than the others.
    pub long: Option<Long>,
}

/// Where those are told apart that take much longer than other slow ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// Their calls take so long or longer, on average.
    pub at_us: Micros,
    /// Threads that are kept from them, for the other slow ones.
    pub reserve: u32,
}

impl Split {
    /// Where a slow request waits whose calls take so long.
    pub fn lane_of(&self, mean_us: Micros) -> Lane {
        match self.long {
            Some(long) if mean_us >= long.at_us => Lane::Long,
            _ => Lane::Slow,
        }
    }
}

/// A place between two routes next to one another in length.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Routes below it.
    place: usize,
    /// How many times as long the next route's calls are as the last one's.
    jump: f64,
    /// How many times as long all calls above are as all below, on average.
    apart: f64,
}

/// Tells routes apart, which are sorted by it; none where that is for nothing. `before`: what was found the last
/// time, which stays while it still fits.
pub fn split(figures: &mut [Figure], threads: u32, before: Option<Split>) -> Option<Split> {
    if threads < FEWEST_THREADS {
        return None;
    }
    figures.sort_unstable_by_key(|figure| figure.mean_us);
    let (place, at_us, long) = boundaries(figures, before)?;
    let long = long.map(|(end, at_us)| Long { at_us, reserve: reserve(&figures[place..end], threads) });
    Some(Split { at_us, reserve: reserve(&figures[..place], threads), long })
}

/// How many routes are below a boundary, and from which length on others are above.
type Boundary = (usize, Micros);

/// The one below which routes are quick, and that from which on they take much longer than other slow ones, if there is one.
fn boundaries(figures: &[Figure], before: Option<Split>) -> Option<(usize, Micros, Option<Boundary>)> {
    let (quickest, slowest) = (figures.first()?.mean_us, figures.last()?.mean_us);
    if slowest < SLOW_US {
        return None;
    }
    let [at, long_at] =
        [before.map(|before| before.at_us), before.and_then(|before| before.long).map(|long| long.at_us)];
    if quickest >= SLOW_US {
        // Whatever comes next and is quick is told apart from these at once.
        return Some((0, SLOW_US, boundary(figures, long_at)));
    }
    // The widest gap first: what is below and above it may lie far apart as well.
    let (place, at_us) = boundary(figures, at)?;
    if let Some((end, long_us)) = boundary(&figures[place..], long_at) {
        return Some((place, at_us, Some((place + end, long_us))));
    }
    Some(match boundary(&figures[..place], at) {
        Some((lower, lower_us)) => {
            let before = boundary(figures, long_at).filter(|(end, _)| *end > lower);
            (lower, lower_us, before.or(Some((place, at_us))))
        }
        None => (place, at_us, None),
    })
}

/// Where routes lie far apart, of which the upper ones are slow. `before`: where they were told apart the last time.
fn boundary(figures: &[Figure], before: Option<Micros>) -> Option<Boundary> {
    let gaps = gaps(figures);
    let widest = gaps
        .iter()
        .filter(|gap| gap.apart >= APART && figures[gap.place].mean_us >= SLOW_US)
        .reduce(|widest, gap| if gap.jump > widest.jump { gap } else { widest });
    if let Some(before) = before {
        let place = figures.partition_point(|figure| figure.mean_us < before);
        let kept = gaps.iter().find(|gap| gap.place == place && gap.apart >= STILL_APART);
        if let Some(kept) = kept
            && !widest.is_some_and(|widest| widest.jump >= CLEARER * kept.jump)
        {
            return Some((place, before));
        }
    }
    let place = widest?.place;
    let between = (figures[place - 1].mean_us.max(1) as f64 * figures[place].mean_us as f64).sqrt();
    Some((place, (between as Micros).max(SLOW_US)))
}

/// Every place between two routes; they are sorted.
fn gaps(figures: &[Figure]) -> Vec<Gap> {
    let sums = |(time, calls): (f64, f64), figure: &Figure| {
        (time + figure.mean_us.max(1) as f64 * f64::from(figure.calls), calls + f64::from(figure.calls))
    };
    let all = figures.iter().fold((0.0, 0.0), sums);
    let mut below = (0.0, 0.0);
    let mut gaps = Vec::with_capacity(figures.len());
    for (place, pair) in figures.windows(2).enumerate() {
        below = sums(below, &pair[0]);
        let above = (all.0 - below.0, all.1 - below.1);
        gaps.push(Gap {
            place: place + 1,
            jump: pair[1].mean_us as f64 / pair[0].mean_us.max(1) as f64,
            apart: (above.0 / above.1) / (below.0 / below.1),
        });
    }
    gaps
}

/// How many threads are kept for these: as many as they need almost always, were each call to come by chance (the
/// square-root rule of staffing), one at least and a quarter of all at the most.
fn reserve(quick: &[Figure], threads: u32) -> u32 {
    if quick.is_empty() {
        return 0;
    }
    let waiting: f64 =
        quick.iter().filter(|figure| figure.mean_us >= WAITS_US).map(|figure| figure.busy).sum();
    ((waiting + 2.0 * waiting.sqrt()).ceil() as u32).clamp(1, threads / SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routes by the length of their calls, each called as often as the others, on one thread each.
    fn routes(means: &[Micros]) -> Vec<Figure> {
        means.iter().map(|&mean_us| Figure { mean_us, calls: 100, busy: 1.0 }).collect()
    }

    fn found(means: &[Micros], before: Option<Split>) -> Option<Split> {
        split(&mut routes(means), 32, before)
    }

    #[test]
    fn routes_are_told_apart_where_their_lengths_lie_far_apart() {
        for (means, at_us) in [
            (&[][..], None),
            (&[20], None),
            (&[20, 4_999], None),
            (&[20, 5_000], Some(5_000)),
            (&[50_000], Some(5_000)),
            (&[50_000, 3_000_000], Some(5_000)),
            (&[20, 50_000], Some(5_000)),
            (&[1_000, 3_000_000], Some(54_772)),
            (&[2_000, 15_900], None),
            (&[2_000, 16_000], Some(5_656)),
            (&[20, 6_000, 50_000], Some(5_000)),
            (&[20, 4_000, 400_000], Some(40_000)),
            (&[1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000], Some(5_656)),
            (&[4_000, 6_000, 8_000, 12_000], None),
        ] {
            assert_eq!(found(means, None).map(|split| split.at_us), at_us, "{means:?}");
        }
    }

    #[test]
    fn what_was_told_apart_stays_so_until_it_is_close_together() {
        let before = Some(Split { at_us: 10_000, reserve: 1, long: None });
        for (means, at_us) in [
            (&[4_000, 16_000][..], Some(10_000)),
            (&[4_100, 16_000], None),
            (&[20, 2_000, 50_000], Some(10_000)),
            (&[20, 12_000], Some(10_000)),
            (&[20, 9_999], Some(5_000)),
            (&[20, 9_000, 13_000], Some(5_000)),
            (&[20, 4_000], None),
        ] {
            assert_eq!(found(means, before).map(|split| split.at_us), at_us, "{means:?}");
        }
    }

    #[test]
    fn few_threads_are_not_divided() {
        for (threads, reserve) in
            [(1, None), (2, None), (3, None), (4, Some(1)), (7, Some(1)), (1024, Some(3))]
        {
            let split = split(&mut routes(&[1_000, 50_000]), threads, None);
            assert_eq!(split.map(|split| split.reserve), reserve, "{threads} threads");
        }
    }

    #[test]
    fn as_many_threads_are_kept_as_quick_calls_that_wait_need() {
        for (mean_us, busy, reserve) in [
            (20, 0.9, 1),
            (199, 4.0, 1),
            (200, 0.0, 1),
            (200, 0.1, 1),
            (200, 0.5, 2),
            (2_000, 1.0, 3),
            (2_000, 4.0, 8),
            (2_000, 30.0, 8),
        ] {
            let quick = Figure { mean_us, calls: 100, busy };
            let slow = Figure { mean_us: 50_000, calls: 100, busy: 20.0 };
            let split = split(&mut [slow, quick], 32, None);
            assert_eq!(split.map(|split| split.reserve), Some(reserve), "{mean_us} us, {busy} busy");
        }
    }

    #[test]
    fn nothing_is_kept_for_routes_that_nobody_has_seen() {
        assert_eq!(found(&[50_000, 70_000], None), Some(Split { at_us: SLOW_US, reserve: 0, long: None }));
    }

    #[test]
    fn a_slow_route_that_is_hardly_called_is_slow_all_the_same() {
        let often = Figure { mean_us: 20, calls: 1_000_000, busy: 1.0 };
        let rarely = Figure { mean_us: 30_000_000, calls: 1, busy: 0.1 };
        assert!(split(&mut [often, rarely], 32, None).is_some());
    }

    /// What is told apart among slow routes: from where on they are slow, from where on long, and for how many threads' sake.
    fn long(means: &[Micros], before: Option<Split>) -> Option<(Micros, Option<Micros>)> {
        found(means, before).map(|split| (split.at_us, split.long.map(|long| long.at_us)))
    }

    #[test]
    fn slow_routes_are_told_apart_from_those_that_take_much_longer() {
        for (means, told) in [
            (&[20_000, 1_000_000][..], Some((5_000, Some(141_421)))),
            (&[20, 20_000, 1_000_000], Some((5_000, Some(141_421)))),
            (&[1_000, 20_000, 5_000_000], Some((5_000, Some(316_227)))),
            (&[50_000, 399_000], Some((5_000, None))),
            (&[50_000, 400_000], Some((5_000, Some(141_421)))),
            (&[20, 50_000, 200_000], Some((5_000, None))),
            (&[20, 4_000, 400_000], Some((40_000, None))),
        ] {
            assert_eq!(long(means, None), told, "{means:?}");
        }
    }

    #[test]
    fn long_routes_stay_so_until_they_are_close_to_the_others() {
        let before = |at_us, long_us| {
            Some(Split { at_us, reserve: 1, long: Some(Long { at_us: long_us, reserve: 1 }) })
        };
        for (means, told) in [
            (&[20_000, 200_000][..], Some((5_000, Some(100_000)))),
            (&[20_000, 80_001], Some((5_000, None))),
            (&[50_000, 200_000], Some((5_000, Some(100_000)))),
            (&[51_000, 200_000], Some((5_000, None))),
            (&[20, 50_000, 200_000], Some((5_000, Some(100_000)))),
            (&[1_000, 20_000, 5_000_000], Some((5_000, Some(100_000)))),
        ] {
            let split = found(means, before(5_000, 100_000));
            assert_eq!(long(means, before(5_000, 100_000)), told, "{means:?}");
            assert_eq!(found(means, split), split, "what is said twice is said the same: {means:?}");
        }
    }

    #[test]
    fn threads_are_kept_for_slow_routes_beside_long_ones() {
        for (busy, reserve) in [(0.0, 1), (1.0, 3), (4.0, 8), (30.0, 8)] {
            let page = Figure { mean_us: 20_000, calls: 100, busy };
            let report = Figure { mean_us: 2_000_000, calls: 10, busy: 20.0 };
            let split = split(&mut [report, page], 32, None);
            assert_eq!(split.and_then(|split| split.long).map(|long| long.reserve), Some(reserve), "{busy}");
        }
    }

    #[test]
    fn a_slow_request_waits_by_how_long_it_takes() {
        let split = Split { at_us: 5_000, reserve: 1, long: Some(Long { at_us: 100_000, reserve: 1 }) };
        let lanes = [5_000, 99_999, 100_000].map(|mean_us| split.lane_of(mean_us));
        assert_eq!(lanes, [Lane::Slow, Lane::Slow, Lane::Long]);
        assert_eq!(Split { long: None, ..split }.lane_of(100_000), Lane::Slow);
    }
}
