//! How many threads there are, window by window, before what the test puts behind them.

use super::*;

/// So long is a window of the watchdog's.
const WINDOW_MS: Millis = 500;

/// A worker and what is behind it: so many clients, whose requests take `call_ms` on one of `places` places.
struct Behind {
    clients: u32,
    places: u32,
    call_ms: u32,
    /// With more threads than that, requests fail.
    fails_above: u32,
}

impl Behind {
    /// What happens in a window with so many threads, one of which is kept.
    fn window(&self, threads: u32) -> Window {
        let inside = self.clients.min(threads - 1);
        let rate = f64::from(inside.min(self.places)) * 1000.0 / f64::from(self.call_ms);
        let done = (rate * WINDOW_MS as f64 / 1000.0) as u64;
        let waiting = self.clients - inside;
        Window {
            ms: WINDOW_MS,
            done,
            failed: if threads > self.fails_above { done / 10 } else { 0 },
            looks: 250,
            waits: if waiting > 0 { 250 } else { 0 },
            waiting: u64::from(waiting) * 250,
            busy: u64::from(inside) * 250,
            ..Window::default()
        }
    }
}

const PLENTY: Behind = Behind { clients: 50, places: 10_000, call_ms: 50, fails_above: 10_000 };

/// Plays it for so many seconds: how many threads there were, window by window.
fn play(growth: &mut Growth, behind: &Behind, seconds: u64, begun: Millis) -> Vec<u32> {
    let windows = seconds * 1000 / WINDOW_MS;
    let play = (0..windows).map(|at| {
        let window = behind.window(growth.threads());
        growth.look(&window, None, begun + at * WINDOW_MS);
        growth.threads()
    });
    play.collect()
}

#[test]
fn it_grows_until_nobody_waits_within_five_seconds() {
    let mut growth = Growth::new(128);
    let threads = play(&mut growth, &PLENTY, 5, 0);
    assert!(growth.threads() > 50, "{threads:?}");
    assert_eq!(play(&mut growth, &PLENTY, 20, 5_000).last(), threads.last(), "and stays there");
}

#[test]
fn it_grows_though_requests_that_have_just_been_taken_are_more_than_there_are_threads() {
    let mut growth = Growth::new(128);
    let play = (0..20).map(|at| {
        // Quick ones beside: they wait for their turn in the threads that they have.
        let mut window = PLENTY.window(growth.threads());
        window.busy = u64::from(growth.threads() + 1) * 250;
        growth.look(&window, None, at * WINDOW_MS);
        growth.threads()
    });
    let threads: Vec<u32> = play.collect();
    assert!(threads.iter().any(|&threads| threads > START), "{threads:?}");
}

#[test]
fn what_was_finished_while_quick_ones_were_counted_is_compared_with_nothing() {
    let mut growth = Growth::new(128);
    let window = |threads, more| {
        let window = PLENTY.window(threads);
        Window { done: window.done + more, ..window }
    };
    // Quick ones that came before it was known that they are, in the window before the first step and in that of its trial.
    assert_eq!(growth.look(&window(START, 400), None, 0), None);
    let others = Window { counts_others: true, ..window(START, 0) };
    assert_eq!(growth.look(&others, None, WINDOW_MS), None);
    let threads = play(&mut growth, &PLENTY, 1, 2 * WINDOW_MS);
    assert_eq!(threads, [START, 40], "it is judged by what comes later");
    let change = growth.look(&Window { counts_others: true, ..window(40, 0) }, None, 4 * WINDOW_MS);
    assert_eq!(change.map(|change| change.threads), Some(START));
    let threads = play(&mut growth, &PLENTY, 5, 5 * WINDOW_MS);
    assert!(growth.threads() > 50, "{threads:?}");
}

#[test]
fn it_does_not_grow_beyond_what_is_allowed() {
    let mut growth = Growth::new(40);
    let crowd = Behind { clients: 500, ..PLENTY };
    assert!(play(&mut growth, &crowd, 60, 0).iter().all(|&threads| threads <= 40));
    assert_eq!(growth.threads(), 40);
    assert_eq!(Growth::new(8).threads(), 8);
}

