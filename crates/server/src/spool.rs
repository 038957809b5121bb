//! Bodies go to files on a thread of their own, and what all bodies hold is counted.
//!
//! Knows: what waits to be done, files that wait to be closed, two sums. Does not know: whose bodies
//! they are (`storing.rs`). The thread runs for as long as there is something to do and a while
//! longer; it never touches the interpreter or the baton, so that a slow disk is waited for by
//! nobody but the body that goes to it.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::sync::{lock, try_lock, wait_for};

/// How long the thread waits for another body before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// A file of no more than so many bytes is closed where it is dropped.
const QUICK_TO_CLOSE: u64 = 1024 * 1024;

/// How much there is of something.
#[derive(Debug, Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// How much there is.
    pub fn used(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One part of a sum, for as long as it lives.
#[derive(Debug, Default)]
pub struct Charge {
    sum: Option<Arc<Sum>>,
    amount: u64,
}

impl Charge {
    /// Makes it so much of this sum. The sum then.
    pub fn set(&mut self, sum: &Arc<Sum>, amount: u64) -> u64 {
        let before = std::mem::replace(&mut self.amount, amount);
        if self.sum.is_none() {
            self.sum = Some(Arc::clone(sum));
        }
        // The difference, around the end where it is negative.
        let change = amount.wrapping_sub(before);
        sum.0.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(sum) = &self.sum {
            sum.0.fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

/// What the thread does: writes a piece of a body, or closes a file.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    runs: bool,
}

/// Where bodies go that are too large for memory.
pub struct Spool {
    /// Bytes of bodies in memory: those that are received, and those that wait for their turn
    /// or are being read. What one read has brought whole with its head is not counted.
    pub memory: Arc<Sum>,
    /// Bytes of bodies in files.
    pub disk: Arc<Sum>,
    jobs: Mutex<Jobs>,
    called: Condvar,
    /// Nobody waits for what is done any more.
    ended: AtomicBool,
}

impl Spool {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::default(),
            disk: Arc::default(),
            jobs: Mutex::default(),
            called: Condvar::new(),
            ended: AtomicBool::new(false),
        })
    }

    /// Has something done that may wait for a disk.
    pub fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut jobs = lock(&self.jobs);
        jobs.waiting.push_back(Box::new(job));
        let starts = !std::mem::replace(&mut jobs.runs, true);
        drop(jobs);
        self.call(starts);
    }

    /// Closes a file of so many bytes, which nobody else has: the kernel then frees its blocks.
    pub fn close(self: &Arc<Self>, file: File, length: u64) {
        // In a process that was forked while another thread had the lock nobody lets go of it.
        let jobs = if length > QUICK_TO_CLOSE { try_lock(&self.jobs) } else { None };
        if let Some(mut jobs) = jobs {
            jobs.waiting.push_back(Box::new(move || drop(file)));
            let starts = !std::mem::replace(&mut jobs.runs, true);
            drop(jobs);
            self.call(starts);
        }
    }

    fn call(self: &Arc<Self>, starts: bool) {
        if !starts {
            return self.called.notify_one();
        }
        let this = Arc::clone(self);
        let started = thread::Builder::new().name("forehand-spool".into()).stack_size(256 << 10);
        if started.spawn(move || this.work()).is_err() {
            // Without a thread it is done here; whoever waits for that would wait anyway.
            let waiting = {
                let mut jobs = lock(&self.jobs);
                jobs.runs = false;
                std::mem::take(&mut jobs.waiting)
            };
            waiting.into_iter().for_each(|job| job());
        }
    }

    /// The thread's life.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            job();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        let mut idle = false;
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if idle || self.ended.load(Ordering::Relaxed) {
                jobs.runs = false;
                return None;
            }
            (jobs, idle) = wait_for(&self.called, jobs, IDLE);
        }
    }

    /// The loop is no more: nobody waits for another body.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.called.notify_one();
    }
}
