//! What a spare does that was called: it leads where a job has blocked, and parks where jobs go on.
//!
//! The clock and the interpreter's lock are the test's, so that nothing depends on time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use server::baton::{Baton, Lead, Look, MARK_MS, Next, Pool, Run};

/// Jobs that are there as soon as the gate is open.
struct Work {
    asked: Sender<()>,
    gate: Receiver<()>,
    todo: usize,
    relieved: Arc<AtomicUsize>,
}

impl Lead for Work {
    type Job = usize;

    fn next(&mut self) -> Next<usize> {
        let _ = self.asked.send(());
        // Closed once it was open: it stays open.
        let _ = self.gate.recv();
        if self.todo == 0 {
            return Next::Ended;
        }
        self.todo -= 1;
        Next::Ready(self.todo)
    }

    fn wait(&mut self) -> u64 {
        0
    }

    fn take_back(&mut self, _: usize) {}

    fn relieved(&mut self) {
        self.relieved.fetch_add(1, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        0
    }
}

type Begun = (&'static str, usize);

/// A thread, whose jobs and whose way into the interpreter are let go on by the test.
struct Runner {
    name: &'static str,
    /// Its jobs are known not to block.
    short: bool,
    /// Says who has begun which job.
    begun: Sender<Begun>,
    go_on: Mutex<Receiver<()>>,
    /// Says that the thread has been called, and waits for the interpreter.
    called: Sender<&'static str>,
    interpreter: Mutex<Receiver<()>>,
}

impl Run<usize> for Runner {
    fn run(&self, job: &mut usize) {
        self.begun.send((self.name, *job)).expect("the test listens");
        let _ = self.go_on.lock().expect("one thread").recv();
    }

    fn is_short(&self, _: &usize) -> bool {
        self.short
    }

    fn late(&self, _: &mut usize) {}

    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        let result = wait();
        let _ = self.called.send(self.name);
        let _ = self.interpreter.lock().expect("one thread").recv();
        result
    }
}

#[derive(Default)]
struct Clock {
    us: AtomicU64,
    /// Ends moments; without it they take no time.
    moment: Mutex<Option<Receiver<()>>>,
}

impl Pool for &Clock {
    fn grow(&self) {}
    fn wake_watchdog(&self) {}
    fn clock(&self) -> u64 {
        self.us.load(Ordering::SeqCst)
    }
    fn moment(&self) {
        if let Some(over) = &*self.moment.lock().expect("one thread") {
            let _ = over.recv();
        }
    }
}

/// One thread of the baton and what lets it go on: out of its job, and into the interpreter.
struct Thread {
    life: thread::JoinHandle<()>,
    job: Sender<()>,
    interpreter: Sender<()>,
}

fn begin(
    (name, short): (&'static str, bool),
    (baton, clock): (&Arc<Baton<Work>>, &Arc<Clock>),
    (begun, called): (&Sender<Begun>, &Sender<&'static str>),
) -> Thread {
    let (job, go_on) = channel();
    let (interpreter, let_in) = channel();
    let runner = Runner {
        name,
        short,
        begun: begun.clone(),
        go_on: Mutex::new(go_on),
        called: called.clone(),
        interpreter: Mutex::new(let_in),
    };
    let (baton, clock) = (Arc::clone(baton), Arc::clone(clock));
    Thread { life: thread::spawn(move || baton.live(&runner, &&*clock)), job, interpreter }
}

/// Two threads: the first has begun the first of three jobs, and the spare was called meanwhile, and waits for the
/// interpreter.
struct Two {
    baton: Arc<Baton<Work>>,
    clock: Arc<Clock>,
    relieved: Arc<AtomicUsize>,
    begins: Receiver<Begun>,
    calls: Receiver<&'static str>,
    first: Thread,
    spare: Thread,
}

fn called_during_a_job(short: bool) -> Two {
    let ((asked, asks), (open, gate)) = (channel(), channel());
    let relieved = Arc::new(AtomicUsize::new(0));
    let work = Work { asked, gate, todo: 3, relieved: Arc::clone(&relieved) };
    let baton = Arc::new(Baton::new(work, Box::new(|| ())));
    let clock = Arc::new(Clock::default());
    let ((begun, begins), (called, calls)) = (channel(), channel());
    let first = begin(("first", short), (&baton, &clock), (&begun, &called));
    // The baton is held until the gate opens, so that the spare parks.
    asks.recv().expect("it leads");
    let spare = begin(("spare", short), (&baton, &clock), (&begun, &called));
    while baton.parked() == 0 {
        thread::yield_now();
    }
    drop(open);
    assert_eq!(begins.recv(), Ok(("first", 2)));
    assert_eq!((baton.look(0), baton.look(1)), (Look::Fine(1), Look::Called(1)));
    assert_eq!(calls.recv(), Ok("spare"));
    Two { baton, clock, relieved, begins, calls, first, spare }
}

/// The spare has the interpreter so many microseconds later, during the second job. Who begins the third, and how often
/// somebody was relieved before that.
fn called_during_one_job_and_let_in_during_the_next(waits_us: u64) -> (Begun, usize) {
    let Two { baton, clock, relieved, begins, first, spare, .. } = called_during_a_job(true);
    first.job.send(()).expect("it is in its job");
    assert_eq!(begins.recv(), Ok(("first", 1)));
    clock.us.store(waits_us, Ordering::SeqCst);
    spare.interpreter.send(()).expect("it waits for the interpreter");
    let third = loop {
        if let Ok(third) = begins.try_recv() {
            break third;
        }
        if baton.parked() == 1 {
            first.job.send(()).expect("it is in its job");
            break begins.recv().expect("the third job is begun");
        }
        thread::yield_now();
    };
    let relieved = relieved.load(Ordering::SeqCst);
    finish([first, spare]);
    (third, relieved)
}

#[test]
fn a_spare_that_finds_jobs_going_on_parks_and_relieves_nobody() {
    assert_eq!(called_during_one_job_and_let_in_during_the_next(600), (("first", 0), 0));
}

#[test]
fn a_spare_that_a_blocked_job_has_let_in_leads() {
    assert_eq!(called_during_one_job_and_let_in_during_the_next(100), (("spare", 0), 1));
}

/// The spare leads, as the first job has blocked or was interrupted, and is in the second one.
fn two_are_in_jobs(short: bool) -> Two {
    let two = called_during_a_job(short);
    two.spare.interpreter.send(()).expect("it waits for the interpreter");
    assert_eq!(two.begins.recv(), Ok(("spare", 1)));
    two
}

#[test]
fn who_comes_back_lets_a_younger_job_go_on_that_was_interrupted() {
    let Two { clock, begins, first, spare, .. } = two_are_in_jobs(true);
    let (over, moment) = channel();
    *clock.moment.lock().expect("nobody has it") = Some(moment);
    first.job.send(()).expect("it is in its job");
    spare.job.send(()).expect("it is in its job");
    assert_eq!(begins.recv(), Ok(("spare", 0)));
    drop(over);
    finish([first, spare]);
}

#[test]
fn who_comes_back_leads_a_moment_later_where_a_younger_job_has_blocked() {
    let Two { begins, calls, first, spare, .. } = two_are_in_jobs(true);
    first.job.send(()).expect("it is in its job");
    assert_eq!(calls.recv(), Ok("first"), "it looks a moment later");
    first.interpreter.send(()).expect("it waits for the interpreter");
    assert_eq!(begins.recv(), Ok(("first", 0)));
    finish([first, spare]);
}

#[test]
fn who_comes_back_from_a_job_that_may_have_blocked_leads_at_once() {
    let Two { begins, calls, first, spare, .. } = two_are_in_jobs(false);
    first.job.send(()).expect("it is in its job");
    assert_eq!(begins.recv(), Ok(("first", 0)));
    assert!(calls.try_recv().is_err(), "it has not let go of the interpreter");
    finish([first, spare]);
}

#[test]
fn jobs_are_expected_to_block_for_a_second_after_one_has() {
    let Two { baton, begins, first, spare, .. } = called_during_a_job(false);
    assert!(!baton.expects_to_block(0), "it was called, and has not led");
    spare.interpreter.send(()).expect("it waits for the interpreter");
    assert_eq!(begins.recv(), Ok(("spare", 1)));
    let expected = [0, MARK_MS - 1, MARK_MS, MARK_MS + 1].map(|now| baton.expects_to_block(now));
    assert_eq!(expected, [true, true, false, false]);
    first.job.send(()).expect("it is in its job");
    assert_eq!(begins.recv(), Ok(("first", 0)));
    finish([first, spare]);
}

fn finish(threads: [Thread; 2]) {
    for life in threads.map(|thread| thread.life) {
        life.join().expect("it ends");
    }
}

#[test]
fn a_parked_thread_that_is_dismissed_ends_and_the_last_one_stays() {
    let ((asked, asks), (open, gate)) = (channel(), channel());
    let work = Work { asked, gate, todo: 0, relieved: Arc::default() };
    let baton = Arc::new(Baton::new(work, Box::new(|| ())));
    let clock = Arc::new(Clock::default());
    let ((begun, _begins), (called, _calls)) = (channel(), channel());
    let first = begin(("first", true), (&baton, &clock), (&begun, &called));
    // The baton is held until the gate opens, so that the others park.
    asks.recv().expect("it leads");
    let parked = ["second", "third"].map(|name| begin((name, true), (&baton, &clock), (&begun, &called)));
    while baton.parked() < 2 {
        thread::yield_now();
    }
    for thread in &parked {
        thread.interpreter.send(()).expect("it will wait for the interpreter");
    }
    baton.dismiss();
    while !parked.iter().any(|thread| thread.life.is_finished()) {
        thread::yield_now();
    }
    baton.dismiss();
    assert_eq!((baton.parked(), baton.ended()), (1, false));
    drop(open);
    for Thread { life, job, interpreter } in parked.into_iter().chain([first]) {
        drop((job, interpreter));
        life.join().expect("it ends");
    }
}

/// Finds something at its first wait, and ends.
struct Waits {
    waited: bool,
    housekeepings: Arc<AtomicUsize>,
}

impl Lead for Waits {
    type Job = usize;

    fn next(&mut self) -> Next<usize> {
        if self.waited { Next::Ended } else { Next::Quiet }
    }

    fn wait(&mut self) -> u64 {
        self.waited = true;
        0
    }

    fn take_back(&mut self, _: usize) {}

    fn relieved(&mut self) {}

    fn housekeeping(&mut self) -> bool {
        self.housekeepings.fetch_add(1, Ordering::SeqCst);
        false
    }

    fn now(&self) -> u64 {
        0
    }
}

#[test]
fn while_the_leader_waits_for_the_interpreter_nobody_else_leads_and_the_housekeeping_is_done() {
    let housekeepings = Arc::new(AtomicUsize::new(0));
    let work = Waits { waited: false, housekeepings: Arc::clone(&housekeepings) };
    let baton = Arc::new(Baton::new(work, Box::new(|| ())));
    let clock = Arc::new(Clock::default());
    let ((begun, _begun), (called, calls)) = (channel(), channel());
    let runner = |name| {
        let ((_, go_on), (let_in, interpreter)) = (channel(), channel());
        let (go_on, interpreter) = (Mutex::new(go_on), Mutex::new(interpreter));
        let (begun, called) = (begun.clone(), called.clone());
        (let_in, Runner { name, short: true, begun, go_on, called, interpreter })
    };
    let (let_in, leader) = runner("leader");
    assert_eq!(baton.waits(), 0);
    let life = {
        let (baton, clock) = (Arc::clone(&baton), Arc::clone(&clock));
        thread::spawn(move || baton.live(&leader, &&*clock))
    };
    assert_eq!(calls.recv(), Ok("leader"), "it has found something, and waits for the interpreter");
    assert_eq!(baton.waits(), 1);
    assert!(!baton.watch_may_sleep(0), "somebody may wait for long");
    for count in 1..=3 {
        baton.housekeeping();
        assert_eq!(housekeepings.load(Ordering::SeqCst), count);
    }
    let (_let_in, other) = runner("other");
    assert_eq!(baton.turn(&other, &&*clock, 1), None, "the leader comes back for it");
    drop(let_in);
    life.join().expect("the leader leads on, to the end");
    assert_eq!(baton.waits(), 2);
    assert!(baton.ended());
}