#[test]
fn a_database_of_ten_connections_has_hardly_more_threads_than_it_can_use() {
    let mut growth = Growth::new(128);
    let database = Behind { clients: 50, places: 10, ..PLENTY };
    let threads = play(&mut growth, &database, 300, 0);
    let settled = &threads[60..];
    assert!(settled.iter().all(|&threads| threads <= 16), "{threads:?}");
    // One is kept.
    let best = settled.iter().filter(|&&threads| threads > 10).count();
    assert!(best * 100 >= settled.len() * 90, "{threads:?}");
}

#[test]
fn threads_in_which_all_wait_for_the_same_do_not_stay_though_nobody_waits_for_one() {
    let mut growth = Growth::new(128);
    let database = Behind { clients: 36, places: 10, ..PLENTY };
    let threads = play(&mut growth, &database, 60, 0);
    assert!(threads[100..].iter().all(|&threads| threads <= 16), "{threads:?}");
}

#[test]
fn threads_that_something_else_needed_become_fewer_where_all_wait_inside_for_the_same() {
    for clients in [50, 28, 20] {
        let mut growth = Growth::new(128);
        play(&mut growth, &Behind { clients, ..PLENTY }, 30, 0);
        let grown = growth.threads();
        let database = Behind { clients, places: 10, call_ms: 50, ..PLENTY };
        let threads = play(&mut growth, &database, 60, 30_000);
        assert!(threads[60..].iter().all(|&threads| threads <= 16), "{clients}, from {grown}: {threads:?}");
        // More are tried as soon as the rest is over.
        let threads = play(&mut growth, &Behind { clients, ..PLENTY }, 700, 90_000);
        assert!(threads.last().is_some_and(|&threads| threads > clients), "and more again: {threads:?}");
    }
}

#[test]
fn fewer_for_which_hardly_anybody_waits_stay_and_are_not_tried_again_and_again() {
    let mut growth = Growth::new(128);
    let short = Behind { clients: 24, call_ms: 2, ..PLENTY };
    play(&mut growth, &short, 30, 0);
    let threads = play(&mut growth, &Behind { places: 10, ..short }, 300, 30_000);
    let changes = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes <= 2 && threads.last() < Some(&START), "{threads:?}");
}

/// Requests come whether others are done or not: so many a window.
fn arriving(threads: u32, each: u64, call_ms: u64, owed: &mut u64) -> Window {
    let most = u64::from(threads - 1) * WINDOW_MS / call_ms;
    let done = (each + *owed).min(most);
    *owed = each + *owed - done;
    let (busy, waiting) = (done * call_ms / WINDOW_MS, *owed);
    let waits = if waiting > 0 { 250 } else { 0 };
    Window {
        ms: WINDOW_MS,
        done,
        looks: 250,
        waits,
        waiting: waiting * 250,
        busy: busy * 250,
        ..Window::default()
    }
}

#[test]
fn calls_that_take_longer_by_themselves_have_hardly_to_wait_for_a_trial() {
    let mut growth = Growth::new(128);
    let mut owed = 0;
    let mut tried = 0;
    for at in 0..7200_u64 {
        // Half an hour of calls of 20 ms, then they take 200 ms each: 24 are inside, of 32.
        let (each, call_ms) = if at < 3600 { (100, 20) } else { (60, 200) };
        let before = growth.threads();
        growth.look(&arriving(before, each, call_ms, &mut owed), None, at * WINDOW_MS);
        tried += u32::from(growth.threads() < before && before == START);
        assert!(owed <= 60, "{owed} wait for a thread, which is what comes within half a second");
    }
    assert!((1..=8).contains(&tried), "within half an hour: {tried}");
    assert_eq!(growth.threads(), START);
}

