//! `forehand._core.Spans`: what workers have recorded of requests, as the exporter takes it.
//!
//! Knows: the rings behind a descriptor. Does not know: OpenTelemetry. In the supervisor, which makes them, and in the
//! process that exports.

use std::os::fd::RawFd;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use reactor::sys::duplicate_file;
use server::statistics::phase::{ENDINGS, NAMES, NOT_MEASURED};
use server::statistics::spans::{Rings, Span};
use wire::Version;

/// Rings of spans.
#[pyclass(frozen, module = "forehand._core")]
pub struct Spans {
    rings: Rings,
}

#[pymethods]
impl Spans {
    /// So many bytes there must be behind the descriptor.
    #[classattr]
    const BYTES: usize = Rings::BYTES;

    /// Those behind a descriptor, of which a copy is kept.
    #[new]
    fn new(fd: RawFd) -> PyResult<Self> {
        Ok(Self { rings: Rings::open(duplicate_file(fd)?.into())? })
    }

    /// Takes spans out, of each worker at most so many.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.rings.take(most)?.iter().map(|span| shown(py, span)).collect()
    }

    /// Spans for which there was no room, since the rings were made.
    fn dropped(&self) -> u64 {
        self.rings.dropped()
    }
}

fn shown<'py>(py: Python<'py>, span: &Span) -> PyResult<Bound<'py, PyDict>> {
    let one = PyDict::new(py);
    let (method, path) = span.line.split_once(' ').unwrap_or((&span.line, ""));
    one.set_item("trace", span.trace.id)?;
    one.set_item("span", span.trace.span)?;
    one.set_item("parent", span.trace.parent)?;
    one.set_item("link", span.trace.link)?;
    one.set_item("state", &span.state)?;
    one.set_item("began", span.began)?;
    let answer = span.answer;
    one.set_item("status", answer.status)?;
    one.set_item("error", ENDINGS.get(usize::from(answer.ending)).copied().unwrap_or_default())?;
    let version = match answer.version {
        Version::Http10 => 10,
        Version::Http11 => 11,
        Version::Http2 => 20,
    };
    one.set_item("version", version)?;
    one.set_item("https", answer.https)?;
    one.set_item("number", span.number)?;
    one.set_item("process", span.process)?;
    one.set_item("sent", span.sent)?;
    one.set_item("received", span.received)?;
    one.set_item("id", &span.id)?;
    one.set_item("method", method)?;
    one.set_item("path", path)?;
    one.set_item("route", span.route.split_once(' ').map_or("", |(_, route)| route))?;
    let phases = PyDict::new(py);
    for (name, ns) in NAMES.iter().zip(span.spans).filter(|(_, ns)| *ns != NOT_MEASURED) {
        phases.set_item(name, ns)?;
    }
    one.set_item("phases", phases)?;
    Ok(one)
}
