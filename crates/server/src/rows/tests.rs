//! What follows from what rows tell.

use super::*;

struct Numbers(Vec<AtomicU64>);

impl Page for Numbers {
    fn numbers(&self) -> &[AtomicU64] {
        &self.0
    }

    fn now(&self) -> Millis {
        0
    }
}

#[test]
fn a_free_thread_is_one_of_a_worker_that_is_sound_and_has_room() {
    for (busy, (waiting, limited), level, strained, connections, free) in [
        (0, (0, 0), 0, 0, 0, 4),
        (3, (0, 0), 4, 0, 9, 1),
        (3, (1, 0), 4, 0, 9, 0),
        (4, (7, 0), 4, 0, 9, 0),
        (1, (7, 7), 2, 0, 9, 3),
        (2, (7, 6), 4, 0, 9, 1),
        (1, (0, 0), 200, 0, 9, 0),
        (1, (0, 0), 30, 1, 9, 0),
        (0, (0, 0), 0, 0, 98, 2),
        (0, (0, 0), 0, 0, 101, 0),
    ] {
        let rows = Rows::new(Numbers((0..ROWS * WIDTH).map(|_| AtomicU64::new(0)).collect()), 0);
        rows.at(0, Field::Rows).store(3, Ordering::Relaxed);
        // Ours is not looked at, nor one where nobody lives.
        for (row, pid) in [(0, 1), (1, 0), (2, 2)] {
            let own = [
                (Field::Pid, pid),
                (Field::Threads, 4),
                (Field::Busy, busy),
                (Field::Queued, queued(waiting, limited)),
                (Field::Level, level),
                (Field::Strained, strained),
                (Field::Connections, connections),
            ];
            for (field, value) in own {
                rows.at(row, field).store(value, Ordering::Relaxed);
            }
        }
        assert_eq!(rows.free_elsewhere(200, 100), free, "{busy} busy, {waiting} wait, level {level}");
    }
}

/// Three rows of which the second is empty: what is said in the first and in the last, as one of them sees it.
fn two(own: usize, first: &[(Field, u64)], last: &[(Field, u64)]) -> Rows<Numbers> {
    let rows = Rows::new(Numbers((0..ROWS * WIDTH).map(|_| AtomicU64::new(0)).collect()), own);
    rows.at(0, Field::Rows).store(3, Ordering::Relaxed);
    for (row, said) in [(0, first), (2, last)] {
        rows.at(row, Field::Pid).store(7, Ordering::Relaxed);
        rows.at(row, Field::Watching).store(1, Ordering::Relaxed);
        said.iter().for_each(|&(field, value)| rows.at(row, field).store(value, Ordering::Relaxed));
    }
    rows
}

#[test]
fn a_loop_was_held_up_lately_for_five_seconds() {
    for (seen, now, lately) in
        [(0, 0, false), (10_000, 14_999, true), (10_000, 15_000, false), (10_000, 9_999, true)]
    {
        let told = if seen == 0 { 0 } else { loop_held(300, seen) };
        assert_eq!(held_lately(told, now), lately, "{seen} {now}");
    }
}

#[test]
fn a_worker_whose_loop_was_held_up_lately_is_no_better_place() {
    for (told, sound) in [(0, true), (loop_held(300, 1), false)] {
        let rows = two(0, &[], &[(Field::LoopHeld, told)]);
        assert_eq!(rows.somebody_is_sound(30, 100), sound);
        let rows = two(2, &[], &[(Field::LoopHeld, told)]);
        assert_eq!((rows.somebody_is_sound(30, 100), rows.was_held_lately()), (true, !sound));
    }
    assert!(!two(0, &[], &[(Field::Strained, 1)]).somebody_is_sound(30, 100));
}

#[test]
fn one_thread_that_holds_up_another_worker_is_known_there_and_all_threads_inside_are_not_that() {
    for (own, said, is) in [
        (0, vec![(Field::Strained, 1), (Field::Level, 199)], true),
        (0, vec![(Field::Strained, 1), (Field::Level, 200)], false),
        (0, vec![(Field::Strained, 0), (Field::Level, 38)], false),
        (0, vec![(Field::Strained, 2), (Field::Level, 38)], false),
        (2, vec![(Field::Strained, 1), (Field::Level, 38)], false),
    ] {
        assert_eq!(two(own, &[], &said).somebody_is_strained(200), is, "{own} {said:?}");
    }
}

#[test]
fn new_connections_are_drawn_by_who_was_held_up_more_often_and_of_two_alike_by_the_first() {
    for (first, last, drawn_to_first, drawn_to_last) in [
        (0, 0, false, false),
        (1, 0, true, false),
        (0, 1, false, true),
        (1, 1, true, false),
        (1, 4, false, true),
        (4, 1, true, false),
    ] {
        let said = |ended| [(Field::Strained, strained(false, ended)), (Field::LoopHeld, loop_held(300, 1))];
        let drawn = |own| two(own, &said(first), &said(last)).somebody_draws(30);
        assert_eq!((drawn(2), drawn(0)), (drawn_to_first, drawn_to_last), "{first} {last}");
    }
}

