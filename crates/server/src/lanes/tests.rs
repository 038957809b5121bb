//! Lanes, step by step, with times that the test gives.

use super::*;

const MS: Micros = 1_000;

fn waiting(lanes: &[Lane]) -> Queues<u64> {
    let mut queues = Queues::default();
    lanes.iter().for_each(|&lane| queues.push(lane, 0, 1));
    queues
}

/// Lanes that have just woken, and the time.
struct Played {
    lanes: Lanes,
    now: Micros,
}

impl Played {
    fn new(threads: u32) -> Self {
        let mut lanes = Lanes::new(threads, &ByHand::default());
        lanes.wake();
        lanes.look(1_000 * MS, false);
        Self { lanes, now: 1_000 * MS }
    }

    fn mark(&mut self, path: &str) -> Mark {
        let name = self.lanes.name(b"GET", path.as_bytes());
        self.lanes.judge(name, (b"GET", path.as_bytes()), path.as_bytes().into())
    }

    fn judge(&mut self, path: &str) -> Lane {
        self.mark(path).lane.expect("it is judged")
    }

    fn begin(&mut self, path: &str) -> Mark {
        let mut mark = self.mark(path);
        self.lanes.goes_out();
        self.lanes.begin(&mut mark, (b"GET", path.as_bytes()), self.now);
        mark
    }

    fn end(&mut self, mut mark: Mark) {
        self.lanes.comes_back();
        self.lanes.end(&mut mark, self.now, Outcome::Answered, None);
    }

    /// Time passes, and the lanes are looked at.
    fn pass(&mut self, us: Micros) {
        self.now += us;
        self.lanes.look(self.now, false);
    }

    fn call(&mut self, path: &str, took: Micros) {
        let mark = self.begin(path);
        self.pass(took);
        self.end(mark);
    }

    /// A quick and a slow route that are known and told apart.
    fn taught(threads: u32) -> Self {
        let mut played = Self::new(threads);
        for _ in 0..5 {
            played.call("/fast", 50);
            played.call("/slow", 50 * MS);
        }
        played.pass(DECIDE_US);
        assert_eq!((played.judge("/fast"), played.judge("/slow")), (Lane::Express, Lane::Slow));
        played
    }

    /// As many slow calls begin as may: how many that are.
    fn fill(&mut self) -> Vec<Mark> {
        let mut marks = Vec::new();
        while self.lanes.admits_others() {
            marks.push(self.begin("/slow"));
        }
        marks
    }
}

#[test]
fn slow_calls_leave_a_thread_for_quick_ones() {
    for (threads, most) in [(4, 3), (8, 7), (32, 31), (1024, 1023)] {
        let mut played = Played::taught(threads);
        let inside = played.fill();
        assert_eq!(inside.len(), most, "{threads} threads");
        let queues = waiting(&[Lane::Slow]);
        assert_eq!(played.lanes.pick(false, &queues), Pick::Nobody);
        assert_eq!(played.lanes.pick(true, &queues), Pick::Front);
        for mark in inside.into_iter().take(1) {
            played.end(mark);
        }
        assert_eq!(played.lanes.pick(false, &queues), Pick::Next(Lane::Slow));
    }
}

#[test]
fn quick_calls_take_no_thread_from_slow_ones() {
    let mut played = Played::taught(8);
    for _ in 0..3 {
        played.begin("/fast");
    }
    assert_eq!(played.fill().len(), 7, "seven and three are more than there are: the pool has the last word");
}

#[test]
fn a_quick_call_that_takes_long_counts_as_slow() {
    let mut played = Played::taught(8);
    played.begin("/fast");
    played.pass(60 * MS);
    assert_eq!(played.fill().len(), 6);
}

#[test]
fn calls_are_short_whose_route_takes_less_than_a_turn_of_the_interpreter() {
    assert!(Mark::default().is_short(), "lanes are asleep: nothing is slow");
    let mut played = Played::new(8);
    for (path, took, short) in [("/499", 499, true), ("/500", 500, false), ("/501", 501, false)] {
        assert!(!played.mark(path).is_short(), "nobody knows yet");
        (0..5).for_each(|_| played.call(path, took));
        assert_eq!(played.mark(path).is_short(), short, "{path}");
        // One that is slow by now is none, although those before it were not.
        let mark = played.begin(path);
        played.pass(200 * MS);
        assert!(!played.mark(path).is_short());
        played.end(mark);
    }
}

