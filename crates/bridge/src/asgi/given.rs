//! What a web server has said of a request, as keys of `scope`.
//!
//! Knows: which of its variables have a place there; all that HTTP has no word for is the extension `forehand.gateway`.
//! Does not know: how they were framed, or who may send them. Runs on the event loop's thread.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::Head;
use wire::gateway::Given;

use crate::ffi::{copy_dict, latin1, set_item};

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

/// What hangs on a request for those that are the same but for their client: keys of its scope, and what HTTP has no
/// word for.
pub struct Template {
    pub dict: Py<PyDict>,
    told: Py<PyDict>,
}

/// The template that hangs on a request, if there is one.
#[inline]
pub fn template_of(given: &Given) -> Option<&Template> {
    given.attachment().get()?.downcast_ref()
}

/// Leaves a template behind: `dict` has what the request line and the web server say.
///
/// # Errors
/// Python's (memory).
pub fn remember(dict: &Bound<'_, PyDict>, given: &Given) -> PyResult<()> {
    let template = Template { dict: copy_dict(dict)?.unbind(), told: told(dict.py(), given)?.unbind() };
    let _ = given.attachment().set(Box::new(template));
    Ok(())
}

/// The extension `forehand.gateway`, among those that the scope has.
///
/// # Errors
/// Python's (memory).
pub fn extend(extensions: &Bound<'_, PyDict>, given: &Given) -> PyResult<()> {
    let py = extensions.py();
    let told = match template_of(given) {
        Some(template) => copy_dict(template.told.bind(py))?,
        None => told(py, given)?,
    };
    set_item(extensions, intern!(py, "forehand.gateway"), &told)
}

fn told<'py>(py: Python<'py>, given: &Given) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    for (name, value) in given.variables().filter(|(name, _)| !OWN.contains(name)) {
        set_item(&told, &latin1(py, name)?, &latin1(py, value)?)?;
    }
    Ok(told)
}

/// Sets those that have keys of their own. `root`: where the application is, if the server was told.
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
    Ok(())
}
