//! Lists of which the items are constants of a program.
//!
//! Knows: that who has made an item for one list does not refer to it any more. Does not know: what the items are.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{Borrowed, Py};

/// Goes through the items of a list, if it is no more than a list. None: it is not, or `look` has none for an item.
#[inline]
fn each<R>(
    list: &Bound<'_, PyAny>,
    first: R,
    mut look: impl FnMut(R, usize, *mut ffi::PyObject) -> Option<R>,
) -> Option<R> {
    let list = list.as_ptr();
    // SAFETY: a live object, and a list where its items are read, each within its length. `look` is one of the two below,
    // which run nothing of the application's, so that the items stay where they are.
    unsafe {
        if ffi::PyList_CheckExact(list) == 0 {
            return None;
        }
        (0..ffi::PyList_GET_SIZE(list))
            .try_fold(first, |all, at| look(all, at as usize, ffi::PyList_GET_ITEM(list, at)))
    }
}

/// A number that follows from what the items of a list are, if somebody else refers to each of them as well.
#[inline]
pub fn constants_mark(list: &Bound<'_, PyAny>, first: usize) -> Option<usize> {
    each(list, first, |mark, _, item| {
        // SAFETY: reads the count of an object that lives, as it is in a list.
        let shared = unsafe { ffi::Py_REFCNT(item) } as usize > 1;
        shared.then(|| mark.rotate_left(7) ^ item as usize)
    })
}

/// The items of a list are these very objects.
#[inline]
pub fn has_items(list: &Bound<'_, PyAny>, objects: &[Py<PyAny>]) -> bool {
    let same = |count, at, item| {
        objects.get(at).is_some_and(|object: &Py<PyAny>| object.as_ptr() == item).then_some(count + 1)
    };
    each(list, 0, same) == Some(objects.len())
}

/// A string of no class of the application's: it never changes.
#[inline]
pub fn is_text(object: Borrowed<'_, '_, PyAny>) -> bool {
    object.cast_exact::<PyString>().is_ok()
}
