//! What is known of a client's TLS, as ASGI's extension `tls` (version 0.2 of its specification).
//!
//! Knows: the extension's keys. Does not know: how anything was negotiated. Runs on the event loop's thread, for requests
//! that came within TLS.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use server::tls::{Encrypted, Shown};
use wire::pem::pem;

use crate::ffi::{GilCell, set_item};

/// Certificates of ours in PEM: most clients of a listener are shown the same one.
pub struct Texts(GilCell<Option<(Shown, Py<PyString>)>>);

impl Texts {
    pub fn new() -> Self {
        Self(GilCell::new(None))
    }

    fn of<'py>(&self, py: Python<'py>, shown: Shown) -> Bound<'py, PyString> {
        let made = |shown: &Shown| PyString::new(py, &pem("CERTIFICATE", shown.der()));
        let Some(mut kept) = self.0.borrow(py) else { return made(&shown) };
        match &*kept {
            Some((known, text)) if known.is(&shown) => text.bind(py).clone(),
            _ => {
                let text = made(&shown);
                *kept = Some((shown, text.clone().unbind()));
                text
            }
        }
    }
}

/// Sets the extension.
///
/// # Errors
/// Python's (memory).
pub fn extend(extensions: &Bound<'_, PyDict>, tls: &Encrypted, texts: &Texts) -> PyResult<()> {
    let py = extensions.py();
    let about = PyDict::new(py);
    let facts = tls.facts();
    let none = py.None().into_bound(py);
    match tls.shown() {
        Some(shown) => set_item(&about, intern!(py, "server_cert"), &texts.of(py, shown))?,
        None => set_item(&about, intern!(py, "server_cert"), &none)?,
    }
    let chain = tls.client().map(|client| client.chain.as_slice()).unwrap_or_default();
    about.set_item(intern!(py, "client_cert_chain"), PyList::new(py, chain)?)?;
    match tls.client() {
        Some(client) => {
            about.set_item(intern!(py, "client_cert_name"), &client.subject)?;
        }
        None => set_item(&about, intern!(py, "client_cert_name"), &none)?,
    }
    // Who shows one that is not believed gets no further than the handshake.
    set_item(&about, intern!(py, "client_cert_error"), &none)?;
    about.set_item(intern!(py, "tls_version"), facts.version_number())?;
    about.set_item(intern!(py, "cipher_suite"), facts.cipher_number())?;
    set_item(extensions, intern!(py, "tls"), &about)
}
