//! Headers as an application gives them, judged and added to a draft.
//!
//! Knows: what servers before us took for a list of headers, and what each is called when it is refused. Does not know: what
//! they are for, a reply (`start_response.rs`) or hints (`early_hints.rs`).

use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use wire::HeadError;

use super::reply::Draft;
use crate::ffi::text_bytes;

/// The headers as a list or tuple. PEP 3333 wants a list; servers before us took whatever can
/// be gone through (`dict.items()`, a generator), which runs code of the application, so that it
/// is done before anything is borrowed.
#[inline]
pub fn listed<'py>(headers: Borrowed<'_, 'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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
pub fn add_headers(draft: &mut Draft, headers: Borrowed<'_, '_, PyAny>) -> PyResult<()> {
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
pub fn shown(object: Borrowed<'_, '_, PyAny>) -> String {
    object.repr().map_or_else(|_| "(not showable)".into(), |text| text.to_string_lossy().into_owned())
}
