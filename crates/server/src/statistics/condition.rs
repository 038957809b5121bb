//! The condition that a worker is in: what its interpreter's collector does, for how long its event loop was held up, and
//! for how long requests wait in which lane.
//!
//! Knows: some words of its block, and who writes them. Does not know: the interpreter, loops or queues. Any process reads.

use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::{forks, monotonic_ns};
use wire::Millis;

use super::layout::{
    GENERATIONS, HELD, HELD_COUNT, HELD_WATCHED, LANE_COUNT, LANES, OLDEST, PAUSE_BUCKETS, PAUSED, PAUSES,
    Word, add, load, store,
};

/// The collector has so many generations: 3.14 has given them other meanings, and the same numbers.
pub const GENERATION_COUNT: usize = 3;
/// The bounds of pauses, in nanoseconds: the young generation takes less than a millisecond, and who waits for more than ten
/// feels it.
pub const PAUSE_BOUNDS: [u64; PAUSE_BUCKETS - 1] =
    [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 100_000_000, 500_000_000, 1_000_000_000];
/// How requests wait, in the order of `lanes/queues.rs`: at the front, as nobody knows their routes, as those are slow, and
/// for others below the same path.
pub const LANE_NAMES: [&str; LANE_COUNT] = ["quick", "unknown", "slow", "limited"];

/// The collections of one worker. An interpreter collects once at a time, whichever of its threads it is that does: from
/// before it says so until it has said that it is over no other one begins (`collecting` in CPython's `gc.c`). So each of
/// these words has one writer at a time, and the interpreter's lock has whoever comes next see what was written.
pub struct Collections {
    words: &'static [Word],
    /// When the one began that is under way; zero: none is.
    began: AtomicU64,
    /// How many forks were behind the worker: a process that an application has forked shares that memory.
    born: u32,
}

impl Collections {
    pub fn new(words: &'static [Word]) -> Self {
        Self { words, began: AtomicU64::new(0), born: forks() }
    }

    /// One begins.
    pub fn begins(&self) {
        self.began.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// It is over.
    pub fn ends(&self, generation: usize) {
        let began = self.began.load(Ordering::Relaxed);
        self.began.store(0, Ordering::Relaxed);
        if began != 0 && self.born == forks() {
            count(self.words, generation, monotonic_ns().saturating_sub(began));
        }
    }
}

fn count(words: &[Word], generation: usize, ns: u64) {
    let bucket = PAUSE_BOUNDS.iter().take_while(|bound| **bound < ns).count();
    add(&words[PAUSED], ns);
    add(&words[PAUSES + bucket], 1);
    add(&words[GENERATIONS + generation.min(GENERATION_COUNT - 1)], 1);
}

/// Collections that were counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    pub generations: [u64; GENERATION_COUNT],
    /// How long everything stood still, by [`PAUSE_BOUNDS`]; the last has no end.
    pub buckets: [u64; PAUSE_BUCKETS],
    /// Nanoseconds.
    pub paused: u64,
}

impl Collected {
    /// What a block has, or the sum of several: by a place that is a word's.
    pub fn read(of: impl Fn(usize) -> u64) -> Self {
        Self {
            generations: std::array::from_fn(|at| of(GENERATIONS + at)),
            buckets: std::array::from_fn(|at| of(PAUSES + at)),
            paused: of(PAUSED),
        }
    }

    /// Adds it to a block.
    pub fn fold(&self, words: &[Word]) {
        add(&words[PAUSED], self.paused);
        words[GENERATIONS..].iter().zip(self.generations).for_each(|(word, count)| add(word, count));
        words[PAUSES..].iter().zip(self.buckets).for_each(|(word, count)| add(word, count));
    }
}

/// For so long (milliseconds) each of the words stands in which the longest time is kept that a loop was held up, ...
const HELD_WINDOW: Millis = 10_000;
/// ... and so many of them are looked at behind the one that is being written: a minute's.
const HELD_BACK: u64 = 6;
/// A word's upper half says which window it is.
const HELD_AT: u32 = 32;

