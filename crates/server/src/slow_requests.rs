//! Requests that take long: when to look at their threads, tasks or greenlets, where those stood, and the line that the log
//! gets. Nobody is looked at of one that is only being sent: its thread serves others by then.
//!
//! Knows: what is inside, by the slots of the statistics, and how often each was looked at. Does not know: Python, which
//! says where somebody stands. Of threads the watchdog looks, the thread that samples notes, whoever has the baton takes what
//! was noted: a lock that is held for a moment is between them. Under an event loop its own thread does all of that, and the
//! watchdog notes what blocks it.

mod line;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::Millis;

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
    /// From so many nanoseconds on it is long; zero: nothing is.
    slow: u64,
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
    /// `slow`: in milliseconds.
    pub fn new(slow: Millis, words: Option<&'static [Word]>, whose: Whose) -> Self {
        Self {
            slow: slow.saturating_mul(1_000_000),
            words,
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
        let Some(words) = self.words.filter(|_| self.slow > 0) else { return false };
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
        let found = watched.look(&worked_on, self.slow, now);
        let next = match self.whose {
            Whose::Thread => watched.next(&worked_on, self.slow, now),
            Whose::Task | Whose::Greenlet => watched.due_next(&worked_on, self.slow),
        };
        self.next.store(next, Ordering::Relaxed);
        if late {
            watched.found.clear();
        } else if found {
            self.any_found.store(true, Ordering::Relaxed);
        }
        found && !late
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
        let later = now.saturating_add(self.slow / 1_000_000);
        // Its thread alone writes this.
        if self.words.is_some() && self.slow > 0 && later < self.next.load(Ordering::Relaxed) {
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
        if self.words.is_none() || self.slow == 0 {
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
        let Some(words) = self.words.filter(|_| self.slow > 0) else { return };
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

    /// The line of a request that has ended.
    pub fn line(&self, request: &str, number: u64, outcome: &Outcome<'_>) -> String {
        let mut text = outcome.told(request);
        if let Some(known) = lock(&self.watched).known.remove(&number) {
            text.push_str(&known.told(self.whose));
        }
        text
    }
}

impl Watched {
    fn look(&mut self, inside: &[Inside], slow: u64, now: Millis) -> bool {
        if now >= self.since.saturating_add(WHILE_MS) {
            self.spent = 0;
        }
        let mut all: Vec<&Inside> = inside.iter().filter(|one| self.due(one, slow) <= now).collect();
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
    fn due(&self, one: &Inside, slow: u64) -> Millis {
        let Some(half) = HALVES.get(self.looks(one)) else { return Millis::MAX };
        one.first.saturating_add((slow / 2).saturating_mul(*half)).div_ceil(1_000_000)
    }

    /// When the first of all has to be looked at, those included that begin from now on.
    fn next(&self, inside: &[Inside], slow: u64, now: Millis) -> Millis {
        self.due_next(inside, slow).min(now.saturating_add(slow / 1_000_000))
    }

    /// The same of those that are inside.
    fn due_next(&self, inside: &[Inside], slow: u64) -> Millis {
        inside.iter().map(|one| self.due(one, slow)).min().unwrap_or(Millis::MAX)
    }
}

impl Known {
    /// `: 7 of 8 looks found its thread at …, 1 at …`
    fn told(mut self, whose: Whose) -> String {
        let whose = whose.name();
        self.places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all: u32 = self.places.iter().map(|(_, count)| count).sum();
        let mut text = String::new();
        for (at, (place, count)) in self.places.iter().enumerate() {
            let _ = match at {
                0 => write!(text, ": {count} of {all} looks found its {whose} at {place}"),
                _ => write!(text, ", {count} at {place}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::statistics::phase::{Ending, NO_SLOT, Spans, Times};
    use crate::statistics::played::{head, words};

    fn inside(number: u64, first_ms: u64) -> Inside {
        let first = first_ms * 1_000_000;
        Inside {
            slot: 0,
            number,
            first,
            begun: first,
            thread: 100 + number,
            sending: None,
            label: 0,
            route: 0,
            id: String::new(),
            line: String::new(),
        }
    }

    fn outcome(reached: u64, spans: &Spans) -> Outcome<'_> {
        Outcome { status: 200, ending: Ending::Answered, reached, spans, waited_for_client: false }
    }

    /// When somebody is looked at, in milliseconds, of all looks in a tenth of a second each.
    fn looks(all: &[Inside], slow_ms: u64, until: Millis) -> Vec<(Millis, u64)> {
        let mut watched = Watched::default();
        let mut found = Vec::new();
        for now in (1000..until).step_by(100) {
            if watched.look(all, slow_ms * 1_000_000, now) {
                found.extend(watched.found.drain(..).map(|(_, number)| (now, number)));
            }
        }
        found
    }

    #[test]
    fn a_request_is_looked_at_when_it_is_long_and_then_less_and_less_often() {
        let found = looks(&[inside(1, 1000)], 1000, 20_000);
        let expected = [2000, 2500, 3000, 4000, 5000, 6000, 7000, 8000].map(|at| (at, 1));
        assert_eq!(found, expected, "eight times, and no more");
        assert_eq!(looks(&[inside(1, 1000)], 1000, 2000), [], "a millisecond earlier it is not long");
    }

    #[test]
    fn all_that_are_long_at_once_are_looked_at_at_once() {
        let all: Vec<Inside> = (0..5).map(|number| inside(number, 1000)).collect();
        let found = looks(&all, 1000, 2600);
        let expected = [2000, 2500].map(|at| (0..5).map(move |number| (at, number)));
        assert_eq!(found, expected.into_iter().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn of_very_many_each_has_its_turn_and_no_while_has_more_looks_than_it_may() {
        let many = 2 * AT_MOST as u64 + 6;
        let all: Vec<Inside> = (0..many).map(|number| inside(number, 1000)).collect();
        let found = looks(&all, 1000, 10_000);
        let first: Vec<u64> = found.iter().take(all.len()).map(|(_, number)| *number).collect();
        assert_eq!(
            first,
            (0..many).collect::<Vec<_>>(),
            "nobody twice before everybody once, the oldest first"
        );
        for (at, (begun, _)) in found.iter().enumerate() {
            let within = found[at..].iter().take_while(|(now, _)| *now < begun + WHILE_MS).count();
            assert!(within <= AT_MOST, "{within} looks from {begun} on");
        }
    }

    #[test]
    fn a_look_while_a_request_is_counted_forgets_nothing_of_it() {
        let (words, head) = (&*words().leak(), head("GET /"));
        let block = words.first_chunk().expect("a block");
        let mut slots = slots::Slots::default();
        let slot = slots.take(block, &head, &Times::default(), (3, 0));
        let slow = SlowRequests::new(1000, Some(words), Whose::Thread);
        let line = || slow.line("GET /", 3, &outcome(1_000_000_000, &Spans::default()));
        assert!(slow.look(1000));
        slow.note(3, "a.py:1 in one");
        slots::Slots::settles(block, slot);
        assert!(!slow.look(1100));
        assert!(line().ends_with(": 1 of 1 looks found its thread at a.py:1 in one"), "{}", line());
        lock(&slow.watched).known.insert(3, Known::default());
        slots.give_back(block, slot);
        assert!(!slow.look(1200));
        assert!(lock(&slow.watched).known.is_empty(), "of who has gone nothing is kept");
    }

    #[test]
    fn it_looks_again_when_the_first_is_due_and_not_too_soon() {
        let mut watched = Watched::default();
        let slow = 1_000_000_000;
        let mut next = |inside: &[Inside], now| {
            watched.look(inside, slow, now);
            watched.next(inside, slow, now)
        };
        assert_eq!(next(&[], 5000), 6000, "of one that begins now");
        assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5000), 5300);
        assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5300), 5800, "half as long again");
        assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5800), 5900, "the other");
        let none = SlowRequests::new(0, None, Whose::Thread);
        assert_eq!(none.look_by(5000), Millis::MAX, "nothing is long");
    }

    #[test]
    fn under_an_event_loop_nobody_looks_for_those_that_have_been_looked_at_as_often_as_any() {
        let (words, head) = (&*words().leak(), head("GET /"));
        let block = words.first_chunk().expect("a block");
        let slow = SlowRequests::new(1000, Some(words), Whose::Task);
        assert_eq!(slow.due(), Millis::MAX, "nothing is inside");
        let times = Times { first: 5_000_000_000, ..Times::default() };
        let mut slots = slots::Slots::default();
        let slot = slots.take(block, &head, &times, (3, 0));
        slow.begins(5000);
        for at in [6000, 6500, 7000, 8000, 9000, 10_000, 11_000, 12_000] {
            assert_eq!(slow.due(), at);
            assert!(slow.look(at) && slow.any_found());
            assert_eq!(slow.take_found().iter().map(|(_, number)| *number).collect::<Vec<_>>(), [3]);
            assert!(!slow.any_found());
            slow.note(3, "a.py:1 in one");
        }
        assert_eq!(slow.due(), Millis::MAX, "eight times, and no more");
        slow.note_blocked(slot, "", "b.py:2 in two");
        slow.note_blocked(NO_SLOT, "GET /other", "c.py:3 of nobody's");
        slow.note_blocked(NO_SLOT, "GET /", "b.py:2 in two");
        let other = slots.take(block, &head, &times, (4, 0));
        slow.note_blocked(NO_SLOT, "GET /", "d.py:4 of one of both");
        let line = slow.line("GET /", 3, &outcome(9_000_000_000, &Spans::default()));
        assert!(
            line.ends_with(": 8 of 10 looks found its task at a.py:1 in one, 2 at b.py:2 in two"),
            "{line}"
        );
        slots.give_back(block, other);
        slow.begins(13_000);
        assert_eq!(slow.due(), 14_000, "of one that begins now");
        slots.give_back(block, slot);
        assert!(!slow.look(14_000));
        assert_eq!(slow.due(), Millis::MAX);
    }

    #[test]
    fn a_loop_that_was_blocked_until_it_looks_says_nothing_of_where_its_tasks_wait() {
        for (late, looks) in [(LATE_MS - 1, true), (LATE_MS, true), (LATE_MS + 1, false)] {
            let (words, head) = (&*words().leak(), head("GET /"));
            let slow = SlowRequests::new(1000, Some(words), Whose::Greenlet);
            let times = Times { first: 5_000_000_000, ..Times::default() };
            slots::Slots::default().take(words.first_chunk().expect("a block"), &head, &times, (3, 0));
            slow.begins(5000);
            assert_eq!(slow.look(6000 + late), looks, "{late}");
            assert_eq!((slow.any_found(), slow.take_found().len()), (looks, usize::from(looks)));
            assert!(slow.look(6500), "it looks again");
        }
    }

    #[test]
    fn places_are_folded_into_one_line() {
        let slow = SlowRequests::new(1000, None, Whose::Thread);
        let places = vec![("b.py:2 in two".to_string(), 1), ("a.py:1 in one".to_string(), 7)];
        lock(&slow.watched).known.insert(3, Known { looks: 8, places });
        let spans = [0, 0, 20_000_000, 0, 12_000_000_000, 300_000_000, 11_700_000_000, 0, 12_020_000_000];
        assert_eq!(
            slow.line("GET /report", 3, &outcome(12_020_000_000, &spans)),
            "slow request: GET /report, 200 after 12.02 s (queued 0.02, application 12.00, 0.30 of it on a processor): \
             7 of 8 looks found its thread at a.py:1 in one, 1 at b.py:2 in two"
        );
    }

    #[test]
    fn nobody_is_looked_at_for_one_that_is_being_sent_or_whose_thread_is_at_another() {
        for whose in [Whose::Thread, Whose::Task] {
            let (words, head) = (&*words().leak(), head("GET /"));
            let block = words.first_chunk().expect("a block");
            let slow = SlowRequests::new(1000, Some(words), whose);
            let mut slots = slots::Slots::default();
            let mut take = |number, begun| {
                slots.take(block, &head, &Times { first: 1, begun, ..Times::default() }, (number, 0))
            };
            let sent = take(3, 1);
            slow.begins(0);
            assert!(slow.look(1001));
            assert_eq!(slow.take_found().iter().map(|(_, number)| *number).collect::<Vec<_>>(), [3]);
            slow.note(3, "a.py:1 in its_own");
            slots::Slots::is_left(block, sent, 2);
            slow.note(3, "b.py:2 in another_s");
            assert!(!slow.look(1501), "it is being sent");
            // Both on this thread: the first waits until its reply is sent, and nobody has said so.
            let _answered = take(4, 1);
            let _worked_on = take(5, 2);
            slow.look(1601);
            let found: Vec<u64> = slow.take_found().iter().map(|(_, number)| *number).collect();
            match whose {
                Whose::Thread => assert_eq!(found, [5]),
                _ => assert_eq!(found, [4, 5], "each has a task of its own"),
            }
            let line = slow.line("GET /", 3, &outcome(1, &Spans::default()));
            assert!(
                line.ends_with(": 1 of 1 looks found its thread at a.py:1 in its_own")
                    || whose != Whose::Thread,
                "{line}"
            );
            assert!(!line.contains("another_s"), "{line}");
        }
    }
}
