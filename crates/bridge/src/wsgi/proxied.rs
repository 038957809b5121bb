//! What a PROXY header has told, as keys of `environ`.
//!
//! Knows: the keys' names, of which those about TLS are mod_ssl's. Does not know: how the header was read, or who may
//! send one. Runs on the thread that calls the application, for connections that had such a header.

use std::net::SocketAddr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::proxy::{Proxied, ProxyTls};

use crate::ffi::{latin1, set_item};

/// The address that a load balancer's clients have connected to, as strings: it is the same one for most of them.
#[derive(Default)]
pub struct ServerStrings(Option<(SocketAddr, Py<PyString>, Py<PyString>)>);

impl ServerStrings {
    /// Sets `SERVER_NAME` and `SERVER_PORT`.
    fn set(&mut self, environ: &Bound<'_, PyDict>, server: SocketAddr) -> PyResult<()> {
        let py = environ.py();
        let made = || {
            let text = |text: String| PyString::new(py, &text).unbind();
            (server, text(server.ip().to_string()), text(server.port().to_string()))
        };
        let kept = self.0.take().filter(|(known, ..)| *known == server).unwrap_or_else(made);
        let (_, name, port) = self.0.insert(kept);
        set_item(environ, intern!(py, "SERVER_NAME"), name.bind(py))?;
        set_item(environ, intern!(py, "SERVER_PORT"), port.bind(py))
    }
}

/// Sets them. `tls`: what is said of the client's TLS is believed (`--proxy-protocol-tls`).
///
/// # Errors
/// Python's (memory).
pub fn introduce(
    environ: &Bound<'_, PyDict>,
    proxied: &Proxied,
    tls: bool,
    strings: &mut ServerStrings,
) -> PyResult<()> {
    let py = environ.py();
    let set = |key: &Bound<'_, PyString>, value: &[u8]| set_item(environ, key, &latin1(py, value)?);
    if let Some((_, server)) = &proxied.addresses {
        strings.set(environ, *server)?;
    }
    if let Some(id) = &proxied.unique_id {
        set(intern!(py, "forehand.unique_id"), id)?;
    }
    if let Some(name) = &proxied.authority {
        set(intern!(py, "forehand.proxy_authority"), name)?;
    }
    if let Some(endpoint) = &proxied.vpc_endpoint {
        set(intern!(py, "forehand.vpc_endpoint"), endpoint)?;
    }
    match &proxied.tls {
        Some(facts) if tls && proxied.was_encrypted() => introduce_tls(environ, facts),
        _ => Ok(()),
    }
}

fn introduce_tls(environ: &Bound<'_, PyDict>, tls: &ProxyTls) -> PyResult<()> {
    let py = environ.py();
    let set = |key: &Bound<'_, PyString>, value: &[u8]| set_item(environ, key, &latin1(py, value)?);
    set(intern!(py, "wsgi.url_scheme"), b"https")?;
    set(intern!(py, "HTTPS"), b"on")?;
    if let Some(version) = &tls.version {
        set(intern!(py, "SSL_PROTOCOL"), version)?;
    }
    if let Some(cipher) = &tls.cipher {
        set(intern!(py, "SSL_CIPHER"), cipher)?;
    }
    let verified = match (tls.has_certificate(), tls.verified) {
        (false, _) => &b"NONE"[..],
        (true, true) => b"SUCCESS",
        (true, false) => b"FAILED",
    };
    set(intern!(py, "SSL_CLIENT_VERIFY"), verified)?;
    match &tls.common_name {
        Some(name) => set(intern!(py, "SSL_CLIENT_S_DN_CN"), name),
        None => Ok(()),
    }
}
