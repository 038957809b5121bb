//! What a web server has said of a request, as keys of `environ`.
//!
//! Knows: which of its variables become keys, and which the server has its own word for. Does not know: how they were
//! framed, or who may send them. Runs on the thread that calls the application, for requests that came so.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::gateway::Given;
use wire::{Head, Peer};

use crate::ffi::{latin1, set_item};

/// Names that are set otherwise: the paths together, the client's address as every peer's is.
const OWN: [&[u8]; 5] = [b"SCRIPT_NAME", b"PATH_INFO", b"REMOTE_ADDR", b"REMOTE_PORT", b"RAW_URI"];

/// The string of a name that nginx's and Apache's own configurations send with each request: nothing is made or hashed
/// again.
fn usual<'py>(py: Python<'py>, name: &[u8]) -> Option<&'py Bound<'py, PyString>> {
    Some(match name {
        b"QUERY_STRING" => intern!(py, "QUERY_STRING"),
        b"DOCUMENT_URI" => intern!(py, "DOCUMENT_URI"),
        b"DOCUMENT_ROOT" => intern!(py, "DOCUMENT_ROOT"),
        b"REQUEST_SCHEME" => intern!(py, "REQUEST_SCHEME"),
        b"SERVER_PROTOCOL" => intern!(py, "SERVER_PROTOCOL"),
        b"SERVER_NAME" => intern!(py, "SERVER_NAME"),
        b"SERVER_PORT" => intern!(py, "SERVER_PORT"),
        b"SERVER_ADDR" => intern!(py, "SERVER_ADDR"),
        b"SERVER_SOFTWARE" => intern!(py, "SERVER_SOFTWARE"),
        b"GATEWAY_INTERFACE" => intern!(py, "GATEWAY_INTERFACE"),
        _ => return None,
    })
}

/// Sets them. `prefix`: where the application is, if the server was told.
///
/// # Errors
/// Python's (memory).
pub fn introduce(environ: &Bound<'_, PyDict>, given: &Given, head: &Head, prefix: &[u8]) -> PyResult<()> {
    let py = environ.py();
    let set = |key: &Bound<'_, PyString>, value: &[u8]| set_item(environ, key, &latin1(py, value)?);
    for (name, value) in given.variables() {
        // An empty name or port of the server would be none (PEP 3333), and an empty user would be one (RFC 3875 §4.1.11).
        let empty = value.is_empty() && (name.starts_with(b"SERVER_") || name == b"REMOTE_USER");
        if !empty && !OWN.contains(&name) {
            match usual(py, name) {
                Some(key) => set(key, value)?,
                None => set(&latin1(py, name)?, value)?,
            }
        }
    }
    let paths = given.paths(prefix, head.path());
    set(intern!(py, "SCRIPT_NAME"), &paths.script_name)?;
    set(intern!(py, "PATH_INFO"), &paths.path_info)?;
    if given.is_https() {
        set(intern!(py, "wsgi.url_scheme"), b"https")?;
    }
    Ok(())
}

/// The port of a client whose web server does not tell it.
///
/// # Errors
/// Python's (memory).
#[inline]
pub fn introduce_client(environ: &Bound<'_, PyDict>, given: &Given) -> PyResult<()> {
    let py = environ.py();
    match given.peer() {
        Some(Peer::Ip(_, 0)) => set_item(environ, intern!(py, "REMOTE_PORT"), intern!(py, "")),
        _ => Ok(()),
    }
}
