//! Values that Python code reaches while a call of ours is under way, and no longer.
//!
//! Knows: nothing of what is lent. Both types rely on the interpreter's lock: every access
//! happens on a thread that holds it. The module does not claim to work without that lock, so
//! that a free-threaded interpreter switches it on when it loads us.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr::NonNull;
use std::thread::{self, Thread};

use pyo3::Python;

use reactor::holding::{Wait, will_wait};

use super::outside;

/// A value that belongs to the interpreter's lock.
#[derive(Default)]
pub struct GilCell<T>(RefCell<T>);

// SAFETY: `borrow` wants the interpreter's token, so that two threads are never in it at
// once; a borrow that lives across letting go of the lock is seen by the cell's own flag,
// which then is only read and written with the lock held.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// The value; none while another thread is using it.
    #[inline]
    pub fn borrow(&self, _py: Python<'_>) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }

    /// The value, which nobody else has.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A place where a value can be lent from the stack for the length of a call.
pub struct Loan<T> {
    lent: Cell<Option<NonNull<T>>>,
    /// Somebody uses it.
    busy: Cell<bool>,
    /// Whoever lent it waits for that use to end: who that is stands in `owner`.
    awaited: Cell<bool>,
    owner: Cell<Option<Thread>>,
}

// SAFETY: as `GilCell`: the cells are read and written with the interpreter held, and the value
// is used by one thread at a time, see `with`.
unsafe impl<T: Send> Sync for Loan<T> {}
// SAFETY: as above; an empty loan is three plain cells.
unsafe impl<T: Send> Send for Loan<T> {}

/// Ends a loan when dropped, also when the call panics: nobody begins to use the value, and
/// nobody uses it any more.
struct Ends<'a, T>(&'a Loan<T>);

impl<T> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.0.lent.set(None);
        while self.0.busy.get() {
            // Another thread has let go of the interpreter while it uses the value. Nothing of
            // ours does so; should something, it is waited for and not trusted to be quick.
            self.0.owner.set(Some(thread::current()));
            self.0.awaited.set(true);
            outside(|_| {
                will_wait(Wait::For("the use of a loan"));
                thread::park();
            });
        }
    }
}

impl<T> Loan<T> {
    pub fn new() -> Self {
        Self {
            lent: Cell::new(None),
            busy: Cell::new(false),
            awaited: Cell::new(false),
            owner: Cell::new(None),
        }
    }

    /// Something is lent, and nobody uses it.
    #[inline]
    pub fn is_there(&self, _py: Python<'_>) -> bool {
        self.lent.get().is_some() && !self.busy.get()
    }

    /// Something is lent, whether or not somebody uses it.
    pub fn is_lent(&self, _py: Python<'_>) -> bool {
        self.lent.get().is_some()
    }

    /// Lends a value while `work` runs, on a thread that is attached.
    #[inline]
    pub fn during<R>(&self, _py: Python<'_>, value: &mut T, work: impl FnOnce() -> R) -> R {
        self.lent.set(Some(NonNull::from(value)));
        let _ends = Ends(self);
        work()
    }

    /// Uses what is lent. None: nothing is, or another thread is using it. `work` does not
    /// wait: the owner would wait for it.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut lent = self.lent.get()?;
        if self.busy.replace(true) {
            return None;
        }
        let _frees = Frees(self);
        // SAFETY: `during` has the only reference to the value and hands it to nobody but here;
        // `busy`, set and looked at with the interpreter held, makes this use the only one; and
        // `during` returns, or unwinds, only after it has seen `busy` unset and no pointer left.
        Some(work(unsafe { lent.as_mut() }))
    }
}

impl<T> Loan<T> {
    #[cold]
    fn tell_owner(&self) {
        if let Some(owner) = self.owner.take() {
            owner.unpark();
        }
    }
}

/// Ends a use when dropped, also when the use panics.
struct Frees<'a, T>(&'a Loan<T>);

impl<T> Drop for Frees<'_, T> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        if self.0.awaited.take() {
            self.0.tell_owner();
        }
    }
}

impl<T> Default for Loan<T> {
    fn default() -> Self {
        Self::new()
    }
}
