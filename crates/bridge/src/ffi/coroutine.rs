//! Coroutines and the functions `receive` and `send`, without the price of generality.

use std::marker::PhantomData;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use pyo3::{PyClass, ffi};

use super::callable::{CallResult, function, guarded};
use super::calls;

/// A class of ours that stands behind `receive` and `send`.
pub trait ReceiveSend: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync {
    /// `receive()`: an awaitable.
    fn receive(this: &Bound<'_, Self>) -> CallResult;
    /// `send(event)`: an awaitable.
    fn send(this: &Bound<'_, Self>, event: &Bound<'_, PyAny>) -> CallResult;
}

struct Definition<O>(PhantomData<O>);

impl<O: ReceiveSend> Definition<O> {
    const RECEIVE: &'static ffi::PyMethodDef = &ffi::PyMethodDef {
        ml_name: c"receive".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: receive::<O> },
        ml_flags: ffi::METH_NOARGS,
        ml_doc: c"receive() -> awaitable of an event  (ASGI 3)".as_ptr(),
    };
    const SEND: &'static ffi::PyMethodDef = &ffi::PyMethodDef {
        ml_name: c"send".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: send::<O> },
        ml_flags: ffi::METH_O,
        ml_doc: c"send(event) -> awaitable  (ASGI 3)".as_ptr(),
    };
}

/// The functions `receive` and `send` over `owner`.
pub fn receive_send_functions<'py, O: ReceiveSend>(
    owner: &Bound<'py, O>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = owner.py();
    let receive = function(owner.as_any(), Definition::<O>::RECEIVE)?;
    let send = function(owner.as_any(), Definition::<O>::SEND)?;
    Ok((receive.into_bound(py), send.into_bound(py)))
}

unsafe extern "C" fn receive<O: ReceiveSend>(
    owner: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the interpreter held and with the object that the function
    // was made over, which is an `O`.
    let (py, owner) = unsafe {
        let py = Python::assume_attached();
        (py, Bound::from_borrowed_ptr(py, owner).cast_into_unchecked::<O>())
    };
    guarded(py, || O::receive(&owner))
}

unsafe extern "C" fn send<O: ReceiveSend>(
    owner: *mut ffi::PyObject,
    event: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as in `receive`; METH_O gives exactly one argument.
    let (py, owner, event) = unsafe {
        let py = Python::assume_attached();
        let owner = Bound::from_borrowed_ptr(py, owner).cast_into_unchecked::<O>();
        (py, owner, Bound::from_borrowed_ptr(py, event))
    };
    guarded(py, || O::send(&owner, &event))
}

/// What a step of a coroutine came to.
pub enum Stepped<'py> {
    /// It waits: what it yielded is for the event loop.
    Yielded(Bound<'py, PyAny>),
    Returned,
}

/// One step of a coroutine or iterator.
#[inline]
pub fn step<'py>(coroutine: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Stepped<'py>> {
    let py = coroutine.py();
    let mut result = std::ptr::null_mut();
    // SAFETY: live objects, and room for the result; which of the three it was says whether a
    // reference was given or an exception is set.
    unsafe {
        match calls::send(coroutine.as_ptr(), value.as_ptr(), &raw mut result) {
            ffi::PySendResult::PYGEN_NEXT => Ok(Stepped::Yielded(Bound::from_owned_ptr(py, result))),
            ffi::PySendResult::PYGEN_RETURN => {
                drop(Bound::from_owned_ptr(py, result));
                Ok(Stepped::Returned)
            }
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
        }
    }
}

/// True for what an `async def` function returns.
#[inline]
pub fn is_coroutine(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: reads the type of a live object.
    unsafe { ffi::PyCoro_CheckExact(object.as_ptr()) != 0 }
}

/// Calls a class with one positional argument and keywords: `names` are those of `named`.
#[inline]
pub fn make_with<'py>(
    class: &Bound<'py, PyType>,
    only: &Bound<'py, PyAny>,
    named: &[&Bound<'py, PyAny>],
    names: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut arguments = [std::ptr::null_mut(); 4];
    arguments[1] = only.as_ptr();
    for (place, value) in arguments[2..].iter_mut().zip(named) {
        *place = value.as_ptr();
    }
    debug_assert!(named.len() <= 2 && names.len() == named.len());
    // SAFETY: live objects; one positional argument behind the place that the offset flag
    // offers, then as many named ones as the tuple has names.
    unsafe {
        let made = ffi::PyObject_Vectorcall(
            class.as_ptr(),
            arguments.as_mut_ptr().add(1),
            1 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
            names.as_ptr(),
        );
        Bound::from_owned_ptr_or_err(class.py(), made)
    }
}

/// Calls with three positional arguments.
#[inline]
pub fn call_three<'py>(
    callable: &Bound<'py, PyAny>,
    all: [&Bound<'py, PyAny>; 3],
) -> PyResult<Bound<'py, PyAny>> {
    let mut arguments = [std::ptr::null_mut(), all[0].as_ptr(), all[1].as_ptr(), all[2].as_ptr()];
    // SAFETY: live objects, three of them behind the place that the offset flag offers.
    unsafe {
        let count = 3 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let result = calls::call(callable.as_ptr(), arguments.as_mut_ptr().add(1), count);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// A copy of a list.
#[inline]
pub fn copy_list<'py>(list: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a live list; the result is a new list, or null with an exception set.
    unsafe {
        let copy = ffi::PyList_GetSlice(list.as_ptr(), 0, ffi::Py_ssize_t::MAX);
        Bound::from_owned_ptr_or_err(list.py(), copy).map(|copy| copy.cast_into_unchecked())
    }
}

/// The value of a key; none where there is no such key.
#[inline]
pub fn get_item<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: a live dictionary and key; the result is borrowed from the dictionary, and a
    // reference of our own is taken before anything else runs.
    let found = unsafe {
        let found = ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr());
        Bound::from_borrowed_ptr_or_opt(dict.py(), found)
    };
    match found {
        Some(found) => Ok(Some(found)),
        // Most keys that are asked for are not there, and to take an exception costs more than to ask for one.
        // SAFETY: the caller is attached, as `dict` shows.
        None if unsafe { ffi::PyErr_Occurred().is_null() } => Ok(None),
        None => Err(PyErr::fetch(dict.py())),
    }
}
