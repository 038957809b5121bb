//! Whether anybody has changed a dictionary since.
//!
//! Knows: the number that CPython gives a dictionary with each change (PEP 509), from 3.6 to 3.13. Does not know: whose
//! dictionary it is. Where there is no such number, nothing is said of any.

use std::mem::offset_of;
use std::sync::OnceLock;

use pyo3::ffi::{Py_ssize_t, PyDictObject};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The number of a dictionary at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictVersion(u64);

/// Where the number is: behind how many items there are.
const PLACE: usize = offset_of!(PyDictObject, ma_used) + size_of::<Py_ssize_t>();
const _: () = assert!(size_of::<PyDictObject>() >= PLACE + size_of::<u64>());

impl DictVersion {
    /// That of a dictionary now; none where dictionaries have none.
    #[inline]
    pub fn of(dict: &Bound<'_, PyDict>) -> Option<Self> {
        static THERE: OnceLock<bool> = OnceLock::new();
        // Newer ones have another number there, or none that changes.
        (*THERE.get_or_init(|| changes(dict.py()).unwrap_or(false))).then(|| Self::read(dict))
    }

    /// The dictionary is as it was then.
    #[inline]
    pub fn is_of(self, dict: &Bound<'_, PyDict>) -> bool {
        Self::read(dict) == self
    }

    #[inline]
    fn read(dict: &Bound<'_, PyDict>) -> Self {
        // SAFETY: a live dictionary has a word there, of whatever meaning; it is changed with the interpreter held, as we do.
        Self(unsafe { dict.as_ptr().cast::<u8>().add(PLACE).cast::<u64>().read() })
    }
}

/// Each change gives another number, and what changes nothing does not.
fn changes(py: Python<'_>) -> PyResult<bool> {
    let dict = PyDict::new(py);
    let mut seen = vec![DictVersion::read(&dict)];
    let mut is_new = |dict: &Bound<'_, PyDict>| {
        let version = DictVersion::read(dict);
        let new = !seen.contains(&version);
        seen.push(version);
        new
    };
    dict.set_item("a", 1)?;
    let mut all = is_new(&dict);
    dict.set_item("a", 2)?;
    all &= is_new(&dict);
    dict.call_method1("setdefault", ("b", 3))?;
    all &= is_new(&dict);
    dict.call_method1("update", ([("b", 4)],))?;
    all &= is_new(&dict);
    dict.call_method1("pop", ("a",))?;
    all &= is_new(&dict);
    dict.call_method0("popitem")?;
    all &= is_new(&dict);
    dict.set_item("c", 5)?;
    all &= is_new(&dict);
    dict.del_item("c")?;
    all &= is_new(&dict);
    dict.set_item("d", 6)?;
    all &= is_new(&dict);
    dict.clear();
    all &= is_new(&dict);
    dict.set_item("e", 7)?;
    let before = DictVersion::read(&dict);
    dict.get_item("e")?;
    dict.copy()?;
    Ok(all && before.is_of(&dict))
}