#[test]
fn it_goes_back_where_more_threads_make_requests_fail() {
    let mut growth = Growth::new(128);
    let fragile = Behind { clients: 100, fails_above: 36, ..PLENTY };
    let threads = play(&mut growth, &fragile, 60, 0);
    assert!(threads.iter().skip(10).filter(|&&threads| threads > 36).count() <= 6, "{threads:?}");
}

#[test]
fn it_stays_where_nobody_waits() {
    let mut growth = Growth::new(128);
    let calm = Behind { clients: 20, ..PLENTY };
    assert!(play(&mut growth, &calm, 300, 0).iter().all(|&threads| threads == START));
}

/// All that it says in so many windows.
fn said(growth: &mut Growth, behind: &Behind, windows: u64, short_of: Option<Memory>) -> Vec<Change> {
    let said =
        (0..windows).filter_map(|at| growth.look(&behind.window(growth.threads()), short_of, at * WINDOW_MS));
    said.collect()
}

#[test]
fn without_memory_it_does_not_grow_and_says_once_of_which_there_is_none() {
    for (memory, told_as) in
        [(Memory::Container, "of the container's"), (Memory::Worker, "of --max-worker-memory")]
    {
        let mut growth = Growth::new(128);
        let told = said(&mut growth, &PLENTY, 100, Some(memory));
        assert_eq!(told.iter().map(|change| change.threads).collect::<Vec<_>>(), [START], "{told:?}");
        assert!(told[0].why.contains(&format!("there is no memory: a fifth {told_as}")), "{told:?}");
        assert!(!said(&mut growth, &PLENTY, 10, None).is_empty(), "there is some again");
        assert!(growth.threads() > START);
    }
}

#[test]
fn it_says_once_that_there_are_as_many_as_may_be() {
    for most in [8, START] {
        let told = said(&mut Growth::new(most), &Behind { clients: 500, ..PLENTY }, 100, None);
        assert_eq!(told.iter().map(|change| change.threads).collect::<Vec<_>>(), [most], "{told:?}");
        assert!(told[0].why.contains("--threads-max allows no more"), "{told:?}");
    }
    let calm = Behind { clients: 4, ..PLENTY };
    assert_eq!(said(&mut Growth::new(8), &calm, 100, None), [], "nobody waits");
}

#[test]
fn it_says_for_how_long_it_rests() {
    let mut growth = Growth::new(128);
    let told = said(&mut growth, &Behind { clients: 200, places: 31, ..PLENTY }, 300, None);
    let rests: Vec<&str> =
        told.iter().filter_map(|change| change.why.split_once("; nothing else ")).map(|it| it.1).collect();
    assert!(rests.starts_with(&["is tried for 30 s", "is tried for 60 s"]), "{told:?}");
}

#[test]
fn what_was_tried_for_nothing_is_tried_again_less_and_less_often() {
    let mut growth = Growth::new(128);
    let database = Behind { clients: 200, places: 31, ..PLENTY };
    let mut tries = Vec::new();
    for at in 0..7200 {
        let before = growth.threads();
        growth.look(&database.window(before), None, at * WINDOW_MS);
        if growth.threads() > before && before == START {
            tries.push(at * WINDOW_MS / 1000);
        }
    }
    assert!(tries.len() <= 12, "within an hour: {tries:?}");
    assert_eq!(growth.threads(), START);
}

#[test]
fn threads_that_are_idle_become_fewer() {
    let mut growth = Growth::new(128);
    play(&mut growth, &Behind { clients: 100, ..PLENTY }, 20, 0);
    assert!(growth.threads() >= 100);
    let quiet = play(&mut growth, &Behind { clients: 5, ..PLENTY }, 1200, 20_000);
    assert_eq!(quiet.last(), Some(&START), "{quiet:?}");
    let first = quiet.iter().position(|&threads| threads < quiet[0]);
    assert!(first.is_some_and(|at| at as u64 * WINDOW_MS >= IDLE_MS), "{first:?}");
}

