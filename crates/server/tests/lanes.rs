//! The rule of lanes before ten kinds of load, in a simulation: what quick requests gain, what slow ones lose, and that
//! nobody starves, each beside one queue for all.
//!
//! Times are events and not the clock's, and chance comes from a seed: the same each time. A call has a thread for as
//! long as its kind says; what it costs a processor is left out.

#![cfg(not(loom))]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use server::lanes::{ByHand, Lane, Lanes, Mark, Pick, Queues};

const US: u64 = 1;
const MS: u64 = 1_000;
const S: u64 = 1_000_000;

/// How long a call has a thread.
#[derive(Clone, Copy)]
enum Takes {
    /// About so long (an exponential distribution around half of it).
    About(u64),
    /// The second, for so many of a thousand; the first, otherwise.
    Mostly(u64, u64, u64),
    /// The first until a moment, then the second.
    Until(u64, u64, u64),
}

impl Takes {
    fn of(self, now: u64, chance: &mut Chance) -> u64 {
        match self {
            Takes::About(mean) => mean / 2 + chance.around(mean as f64 / 2.0),
            Takes::Mostly(usual, long, of_1000) => {
                let is_long = chance.next() % 1000 < of_1000;
                if is_long { long } else { usual }
            }
            Takes::Until(first, moment, then) => {
                let is_over = now >= moment;
                if is_over { then } else { first }
            }
        }
    }
}

/// Who asks.
#[derive(Clone, Copy)]
enum Asks {
    /// So many clients, each again as soon as it is answered.
    Clients(u32),
    /// At so many a second, by chance, whatever becomes of them.
    Rate(u64),
}

/// One kind of requests.
#[derive(Clone, Copy)]
struct Kind {
    /// Where it has a `#`, each request has a path of its own.
    path: &'static str,
    asks: Asks,
    takes: Takes,
    from: u64,
}

fn kind(path: &'static str, asks: Asks, takes: Takes) -> Kind {
    Kind { path, asks, takes, from: 0 }
}

/// What became of a kind: when each was asked, how long it waited for a thread, and when it was done.
#[derive(Default)]
struct Became {
    waited: Vec<(u64, u64)>,
    done: Vec<u64>,
}

impl Became {
    /// The longest wait of 99 of a hundred that were asked from some moment on.
    fn p99(&self, from: u64) -> u64 {
        let mut waited: Vec<u64> =
            self.waited.iter().filter(|(asked, _)| *asked >= from).map(|(_, waited)| *waited).collect();
        assert!(waited.len() >= 100, "{} are too few", waited.len());
        waited.sort_unstable();
        waited[waited.len() * 99 / 100]
    }

    fn longest(&self) -> u64 {
        self.waited.iter().map(|(_, waited)| *waited).max().unwrap_or(0)
    }

    /// The longest wait of those that were asked between two moments.
    fn longest_between(&self, from: u64, to: u64) -> u64 {
        let asked = self.waited.iter().filter(|(asked, _)| (from..to).contains(asked));
        asked.map(|(_, waited)| *waited).max().unwrap_or(u64::MAX)
    }

    fn mean(&self) -> f64 {
        self.waited.iter().map(|(_, waited)| *waited as f64).sum::<f64>() / self.waited.len().max(1) as f64
    }

    /// Every wait, shortest first.
    fn waits(&self) -> Vec<u64> {
        let mut waits: Vec<u64> = self.waited.iter().map(|(_, waited)| *waited).collect();
        waits.sort_unstable();
        waits
    }

    /// How many were done from some moment on.
    fn done(&self, from: u64) -> f64 {
        self.done.iter().filter(|at| **at >= from).count() as f64
    }
}

/// Chance, the same for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Between nothing and one.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn around(&mut self, mean: f64) -> u64 {
        (-mean * (1.0 - self.part()).ln()) as u64
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Ends { kind: usize, mark: usize },
    Asked { kind: usize },
}

struct Waiting {
    kind: usize,
    asked: u64,
    path: String,
    mark: Mark,
}

/// A worker with so many threads, and its queues.
struct Worker {
    threads: u32,
    busy: u32,
    lanes: Option<Lanes>,
    front: VecDeque<Waiting>,
    queues: Queues<Waiting>,
    marks: Vec<(Mark, String)>,
    free: Vec<usize>,
}

impl Worker {
    fn new(threads: u32, has_lanes: bool) -> Self {
        let lanes = has_lanes.then(|| {
            let mut lanes = Lanes::new(threads, &ByHand::default());
            lanes.wake();
            lanes
        });
        let (front, queues) = (VecDeque::new(), Queues::default());
        Self { threads, busy: 0, lanes, front, queues, marks: Vec::new(), free: Vec::new() }
    }

