//! Contexts (PEP 567): the values of context variables, of which each task has a copy.
//!
//! Knows: how one is copied, and that something runs in it. Does not know: variables.

use pyo3::prelude::*;
use pyo3::{PyErr, ffi};

/// A context of its own.
pub struct Context(Py<PyAny>);

/// The context that is left again when this is dropped, also by a panic.
struct Inside<'a, 'py>(&'a Bound<'py, PyAny>);

impl Drop for Inside<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: the context was entered by this thread, which leaves it once; it fails for no other reason.
        if unsafe { ffi::PyContext_Exit(self.0.as_ptr()) } != 0 {
            PyErr::fetch(self.0.py()).print(self.0.py());
        }
    }
}

impl Context {
    /// A copy of the calling thread's.
    ///
    /// # Errors
    /// Memory has run out.
    pub fn of_caller(py: Python<'_>) -> PyResult<Self> {
        // SAFETY: the caller is attached; the result is a new context, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()) }.map(|it| Self(it.unbind()))
    }

    /// A copy.
    ///
    /// # Errors
    /// As [`Context::of_caller`].
    pub fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        // SAFETY: a live context; the result as above.
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_Copy(self.0.as_ptr())) }
            .map(|it| Self(it.unbind()))
    }

    /// Runs something in it.
    ///
    /// # Errors
    /// It runs in this one already, on whatever thread; then nothing is run.
    #[inline]
    pub fn run<R>(&self, py: Python<'_>, work: impl FnOnce() -> R) -> PyResult<R> {
        let context = self.0.bind(py);
        // SAFETY: a live context, and the caller is attached.
        if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        let _inside = Inside(context);
        Ok(work())
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }
}
