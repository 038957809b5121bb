//! What an application gives back, part by part.
//!
//! Knows: PEP 3333, "Buffering and Streaming", and that `close()` is called once in every
//! outcome. Does not know: framing. Runs on the thread that plays the exchange.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use server::exchange::Gone;

use super::file_wrapper::FileWrapper;
use super::reply::{Reply, over};
use crate::ffi::{Iteration, bytes_of, call_none, first_bytes, iterate};

/// A single body from this size on is sent from the application's own object, so that a slow
/// reader holds neither a copy nor the thread.
const KEEP_BYTES: usize = 64 * 1024;
/// A list of parts up to this size in all is sent as one.
const JOIN_BYTES: usize = 64 * 1024;

/// Why a reply could not be completed.
pub enum Failure {
    /// The application raised.
    Raised(PyErr),
    /// The application did what PEP 3333 does not allow; the sentence says what.
    Wrong(String),
    /// The client has left.
    Gone,
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Gone> for Failure {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Bytes of the application, kept alive while the engine sends them.
struct Lasting(Py<PyBytes>);

impl AsRef<[u8]> for Lasting {
    fn as_ref(&self) -> &[u8] {
        // Bytes never change, so that reading them needs no interpreter.
        crate::ffi::lasting_bytes(&self.0)
    }
}

/// Sends a result to its end and closes it.
#[inline]
pub fn send_result(py: Python<'_>, reply: &Reply, result: &Bound<'_, PyAny>) -> Result<(), Failure> {
    if let Some(only) = first_bytes(result)
        && let Some(bytes) = bytes_of(&only)
    {
        // A list has no `close`, so that this is all there is to do.
        return send_only(py, reply, &only, bytes);
    }
    let sent = send_parts(py, reply, result);
    let closed = close(result);
    sent.and(closed)
}

/// Calls `close()`, if there is one (PEP 3333: whether or not the request was completed).
fn close(result: &Bound<'_, PyAny>) -> Result<(), Failure> {
    if result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>() || result.is_none()
    {
        return Ok(());
    }
    match result.getattr(intern!(result.py(), "close")) {
        Ok(close) => call_none(&close).map(|_| ()).map_err(Failure::Raised),
        Err(error) if error.is_instance_of::<PyAttributeError>(result.py()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The whole body as one bytes object.
#[inline]
fn send_only(py: Python<'_>, reply: &Reply, only: &Bound<'_, PyAny>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(in_use()) };
    if !draft.started {
        return Err(never_started());
    }
    let scribe = &mut draft.scribe;
    let engine = &reply.engine;
    if reply.exchange.with(py, |exchange| !exchange.is_unanswered()).ok_or_else(in_use)? {
        // `write` has begun the reply.
        drop(draft);
        send_part(py, reply, only, bytes)?;
        return finish(py, reply);
    }
    let sent = reply.exchange.with(py, |exchange| {
        match only.cast_exact::<PyBytes>() {
            Ok(kept) if bytes.len() >= KEEP_BYTES => {
                exchange.whole_kept(scribe, Box::new(Lasting(kept.clone().unbind())), engine)
            }
            _ => exchange.whole(scribe, bytes, engine),
        }?;
        Ok::<_, Gone>(exchange.may_be_left(engine))
    });
    drop(draft);
    match sent.ok_or_else(in_use)?? {
        true => Ok(()),
        false => reply.way.see_off(py, reply),
    }
}

fn send_parts(py: Python<'_>, reply: &Reply, result: &Bound<'_, PyAny>) -> Result<(), Failure> {
    if let Some(joined) = joined(result)? {
        return send_only(py, reply, joined.as_any(), joined.as_bytes());
    }
    if let Ok(wrapper) = result.cast_exact::<FileWrapper>()
        && wrapper.get().send(py, reply)?
    {
        return Ok(());
    }
    let parts = parts_of(result)?;
    while let Iteration::Item(part) = iterate(&parts)? {
        match bytes_of(&part) {
            Some(bytes) => send_part(py, reply, &part, bytes)?,
            None => {
                let copy = copied(&part)?.ok_or_else(|| {
                    Failure::Wrong(format!(
                        "the application's iterable gave {}, and WSGI wants bytes (PEP 3333)",
                        described(&part)
                    ))
                })?;
                send_part(py, reply, copy.as_any(), copy.as_bytes())?;
            }
        }
    }
    finish(py, reply)
}

/// A copy of what is no bytes object and holds bytes all the same, as bytearray and memoryview
/// do; none where it does not. PEP 3333 wants bytes, and servers before us took these.
pub fn copied<'py>(part: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    match PyBuffer::<u8>::get(part) {
        Ok(buffer) => Ok(Some(PyBytes::new(part.py(), &buffer.to_vec(part.py())?))),
        Err(_) => Ok(None),
    }
}

/// A list or tuple of parts that is small enough to go out as one; its length is then known.
fn joined<'py>(result: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let list: Vec<Bound<'py, PyAny>> = if let Ok(list) = result.cast_exact::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = result.cast_exact::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return Ok(None);
    };
    let mut all = Vec::new();
    for part in &list {
        let copy;
        let bytes = match bytes_of(part) {
            Some(bytes) => bytes,
            None => {
                let Some(made) = copied(part)? else { return Ok(None) };
                copy = made;
                copy.as_bytes()
            }
        };
        if all.len() + bytes.len() > JOIN_BYTES {
            return Ok(None);
        }
        all.extend_from_slice(bytes);
    }
    Ok(Some(PyBytes::new(result.py(), &all)))
}

