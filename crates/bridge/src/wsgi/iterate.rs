//! What an application gives back, part by part.
//!
//! Knows: PEP 3333, "Buffering and Streaming", and that `close()` is called once in every
//! outcome. Does not know: framing. Runs on the thread that plays the exchange.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::file_wrapper::FileWrapper;
use super::reply::{Failure, Reply};
use super::send::{add_part, copied, finish, send_whole, wait_for_reader};
use crate::ffi::{Iteration, bytes_of, call_none, first_bytes, iterate};

/// A list of parts up to this size in all is sent as one.
const JOIN_BYTES: usize = 64 * 1024;

/// Sends a result to its end and closes it.
#[inline]
pub fn send_result(py: Python<'_>, reply: &Reply, result: &Bound<'_, PyAny>) -> Result<(), Failure> {
    if let Some(only) = first_bytes(result)
        && let Some(bytes) = bytes_of(&only)
    {
        // A list has no `close`, so that this is all there is to do.
        return send_whole(py, reply, &only, bytes);
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

fn send_parts(py: Python<'_>, reply: &Reply, result: &Bound<'_, PyAny>) -> Result<(), Failure> {
    if let Some(joined) = joined(result)? {
        return send_whole(py, reply, joined.as_any(), joined.as_bytes());
    }
    if let Ok(wrapper) = result.cast_exact::<FileWrapper>()
        && wrapper.get().send(py, reply)?
    {
        return Ok(());
    }
    let parts = parts_of(result)?;
    while let Iteration::Item(part) = iterate(&parts)? {
        let has_room = match bytes_of(&part) {
            Some(bytes) => add_part(py, reply, &part, bytes)?,
            None => {
                let copy = copied(&part)?.ok_or_else(|| {
                    Failure::Wrong(format!(
                        "the application's iterable gave {}, and WSGI wants bytes (PEP 3333)",
                        described(&part)
                    ))
                })?;
                add_part(py, reply, copy.as_any(), copy.as_bytes())?
            }
        };
        // What waits is a copy of ours, so that a slow peer keeps a part once and not twice.
        drop(part);
        if !has_room {
            wait_for_reader(py, reply)?;
        }
    }
    finish(py, reply)
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

/// `the str 'abc'`, `None`, `a coroutine`: an object as a message names it.
fn described(object: &Bound<'_, PyAny>) -> String {
    if object.is_none() {
        return "None".into();
    }
    let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    format!("an object of type {kind}")
}
