//! Two workers, one listener or one way on which connections are given away: who takes what waits.
//!
//! What must hold: each connection is taken, once, no worker steps back when nobody else is there to
//! watch, and none sleeps, stepped back, while the only one that watches is busier than it. Both sleep
//! where nothing tells them to look, so that a connection that nobody is told of is what loom calls a
//! deadlock. The looks that a clock makes are left out: nothing may depend on them while both run.

use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use server::rows::{Field, Listening, Page, Rows, WIDTH};

/// What the kernel does: it tells one of those that watch of a connection, and notifies all.
#[derive(Default)]
struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    taken: usize,
    watches: [bool; 2],
    told: [bool; 2],
    rung: [bool; 2],
    /// And nothing has woken it.
    sleeps: [bool; 2],
    /// How busy each was when it went to sleep.
    levels: [u64; 2],
    /// Both sleep, and nothing comes any more.
    at_rest: bool,
}

impl State {
    fn check_rest(&self) {
        assert_ne!(self.watches, [false; 2], "nobody watches");
        for (one, other) in [(0, 1), (1, 0)] {
            let away = !self.watches[one];
            let helps = self.levels[one] < self.levels[other];
            assert!(!(away && helps), "one sleeps, stepped back, behind a busier one: {:?}", self.levels);
        }
    }
}

impl Kernel {
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let done = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        done
    }

    /// A connection comes. Of those that watch, one that sleeps is woken; those that are passed over
    /// because they are at work find it when they look (EPOLLEXCLUSIVE).
    fn connect(&self) {
        self.change(|state| {
            state.waiting += 1;
            for worker in 0..2 {
                if state.watches[worker] {
                    state.told[worker] = true;
                    if std::mem::take(&mut state.sleeps[worker]) {
                        break;
                    }
                }
            }
        });
    }

    fn watch(&self, worker: usize, watches: bool) {
        self.change(|state| {
            state.watches[worker] = watches;
            state.told[worker] = watches && state.waiting > 0;
        });
    }

    fn notify_all(&self) {
        self.change(|state| {
            state.rung = [true; 2];
            state.sleeps = [false; 2];
        });
    }

    fn take(&self) {
        self.change(|state| {
            state.taken += state.waiting;
            state.waiting = 0;
        });
    }

    /// Sleeps until there is something for this worker. False: all has been taken.
    fn wait(&self, worker: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        loop {
            if state.taken > 0 {
                return false;
            }
            if state.told[worker] || state.rung[worker] {
                (state.told[worker], state.rung[worker]) = (false, false);
                return true;
            }
            state.sleeps[worker] = true;
            state = self.changed.wait(state).unwrap();
            state.sleeps[worker] = false;
        }
    }

    /// Sleeps until it is notified. False: both sleep, as no connection comes.
    fn rest(&self, worker: usize, level: u64) -> bool {
        let mut state = self.state.lock().unwrap();
        state.levels[worker] = level;
        loop {
            if state.at_rest {
                return false;
            }
            if std::mem::take(&mut state.rung[worker]) {
                return true;
            }
            state.sleeps[worker] = true;
            if state.sleeps == [true; 2] {
                state.check_rest();
                state.at_rest = true;
                self.changed.notify_all();
                return false;
            }
            state = self.changed.wait(state).unwrap();
            state.sleeps[worker] = false;
        }
    }
}

#[derive(Clone)]
struct Numbers(Arc<Vec<AtomicU64>>);

impl Page for Numbers {
    fn numbers(&self) -> &[AtomicU64] {
        &self.0
    }

    fn now(&self) -> u64 {
        0
    }
}

/// One worker, as `share.rs` has it without a clock.
struct Worker {
    number: usize,
    rows: Rows<Numbers>,
    kernel: Arc<Kernel>,
    level: u64,
    watches: bool,
}

impl Worker {
    fn reconsider(&mut self, level: u64) {
        let before = std::mem::replace(&mut self.level, level);
        if self.rows.show_level(level, before) {
            self.kernel.notify_all();
        }
        let watches = match self.rows.stand(level, self.watches) {
            Listening::Resume => true,
            Listening::Suspend => false,
            Listening::Keep | Listening::StayOut => return,
        };
        self.watches = watches;
        self.kernel.watch(self.number, watches);
    }

