//! The coroutine protocol without exceptions.
//!
//! PyO3 has words for `__await__` and `__next__`, and gives a result as the interpreter's oldest way
//! wants it: StopIteration is made, raised, caught and taken apart for each, by functions that first
//! note who is attached. The slot `am_send` (3.10) gives the result as it is. It is put into a class
//! when the server begins; on Pythons that ask another way, what PyO3 has put there answers.

use pyo3::prelude::*;
use pyo3::{PyClass, ffi};

/// What a step of an awaitable came to.
pub enum Step {
    /// It waits: this is for the event loop.
    Yielded(Py<PyAny>),
    /// It is over, with this result.
    Returned(Py<PyAny>),
}

/// A class of ours whose objects are awaited, and are their own iterators.
pub trait Awaited: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync {
    /// Goes on with what the event loop has sent.
    fn step(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Step>;
}

/// Puts the slots into a class.
pub fn quicken<O: Awaited>(py: Python<'_>) {
    put::<O>(py, send::<O>);
}

/// The same for a class whose objects have None as their result, at once.
pub fn quicken_done<O: PyClass>(py: Python<'_>) {
    put::<O>(py, done);
    let class = O::type_object_raw(py);
    // SAFETY: as in `put`: a class of this program's own, which nothing is called on meanwhile.
    unsafe { (*class).tp_iternext = Some(nothing) };
}

fn put<O: PyClass>(py: Python<'_>, send: ffi::sendfunc) {
    let class = O::type_object_raw(py);
    // SAFETY: the class is of this program's own making, on the heap, so that its table of slots is
    // a part of it and may be written; it lives for ever, has no subclass that would have a copy, and the
    // caller is attached, so that nobody reads it meanwhile.
    unsafe {
        if let Some(slots) = (*class).tp_as_async.as_mut() {
            slots.am_await = Some(itself);
            slots.am_send = Some(send);
        }
    }
}

unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls with a live object.
    unsafe { ffi::Py_NewRef(object) }
}

/// The end of an iterator, without an exception.
unsafe extern "C" fn nothing(_object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    std::ptr::null_mut()
}

unsafe extern "C" fn done(
    _object: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    into: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: the interpreter gives room for a reference.
    unsafe { *into = ffi::Py_NewRef(ffi::Py_None()) };
    ffi::PySendResult::PYGEN_RETURN
}

unsafe extern "C" fn send<O: Awaited>(
    object: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    into: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: the interpreter is held, and calls with two live objects, the first of them an `O`.
    let (py, object, value) = unsafe {
        let py = Python::assume_attached();
        let object = Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<O>();
        (py, object, Bound::from_borrowed_ptr(py, value))
    };
    // References that are dropped in there are given back at once where PyO3 knows who is attached.
    let work = || Python::attach(|_| O::step(&object, &value));
    let (how, what) = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(Step::Yielded(waits))) => (ffi::PySendResult::PYGEN_NEXT, waits.into_ptr()),
        Ok(Ok(Step::Returned(result))) => (ffi::PySendResult::PYGEN_RETURN, result.into_ptr()),
        Ok(Err(error)) => {
            error.restore(py);
            (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
        }
        Err(_) => {
            pyo3::exceptions::PySystemError::new_err("the server failed; please report this").restore(py);
            (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
        }
    };
    // SAFETY: the interpreter gives room for a reference.
    unsafe { *into = what };
    how
}
