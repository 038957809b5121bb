//! Threads for what may wait for a disk: a few, which run while there is something to do and a while longer.
//!
//! Knows: what waits to be done. Does not know: what that is, or for whom. Its threads never touch the interpreter or the
//! baton, so that a slow disk is waited for by nobody but those who need what it is asked for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::sync::{Guard, lock, try_lock, wait_for};

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Threads of one purpose.
pub struct DiskThreads {
    name: &'static str,
    most: usize,
    jobs: Mutex<Jobs>,
    called: Condvar,
    /// How often something had to wait, as all threads were busy.
    waits: AtomicU64,
    /// Nobody waits for what is done any more.
    ended: AtomicBool,
}

impl DiskThreads {
    /// At most so many threads of this name (15 bytes are shown), at least one.
    pub fn new(name: &'static str, most: u64) -> Arc<Self> {
        Arc::new(Self {
            name,
            most: usize::try_from(most).unwrap_or(usize::MAX).max(1),
            jobs: Mutex::default(),
            called: Condvar::new(),
            waits: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Has something done that may wait for a disk.
    pub fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        self.add(lock(&self.jobs), Box::new(job));
    }

    /// The same where it may be a forked child that asks, in which nobody lets go of the lock: it is done, or dropped.
    pub fn run_if_free(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = try_lock(&self.jobs) {
            self.add(jobs, Box::new(job));
        }
    }

    fn add(self: &Arc<Self>, mut jobs: Guard<'_, Jobs>, job: Job) {
        jobs.waiting.push_back(job);
        let is_busy = jobs.idle < jobs.waiting.len();
        let starts = is_busy && jobs.threads < self.most;
        jobs.threads += usize::from(starts);
        drop(jobs);
        if is_busy && !starts {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
        if !starts {
            return self.called.notify_one();
        }
        let this = Arc::clone(self);
        let started = thread::Builder::new().name(self.name.into()).stack_size(256 << 10);
        if started.spawn(move || this.work()).is_err() {
            // Others do it when they can. Where there is none at all, it is done here, rather than never.
            let waiting = {
                let mut jobs = lock(&self.jobs);
                jobs.threads -= 1;
                if jobs.threads > 0 { VecDeque::new() } else { std::mem::take(&mut jobs.waiting) }
            };
            waiting.into_iter().for_each(|job| job());
        }
    }

    /// How often something had to wait, as all threads were busy.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// A thread's life.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            job();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        let mut waited_long = false;
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if waited_long || self.ended.load(Ordering::Relaxed) {
                jobs.threads -= 1;
                return None;
            }
            jobs.idle += 1;
            (jobs, waited_long) = wait_for(&self.called, jobs, IDLE);
            jobs.idle -= 1;
        }
    }

    /// Nobody waits for anything any more: threads end when they have done what waits.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn as_many_things_wait_for_the_disk_at_a_time_as_there_may_be_threads() {
        for most in [1, 2, 3] {
            let threads = DiskThreads::new("test", most);
            let (begun, begins) = channel();
            let ends: Vec<_> = (0..3)
                .map(|number| {
                    let (go_on, waits) = channel::<()>();
                    let begun = begun.clone();
                    threads.run(move || {
                        begun.send(number).expect("somebody counts");
                        let _ = waits.recv();
                    });
                    go_on
                })
                .collect();
            (0..most).for_each(|_| assert!(begins.recv().is_ok(), "a thread for each"));
            assert_eq!(lock(&threads.jobs).waiting.len() as u64, 3 - most);
            assert_eq!(threads.waits(), 3 - most, "one less, as many, one more");
            drop(ends);
            (most..3).for_each(|_| assert!(begins.recv().is_ok(), "the rest is done when there is a thread"));
            threads.end();
        }
    }
}
