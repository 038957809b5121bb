//! The baton's hand-over under every interleaving that loom finds (up to its bound on
//! preemptions): `make loom`.
//!
//! The loop is a counter of jobs, the interpreter's lock a mutex. What must hold: every job
//! is played once and comes home, and every thread ends.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use server::baton::{Baton, Lead, Next, Play, Pool};

/// What an eventfd is to the real loop.
#[derive(Default)]
struct Event {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn wake(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
        *set = false;
    }
}

/// A loop with so many jobs.
struct Work {
    todo: usize,
    away: usize,
    event: Arc<Event>,
}

impl Lead for Work {
    type Job = usize;

    fn next(&mut self) -> Next<usize> {
        if self.todo > 0 {
            self.todo -= 1;
            self.away += 1;
            Next::Ready(self.todo)
        } else if self.away > 0 {
            Next::Quiet
        } else {
            Next::Ended
        }
    }

    fn wait(&mut self) {
        self.event.wait();
    }

    fn home(&mut self, _: usize) {
        self.away -= 1;
    }

    fn relieved(&mut self) {}

    fn now(&self) -> u64 {
        0
    }
}

/// Plays jobs by counting them, holding the interpreter's lock except where it waits.
struct Player {
    played: Arc<Vec<AtomicUsize>>,
}

impl Play<usize> for Player {
    fn play(&self, job: &mut usize) {
        self.played[*job].fetch_add(1, Ordering::Relaxed);
        // The job blocks here: another thread may run.
        thread::yield_now();
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

/// Runs so many threads over so many jobs, beside a watchdog that looks so often.
fn check(threads: usize, jobs: usize, looks: usize, relieves: bool) {
    loom::model(move || {
        let event = Arc::new(Event::default());
        let waker = Arc::clone(&event);
        let work = Work { todo: jobs, away: 0, event };
        let baton = Arc::new(Baton::new(work, Box::new(move || waker.wake())));
        let played: Arc<Vec<AtomicUsize>> = Arc::new((0..jobs).map(|_| AtomicUsize::new(0)).collect());
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (baton, played) = (Arc::clone(&baton), Arc::clone(&played));
                thread::spawn(move || baton.live(&Player { played }, &Nobody))
            })
            .collect();
        let mut seen = 0;
        for _ in 0..looks {
            match baton.look(seen) {
                server::baton::Look::Fine(now) => seen = now,
                server::baton::Look::Called(now) | server::baton::Look::NoSpare(now) => {
                    if relieves {
                        baton.relieve(now);
                    }
                    seen = now;
                }
            }
        }
        for worker in workers {
            worker.join().unwrap();
        }
        for count in played.iter() {
            assert_eq!(count.load(Ordering::Relaxed), 1, "each job is played once");
        }
    });
}

#[test]
fn two_threads_lose_no_job() {
    check(2, 2, 0, false);
}

#[test]
fn two_threads_and_a_watchdog_that_looks_lose_no_job() {
    check(2, 2, 2, false);
}

#[test]
fn two_threads_and_a_watchdog_that_relieves_lose_no_job() {
    check(2, 2, 2, true);
}

#[test]
fn one_thread_alone_loses_no_job() {
    check(1, 2, 1, true);
}