#[test]
fn a_window_says_whether_requests_wait() {
    for (looks, waits, waiting, done, pressed) in [
        (100, 90, 1_000, 100, true),
        (100, 89, 1_000, 100, false),
        (100, 100, 100, 100, true),
        (100, 100, 100, 101, false),
        (100, 100, 100, 0, true),
        (0, 0, 0, 0, false),
    ] {
        let window = Window { ms: 500, looks, waits, waiting, done, ..Window::default() };
        assert_eq!(window.is_pressed(), pressed, "{window:?}: {} ms", window.wait_ms());
    }
}

#[test]
fn no_wait_is_told_that_is_longer_than_anybody_has_waited() {
    // Calls of a second, of which none has ended in a window of half of it.
    let window = Window { ms: 500, looks: 250, waits: 250, waiting: 250 * 160, ..Window::default() };
    for (longest_ms, told) in [(None, 80_000.0), (Some(9_000), 9_000.0), (Some(0), 0.0)] {
        assert_eq!(Window { longest_ms, ..window }.wait_ms(), told);
    }
    let mut both = Window { longest_ms: Some(400), ..window };
    both.add(&Window { longest_ms: Some(900), ..window });
    assert_eq!(both.wait_ms(), 900.0, "who has waited longest in any of several");
}

#[test]
fn the_fewest_threads_are_no_end_where_requests_that_wait_follow_those_that_compute() {
    let mut growth = Growth::new(128);
    let computes = Behind { clients: 50, places: 1, call_ms: 10, fails_above: 10_000 };
    let threads = play(&mut growth, &computes, 120, 0);
    assert_eq!(threads.last(), Some(&LEAST), "{threads:?}");
    let threads = play(&mut growth, &PLENTY, 60, 120_000);
    assert!(growth.threads() > 40, "{threads:?}");
}

#[test]
fn more_fewer_and_as_many_are_told_in_words_and_not_by_a_sign() {
    let said = [0.25, 0.014, 0.004, 0.0, -0.004, -0.016, -1.0].map(compared);
    assert_eq!(said, ["25 % more", "1 % more", "as many", "as many", "as many", "2 % fewer", "100 % fewer"]);
}

/// More were tried before anything was known of them, for nothing: now it waits until calls have ended.
fn knowing() -> Growth {
    Growth { climb_after: Millis::MAX, ..Growth::new(128) }
}

/// A window in which so many of 31 calls that are inside have ended, while others wait.
fn long_calls(done: u64) -> Window {
    let longest_ms = Some(10_000);
    Window {
        ms: WINDOW_MS,
        done,
        looks: 250,
        waits: 250,
        waiting: 250 * 60,
        busy: 250 * 31,
        longest_ms,
        ..Window::default()
    }
}

