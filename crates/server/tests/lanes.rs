//! The rule of lanes before ten kinds of load, in a simulation: what quick requests gain, what slow ones lose, and that
//! nobody starves, each beside one queue for all.
//!
//! Overload is in `overloaded/`; what plays is in `simulated/`.

use server::lanes::{ByHand, Lanes, Outcome};

use crate::simulated::{Asks, Became, Kind, MS, RULES, Rules, S, Takes, US, kind, play};

/// With lanes and with one queue.
fn both(kinds: &[Kind], threads: u32, lasts: u64) -> (Vec<Became>, Vec<Became>) {
    (play(kinds, threads, lasts, RULES).0, play(kinds, threads, lasts, Rules { has_lanes: false, ..RULES }).0)
}

const FAST: Kind = Kind { path: "/", asks: Asks::Rate(500), takes: Takes::About(20 * US), from: 0 };

/// How much of one kind is done with lanes, beside one queue, from some moment on.
fn part_done(kinds: &[Kind], lasts: u64, from: u64) -> f64 {
    let (lanes, queue) = both(kinds, 32, lasts);
    lanes[0].done(from) / queue[0].done(from)
}

#[test]
fn quick_requests_of_one_kind_are_played_as_in_one_queue() {
    let kinds = [kind("/", Asks::Clients(64), Takes::About(50 * US))];
    let (lanes, queue) = both(&kinds, 32, S / 5);
    // The last thread is not for the first crowd until one of its calls has ended.
    let (p99, in_queue) = (lanes[0].p99(MS), queue[0].p99(MS));
    assert!(p99 <= in_queue + in_queue / 100, "{p99} and {in_queue} us");
    assert!(part_done(&kinds, S / 5, 0) >= 0.99);
}

#[test]
fn slow_requests_of_one_kind_have_all_threads_but_one_at_first_and_all_of_them_then() {
    let kinds = [kind("/slow", Asks::Clients(100), Takes::About(50 * MS))];
    let first = part_done(&kinds, 10 * S, 0);
    assert!(first >= 0.96, "{first}");
    let then = part_done(&kinds, 30 * S, 11 * S);
    assert!(then >= 0.99, "{then}");
}

#[test]
fn slow_requests_of_one_kind_that_hardly_wait_have_all_threads_but_one_at_least() {
    for clients in [32, 33] {
        let kinds = [kind("/slow", Asks::Clients(clients), Takes::About(50 * MS))];
        let (first, then) = (part_done(&kinds, 10 * S, 0), part_done(&kinds, 30 * S, 15 * S));
        assert!(first >= 0.96 && then >= 0.99, "{clients} clients: {first}, then {then}");
    }
}

/// Calls that all take as long.
fn exactly(us: u64) -> Takes {
    Takes::Mostly(us, us, 0)
}

#[test]
fn the_first_crowd_of_slow_requests_leaves_a_thread_to_quick_ones_that_came_before() {
    let rarely = Kind { asks: Asks::Rate(1), takes: exactly(50 * US), ..FAST };
    for (threads, has_statistics) in [(4, true), (4, false), (8, true), (8, false), (32, true), (32, false)] {
        for length in [50 * MS, S, 5 * S] {
            let crowd = Kind { from: 60 * S, ..kind("/slow", Asks::Clients(4 * threads), exactly(length)) };
            let (became, _) =
                play(&[rarely, crowd], threads, 60 * S + 4 * length, Rules { has_statistics, ..RULES });
            let longest = became[0].longest();
            assert!(longest <= 9 * MS, "{threads} threads, {length} us, {has_statistics}: {longest} us");
        }
    }
}

#[test]
fn the_first_crowd_leaves_a_thread_to_quick_requests_that_nobody_has_seen() {
    let new = Kind { asks: Asks::Rate(3), takes: exactly(50 * US), ..FAST };
    for threads in [4, 8, 32] {
        let crowd = kind("/slow", Asks::Clients(4 * threads), exactly(2 * S));
        let (became, _) = play(&[crowd, Kind { from: S / 10, ..new }], threads, 20 * S, RULES);
        let longest = became[1].longest();
        assert!(longest <= 9 * MS, "{threads} threads: {longest} us");
        // Where there was none for long, the first one waits for one slow call, and no other does.
        let (became, _) = play(&[crowd, Kind { from: 31 * S, ..new }], threads, 50 * S, RULES);
        assert!(became[1].longest() <= 2 * S, "{threads} threads: {} us", became[1].longest());
        let longest = became[1].longest_between(33 * S, 50 * S);
        assert!(longest <= MS, "{threads} threads: {longest} us after the first");
    }
}

#[test]
fn two_new_slow_routes_at_once_keep_a_quick_one_waiting_for_one_call_at_most() {
    let new = |path| kind(path, Asks::Clients(64), exactly(S));
    let quick = Kind { asks: Asks::Rate(20), takes: exactly(50 * US), from: S / 10, ..FAST };
    let (became, _) = play(&[new("/one"), new("/two"), quick], 32, 20 * S, RULES);
    assert!(became[2].longest() <= S, "{} us", became[2].longest());
    assert!(became[2].longest_between(2 * S, 20 * S) <= MS);
}

