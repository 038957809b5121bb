//! The name of a request, as applications see it.
//!
//! Knows: where WSGI and ASGI have headers and keys of ours. Does not know: where a name comes from
//! (`server/request_id.rs`). Runs attached, where a request's `environ` or `scope` is made.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use server::engine::Engine;
use server::exchange::Exchange;

/// Into `environ`: the header, whatever the client has sent, and `forehand.request_id`.
#[cold]
pub fn into_environ(environ: &Bound<'_, PyDict>, exchange: &Exchange, engine: &Engine) -> PyResult<()> {
    if let (Some(id), Some(ids)) = (exchange.id(), &engine.config.request_id) {
        environ.set_item(&ids.variable, id)?;
        environ.set_item(intern!(environ.py(), "forehand.request_id"), id)?;
    }
    Ok(())
}

/// Into `scope`: the same header among the others, and `scope["forehand"]["request_id"]`.
#[cold]
pub fn into_scope(scope: &Bound<'_, PyDict>, exchange: &Exchange, engine: &Engine) -> PyResult<()> {
    let py = scope.py();
    if let (Some(id), Some(ids)) = (exchange.id(), &engine.config.request_id) {
        let headers = PyList::empty(py);
        for header in scope.as_any().get_item(intern!(py, "headers"))?.try_iter()? {
            let header = header?;
            if header.get_item(0)?.cast::<PyBytes>()?.as_bytes() != ids.name.as_bytes() {
                headers.append(header)?;
            }
        }
        let own = [PyBytes::new(py, ids.name.as_bytes()), PyBytes::new(py, id.as_bytes())];
        headers.append(PyTuple::new(py, own)?)?;
        scope.set_item(intern!(py, "headers"), headers)?;
        let ours = PyDict::new(py);
        ours.set_item(intern!(py, "request_id"), id)?;
        scope.set_item(intern!(py, "forehand"), ours)?;
    }
    Ok(())
}
