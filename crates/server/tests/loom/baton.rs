//! The baton's hand-over. The loop is a counter of jobs, the interpreter's lock a mutex.
//!
//! What must hold: every job is run once and comes back, every thread ends, and what waits for
//! a job is sent by somebody, or taken by the job itself when it comes back.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use server::baton::{Baton, Lead, Look, Next, Pool, Run};

use crate::event::Event;

/// A loop with so many jobs, for each of which an earlier reply waits.
struct Work {
    jobs: usize,
    todo: usize,
    away: usize,
    event: Arc<Event>,
    /// Whose earlier reply waits.
    waiting: Option<usize>,
    /// How often one was sent.
    sent: usize,
    /// How often one was there still when its job came back.
    taken: usize,
    /// Before it says that there is nothing to do it has looked once more, and has read what it is woken with.
    brisk: bool,
}

impl Lead for Work {
    type Job = usize;

    fn next(&mut self) -> Next<usize> {
        if self.todo > 0 {
            self.todo -= 1;
            self.away += 1;
            let before = self.waiting.replace(self.todo);
            assert_eq!(before, None, "what waits for another job is forgotten");
            Next::Ready(self.todo)
        } else if self.away > 0 {
            if self.brisk {
                self.event.look();
            }
            Next::Quiet
        } else {
            assert_eq!(self.sent + self.taken, self.jobs, "what waits for each job is sent, or taken");
            Next::Ended
        }
    }

    fn wait(&mut self) -> u64 {
        self.event.wait();
        0
    }

    fn take_back(&mut self, job: usize) {
        self.away -= 1;
        // As the loop does: who comes back takes what waits, and nobody else's is there.
        if let Some(taken) = self.waiting.take() {
            assert_eq!(taken, job, "a job that came back has lost what waits for another one");
            self.taken += 1;
        }
    }

