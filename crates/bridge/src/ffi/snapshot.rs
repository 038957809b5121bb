//! Whether an object of a class in C is as it was: its references, those that are weak, and what it has in fields of its own.
//!
//! Knows: an object's memory at one moment. Does not know: what is in it. What one of its fields refers to may have
//! changed without a trace here, where the field refers to the same thing as before.

use pyo3::ffi;
use pyo3::prelude::*;

/// Larger objects are taken to have changed.
const MOST_BYTES: usize = 384;

/// What an object was at one moment.
pub struct Snapshot {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Snapshot {
    /// Nothing is as it was then.
    pub const fn new() -> Self {
        Self { bytes: [0; MOST_BYTES], length: 0 }
    }

    /// The object as it is now.
    #[inline]
    pub fn take(&mut self, object: &Bound<'_, PyAny>) {
        let now = memory(object);
        self.length = now.len();
        if let Some(place) = self.bytes.get_mut(..now.len()) {
            place.copy_from_slice(now);
        }
    }

    /// The same object is as it was.
    #[inline]
    pub fn is_of(&self, object: &Bound<'_, PyAny>) -> bool {
        self.bytes.get(..self.length).is_some_and(|before| !before.is_empty() && before == memory(object))
    }
}

/// An object's own memory.
#[inline]
fn memory<'a>(object: &'a Bound<'_, PyAny>) -> &'a [u8] {
    // SAFETY: a live object is as long as its class says, at least; what is in it is changed with the interpreter held, as the
    // caller does, who runs nothing while the slice lives. Objects are allocated as a whole and cleared, so that there are
    // no bytes which nobody has written.
    unsafe {
        let class = ffi::Py_TYPE(object.as_ptr());
        let length = usize::try_from((*class).tp_basicsize).unwrap_or(0);
        std::slice::from_raw_parts(object.as_ptr().cast::<u8>(), length)
    }
}
