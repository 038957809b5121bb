//! Requests that take long: when to look at their threads, tasks or greenlets, where those stood, and the line that the log
//! gets. Nobody is looked at of one that is only being sent: its thread serves others by then.
//!
//! Knows: what is inside, by the slots of the statistics, and how often each was looked at. Does not know: Python, which
//! says where somebody stands. Of threads the watchdog looks, the thread that samples notes, whoever has the baton takes what
//! was noted: a lock that is held for a moment is between them. Under an event loop its own thread does all of that, and the
//! watchdog notes what blocks it.

mod bounds;
mod line;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::{Head, Millis};

pub use self::bounds::{NEVER, SlowAfter};
pub use self::line::Outcome;
use crate::statistics::layout::Word;
use crate::statistics::slots::{self, Inside};
use crate::sync::lock;

/// How often slots are looked through, at most.
const EVERY_MS: Millis = 100;
/// A request is looked at when it has taken so many halves of what is long.
const HALVES: [u64; 8] = [2, 3, 4, 6, 8, 10, 12, 14];
/// Within this time no more than so many threads of a worker are looked at. Each look takes the interpreter from all of
/// them, for some 30 microseconds, and 150 where a stack is as deep as is ever followed: this is half a hundredth of its
/// time at most. As many as a worker has threads by default are looked at at once, where all of them are long.
const WHILE_MS: Millis = 1000;
const AT_MOST: usize = 32;
/// An event loop that looks so much later than it should have was blocked until now: where tasks wait then says nothing of
/// where the time went.
const LATE_MS: Millis = 100;
/// Of a place no more is written.
const LONGEST: usize = 400;

/// What stands somewhere while its request takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Thread,
    Task,
    Greenlet,
}

impl Whose {
    fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Task => "task",
            Self::Greenlet => "greenlet",
        }
    }
}

/// What is known of requests that take long.
pub struct SlowRequests {
    after: SlowAfter,
    words: Option<&'static [Word]>,
    whose: Whose,
    looked: AtomicU64,
    /// When somebody will have to be looked at, as far as the last look could tell.
    next: AtomicU64,
    any_found: AtomicBool,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    /// By their numbers.
    known: HashMap<u64, Known>,
    /// Threads that somebody shall look at, and the requests that they are in.
    found: Vec<(u64, u64)>,
    /// How many were found since then.
    spent: usize,
    since: Millis,
}

#[derive(Default)]
struct Known {
    looks: usize,
    places: Vec<(String, u32)>,
}

impl SlowRequests {
    pub fn new(after: SlowAfter, words: Option<&'static [Word]>, whose: Whose) -> Self {
        Self {
            // Where nothing is ever long nobody is looked for.
            words: words.filter(|_| after.least() != NEVER),
            after,
            whose,
            looked: AtomicU64::new(0),
            // An event loop says when requests begin; of threads nobody does.
            next: AtomicU64::new(if whose == Whose::Thread { 0 } else { Millis::MAX }),
            any_found: AtomicBool::new(false),
            watched: Mutex::default(),
        }
    }

    /// Looks whether a thread shall be looked at. `now` in monotonic milliseconds.
    pub fn look(&self, now: Millis) -> bool {
        let Some(words) = self.words else { return false };
        if now < self.looked.load(Ordering::Relaxed).saturating_add(EVERY_MS) {
            return false;
        }
        let late = self.whose != Whose::Thread && now.saturating_sub(self.due()) > LATE_MS;
        self.looked.store(now, Ordering::Relaxed);
        let inside = slots::read(words, false);
        let mut watched = lock(&self.watched);
        // One that is being counted has its line written by what is known of it.
        let is_inside = |number| inside.iter().any(|one| one.number == number);
        watched.known.retain(|number, _| is_inside(*number) || slots::holds(words, *number));
        let worked_on = self.worked_on(inside);
        let found = watched.look(&worked_on, &self.after, now);
        let next = match self.whose {
            Whose::Thread => watched.next(&worked_on, &self.after, now),
            Whose::Task | Whose::Greenlet => watched.due_next(&worked_on, &self.after),
        };
        self.next.store(next, Ordering::Relaxed);
        if late {
            watched.found.clear();
        } else if found {
            self.any_found.store(true, Ordering::Relaxed);
        }
        found && !late
    }

    /// A request that has taken so many nanoseconds is slow.
    #[cold]
    pub fn is_slow(&self, head: &Head, took: u64) -> bool {
        took >= self.after.of_head(head)
    }

    /// Those of them that are with their applications, each of which a thread, a task or a greenlet of its own is at.
    fn worked_on(&self, mut inside: Vec<Inside>) -> Vec<Inside> {
        match self.whose {
            Whose::Thread => slots::by_thread(inside).into_values().collect(),
            Whose::Task | Whose::Greenlet => {
                inside.retain(|one| one.sending.is_none());
                inside
            }
        }
    }

    /// Under an event loop: requests begin.
    pub fn begins(&self, now: Millis) {
        let later = now.saturating_add(self.after.least() / 1_000_000);
        // Its thread alone writes this.
        if self.words.is_some() && later < self.next.load(Ordering::Relaxed) {
            self.next.store(later, Ordering::Relaxed);
        }
    }

