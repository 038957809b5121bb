//! The threads that wait to be of use, and how one is called.
//!
//! Knows: how many are parked. Does not know: what they are called for. Any thread calls; those that park wait here,
//! with nothing in hand.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait};

/// The threads that wait to be of use.
pub(super) struct Spares {
    state: Mutex<SpareState>,
    called: Condvar,
    /// A copy of `state.parked`, read without the lock.
    parked: AtomicUsize,
}

#[derive(Default)]
struct SpareState {
    parked: usize,
    permits: usize,
    /// So many of those that are parked shall end.
    dismissed: usize,
    /// Whoever would park next shall look for the baton once more instead.
    next_is_called: bool,
    ended: bool,
}

impl Spares {
    pub fn new() -> Self {
        Self { state: Mutex::new(SpareState::default()), called: Condvar::new(), parked: AtomicUsize::new(0) }
    }

    /// How many are parked.
    #[inline]
    pub fn parked(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    /// Waits to be called. False: the loop has ended, or nobody needs this thread any more.
    pub fn park(&self) -> bool {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.next_is_called) {
            return !state.ended;
        }
        state.parked += 1;
        self.parked.store(state.parked, Ordering::Relaxed);
        while state.permits == 0 && state.dismissed == 0 && !state.ended {
            state = wait(&self.called, state);
        }
        if state.permits > 0 {
            // The caller has taken this thread off the count already.
            state.permits -= 1;
            return !state.ended;
        }
        state.parked -= 1;
        self.parked.store(state.parked, Ordering::Relaxed);
        if state.ended {
            return false;
        }
        state.dismissed -= 1;
        false
    }

    /// Calls one parked thread. False: none is parked any more.
    pub fn call(&self) -> bool {
        let mut state = lock(&self.state);
        if state.parked == 0 {
            return false;
        }
        state.parked -= 1;
        state.permits += 1;
        self.parked.store(state.parked, Ordering::Relaxed);
        drop(state);
        self.called.notify_one();
        true
    }

    /// Calls one parked thread, or else the next that would park.
    pub fn call_the_next(&self) {
        let mut state = lock(&self.state);
        if state.parked == 0 {
            state.next_is_called = true;
            return;
        }
        drop(state);
        self.call();
    }

    /// Has one of those that are parked end. Nothing where none would be left.
    pub fn dismiss(&self) {
        let mut state = lock(&self.state);
        if state.parked <= state.dismissed + 1 {
            return;
        }
        state.dismissed += 1;
        drop(state);
        self.called.notify_one();
    }

    /// Nobody is called any more: all go on, to their end.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.called.notify_all();
    }
}
