//! What all workers have counted, in a few numbers: for who looks each second.
//!
//! Knows: which parts of a block have them, and how they are added up. Does not know: what becomes of them. A hundredth of
//! what a [`Snapshot`](super::snapshot::Snapshot) reads; names are not looked at.

use std::io;

use super::histogram::Histogram;
use super::layout::{BLOCKS, COUNTERS, META, Meta, RETIRED, Word, load};
use super::phase::Phase;
use super::segment::Segment;
use super::snapshot::at_rest;
use super::{layout, series};
use crate::counters;

/// These numbers, of workers that live and of those that are dead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that have ended, and those of them that have failed.
    pub requests: u64,
    pub failed: u64,
    /// How long they took.
    pub total: Histogram,
    /// By the places of `counters::names`.
    pub counters: Vec<u64>,
    /// Rows of those that live.
    pub rows: Vec<usize>,
}

impl Totals {
    /// Reads them.
    ///
    /// # Errors
    /// As `Snapshot::read`.
    pub fn read(segment: &Segment) -> io::Result<Self> {
        at_rest(segment, || Self::read_once(segment))
    }

    fn read_once(segment: &Segment) -> io::Result<Self> {
        let mut all = Self { counters: vec![0; counters::COUNT], ..Self::default() };
        for block in 0..segment.used().min(BLOCKS) {
            let words = segment.block(block)?;
            if block != RETIRED {
                if load(&words[META + Meta::Pid as usize]) == 0 {
                    continue;
                }
                all.rows.push(block - 1);
            }
            all.add(words);
        }
        Ok(all)
    }

    fn add(&mut self, words: &[Word]) {
        self.requests += load(&words[META + Meta::Ended as usize]);
        self.failed += series::failed(words);
        self.total.add(words, Phase::Total as usize);
        let counted = &words[COUNTERS..COUNTERS + layout::COUNTERS_COUNT];
        self.counters.iter_mut().zip(counted).for_each(|(sum, word)| *sum += load(word));
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::add;
    use super::super::played::{Worker, head, segment};
    use super::super::snapshot::Snapshot;
    use super::*;

    #[test]
    fn they_are_those_of_the_whole_while_a_worker_lives_and_when_it_is_dead() {
        let (segment, mut worker) = (segment(), Worker::default());
        for (number, status) in [200, 500, 404, 503, 200].into_iter().enumerate() {
            let head = head("GET /a");
            let times = worker.answers(&head, 1000 << (4 * number));
            worker.counts(&head, &times, status);
        }
        worker.statistics.looks();
        segment.take(0);
        let block = segment.block(1).expect("a block");
        block.iter().zip(worker.words).for_each(|(to, from)| add(to, load(from)));
        add(&block[META + Meta::Pid as usize], 1);
        for rows in [vec![0], vec![]] {
            let (few, all) = (Totals::read(&segment).expect("a few"), Snapshot::read(&segment).expect("all"));
            assert_eq!((few.requests, few.failed), (all.meta(Meta::Ended), all.failures().1), "{rows:?}");
            assert_eq!((few.requests, few.failed), (5, 2));
            assert_eq!((&few.counters, &few.total), (&all.counters, &all.phases[Phase::Total as usize]));
            assert_eq!(few.rows, rows);
            segment.fold(0, (1, 0), || ()).expect("it is added");
        }
    }
}
