//! Letting go of the interpreter and taking it back.

use pyo3::ffi;
use pyo3::prelude::*;
use reactor::MayWait;
use reactor::holding::{Wait, will_wait};

/// The token of a thread that is known to be attached: worker threads are, from the first
/// line of `App::live` to its last, except inside [`outside`].
#[inline]
pub fn attached<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    // SAFETY: only called on worker threads, below `App::live`, which attaches them, and
    // never from within `outside`, whose closures wait and do not touch Python.
    let py = unsafe { Python::assume_attached() };
    work(py)
}

/// What is taken out of the interpreter and back into it by the same thread.
struct Crosses<T>(T);

// SAFETY: `Python::detach` takes `Send` for "touches no Python object", and runs the closure on the calling thread:
// nothing of it is sent anywhere.
unsafe impl<T> Send for Crosses<T> {}

impl<R, F: FnOnce() -> R> Crosses<F> {
    fn call(self) -> Crosses<R> {
        Crosses((self.0)())
    }
}

/// Runs something that waits, while other threads may use the interpreter; it is given the
/// proof of it. The closure must not touch Python objects; but it may drop them, as the loop does with a remembered head
/// that makes room for another: their counts go down when a thread is attached again.
#[inline]
pub fn outside<R>(wait: impl FnOnce(&MayWait) -> R) -> R {
    let there_and_back = Crosses(|| {
        let result = wait(&MayWait::claim());
        will_wait(Wait::Interpreter);
        result
    });
    attached(|py| py.detach(|| there_and_back.call())).0
}

/// Debug builds ask here whether a thread that is about to wait has the interpreter.
pub fn tell_who_has_the_interpreter() {
    #[cfg(debug_assertions)]
    reactor::holding::ask_of_the_interpreter(|| {
        // SAFETY: takes no pointer; any thread may ask, also one that Python does not know. Once
        // the interpreter has ended there is nothing left that could be held.
        unsafe { ffi::Py_IsInitialized() != 0 && ffi::PyGILState_Check() != 0 }
    });
}

/// This thread, as the interpreter names it (`threading.get_ident()`).
pub fn thread_ident() -> u64 {
    // SAFETY: takes no pointer; any thread may ask.
    unsafe { PyThread_get_thread_ident() as u64 }
}

/// Has another thread raise an exception as soon as it runs Python code; without one, an
/// exception that has not been raised yet is taken back. The caller is attached.
pub fn raise_in_thread(thread: u64, exception: Option<&Bound<'_, PyAny>>) {
    let raised = exception.map_or(std::ptr::null_mut(), |exception| exception.as_ptr());
    // SAFETY: the caller is attached; `raised` is null or a live exception class, of which the
    // interpreter takes a reference of its own. A thread that is gone is not found.
    unsafe { PyThreadState_SetAsyncExc(thread as std::ffi::c_ulong, raised) };
}

unsafe extern "C" {
    /// Part of the stable interface; see "Thread State and the Global Interpreter Lock".
    fn PyThreadState_SetAsyncExc(id: std::ffi::c_ulong, exception: *mut ffi::PyObject) -> std::ffi::c_int;
    /// Part of the stable interface.
    fn PyThread_get_thread_ident() -> std::ffi::c_ulong;
}