    fn relieved(&mut self) {
        self.sent += usize::from(self.waiting.take().is_some());
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Runs jobs by counting them.
struct Runner {
    ran: Arc<Vec<AtomicUsize>>,
    short: bool,
}

impl Run<usize> for Runner {
    fn run(&self, job: &mut usize) {
        self.ran[*job].fetch_add(1, Ordering::Relaxed);
        // The job blocks here: another thread may run.
        thread::yield_now();
    }

    fn is_short(&self, _: &usize) -> bool {
        self.short
    }

    fn late(&self, _: &mut usize) {}

    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

struct Nobody;

impl Pool for Nobody {
    fn grow(&self) {}
    fn wake_watchdog(&self) {}
    fn clock(&self) -> u64 {
        0
    }
}

/// Threads over jobs, and a watchdog beside them.
#[derive(Clone, Copy)]
struct Case {
    threads: usize,
    jobs: usize,
    /// How often the watchdog looks, and what it does when it finds an old job.
    looks: usize,
    relieves: bool,
    does_housekeeping: bool,
    /// How often it has one of those that are parked end, as there are more threads than there shall be.
    dismisses: usize,
    /// Whoever leads looks without waiting before it waits.
    brisk: bool,
    /// Jobs are known to be short: who comes back late lets the younger one go on.
    short: bool,
}

const CASE: Case = Case {
    threads: 2,
    jobs: 2,
    looks: 2,
    relieves: true,
    does_housekeeping: false,
    dismisses: 0,
    brisk: false,
    short: false,
};
/// With more threads than two there are too many ways in which they can interrupt one another: so many are explored.
const PREEMPTIONS: usize = 2;

fn check(case: Case) {
    let mut model = loom::model::Builder::new();
    if case.threads > 2 {
        model.preemption_bound = Some(PREEMPTIONS);
    }
    model.check(move || {
        let event = Arc::new(Event::default());
        let waker = Arc::clone(&event);
        let work = Work {
            jobs: case.jobs,
            todo: case.jobs,
            away: 0,
            event,
            waiting: None,
            sent: 0,
            taken: 0,
            brisk: case.brisk,
        };
        let baton = Arc::new(Baton::new(work, Box::new(move || waker.wake())));
        let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..case.jobs).map(|_| AtomicUsize::new(0)).collect());
        let workers: Vec<_> = (0..case.threads)
            .map(|_| {
                let (baton, ran) = (Arc::clone(&baton), Arc::clone(&ran));
                thread::spawn(move || baton.live(&Runner { ran, short: case.short }, &Nobody))
            })
            .collect();
        let (mut seen, mut waited) = (0, 0);
        for _ in 0..case.looks {
            let (Look::Fine(now) | Look::Called(now) | Look::NoSpare(now)) = baton.look(seen);
            if now & 1 == 1 && now == seen {
                if case.relieves {
                    baton.relieve(now);
                }
                if case.does_housekeeping {
                    baton.housekeeping();
                }
            }
            let waits = baton.waits();
            if waits & 1 == 1 && waits == waited && case.does_housekeeping {
                baton.housekeeping();
            }
            (seen, waited) = (now, waits);
        }
        for _ in 0..case.dismisses {
            baton.dismiss();
        }
        for worker in workers {
            worker.join().unwrap();
        }
        for count in ran.iter() {
            assert_eq!(count.load(Ordering::Relaxed), 1, "each job is run once");
        }
    });
}

#[test]
fn two_threads_lose_neither_job_nor_hostage() {
    check(Case { looks: 0, ..CASE });
}

#[test]
fn a_look_before_the_wait_loses_nothing_that_has_come_back() {
    check(Case { looks: 0, brisk: true, ..CASE });
}

#[test]
fn beside_a_watchdog_that_looks_nothing_is_lost() {
    check(Case { relieves: false, ..CASE });
}

#[test]
fn beside_a_watchdog_that_relieves_nothing_is_lost() {
    check(CASE);
}

#[test]
fn beside_a_watchdog_that_relieves_and_does_housekeeping_nothing_is_lost() {
    check(Case { does_housekeeping: true, ..CASE });
}

#[test]
fn beside_a_watchdog_that_does_housekeeping_while_the_leader_waits_nothing_is_lost() {
    check(Case { threads: 1, looks: 3, relieves: false, does_housekeeping: true, ..CASE });
}

#[test]
fn beside_a_watchdog_that_only_does_housekeeping_nothing_is_lost() {
    check(Case { relieves: false, does_housekeeping: true, ..CASE });
}

#[test]
fn with_more_jobs_than_threads_nothing_is_lost() {
    check(Case { jobs: 3, looks: 0, ..CASE });
}

#[test]
fn where_jobs_are_short_nothing_is_lost() {
    check(Case { looks: 0, short: true, ..CASE });
    check(Case { jobs: 3, looks: 0, short: true, ..CASE });
}

#[test]
fn where_jobs_are_short_nothing_is_lost_beside_a_watchdog() {
    check(Case { relieves: false, short: true, ..CASE });
    check(Case { short: true, ..CASE });
}

#[test]
fn where_jobs_are_short_nothing_is_lost_beside_a_watchdog_that_does_housekeeping() {
    check(Case { does_housekeeping: true, short: true, ..CASE });
}

#[test]
fn one_thread_alone_loses_nothing() {
    check(Case { threads: 1, looks: 1, ..CASE });
}

#[test]
fn while_threads_are_dismissed_nothing_is_lost() {
    check(Case { threads: 3, jobs: 1, looks: 0, dismisses: 1, ..CASE });
}

#[test]
fn threads_that_are_called_and_dismissed_at_the_same_time_lose_nothing() {
    check(Case { threads: 3, jobs: 1, dismisses: 1, ..CASE });
}

#[test]
fn of_two_threads_none_is_lost_however_often_one_is_dismissed() {
    check(Case { looks: 1, dismisses: 2, ..CASE });
}
