//! `start_response` and `write`: the two functions that an application is given.
//!
//! Knows: PEP 3333, "The start_response() Callable". Does not know: how bytes travel. One
//! [`Reply`] serves one thread for call after call; an application that keeps a function for
//! longer than its call keeps that reply, and the thread makes itself a new one.

use std::sync::Arc;

use pyo3::Borrowed;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use server::engine::Engine;
use server::exchange::Exchange;
use server::scribe::Scribe;
use wire::{FieldName, HeadError};

use super::iterate::{Failure, copied, send_part};
use super::way::Way;
use crate::ffi::{
    Held, Loan, Starts, Tried, Writes, bytes_of, references, restore_exception, start_function, text_bytes,
    write_function,
};

/// One thread's reply under construction.
#[pyclass(frozen, module = "forehand._core")]
pub struct Reply {
    pub exchange: Loan<Exchange>,
    pub draft: Held<Draft>,
    pub engine: Arc<Engine>,
    pub way: Way,
}

/// What `start_response` has said so far.
pub struct Draft {
    pub scribe: Scribe,
    /// `start_response` has been called, and its head stands in the scribe.
    pub started: bool,
    names: Names,
}

/// Header names that were judged before, found by the identity of their string: those of an
/// application are constants. A string that is kept here cannot be another one meanwhile.
struct Names(Vec<Option<(Py<PyString>, FieldName)>>);

/// How many names are kept.
const KEPT_NAMES: usize = 64;
/// Longer names are not kept.
const KEPT_NAME_BYTES: usize = 64;

impl Names {
    /// Uses the judgement on a name, made now if it is not kept.
    #[inline]
    fn with<R>(
        &mut self,
        name: Borrowed<'_, '_, PyAny>,
        work: impl FnOnce(&FieldName) -> R,
    ) -> PyResult<Result<R, HeadError>> {
        let address = name.as_ptr() as usize;
        let place = (address >> 4 ^ address >> 11) % KEPT_NAMES;
        if let Some(Some((known, judged))) = self.0.get(place)
            && known.as_ptr() == name.as_ptr()
        {
            return Ok(Ok(work(judged)));
        }
        let judged = match text_bytes(name, "a header's name", FieldName::new)? {
            Ok(judged) => judged,
            Err(error) => return Ok(Err(error)),
        };
        let result = work(&judged);
        if let Ok(text) = name.cast_exact::<PyString>()
            && text.len()? <= KEPT_NAME_BYTES
        {
            if self.0.is_empty() {
                self.0.resize_with(KEPT_NAMES, || None);
            }
            self.0[place] = Some((text.to_owned().unbind(), judged));
        }
        Ok(Ok(result))
    }
}

/// What stands behind `start_response`: it gives `write` back, which refers to the reply. In
/// this order there is no circle of references.
#[pyclass(frozen, module = "forehand._core")]
pub struct Starter {
    reply: Py<Reply>,
    write: Py<PyAny>,
}

/// One thread's reply and the function that its applications are given.
pub struct Desk {
    pub reply: Py<Reply>,
    pub start_response: Py<PyAny>,
    write: Py<PyAny>,
}

impl Desk {
    pub fn new(py: Python<'_>, engine: &Arc<Engine>, way: &Way) -> PyResult<Self> {
        let draft = Held::new(Draft { scribe: Scribe::new(), started: false, names: Names(Vec::new()) });
        let reply = Reply { exchange: Loan::new(), draft, engine: Arc::clone(engine), way: way.clone() };
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

/// What is raised where a function is used when it must not be.
pub fn over() -> PyErr {
    PyRuntimeError::new_err(
        "the request that this function belongs to has ended, or another thread is using it",
    )
}

impl Starts for Starter {
    fn start_response(this: &Bound<'_, Self>, arguments: &[Option<Borrowed<'_, '_, PyAny>>; 3]) -> Tried {
        let py = this.py();
        let [Some(status), Some(headers), exc_info] = arguments else {
            return Err(PyTypeError::new_err(
                "start_response needs (status, response_headers), see PEP 3333",
            ));
        };
        let headers = listed(*headers)?;
        let headers = headers.as_borrowed();
        let reply = this.get().reply.get();
        reply.exchange.with(py, |_| ()).ok_or_else(over)?;
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
        draft.scribe.head.clear();
        let written = text_bytes(*status, "the status", |line| draft.scribe.head.status(line))?;
        written.map_err(|error| PyValueError::new_err(format!("status {}: {error}", shown(*status))))?;
        add_headers(&mut draft, headers)?;
        draft.started = true;
        Ok(this.get().write.clone_ref(py))
    }
}

impl Writes for Reply {
    fn write(this: &Bound<'_, Self>, data: Borrowed<'_, '_, PyAny>) -> Tried {
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
    if pair.len() != 2 {
        return Err(wrong());
    }
    let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
    let head = &mut draft.scribe.head;
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
