//! Slots: which requests are inside a worker now. What a worker leaves in them when it dies is what it worked on.
//!
//! Knows: a place for each of some hundred requests, and what is said there. Does not know: what becomes of them. The
//! loop's thread writes, any process reads. Paths are written without their queries, which may hold secrets.
//!
//! ```text
//!   take ─► at its application ─► is_left: its client is slow ─► being sent ─► settles, give_back
//!                   └────────────── its client has had it ───────────────────────────┘
//! ```

use std::collections::HashMap;
use std::sync::atomic::{Ordering, compiler_fence};

use reactor::sys::forks;
use wire::Head;

use super::layout::{
    self, Block, META, Meta, SLOT_COUNT, SLOT_WIDTH, Word, change, load, put_beginning, put_text,
    read_unchanged, store,
};
use super::patterns::told_of;
use super::phase::{NO_SLOT, Times};
use super::{routes, series, waiting};
use crate::request_id::RequestId;
use crate::unique::Unique;

/// Where what is, behind the sequence number.
const USED: usize = 0;
const NUMBER: usize = 1;
const FIRST: usize = 2;
const BEGUN: usize = 3;
/// The thread that is at it, or, of one that is being sent, since when that is all that is left of it: no thread is at it then.
const THREAD: usize = 4;
const LABEL: usize = 5;
const LINE: usize = 6;
const LINE_WORDS: usize = 17;
const ID: usize = LINE + LINE_WORDS;

/// Bits of the first: a request is inside, has a name that does not follow from its number, is about to wait for others
/// (`alike.rs`), and is being sent. Behind them is nothing, or, once it has ended, how many requests will have been counted, or wait, when it does.
const INSIDE: u64 = 1;
const NAMED: u64 = 2;
const WAITS: u64 = 4;
const SENDING: u64 = 8;
const COUNTED_AT: u32 = 4;

const _: () = assert!(1 + ID + 5 <= SLOT_WIDTH);

/// A request that is inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    pub slot: usize,
    /// Which request of its worker it is.
    pub number: u64,
    /// Monotonic nanoseconds of its first byte, and of when it was begun.
    pub first: u64,
    pub begun: u64,
    /// As the system calls the thread that has begun it; zero: none is at it any more.
    pub thread: u64,
    /// Since when it is being sent to a client that takes its time, in monotonic nanoseconds; none: it is not.
    pub sending: Option<u64>,
    /// What is known of what it is counted under, and its place among the worker's routes, if that is known.
    pub label: u64,
    pub route: u16,
    /// What names it; empty where requests have no names.
    pub id: String,
    /// `GET /path`
    pub line: String,
}

fn row(words: &[Word], slot: usize) -> &[Word] {
    let from = layout::SLOTS + slot * SLOT_WIDTH;
    words.get(from..from + SLOT_WIDTH).unwrap_or_default()
}

/// That of a slot that was given, in the worker's own block.
#[inline]
fn of(words: &Block, slot: u16) -> &[Word; SLOT_WIDTH] {
    let (rows, _) = words[layout::SLOTS..].as_chunks::<SLOT_WIDTH>();
    &rows[usize::from(slot).wrapping_sub(1) % SLOT_COUNT]
}

#[inline(never)]
fn put_line(words: &[Word], head: &Head) {
    put_beginning(words, head.line(), head.method_and_path().len());
}

/// Under an event loop, and of greenlets: the slot of the request of which a step runs. Who looks from outside cannot tell by the thread,
/// which all requests have in common. It outlives the worker, so that who has ended it by a fault can be told.
/// A process that an application has forked shares that memory, and says nothing there.
pub struct Stepping {
    word: Option<&'static Word>,
    /// How many forks were behind the worker.
    born: u32,
}

impl Stepping {
    /// That of a worker with these statistics, whose requests run in steps or have a thread each.
    pub fn new(words: Option<&'static [Word]>, stepwise: bool) -> Self {
        let word = words.filter(|_| stepwise).and_then(|words| words.get(META + Meta::Stepping as usize));
        let stepping = Self { word, born: forks() };
        stepping.set(NO_SLOT);
        stepping
    }