    /// Under an event loop: when to look, in monotonic milliseconds; never (the highest) where nobody inside will have to be
    /// looked at.
    pub fn due(&self) -> Millis {
        match self.next.load(Ordering::Relaxed) {
            Millis::MAX => Millis::MAX,
            next => next.max(self.looked.load(Ordering::Relaxed).saturating_add(EVERY_MS)),
        }
    }

    /// Somebody shall be looked at.
    pub fn any_found(&self) -> bool {
        self.any_found.load(Ordering::Relaxed)
    }

    /// When to look again, while requests are inside. `now` in monotonic milliseconds.
    pub fn look_by(&self, now: Millis) -> Millis {
        if self.words.is_none() {
            return Millis::MAX;
        }
        let looked = self.looked.load(Ordering::Relaxed);
        self.next.load(Ordering::Relaxed).max(looked.saturating_add(EVERY_MS)).max(now + 1)
    }

    /// Who shall be looked at: threads, each with the number of its request.
    pub fn take_found(&self) -> Vec<(u64, u64)> {
        self.any_found.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.watched).found)
    }

    /// Under an event loop: the request in that slot blocks it there, whether or not it takes long by now. Where it is no step
    /// of a request's own task, the only one that has such a line (`GET /path`) does.
    pub fn note_blocked(&self, slot: u16, line: &str, place: &str) {
        let Some(words) = self.words else { return };
        let one = slots::find(words, slot, false).or_else(|| {
            let mut alike = slots::read(words, false).into_iter().filter(|one| one.line == line);
            alike.next().filter(|_| alike.next().is_none())
        });
        if let Some(one) = one {
            lock(&self.watched).known.entry(one.number).or_default();
            self.note(one.number, place);
        }
    }

    /// The thread, task or greenlet of the request of that number stood there, if it is still at that.
    pub fn note(&self, number: u64, place: &str) {
        let at_it = |words| self.worked_on(slots::read(words, false)).iter().any(|one| one.number == number);
        let still = self.words.is_some_and(at_it);
        let mut watched = lock(&self.watched);
        if let Some(known) = watched.known.get_mut(&number).filter(|_| still) {
            match known.places.iter_mut().find(|(seen, _)| seen == place) {
                Some((_, count)) => *count += 1,
                None => known.places.push((place.chars().take(LONGEST).collect(), 1)),
            }
        }
    }

    /// Where a request that has ended was found; empty: nobody has looked, or it was found nowhere.
    pub fn stood(&self, number: u64) -> String {
        let known = lock(&self.watched).known.remove(&number);
        known.map_or_else(String::new, |known| known.told(self.whose))
    }
}

impl Watched {
    fn look(&mut self, inside: &[Inside], after: &SlowAfter, now: Millis) -> bool {
        if now >= self.since.saturating_add(WHILE_MS) {
            self.spent = 0;
        }
        let mut all: Vec<&Inside> = inside.iter().filter(|one| self.due(one, after) <= now).collect();
        // Whoever was looked at least is next, and of those the oldest.
        all.sort_by_key(|one| (self.looks(one), one.first));
        all.truncate(AT_MOST - self.spent);
        for one in &all {
            self.known.entry(one.number).or_default().looks += 1;
            self.found.push((one.thread, one.number));
        }
        if self.spent == 0 {
            self.since = now;
        }
        self.spent += all.len();
        !all.is_empty()
    }

    /// How often it was looked at.
    fn looks(&self, one: &Inside) -> usize {
        self.known.get(&one.number).map_or(0, |known| known.looks)
    }

    /// When it is to be looked at next, in milliseconds.
    fn due(&self, one: &Inside, after: &SlowAfter) -> Millis {
        let Some(half) = HALVES.get(self.looks(one)) else { return Millis::MAX };
        let slow = after.of_line(&one.line);
        if slow == NEVER {
            return Millis::MAX;
        }
        one.first.saturating_add((slow / 2).saturating_mul(*half)).div_ceil(1_000_000)
    }

    /// When the first of all has to be looked at, those included that begin from now on.
    fn next(&self, inside: &[Inside], after: &SlowAfter, now: Millis) -> Millis {
        self.due_next(inside, after).min(now.saturating_add(after.least() / 1_000_000))
    }

    /// The same of those that are inside.
    fn due_next(&self, inside: &[Inside], after: &SlowAfter) -> Millis {
        inside.iter().map(|one| self.due(one, after)).min().unwrap_or(Millis::MAX)
    }
}

impl Known {
    /// `7 of 8 looks found its thread at …, 1 at …`
    fn told(mut self, whose: Whose) -> String {
        let whose = whose.name();
        self.places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all: u32 = self.places.iter().map(|(_, count)| count).sum();
        let mut text = String::new();
        for (at, (place, count)) in self.places.iter().enumerate() {
            let _ = match at {
                0 => write!(text, "{count} of {all} looks found its {whose} at {place}"),
                _ => write!(text, ", {count} at {place}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests;
