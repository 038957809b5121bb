//! `wsgi.early_hints`: what a client may fetch while its reply is made (RFC 8297).
//!
//! Knows: the name and the form that gunicorn has given it, a function of a list of headers. Does not know: how bytes
//! travel. Whichever thread of the application calls it.

use std::sync::atomic::{AtomicIsize, Ordering};

use pyo3::prelude::*;
use server::exchange::Gone;

use super::given_headers::{add_headers, listed};
use super::reply::{Draft, Failure, Reply, over, too_late};
use super::send::wait_for_reader;
use crate::ffi::{GilCell, references};

/// Whom hints reach.
enum Reach {
    /// A client that reads one reply and nothing before it: one of HTTP/1.0, or a web server that speaks CGI's variables.
    Nobody,
    Client(Py<Reply>),
    /// The request is over.
    Over,
}

/// What stands in `environ`. A thread keeps one from request to request, as long as no application keeps it, too.
#[pyclass(frozen, module = "forehand._core")]
pub struct EarlyHints {
    reach: GilCell<Reach>,
    /// How many references to it there are beside its thread's: those of dictionaries that are kept (`standing_hints.rs`).
    known: AtomicIsize,
}

impl EarlyHints {
    /// One whose hints nobody can be sent.
    pub fn for_nobody() -> Self {
        Self::reaching(Reach::Nobody)
    }

    /// One for the requests that are answered by `reply`.
    pub fn new(reply: Py<Reply>) -> Self {
        Self::reaching(Reach::Client(reply))
    }

    fn reaching(reach: Reach) -> Self {
        Self { reach: GilCell::new(reach), known: AtomicIsize::new(0) }
    }

    /// So many more references are known, or fewer.
    #[inline]
    pub fn is_referred_to(&self, more: isize) {
        self.known.fetch_add(more, Ordering::Relaxed);
    }

    /// The one that is kept, or another where an application has kept that: it would reach the client of a later request.
    #[inline]
    pub fn renew<'py>(py: Python<'py>, kept: &mut Py<Self>, reply: &Py<Reply>) -> PyResult<Bound<'py, Self>> {
        let ours = 1 + kept.get().known.load(Ordering::Relaxed);
        if references(kept.bind(py).as_any()) > ours {
            if let Some(mut reach) = kept.get().reach.borrow(py) {
                *reach = Reach::Over;
            }
            *kept = Py::new(py, Self::new(reply.clone_ref(py)))?;
        }
        Ok(kept.bind(py).clone())
    }
}

#[pymethods]
impl EarlyHints {
    /// Sends `headers`, a list of (name, value), as 103 Early Hints, before the reply and as often as is wanted.
    fn __call__(&self, py: Python<'_>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let headers = listed(headers.as_borrowed())?;
        // What is wrong with them shows with every client.
        let mut draft = Draft::new();
        add_headers(&mut draft, headers.as_borrowed())?;
        let lines = draft.builder.head.bytes();
        let reply = match &*self.reach.borrow(py).ok_or_else(over)? {
            Reach::Nobody => return Ok(()),
            Reach::Over => return Err(over()),
            Reach::Client(reply) => reply.clone_ref(py),
        };
        if lines.is_empty() {
            return Ok(());
        }
        let hints = [b"HTTP/1.1 103 Early Hints\r\n", lines, b"\r\n"].concat();
        let reply = reply.get();
        let engine = &reply.engine;
        let sent: Option<Result<Option<bool>, Gone>> = reply.exchange.with(py, |exchange| {
            let is_sent = exchange.interim(&hints, engine)?;
            Ok(is_sent.then(|| exchange.has_room(engine)))
        });
        match sent.ok_or_else(over)?.map_err(Failure::from)? {
            None => Err(too_late()),
            Some(true) => Ok(()),
            Some(false) => Ok(wait_for_reader(py, reply)?),
        }
    }
}
