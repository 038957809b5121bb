//! The keys of `environ` that no request changes.
//!
//! Knows: PEP 3333, "environ Variables"; RFC 3875 §4.1. Does not know: requests. Runs on the thread that makes a server.

use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::environ::Gateway;
use super::file_wrapper::FileWrapper;
use super::input::Input;
use super::wait_mode::WaitMode;
use crate::request_id;
use crate::settings::{Listeners, Settings, within_tls};
use crate::url::name_and_port;

/// What stands at each listener.
pub fn gateways(py: Python<'_>, listeners: &Listeners, settings: &Settings) -> PyResult<Vec<Gateway>> {
    let gateway = |(_, url, kind): &(RawFd, String, String)| {
        let trust = settings.config.trust.clone();
        Ok(Gateway::new(
            base(py, (url, kind), settings)?,
            &settings.script_name,
            trust,
            &settings.config.limits,
        ))
    };
    listeners.iter().map(gateway).collect()
}

/// The keys of `environ` that no request changes (PEP 3333; RFC 3875 §4.1).
fn base<'py>(
    py: Python<'py>,
    (url, kind): (&str, &str),
    settings: &Settings,
) -> PyResult<Bound<'py, PyDict>> {
    let base = PyDict::new(py);
    let scheme = settings.scheme_of(kind);
    let (name, port) = name_and_port(url);
    let stderr = py.import(intern!(py, "sys"))?.getattr(intern!(py, "stderr"))?;
    base.set_item("wsgi.version", (1, 0))?;
    base.set_item("wsgi.url_scheme", scheme)?;
    if within_tls(kind) {
        // As CGI has it from web servers that speak TLS themselves.
        base.set_item("HTTPS", "on")?;
    }
    base.set_item("wsgi.errors", stderr)?;
    base.set_item("wsgi.multithread", settings.threads > 1)?;
    base.set_item("wsgi.multiprocess", settings.multiprocess)?;
    base.set_item("wsgi.run_once", false)?;
    base.set_item("wsgi.input_terminated", true)?;
    base.set_item("wsgi.file_wrapper", py.get_type::<FileWrapper>())?;
    // A request without a body shares this one: there is nothing in it to be changed.
    base.set_item(
        "wsgi.input",
        Bound::new(py, Input::new(server::body::Body::Empty, (0, &WaitMode::Blocking)))?,
    )?;
    base.set_item("SERVER_SOFTWARE", concat!("Forehand/", env!("CARGO_PKG_VERSION")))?;
    base.set_item("GATEWAY_INTERFACE", "CGI/1.1")?;
    base.set_item("SERVER_NAME", name)?;
    base.set_item("SERVER_PORT", port)?;
    base.set_item("SCRIPT_NAME", &settings.script_name)?;
    for key in ["REMOTE_ADDR", "REMOTE_PORT", "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING"] {
        // In their places from the start, so that a copy never has to grow for them.
        base.set_item(key, "")?;
    }
    let named = settings.config.request_id.as_ref();
    request_id::make_room(&base, named.map(|ids| ids.variable.as_str()))?;
    Ok(base)
}