    /// A step of the request in that slot runs now, or none does ([`NO_SLOT`]).
    #[inline]
    pub fn set(&self, slot: u16) {
        if let Some(word) = self.word
            && self.born == forks()
        {
            store(word, u64::from(slot) + 1);
        }
    }

    /// The slot, or [`NO_SLOT`].
    pub fn get(&self) -> u16 {
        self.word.map_or(NO_SLOT, |word| load(word).saturating_sub(1) as u16)
    }
}

/// The slots of one worker.
pub struct Slots {
    free: [u16; SLOT_COUNT],
    left: usize,
    /// The one that was given back last, which is none of those: most often the next request has it.
    last: u16,
    /// The highest that was ever given.
    highest: u16,
    /// Of which head the line stands in each, by the numbers that were given to heads, and how many were.
    lines: [u64; SLOT_COUNT],
    numbers: u64,
}

impl Default for Slots {
    fn default() -> Self {
        // The first is given first, so that few pages are ever touched. Numbers are one more than places.
        let free = std::array::from_fn(|place| (SLOT_COUNT - place) as u16);
        Self { free, left: SLOT_COUNT, last: NO_SLOT, highest: 0, lines: [0; SLOT_COUNT], numbers: 0 }
    }
}

impl Slots {
    /// Takes a slot for a request that begins; [`NO_SLOT`] where none is free. `number`: which of its worker's it is.
    /// `label`: what is known of what it is counted under.
    #[inline]
    pub fn take(&mut self, words: &Block, head: &Head, times: &Times, (number, label): (u64, u64)) -> u16 {
        let slot = match std::mem::replace(&mut self.last, NO_SLOT) {
            NO_SLOT => match self.another(words) {
                NO_SLOT => return NO_SLOT,
                another => another,
            },
            last => last,
        };
        let is_new = self.holds_another(slot, head);
        change(of(words, slot), |row| {
            let Some(row) = row.first_chunk::<{ SLOT_WIDTH - 1 }>() else { return };
            store(&row[NUMBER], number);
            store(&row[FIRST], times.first);
            store(&row[BEGUN], times.begun);
            store(&row[THREAD], reactor::sys::thread_id());
            store(&row[LABEL], label);
            if is_new {
                put_line(&row[LINE..ID], head);
            }
            store(&row[USED], INSIDE);
        });
        slot
    }

    /// One of those that were not given back last.
    #[inline(never)]
    fn another(&mut self, words: &Block) -> u16 {
        let Some(left) = self.left.checked_sub(1) else { return NO_SLOT };
        self.left = left;
        let slot = self.free[left % SLOT_COUNT];
        if slot > self.highest {
            self.highest = slot;
            store(&words[META + Meta::SlotsUsed as usize], slot.into());
        }
        slot
    }

    #[inline]
    fn is_free(&mut self, slot: u16) {
        match std::mem::replace(&mut self.last, slot) {
            NO_SLOT => {}
            before => {
                self.free[self.left % SLOT_COUNT] = before;
                self.left += 1;
            }
        }
    }

    /// The line of this head is not the one that stands in a slot; it will be from now on. Most often the requests that have
    /// a slot one after the other are the same, and a line is a third of what there is to write of one.
    #[inline]
    fn holds_another(&mut self, slot: u16, head: &Head) -> bool {
        let number = match head.number.load(Ordering::Relaxed) {
            0 => self.number(head),
            number => number,
        };
        let line = &mut self.lines[usize::from(slot).wrapping_sub(1) % SLOT_COUNT];
        std::mem::replace(line, number) != number
    }

    /// Gives a head its number.
    #[inline(never)]
    fn number(&mut self, head: &Head) -> u64 {
        self.numbers += 1;
        head.number.store(self.numbers, Ordering::Relaxed);
        self.numbers
    }