#[test]
fn where_calls_take_long_two_of_each_thread_and_six_windows_are_enough_for_half_as_many() {
    let begun_after = |done: &[u64]| {
        let mut growth = knowing();
        let mut all = done.iter().enumerate();
        all.find_map(|(at, &done)| {
            let change = growth.look(&long_calls(done), None, at as Millis * WINDOW_MS)?;
            Some((at + 1, change.threads))
        })
    };
    // Two of each of 31 are 62.
    assert_eq!(begun_after(&[61, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(begun_after(&[62, 0, 0, 0, 0, 0, 0, 0]), Some((6, 48)));
    assert_eq!(begun_after(&[0, 0, 0, 0, 0, 0, 61, 1, 0]), Some((8, 48)));
    assert_eq!(begun_after(&[62, 0, 0, 0, 0]), None, "five windows are not");
    // None has ended in ten seconds: there is nothing to wait for.
    assert_eq!(begun_after(&[0; MOST_WINDOWS as usize - 1]), None);
    assert_eq!(begun_after(&[0; MOST_WINDOWS as usize]), Some((20, 48)));
    // Many say as much as ever.
    assert_eq!(begun_after(&[150, 149, 1]), Some((3, 40)));
    assert_eq!(begun_after(&[150, 150]), Some((2, 40)));
}

#[test]
fn new_threads_are_judged_when_the_calls_that_were_begun_with_them_have_had_the_time_to_end() {
    // Calls of eighteen seconds of which one and then another ended before the trial, and none later: it is waited for half a minute.
    for (before, after_ms) in [(31, 15_000), (15, 30_000), (0, 30_000)] {
        let mut growth = knowing();
        let mut done = vec![0; MOST_WINDOWS as usize];
        done[3] = before;
        let begun = done.iter().find_map(|&done| growth.look(&long_calls(done), None, 0));
        assert!(begun.is_some_and(|begun| begun.threads == 48));
        let inside = Window { busy: 250 * 47, ..long_calls(0) };
        let windows = (1..).find(|_| growth.look(&inside, None, 0).is_some());
        // The first one is left out.
        assert_eq!(windows.map(|windows| (windows - 1) * WINDOW_MS), Some(after_ms), "{before}");
        assert_eq!(growth.threads(), START, "none of them has finished anything: somebody hangs");
    }
}

#[test]
fn new_threads_that_nobody_has_are_judged_at_once() {
    let mut growth = knowing();
    let begun = (0..MOST_WINDOWS).find_map(|_| growth.look(&long_calls(1), None, 0));
    assert!(begun.is_some_and(|begun| begun.threads == 48));
    let windows = (1..).find(|_| growth.look(&long_calls(0), None, 0).is_some());
    assert_eq!(windows, Some(MOST_WINDOWS + 1));
}

#[test]
fn fewer_threads_are_judged_by_a_hundred_calls_or_after_half_a_minute() {
    // Ten seconds are enough from a hundred calls on.
    for (each, windows) in [(5, 20), (4, 25), (2, 50), (1, 60)] {
        let mut growth = Growth::new(128);
        growth.downward = true;
        let found = (1..).find(|_| growth.look(&long_calls(each), None, 0).is_some());
        assert_eq!((found, growth.threads()), (Some(windows), 24), "{each} in each window");
        let judged = (1..).find(|_| growth.look(&long_calls(each), None, 0).is_some());
        assert_eq!(judged, Some(windows + 1), "{each} in each window");
    }
}

#[test]
fn more_may_come_until_it_is_known_that_they_would_help_nobody() {
    // As many as may be.
    let mut growth = Growth::new(40);
    let crowd = Behind { clients: 500, ..PLENTY };
    assert_eq!((growth.threads(), growth.may_come_to(0)), (32, 40), "nothing was tried");
    play(&mut growth, &crowd, 1, 0);
    assert_eq!((growth.threads(), growth.may_come_to(1_000)), (40, 40));

    // A database of ten connections: more are tried, then fewer, then nothing for half a minute.
    let mut growth = Growth::new(128);
    let database = Behind { clients: 50, places: 10, ..PLENTY };
    let mut told = Vec::new();
    for at in 0..1_200 {
        let now = at * WINDOW_MS;
        growth.look(&database.window(growth.threads()), None, now);
        let state = match &growth.trial {
            Some(trial) if growth.threads() > trial.from => "more",
            Some(_) => "fewer",
            None if growth.downward => "fewer next",
            None if now < growth.rest_until => "rest",
            None => "none",
        };
        let to_come = if matches!(state, "more" | "none") { 128 } else { growth.threads() };
        assert_eq!(growth.may_come_to(now), to_come, "{state}");
        if told.last() != Some(&state) {
            told.push(state);
        }
    }
    let first = told.iter().position(|&state| state == "rest");
    assert!(
        first.is_some_and(|at| told[..at].contains(&"more") && told[..at].contains(&"fewer")),
        "{told:?}"
    );

    // No memory.
    let mut growth = Growth::new(128);
    said(&mut growth, &PLENTY, 4, Some(Memory::Container));
    assert_eq!(growth.may_come_to(0), 32);
}
