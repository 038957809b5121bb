//! Awaitables that complete without suspending when they can.
//!
//! Knows: the coroutine protocol (PEP 492), and asyncio's futures where one has to wait. Does
//! not know: events. `asyncio.create_task(receive())` works, because each is a coroutine to
//! those who ask.

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;

use super::request::Request;
use crate::ffi::{Awaited, GilCell, Step, Stepped, step};

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
pub enum For {
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

/// Something that may have to wait: tries when it is awaited, and again whenever its
/// connection has moved.
#[pyclass(frozen, module = "forehand._core")]
pub struct Waiting {
    request: Py<Request>,
    what: For,
    /// The iterator over the future that it waits for now.
    inner: GilCell<Option<Py<PyAny>>>,
}

impl Waiting {
    pub fn new(request: Py<Request>, what: For) -> Self {
        Self { request, what, inner: GilCell::new(None) }
    }

    fn advance<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        loop {
            let inner = self.inner.borrow(py).and_then(|mut inner| inner.take());
            if let Some(inner) = inner {
                let inner = inner.into_bound(py);
                if let Stepped::Yielded(again) = step(&inner, value)? {
                    self.keep(py, inner);
                    return Ok(Step::Yielded(again.unbind()));
                }
            }
            let request = self.request.bind(py);
            match Request::attempt(request, self.what)? {
                Attempt::Ready(result) => return Ok(Step::Returned(result)),
                Attempt::Wait => {
                    let future = Request::wait_for(request, self.what)?;
                    self.keep(py, future.call_method0(intern!(py, "__await__"))?);
                }
            }
        }
    }

    fn keep(&self, py: Python<'_>, inner: Bound<'_, PyAny>) {
        if let Some(mut place) = self.inner.borrow(py) {
            *place = Some(inner.unbind());
        }
    }
}

impl Awaited for Waiting {
    fn step(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Step> {
        this.get().advance(this.py(), value)
    }
}

#[pymethods]
impl Waiting {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.send(py, &py.None().into_bound(py))
    }

    fn send(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match self.advance(py, value)? {
            Step::Yielded(waits) => Ok(waits),
            Step::Returned(result) => Err(stopped(Some(result))),
        }
    }

    #[pyo3(signature = (kind, value = None, _trace = None))]
    fn throw(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.close(py);
        Err(thrown(kind, value))
    }

    fn close(&self, py: Python<'_>) {
        let inner = self.inner.borrow(py).and_then(|mut inner| inner.take());
        drop(inner);
    }
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
