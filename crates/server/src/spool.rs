//! Bodies go to files on a thread of their own, and what all bodies hold is counted.
//!
//! Knows: connections whose bodies wait to be written, files that wait to be closed, two sums.
//! Does not know: the loop, which is woken when a connection comes back. The thread runs for as
//! long as there is something to do and a while longer; it never touches the interpreter or the
//! baton, so that a slow disk is waited for by nobody but the body that goes to it.
//!
//! ```text
//!   loop: reads ─► BodyBuffer ── large ──► connection given to the spool ─► thread: write(2)
//!     ▲                                                                            │
//!     └──────────── woken, takes what has been stored and goes on reading ─────────┘
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use reactor::Waker;

use crate::connection::Connection;
use crate::inbox::Inbox;
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

/// A connection whose body was written, or could not be.
pub(crate) struct Stored {
    pub connection: Box<Connection>,
    /// True: its file was made now.
    pub result: io::Result<bool>,
}

enum Job {
    Store(Box<Connection>),
    Close(File),
}

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
    stored: Inbox<Stored>,
    /// Nobody takes what is stored any more.
    ended: AtomicBool,
    waker: Arc<Waker>,
}

impl Spool {
    /// A spool that wakes the loop by this.
    pub fn new(waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::default(),
            disk: Arc::default(),
            jobs: Mutex::default(),
            called: Condvar::new(),
            stored: Inbox::default(),
            ended: AtomicBool::new(false),
            waker,
        })
    }

    /// Has the body of a connection written; the connection comes back by [`Spool::take_stored`].
    pub(crate) fn store(self: &Arc<Self>, connection: Box<Connection>) {
        let mut jobs = lock(&self.jobs);
        jobs.waiting.push_back(Job::Store(connection));
        let starts = !std::mem::replace(&mut jobs.runs, true);
        drop(jobs);
        self.call(starts);
    }

    /// Closes a file of so many bytes, which nobody else has: the kernel then frees its blocks.
    pub fn close(self: &Arc<Self>, file: File, length: u64) {
        // In a process that was forked while another thread had the lock nobody lets go of it.
        let jobs = if length > QUICK_TO_CLOSE { try_lock(&self.jobs) } else { None };
        if let Some(mut jobs) = jobs {
            jobs.waiting.push_back(Job::Close(file));
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
            waiting.into_iter().for_each(|job| self.do_job(job));
        }
    }

    /// The thread's life.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            self.do_job(job);
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

    fn do_job(&self, job: Job) {
        match job {
            Job::Close(file) => drop(file),
            Job::Store(mut connection) => {
                let result =
                    connection.receiving.as_mut().map_or(Ok(false), |receiving| receiving.body.store());
                if self.stored.put(Stored { connection, result }) {
                    self.waker.wake();
                }
            }
        }
    }

    /// The connections whose bodies have been dealt with since the last call.
    pub(crate) fn take_stored(&self) -> Vec<Stored> {
        if self.stored.is_full() { self.stored.take() } else { Vec::new() }
    }

    /// The loop is no more: what comes back is dropped.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.stored.close();
        self.called.notify_one();
    }
}
