//! The Python module `forehand._core`: WSGI on the engine.
//!
//! Knows: Python, and how an application is called. Does not know: sockets or HTTP's grammar.
//! The only crate that knows Python; unsafe code is in `ffi/` and nowhere else.

mod asgi;
mod collector;
mod controls;
mod current;
mod disconnect;
mod event_loop;
mod exit_timer;
mod failure;
mod ffi;
mod forked;
mod hub;
mod profile;
mod request_id;
mod sampler;
mod server;
mod settings;
mod slab;
mod slices;
mod static_mounts;
mod statistics;
mod told_route;
mod tracing;
mod url;
mod wsgi;

use pyo3::prelude::*;

/// The engine behind `forehand`.
#[pymodule]
mod _core {
    use std::os::fd::RawFd;

    use super::{PyModule, PyResult, exit_timer, pyfunction, settings};
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::asgi::AsgiServer;
    #[pymodule_export]
    use super::controls::Controls;
    #[pymodule_export]
    use super::current::CurrentRequest;
    #[pymodule_export]
    use super::hub::GeventServer;
    #[pymodule_export]
    use super::server::Server;
    #[pymodule_export]
    use super::statistics::Statistics;
    #[pymodule_export]
    use super::tracing::Spans;
    #[pymodule_export]
    use super::wsgi::{FileWrapper, Input};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::ffi::tell_who_has_the_interpreter();
        module.add("STACKS_SIGNAL", reactor::sys::stacks_signal())
    }

    /// Ends this process so many milliseconds after a pipe has ended: its supervisor is gone.
    #[pyfunction]
    fn watch_parent(fd: RawFd, patience_ms: u64) -> PyResult<()> {
        Ok(::server::parent::watch(fd, patience_ms)?)
    }

    /// Ends this process so many milliseconds from now, whatever holds the interpreter then. Said once more: from then on.
    #[pyfunction]
    fn end_within(patience_ms: u64, status: i32) -> PyResult<()> {
        Ok(exit_timer::within(patience_ms, status)?)
    }

    /// Writes to a descriptor, unless nobody makes room there for so many milliseconds.
    #[pyfunction]
    fn write_within(py: Python<'_>, fd: RawFd, text: &[u8], patience_ms: u64) -> PyResult<()> {
        let patience = std::time::Duration::from_millis(patience_ms);
        Ok(py.detach(|| reactor::sys::write_within(fd, text, patience))?)
    }

    /// Serves the status endpoint until this process ends, without the interpreter; `told`: a descriptor of what it is told.
    #[pyfunction]
    fn serve_status(py: Python<'_>, told: RawFd) -> PyResult<()> {
        Ok(py.detach(|| ::server::status::process::run(told))?)
    }

    /// Shows a text instead of the command line in `ps`. False: the system has no such thing.
    #[pyfunction]
    fn set_title(text: &str) -> bool {
        reactor::sys::set_title(text).is_ok()
    }

    /// Gives back memory that this process needed only to begin.
    #[pyfunction]
    fn give_back_memory() {
        reactor::sys::give_back_memory();
    }

    /// Bounds how many heaps the C library makes for threads.
    #[pyfunction]
    fn bound_arenas() {
        reactor::sys::bound_arenas();
    }

    /// Makes this process the parent of its descendants whose parents have ended. False: the
    /// system has no such thing.
    #[pyfunction]
    fn become_subreaper() -> bool {
        reactor::sys::become_subreaper().is_ok()
    }

    /// Keeps a descriptor from every forked child, also from one that C code forks: from its first moment on
    /// it has something dead in its place. Until `release`, which is to come before it is closed.
    #[pyfunction]
    fn keep_from_children(fd: RawFd) {
        reactor::sys::keep_from_children(fd);
    }

    /// The descriptor is about to be closed.
    #[pyfunction]
    fn release(fd: RawFd) {
        reactor::sys::release(fd);
    }

    /// The request that this thread works on, where each has a thread; None: none.
    #[pyfunction]
    fn request(py: Python<'_>) -> PyResult<Option<CurrentRequest>> {
        super::wsgi::request(py)
    }

    /// Has requests of an event loop stand in a context variable while their tasks run, those that begin from now on.
    #[pyfunction]
    fn carry_in(variable: Bound<'_, PyAny>) {
        super::current::carry_in(variable.py(), variable.unbind());
    }

    /// Every limit: (name, kind, default, reason, answer, counter).
    #[pyfunction]
    fn limits() -> Vec<(&'static str, &'static str, u64, &'static str, &'static str, &'static str)> {
        wire::TABLE
            .iter()
            .map(|limit| (limit.name, limit.kind, limit.default, limit.reason, limit.answer, limit.counter))
            .collect()
    }

    /// Every counter but those of refusals: (name, what it counts).
    #[pyfunction]
    fn counters() -> Vec<(&'static str, &'static str)> {
        ::server::counters::TABLE.iter().map(|(name, meaning)| (*name, meaning.trim())).collect()
    }

    /// Judges what is handed over for TLS: what people should know of it, and when the first certificate expires, in
    /// seconds since 1970, and for how many it was good in all. ValueError says what cannot be used.
    #[pyfunction]
    fn check_tls(material: &[u8]) -> PyResult<(Vec<String>, u64, u64)> {
        let read = settings::material(material)?;
        Ok((read.warnings, read.expires, read.lasts))
    }

    /// A certificate that vouches for itself: certificate and key in DER, and the certificate's fingerprint.
    #[pyfunction]
    fn self_signed(names: Vec<String>) -> PyResult<(Vec<u8>, Vec<u8>, String)> {
        let made = ::server::tls::self_signed(&names, reactor::sys::wall_seconds())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((made.certificate, made.key, made.fingerprint))
    }

    /// Names for `http_relax`, and what each allows.
    #[pyfunction]
    fn relaxable() -> Vec<(&'static str, &'static str)> {
        wire::RELAXABLE.to_vec()
    }

    /// Names for `http_refuse`, and what each refuses.
    #[pyfunction]
    fn refusable() -> Vec<(&'static str, &'static str)> {
        wire::REFUSABLE.to_vec()
    }

    /// ValueError says what is wrong with an access log's format.
    #[pyfunction]
    fn check_access_format(format: &str) -> PyResult<()> {
        server::access::Format::parse(format).map(|_| ()).map_err(PyValueError::new_err)
    }

    /// ValueError says what is wrong with a list of trusted peers.
    #[pyfunction]
    fn check_trust(value: &str) -> PyResult<()> {
        settings::parse_trust(value).map(|_| ())
    }
}
