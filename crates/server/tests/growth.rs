//! `--threads auto` before a database, in a simulation: threads that wait for the same ten connections become fewer, and as
//! much is finished as with any number of them.
//!
//! Times are events and not the clock's, and chance comes from a seed: the same each time. Windows are made of looks, as
//! the watchdog makes them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use server::growth::{Growth, Window};

/// Microseconds.
const MS: u64 = 1_000;
const S: u64 = 1_000_000;
/// The watchdog looks so often, and closes a window after so long.
const LOOK: u64 = 2 * MS;
const WINDOW: u64 = 500 * MS;
/// Threads that are kept for quick requests, which are left out.
const KEPT: u32 = 1;

/// Clients, each of which asks again as soon as it is answered, and what their requests wait for.
#[derive(Clone, Copy)]
struct Load {
    clients: u32,
    /// Connections of the database.
    connections: u32,
    /// How long a request has one, on average.
    takes: u64,
    lengths: Lengths,
}

/// How calls differ from their average.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    Same,
    /// Between a half and three halves of it.
    Around,
    /// Most are shorter, and some take several times as long (exponential).
    Apart,
}

impl Load {
    fn takes(&self, chance: &mut Chance) -> u64 {
        match self.lengths {
            Lengths::Same => self.takes,
            Lengths::Around => chance.around(self.takes),
            Lengths::Apart => chance.apart(self.takes),
        }
    }
}

const DATABASE: Load = Load { clients: 50, connections: 10, takes: 50 * MS, lengths: Lengths::Around };

