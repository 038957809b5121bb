//! Requests that compute run apart, in one worker of several, so that all others find the rest of them free: when that is so.
//!
//! Knows: what each worker has done of late, as figures. Does not know: connections, or how requests get there (`share/apart.rs`). No
//! time, no state but the figures: what is decided follows from them.
//!
//! Where views that compute come to all workers alike, each short request has a chance to meet one, and waits for turns of the
//! interpreter. Where one worker takes them, one after the other, nobody does but they; it costs them some waiting, and the
//! others a worker. So it is done while they need no more than half of one, while the others need no more than half of the
//! rest, and while those are many.

use wire::Millis;

/// So often figures are taken together, ...
pub const WINDOW_MS: Millis = 1_000;
/// ... of which so many eighths stay each time: they tell of the last eight seconds or so.
const KEPT: u64 = 7;
/// All shares are of so many parts of one interpreter.
const PARTS: u64 = 1_000;
/// In so many seconds calls are counted.
const CALLS_IN: u64 = 10;
/// Runs apart what needs so much of an interpreter, ...
const LEAST: u64 = 50;
/// ... and no more than this, ...
const MOST: u64 = 500;
/// ... where the others need no more than this of each of the other workers, ...
const REST: u64 = 500;
/// ... and are so many times as many, ...
const OTHERS: u64 = 8;
/// ... and so many a second.
const OTHERS_A_SECOND: u64 = 20;
/// It ends where there is so little of it, ...
const STILL_LEAST: u64 = 20;
/// ... or more than this, or of the others, ...
const STILL_MOST: u64 = 700;
/// ... or they are fewer than so many times as many, ...
const STILL_OTHERS: u64 = 4;
/// ... or than so many a second.
const STILL_OTHERS_A_SECOND: u64 = 5;
/// After so many windows that fit it begins.
pub const BEGINS_AFTER: u32 = 3;
/// After so many it is looked whether those that compute do come.
pub const COME_AFTER: u32 = 4;

/// What one worker does, as it tells the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// It takes the requests that compute, ...
    pub is_apart: bool,
    /// ... and one more now.
    pub takes: bool,
    /// What its calls that compute use of a processor, in thousandths.
    pub computed: u64,
    /// What its process has used beside that in the last window: more of it is to be seen soon.
    pub rest: u64,
    /// How many of those calls there are in ten seconds, ...
    pub calls: u64,
    /// ... and other requests in one.
    pub others: u64,
}

/// Their places in one number, above the lowest bits, which are somebody else's (`rows.rs`): how many bits each has.
const BITS: [u32; 6] = [10, 10, 10, 12, 1, 1];
/// Where the first of them begins.
pub const LOW_BITS: u32 = 20;

impl Share {
    /// As one number; what does not fit is as much as fits.
    pub fn packed(self) -> u64 {
        let flags = [u64::from(self.takes), u64::from(self.is_apart)];
        let parts = [self.computed, self.rest, self.calls, self.others, flags[0], flags[1]];
        let mut place = LOW_BITS;
        let mut packed = 0;
        for (part, bits) in parts.into_iter().zip(BITS) {
            packed |= part.min((1 << bits) - 1) << place;
            place += bits;
        }
        packed
    }

    /// What [`Share::packed`] has told, whatever the lowest bits are.
    pub fn told(packed: u64) -> Self {
        let mut place = LOW_BITS;
        let [computed, rest, calls, others, takes, is_apart] = BITS.map(|bits| {
            let part = packed >> place & ((1 << bits) - 1);
            place += bits;
            part
        });
        Self { is_apart: is_apart == 1, takes: takes == 1, computed, rest, calls, others }
    }
}

/// What one worker has done of late.
#[derive(Debug, Default)]
pub struct Figures {
    elapsed_ms: u64,
    computed_us: u64,
    calls: u64,
    others: u64,
    rest: u64,
}

impl Figures {
    /// A window is over. `calls`: that compute, and have used so many microseconds of processors; the whole process has used
    /// `used_us`, and answered so many other requests.
    pub fn add(&mut self, elapsed_ms: Millis, (calls, computed_us): (u64, u64), used_us: u64, others: u64) {
        self.rest = used_us.saturating_sub(computed_us) * PARTS / 1000 / elapsed_ms.max(1);
        let news = [elapsed_ms, computed_us, calls * 8, others * 8];
        let kept = [&mut self.elapsed_ms, &mut self.computed_us, &mut self.calls, &mut self.others];
        for (kept, new) in kept.into_iter().zip(news) {
            *kept = *kept * KEPT / 8 + new;
        }
    }

    /// The same as others are told of it.
    pub fn share(&self) -> Share {
        let ms = self.elapsed_ms.max(1);
        let in_seconds = |counted: u64, seconds: u64| counted * seconds * 1000 / 8 / ms;
        Share {
            is_apart: false,
            takes: false,
            computed: self.computed_us * PARTS / 1000 / ms,
            rest: self.rest,
            calls: in_seconds(self.calls, CALLS_IN),
            others: in_seconds(self.others, 1),
        }
    }
}

/// What all workers of a server do together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Together {
    pub workers: u64,
    pub all: Share,
    /// What computes in the worker that asks.
    own_computed: u64,
}

impl Together {
    /// Of the shares of those that live, the first of which is of the one that asks.
    pub fn of(shares: impl Iterator<Item = Share>) -> Self {
        shares.fold(Self::default(), |mut sum, share| {
            if sum.workers == 0 {
                sum.own_computed = share.computed;
            }
            sum.workers += 1;
            sum.all.computed += share.computed;
            sum.all.rest += share.rest;
            sum.all.calls += share.calls;
            sum.all.others += share.others;
            sum
        })
    }

