//! Locks that a debug build remembers while they are held (`reactor::holding`).
//!
//! Knows: the standard library's guards. Does not know: what they protect.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use reactor::holding::{Holding, Thing, Wait, hold, will_wait};

/// A guard that is in its thread's record.
#[derive(Debug)]
pub struct Guard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: Holding,
}

impl<'a, T> Guard<'a, T> {
    #[track_caller]
    pub(super) fn new(guard: MutexGuard<'a, T>, thing: Thing) -> Self {
        Self { guard, _held: hold(thing) }
    }

    /// The guard itself, for a wait that lets go of it; whatever else is held is not.
    #[track_caller]
    pub(super) fn before_a_wait(self) -> MutexGuard<'a, T> {
        let Self { guard, _held } = self;
        drop(_held);
        will_wait(Wait::For("another thread"));
        guard
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
