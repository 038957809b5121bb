//! What other threads bring back to the loop.
//!
//! Knows: things, and whether the loop must be woken for them. Does not know: what they are, or
//! how it is woken. Any thread puts; the loop takes, under the baton.
//!
//! The flag is raised and lowered with the lock, so that it says at each moment whether there is
//! something: who puts the first thing wakes the loop. It is read without.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Things that wait for the loop.
pub struct Inbox<T> {
    held: Mutex<Held<T>>,
    full: AtomicBool,
}

struct Held<T> {
    things: Vec<T>,
    /// Nobody takes anything any more.
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let held = Held { things: Vec::new(), closed: false };
        Self { held: Mutex::new(held), full: AtomicBool::new(false) }
    }
}

impl<T> Inbox<T> {
    /// Brings something. True: the loop must be woken. Behind [`Inbox::close`] it is dropped.
    #[must_use]
    pub fn put(&self, thing: T) -> bool {
        let mut held = lock(&self.held);
        if held.closed {
            drop(held);
            return false;
        }
        held.things.push(thing);
        !self.full.swap(true, Ordering::SeqCst)
    }

    /// True when there may be something. One order with the lock that whoever waits for the loop
    /// has tried: see `Baton::give_up`.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    /// Everything there is.
    pub fn take(&self) -> Vec<T> {
        let mut held = lock(&self.held);
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut held.things)
    }

    /// The loop is no more: what is there and what comes is dropped.
    pub fn close(&self) {
        let things = {
            let mut held = lock(&self.held);
            held.closed = true;
            std::mem::take(&mut held.things)
        };
        drop(things);
    }
}
