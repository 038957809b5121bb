//! Where a forked child that comes back from the application ends.
//!
//! Knows: `forehand.forked`, which ends a process as Python would. Does not know: what the child has done. Runs in the
//! child, attached, on the thread that forked.

use pyo3::exceptions::PyConnectionResetError;
use pyo3::intern;
use pyo3::prelude::*;
use reactor::sys::exit_now;

/// What an application hears that sends to a client who is not there.
pub const LEFT: &str = "the client left before the response was complete";

/// Ends this process, a copy of the one that serves: the application has returned in it, or raised.
#[cold]
pub fn end_child(py: Python<'_>, raised: Option<&PyErr>) -> ! {
    // Nobody here has a client, which is what the application has been told, and no failure of its own.
    let untold = |error: &&PyErr| {
        !(error.is_instance_of::<PyConnectionResetError>(py) && error.value(py).to_string() == LEFT)
    };
    let error = raised.filter(untold).map(|error| error.value(py));
    let ended = py
        .import(intern!(py, "forehand.forked"))
        .and_then(|forked| forked.call_method1(intern!(py, "leave"), (error,)));
    // It does not return; if it raises, nothing more can be done in order.
    drop(ended);
    exit_now(1);
}

/// Makes the calling thread one that `threading` knows: threads that an application starts in it are waited for at the
/// end, and a child that is forked in it has a main thread.
pub fn register_with_threading(py: Python<'_>) {
    let told = py
        .import(intern!(py, "forehand.forked"))
        .and_then(|forked| forked.call_method0(intern!(py, "known_to_threading")));
    if let Err(error) = told {
        error.print(py);
    }
}

/// True where another greenlet than this one has forked: this one has been copied with it, and shall not go on here.
#[cold]
pub fn is_bystander(py: Python<'_>) -> bool {
    let asked = py
        .import(intern!(py, "forehand.forked"))
        .and_then(|forked| forked.call_method0(intern!(py, "is_bystander")));
    asked.is_ok_and(|answer| answer.is_truthy().unwrap_or(false))
}

/// The same as [`end_child`] for a coroutine that wants to wait: its event loop is its parent's.
#[cold]
pub fn would_wait(py: Python<'_>) -> ! {
    let error = pyo3::exceptions::PyRuntimeError::new_err(
        "a child that was forked in a coroutine cannot wait in its parent's event loop: end it with os._exit(), or use \
         multiprocessing, subprocess or a thread",
    );
    end_child(py, Some(&error))
}
