//! By what a request is known, as applications see it: its own name, and its trace's.
//!
//! Knows: where WSGI and ASGI have headers and keys of ours. Does not know: where a name comes from
//! (`server/request_id.rs`, `server/tracing.rs`). Runs attached, where a request's `environ` or `scope` is made.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::engine::Engine;
use server::exchange::Exchange;

use crate::ffi::{latin1, set_item};

/// The header that says which trace a request is part of, as ASGI has it.
const TRACE_PARENT: &str = "traceparent";

/// What an application's requests are named by: the key of that header, as `environ` has it.
pub struct Names {
    variable: PyOnceLock<Py<PyString>>,
}

impl Names {
    pub fn new() -> Self {
        Self { variable: PyOnceLock::new() }
    }

    /// Into `environ`: the headers, whatever the client has sent, and `forehand.request_id`.
    #[cold]
    pub fn introduce(
        &self,
        environ: &Bound<'_, PyDict>,
        exchange: &Exchange,
        engine: &Engine,
    ) -> PyResult<()> {
        let py = environ.py();
        if let (Some(id), Some(ids)) = (exchange.id(), &engine.config.request_id) {
            let variable = self.variable.get_or_init(py, || PyString::intern(py, &ids.variable).unbind());
            let id = latin1(py, id.as_bytes())?;
            set_item(environ, variable.bind(py), &id)?;
            set_item(environ, intern!(py, "forehand.request_id"), &id)?;
        }
        if let Some(trace) = exchange.trace() {
            let told = latin1(py, &trace.told().text())?;
            set_item(environ, intern!(py, "HTTP_TRACEPARENT"), &told)?;
        }
        Ok(())
    }
}

/// Keys of `environ` that each request of this engine has, in their places from the start, so that a copy never has to
/// grow for them.
pub fn make_room(base: &Bound<'_, PyDict>, variable: Option<&str>) -> PyResult<()> {
    if let Some(variable) = variable {
        base.set_item(variable, "")?;
        base.set_item("forehand.request_id", "")?;
    }
    Ok(())
}

/// Into `scope`: the same headers among the others, and `scope["forehand"]["request_id"]`.
#[cold]
pub fn into_scope(scope: &Bound<'_, PyDict>, exchange: &Exchange, engine: &Engine) -> PyResult<()> {
    let py = scope.py();
    // This request's own.
    let headers = scope.as_any().get_item(intern!(py, "headers"))?;
    let headers = headers.cast::<PyList>()?;
    if let (Some(id), Some(ids)) = (exchange.id(), &engine.config.request_id) {
        replace(headers, &ids.name, id.as_bytes(), exchange.head.block.get(&ids.name).is_some())?;
        let ours = PyDict::new(py);
        set_item(&ours, intern!(py, "request_id"), &latin1(py, id.as_bytes())?)?;
        set_item(scope, intern!(py, "forehand"), &ours)?;
    }
    if let Some(trace) = exchange.trace() {
        replace(headers, TRACE_PARENT, &trace.told().text(), exchange.head.block.has_trace_parent())?;
    }
    Ok(())
}

/// Puts a header in the place of those that the client has sent, if it has.
fn replace(headers: &Bound<'_, PyList>, name: &str, value: &[u8], given: bool) -> PyResult<()> {
    let py = headers.py();
    if given {
        for at in (0..headers.len()).rev() {
            let known = headers.get_item(at)?.get_item(0)?;
            if known.cast::<PyBytes>()?.as_bytes() == name.as_bytes() {
                headers.del_item(at)?;
            }
        }
    }
    headers.append(PyTuple::new(py, [PyBytes::new(py, name.as_bytes()), PyBytes::new(py, value)])?)
}