#[test]
fn nobody_is_drawn_to_a_worker_that_is_held_up_now_or_was_long_ago_or_does_not_watch() {
    let draws = [(Field::Strained, strained(false, 1)), (Field::LoopHeld, loop_held(300, 1))];
    for (other, drawn) in [
        ((Field::Level, 29), true),
        ((Field::Level, 30), false),
        ((Field::Watching, 0), false),
        ((Field::Strained, strained(true, 1)), false),
        ((Field::LoopHeld, 0), false),
        ((Field::Pid, 0), false),
    ] {
        let rows = two(0, &[], &[&draws[..], &[other]].concat());
        assert_eq!(rows.somebody_draws(30), drawn, "{other:?}");
    }
}

#[test]
fn the_most_threads_are_those_of_another_worker_that_lives() {
    let rows = Rows::new(Numbers((0..ROWS * WIDTH).map(|_| AtomicU64::new(0)).collect()), 0);
    assert_eq!(rows.most_threads(), 0, "there is none");
    rows.at(0, Field::Rows).store(4, Ordering::Relaxed);
    for (row, pid, threads) in [(0, 1, 99), (1, 0, 98), (2, 2, 56), (3, 3, 40)] {
        rows.at(row, Field::Pid).store(pid, Ordering::Relaxed);
        rows.at(row, Field::Threads).store(threads, Ordering::Relaxed);
    }
    assert_eq!(rows.most_threads(), 56);
}

#[test]
fn who_has_more_gives_back_what_is_asked_for_and_no_more_than_makes_it_even() {
    for (own, theirs, wants, strained, gives) in [
        (10, 0, 0, 0, 0),
        (10, 0, 3, 0, 3),
        (10, 0, 9, 0, 5),
        (11, 0, 9, 0, 5),
        (10, 8, 9, 0, 1),
        (10, 9, 9, 0, 0),
        (10, 12, 9, 0, 0),
        (10, 0, 9, 1, 0),
    ] {
        let rows = Rows::new(Numbers((0..ROWS * WIDTH).map(|_| AtomicU64::new(0)).collect()), 0);
        rows.at(0, Field::Rows).store(3, Ordering::Relaxed);
        // Ours is not looked at, nor one where nobody lives.
        for (row, pid) in [(0, 1), (1, 0), (2, 2)] {
            rows.at(row, Field::Pid).store(pid, Ordering::Relaxed);
            rows.at(row, Field::Wants).store(if row == 2 { wants } else { 100 }, Ordering::Relaxed);
        }
        rows.at(2, Field::Connections).store(theirs, Ordering::Relaxed);
        rows.at(2, Field::Strained).store(strained, Ordering::Relaxed);
        assert_eq!(rows.wanted_back(own), gives, "{own} here, {theirs} there, {wants} wanted");
    }
}

#[test]
fn what_is_wanted_and_what_is_done_of_what_computes_are_told_apart() {
    let rows = two(0, &[], &[]);
    let share = Share { is_apart: true, takes: true, computed: 300, rest: 400, calls: 70, others: 500 };
    rows.show_share(share);
    rows.wants(7);
    assert_eq!((Share::told(rows.of(0, Field::Wants)), told_wants(rows.of(0, Field::Wants))), (share, 7));
    rows.show_share(Share::default());
    assert_eq!(rows.of(0, Field::Wants), 7);
    let most = (1 << LOW_BITS) - 1;
    for (wants, told) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
        rows.wants(wants);
        assert_eq!(rows.of(0, Field::Wants), told, "more than can be told are as many as can be");
    }
}

#[test]
fn shares_are_of_those_that_live_and_go_on_and_of_who_does_nothing_only_what_it_takes() {
    let share = Share { is_apart: true, takes: true, computed: 300, rest: 400, calls: 70, others: 500 };
    let resting = Share { is_apart: true, takes: true, ..Share::default() };
    for (pid, level, busy, now, told) in [
        (7, 0, 1, 9_000, Some(share)),
        (7, 0, 0, 8_000, Some(share)),
        (7, 0, 0, 8_001, Some(resting)),
        (0, 0, 1, 0, None),
        (7, LEAVING - 1, 1, 0, Some(share)),
        (7, LEAVING, 1, 0, None),
    ] {
        let said = [(Field::Pid, pid), (Field::Level, level), (Field::Busy, busy), (Field::Updated, 5_000)];
        let rows = Rows::new(At(two(0, &[], &said).page, now), 0);
        rows.at(2, Field::Wants).store(share.packed(), Ordering::Relaxed);
        let found: Vec<_> = rows.shares().collect();
        assert_eq!(found[0], (0, Share::default()), "one's own comes first");
        assert_eq!(found.get(1).copied(), told.map(|told| (2, told)), "{pid} {level} {busy} {now}");
    }
}

/// The same numbers at another time.
struct At(Numbers, Millis);

impl Page for At {
    fn numbers(&self) -> &[AtomicU64] {
        self.0.numbers()
    }

    fn now(&self) -> Millis {
        self.1
    }
}

#[test]
fn a_request_that_computes_goes_to_who_takes_those_of_all_has_room_and_is_not_too_busy() {
    for (takes, level, connections, goes) in
        [(true, 99, 9, true), (true, 100, 9, false), (true, 99, 10, false), (false, 0, 0, false)]
    {
        let wants = Share { is_apart: true, takes, ..Share::default() }.packed();
        let said = [(Field::Level, level), (Field::Connections, connections), (Field::Wants, wants | 5)];
        assert_eq!(
            two(0, &[], &said).somebody_takes_computing(100, 10),
            goes,
            "{takes} {level} {connections}"
        );
        assert!(!two(2, &[], &said).somebody_takes_computing(100, 10), "it is another one");
    }
}
