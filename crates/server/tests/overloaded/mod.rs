//! More is asked than can be done: who is served in time where the newest and the oldest begin in turn, beside the order of
//! arrival, and that nobody is left behind.

use crate::simulated::{Asks, Became, MS, RULES, Rules, S, Takes, kind, play};

const THREADS: u32 = 32;

/// What became of the only kind, in turn and in the order of arrival.
fn both(asks: Asks, takes: Takes, lasts: u64, patience: u64) -> [Became; 2] {
    [1_000, 0].map(|newest_first_after| {
        let rules = Rules { newest_first_after, patience, ..RULES };
        let (mut became, _) = play(&[kind("/view", asks, takes)], THREADS, lasts, rules);
        became.remove(0)
    })
}

#[test]
fn a_crowd_that_can_be_served_is_served_and_nobody_waits_for_more_than_twice_as_long() {
    // In the order of arrival each waits for a second and a half; nobody may wait for longer than ten.
    let [turns, arrival] = both(Asks::Clients(1_000), Takes::About(50 * MS), 30 * S, 10 * S);
    assert!((S..2 * S).contains(&arrival.longest()), "{} us", arrival.longest());
    assert!(
        turns.lost.is_empty() && arrival.lost.is_empty(),
        "{} have waited for too long",
        turns.lost.len()
    );
    assert!(turns.longest() <= 2 * arrival.longest(), "{} and {} us", turns.longest(), arrival.longest());
    let kept = turns.done(2 * S) / arrival.done(2 * S);
    assert!(kept >= 0.99, "{kept} are done");
    assert!(turns.mean() <= 1.05 * arrival.mean(), "{} and {} us", turns.mean(), arrival.mean());
}

#[test]
fn a_crowd_that_waits_for_less_than_the_limit_is_served_in_the_order_of_arrival() {
    let [turns, arrival] = both(Asks::Clients(600), Takes::About(50 * MS), 10 * S, 10 * S);
    assert!(arrival.longest() < S, "{} us", arrival.longest());
    assert!(turns.waits() == arrival.waits(), "somebody waits longer, or less long");
}

#[test]
fn of_more_than_can_be_done_half_is_done_at_once() {
    // 960 a second, of which 640 can be done.
    let [turns, arrival] = both(Asks::Rate(960), Takes::About(50 * MS), 40 * S, 10 * S);
    let at_once = [&turns, &arrival].map(|became| became.part_within(15 * S, 30 * S, 100 * MS));
    assert!(at_once[0] >= 0.45 && at_once[1] <= 0.01, "{at_once:?}");
    let kept = turns.done(15 * S) / arrival.done(15 * S);
    assert!(kept >= 0.99, "{kept} are done");
}

#[test]
fn after_a_stall_those_that_come_do_not_wait_behind_all_that_came_during_it() {
    // 500 a second, of which 640 can be done, but for four seconds.
    let stalls = Takes::Stalls(50 * MS, 5 * S, 9 * S);
    let [turns, arrival] = both(Asks::Rate(500), stalls, 40 * S, 10 * S);
    let at_once = [&turns, &arrival].map(|became| became.part_within(9 * S, 15 * S, 100 * MS));
    assert!(at_once[0] >= 0.5 && at_once[1] <= 0.01, "{at_once:?}");
    assert!(turns.lost.is_empty() && turns.longest() <= 9 * S, "{} us", turns.longest());
    let calm = [&turns, &arrival].map(|became| became.part_within(35 * S, 40 * S, 100 * MS));
    assert!(calm[0] >= 0.99 && calm[1] >= 0.99, "{calm:?}");
}

#[test]
fn nobody_is_held_for_ever_though_anybody_may_wait_for_ever() {
    let [turns, arrival] = both(Asks::Rate(700), Takes::About(50 * MS), 60 * S, u64::MAX);
    // Whoever came in the first half has been served, half a minute after that at the latest.
    let waited = |became: &Became| became.longest_between(0, 30 * S);
    assert!(
        waited(&turns) <= 2 * waited(&arrival) + 100 * MS,
        "{} and {} us",
        waited(&turns),
        waited(&arrival)
    );
}
