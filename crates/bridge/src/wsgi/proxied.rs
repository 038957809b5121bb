//! What a PROXY header has told, as keys of `environ`.
//!
//! Knows: the keys' names, of which those about TLS are mod_ssl's. Does not know: how the header was read, or who may
//! send one. Runs on the thread that calls the application, for connections that had such a header.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::proxy::{Proxied, ProxyTls};

use crate::ffi::{latin1, set_item};

/// Sets them. `tls`: what is said of the client's TLS is believed (`--proxy-protocol-tls`).
///
/// # Errors
/// Python's (memory).
pub fn introduce(environ: &Bound<'_, PyDict>, proxied: &Proxied, tls: bool) -> PyResult<()> {
    let py = environ.py();
    let set = |key: &Bound<'_, PyString>, value: &[u8]| set_item(environ, key, &latin1(py, value)?);
    if let Some((_, server)) = &proxied.addresses {
        set(intern!(py, "SERVER_NAME"), server.ip().to_string().as_bytes())?;
        set(intern!(py, "SERVER_PORT"), server.port().to_string().as_bytes())?;
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
        Some(facts) if tls && facts.used => introduce_tls(environ, facts),
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
