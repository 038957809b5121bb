//! Requests that compute, as others of their routes have: how many are inside, and what they have used.
//!
//! Knows: some numbers. Does not know: which routes those are (`lanes/routes.rs`), or what follows from it (`load.rs`, `share/apart.rs`).
//! Whoever has the baton writes; any thread reads.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wire::Millis;

/// The numbers of one worker.
#[derive(Debug, Default)]
pub(crate) struct Computing {
    pub inside: AtomicU32,
    /// When the last of them was over.
    pub over_at: AtomicU64,
    /// So many wait here until those are over.
    waiting: AtomicU32,
    /// Those that were over, ...
    calls: AtomicU64,
    /// ... and what they have used of processors, in microseconds.
    used_us: AtomicU64,
    /// Inside, and computing for long.
    burning: AtomicU32,
    /// When anybody was last found to wait for the interpreter, ...
    waited_at: AtomicU64,
    /// ... and for one of those that are over soon.
    held_up_at: AtomicU64,
    /// Those of all workers come here.
    is_apart: AtomicBool,
}

impl Computing {
    /// One is over.
    pub fn ended(&self, used_us: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.used_us.fetch_add(used_us, Ordering::Relaxed);
    }

    /// How many are over by now, and what they have used, in microseconds.
    pub fn so_far(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.used_us.load(Ordering::Relaxed))
    }

    /// So many wait for others.
    pub fn note_waiting(&self, requests: usize) {
        self.waiting.store(u32::try_from(requests).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How many are inside or wait for those.
    pub fn here(&self) -> u32 {
        self.inside.load(Ordering::Relaxed).saturating_add(self.waiting.load(Ordering::Relaxed))
    }

    /// Others wait, as one of their waits has shown.
    pub fn others_wait(&self, now: Millis) {
        self.waited_at.store(now, Ordering::Relaxed);
        if self.inside.load(Ordering::Relaxed) > 0 {
            self.held_up_at.store(now, Ordering::Relaxed);
        }
    }

    /// When that was last so, for whatever; zero: never.
    pub fn waited_at(&self) -> Millis {
        self.waited_at.load(Ordering::Relaxed)
    }

    /// So many are inside that compute for long.
    pub fn note_burning(&self, requests: u32) {
        self.burning.store(requests, Ordering::Relaxed);
    }

    /// True while one is.
    pub fn burns(&self) -> bool {
        self.burning.load(Ordering::Relaxed) > 0
    }

    /// When one that is over soon was last found to hold up others; zero: never.
    pub fn held_up_at(&self) -> Millis {
        self.held_up_at.load(Ordering::Relaxed)
    }

    /// Those of all workers come here from now on, or not any more.
    pub fn set_apart(&self, is_apart: bool) {
        self.is_apart.store(is_apart, Ordering::Relaxed);
    }

    /// True while those of all workers come here.
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.is_apart.load(Ordering::Relaxed)
    }
}