#[test]
fn quick_requests_do_not_wait_for_slow_ones() {
    for clients in [50, 500] {
        let (lanes, queue) =
            both(&[FAST, kind("/slow", Asks::Clients(clients), Takes::About(50 * MS))], 32, 60 * S);
        assert!(queue[0].p99(2 * S) > 10 * MS, "one queue: {} us", queue[0].p99(2 * S));
        assert!(lanes[0].p99(S) <= 200, "{clients} clients: {} us", lanes[0].p99(S));
        let kept = lanes[1].done(2 * S) / queue[1].done(2 * S);
        assert!(kept >= 0.96, "{clients} clients: {kept} of the slow ones");
        assert!(lanes[1].longest() <= 2 * queue[1].longest() + 100 * MS, "{clients} clients: nobody starves");
    }
}

#[test]
fn two_slow_routes_do_not_starve_one_another_or_the_quick_one() {
    let kinds = [
        FAST,
        kind("/report", Asks::Clients(30), Takes::About(400 * MS)),
        kind("/list", Asks::Clients(30), Takes::About(50 * MS)),
    ];
    let (lanes, queue) = both(&kinds, 32, 90 * S);
    assert!(lanes[0].p99(S) <= 200, "{} us", lanes[0].p99(S));
    for slow in [1, 2] {
        let kept = lanes[slow].done(2 * S) / queue[slow].done(2 * S);
        assert!(kept >= 0.93, "{}: {kept}", kinds[slow].path);
    }
}

#[test]
fn a_route_that_is_quick_and_slow_by_parameter_is_no_worse_off() {
    let both_ways = Takes::Mostly(200 * US, 80 * MS, 100);
    let kinds = [FAST, kind("/search", Asks::Clients(300), both_ways)];
    let (lanes, queue) = both(&kinds, 32, 30 * S);
    assert!(lanes[0].p99(2 * S) <= MS, "{} us", lanes[0].p99(2 * S));
    let kept = lanes[1].done(2 * S) / queue[1].done(2 * S);
    assert!(kept >= 0.95, "{kept}");
    assert!(lanes[1].mean() <= queue[1].mean() * 1.05, "{} and {}", lanes[1].mean(), queue[1].mean());
}

#[test]
fn a_slow_route_that_is_first_seen_under_load_is_known_within_a_second() {
    let new = Kind { from: 5 * S, ..kind("/new", Asks::Clients(100), Takes::About(50 * MS)) };
    let kinds = [FAST, kind("/slow", Asks::Clients(20), Takes::About(30 * MS)), new];
    let (lanes, _) = both(&kinds, 32, 15 * S);
    assert!(lanes[0].p99(6 * S) <= 200, "{} us", lanes[0].p99(6 * S));
    assert!(lanes[0].longest() <= 60 * MS, "{} us at the worst", lanes[0].longest());
}

#[test]
fn a_quick_route_that_is_first_seen_under_load_is_known_at_once() {
    let new = Kind { from: 5 * S, ..FAST };
    let kinds = [kind("/slow", Asks::Clients(500), Takes::About(50 * MS)), new];
    let (lanes, queue) = both(&kinds, 32, 15 * S);
    assert!(queue[1].p99(5 * S) > 500 * MS);
    assert!(lanes[1].p99(5 * S) <= MS, "{} us", lanes[1].p99(5 * S));
}

#[test]
fn a_burst_of_unknown_routes_takes_no_memory_and_little_of_the_express_lane() {
    let attack = Kind { from: 3 * S, ..kind("/#/#", Asks::Rate(3_000), Takes::About(50 * MS)) };
    let kinds = [FAST, kind("/slow", Asks::Clients(20), Takes::About(50 * MS)), attack];
    let (lanes, worker) = play(&kinds, 32, 10 * S, RULES);
    assert!(lanes[0].p99(4 * S) <= 3 * MS, "{} us", lanes[0].p99(4 * S));
    let known = worker.lanes.map_or(0, |lanes| lanes.known().count());
    assert!(known <= 700, "{known} routes");
}

#[test]
fn a_route_that_changes_is_followed() {
    // Each takes two thirds of the threads while it is slow: between the tenth second and the twentieth there are too few.
    let grows = kind("/grows", Asks::Rate(200), Takes::Until(100 * US, 10 * S, 100 * MS));
    let heals = kind("/heals", Asks::Rate(250), Takes::Until(80 * MS, 20 * S, 100 * US));
    let (lanes, _) = both(&[FAST, grows, heals], 32, 30 * S);
    for (from, to) in [(1, 10), (11, 20), (21, 30)] {
        let longest = lanes[0].longest_between(from * S, to * S);
        assert!(longest <= MS, "from second {from} on: {longest} us");
    }
    assert!(lanes[2].longest_between(29 * S, 30 * S) <= MS, "it is quick again");
}

