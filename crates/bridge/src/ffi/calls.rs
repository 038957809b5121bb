//! Calls that run Python code for as long as that likes.
//!
//! When the interpreter ends while such a call is under way, it takes its thread (before 3.14) by
//! `pthread_exit`, which unwinds all that is on the stack: our frames would give references back
//! that are no longer theirs, and the first `catch_unwind` would end the process by a signal.
//! So the innermost of our frames holds such a thread for ever, as 3.14 does itself. PyO3
//! does the same where it takes the interpreter back.

use pyo3::ffi::{Py_DECREF, PyErr_Occurred, PyObject, PySendResult, PyVectorcall_Function, vectorcallfunc};

/// A callable's own function (PEP 590), with the truth about it: it may be unwound.
type Vectorcall = unsafe extern "C-unwind" fn(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject;

unsafe extern "C-unwind" {
    fn PyObject_VectorcallDict(
        callable: *mut PyObject,
        arguments: *const *mut PyObject,
        count: usize,
        named: *mut PyObject,
    ) -> *mut PyObject;
    fn PyIter_Next(iterator: *mut PyObject) -> *mut PyObject;
    fn PyIter_Send(iterator: *mut PyObject, value: *mut PyObject, into: *mut *mut PyObject) -> PySendResult;
}

/// Holds the thread that drops it.
struct Stays;

impl Drop for Stays {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

#[inline]
fn staying<R>(call: impl FnOnce() -> R) -> R {
    let stays = Stays;
    let result = call();
    std::mem::forget(stays);
    result
}

/// Calls with positional arguments: a new reference, or null with an exception set.
///
/// # Safety
/// The caller is attached; `callable` and the arguments live; the count and its flag are as
/// `PyObject_Vectorcall` wants them.
#[inline]
pub unsafe fn call(callable: *mut PyObject, arguments: *const *mut PyObject, count: usize) -> *mut PyObject {
    // SAFETY: a live object.
    let Some(own) = (unsafe { PyVectorcall_Function(callable) }) else {
        // SAFETY: the contract of this function; without a dictionary there are no named arguments.
        return staying(|| unsafe {
            PyObject_VectorcallDict(callable, arguments, count, std::ptr::null_mut())
        });
    };
    // SAFETY: the types differ in nothing but whether what is called may unwind.
    let own = unsafe { std::mem::transmute::<vectorcallfunc, Vectorcall>(own) };
    // SAFETY: the contract of this function is that of the callable's; there are no named arguments.
    let result = staying(|| unsafe { own(callable, arguments, count, std::ptr::null_mut()) });
    // SAFETY: the caller is attached; a result is a reference of ours, given back once.
    unsafe {
        if !result.is_null() && !PyErr_Occurred().is_null() {
            // The callable is at fault: it has raised, and given a result all the same.
            Py_DECREF(result);
            return std::ptr::null_mut();
        }
    }
    result
}

/// The next item: a new reference, or null at the end and with an exception set.
///
/// # Safety
/// The caller is attached, and `iterator` is a live iterator.
#[inline]
pub unsafe fn next(iterator: *mut PyObject) -> *mut PyObject {
    // SAFETY: the contract of this function.
    staying(|| unsafe { PyIter_Next(iterator) })
}

/// One step of a generator or coroutine.
///
/// # Safety
/// The caller is attached; all three live, and `into` has room for a reference.
#[inline]
pub unsafe fn send(iterator: *mut PyObject, value: *mut PyObject, into: *mut *mut PyObject) -> PySendResult {
    // SAFETY: the contract of this function.
    staying(|| unsafe { PyIter_Send(iterator, value, into) })
}