#[test]
fn both_lanes_take_turns_where_both_can_go_on() {
    let mut played = Played::taught(8);
    let queues = waiting(&[Lane::Slow]);
    let picks: Vec<Pick> = (0..4).map(|_| played.lanes.pick(true, &queues)).collect();
    let slow = Pick::Next(Lane::Slow);
    assert_eq!(picks, [Pick::Front, slow, Pick::Front, slow]);
}

#[test]
fn few_threads_have_no_lanes() {
    for threads in 0..FEWEST_THREADS {
        let mut lanes = Lanes::new(threads, &ByHand::default());
        lanes.wake();
        for _ in 0..10 {
            lanes.goes_out();
        }
        lanes.note_late(1, (b"GET", b"/slow"), 50 * MS, 0);
        assert!(!lanes.are_awake() && lanes.known().next().is_none(), "{threads} threads");
    }
}

#[test]
fn a_route_that_is_new_and_slow_is_known_before_its_first_call_has_ended() {
    let mut played = Played::taught(8);
    assert_eq!(played.judge("/new"), Lane::Unknown);
    let mark = played.begin("/new");
    played.pass(4 * MS);
    assert_eq!(played.judge("/new"), Lane::Unknown);
    played.pass(2 * MS);
    assert_eq!(played.judge("/new"), Lane::Slow);
    played.end(mark);
}

#[test]
fn a_route_that_is_new_and_quick_is_known_after_one_call() {
    let mut played = Played::taught(8);
    played.call("/new", 100);
    assert_eq!(played.judge("/new"), Lane::Express);
}

#[test]
fn what_is_unknown_has_no_kept_thread_and_need_not_wait_behind_what_is_slow() {
    let mut played = Played::taught(8);
    let mut inside = played.fill();
    let queues = waiting(&[Lane::Slow, Lane::Slow, Lane::Unknown, Lane::Unknown]);
    assert_eq!(played.lanes.pick(false, &queues), Pick::Nobody);
    for lane in [Lane::Unknown, Lane::Slow, Lane::Unknown] {
        played.end(inside.pop().expect("one is inside"));
        assert_eq!(played.lanes.pick(false, &queues), Pick::Next(lane));
        inside.push(played.begin("/slow"));
    }
}

/// Somebody waits for the thread that is kept, for as long as one is though no quick route is known.
fn wait_out(played: &mut Played) {
    for _ in 0..2 {
        let inside = played.fill();
        played.lanes.look(played.now, true);
        played.now += early::TRIAL_US;
        played.lanes.look(played.now, true);
        inside.into_iter().for_each(|mark| played.end(mark));
    }
}

#[test]
fn nothing_known_but_slow_routes_keeps_no_thread_idle_for_long() {
    let mut played = Played::new(8);
    played.call("/slow", 50 * MS);
    played.pass(DECIDE_US);
    assert_eq!(played.judge("/slow"), Lane::Slow);
    let inside = played.fill();
    assert_eq!(inside.len(), 7);
    inside.into_iter().for_each(|mark| played.end(mark));
    wait_out(&mut played);
    assert_eq!(played.fill().len(), 8);
}

#[test]
fn the_first_quick_call_keeps_a_thread_before_the_next_one_begins() {
    let mut played = Played::new(8);
    played.call("/slow", 50 * MS);
    wait_out(&mut played);
    assert_eq!(played.lanes.kept(), 0);
    let mark = played.begin("/new");
    played.now += 100;
    played.end(mark);
    assert_eq!((played.lanes.kept(), played.fill().len()), (1, 7));
    played.pass(DECIDE_AGAIN_US);
    assert_eq!(played.lanes.kept(), 1, "the rule says the same");
}

