//! When somebody is looked at, and what is told of it.

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

fn line(slow: &SlowRequests, request: &str, number: u64, outcome: &Outcome<'_>) -> String {
    outcome.told(request, &slow.stood(number))
}

/// When somebody is looked at, in milliseconds, of all looks in a tenth of a second each.
fn looks(all: &[Inside], slow_ms: u64, until: Millis) -> Vec<(Millis, u64)> {
    let mut watched = Watched::default();
    let mut found = Vec::new();
    for now in (1000..until).step_by(100) {
        if watched.look(all, &SlowAfter::all(slow_ms), now) {
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
fn each_is_looked_at_when_it_is_long_for_its_path() {
    let (words, never) = (&*words().leak(), head("GET /events"));
    let block = words.first_chunk().expect("a block");
    let by_path = vec![(b"/events".to_vec(), 0), (b"/quick".to_vec(), 200)];
    let slow = SlowRequests::new(SlowAfter::new(1000, by_path), Some(words), Whose::Task);
    let times = Times { first: 5_000_000_000, ..Times::default() };
    let mut slots = slots::Slots::default();
    let _ = slots.take(block, &never, &times, (3, 0));
    slow.begins(5000);
    assert_eq!(slow.due(), 5200, "of one that could be quick");
    assert!(!slow.look(5200));
    assert_eq!(slow.due(), Millis::MAX, "it is not long ever");
    let _ = slots.take(block, &head("GET /quick/1"), &times, (4, 0));
    let _ = slots.take(block, &head("GET /"), &times, (5, 0));
    for at in [5300, 5400, 5600, 5800, 6000] {
        assert!(slow.look(at), "{at}");
        let found: Vec<u64> = slow.take_found().iter().map(|(_, number)| *number).collect();
        assert_eq!(found, if at < 6000 { vec![4] } else { vec![5, 4] }, "{at}");
    }
    assert!(
        slow.is_slow(&head("GET /quick"), 200_000_000) && !slow.is_slow(&head("GET /quick"), 199_999_999)
    );
    assert!(!slow.is_slow(&head("GET /events"), NEVER - 1));
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
    assert_eq!(first, (0..many).collect::<Vec<_>>(), "nobody twice before everybody once, the oldest first");
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
    let slow = SlowRequests::new(SlowAfter::all(1000), Some(words), Whose::Thread);
    let line = || line(&slow, "GET /", 3, &outcome(1_000_000_000, &Spans::default()));
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
    let after = SlowAfter::all(1000);
    let mut next = |inside: &[Inside], now| {
        watched.look(inside, &after, now);
        watched.next(inside, &after, now)
    };
    assert_eq!(next(&[], 5000), 6000, "of one that begins now");
    assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5000), 5300);
    assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5300), 5800, "half as long again");
    assert_eq!(next(&[inside(1, 4300), inside(2, 4900)], 5800), 5900, "the other");
    let none = SlowRequests::new(SlowAfter::all(0), None, Whose::Thread);
    assert_eq!(none.look_by(5000), Millis::MAX, "nothing is long");
}

#[test]
fn under_an_event_loop_nobody_looks_for_those_that_have_been_looked_at_as_often_as_any() {
    let (words, head) = (&*words().leak(), head("GET /"));
    let block = words.first_chunk().expect("a block");
    let slow = SlowRequests::new(SlowAfter::all(1000), Some(words), Whose::Task);
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
    let line = line(&slow, "GET /", 3, &outcome(9_000_000_000, &Spans::default()));
    assert!(line.ends_with(": 8 of 10 looks found its task at a.py:1 in one, 2 at b.py:2 in two"), "{line}");
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
        let slow = SlowRequests::new(SlowAfter::all(1000), Some(words), Whose::Greenlet);
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
    let slow = SlowRequests::new(SlowAfter::all(1000), None, Whose::Thread);
    let places = vec![("b.py:2 in two".to_string(), 1), ("a.py:1 in one".to_string(), 7)];
    lock(&slow.watched).known.insert(3, Known { looks: 8, places });
    let spans = [0, 0, 20_000_000, 0, 12_000_000_000, 300_000_000, 11_700_000_000, 0, 12_020_000_000];
    assert_eq!(
        line(&slow, "GET /report", 3, &outcome(12_020_000_000, &spans)),
        "slow request: GET /report, 200 after 12.02 s (queued 0.02, application 12.00, 0.30 of it on a processor): \
         7 of 8 looks found its thread at a.py:1 in one, 1 at b.py:2 in two"
    );
}

#[test]
fn nobody_is_looked_at_for_one_that_is_being_sent_or_whose_thread_is_at_another() {
    for whose in [Whose::Thread, Whose::Task] {
        let (words, head) = (&*words().leak(), head("GET /"));
        let block = words.first_chunk().expect("a block");
        let slow = SlowRequests::new(SlowAfter::all(1000), Some(words), whose);
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
        let line = line(&slow, "GET /", 3, &outcome(1, &Spans::default()));
        assert!(
            line.ends_with(": 1 of 1 looks found its thread at a.py:1 in its_own") || whose != Whose::Thread,
            "{line}"
        );
        assert!(!line.contains("another_s"), "{line}");
    }
}