    /// What all but those that compute would use of each of the other workers.
    fn rest(&self) -> u64 {
        self.all.rest.checked_div(self.workers.saturating_sub(1)).unwrap_or(u64::MAX)
    }

    /// True: what computes is better off apart.
    pub fn fits(&self) -> bool {
        (LEAST..=MOST).contains(&self.all.computed)
            && self.rest() <= REST
            && self.all.others >= OTHERS_A_SECOND
            && self.all.others * CALLS_IN >= self.all.calls * OTHERS
    }

    /// True: it still is, where it has begun so many windows ago.
    pub fn still_fits(&self, windows: u32) -> bool {
        (STILL_LEAST..=STILL_MOST).contains(&self.all.computed)
            && self.rest() <= STILL_MOST
            && self.all.others >= STILL_OTHERS_A_SECOND
            && self.all.others * CALLS_IN >= self.all.calls * STILL_OTHERS
            && self.comes(windows)
    }

    /// False: what computes does not come here, so that the others do without this worker for nothing.
    pub fn comes(&self, windows: u32) -> bool {
        windows < COME_AFTER || self.own_computed * 2 >= self.all.computed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share =
        Share { is_apart: false, takes: true, computed: 200, rest: 150, calls: 50, others: 300 };

    fn two(share: Share) -> Together {
        Together::of([share, share].into_iter())
    }

    #[test]
    fn a_share_is_told_as_one_number_and_what_does_not_fit_is_as_much_as_fits() {
        for share in [Share::default(), SHARE, Share { is_apart: true, ..SHARE }] {
            assert_eq!(Share::told(share.packed()), share);
            assert_eq!(
                Share::told(share.packed() | ((1 << LOW_BITS) - 1)),
                share,
                "what is below is another's"
            );
            assert_eq!(share.packed() & ((1 << LOW_BITS) - 1), 0);
        }
        let much = Share { is_apart: true, computed: 1023, rest: 1023, calls: 1023, others: 4095, ..SHARE };
        let more = Share { is_apart: true, computed: 1024, rest: 9999, calls: 1024, others: 4096, ..SHARE };
        assert_eq!((Share::told(much.packed()), Share::told(more.packed())), (much, much));
        assert_eq!(BITS.iter().sum::<u32>() + LOW_BITS, 64);
    }

    #[test]
    fn figures_are_of_the_last_eight_seconds_and_right_from_the_first_window_on() {
        let mut figures = Figures::default();
        for windows in 0..40 {
            figures.add(1_000, (5, 200_000), 350_000, 300);
            let Share { computed, rest, calls, others, .. } = figures.share();
            let near = |found: u64, right: u64| found.abs_diff(right) <= 1;
            let right = near(computed, 200) && near(rest, 150) && near(calls, 50) && near(others, 300);
            assert!(right, "{windows}: {:?}", figures.share());
        }
        figures.add(1_000, (0, 0), 900_000, 0);
        let Share { computed, rest, .. } = figures.share();
        assert!(
            (174..=176).contains(&computed) && rest == 900,
            "the rest is that of the last second: {computed} {rest}"
        );
        figures.add(3_600_000, (0, 0), 0, 0);
        assert_eq!(figures.share(), Share::default(), "nothing has happened for an hour");
    }

    #[test]
    fn what_computes_runs_apart_where_it_needs_no_more_than_half_a_worker_and_no_less_than_a_twentieth() {
        for (computed, fits) in [(24, false), (25, true), (250, true), (251, false)] {
            assert_eq!(two(Share { computed, ..SHARE }).fits(), fits, "{computed} of each");
        }
        for (computed, still) in [(9, false), (10, true), (350, true), (351, false)] {
            assert_eq!(two(Share { computed, ..SHARE }).still_fits(0), still, "{computed}");
        }
    }

    #[test]
    fn and_where_the_others_need_no_more_than_half_of_the_rest() {
        for (workers, rest, fits) in
            [(2, 250, true), (2, 251, false), (4, 375, true), (4, 376, false), (1, 100, false)]
        {
            let share = Share { rest, computed: 400 / workers, ..SHARE };
            let together = Together::of((0..workers).map(|_| share));
            assert_eq!(together.fits(), fits, "{workers} workers, {rest} of each");
        }
        for (rest, still) in [(350, true), (351, false)] {
            assert_eq!(two(Share { rest, ..SHARE }).still_fits(0), still, "{rest}");
        }
    }

    #[test]
    fn and_where_the_others_are_many() {
        for (others, calls, fits, still) in [
            (9, 1, false, true),
            (10, 1, true, true),
            (2, 1, false, false),
            (3, 1, false, true),
            (40, 50, true, true),
            (39, 50, false, true),
            (20, 50, false, true),
            (19, 50, false, false),
        ] {
            let together = two(Share { others, calls, ..SHARE });
            assert_eq!((together.fits(), together.still_fits(0)), (fits, still), "{others} beside {calls}");
        }
    }

    #[test]
    fn it_ends_where_those_that_compute_do_not_come() {
        for (here, windows, still) in [(200, 99, true), (199, 99, false), (0, 4, false), (0, 3, true)] {
            let own = Share { computed: here, ..SHARE };
            let together = Together::of([own, SHARE].into_iter());
            assert_eq!(
                together.still_fits(windows),
                still,
                "{here} here and 200 elsewhere, {windows} windows"
            );
        }
    }
}
