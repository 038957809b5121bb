//! Builtin functions over an object of ours: what an application calls for each request.
//!
//! `#[pymethods]` would pay for a bound method and an argument tuple at each call; a builtin
//! with the vectorcall protocol is what the interpreter calls fastest.

use std::marker::PhantomData;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{Borrowed, PyClass, ffi};

/// What an owner's function gives back.
pub type CallResult = PyResult<Py<PyAny>>;

/// A class of ours that stands behind `start_response`.
pub trait Starts: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync {
    /// `start_response(status, headers, exc_info=None)`: arguments in this order, absent ones
    /// left out.
    fn start_response(this: &Bound<'_, Self>, arguments: &[Option<Borrowed<'_, '_, PyAny>>; 3])
    -> CallResult;
}

/// A class of ours that stands behind `write`.
pub trait Writes: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync {
    /// `write(data)`.
    fn write(this: &Bound<'_, Self>, data: Borrowed<'_, '_, PyAny>) -> CallResult;
}

/// The definitions that CPython keeps pointers to, for one class.
struct Definition<O>(PhantomData<O>);

impl<O: Starts> Definition<O> {
    const START: &'static ffi::PyMethodDef = &ffi::PyMethodDef {
        ml_name: c"start_response".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: start_response::<O> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: c"start_response(status, response_headers, exc_info=None) -> write  (PEP 3333)".as_ptr(),
    };
}

impl<O: Writes> Definition<O> {
    const WRITE: &'static ffi::PyMethodDef = &ffi::PyMethodDef {
        ml_name: c"write".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: write::<O> },
        ml_flags: ffi::METH_O,
        ml_doc: c"write(data) sends part of the response body at once  (PEP 3333)".as_ptr(),
    };
}

/// The function `start_response` over `owner`.
pub fn start_function<O: Starts>(owner: &Bound<'_, O>) -> PyResult<Py<PyAny>> {
    function(owner.as_any(), Definition::<O>::START)
}

/// The function `write` over `owner`.
pub fn write_function<O: Writes>(owner: &Bound<'_, O>) -> PyResult<Py<PyAny>> {
    function(owner.as_any(), Definition::<O>::WRITE)
}

pub(super) fn function(
    owner: &Bound<'_, PyAny>,
    definition: &'static ffi::PyMethodDef,
) -> PyResult<Py<PyAny>> {
    // SAFETY: the definition is a constant of the program, which CPython only reads; `owner`
    // is a live object, to which the function takes a reference of its own; no module.
    unsafe {
        let definition = std::ptr::from_ref(definition).cast_mut();
        let made = ffi::PyCFunction_NewEx(definition, owner.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(owner.py(), made).map(Bound::unbind)
    }
}

/// Runs `work` for C: an exception becomes null, and a panic becomes an exception.
pub(super) fn guarded(py: Python<'_>, work: impl FnOnce() -> CallResult) -> *mut ffi::PyObject {
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    match tried {
        Ok(Ok(object)) => object.into_ptr(),
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(_) => {
            pyo3::exceptions::PySystemError::new_err("the server failed; please report this").restore(py);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn start_response<O: Starts>(
    owner: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with the interpreter held, with the object that the function was
    // made over, which is an `O`, and with as many arguments as it says.
    let (py, owner, given) = unsafe {
        let py = Python::assume_attached();
        let owner = Bound::from_borrowed_ptr(py, owner).cast_into_unchecked::<O>();
        (py, owner, std::slice::from_raw_parts(arguments, count as usize + keyword_count(names)))
    };
    guarded(py, || {
        let mut sorted: [Option<Borrowed<'_, '_, PyAny>>; 3] = [None; 3];
        for (index, &argument) in given.iter().enumerate() {
            let place =
                if index < count as usize { index } else { place_of(py, names, index - count as usize)? };
            // SAFETY: the caller keeps its arguments alive for the call.
            let argument = unsafe { Borrowed::from_ptr(py, argument) };
            match sorted.get_mut(place) {
                Some(free @ None) => *free = Some(argument),
                _ => return Err(wrong_arguments()),
            }
        }
        O::start_response(&owner, &sorted)
    })
}

fn wrong_arguments() -> PyErr {
    pyo3::exceptions::PyTypeError::new_err(
        "start_response takes (status, response_headers, exc_info=None), see PEP 3333",
    )
}

fn keyword_count(names: *mut ffi::PyObject) -> usize {
    if names.is_null() {
        return 0;
    }
    // SAFETY: not null, and then it is a tuple by the calling convention.
    unsafe { ffi::PyTuple_Size(names) as usize }
}

/// Which argument a keyword names.
fn place_of(py: Python<'_>, names: *mut ffi::PyObject, index: usize) -> PyResult<usize> {
    // SAFETY: as in `keyword_count`; keywords exist, so it is not null.
    let names = unsafe { Bound::from_borrowed_ptr(py, names).cast_into_unchecked::<PyTuple>() };
    match names.get_item(index)?.extract::<&str>()? {
        "status" => Ok(0),
        "response_headers" | "headers" => Ok(1),
        "exc_info" => Ok(2),
        _ => Err(wrong_arguments()),
    }
}

unsafe extern "C" fn write<O: Writes>(
    owner: *mut ffi::PyObject,
    data: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as in `start_response`; METH_O gives exactly one argument.
    let (py, owner, data) = unsafe {
        let py = Python::assume_attached();
        let owner = Bound::from_borrowed_ptr(py, owner).cast_into_unchecked::<O>();
        (py, owner, Borrowed::from_ptr(py, data))
    };
    guarded(py, || O::write(&owner, data))
}