const _: () = assert!(HELD_BACK as usize + 1 == HELD_COUNT);

/// Somebody watches this worker's event loop, on a thread that is alone to say of it what follows.
pub fn is_watched(words: &[Word]) {
    store(&words[HELD_WATCHED], 1);
}

/// The loop is held up for so long by now, or was; milliseconds.
pub fn is_held(words: &[Word], lasted: Millis, now: Millis) {
    let window = now / HELD_WINDOW;
    let word = &words[HELD + (window % (HELD_BACK + 1)) as usize];
    let before = load(word);
    let longest = if before >> HELD_AT == window { before & u64::from(u32::MAX) } else { 0 };
    store(word, window << HELD_AT | lasted.min(u32::MAX.into()).max(longest));
}

/// For how long it was held up at most, within the last minute, in milliseconds; none: nobody watches it.
pub fn longest_hold(words: &[Word], now: Millis) -> Option<Millis> {
    let window = now / HELD_WINDOW;
    let lately = (0..=HELD_BACK).map(|at| load(&words[HELD + at as usize]));
    let lately = lately.filter(|word| window.saturating_sub(word >> HELD_AT) <= HELD_BACK);
    (load(&words[HELD_WATCHED]) != 0)
        .then(|| lately.map(|word| word & u64::from(u32::MAX)).max().unwrap_or_default())
}

/// Says since when the oldest of those waits that nobody has begun (monotonic milliseconds), and how many are in each lane.
/// Whoever has the baton does.
pub fn wait(words: &[Word], oldest: Option<Millis>, lanes: [usize; LANE_COUNT]) {
    store(&words[OLDEST], oldest.unwrap_or(0));
    words[LANES..].iter().zip(lanes).for_each(|(word, count)| store(word, count as u64));
}

/// Since when the oldest waits; none: nobody does.
pub fn oldest(words: &[Word]) -> Option<Millis> {
    Some(load(&words[OLDEST])).filter(|since| *since != 0)
}

#[cfg(test)]
mod tests {
    use super::super::played::words;
    use super::*;

    #[test]
    fn a_pause_is_in_the_bucket_of_the_first_bound_that_it_does_not_exceed() {
        let words = words();
        for ns in [0, 100_000, 100_001, 1_000_000_000, 1_000_000_001] {
            count(&words, 0, ns);
        }
        count(&words, 2, 7);
        count(&words, 9, 7);
        let found = Collected::read(|at| load(&words[at]));
        assert_eq!(found.generations, [5, 0, 2]);
        assert_eq!(found.buckets, [4, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(found.paused, 2_000_200_016);
    }

    #[test]
    fn who_hears_of_an_end_without_a_beginning_counts_nothing() {
        let words: &'static [Word] = words().leak();
        let collections = Collections::new(words);
        collections.ends(2);
        collections.begins();
        collections.ends(2);
        collections.ends(2);
        assert_eq!(Collected::read(|at| load(&words[at])).generations, [0, 0, 1]);
    }

    #[test]
    fn the_longest_hold_of_the_last_minute_is_told_and_no_older_one() {
        let (words, start) = (words(), 1_000_000);
        is_held(&words, 300, start);
        assert_eq!(longest_hold(&words, start), None, "nobody watches");
        is_watched(&words);
        is_held(&words, 200, start + 1);
        for later in [0, 30_000, 60_000] {
            assert_eq!(longest_hold(&words, start + later), Some(300), "{later} ms later");
        }
        assert_eq!(longest_hold(&words, start + 70_000), Some(0));
        is_held(&words, 150, start + 70_000);
        is_held(&words, u64::MAX, start + 500_000);
        assert_eq!(longest_hold(&words, start + 500_000), Some(u32::MAX.into()));
    }
}
