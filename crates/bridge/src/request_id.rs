//! By what a request is known, as applications see it: its own name, and its trace's.
//!
//! Knows: where WSGI and ASGI have headers and keys of ours. Does not know: where a name comes from
//! (`server/request_id.rs`, `server/tracing.rs`). Runs attached, where a request's `environ` or `scope` is made.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use server::engine::Config;
use server::exchange::Exchange;
use server::request_id::{RequestId, RequestIds};
use wire::Block;

use crate::ffi::{ascii, latin1, set_item};

/// The header that says which trace a request is part of, as ASGI has it.
const TRACE_PARENT: &[u8] = b"traceparent";
/// And what others say of that trace.
const TRACE_STATE: &[u8] = b"tracestate";

/// What an application's requests are named by: that header, as `environ` and `scope` have it.
pub struct Names {
    variable: Py<PyString>,
    header: Py<PyBytes>,
    trace_parent: Py<PyBytes>,
}

impl Names {
    pub fn new(py: Python<'_>, config: &Config) -> Self {
        let (variable, header) =
            config.request_id.as_ref().map_or(("", ""), |ids| (&ids.variable, &ids.name));
        Self {
            variable: PyString::intern(py, variable).unbind(),
            header: PyBytes::new(py, header.as_bytes()).unbind(),
            trace_parent: PyBytes::new(py, TRACE_PARENT).unbind(),
        }
    }

    /// Into `environ`: the headers, whatever the client has sent, and `forehand.request_id`.
    #[inline]
    pub fn introduce(
        &self,
        environ: &Bound<'_, PyDict>,
        exchange: &Exchange,
        config: &Config,
    ) -> PyResult<()> {
        let py = environ.py();
        if let Some(id) = exchange.id(config) {
            let id = text(py, &id)?;
            set_item(environ, self.variable.bind(py), &id)?;
            set_item(environ, intern!(py, "forehand.request_id"), &id)?;
        }
        if let Some(told) = exchange.told(config) {
            let told = ascii(py, &told.text())?;
            set_item(environ, intern!(py, "HTTP_TRACEPARENT"), &told)?;
            let state = intern!(py, "HTTP_TRACESTATE");
            if exchange.leaves_trace_state() && environ.contains(state)? {
                environ.del_item(state)?;
            }
        }
        Ok(())
    }

    /// Into `scope`: the same headers among the others, and `scope["forehand"]["request_id"]`.
    pub fn introduce_to_scope(
        &self,
        scope: &Bound<'_, PyDict>,
        exchange: &Exchange,
        config: &Config,
    ) -> PyResult<()> {
        let py = scope.py();
        // This request's own.
        let headers = scope.as_any().get_item(intern!(py, "headers"))?;
        let headers = headers.cast::<PyList>()?;
        let block = &exchange.head.block;
        if let (Some(id), Some(ids)) = (exchange.id(config), &config.request_id) {
            let ours = PyDict::new(py);
            set_item(&ours, intern!(py, "request_id"), &text(py, &id)?)?;
            set_item(scope, intern!(py, "forehand"), &ours)?;
            if ids.is_in(block) {
                remove(headers, ids.name.as_bytes())?;
            }
            append(headers, self.header.bind(py), id.as_bytes())?;
        }
        if let Some(told) = exchange.told(config) {
            let told = told.text();
            if block.has_trace_parent() {
                remove(headers, TRACE_PARENT)?;
            }
            append(headers, self.trace_parent.bind(py), &told)?;
            if exchange.leaves_trace_state() {
                remove(headers, TRACE_STATE)?;
            }
        }
        Ok(())
    }
}

#[inline]
fn text<'py>(py: Python<'py>, id: &RequestId<'_>) -> PyResult<Bound<'py, PyString>> {
    match id {
        RequestId::Own(digits) => ascii(py, digits),
        RequestId::Given(word) => latin1(py, word.as_bytes()),
    }
}

/// Keys of `environ` that [`Names::introduce`] sets for each request.
pub struct OwnKeys {
    always: Vec<Py<PyString>>,
    /// The trace of each request that has come without one is told, too.
    traces_all: bool,
}

impl OwnKeys {
    pub fn new(py: Python<'_>, config: &Config) -> Self {
        let ours = || intern!(py, "forehand.request_id").clone().unbind();
        let named = |ids: &RequestIds| vec![PyString::intern(py, &ids.variable).unbind(), ours()];
        Self {
            always: config.request_id.as_ref().map_or_else(Vec::new, named),
            traces_all: config.tracing.as_ref().is_some_and(|tracing| tracing.takes_all()),
        }
    }

    /// Puts them into what requests with the same header block have in common, so that a copy never has to grow for them.
    /// They are those objects that are looked for later, so that none is compared by its letters.
    pub fn make_room(&self, environ: &Bound<'_, PyDict>, block: &Block) -> PyResult<()> {
        let py = environ.py();
        for key in &self.always {
            set_item(environ, key.bind(py), intern!(py, ""))?;
        }
        if self.traces_all && !block.has_trace_parent() {
            set_item(environ, intern!(py, "HTTP_TRACEPARENT"), intern!(py, ""))?;
        }
        Ok(())
    }
}

/// Takes out what the client has sent under a name.
fn remove(headers: &Bound<'_, PyList>, name: &[u8]) -> PyResult<()> {
    for at in (0..headers.len()).rev() {
        let known = headers.get_item(at)?.get_item(0)?;
        if known.cast::<PyBytes>()?.as_bytes() == name {
            headers.del_item(at)?;
        }
    }
    Ok(())
}

fn append(headers: &Bound<'_, PyList>, name: &Bound<'_, PyBytes>, value: &[u8]) -> PyResult<()> {
    let py = headers.py();
    headers.append(PyTuple::new(py, [name, &PyBytes::new(py, value)])?)
}