    /// The next request that begins, if a thread is free and one may: as `requests/express.rs` does it.
    fn next(&mut self, now: u64) -> Option<Waiting> {
        if self.busy >= self.threads {
            return None;
        }
        let Some(lanes) = &mut self.lanes else { return self.front.pop_front() };
        lanes.look(now, !self.queues.is_empty());
        while let Some(front) = self.front.front_mut() {
            if front.mark.lane.is_none() {
                let route: (&[u8], &[u8]) = (b"GET", front.path.as_bytes());
                let name = lanes.name(route.0, route.1);
                front.mark = lanes.judge(name, route);
            }
            match (front.mark.lane, self.front.pop_front()) {
                (Some(Lane::Express) | None, Some(front)) => {
                    self.front.push_front(front);
                    break;
                }
                (Some(lane), Some(front)) => self.queues.push(lane, 0, front),
                (_, None) => {}
            }
        }
        match lanes.pick(!self.front.is_empty(), &self.queues) {
            Pick::Front => self.front.pop_front(),
            Pick::Next(lane) => self.queues.pop(lane),
            Pick::Nobody => None,
        }
    }

    /// One begins: its place among those that are inside.
    fn begin(&mut self, mut waiting: Waiting, now: u64) -> usize {
        self.busy += 1;
        if let Some(lanes) = &mut self.lanes {
            lanes.goes_out();
            lanes.begin(&mut waiting.mark, (b"GET", waiting.path.as_bytes()), now);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.marks.push((Mark::default(), String::new()));
            self.marks.len() - 1
        });
        self.marks[place] = (waiting.mark, waiting.path);
        place
    }

    fn end(&mut self, place: usize, now: u64) {
        self.busy -= 1;
        self.free.push(place);
        if let Some(lanes) = &mut self.lanes {
            lanes.comes_back();
            lanes.end(&mut self.marks[place].0, now, true);
        }
    }
}

/// Plays a load for so long, with lanes or with one queue: what became of each kind.
fn play(kinds: &[Kind], threads: u32, lasts: u64, has_lanes: bool) -> (Vec<Became>, Worker) {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut worker = Worker::new(threads, has_lanes);
    let mut became: Vec<Became> = kinds.iter().map(|_| Became::default()).collect();
    let mut events = BinaryHeap::new();
    for (at, kind) in kinds.iter().enumerate() {
        let clients = match kind.asks {
            Asks::Clients(clients) => clients,
            Asks::Rate(_) => 1,
        };
        events.extend((0..clients).map(|_| Reverse((kind.from, Happens::Asked { kind: at }))));
    }
    let mut asked_in_all = 0_u64;
    while let Some(Reverse((now, happens))) = events.pop() {
        if now > lasts {
            break;
        }
        match happens {
            Happens::Asked { kind: at } => {
                asked_in_all += 1;
                let path = kinds[at].path.replace('#', &letters(asked_in_all));
                worker.front.push_back(Waiting { kind: at, asked: now, path, mark: Mark::default() });
                if let Asks::Rate(rate) = kinds[at].asks {
                    let next = now + chance.around(S as f64 / rate as f64);
                    events.push(Reverse((next, Happens::Asked { kind: at })));
                }
            }
            Happens::Ends { kind: at, mark } => {
                worker.end(mark, now);
                became[at].done.push(now);
                if let Asks::Clients(_) = kinds[at].asks {
                    events.push(Reverse((now + 20 * US, Happens::Asked { kind: at })));
                }
            }
        }
        while let Some(waiting) = worker.next(now) {
            let at = waiting.kind;
            became[at].waited.push((waiting.asked, now - waiting.asked));
            let takes = kinds[at].takes.of(now, &mut chance);
            let mark = worker.begin(waiting, now);
            events.push(Reverse((now + takes.max(1), Happens::Ends { kind: at, mark })));
        }
    }
    // Those that still wait have waited for so long.
    let beside = std::iter::from_fn(|| worker.queues.pop_if(|_| true));
    for waiting in worker.front.drain(..).chain(beside) {
        became[waiting.kind].waited.push((waiting.asked, lasts - waiting.asked.min(lasts)));
    }
    (became, worker)
}

/// A name that no other number has, of letters only.
fn letters(mut number: u64) -> String {
    let mut letters = String::new();
    while number > 0 {
        letters.push((b'a' + (number % 26) as u8) as char);
        number /= 26;
    }
    letters
}

/// With lanes and with one queue.
fn both(kinds: &[Kind], threads: u32, lasts: u64) -> (Vec<Became>, Vec<Became>) {
    (play(kinds, threads, lasts, true).0, play(kinds, threads, lasts, false).0)
}

const FAST: Kind = Kind { path: "/", asks: Asks::Rate(500), takes: Takes::About(20 * US), from: 0 };

#[test]
fn quick_requests_of_one_kind_are_played_as_in_one_queue() {
    let (lanes, queue) = both(&[kind("/", Asks::Clients(64), Takes::About(50 * US))], 32, S / 5);
    assert!(lanes[0].waits() == queue[0].waits(), "somebody waits longer, or less long");
}

#[test]
fn slow_requests_of_one_kind_are_played_as_in_one_queue() {
    let (lanes, queue) = both(&[kind("/slow", Asks::Clients(100), Takes::About(50 * MS))], 32, 20 * S);
    assert!(lanes[0].waits() == queue[0].waits(), "somebody waits longer, or less long");
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
    let (lanes, worker) = play(&kinds, 32, 10 * S, true);
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