/// An iterator over a result, or what is wrong with the result.
fn parts_of<'py>(result: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Failure> {
    let wrong = || {
        Failure::Wrong(format!(
            "the application returned {}, and WSGI wants an iterable of bytes, such as [b\"...\"] (PEP 3333)",
            described(result)
        ))
    };
    if result.is_instance_of::<PyString>() || result.is_instance_of::<PyBytes>() || result.is_none() {
        return Err(wrong());
    }
    if result.hasattr(intern!(result.py(), "__iter__"))?
        || result.hasattr(intern!(result.py(), "__getitem__"))?
    {
        return Ok(result.try_iter()?.into_any());
    }
    Err(wrong())
}

/// Sends one part of a body, as the iterable gave it or `write` was given it. Waits where the
/// peer is slower than the bound allows, with nothing borrowed: whoever holds `write` may be
/// another thread, and the request may end meanwhile.
pub fn send_part(
    py: Python<'_>,
    reply: &Reply,
    part: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> Result<(), Failure> {
    if bytes.is_empty() {
        // The head waits for the first part that has content (PEP 3333), and can be replaced.
        return Ok(());
    }
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(in_use()) };
    if !draft.started {
        return Err(never_started());
    }
    let scribe = &mut draft.scribe;
    let engine = &reply.engine;
    let has_room = reply.exchange.with(py, |exchange| {
        if exchange.is_unanswered() {
            exchange.start(scribe, None, engine);
        }
        match part.cast_exact::<PyBytes>() {
            Ok(kept) if bytes.len() >= KEEP_BYTES => {
                exchange.write_kept(scribe, Box::new(Lasting(kept.clone().unbind())), engine)?;
            }
            _ => exchange.write(scribe, bytes, engine)?,
        }
        Ok::<_, Gone>(exchange.has_room(engine))
    });
    drop(draft);
    match has_room.ok_or_else(over)?? {
        true => Ok(()),
        false => reply.way.make_room(py, reply),
    }
}

fn finish(py: Python<'_>, reply: &Reply) -> Result<(), Failure> {
    let Some(mut draft) = reply.draft.borrow(py) else { return Err(in_use()) };
    if !draft.started {
        return Err(never_started());
    }
    let scribe = &mut draft.scribe;
    let sent = reply.exchange.with(py, |exchange| {
        if exchange.is_unanswered() {
            return exchange.whole(scribe, b"", &reply.engine);
        }
        exchange.finish(scribe, &reply.engine)
    });
    Ok(sent.ok_or_else(in_use)??)
}

/// `the str 'abc'`, `None`, `a coroutine`: an object as a message names it.
fn described(object: &Bound<'_, PyAny>) -> String {
    if object.is_none() {
        return "None".into();
    }
    let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    format!("an object of type {kind}")
}

fn never_started() -> Failure {
    Failure::Wrong("the application gave a body without calling start_response first (PEP 3333)".into())
}

fn in_use() -> Failure {
    Failure::Wrong("the response is being written by another thread at the same time".into())
}
