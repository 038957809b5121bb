//! What an application raises because its client has left, which is nobody's failure.
//!
//! Knows: exceptions and what they were raised from. Does not know: whether the client has
//! left, which whoever asks knows already. Runs with the interpreter attached.

use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;

/// How far back the reasons of an exception are looked at.
const REASONS: usize = 8;

/// True for an exception that is, or comes from, what a read or a write of ours has raised.
pub fn is_from_disconnect(py: Python<'_>, error: &PyErr) -> bool {
    let mut next = Some(error.clone_ref(py));
    for _ in 0..REASONS {
        let Some(error) = next else { return false };
        if error.is_instance_of::<PyOSError>(py) {
            return true;
        }
        let value = error.value(py);
        let context = error.cause(py).or_else(|| {
            let context = value.getattr(intern!(py, "__context__")).ok()?;
            (!context.is_none()).then(|| PyErr::from_value(context))
        });
        next = context;
    }
    false
}
