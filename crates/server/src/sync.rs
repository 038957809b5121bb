//! The primitives of what threads share, so that the model checker can put its own in their place.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p server --test loom` explores the baton, the
//! inbox, deadlines and the share with loom's versions of these; everything else uses the standard library's.

#[cfg(loom)]
pub use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// What a lock gives; a debug build remembers that it is held (`reactor::holding`).
#[cfg(any(loom, not(debug_assertions)))]
pub type Guard<'a, T> = MutexGuard<'a, T>;
#[cfg(all(not(loom), debug_assertions))]
pub use recorded::Guard;
#[cfg(all(not(loom), debug_assertions))]
mod recorded;

/// Locks, whether or not a thread has panicked with the lock held: what these locks protect
/// is whole between any two statements that can panic.
#[cfg(loom)]
pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// How long a forked child waits for a lock that a thread of its parent may have held at the fork.
#[cfg(not(loom))]
const ORPHANED: std::time::Duration = std::time::Duration::from_secs(5);

/// Locks, whether or not a thread has panicked with the lock held: what these locks protect
/// is whole between any two statements that can panic. Nobody waits for anything else while
/// holding one: a debug build looks.
#[cfg(not(loom))]
#[inline]
#[track_caller]
pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    let guard = tried(mutex).unwrap_or_else(|| until_free(mutex));
    #[cfg(debug_assertions)]
    let guard = Guard::new(guard, reactor::holding::Thing::Lock);
    guard
}

/// Waits to be told, without the lock meanwhile.
#[track_caller]
pub fn wait<'a, T>(told: &Condvar, guard: Guard<'a, T>) -> Guard<'a, T> {
    #[cfg(all(not(loom), debug_assertions))]
    let guard = guard.before_a_wait();
    let guard = match told.wait(guard) {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    };
    #[cfg(all(not(loom), debug_assertions))]
    let guard = Guard::new(guard, reactor::holding::Thing::Lock);
    guard
}

/// The same, at most so long. True: that long, and nothing was told.
#[cfg(not(loom))]
#[track_caller]
pub fn wait_for<'a, T>(
    told: &Condvar,
    guard: Guard<'a, T>,
    most: std::time::Duration,
) -> (Guard<'a, T>, bool) {
    #[cfg(debug_assertions)]
    let guard = guard.before_a_wait();
    let (guard, waited) = match told.wait_timeout(guard, most) {
        Ok(both) => both,
        Err(poisoned) => poisoned.into_inner(),
    };
    #[cfg(debug_assertions)]
    let guard = Guard::new(guard, reactor::holding::Thing::Lock);
    (guard, waited.timed_out())
}

/// Waits for a lock; not without end in a process where whoever has it may not exist.
#[cfg(not(loom))]
#[cold]
fn until_free<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if reactor::sys::forks() == 0 {
        return mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    let begun = std::time::Instant::now();
    loop {
        if let Some(guard) = tried(mutex) {
            return guard;
        }
        if begun.elapsed() > ORPHANED {
            reactor::sys::write_stderr(
                "forehand: a forked child waits for a lock of its parent: it ends here\n",
            );
            reactor::sys::exit_now(1);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Stands between a store and a load that are `SeqCst`, both of them: what was stored is seen by
/// whoever does the same the other way round, or what that one has stored is seen here. The orderings
/// say so; loom takes them for no more than acquire and release, and is told by a fence.
#[inline]
pub fn one_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Lets others go on, one of which is about to let go of what is tried.
pub fn a_moment() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::sleep(std::time::Duration::from_micros(50));
}

/// What is only ever tried, and never waited for.
#[cfg(not(loom))]
pub type Tried<T> = Mutex<T>;
/// What a successful try gives.
#[cfg(not(loom))]
pub type TriedGuard<'a, T> = Guard<'a, T>;
#[cfg(loom)]
pub use model::{Tried, TriedGuard};

/// Locks if nobody has it.
#[cfg(not(loom))]
#[inline]
#[track_caller]
pub fn try_lock<T>(mutex: &Tried<T>) -> Option<TriedGuard<'_, T>> {
    let guard = tried(mutex)?;
    #[cfg(debug_assertions)]
    let guard = Guard::new(guard, reactor::holding::Thing::Baton);
    Some(guard)
}

#[cfg(not(loom))]
#[inline]
fn tried<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}
#[cfg(loom)]
pub use model::try_lock;

/// loom's own `try_lock` waits where the lock is taken between its two halves, which it takes
/// for a deadlock. Here a flag says whether the lock is free, and the lock itself is.
#[cfg(loom)]
mod model {
    use std::ops::{Deref, DerefMut};

    use super::{Mutex, MutexGuard, lock};

    pub struct Tried<T> {
        taken: Mutex<bool>,
        value: Mutex<T>,
    }

    pub struct TriedGuard<'a, T> {
        taken: &'a Mutex<bool>,
        value: Option<MutexGuard<'a, T>>,
    }

    impl<T> Tried<T> {
        pub fn new(value: T) -> Self {
            Self { taken: Mutex::new(false), value: Mutex::new(value) }
        }
    }

    pub fn try_lock<T>(tried: &Tried<T>) -> Option<TriedGuard<'_, T>> {
        if std::mem::replace(&mut *lock(&tried.taken), true) {
            return None;
        }
        Some(TriedGuard { taken: &tried.taken, value: Some(lock(&tried.value)) })
    }

    impl<T> Deref for TriedGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.value.as_ref().expect("held until it is dropped")
        }
    }

    impl<T> DerefMut for TriedGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.value.as_mut().expect("held until it is dropped")
        }
    }

    impl<T> Drop for TriedGuard<'_, T> {
        fn drop(&mut self) {
            self.value = None;
            *lock(self.taken) = false;
        }
    }
}
