//! Values that Python code reaches while a call of ours is under way, and no longer.
//!
//! Knows: nothing of what is lent. Both types rely on the interpreter's lock: every access
//! happens on a thread that holds it. The module does not claim to work without that lock, so
//! that a free-threaded interpreter switches it on when it loads us.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr::NonNull;

use pyo3::Python;

/// A value that belongs to the interpreter's lock.
pub struct Held<T>(RefCell<T>);

// SAFETY: `borrow` wants the interpreter's token, so that two threads are never in it at
// once; a borrow that lives across letting go of the lock is seen by the cell's own flag,
// which then is only read and written with the lock held.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    pub fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// The value; none while another thread is using it.
    #[inline]
    pub fn borrow(&self, _py: Python<'_>) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }
}

/// A place where a value can be lent from the stack for the length of a call.
pub struct Loan<T> {
    lent: Cell<Option<NonNull<T>>>,
    busy: Cell<bool>,
}

// SAFETY: as `Held`: `with` wants the token, `busy` turns a second thread away, and `during`
// clears the pointer before the value that it points at can move or end.
unsafe impl<T: Send> Sync for Loan<T> {}
// SAFETY: as above; an empty loan is two plain cells.
unsafe impl<T: Send> Send for Loan<T> {}

/// Ends a loan when dropped, also when the call panics.
struct Ends<'a, T>(&'a Loan<T>);

impl<T> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.0.lent.set(None);
    }
}

impl<T> Loan<T> {
    pub fn new() -> Self {
        Self { lent: Cell::new(None), busy: Cell::new(false) }
    }

    /// Lends a value while `work` runs.
    #[inline]
    pub fn during<R>(&self, _py: Python<'_>, value: &mut T, work: impl FnOnce() -> R) -> R {
        self.lent.set(Some(NonNull::from(value)));
        let _ends = Ends(self);
        work()
    }

    /// Uses what is lent. None: nothing is, or another thread is using it.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut lent = self.lent.get()?;
        if self.busy.replace(true) {
            return None;
        }
        struct Frees<'a>(&'a Cell<bool>);
        impl Drop for Frees<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        let _frees = Frees(&self.busy);
        // SAFETY: `during` has the only reference, gives nobody else access to it, and does not
        // return before the pointer is cleared; `busy` keeps this reference the only one.
        Some(work(unsafe { lent.as_mut() }))
    }
}

impl<T> Default for Loan<T> {
    fn default() -> Self {
        Self::new()
    }
}
