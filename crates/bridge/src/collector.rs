//! What the interpreter's garbage collector does, for the worker's statistics.
//!
//! Knows: `gc.callbacks`. Does not know: how it is counted (`server/statistics/condition.rs`). Runs on whichever thread
//! collects, with the interpreter attached, and raises nothing there: it would be printed for each collection.

use std::sync::atomic::AtomicU64;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::statistics::condition::Collections;

/// What stands in `gc.callbacks`. An application that clears that is counted no more.
#[pyclass(frozen, module = "forehand._core")]
struct CollectionCounter(Collections);

#[pymethods]
impl CollectionCounter {
    fn __call__(&self, phase: &Bound<'_, PyAny>, info: &Bound<'_, PyAny>) {
        let Ok(phase) = phase.cast::<PyString>() else { return };
        if phase == "start" {
            self.0.begins();
        } else if phase == "stop"
            && let Some(generation) = generation(info)
        {
            self.0.ends(generation);
        }
    }
}

/// Other callbacks have the same dictionary, and may have done anything with it.
fn generation(info: &Bound<'_, PyAny>) -> Option<usize> {
    info.cast::<PyDict>().ok()?.get_item(intern!(info.py(), "generation")).ok()??.extract().ok()
}

/// From now on the collections of this process are counted, in a block of its own.
///
/// # Errors
/// Python's, where there is no `gc`.
pub fn watch(py: Python<'_>, words: &'static [AtomicU64]) -> PyResult<()> {
    let counter = Bound::new(py, CollectionCounter(Collections::new(words)))?;
    py.import(intern!(py, "gc"))?
        .getattr(intern!(py, "callbacks"))?
        .call_method1(intern!(py, "append"), (counter,))?;
    Ok(())
}