    /// Somebody else has named its request.
    #[cold]
    pub fn is_named(words: &Block, slot: u16, id: &RequestId<'_>) {
        if slot != NO_SLOT {
            change(of(words, slot), |row| {
                put_text(&row[ID..], id.as_bytes());
                store(&row[USED], INSIDE | NAMED);
            });
        }
    }

    /// The application has had done with its request since then, and its client has not taken all of the reply: the thread that
    /// has begun it serves others from now on.
    #[cold]
    pub fn is_left(words: &Block, slot: u16, since: u64) {
        if slot != NO_SLOT {
            change(of(words, slot), |row| {
                store(&row[THREAD], since);
                // The last word: who is killed in between leaves one that no thread is at.
                compiler_fence(Ordering::SeqCst);
                store(&row[USED], load(&row[USED]) | SENDING);
            });
        }
    }

    /// Its client takes its time with the reply, as [`Slots::is_left`] has it.
    pub fn is_being_sent(words: &Block, slot: u16) -> bool {
        slot != NO_SLOT && load(&of(words, slot)[1 + USED]) & SENDING != 0
    }

    /// Its request is being counted: should the worker be killed meanwhile, who adds up what it has left can tell whether it
    /// has counted it or was inside of it, and never takes it for both.
    #[inline]
    pub fn settles(words: &Block, slot: u16) {
        if slot != NO_SLOT {
            let used = &of(words, slot)[1 + USED];
            let will_be = load(&words[META + Meta::Ended as usize]) + 1;
            store(used, load(used) | will_be << COUNTED_AT);
            // A killed thread has done what stands before the place at which it was, and nothing behind it.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Its request waits with others from now on, of which there will be so many, as `wait` says: it gives its slot back.
    #[inline(always)]
    pub fn changes_to(&mut self, words: &Block, (slot, will_be): (u16, u64), wait: impl FnOnce()) {
        let used = &of(words, slot)[1 + USED];
        store(used, INSIDE | WAITS | will_be << COUNTED_AT);
        compiler_fence(Ordering::SeqCst);
        wait();
        store(used, 0);
        self.is_free(slot);
    }

    /// Its request has ended.
    #[inline]
    pub fn give_back(&mut self, words: &Block, slot: u16) {
        if slot != NO_SLOT {
            store(&of(words, slot)[1 + USED], 0);
            self.is_free(slot);
        }
    }
}

/// The request in a slot, which has no name of its own, has ended and is counted with others: so many will have been
/// counted then.
#[inline]
pub fn marks(words: &Block, slot: u16, will_be: u64) {
    store(&of(words, slot)[1 + USED], INSIDE | will_be << COUNTED_AT);
}

/// Slots that have ever been taken.
fn used(words: &[Word]) -> usize {
    words.get(META + Meta::SlotsUsed as usize).map_or(0, |used| load(used) as usize).min(SLOT_COUNT)
}

/// By the first word of a slot: there is a request, and it has not ended.
fn is_inside(used: u64) -> bool {
    used & INSIDE != 0 && used >> COUNTED_AT == 0
}

/// How many requests are inside.
pub fn count(words: &[Word]) -> u64 {
    let is_inside = |slot: usize| row(words, slot).get(1 + USED).is_some_and(|used| is_inside(load(used)));
    (0..used(words)).filter(|slot| is_inside(*slot)).count() as u64
}

/// The request of that number has a slot: it is inside, or is being counted.
pub fn holds(words: &[Word], number: u64) -> bool {
    let holds = |row: &[Word]| load(&row[1 + USED]) & INSIDE != 0 && load(&row[1 + NUMBER]) == number;
    (0..used(words)).any(|slot| row(words, slot).get(..SLOT_WIDTH).is_some_and(holds))
}

/// How many requests a worker has counted that is dead. It counts them in their series first: one of them may be counted
/// there and not yet in the sum.
pub fn counted(words: &[Word]) -> u64 {
    let in_series: u64 = series::read(words).map(|(_, series)| series.count()).sum();
    in_series.max(load(&words[META + Meta::Ended as usize]))
}

/// What its names of requests are made of.
fn names(words: &[Word]) -> Option<Unique> {
    let parts = [Meta::NamesUpper, Meta::NamesSeed].map(|part| load(&words[META + part as usize]));
    (parts != [0, 0]).then(|| Unique::of(parts))
}

/// The request in a slot, by the number that [`Slots::take`] has given. `dead`: nobody writes any more, so that half of it
/// is better than nothing.
pub fn find(words: &[Word], slot: u16, dead: bool) -> Option<Inside> {
    let slot = usize::from(slot.checked_sub(1)?);
    let row = row(words, slot);
    let found = |row: &[Word]| {
        let used = load(row.get(USED)?);
        let will_be = used >> COUNTED_AT;
        // Of a dead worker whatever was not counted was inside, or waited with others.
        let reached = || if used & WAITS == 0 { counted(words) } else { waiting::count(words) };
        let is_over = will_be != 0 && (!dead || reached() >= will_be);
        let number = load(row.get(NUMBER)?);
        let id = match used & NAMED {
            0 => names(words).map(|unique| RequestId::own(&unique, number).to_string()).unwrap_or_default(),
            _ => String::from_utf8_lossy(&layout::text(&row[ID..])).into_owned(),
        };
        let (thread, sending) = match used & SENDING {
            0 => (load(&row[THREAD]), None),
            _ => (0, Some(load(&row[THREAD]))),
        };
        (used & INSIDE != 0 && !is_over).then(|| Inside {
            slot,
            number,
            first: load(&row[FIRST]),
            begun: load(&row[BEGUN]),
            thread,
            sending,
            label: series::head_part(load(&row[LABEL])),
            route: series::route_part(load(&row[LABEL])),
            id,
            line: String::from_utf8_lossy(&layout::text(&row[LINE..ID])).into_owned(),
        })
    };
    if dead { found(row.get(1..)?) } else { read_unchanged(row, found)? }
}

/// The requests that are inside.
pub fn read(words: &[Word], dead: bool) -> Vec<Inside> {
    (1..=used(words) as u16).filter_map(|slot| find(words, slot, dead)).collect()
}

/// Which request each thread is at, as Python names threads, of those that are inside. Of those of one thread the last is the
/// one that runs; the others have ended, and their replies are to be sent.
pub fn by_thread(inside: Vec<Inside>) -> HashMap<u64, Inside> {
    let mut all = HashMap::<u64, Inside>::new();
    for one in inside.into_iter().filter(|one| one.sending.is_none()) {
        match all.get(&one.thread) {
            Some(known) if (known.begun, known.number) > (one.begun, one.number) => {}
            _ => {
                all.insert(one.thread, one);
            }
        }
    }
    all
}

/// The request that a thread of a dead worker was at, as Python names threads.
pub fn at(words: &[Word], thread: u64) -> Option<Inside> {
    let found = match words.get(META + Meta::Stepping as usize).map_or(0, load) {
        0 => by_thread(read(words, true)).remove(&thread),
        step => find(words, (step - 1) as u16, true),
    };
    found.filter(|one| one.thread == thread)
}

impl Inside {
    /// The name of its route: the one that its worker knows, or one that was told and could be its own, or else what would
    /// become one.
    pub fn route_name(&self, words: &[Word]) -> String {
        let known = (self.route != 0).then(|| routes::read(words, self.route.into())).flatten();
        known.map(|route| route.name).or_else(|| told_of(words, &self.line)).unwrap_or_else(|| {
            let (method, path) = self.line.split_once(' ').unwrap_or((&self.line, ""));
            routes::template(method.as_bytes(), path.as_bytes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase::Ending;
    use super::super::played::{head, words};
    use super::*;

    #[test]
    fn a_slot_has_the_line_of_its_own_request_whoever_had_it_before() {
        let words = words();
        let block = words.first_chunk().expect("a block");
        let mut slots = Slots::default();
        let lines = ["GET /", "GET /a/longer/one", "GET /", "GET /", "POST /", "GET /a", "GET /a", "GET /b"];
        // Some are kept, as by a client that repeats itself; of the others each is made anew, where one before it has been.
        let kept = lines.map(head);
        let mut seed = 7_u64;
        let mut dice = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % sides) as usize
        };
        for number in 0..1000 {
            let mut inside = Vec::new();
            for _ in 0..=dice(3) {
                let which = dice(lines.len() as u64);
                let anew;
                let head = if dice(2) == 0 {
                    &kept[which]
                } else {
                    anew = head(lines[which]);
                    &anew
                };
                let slot = slots.take(block, head, &Times::default(), (number, 0));
                inside.push((slot, lines[which]));
            }
            for (slot, line) in inside.iter().rev() {
                assert_eq!(find(&words, *slot, false).map(|found| found.line).as_deref(), Some(*line));
                slots.give_back(block, *slot);
            }
        }
    }

    #[test]
    fn whoever_is_killed_while_it_counts_has_counted_its_request_or_was_inside_of_it() {
        let words = words();
        let block = words.first_chunk().expect("a block");
        let place = series::place(&words, series::Key::new(1, 0, 200, Ending::Answered));
        let ended = &words[META + Meta::Ended as usize];
        let used = &row(&words, 0)[1 + USED];
        store(&words[META + Meta::SlotsUsed as usize], 1);
        let mut slots = Slots::default();
        for requests in 1..=3 {
            let all = || counted(&words) + read(&words, true).len() as u64;
            assert_eq!(slots.take(block, &head("GET /"), &Times::default(), (requests, 0)), 1);
            assert_eq!(load(used), INSIDE);
            assert_eq!((all(), counted(&words)), (requests, requests - 1), "inside");
            assert_eq!(count(&words), 1);
            Slots::settles(block, 1);
            assert_eq!((all(), counted(&words)), (requests, requests - 1), "nothing of it is counted yet");
            assert_eq!(count(&words), 0, "who lives has ended it");
            series::observe(block, place, 1);
            assert_eq!((all(), counted(&words)), (requests, requests), "in its series");
            layout::add(ended, 1);
            assert_eq!((all(), count(&words)), (requests, 0), "counted, while its slot is taken");
            slots.give_back(block, 1);
            assert_eq!((all(), count(&words)), (requests, 0));
        }
    }

    #[test]
    fn no_thread_is_at_one_that_is_being_sent_until_its_slot_is_taken_again() {
        let words = words();
        let block = words.first_chunk().expect("a block");
        let mut slots = Slots::default();
        let mut take = |number, begun| {
            slots.take(block, &head("GET /"), &Times { begun, ..Times::default() }, (number, 0))
        };
        let (first, second) = (take(1, 10), take(2, 20));
        let thread = reactor::sys::thread_id();
        let at = || by_thread(read(&words, false)).remove(&thread).map(|one| one.number);
        assert_eq!(at(), Some(2), "the last is the one that runs");
        Slots::is_left(block, second, 25);
        assert_eq!(at(), Some(1));
        Slots::is_left(block, first, 15);
        assert_eq!(at(), None);
        let found = find(&words, second, false).expect("a request");
        assert_eq!((found.thread, found.sending, found.begun), (0, Some(25), 20));
        assert_eq!(count(&words), 2, "they are inside");
        assert!(Slots::is_being_sent(block, first) && !Slots::is_being_sent(block, NO_SLOT));
        Slots::settles(block, first);
        assert!(Slots::is_being_sent(block, first), "while it is counted");
        assert_eq!((count(&words), holds(&words, 1)), (1, true));
        slots.give_back(block, first);
        assert_eq!(slots.take(block, &head("GET /"), &Times::default(), (3, 0)), first);
        let found = find(&words, first, false).expect("a request");
        assert_eq!((found.number, found.thread, found.sending), (3, thread, None));
    }
}