/// Chance, the same for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    /// Around so much: between a half and three halves of it.
    fn around(&mut self, mean: u64) -> u64 {
        mean / 2 + self.next() % mean
    }

    /// Exponential, with such a mean.
    fn apart(&mut self, mean: u64) -> u64 {
        let share = (self.next() % 1_000_000 + 1) as f64 / 1_000_000.0;
        (-share.ln() * mean as f64) as u64
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A worker: requests that wait for a thread, those that have one, and of these those that have a connection.
struct Worker {
    load: Load,
    waiting: u32,
    inside: u32,
    /// When those were begun that have no connection, in their order.
    unconnected: VecDeque<u64>,
    /// When those that have one are done, and when they were begun.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    chance: Chance,
}

impl Worker {
    /// Whoever can go on does.
    fn go_on(&mut self, now: u64, threads: u32) {
        while self.waiting > 0 && self.inside + KEPT < threads {
            self.waiting -= 1;
            self.inside += 1;
            self.unconnected.push_back(now);
        }
        while self.ends.len() < self.load.connections as usize
            && let Some(begun) = self.unconnected.pop_front()
        {
            self.ends.push(Reverse((now + self.load.takes(&mut self.chance), begun)));
        }
    }

    /// A request is done, and its client asks again.
    fn end(&mut self) {
        self.inside -= 1;
        self.waiting += 1;
    }
}

/// What came of it: in each window how many threads there were, and how many requests were finished.
fn play(load: Load, seconds: u64, seed: u64, growth: Option<Growth>) -> Vec<(u32, u64)> {
    play_all(&[(load, seconds)], seed, growth)
}

/// The same of several loads, one after the other.
fn play_all(loads: &[(Load, u64)], seed: u64, mut growth: Option<Growth>) -> Vec<(u32, u64)> {
    let load = loads[0].0;
    let mut worker = Worker {
        load,
        waiting: load.clients,
        inside: 0,
        unconnected: VecDeque::new(),
        ends: BinaryHeap::new(),
        chance: Chance(seed),
    };
    let mut windows = Vec::new();
    let mut window = Window::default();
    // Where nobody changes it there is one for each client.
    let mut threads = growth.as_ref().map_or(load.clients + KEPT, Growth::threads);
    let mut climbs_since = None;
    let steps = loads.iter().flat_map(|(load, seconds)| (0..seconds * S / LOOK).map(move |_| load));
    for (step, load) in steps.enumerate() {
        let now = step as u64 * LOOK;
        worker.load = *load;
        worker.go_on(now, threads);
        while let Some(&Reverse((at, begun))) = worker.ends.peek()
            && at < now + LOOK
        {
            worker.ends.pop();
            worker.end();
            window.done += 1;
            if climbs_since.is_some_and(|since| begun / MS < since) {
                window.early.done += 1;
                window.early.took_ms += (at - begun) / MS;
            }
            worker.go_on(at, threads);
        }
        window.looks += 1;
        window.waits += u64::from(worker.waiting > 0);
        window.waiting += u64::from(worker.waiting);
        window.busy += u64::from(worker.inside);
        if (now + LOOK).is_multiple_of(WINDOW) {
            window.ms = WINDOW / MS;
            windows.push((threads, window.done));
            if let Some(growth) = &mut growth {
                growth.look(&window, None, now / MS);
                threads = growth.threads();
                climbs_since = growth.climbs_since();
            }
            window = Window::default();
        }
    }
    windows
}

fn done(windows: &[(u32, u64)]) -> u64 {
    windows.iter().map(|(_, done)| done).sum()
}

#[test]
fn ten_connections_have_no_more_than_sixteen_threads_after_half_a_minute_and_finish_as_much() {
    let settled = 30 * (S / WINDOW) as usize;
    for seed in 1..=20 {
        let best = play(DATABASE, 300, seed, None);
        let auto = play(DATABASE, 300, seed, Some(Growth::new(128)));
        let threads: Vec<u32> = auto[settled..].iter().map(|(threads, _)| *threads).collect();
        assert!(threads.iter().all(|&threads| threads <= 16), "seed {seed}: {threads:?}");
        let share = done(&auto[settled..]) as f64 / done(&best[settled..]) as f64;
        assert!(share >= 0.95, "seed {seed}: {share} of what is finished with a thread for each client");
    }
}

#[test]
fn a_database_with_room_for_all_has_a_thread_for_each_client_within_five_seconds() {
    let from = 5 * (S / WINDOW) as usize;
    for seed in 1..=20 {
        let load = Load { connections: 1_000, ..DATABASE };
        let best = play(load, 15, seed, None);
        let auto = play(load, 15, seed, Some(Growth::new(128)));
        let share = done(&auto[from..]) as f64 / done(&best[from..]) as f64;
        assert!(share >= 0.95, "seed {seed}: {share}: {auto:?}");
    }
}

#[test]
fn a_thread_for_each_client_is_not_kept_where_they_come_to_wait_for_ten_connections() {
    let turn = 30;
    for seed in 1..=20 {
        let room = Load { connections: 1_000, ..DATABASE };
        let auto = play_all(&[(room, turn), (DATABASE, 120)], seed, Some(Growth::new(128)));
        let begun = (turn * S / WINDOW) as usize;
        assert!(auto[begun].0 > 50, "seed {seed}: {auto:?}");
        let settled = &auto[begun + 60..];
        assert!(settled.iter().all(|(threads, _)| *threads <= 16), "seed {seed}: {settled:?}");
        let best = play(DATABASE, 120, seed, None);
        let share = done(settled) as f64 / done(&best[60..]) as f64;
        assert!(share >= 0.95, "seed {seed}: {share} of what is finished with a thread for each client");
    }
}

#[test]
fn calls_of_a_constant_length_are_left_alone_however_many_are_inside() {
    for seed in 1..=20 {
        let load = Load { clients: 28, connections: 1_000, ..DATABASE };
        let auto = play(load, 120, seed, Some(Growth::new(128)));
        assert!(auto.iter().all(|(threads, _)| *threads == 32), "seed {seed}: {auto:?}");
    }
}

/// After how many seconds there was a thread for each client, or nearly; none: never.
fn grown(windows: &[(u32, u64)], clients: u32) -> Option<usize> {
    windows.iter().position(|(threads, _)| *threads > clients).map(|at| at / (S / WINDOW) as usize)
}

#[test]
fn calls_of_seconds_have_a_thread_each_within_some_rounds() {
    // Fifteen seconds where a call takes one, half a minute with three of them.
    for (takes, within) in [(300 * MS, 15), (S, 15), (2 * S, 20), (3 * S, 30), (5 * S, 40), (10 * S, 60)] {
        for seed in 1..=20 {
            let load = Load { clients: 100, connections: 1_000, takes, lengths: Lengths::Around };
            let auto = play(load, 60, seed, Some(Growth::new(128)));
            let at = grown(&auto, load.clients);
            assert!(at.is_some_and(|at| at <= within), "{takes} us, seed {seed}: {at:?}: {auto:?}");
        }
    }
}

#[test]
fn ten_connections_finish_as_much_where_calls_take_seconds() {
    for takes in [300 * MS, S, 2 * S, 3 * S, 5 * S, 10 * S] {
        for seed in 1..=20 {
            let load = Load { takes, ..DATABASE };
            let (best, auto) = (play(load, 300, seed, None), play(load, 300, seed, Some(Growth::new(128))));
            let from = 30 * (S / WINDOW) as usize;
            let share = done(&auto[from..]) as f64 / done(&best[from..]) as f64;
            assert!(share >= 0.93, "{takes} us, seed {seed}: {share}: {auto:?}");
        }
    }
}

#[test]
fn ten_connections_soon_have_fewer_threads_where_calls_take_a_second_or_two() {
    for (takes, settled) in [(300 * MS, 45), (S, 60), (2 * S, 90)] {
        // More are tried each time a rest is over, and it may be by chance that they seem to help.
        let (mut few, mut all) = (0, 0);
        for seed in 1..=20 {
            let auto = play(Load { takes, ..DATABASE }, 300, seed, Some(Growth::new(128)));
            let settled = &auto[settled * (S / WINDOW) as usize..];
            few += settled.iter().filter(|(threads, _)| *threads <= 16).count();
            all += settled.len();
        }
        assert!(few * 10 >= all * 9, "{takes} us: {few} of {all} windows");
    }
}

/// Calls that take so long that whoever waits for a thread would be refused before many have ended.
const LONG: [(Lengths, &[u64]); 3] = [
    (Lengths::Same, &[5 * S, 10 * S, 20 * S, 60 * S]),
    (Lengths::Around, &[5 * S, 10 * S, 20 * S, 60 * S]),
    // Many of them are far shorter.
    (Lengths::Apart, &[10 * S, 20 * S, 60 * S]),
];

#[test]
fn calls_of_many_seconds_have_a_thread_each_before_anybody_has_waited_for_ten_and_keep_it() {
    for (lengths, all) in LONG {
        let (mut enough, mut windows) = (0, 0);
        for (takes, clients) in all.iter().flat_map(|&takes| [(takes, 50), (takes, 100)]) {
            for seed in 1..=20 {
                let load = Load { clients, connections: 1_000, takes, lengths };
                let auto = play(load, 400, seed, Some(Growth::new(128)));
                let told = format!("{lengths:?} {takes} us, {clients}, seed {seed}: {auto:?}");
                assert!(grown(&auto, clients).is_some_and(|at| at < 9), "{told}");
                let here = auto.iter().filter(|(threads, _)| *threads > clients).count();
                // By chance those that were inside before were quicker, where lengths are far apart.
                let least = if matches!(lengths, Lengths::Apart) { 0.6 } else { 0.9 };
                assert!(here as f64 >= least * auto.len() as f64, "{told}");
                enough += here;
                windows += auto.len();
            }
        }
        assert!(enough * 100 >= windows * 95, "{lengths:?}: {enough} of {windows} windows");
    }
}

#[test]
fn threads_that_came_before_anything_was_known_of_them_go_where_ten_connections_finish_no_more() {
    for (takes, clients) in [2 * S, 5 * S, 10 * S].into_iter().flat_map(|takes| [(takes, 50), (takes, 200)]) {
        for seed in 1..=20 {
            let load = Load { takes, clients, ..DATABASE };
            let auto = play(load, 150, seed, Some(Growth::new(128)));
            let came = auto.iter().position(|(threads, _)| *threads > 60).expect("they come");
            let went = auto[came..].iter().position(|(threads, _)| *threads <= 32);
            assert!(went.is_some(), "{takes} us, {clients}, seed {seed}: {auto:?}");
        }
    }
}
