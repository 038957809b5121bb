//! What `receive` and `send` return: they complete without suspending when they can, and wait for asyncio's futures
//! where they cannot.
//!
//! Knows: that a request is asked again whenever its connection has moved. Does not know: events. Runs on the event
//! loop's thread.

use pyo3::intern;
use pyo3::prelude::*;

use super::awaitable::{Attempt, WaitFor, stopped, thrown};
use super::request::{Request, Sent};
use crate::ffi::{Awaited, CallResult, GilCell, ReceiveSend, Step, Stepped, step};

/// Something that may have to wait: tries when it is awaited, and again whenever its
/// connection has moved.
#[pyclass(frozen, module = "forehand._core")]
pub struct Waiting {
    request: Py<Request>,
    what: WaitFor,
    /// The iterator over the future that it waits for now.
    inner: GilCell<Option<Py<PyAny>>>,
}

impl Waiting {
    fn new(request: Py<Request>, what: WaitFor) -> Self {
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

impl ReceiveSend for Request {
    fn receive(this: &Bound<'_, Self>) -> CallResult {
        let waiting = Waiting::new(this.clone().unbind(), WaitFor::Event);
        Ok(Bound::new(this.py(), waiting)?.into_any().unbind())
    }

    fn send(this: &Bound<'_, Self>, event: &Bound<'_, PyAny>) -> CallResult {
        match Self::take(this, event)? {
            Sent::Taken => Ok(this.get().requests.shared.constants.done.clone_ref(this.py())),
            Sent::Waits => {
                let waiting = Waiting::new(this.clone().unbind(), WaitFor::Room);
                Ok(Bound::new(this.py(), waiting)?.into_any().unbind())
            }
        }
    }
}
