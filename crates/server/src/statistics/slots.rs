//! Slots: which requests are inside a worker now. What a worker leaves in them when it dies is what it worked on.
//!
//! Knows: a place for each of some hundred requests, and what is said there. Does not know: what becomes of them. The
//! loop's thread writes, any process reads. Paths are written without their queries, which may hold secrets.

use std::sync::atomic::{AtomicU16, Ordering};

use wire::Head;

use super::layout::{
    self, Block, SLOT_COUNT, SLOT_WIDTH, Word, change, load, put_text, read_unchanged, store,
};
use super::phase::{NO_SLOT, Times};
use super::{routes, series};

/// Where what is, behind the sequence number.
const USED: usize = 0;
const NUMBER: usize = 1;
const FIRST: usize = 2;
const BEGUN: usize = 3;
const THREAD: usize = 4;
const LABEL: usize = 5;
const LINE: usize = 6;

/// A request that is inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    pub slot: usize,
    /// Which request of its worker it is.
    pub number: u64,
    /// Monotonic nanoseconds of its first byte, and of when it was begun.
    pub first: u64,
    pub begun: u64,
    /// As the system calls the thread that has begun it.
    pub thread: u64,
    /// What is known of what it is counted under, and its place among the worker's routes, if that is known.
    pub label: u64,
    pub route: u16,
    /// `GET /path`
    pub line: String,
}

fn row(words: &[Word], slot: usize) -> &[Word] {
    let from = layout::SLOTS + slot * SLOT_WIDTH;
    words.get(from..from + SLOT_WIDTH).unwrap_or_default()
}

/// Under an event loop: the slot of the request of which a step runs. Who looks from outside cannot tell by the thread,
/// which all requests have in common.
pub struct Stepping(AtomicU16);

impl Default for Stepping {
    fn default() -> Self {
        Self(AtomicU16::new(NO_SLOT))
    }
}

impl Stepping {
    /// A step of the request in that slot runs now, or none does ([`NO_SLOT`]).
    #[inline]
    pub fn set(&self, slot: u16) {
        self.0.store(slot, Ordering::Relaxed);
    }

    /// The slot, or [`NO_SLOT`].
    pub fn get(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The slots of one worker.
pub struct Slots {
    free: Vec<u16>,
}

impl Default for Slots {
    fn default() -> Self {
        // The first is given first, so that few pages are ever touched. Numbers are one more than places.
        Self { free: (1..=SLOT_COUNT as u16).rev().collect() }
    }
}

impl Slots {
    /// Takes a slot for a request that begins; [`NO_SLOT`] where none is free.
    #[inline]
    pub fn take(&mut self, words: &Block, head: &Head, times: &Times, (number, label): (u64, u64)) -> u16 {
        let Some(slot) = self.free.pop() else { return NO_SLOT };
        let row = row(words, usize::from(slot) - 1);
        change(row, |row| {
            let Some(row) = row.first_chunk::<{ SLOT_WIDTH - 1 }>() else { return };
            store(&row[NUMBER], number);
            store(&row[FIRST], times.first);
            store(&row[BEGUN], times.begun);
            store(&row[THREAD], reactor::sys::thread_id());
            store(&row[LABEL], label);
            put_text(&row[LINE..], head.method_and_path());
            store(&row[USED], 1);
        });
        slot
    }

    /// Its request has ended.
    #[inline]
    pub fn give_back(&mut self, words: &Block, slot: u16) {
        if slot == NO_SLOT {
            return;
        }
        if let Some(used) = row(words, usize::from(slot) - 1).get(1 + USED) {
            store(used, 0);
        }
        self.free.push(slot);
    }
}

/// How many requests are inside.
pub fn count(words: &[Word]) -> u64 {
    (0..SLOT_COUNT).filter(|&slot| row(words, slot).get(1 + USED).is_some_and(|used| load(used) == 1)).count()
        as u64
}

/// The request in a slot, by the number that [`Slots::take`] has given. `dead`: nobody writes any more, so that half of it
/// is better than nothing.
pub fn find(words: &[Word], slot: u16, dead: bool) -> Option<Inside> {
    let slot = usize::from(slot.checked_sub(1)?);
    let row = row(words, slot);
    let found = |row: &[Word]| {
        (load(row.get(USED)?) == 1).then(|| Inside {
            slot,
            number: load(&row[NUMBER]),
            first: load(&row[FIRST]),
            begun: load(&row[BEGUN]),
            thread: load(&row[THREAD]),
            label: series::head_part(load(&row[LABEL])),
            route: series::route_part(load(&row[LABEL])),
            line: String::from_utf8_lossy(&layout::text(&row[LINE..])).into_owned(),
        })
    };
    if dead { found(row.get(1..)?) } else { read_unchanged(row, found)? }
}

/// The requests that are inside.
pub fn read(words: &[Word], dead: bool) -> Vec<Inside> {
    (1..=SLOT_COUNT as u16).filter_map(|slot| find(words, slot, dead)).collect()
}

impl Inside {
    /// The name of its route: the one that its worker knows, or else what would become one.
    pub fn route_name(&self, words: &[Word]) -> String {
        let known = (self.route != 0).then(|| routes::read(words, self.route.into())).flatten();
        known.map_or_else(
            || {
                let (method, path) = self.line.split_once(' ').unwrap_or((&self.line, ""));
                routes::template(method.as_bytes(), path.as_bytes())
            },
            |route| route.name,
        )
    }
}
