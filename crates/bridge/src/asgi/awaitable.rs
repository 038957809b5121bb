//! The coroutine protocol (PEP 492), as our awaitables speak it.
//!
//! Knows: how one ends, and what is thrown into it. Does not know: events. `asyncio.create_task(receive())` works,
//! because each is a coroutine to those who ask.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

/// What has happened already: `await` of it gives None at once. One serves all.
#[pyclass(frozen, module = "forehand._core")]
pub struct Done;

#[pymethods]
impl Done {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }

    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(stopped(None))
    }

    #[pyo3(signature = (kind, value = None, _trace = None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        Err(thrown(kind, value))
    }

    fn close(&self) {}
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// The next event.
    Event,
    /// That the peer has taken most of what waits for it.
    Room,
}

/// What an attempt came to.
pub enum Attempt {
    Ready(Py<PyAny>),
    Wait,
}

/// The end of an awaitable, with its result.
pub fn stopped(result: Option<Py<PyAny>>) -> PyErr {
    match result {
        Some(result) => PyStopIteration::new_err((result,)),
        None => PyStopIteration::new_err(()),
    }
}

/// The exception that `throw` was given, in either of its forms.
pub fn thrown(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyErr {
    match value {
        Some(value) if !value.is_none() => PyErr::from_value(value.clone()),
        _ => PyErr::from_value(kind.clone()),
    }
}