#[test]
fn one_call_of_half_a_minute_among_a_hundred_leaves_the_others_their_threads() {
    let kinds = [
        FAST,
        kind("/slow", Asks::Clients(40), Takes::About(50 * MS)),
        kind("/odd", Asks::Rate(30), Takes::Mostly(MS, 30 * S, 10)),
    ];
    let (lanes, queue) = both(&kinds, 32, 60 * S);
    assert!(lanes[0].p99(2 * S) <= MS, "{} us", lanes[0].p99(2 * S));
    assert!(queue[0].p99(2 * S) > 10 * MS, "one queue: {} us", queue[0].p99(2 * S));
}

#[test]
fn quick_calls_that_wait_for_something_have_as_many_threads_as_they_need() {
    let kinds = [
        kind("/lookup", Asks::Rate(1_000), Takes::About(3 * MS)),
        kind("/slow", Asks::Clients(200), Takes::About(200 * MS)),
    ];
    let (lanes, queue) = both(&kinds, 32, 20 * S);
    assert!(lanes[0].p99(2 * S) <= 5 * MS, "{} us", lanes[0].p99(2 * S));
    assert!(queue[0].p99(2 * S) > 100 * MS);
    assert!(lanes[1].done(2 * S) / queue[1].done(2 * S) >= 0.75);
}

#[test]
fn four_threads_keep_one() {
    let kinds = [FAST, kind("/slow", Asks::Clients(20), Takes::About(50 * MS))];
    let (lanes, queue) = both(&kinds, 4, 20 * S);
    assert!(lanes[0].p99(2 * S) <= MS, "{} us", lanes[0].p99(2 * S));
    assert!(lanes[1].done(2 * S) / queue[1].done(2 * S) >= 0.73);
}

#[test]
fn slow_requests_go_on_beside_quick_ones_without_a_pause() {
    // As many quick ones as every thread can play: what is slow has its share all the same.
    let kinds = [
        kind("/", Asks::Clients(200), Takes::About(100 * US)),
        kind("/slow", Asks::Clients(50), Takes::About(50 * MS)),
    ];
    let (lanes, queue) = both(&kinds, 32, 3 * S);
    assert!(lanes[1].done(S) >= queue[1].done(S) * 0.9, "{} and {}", lanes[1].done(S), queue[1].done(S));
    assert!(lanes[1].longest() <= 2 * queue[1].longest() + 100 * MS);
}

#[test]
fn a_call_of_a_route_that_is_not_known_yet_has_been_long_if_it_took_as_long_as_slow_ones() {
    const SLOW: u64 = 5 * MS;
    for (took, was_long) in [(SLOW - 1, false), (SLOW, true), (SLOW + 1, true)] {
        let mut lanes = Lanes::new(8, &ByHand::default());
        lanes.wake();
        lanes.look(S, false);
        let route: (&[u8], &[u8]) = (b"GET", b"/new");
        let name = lanes.name(route.0, route.1);
        let mut mark = lanes.judge(name, route, route.1.into());
        lanes.goes_out();
        lanes.begin(&mut mark, route, S);
        assert_eq!(
            lanes.end(&mut mark, S + took, Outcome::Answered, None) >= lanes.long_us(),
            was_long,
            "{took} us"
        );
    }
}

#[test]
fn pages_do_not_wait_for_reports_that_take_much_longer() {
    let pages = kind("/page", Asks::Clients(8), Takes::About(20 * MS));
    let reports = kind("/report", Asks::Clients(50), Takes::About(S));
    // A report that begins as the first pages are asked for ends some seconds later at the latest.
    for kinds in [vec![pages, reports], vec![pages, reports, FAST]] {
        let (lanes, queue) = both(&kinds, 32, 30 * S);
        assert!(queue[0].p99(8 * S) > 400 * MS, "one queue: {} us", queue[0].p99(8 * S));
        assert!(lanes[0].p99(8 * S) <= 60 * MS, "{} us", lanes[0].p99(8 * S));
        let kept = lanes[1].done(8 * S) / queue[1].done(8 * S);
        assert!(kept >= 0.7, "{kept} of the reports");
    }
    // Where nobody asks for pages, reports have their threads.
    let (became, _) = play(&[reports], 32, 30 * S, RULES);
    assert!(became[0].done(11 * S) >= 31.0 * 19.0 * 0.95, "{} reports", became[0].done(11 * S));
}

#[test]
fn reports_do_not_wait_for_ever_for_pages_without_a_pause() {
    let kinds = [
        kind("/page", Asks::Clients(200), Takes::About(20 * MS)),
        kind("/report", Asks::Clients(20), Takes::About(S)),
    ];
    let (lanes, queue) = both(&kinds, 32, 60 * S);
    let kept = lanes[1].done(10 * S) / queue[1].done(10 * S);
    assert!(kept >= 0.9, "{kept} of the reports");
    assert!(lanes[1].longest() <= 6 * S, "{} us", lanes[1].longest());
}