#[test]
fn a_crowd_that_nobody_has_seen_before_does_not_have_the_last_thread() {
    for threads in [4, 8, 32] {
        let mut played = Played::new(threads);
        while played.lanes.admits_others() {
            played.begin("/slow");
        }
        let crowd = waiting(&[Lane::Unknown; 3]);
        assert_eq!(played.lanes.pick(false, &crowd), Pick::Nobody, "nobody knows whether they are slow");
        assert!(played.lanes.are_watched());
        played.pass(SLOW_US);
        assert!(!played.lanes.are_watched());
        assert_eq!(played.judge("/slow"), Lane::Slow, "by now that is known, and who waits is judged again");
        let crowd = [Lane::Slow; 3];
        assert_eq!(played.lanes.pick(false, &waiting(&crowd)), Pick::Nobody);
        let beside = waiting(&[Lane::Slow, Lane::Slow, Lane::Unknown]);
        assert_eq!(played.lanes.pick(false, &beside), Pick::Next(Lane::Unknown), "it may be a quick one");
        assert_eq!(
            played.lanes.pick(false, &waiting(&crowd[..1])),
            Pick::Next(Lane::Slow),
            "nobody else waits"
        );
    }
}

#[test]
fn whoever_is_known_to_be_quick_from_elsewhere_finds_a_thread() {
    let mut played = Played { lanes: Lanes::new(8, &ByHand::default()), now: 1_000 * MS };
    played.lanes.wake();
    assert!(played.lanes.have_just_woken());
    for (name, mean_us) in [("GET /health", 40), ("GET /orders/{number}", 900), ("GET /report", 70 * MS)] {
        played.lanes.learn(name, mean_us, played.now);
    }
    played.lanes.look(played.now, false);
    assert!(!played.lanes.have_just_woken());
    let judged = ["/health", "/orders/17", "/report"].map(|path| played.judge(path));
    assert_eq!(judged, [Lane::Express, Lane::Express, Lane::Unknown]);
    played.call("/health", 10 * MS);
    assert_eq!(played.judge("/health"), Lane::Express, "one call tells less than all before it");
    assert_eq!(played.fill().len(), 7);
    played.pass(2 * early::TRIAL_US);
    assert_eq!(played.lanes.pick(false, &waiting(&[Lane::Slow])), Pick::Nobody);
}

#[test]
fn what_is_known_from_elsewhere_to_compute_does_so_from_its_first_call_on_and_is_not_slow_for_that() {
    for (threads, known) in [(FEWEST_THREADS - 1, 0), (FEWEST_THREADS, 1)] {
        let mut played = Played { lanes: Lanes::new(threads, &ByHand::default()), now: 1_000 * MS };
        for (path, used_us) in [("/light", 5 * MS - 1), ("/report", 5 * MS), ("/spin", 900 * MS)] {
            played.lanes.learn_used(&format!("GET {path}"), used_us, 0);
            assert_ne!(played.begin(path).lane, Some(Lane::Slow));
        }
        assert_eq!((played.lanes.computing(), played.lanes.burning()), (known, known), "{threads} threads");
    }
}

#[test]
fn what_is_known_from_elsewhere_does_not_go_before_what_was_measured() {
    let mut played = Played::taught(8);
    played.lanes.learn("GET /slow", 40, played.now);
    assert_eq!(played.judge("/slow"), Lane::Slow);
    // With few threads nobody is told apart, whatever is known.
    let mut few = Lanes::new(FEWEST_THREADS - 1, &ByHand::default());
    few.learn("GET /health", 40, MS);
    assert_eq!(few.kept(), 0);
}

#[test]
fn a_slow_route_is_slow_before_the_rule_was_asked_and_not_where_it_tells_nobody_apart() {
    let mut played = Played::new(8);
    let mark = played.begin("/slow");
    played.now += 12 * MS;
    played.end(mark);
    assert_eq!(played.judge("/slow"), Lane::Slow);
    for _ in 0..5 {
        played.call("/other", 4 * MS);
    }
    played.pass(DECIDE_US);
    assert_eq!(played.lanes.split(), None);
    assert_eq!((played.judge("/slow"), played.judge("/other")), (Lane::Express, Lane::Express));
}

#[test]
fn what_was_begun_while_lanes_slept_counts_as_slow() {
    let mut lanes = Lanes::new(8, &ByHand::default());
    for _ in 0..7 {
        lanes.goes_out();
    }
    let name = lanes.name(b"GET", b"/slow");
    lanes.note_late(name, (b"GET", b"/slow"), 50 * MS, MS);
    let mut played = Played { lanes, now: MS };
    played.call("/fast", 50);
    played.pass(DECIDE_US);
    assert!(!played.lanes.admits_others(), "{:?}", played.lanes.split());
    played.lanes.comes_back();
    assert!(played.lanes.admits_others());
}

