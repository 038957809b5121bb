//! Bodies go to files on a thread of their own, and what all bodies hold is counted.
//!
//! Knows: which files are closed on the thread, and two sums. Does not know: whose bodies they are (`storing.rs`), or how
//! the thread lives (`disk.rs`).

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::DiskThreads;

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

/// Where bodies go that are too large for memory.
pub struct Spool {
    /// Bytes of bodies in memory: those that are received, and those that wait for their turn
    /// or are being read. What one read has brought whole with its head is not counted.
    pub memory: Arc<Sum>,
    /// Bytes of bodies in files.
    pub disk: Arc<Sum>,
    thread: Arc<DiskThreads>,
}

impl Spool {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::default(),
            disk: Arc::default(),
            thread: DiskThreads::new("forehand-spool", 1),
        })
    }

    /// Has something done that may wait for a disk.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.thread.run(job);
    }

    /// Closes a file of so many bytes, which nobody else has: the kernel then frees its blocks.
    pub fn close(&self, file: File, length: u64) {
        if length > QUICK_TO_CLOSE {
            // In a process that was forked while another thread had the lock it is closed here.
            self.thread.run_if_free(move || drop(file));
        }
    }

    /// The loop is no more: nobody waits for another body.
    pub fn end(&self) {
        self.thread.end();
    }
}
