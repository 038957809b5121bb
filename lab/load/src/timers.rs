//! What is due when: a heap of (moment, client). Knows no clock; one thread's.
//!
//! A client has at most one entry that counts. Moving a deadline later touches nothing: the entry finds, when it comes up, that
//! there is time left, and is entered again. So a request's timeouts cost no heap operation where replies are quick.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Later than every moment: nothing is due.
pub const NEVER: u64 = u64::MAX;

/// A client's place in its thread, and how often that place was given away before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub index: u32,
    pub generation: u32,
}

impl Slot {
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub fn of_token(token: u64) -> Slot {
        Slot { index: token as u32, generation: (token >> 32) as u32 }
    }
}

#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, Slot)>>,
}

impl Timers {
    pub fn enter(&mut self, at: u64, slot: Slot) {
        self.heap.push(Reverse((at, slot)));
    }

    pub fn next(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at, _))| *at)
    }

    /// The next entry that is due, with the moment for which it was entered.
    pub fn due(&mut self, now: u64) -> Option<(u64, Slot)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