#[test]
fn lanes_wake_when_half_of_the_threads_are_inside() {
    let mut lanes = Lanes::new(8, &ByHand::default());
    for out in 1..=4 {
        lanes.goes_out();
        assert_eq!(lanes.are_awake(), out == 4);
    }
}

#[test]
fn the_request_that_wakes_them_is_not_measured_and_the_next_one_is() {
    let mut lanes = Lanes::new(8, &ByHand::default());
    let measured: Vec<bool> = (0..6).map(|_| lanes.goes_out()).collect();
    assert_eq!(measured, [false, false, false, false, true, true]);
    // With few threads, or under an event loop, nothing ever is.
    let mut few = Lanes::new(FEWEST_THREADS - 1, &ByHand::default());
    assert!((0..100).all(|_| !few.goes_out()));
}

#[test]
fn lanes_fall_asleep_when_nothing_was_slow_for_a_while() {
    let mut played = Played::taught(8);
    let slow = played.begin("/slow");
    played.pass(CALM_US + DECIDE_US);
    assert!(played.lanes.are_awake(), "a slow call is inside");
    played.end(slow);
    for _ in 0..CALM_US / DECIDE_US {
        assert!(played.lanes.are_awake());
        played.pass(DECIDE_US);
    }
    assert!(!played.lanes.are_awake());
}

#[test]
fn lanes_stay_awake_while_somebody_waits_in_the_slow_one() {
    let mut played = Played::taught(8);
    for _ in 0..2 * CALM_US / DECIDE_US {
        played.now += DECIDE_US;
        played.lanes.look(played.now, true);
    }
    assert!(played.lanes.are_awake());
}

#[test]
fn a_single_slow_call_of_a_quick_route_changes_nothing() {
    let mut played = Played::taught(8);
    for _ in 0..1000 {
        played.call("/fast", 50);
    }
    played.call("/fast", 50 * MS);
    assert_eq!(played.judge("/fast"), Lane::Express);
}

/// `/export` is slow, `/health` quick, and one of `/export` at a time.
fn by_hand() -> ByHand {
    ByHand {
        lanes: vec![(b"/export".to_vec(), Lane::Slow), (b"/health".to_vec(), Lane::Express)],
        limits: vec![(b"/export".to_vec(), 1)],
        ..ByHand::default()
    }
}

#[test]
fn what_is_said_by_hand_goes_before_what_is_measured() {
    for threads in [2, 8] {
        let mut played = Played { lanes: Lanes::new(threads, &by_hand()), now: MS };
        assert!(played.lanes.are_awake());
        for path in ["/export", "/health", "/other"] {
            for _ in 0..10 {
                played.call(path, if path == "/export" { 50 } else { 50 * MS });
            }
        }
        assert_eq!((played.judge("/export/17"), played.judge("/health")), (Lane::Slow, Lane::Express));
        assert_eq!(played.lanes.kept(), 1, "{threads} threads");
        assert_eq!(played.judge("/never-seen"), Lane::Unknown, "{threads} threads");
    }
}

#[test]
fn where_nothing_is_said_to_be_quick_few_threads_do_all_but_what_is_said_to_be_slow() {
    for threads in [2, 3, 8] {
        let mut slow = by_hand();
        slow.lanes.retain(|(_, lane)| *lane == Lane::Slow);
        let mut played = Played { lanes: Lanes::new(threads, &slow), now: MS };
        let unknown = if threads < FEWEST_THREADS { Lane::Express } else { Lane::Unknown };
        assert_eq!(played.judge("/never-seen"), unknown, "{threads} threads");
        assert_eq!(played.judge("/export"), Lane::Slow);
    }
}

