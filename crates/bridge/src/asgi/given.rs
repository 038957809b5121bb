//! What a web server has said of a request, as keys of `scope`.
//!
//! Knows: which of its variables have a place there; all that HTTP has no word for is the extension `forehand.gateway`.
//! Does not know: how they were framed, or who may send them. Runs on the event loop's thread.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::Head;
use wire::gateway::Given;

use crate::ffi::{latin1, set_item};

/// Names that have a key of their own.
const OWN: [&[u8]; 12] = [
    b"SCRIPT_NAME",
    b"PATH_INFO",
    b"QUERY_STRING",
    b"REMOTE_ADDR",
    b"REMOTE_PORT",
    b"SERVER_NAME",
    b"SERVER_PORT",
    b"SERVER_PROTOCOL",
    b"HTTPS",
    b"REQUEST_SCHEME",
    b"DOCUMENT_URI",
    b"RAW_URI",
];

/// Sets them. `root`: where the application is, if the server was told.
///
/// # Errors
/// Python's (memory).
pub fn introduce(dict: &Bound<'_, PyDict>, given: &Given, head: &Head, root: &str) -> PyResult<()> {
    let py = dict.py();
    let paths = given.paths(root.as_bytes(), head.path());
    let script_name = String::from_utf8_lossy(&paths.script_name);
    let path = format!("{script_name}{}", String::from_utf8_lossy(&paths.path_info));
    set_item(dict, intern!(py, "path"), &PyString::new(py, &path))?;
    set_item(dict, intern!(py, "root_path"), &PyString::new(py, &script_name))?;
    let find = |wanted: &str| given.variables().find(|(name, _)| *name == wanted.as_bytes());
    if let Some((_, query)) = find("QUERY_STRING") {
        set_item(dict, intern!(py, "query_string"), &PyBytes::new(py, query))?;
    }
    if given.is_https() {
        set_item(dict, intern!(py, "scheme"), intern!(py, "https"))?;
    }
    if let Some(version) = given.get("SERVER_PROTOCOL").and_then(|protocol| protocol.strip_prefix(b"HTTP/")) {
        let version = version.strip_suffix(b".0").filter(|major| major != b"1").unwrap_or(version);
        set_item(dict, intern!(py, "http_version"), &latin1(py, version)?)?;
    }
    let port = given.get("SERVER_PORT").and_then(|port| std::str::from_utf8(port).ok()?.parse::<u16>().ok());
    if let (Some(name), Some(port)) = (given.get("SERVER_NAME"), port) {
        set_item(dict, intern!(py, "server"), &(latin1(py, name)?, port).into_pyobject(py)?)?;
    }
    let told = PyDict::new(py);
    for (name, value) in given.variables().filter(|(name, _)| !OWN.contains(name)) {
        set_item(&told, &latin1(py, name)?, &latin1(py, value)?)?;
    }
    match dict.get_item(intern!(py, "extensions"))? {
        Some(extensions) => extensions.set_item(intern!(py, "forehand.gateway"), told),
        None => Ok(()),
    }
}
