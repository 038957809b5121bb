//! The keys of `environ` that no request changes.
//!
//! Knows: PEP 3333, "environ Variables"; RFC 3875 §4.1. Does not know: requests. Runs on the thread that makes a server.

use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::early_hints::EarlyHints;
use super::environ::Gateway;
use super::file_wrapper::FileWrapper;
use super::input::Input;
use super::wait_mode::WaitMode;
use crate::request_id::OwnKeys;
use crate::settings::{Listeners, Settings, within_tls};
use crate::url::name_and_port;

/// What stands at each listener.
pub fn gateways(py: Python<'_>, listeners: &Listeners, settings: &Settings) -> PyResult<Vec<Gateway>> {
    let gateway = |(_, url, kind): &(RawFd, String, String)| {
        let trust = settings.config.trust.clone();
        Ok(Gateway::new(
            base(py, (url, kind), settings)?,
            OwnKeys::new(py, &settings.config),
            &settings.script_name,
            trust,
            &settings.config.limits,
        ))
    };
    listeners.iter().map(gateway).collect()
}

/// Sets a key to the object of that name that all code has in common, so that nobody who looks for it compares letters.
fn set<'py>(base: &Bound<'py, PyDict>, key: &str, value: impl IntoPyObject<'py>) -> PyResult<()> {
    base.set_item(PyString::intern(base.py(), key), value)
}

/// The keys of `environ` that no request changes (PEP 3333; RFC 3875 §4.1).
fn base<'py>(
    py: Python<'py>,
    (url, kind): (&str, &str),
    settings: &Settings,
) -> PyResult<Bound<'py, PyDict>> {
    let base = PyDict::new(py);
    // Each request sets these: who comes first is found soonest.
    set(&base, "REMOTE_PORT", "")?;
    // For clients that read nothing before a reply; others have one of their own.
    set(&base, "wsgi.early_hints", Bound::new(py, EarlyHints::for_nobody())?)?;
    let scheme = settings.scheme_of(kind);
    let (name, port) = name_and_port(url);
    let stderr = py.import(intern!(py, "sys"))?.getattr(intern!(py, "stderr"))?;
    set(&base, "wsgi.version", (1, 0))?;
    set(&base, "wsgi.url_scheme", scheme)?;
    if within_tls(kind) {
        // As CGI has it from web servers that speak TLS themselves.
        set(&base, "HTTPS", "on")?;
    }
    set(&base, "wsgi.errors", stderr)?;
    set(&base, "wsgi.multithread", settings.threads > 1)?;
    set(&base, "wsgi.multiprocess", settings.multiprocess)?;
    set(&base, "wsgi.run_once", false)?;
    set(&base, "wsgi.input_terminated", true)?;
    set(&base, "wsgi.file_wrapper", py.get_type::<FileWrapper>())?;
    // A request without a body shares this one: there is nothing in it to be changed.
    set(
        &base,
        "wsgi.input",
        Bound::new(py, Input::new(server::body::Body::Empty, (0, &WaitMode::Blocking)))?,
    )?;
    set(&base, "SERVER_SOFTWARE", concat!("Forehand/", env!("CARGO_PKG_VERSION")))?;
    set(&base, "GATEWAY_INTERFACE", "CGI/1.1")?;
    set(&base, "SERVER_NAME", name)?;
    set(&base, "SERVER_PORT", port)?;
    set(&base, "SCRIPT_NAME", &settings.script_name)?;
    for key in ["REMOTE_ADDR", "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING"] {
        // In their places from the start, so that a copy never has to grow for them.
        set(&base, key, "")?;
    }
    Ok(base)
}
