//! The phases of all requests that have ended, as distributions.
//!
//! Knows: sums, buckets, and how many requests have ended since the last look at the kernel. Does not know: when a request
//! ended, or why. To find four buckets takes as long as a tenth of the server's part of a pipelined request. So of a burst,
//! which are more than a few requests between two looks, one in seven stands for all seven in the buckets: sums and counts are
//! those of all requests even so, and before the next look nothing is left out.

use super::histogram::{self, Scale};
use super::layout::Block;
use super::phase::Parts;

/// A burst begins behind so many requests.
const FEW: u64 = 4;
/// One in so many of it is looked at. Batches are of sixteen: no place in them is always the one.
const EVERY: u64 = 7;

/// What has been left out so far.
#[derive(Default)]
pub struct Bursts {
    /// Requests since the last look.
    ended: u64,
    /// Those that are in no bucket yet, and the last of them.
    unseen: u64,
    last: Parts,
}

impl Bursts {
    /// A request has ended that was begun.
    #[inline]
    pub fn add(&mut self, (scale, words): (&Scale, &Block), parts: &Parts) {
        for (phase, ns) in parts.phases() {
            histogram::sum(words, phase, ns);
        }
        if self.looks_at_next() {
            self.see((scale, words), parts);
        } else {
            self.last = *parts;
        }
    }

    /// Many requests have ended together: there is a burst.
    #[inline]
    pub fn begin(&mut self) {
        self.ended = self.ended.max(FEW);
    }

    /// These have ended together, and are summed up: some of them are looked at.
    pub fn see_some<T>(&mut self, at: (&Scale, &Block), all: &[T], parts: impl Fn(&T) -> Parts) {
        let mut rest = all;
        // The first few one by one; then there are as many between two of them as there always are.
        while self.ended < FEW
            && let Some((one, others)) = rest.split_first()
        {
            self.looks_at_next();
            self.see(at, &parts(one));
            rest = others;
        }
        self.ended += rest.len() as u64;
        let next = |unseen: u64| (EVERY - 1).saturating_sub(unseen) as usize;
        while let Some((one, others)) = rest.get(next(self.unseen)..).and_then(<[T]>::split_first) {
            self.unseen = EVERY;
            self.see(at, &parts(one));
            rest = others;
        }
        self.unseen += rest.len() as u64;
    }

    /// A request has ended that is summed up with others: whether it is the one that is looked at.
    #[inline]
    pub fn looks_at_next(&mut self) -> bool {
        self.ended += 1;
        self.unseen += 1;
        self.ended <= FEW || self.unseen >= EVERY
    }

    /// All of those, and the last of them.
    pub fn passed(&mut self, words: &Block, (all, last): (&Parts, &Parts)) {
        for (phase, ns) in all.phases() {
            histogram::sum(words, phase, ns);
        }
        self.last = *last;
    }

    /// This one stands for all that are in no bucket yet.
    pub fn see(&mut self, (scale, words): (&Scale, &Block), parts: &Parts) {
        for (phase, ns) in parts.phases() {
            histogram::count(scale, words, phase, (ns, self.unseen));
        }
        self.unseen = 0;
    }

    /// The kernel is about to be looked at: a burst is over, and nobody knows when there is another request.
    #[inline]
    pub fn end(&mut self, at: (&Scale, &Block)) {
        self.ended = 0;
        if self.unseen > 0 {
            let last = self.last;
            self.see(at, &last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::{Histogram, scale};
    use super::super::phase::Phase;
    use super::*;
    use crate::statistics::played::words;

    /// All that is known of the application's times after what has ended between two looks.
    fn between_looks(ends: impl FnOnce(&mut Bursts, (&Scale, &Block))) -> Histogram {
        let words = words();
        let at = (scale(), words.first_chunk().expect("a block"));
        let mut bursts = Bursts::default();
        ends(&mut bursts, at);
        bursts.end(at);
        let mut read = Histogram::default();
        read.add(&words, Phase::App as usize);
        read
    }

    /// The time of a request, each of which took a microsecond more than the one before.
    fn parts(request: &u64) -> Parts {
        Parts { app: request * 1000, ..Parts::default() }
    }

    /// So many of them have ended one by one.
    fn burst(requests: u64) -> Histogram {
        between_looks(|bursts, at| (1..=requests).for_each(|request| bursts.add(at, &parts(&request))))
    }

    #[test]
    fn all_are_counted_and_summed_up_once_the_burst_is_over() {
        for requests in 0..100 {
            let read = burst(requests);
            assert_eq!(
                (read.count(), read.sum),
                (requests, requests * (requests + 1) / 2 * 1000),
                "{requests}"
            );
        }
    }

    /// The same requests, of which some have ended together with others.
    fn in_parcels(sizes: &[u64]) -> Histogram {
        between_looks(|bursts, at| {
            let mut requests = 0;
            for size in sizes {
                let all: Vec<u64> = (requests + 1..=requests + size).collect();
                requests += size;
                bursts.see_some(at, &all, parts);
                let app = all.iter().sum::<u64>() * 1000;
                bursts.passed(at.1, (&Parts { app, ..Parts::default() }, &parts(&requests)));
            }
        })
    }

    #[test]
    fn whether_they_have_ended_together_makes_no_difference() {
        let parcels: [&[u64]; 7] =
            [&[1], &[3, 1], &[20], &[5, 5, 5, 5], &[1, 16, 2, 7, 8], &[7, 7, 7], &[100, 1, 1, 300]];
        for sizes in parcels {
            let (together, single) = (in_parcels(sizes), burst(sizes.iter().sum()));
            assert_eq!((together.count(), together.sum), (single.count(), single.sum), "{sizes:?}");
            for share in [0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
                assert_eq!(together.quantile(share), single.quantile(share), "{share} of {sizes:?}");
            }
        }
    }

    #[test]
    fn a_few_are_all_looked_at() {
        assert_eq!(burst(FEW).quantile(0.25), burst(1).quantile(1.0));
        assert_eq!(burst(FEW).quantile(0.75), burst(3).quantile(1.0));
    }

    #[test]
    fn a_burst_has_the_distribution_of_its_requests() {
        let read = burst(1000);
        for (share, expected) in [(0.25, 250_000), (0.5, 500_000), (0.95, 950_000)] {
            let found = read.quantile(share).expect("some");
            assert!(found.abs_diff(expected) * 20 <= expected, "{share}: {found}");
        }
    }
}
