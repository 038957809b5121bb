//! The fields of an event, each of the type that the specification gives it.
//!
//! Knows: types and what to say where one is wrong. Does not know: the order of events.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::ffi::{bytes_of, get_item};

/// An event: a dictionary with a `type`.
pub fn event<'a, 'py>(given: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyDict>> {
    given.cast::<PyDict>().map_err(|_| {
        PyTypeError::new_err(format!("send() takes a dict with a 'type' (ASGI), not {}", kind(given)))
    })
}

/// What kind of event it is.
pub fn kind_of<'py>(event: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyString>> {
    let found = get_item(event, pyo3::intern!(event.py(), "type"))?;
    let found =
        found.ok_or_else(|| PyValueError::new_err("an event has a 'type' (ASGI); this one has none"))?;
    found.cast_into().map_err(|error| wrong("type", "a str", &error.into_inner()))
}

/// A number such as a status.
pub fn number(event: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<Option<i64>> {
    let Some(found) = get_item(event, key)?.filter(|found| !found.is_none()) else { return Ok(None) };
    // `http.HTTPStatus` is an int as well.
    match found.extract() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(wrong(key.to_str()?, "an int", &found)),
    }
}

/// A flag; false where it is not given.
#[inline]
pub fn flag(event: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<bool> {
    match get_item(event, key)? {
        None => Ok(false),
        Some(found) => found.is_truthy(),
    }
}

/// Text; none where it is not given, or None.
pub fn text(event: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<String>> {
    let Some(found) = event.get_item(key)?.filter(|found| !found.is_none()) else { return Ok(None) };
    match found.cast::<PyString>() {
        Ok(text) => Ok(Some(text.to_str()?.to_string())),
        Err(_) => Err(wrong(key, "a str", &found)),
    }
}

/// Bytes, without a copy where they are bytes.
pub enum Content<'py> {
    Bytes(Bound<'py, PyBytes>),
    Copy(Vec<u8>),
}

impl Content<'_> {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Copy(bytes) => bytes,
        }
    }
}

/// What a body's part is: bytes, or another object with a buffer; empty where it is not given.
#[inline]
pub fn content<'py>(event: &Bound<'py, PyDict>, key: &Bound<'py, PyString>) -> PyResult<Content<'py>> {
    match get_item(event, key)? {
        None => Ok(Content::Copy(Vec::new())),
        Some(found) => match found.cast_into::<PyBytes>() {
            Ok(bytes) => Ok(Content::Bytes(bytes)),
            Err(error) => buffer(key, &error.into_inner()),
        },
    }
}

fn buffer<'py>(key: &Bound<'py, PyString>, found: &Bound<'py, PyAny>) -> PyResult<Content<'py>> {
    match PyBuffer::<u8>::get(found) {
        Ok(buffer) => Ok(Content::Copy(buffer.to_vec(found.py())?)),
        Err(_) => Err(wrong(key.to_str()?, "bytes", found)),
    }
}

/// Hands each `(name, value)` of `headers` to `add`; not given is none.
#[inline]
pub fn headers(event: &Bound<'_, PyDict>, add: impl FnMut(&[u8], &[u8]) -> PyResult<()>) -> PyResult<()> {
    match get_item(event, pyo3::intern!(event.py(), "headers"))? {
        None => Ok(()),
        Some(headers) => pairs(&headers, add),
    }
}

/// Each pair of an iterable.
pub fn pairs(headers: &Bound<'_, PyAny>, mut add: impl FnMut(&[u8], &[u8]) -> PyResult<()>) -> PyResult<()> {
    // Most give a list, which needs no iterator.
    if let Ok(list) = headers.cast_exact::<PyList>() {
        return list.iter().try_for_each(|pair| one_pair(&pair, &mut add));
    }
    let iterator =
        headers.try_iter().map_err(|_| wrong("headers", "an iterable of pairs of bytes", headers))?;
    for pair in iterator {
        one_pair(&pair?, &mut add)?;
    }
    Ok(())
}

/// One header: a tuple, or something else with two items.
#[inline]
fn one_pair(pair: &Bound<'_, PyAny>, add: &mut impl FnMut(&[u8], &[u8]) -> PyResult<()>) -> PyResult<()> {
    let items;
    let two = match pair.cast::<PyTuple>() {
        Ok(tuple) => tuple.as_slice(),
        Err(_) => {
            items = pair.extract::<Vec<Bound<'_, PyAny>>>().map_err(|_| wrong_pair(pair))?;
            &items
        }
    };
    let [name, value] = two else { return Err(wrong_pair(pair)) };
    let (Some(name), Some(value)) = (bytes_of(name), bytes_of(value)) else { return Err(wrong_pair(pair)) };
    add(name, value)
}

#[cold]
fn wrong_pair(pair: &Bound<'_, PyAny>) -> PyErr {
    let shown = pair.repr().map_or_else(|_| "(not showable)".into(), |text| text.to_string());
    PyTypeError::new_err(format!("a header must be a pair of bytes (name, value), not {shown}"))
}

/// The message where a field is of another type.
pub fn wrong(key: &str, wanted: &str, found: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("'{key}' of an event must be {wanted}, not {}", kind(found)))
}

fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string())
}