    /// Something may wait: this worker takes it, or leaves it to one that is less busy.
    fn accept(&mut self) {
        if !self.watches {
            return;
        }
        if self.level > 0 && self.rows.somebody_better(self.level) {
            self.reconsider(self.level);
            if !self.watches {
                return self.kernel.notify_all();
            }
        }
        self.kernel.take();
    }

    /// Lives until `sleep` says that there is nothing more to come.
    fn live(mut self, levels: &[u64], sleep: fn(&Kernel, usize, u64) -> bool) {
        for &level in levels {
            self.reconsider(level);
        }
        while sleep(&self.kernel, self.number, self.level) {
            // The order of the loop: what has happened, then whether to watch before the next wait.
            self.accept();
            self.reconsider(self.level);
        }
    }
}

/// A scoreboard with two workers on it, both idle.
fn two_workers() -> (Numbers, Arc<Kernel>, Worker, Worker) {
    let page = Numbers(Arc::new((0..2 * WIDTH).map(|_| AtomicU64::new(0)).collect()));
    let kernel = Arc::new(Kernel::default());
    page.0[Field::Rows as usize].store(2, Ordering::SeqCst);
    let worker = |number: usize| {
        let rows = Rows::new(page.clone(), number);
        rows.set(Field::Watching, 1);
        rows.set(Field::Pid, 1);
        kernel.watch(number, true);
        Worker { number, rows, kernel: Arc::clone(&kernel), level: 0, watches: true }
    };
    let (first, second) = (worker(0), worker(1));
    (page, kernel, first, second)
}

/// Each look at the scoreboard is five loads: a bound on preemptions that can be waited for.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Two workers of which each gets as busy as its levels say, and no connection comes.
fn at_rest(levels: [&'static [u64]; 2]) {
    model(move || {
        let (page, kernel, first, second) = two_workers();
        let other = thread::spawn(move || second.live(levels[1], Kernel::rest));
        first.live(levels[0], Kernel::rest);
        other.join().unwrap();
        let watches = kernel.state.lock().unwrap().watches;
        for (row, watches) in watches.into_iter().enumerate() {
            let shown = page.0[row * WIDTH + Field::Watching as usize].load(Ordering::SeqCst);
            assert_eq!(shown, u64::from(watches), "the scoreboard says what worker {row} does");
        }
    });
}

/// The same; the first gives a connection away, or one comes from outside.
fn shared(levels: [&'static [u64]; 2], gives: bool) {
    let wait = |kernel: &Kernel, worker, _| kernel.wait(worker);
    model(move || {
        let (_, kernel, first, second) = two_workers();
        let other = thread::spawn(move || second.live(levels[1], wait));
        let giver = Arc::clone(&kernel);
        let one = thread::spawn(move || {
            if gives {
                giver.connect();
            }
            first.live(levels[0], wait);
        });
        if !gives {
            kernel.connect();
        }
        one.join().unwrap();
        other.join().unwrap();
        let state = kernel.state.lock().unwrap();
        assert_eq!((state.waiting, state.taken), (0, 1), "a connection is taken once");
    });
}

#[test]
fn two_that_get_busy_alike_leave_no_connection_behind() {
    shared([&[4], &[4]], false);
}

#[test]
fn two_that_step_back_for_one_another_leave_no_connection_behind() {
    shared([&[2], &[4]], false);
}

#[test]
fn one_that_gets_busier_than_the_one_that_stepped_back_is_helped() {
    at_rest([&[4], &[6]]);
}

#[test]
fn one_that_gets_busier_twice_is_helped() {
    at_rest([&[4], &[2, 6]]);
}

#[test]
fn one_that_gets_busier_while_the_other_has_less_to_do_is_helped() {
    at_rest([&[8, 4], &[2, 6]]);
}

#[test]
fn two_that_get_busy_alike_do_not_both_step_back() {
    at_rest([&[4], &[4]]);
}

#[test]
fn a_connection_that_comes_while_one_gets_busier_twice_is_taken() {
    shared([&[4], &[2, 6]], false);
}

#[test]
fn what_a_worker_gives_away_is_taken_or_comes_back() {
    shared([&[6], &[2, 8]], true);
}