#[test]
fn what_is_said_to_be_quick_keeps_a_thread_of_two_already() {
    for threads in [2, 3, 8] {
        let lanes = vec![(b"/login".to_vec(), Lane::Express)];
        let by_hand = ByHand { lanes, ..ByHand::default() };
        let mut played = Played { lanes: Lanes::new(threads, &by_hand), now: MS };
        for known in [false, true] {
            let (login, other) = (played.judge("/login"), played.judge("/other"));
            assert_eq!((login, other), (Lane::Express, if known { Lane::Slow } else { Lane::Unknown }));
            let inside: Vec<Mark> = (1..threads).map(|_| played.begin("/other")).collect();
            played.pass(DECIDE_US);
            for lane in [Lane::Unknown, Lane::Slow] {
                assert!(!played.lanes.admits_any(&waiting(&[lane])), "{threads} threads, {lane:?}");
            }
            if known {
                let (words, routes) = played.lanes.words(&waiting(&[Lane::Slow])).expect("one waits");
                assert!(words.contains(&format!("1 of {threads} threads is kept for quick ones")), "{words}");
                assert_eq!(routes, ["GET /other"]);
            }
            inside.into_iter().for_each(|mark| played.end(mark));
        }
        // The rule finds nothing quicker, and would have all threads for it.
        assert!(played.lanes.split().is_none_or(|split| split.reserve == 0));
        played.call("/quick-by-itself", 50);
        assert_eq!(played.judge("/quick-by-itself"), Lane::Express);
    }
}

#[test]
fn no_more_of_a_route_are_inside_than_its_limit_says() {
    let mut played = Played { lanes: Lanes::new(8, &by_hand()), now: MS };
    let mark = played.mark("/export");
    assert_eq!(played.lanes.place(&mark), Lane::Slow);
    let first = played.begin("/export");
    assert_eq!(played.lanes.place(&mark), Lane::Limited(0));
    let queues = waiting(&[Lane::Limited(0)]);
    assert!(!played.lanes.admits_any(&queues) && played.lanes.pick(false, &queues) == Pick::Nobody);
    played.end(first);
    assert!(
        played.lanes.admits_any(&queues) && played.lanes.pick(false, &queues) == Pick::Next(Lane::Limited(0))
    );
}

#[test]
fn one_thread_has_no_lanes_whatever_is_said() {
    assert!(!Lanes::new(1, &by_hand()).are_awake());
}

#[test]
fn who_waits_for_others_of_its_route_is_not_told_to_wait_for_a_thread() {
    let limits = vec![(b"/export".to_vec(), 2), (b"/report".to_vec(), 1)];
    let mut played = Played::taught(8);
    played.lanes.limits = RouteLimits::new(&limits);
    let [export, report] = [0, 1].map(Lane::Limited);
    let (words, routes) = played.lanes.words(&waiting(&[report, export, export])).expect("three wait");
    let told = "for others below the same path to end (--route-limits): /export=2 (2), /report=1 (1)";
    assert_eq!(words, format!("3 requests wait {told}"));
    assert_eq!(routes, ["/export", "/report"]);
    let (words, _) = played.lanes.words(&waiting(&[report, Lane::Slow, Lane::Slow])).expect("three wait");
    let both = [
        "2 requests wait for a thread; slow: GET /",
        "; 1 request waits for others below the same path to end",
    ];
    assert!(words.starts_with(both[0]) && words.contains(both[1]), "{words}");
    assert_eq!(played.lanes.words(&waiting(&[])), None);
}

#[test]
fn no_slow_route_is_named_where_none_is_slow_any_more() {
    let mut played = Played::taught(8);
    played.lanes.routes = Routes::default();
    let (words, routes) = played.lanes.words(&waiting(&[Lane::Unknown])).expect("one waits");
    assert!(words.starts_with("1 request waits for a thread; ") && !words.contains("slow:"), "{words}");
    assert!(routes.is_empty());
}

#[test]
fn slow_routes_that_differ_by_peoples_names_are_told_as_one() {
    let mut played = Played::taught(8);
    for name in ["ann", "bob", "cat", "dan"] {
        for took in [60 * MS, 80 * MS] {
            played.call(&format!("/u/{name}/export"), took);
        }
    }
    played.pass(DECIDE_US);
    let (words, routes) = played.lanes.words(&waiting(&[Lane::Slow])).expect("one waits");
    assert!(words.contains("; slow: GET /u/*/export (4 paths; GET /u/"), "{words}");
    assert!(words.contains(" 70 ms), GET /slow (50 ms); "), "{words}");
    assert_eq!(routes, ["GET /u/*/export", "GET /slow"]);
}
