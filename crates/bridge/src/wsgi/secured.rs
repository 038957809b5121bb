//! What is known of a client's TLS, as keys of `environ`.
//!
//! Knows: mod_ssl's names for it. Does not know: how it was negotiated. Runs on the thread that calls the application, for
//! requests that came within TLS.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::tls::Encrypted;

use crate::ffi::set_item;

/// The string of a version or suite: there are few, and nothing is made or hashed again for a request.
fn usual<'py>(py: Python<'py>, name: &str) -> &'py Bound<'py, PyString> {
    match name {
        "TLSv1.3" => intern!(py, "TLSv1.3"),
        "TLSv1.2" => intern!(py, "TLSv1.2"),
        "TLS_AES_256_GCM_SHA384" => intern!(py, "TLS_AES_256_GCM_SHA384"),
        "TLS_AES_128_GCM_SHA256" => intern!(py, "TLS_AES_128_GCM_SHA256"),
        "TLS_CHACHA20_POLY1305_SHA256" => intern!(py, "TLS_CHACHA20_POLY1305_SHA256"),
        "ECDHE-ECDSA-AES256-GCM-SHA384" => intern!(py, "ECDHE-ECDSA-AES256-GCM-SHA384"),
        "ECDHE-ECDSA-AES128-GCM-SHA256" => intern!(py, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        "ECDHE-ECDSA-CHACHA20-POLY1305" => intern!(py, "ECDHE-ECDSA-CHACHA20-POLY1305"),
        "ECDHE-RSA-AES256-GCM-SHA384" => intern!(py, "ECDHE-RSA-AES256-GCM-SHA384"),
        "ECDHE-RSA-AES128-GCM-SHA256" => intern!(py, "ECDHE-RSA-AES128-GCM-SHA256"),
        "ECDHE-RSA-CHACHA20-POLY1305" => intern!(py, "ECDHE-RSA-CHACHA20-POLY1305"),
        _ => intern!(py, ""),
    }
}

/// Sets them.
///
/// # Errors
/// Python's (memory).
pub fn introduce(environ: &Bound<'_, PyDict>, tls: &Encrypted) -> PyResult<()> {
    let py = environ.py();
    let facts = tls.facts();
    set_item(environ, intern!(py, "SSL_PROTOCOL"), usual(py, facts.protocol()))?;
    set_item(environ, intern!(py, "SSL_CIPHER"), usual(py, facts.cipher()))?;
    let came = if facts.resumed { intern!(py, "Resumed") } else { intern!(py, "Initial") };
    set_item(environ, intern!(py, "SSL_SESSION_RESUMED"), came)?;
    if let Some(name) = tls.server_name() {
        set_item(environ, intern!(py, "SSL_TLS_SNI"), &PyString::new(py, &name))?;
    }
    if !tls.asks_clients() {
        return Ok(());
    }
    let Some(client) = tls.client() else {
        return set_item(environ, intern!(py, "SSL_CLIENT_VERIFY"), intern!(py, "NONE"));
    };
    set_item(environ, intern!(py, "SSL_CLIENT_VERIFY"), intern!(py, "SUCCESS"))?;
    for (name, value) in &client.variables {
        let key = PyString::intern(py, &format!("SSL_CLIENT_{name}"));
        set_item(environ, &key, &PyString::new(py, value))?;
    }
    let Some((own, issuers)) = client.chain.split_first() else { return Ok(()) };
    for (number, one) in issuers.iter().enumerate() {
        let key = PyString::intern(py, &format!("SSL_CLIENT_CERT_CHAIN_{number}"));
        set_item(environ, &key, &PyString::new(py, one))?;
    }
    set_item(environ, intern!(py, "SSL_CLIENT_CERT"), &PyString::new(py, own))
}
