//! Objects of Python that are made once: what every request uses, and what scopes get copies of.
//!
//! Knows: their names. Does not know: requests. Runs on the event loop's thread, at its start.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use super::awaitable::Done;
use super::scope::Common;
use crate::url::name_and_port;

/// Objects of Python that every request uses.
pub struct Constants {
    pub event_loop: Py<PyAny>,
    pub create_future: Py<PyAny>,
    pub task: Py<PyType>,
    /// Names of the task's arguments: the loop, and whether it begins at once (Python 3.12) or
    /// what its name is.
    pub task_names: Py<PyTuple>,
    pub eager: Option<Py<PyAny>>,
    /// They are those of the standard library, in C, so that what has become of one shows in its memory.
    pub tasks_are_plain: bool,
    pub cancelled: Py<PyAny>,
    pub done: Py<PyAny>,
    pub request_event: Py<PyDict>,
    pub disconnect_event: Py<PyDict>,
}

impl Constants {
    pub fn new(event_loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = event_loop.py();
        let asyncio = py.import(intern!(py, "asyncio"))?;
        let eager = py.version_info() >= (3, 12);
        let task = asyncio.getattr("Task")?.cast_into::<PyType>()?;
        let tasks_are_plain = task.module().is_ok_and(|name| name == "_asyncio");
        let names = if eager { vec!["loop", "eager_start"] } else { vec!["loop", "name"] };
        let request_event = PyDict::new(py);
        request_event.set_item("type", "http.request")?;
        request_event.set_item("body", PyBytes::new(py, b""))?;
        request_event.set_item("more_body", false)?;
        let disconnect_event = PyDict::new(py);
        disconnect_event.set_item("type", "http.disconnect")?;
        Ok(Self {
            event_loop: event_loop.clone().unbind(),
            create_future: event_loop.getattr("create_future")?.unbind(),
            task: task.unbind(),
            tasks_are_plain,
            task_names: interned(py, &names)?,
            eager: eager
                .then(|| true.into_pyobject(py).map(|it| it.to_owned().into_any().unbind()))
                .transpose()?,
            cancelled: asyncio.getattr("CancelledError")?.unbind(),
            done: Bound::new(py, Done)?.into_any().unbind(),
            request_event: request_event.unbind(),
            disconnect_event: disconnect_event.unbind(),
        })
    }
}

/// A tuple of interned names, as the calling convention wants keywords.
fn interned(py: Python<'_>, names: &[&str]) -> PyResult<Py<PyTuple>> {
    let names: Vec<_> = names.iter().map(|name| pyo3::types::PyString::intern(py, name)).collect();
    Ok(PyTuple::new(py, names)?.unbind())
}

/// What scopes get copies of.
pub fn common(py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<Common> {
    let asgi = PyDict::new(py);
    asgi.set_item("version", "3.0")?;
    asgi.set_item("spec_version", "2.4")?;
    let extensions = PyDict::new(py);
    for name in ["pathsend", "zerocopysend", "trailers", "early_hint"] {
        extensions.set_item(format!("http.response.{name}"), PyDict::new(py))?;
    }
    let websocket_extensions = PyDict::new(py);
    websocket_extensions.set_item("websocket.http.response", PyDict::new(py))?;
    Ok(Common {
        asgi: asgi.unbind(),
        extensions: extensions.unbind(),
        websocket_extensions: websocket_extensions.unbind(),
        // The dictionary itself: what the lifespan adds to it is for every request.
        state: state.clone().unbind(),
    })
}

/// `(host, port)` of a listener; `(path, None)` of a unix socket.
pub fn address<'py>(py: Python<'py>, url: &str) -> PyResult<Bound<'py, PyTuple>> {
    if let Some(path) = url.strip_prefix("unix:") {
        return (path, py.None()).into_pyobject(py);
    }
    let (host, port) = name_and_port(url);
    (host, port.parse::<u16>().unwrap_or(0)).into_pyobject(py)
}
