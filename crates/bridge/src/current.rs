//! `forehand.request()`: the request that the caller works on, as far as the worker knows it already.
//!
//! Knows: how what is known is shown, and how requests are carried where that is asked for. Does not know: which request
//! the caller works on: of a thread `wsgi/asked.rs` knows it, of a task the task itself, of a greenlet `hub/server.rs`. Runs
//! where it is asked; who does not ask pays nothing.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use server::engine::Config;
use server::exchange::SoFar;
use server::statistics::phase::{NAMES, NOT_MEASURED, Phase};

/// A request, as it was when somebody has asked.
#[pyclass(frozen, get_all, module = "forehand._core")]
pub struct CurrentRequest {
    /// What names it (`--request-id`).
    id: Option<Py<PyString>>,
    /// Which trace records it (`--trace-endpoint`), and as which span.
    trace_id: Option<Py<PyString>>,
    span_id: Option<Py<PyString>>,
    /// Seconds until it is overdue (`--request-timeout`).
    deadline: Option<f64>,
    /// `GET /orders/{number}`
    route: Option<Py<PyString>>,
    /// Seconds, by the phases' names.
    phases: Py<PyDict>,
}

impl CurrentRequest {
    /// `told`: asks the framework for the route, if it has said one.
    pub fn new(
        py: Python<'_>,
        found: &SoFar,
        config: &Config,
        told: impl FnOnce() -> Option<Box<str>>,
    ) -> PyResult<Self> {
        let text = |text: &str| PyString::new(py, text).unbind();
        let told = if found.wants_route(config) { told() } else { None };
        let phases = PyDict::new(py);
        if let Some(spans) = &found.spans {
            for (name, ns) in NAMES.iter().zip(spans).take(Phase::Total as usize) {
                let is_there = !matches!(*name, "upstream" | "send") || *ns > 0;
                if *ns != NOT_MEASURED && is_there {
                    phases.set_item(name, *ns as f64 / 1e9)?;
                }
            }
        }
        Ok(Self {
            id: found.id().map(text),
            trace_id: found.trace().map(|(trace, _)| text(&format!("{trace:032x}"))),
            span_id: found.trace().map(|(_, span)| text(&format!("{span:016x}"))),
            deadline: found.left,
            route: found.route(config, told.as_deref()).as_deref().map(text),
            phases: phases.unbind(),
        })
    }
}

#[pymethods]
impl CurrentRequest {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |it: &Option<Py<PyString>>| match it {
            Some(text) => Ok(text.bind(py).repr()?.to_string()),
            None => Ok::<_, PyErr>("None".to_string()),
        };
        Ok(format!("<request {} of {}>", shown(&self.id)?, shown(&self.route)?))
    }
}

/// The context variable in which each task's request stands, once somebody wants that.
static CARRIED_IN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// From now on each request of an event loop stands in that variable while its task runs, and so in the tasks that it
/// starts, and in threads that are given its context.
pub fn carry_in(py: Python<'_>, variable: Py<PyAny>) {
    let _ = CARRIED_IN.set(py, variable);
}

/// The first step of a request's task begins, in the task's own context.
#[inline]
pub fn begins(request: &Bound<'_, PyAny>) {
    if let Some(variable) = CARRIED_IN.get(request.py()) {
        carry(request, variable);
    }
}

#[cold]
fn carry(request: &Bound<'_, PyAny>, variable: &Py<PyAny>) {
    let py = request.py();
    if let Err(error) = variable.bind(py).call_method1(intern!(py, "set"), (request,)) {
        // Memory has run out: it is known in its own task alone.
        error.print(py);
    }
}
