//! `start_response` and `write`: the two functions that an application is given.
//!
//! Knows: PEP 3333, "The start_response() Callable". Does not know: how bytes travel.

use std::sync::Arc;

use pyo3::Borrowed;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use server::engine::Engine;
use server::reply_builder::ReplyBuilder;
use wire::HeadError;

use super::reply::{Draft, Failure, JudgedNames, Reply, over};
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
}

impl Responder {
    pub fn new(py: Python<'_>, engine: &Arc<Engine>, mode: &WaitMode) -> PyResult<Self> {
        let draft = GilCell::new(Draft {
            builder: ReplyBuilder::new(),
            started: false,
            names: JudgedNames::default(),
        });
        let reply = Reply { exchange: Loan::new(), draft, engine: Arc::clone(engine), mode: mode.clone() };
        let reply = Bound::new(py, reply)?;
        let write = write_function(&reply)?;
        let reply = reply.unbind();
        let starter = Starter { reply: reply.clone_ref(py), write: write.clone_ref(py) };
        let start_response = start_function(&Bound::new(py, starter)?)?;
        Ok(Self { reply, start_response, write })
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
        let headers = headers.as_borrowed();
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
        draft.builder.head.clear();
        let written = text_bytes(*status, "the status", |line| draft.builder.head.status(line))?;
        written.map_err(|error| PyValueError::new_err(format!("status {}: {error}", shown(*status))))?;
        add_headers(&mut draft, headers)?;
        draft.started = true;
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
        match sent {
            Ok(()) => Ok(py.None()),
            Err(Failure::Raised(error)) => Err(error),
            Err(Failure::Wrong(what)) => Err(PyRuntimeError::new_err(what)),
            Err(Failure::Gone) => Err(pyo3::exceptions::PyConnectionResetError::new_err(crate::forked::LEFT)),
        }
    }
}

/// The headers as a list or tuple. PEP 3333 wants a list; servers before us took whatever can
/// be gone through (`dict.items()`, a generator), which runs code of the application, so that it
/// is done before anything is borrowed.
#[inline]
fn listed<'py>(headers: Borrowed<'_, 'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if headers.is_instance_of::<PyList>() || headers.is_instance_of::<PyTuple>() {
        return Ok(headers.to_owned());
    }
    let pairs = headers.try_iter().map_err(|_| {
        PyTypeError::new_err(format!(
            "the response headers must be a list of (name, value), not {}",
            shown(headers)
        ))
    })?;
    let all = PyList::empty(headers.py());
    for pair in pairs {
        all.append(pair?)?;
    }
    Ok(all.into_any())
}

/// Checks and adds the response's headers.
fn add_headers(draft: &mut Draft, headers: Borrowed<'_, '_, PyAny>) -> PyResult<()> {
    if let Ok(list) = headers.cast::<PyList>() {
        for pair in list.iter() {
            add_header(draft, &pair)?;
        }
        return Ok(());
    }
    let tuple = headers.cast::<PyTuple>()?;
    for pair in tuple.iter() {
        add_header(draft, &pair)?;
    }
    Ok(())
}

fn add_header(draft: &mut Draft, pair: &Bound<'_, PyAny>) -> PyResult<()> {
    let wrong = || {
        PyTypeError::new_err(format!(
            "a response header must be a pair of two str, not {}",
            shown(pair.as_borrowed())
        ))
    };
    let made;
    let pair = match pair.cast::<PyTuple>() {
        Ok(pair) => pair,
        Err(_) => {
            made = pair.cast::<PyList>().map_err(|_| wrong())?.to_tuple();
            &made
        }
    };
    let [name, value] = pair.as_slice() else { return Err(wrong()) };
    let (name, value) = (name.as_borrowed(), value.as_borrowed());
    let head = &mut draft.builder.head;
    let named = draft
        .names
        .with(name, |name| text_bytes(value, "a header's value", |value| head.named(name, value)))?;
    let added = match named {
        Ok(written) => written?,
        Err(error) => Err(error),
    };
    added.map_err(|error: HeadError| {
        PyValueError::new_err(format!("response header {}: {} refused: {error}", shown(name), shown(value)))
    })
}

/// An object as an error message shows it.
fn shown(object: Borrowed<'_, '_, PyAny>) -> String {
    object.repr().map_or_else(|_| "(not showable)".into(), |text| text.to_string_lossy().into_owned())
}
