//! Numbers that no other request of any server has.
//!
//! Knows: a worker's part, which the system's randomness gives it once, and a request's part, which follows from how many
//! its worker has begun. Does not know: who is named by them. Any thread: nothing in it changes, so that nothing has to be
//! kept with a request for its name.
//!
//! They look as if they were random, and are no secrets: who has seen some of a worker can work out the others.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use reactor::sys::{monotonic_ns, random};
use wire::hex;

/// Odd, and its multiples are far apart: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A worker's numbers.
#[derive(Debug, Clone, Copy)]
pub struct Unique {
    /// The upper half of all of them, and as hexadecimal digits.
    worker: u64,
    digits: [u8; 16],
    /// Where the lower halves begin.
    seed: u64,
}

impl Unique {
    /// Those of this process, to be asked for in it: a process that was forked from one that has them would go on with the
    /// same.
    pub fn new() -> Self {
        Self::of(random().unwrap_or_else(|_| without_the_system()))
    }

    /// Another worker's, by what it has said of itself with [`Unique::parts`].
    pub fn of([worker, seed]: [u64; 2]) -> Self {
        Self { worker, digits: hex(worker), seed }
    }

    /// What all of its numbers follow from.
    pub fn parts(&self) -> [u64; 2] {
        [self.worker, self.seed]
    }

    /// The upper half.
    #[inline]
    pub fn upper(&self) -> u64 {
        self.worker
    }

    /// The lower half for a request of that number: another one for each, in which no order shows (SplitMix64).
    #[inline]
    pub fn lower(&self, number: u64) -> u64 {
        mixed(self.seed.wrapping_add(number.wrapping_mul(STEP)))
    }

    /// The digits of the upper half, which all have in common.
    #[inline]
    pub fn digits(&self) -> &[u8; 16] {
        &self.digits
    }
}

impl Default for Unique {
    fn default() -> Self {
        Self::new()
    }
}

/// Another number for each.
#[inline]
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Where a sandbox has no such call: what differs between processes, under the standard library's keys.
#[cold]
fn without_the_system() -> [u64; 2] {
    let keys = RandomState::new();
    let process = (std::process::id(), monotonic_ns());
    [keys.hash_one((process, 0)), keys.hash_one((process, 1))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_of_any_worker_have_the_same() {
        let workers = [Unique::new(), Unique::new()];
        let all = workers.iter().flat_map(|worker| (0..5000).map(|at| (worker.upper(), worker.lower(at))));
        let all: std::collections::HashSet<_> = all.collect();
        assert_eq!(all.len(), 10_000);
        assert_ne!(workers[0].upper(), workers[1].upper());
        let lower: std::collections::HashSet<_> = all.iter().map(|(_, lower)| lower).collect();
        assert_eq!(lower.len(), 10_000, "not even their halves");
    }

    #[test]
    fn one_request_has_the_same_whenever_it_is_asked() {
        let worker = Unique::new();
        assert_eq!(worker.lower(7), worker.lower(7));
        assert_eq!(String::from_utf8_lossy(worker.digits()), format!("{:016x}", worker.upper()));
    }
}
