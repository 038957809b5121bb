//! A worker with lanes, or with one queue, before clients that come by chance.
//!
//! Times are events and not the clock's, and chance comes from a seed: the same each time. A call has a thread for as
//! long as its kind says; what it costs a processor is left out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use server::lanes::{ByHand, Lane, Lanes, Mark, Order, Outcome, Pick, Queues, Waits};

pub const US: u64 = 1;
pub const MS: u64 = 1_000;
pub const S: u64 = 1_000_000;
/// A call that was begun while nothing was measured is noted where it took so long.
const LATE: u64 = 5 * MS;

/// How long a call has a thread.
#[derive(Clone, Copy)]
pub enum Takes {
    /// About so long (an exponential distribution around half of it).
    About(u64),
    /// The second, for so many of a thousand; the first, otherwise.
    Mostly(u64, u64, u64),
    /// The first until a moment, then the second.
    Until(u64, u64, u64),
    /// The first; but what is begun between the other two moments ends at the last.
    Stalls(u64, u64, u64),
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
            Takes::Stalls(usual, from, until) => {
                let is_stalled = (from..until).contains(&now);
                if is_stalled { until - now } else { usual }
            }
        }
    }
}

/// Who asks.
#[derive(Clone, Copy)]
pub enum Asks {
    /// So many clients, each again as soon as it is answered.
    Clients(u32),
    /// At so many a second, by chance, whatever becomes of them.
    Rate(u64),
}

/// One kind of requests.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Where it has a `#`, each request has a path of its own.
    pub path: &'static str,
    pub asks: Asks,
    pub takes: Takes,
    pub from: u64,
}

pub fn kind(path: &'static str, asks: Asks, takes: Takes) -> Kind {
    Kind { path, asks, takes, from: 0 }
}

/// What became of a kind: when each was asked, how long it waited for a thread, and when it was done.
#[derive(Default)]
pub struct Became {
    pub waited: Vec<(u64, u64)>,
    done: Vec<u64>,
    /// Those that had waited for longer than anybody may, and were not begun: when each was asked.
    pub lost: Vec<u64>,
}

impl Became {
    /// The longest wait of 99 of a hundred that were asked from some moment on.
    pub fn p99(&self, from: u64) -> u64 {
        let mut waited: Vec<u64> =
            self.waited.iter().filter(|(asked, _)| *asked >= from).map(|(_, waited)| *waited).collect();
        assert!(waited.len() >= 100, "{} are too few", waited.len());
        waited.sort_unstable();
        waited[waited.len() * 99 / 100]
    }

    /// What part of those that were asked between two moments and begun waited no longer than so long.
    pub fn part_within(&self, from: u64, to: u64, longest: u64) -> f64 {
        let asked = self.waited.iter().filter(|(asked, _)| (from..to).contains(asked));
        let (all, within) = asked.fold((0.0, 0.0), |(all, within), (_, waited)| {
            (all + 1.0, within + f64::from(u8::from(*waited <= longest)))
        });
        within / f64::max(all, 1.0)
    }

    pub fn longest(&self) -> u64 {
        self.waited.iter().map(|(_, waited)| *waited).max().unwrap_or(0)
    }

    /// The longest wait of those that were asked between two moments.
    pub fn longest_between(&self, from: u64, to: u64) -> u64 {
        let asked = self.waited.iter().filter(|(asked, _)| (from..to).contains(asked));
        asked.map(|(_, waited)| *waited).max().unwrap_or(u64::MAX)
    }

    pub fn mean(&self) -> f64 {
        self.waited.iter().map(|(_, waited)| *waited as f64).sum::<f64>() / self.waited.len().max(1) as f64
    }

    /// Every wait, shortest first.
    pub fn waits(&self) -> Vec<u64> {
        let mut waits: Vec<u64> = self.waited.iter().map(|(_, waited)| *waited).collect();
        waits.sort_unstable();
        waits
    }

    /// How many were done from some moment on.
    pub fn done(&self, from: u64) -> f64 {
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
    Ends {
        kind: usize,
        mark: usize,
        began: u64,
    },
    Asked {
        kind: usize,
    },
    /// Nothing, but that it is time to look.
    Due,
}

struct Waiting {
    kind: usize,
    asked: u64,
    path: String,
    mark: Mark,
}

impl Waits for Waiting {
    fn since(&self) -> u64 {
        self.asked / MS
    }
}

/// What a worker does where requests wait for long.
#[derive(Clone, Copy)]
pub struct Rules {
    pub has_lanes: bool,
    /// In milliseconds (`newest_first_after`).
    pub newest_first_after: u64,
    /// Who has waited for longer is not begun.
    pub patience: u64,
    /// Quick routes are known to its statistics.
    pub has_statistics: bool,
}

/// As a worker that nobody has told anything, but that requests may wait for ever.
pub const RULES: Rules =
    Rules { has_lanes: true, newest_first_after: 1_000, patience: u64::MAX, has_statistics: false };

/// A worker with so many threads, and its queues.
pub struct Worker {
    threads: u32,
    busy: u32,
    rules: Rules,
    pub lanes: Option<Lanes>,
    front: VecDeque<Waiting>,
    queues: Queues<Waiting>,
    marks: Vec<(Mark, String)>,
    free: Vec<usize>,
    /// How long calls took that have ended: the last of each path.
    took: HashMap<String, u64>,
}

impl Worker {
    fn new(threads: u32, rules: Rules) -> Self {
        let lanes = rules.has_lanes.then(|| Lanes::new(threads, &ByHand::default()));
        let (front, queues) = (VecDeque::new(), Queues::default());
        let took = HashMap::new();
        Self { threads, busy: 0, rules, lanes, front, queues, marks: Vec::new(), free: Vec::new(), took }
    }

