//! Lists of pairs of strings, as PEP 3333 has headers, compared with what they were before.
//!
//! Knows: which objects never change, and how strings lie in memory. Does not know: what they say.

use pyo3::Borrowed;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::objects::one_byte_text;

/// Two strings, of no class of an application's, so that they never change; each has a byte for a character.
pub struct Pair(Py<PyAny>, Py<PyAny>);

impl Pair {
    /// The pairs of a list, if they are such strings, each of no more than `most` bytes.
    pub fn all_of(list: &Bound<'_, PyAny>, most: usize) -> Option<Box<[Self]>> {
        let list = list.cast_exact::<PyList>().ok()?;
        list.iter().map(|pair| Self::of(&pair, most)).collect()
    }

    fn of(pair: &Bound<'_, PyAny>, most: usize) -> Option<Self> {
        let [name, value] = pair.cast_exact::<PyTuple>().ok()?.as_slice() else { return None };
        (is_plain(name.as_borrowed(), most) && is_plain(value.as_borrowed(), most))
            .then(|| Self(name.clone().unbind(), value.clone().unbind()))
    }
}

/// A string of no class of an application's, with a byte for each character and no more than `most` of them.
pub fn is_plain(text: Borrowed<'_, '_, PyAny>, most: usize) -> bool {
    text.cast_exact::<PyString>().is_ok() && one_byte_text(text).is_some_and(|bytes| bytes.len() <= most)
}

/// Goes through the pairs of a list. None: it is no list of pairs, or `look` has none for one of them.
#[inline]
fn each<R>(
    list: &Bound<'_, PyAny>,
    first: R,
    mut look: impl FnMut(R, usize, [*mut ffi::PyObject; 2]) -> Option<R>,
) -> Option<R> {
    let list = list.as_ptr();
    // SAFETY: a live object, and a list where its items are read, each within its length; the same for each tuple. `look`
    // is one of the two below, which run nothing of the application's, so that all stay where they are.
    unsafe {
        if ffi::PyList_CheckExact(list) == 0 {
            return None;
        }
        (0..ffi::PyList_GET_SIZE(list)).try_fold(first, |all, at| {
            let pair = ffi::PyList_GET_ITEM(list, at);
            if ffi::PyTuple_CheckExact(pair) == 0 || ffi::PyTuple_GET_SIZE(pair) != 2 {
                return None;
            }
            look(all, at as usize, [ffi::PyTuple_GET_ITEM(pair, 0), ffi::PyTuple_GET_ITEM(pair, 1)])
        })
    }
}

/// A number that follows from which objects the names of a list's pairs are, and from how long the values. None: it is no
/// list of pairs, or a value is no string.
#[inline]
pub fn pairs_mark(list: &Bound<'_, PyAny>) -> Option<usize> {
    each(list, 0usize, |mark, _, [name, value]| {
        // SAFETY: live objects, as they are in a tuple; a string where its length is read.
        let length = unsafe {
            if ffi::PyUnicode_CheckExact(value) == 0 {
                return None;
            }
            ffi::PyUnicode_GET_LENGTH(value)
        };
        Some(mark.rotate_left(7) ^ name as usize >> 4 ^ (length as usize) << 3)
    })
}

/// The pairs of a list have the very names that these have, and values that say the same.
#[inline]
pub fn is_list_of(list: &Bound<'_, PyAny>, pairs: &[Pair]) -> bool {
    let py = list.py();
    let same = |count, at, [name, value]: [*mut ffi::PyObject; 2]| {
        let known: &Pair = pairs.get(at)?;
        // SAFETY: a live object, as it is in a tuple that lives as long as the list is not changed.
        let value = unsafe { Borrowed::from_ptr(py, value) };
        (known.0.as_ptr() == name && says_the_same(value, &known.1)).then_some(count + 1)
    };
    each(list, 0, same) == Some(pairs.len())
}

/// A string says what another one does, of which [`is_plain`] is true.
#[inline]
pub fn says_the_same(text: Borrowed<'_, '_, PyAny>, plain: &Py<PyAny>) -> bool {
    if text.as_ptr() == plain.as_ptr() {
        return true;
    }
    // SAFETY: reads the type of a live object.
    let is_exact = unsafe { ffi::PyUnicode_CheckExact(text.as_ptr()) } != 0;
    is_exact && one_byte_text(text) == one_byte_text(plain.bind_borrowed(text.py()))
}
