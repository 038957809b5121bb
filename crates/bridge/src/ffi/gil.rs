//! Letting go of the interpreter and taking it back.

use pyo3::{Python, ffi};

/// The token of a thread that is known to be attached: worker threads are, from the first
/// line of `App::live` to its last, except inside [`outside`].
#[inline]
pub fn attached<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    // SAFETY: only called on worker threads, below `App::live`, which attaches them, and
    // never from within `outside`, whose closures wait and do not touch Python.
    let py = unsafe { Python::assume_attached() };
    work(py)
}

/// Takes the interpreter back when dropped, so that a panic cannot leave a thread without it.
struct Away(*mut ffi::PyThreadState);

impl Drop for Away {
    fn drop(&mut self) {
        // SAFETY: the state is this thread's own, saved in `outside` and restored once.
        unsafe { ffi::PyEval_RestoreThread(self.0) };
    }
}

/// Runs something that waits, while other threads may use the interpreter. The closure must
/// not touch Python objects.
#[inline]
pub fn outside<R>(wait: impl FnOnce() -> R) -> R {
    // SAFETY: called by attached threads only (see `attached`); `Away` restores the state.
    let _away = Away(unsafe { ffi::PyEval_SaveThread() });
    wait()
}
