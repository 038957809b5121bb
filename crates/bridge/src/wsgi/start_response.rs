//! `start_response` and `write`: the two functions that an application is given.
//!
//! Knows: PEP 3333, "The start_response() Callable". Does not know: how bytes travel.

use std::sync::Arc;

use pyo3::Borrowed;
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use server::engine::Engine;

use super::early_hints::EarlyHints;
use super::given_headers::{add_headers, listed, shown};
use super::reply::{Draft, Reply, over};
use super::send::{copied, send_part};
use super::wait_mode::WaitMode;
use crate::ffi::{
    CallResult, GilCell, Loan, Starts, Writes, bytes_of, references, restore_exception, start_function,
    text_bytes, write_function,
};

/// What stands behind `start_response`: it gives `write` back, which refers to the reply. In
/// this order there is no circle of references.
#[pyclass(frozen, module = "forehand._core")]
pub struct Starter {
    reply: Py<Reply>,
    write: Py<PyAny>,
}

/// One thread's reply and the function that its applications are given.
pub struct Responder {
    pub reply: Py<Reply>,
    pub start_response: Py<PyAny>,
    write: Py<PyAny>,
    pub hints: Py<EarlyHints>,
}

impl Responder {
    pub fn new(py: Python<'_>, engine: &Arc<Engine>, mode: &WaitMode) -> PyResult<Self> {
        let (exchange, draft) = (Loan::new(), GilCell::new(Draft::new()));
        let environ = GilCell::default();
        let reply = Reply { exchange, draft, engine: Arc::clone(engine), mode: mode.clone(), environ };
        let reply = Bound::new(py, reply)?;
        let write = write_function(&reply)?;
        let reply = reply.unbind();
        let starter = Starter { reply: reply.clone_ref(py), write: write.clone_ref(py) };
        let start_response = start_function(&Bound::new(py, starter)?)?;
        let hints = Py::new(py, EarlyHints::new(reply.clone_ref(py)))?;
        Ok(Self { reply, start_response, write, hints })
    }

    /// What the application is given for hints.
    ///
    /// # Errors
    /// Python's (memory).
    #[inline]
    pub fn hints<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, EarlyHints>> {
        EarlyHints::renew(py, &mut self.hints, &self.reply)
    }

    /// True while nobody else has kept one of the functions.
    #[inline]
    pub fn is_ours(&self, py: Python<'_>) -> bool {
        // `write` is referred to by the starter as well.
        references(self.start_response.bind(py)) == 1 && references(self.write.bind(py)) == 2
    }
}

impl Starts for Starter {
    fn start_response(
        this: &Bound<'_, Self>,
        arguments: &[Option<Borrowed<'_, '_, PyAny>>; 3],
    ) -> CallResult {
        let py = this.py();
        let [Some(status), Some(headers), exc_info] = arguments else {
            return Err(PyTypeError::new_err(
                "start_response needs (status, response_headers), see PEP 3333",
            ));
        };
        let headers = listed(*headers)?;
        let reply = this.get().reply.get();
        if !reply.exchange.is_there(py) {
            return Err(over());
        }
        let mut draft = reply.draft.borrow(py).ok_or_else(over)?;
        let exc_info = exc_info.as_ref().filter(|given| !given.is_none());
        if draft.started {
            let Some(exc_info) = exc_info else {
                return Err(PyAssertionError::new_err(
                    "start_response was called twice without exc_info (PEP 3333, The start_response() Callable)",
                ));
            };
            if reply.exchange.with(py, |exchange| exchange.head_is_sent()).ok_or_else(over)? {
                // The head is gone: the error that the application has caught is raised again.
                return Err(restore_exception(&exc_info.to_owned()));
            }
            // A reply that was begun with `write(b"")` alone is begun anew.
            draft.started = false;
        }
        let draft = &mut *draft;
        let sought = match draft.kept.begin((*status, &headers), &mut draft.builder.head) {
            Ok(()) => {
                draft.started = true;
                return Ok(this.get().write.clone_ref(py));
            }
            Err(sought) => sought,
        };
        draft.builder.head.clear();
        let written = text_bytes(*status, "the status", |line| draft.builder.head.status(line))?;
        written.map_err(|error| PyValueError::new_err(format!("status {}: {error}", shown(*status))))?;
        add_headers(draft, headers.as_borrowed())?;
        draft.started = true;
        if let Some(sought) = sought {
            draft.kept.keep(sought, (*status, &headers), &draft.builder.head);
        }
        Ok(this.get().write.clone_ref(py))
    }
}

impl Writes for Reply {
    fn write(this: &Bound<'_, Self>, data: Borrowed<'_, '_, PyAny>) -> CallResult {
        let py = this.py();
        let reply = this.get();
        let data = data.to_owned();
        let sent = match bytes_of(&data) {
            Some(bytes) => send_part(py, reply, &data, bytes),
            None => {
                let Some(copy) = copied(&data)? else {
                    let kind = data.get_type().name()?;
                    return Err(PyTypeError::new_err(format!("write() takes bytes, not {kind}")));
                };
                send_part(py, reply, copy.as_any(), copy.as_bytes())
            }
        };
        sent?;
        Ok(py.None())
    }
}