    /// The next request that begins, if a thread is free and one may: as `requests/express.rs` does it.
    fn next(&mut self, now: u64) -> Option<Waiting> {
        let Some(lanes) = &mut self.lanes else {
            return if self.busy < self.threads { self.front.pop_front() } else { None };
        };
        if self.busy >= self.threads {
            lanes.wake();
            return None;
        }
        if !lanes.are_awake() {
            return self.front.pop_front();
        }
        if lanes.have_just_woken() && self.rules.has_statistics {
            self.took.iter().for_each(|(path, took)| lanes.learn(&format!("GET {path}"), *took, now));
        }
        lanes.look(now, !self.queues.is_empty());
        while let Some(front) = self.front.front_mut() {
            judge(lanes, front);
            match (front.mark.lane, self.front.pop_front()) {
                (Some(Lane::Express) | None, Some(front)) => {
                    self.front.push_front(front);
                    break;
                }
                (Some(lane), Some(front)) => self.queues.push(lane, 0, front),
                (_, None) => {}
            }
        }
        loop {
            let lane = match lanes.pick(!self.front.is_empty(), &self.queues) {
                Pick::Front => return self.front.pop_front(),
                Pick::Next(lane) => lane,
                Pick::Nobody => return None,
            };
            let order = Order { now: now / MS, after: self.rules.newest_first_after };
            while let Some((_, mut next)) = self.queues.pop(lane, order) {
                if lane == Lane::Unknown {
                    next.mark = Mark::default();
                    judge(lanes, &mut next);
                }
                if lane == Lane::Unknown
                    && let Some(slow @ (Lane::Slow | Lane::Long)) = next.mark.lane
                {
                    self.queues.push(slow, 0, next);
                } else {
                    return Some(next);
                }
            }
        }
    }

    /// In how long lanes are looked at though nothing has happened.
    fn look_in(&self) -> Option<u64> {
        let lanes = self.lanes.as_ref().filter(|lanes| lanes.are_awake() && !self.queues.is_empty())?;
        Some(if lanes.are_watched() { 3 * MS } else { 200 * MS })
    }

    /// One begins: its place among those that are inside.
    fn begin(&mut self, mut waiting: Waiting, now: u64) -> usize {
        self.busy += 1;
        if let Some(lanes) = &mut self.lanes
            && lanes.goes_out()
        {
            judge(lanes, &mut waiting);
            lanes.begin(&mut waiting.mark, (b"GET", waiting.path.as_bytes()), now);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.marks.push((Mark::default(), String::new()));
            self.marks.len() - 1
        });
        self.marks[place] = (waiting.mark, waiting.path);
        place
    }

    /// The next of those that have waited for too long.
    fn lost(&mut self, now: u64) -> Option<Waiting> {
        let patience = self.rules.patience;
        let is_lost = |waiting: &Waiting| now - waiting.asked > patience;
        match self.front.front().is_some_and(is_lost) {
            true => self.front.pop_front(),
            false => self.queues.pop_if(is_lost),
        }
    }

    fn end(&mut self, place: usize, took: u64, now: u64) {
        self.busy -= 1;
        self.free.push(place);
        let (mark, path) = &mut self.marks[place];
        if self.rules.has_statistics {
            self.took.insert(path.clone(), took);
        }
        let Some(lanes) = &mut self.lanes else { return };
        lanes.comes_back();
        if mark.ticket.is_some() {
            lanes.end(mark, now, Outcome::Answered, None);
        } else if took >= LATE {
            let name = lanes.name(b"GET", path.as_bytes());
            lanes.note_late(name, (b"GET", path.as_bytes()), took, now);
        }
    }
}

/// Which lane a request is for is judged once.
fn judge(lanes: &mut Lanes, waiting: &mut Waiting) {
    if waiting.mark.lane.is_none() {
        let route: (&[u8], &[u8]) = (b"GET", waiting.path.as_bytes());
        let name = lanes.name(route.0, route.1);
        waiting.mark = lanes.judge(name, route, route.1.into());
    }
}

/// Plays a load for so long, with lanes or with one queue: what became of each kind.
pub fn play(kinds: &[Kind], threads: u32, lasts: u64, rules: Rules) -> (Vec<Became>, Worker) {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut worker = Worker::new(threads, rules);
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
    let mut due: Option<u64> = None;
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
            Happens::Due => due = None,
            Happens::Ends { kind: at, mark, began } => {
                worker.end(mark, now - began, now);
                became[at].done.push(now);
                if let Asks::Clients(_) = kinds[at].asks {
                    events.push(Reverse((now + 20 * US, Happens::Asked { kind: at })));
                }
            }
        }
        while let Some(lost) = worker.lost(now) {
            became[lost.kind].lost.push(lost.asked);
            if let Asks::Clients(_) = kinds[lost.kind].asks {
                events.push(Reverse((now + S, Happens::Asked { kind: lost.kind })));
            }
        }
        while let Some(waiting) = worker.next(now) {
            let at = waiting.kind;
            became[at].waited.push((waiting.asked, now - waiting.asked));
            let takes = kinds[at].takes.of(now, &mut chance);
            let mark = worker.begin(waiting, now);
            events.push(Reverse((now + takes.max(1), Happens::Ends { kind: at, mark, began: now })));
        }
        if let Some(at) =
            worker.look_in().map(|after| now + after).filter(|at| due.is_none_or(|due| *at < due))
        {
            due = Some(at);
            events.push(Reverse((at, Happens::Due)));
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
