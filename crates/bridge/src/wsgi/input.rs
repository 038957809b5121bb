//! `wsgi.input`: a request body as a binary file that ends where the body does.
//!
//! Knows: the methods that PEP 3333 names. Does not know: framing, which is undone already.
//! Runs on whichever thread the application reads from.

use std::io::Read;
use std::sync::{Arc, Mutex, TryLockError};

use pyo3::exceptions::{PyConnectionResetError, PyOSError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use server::body::{Body, Spooled};
use server::incoming::{BodyError, Incoming};
use server::spool::Charge;

use super::wait_mode::{ReadError, WaitMode};
use crate::ffi::{bytes_filled, outside};

/// How much is read ahead while looking for the end of a line.
const AHEAD: usize = 16 * 1024;
/// How much of a file is read at once, at the least: the interpreter is let go of for each read,
/// as a disk may be slow, and taking it back may take a while, too.
const FILE_AHEAD: usize = 128 * 1024;

/// The body's file.
#[pyclass(frozen, module = "forehand._core")]
pub struct Input(Mutex<Reading>);

/// Where the bytes come from, and those that were read ahead.
struct Reading {
    source: Source,
    ahead: Vec<u8>,
    at: usize,
    /// What a body in memory counts for, until it has been read.
    held: Charge,
}

enum Source {
    /// Nothing more than what was read ahead.
    Ended,
    File {
        file: Spooled,
        left: u64,
    },
    /// A body that is still arriving, over the connection of that token.
    Stream {
        incoming: Arc<Incoming>,
        token: u64,
        mode: WaitMode,
    },
}

impl Input {
    /// `over`: the token of the body's connection, and how a reader waits for what has not
    /// arrived.
    pub fn new(body: Body, over: (u64, &WaitMode)) -> Self {
        let (mut ahead, mut held) = (Vec::new(), Charge::default());
        let source = match body {
            Body::Empty => Source::Ended,
            Body::Memory(received) => {
                (ahead, held) = received.into_parts();
                Source::Ended
            }
            Body::File(file) => Source::File { left: file.length(), file },
            Body::Stream(incoming) => Source::Stream { incoming, token: over.0, mode: over.1.clone() },
        };
        Self(Mutex::new(Reading { source, ahead, at: 0, held }))
    }

    /// The reading, unless another thread is at it: waiting for that one here could be
    /// waiting for ever, with the interpreter in hand.
    fn reading(&self) -> PyResult<std::sync::MutexGuard<'_, Reading>> {
        match self.0.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("wsgi.input is being read by another thread"))
            }
        }
    }
}

#[pymethods]
impl Input {
    /// Up to `size` bytes, or all that are left.
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyBytes>> {
        let most = wanted(size)?;
        let mut reading = self.reading()?;
        if let Some(all) = reading.straight(py, most) {
            return all;
        }
        while reading.rest().len() < most && reading.more(py, most)? {}
        Ok(reading.give(py, most))
    }

    /// Up to `size` bytes, as many as one look brings: none only at the end.
    #[pyo3(signature = (size = None, /))]
    fn read1<'py>(&self, py: Python<'py>, size: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyBytes>> {
        let most = wanted(size)?;
        let mut reading = self.reading()?;
        if reading.rest().is_empty() && most > 0 {
            reading.more(py, most.min(AHEAD))?;
        }
        Ok(reading.give(py, most))
    }

    /// A line with its newline, or up to `size` bytes of it.
    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(
        &self,
        py: Python<'py>,
        size: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let most = wanted(size)?;
        let mut reading = self.reading()?;
        let length = reading.line(py, most)?;
        Ok(reading.give(py, length))
    }

    /// All lines that are left, or as many as have `hint` bytes together.
    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(
        &self,
        py: Python<'py>,
        hint: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        // A hint of zero means none, as in `io.IOBase`.
        let most = match wanted(hint)? {
            0 => usize::MAX,
            most => most,
        };
        let mut reading = self.reading()?;
        let mut lines = Vec::new();
        let mut total = 0;
        while total < most {
            let length = reading.line(py, usize::MAX)?;
            if length == 0 {
                break;
            }
            total += length;
            lines.push(reading.give(py, length));
        }
        Ok(lines)
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut reading = self.reading()?;
        let length = reading.line(py, usize::MAX)?;
        Ok(if length == 0 { None } else { Some(reading.give(py, length)) })
    }

    fn readable(&self) -> bool {
        true
    }
}

/// A size argument: absent, None and negative numbers ask for everything.
fn wanted(size: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let Some(size) = size.filter(|size| !size.is_none()) else { return Ok(usize::MAX) };
    let number: i128 = size.extract().map_err(|_| {
        let kind = size.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        PyTypeError::new_err(format!("a size must be an int or None, not {kind}"))
    })?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

impl Reading {
    fn rest(&self) -> &[u8] {
        &self.ahead[self.at..]
    }

    /// Reads more behind what is there. False: the body has ended.
    fn more(&mut self, py: Python<'_>, most: usize) -> PyResult<bool> {
        if self.at > 0 {
            self.ahead.drain(..self.at);
            self.at = 0;
        }
        let most = most.saturating_sub(self.ahead.len()).max(1);
        match &mut self.source {
            Source::Ended => Ok(false),
            Source::File { file, left } => {
                let most = (*left).min(most.max(FILE_AHEAD) as u64);
                let ahead = &mut self.ahead;
                let got =
                    outside(|_| file.by_ref().take(most).read_to_end(ahead)).map_err(PyOSError::new_err)?;
                *left -= got as u64;
                Ok(got > 0)
            }
            Source::Stream { incoming, token, mode } => {
                match mode.read(py, (incoming, *token), &mut self.ahead, most) {
                    Ok(got) => Ok(got > 0),
                    Err(ReadError::Body(error)) => Err(body_error(error)),
                    Err(ReadError::Raised(error)) => Err(error),
                }
            }
        }
    }

    /// Much of a file, straight into the object that the application gets; none for anything else.
    fn straight<'py>(&mut self, py: Python<'py>, most: usize) -> Option<PyResult<Bound<'py, PyBytes>>> {
        let wanted = most.checked_sub(self.rest().len())?;
        let Source::File { file, left } = &mut self.source else { return None };
        let wanted = usize::try_from(*left).map_or(wanted, |left| left.min(wanted));
        if wanted <= FILE_AHEAD {
            return None;
        }
        let first = &self.ahead[self.at..];
        let filled = bytes_filled(py, first, wanted, |room| file.read(room));
        if let Ok(bytes) = &filled {
            *left = left.saturating_sub((bytes.as_bytes().len() - first.len()) as u64);
            self.ahead = Vec::new();
            self.at = 0;
        }
        Some(filled)
    }

    /// Length of the next line, read ahead, at most `most`.
    fn line(&mut self, py: Python<'_>, most: usize) -> PyResult<usize> {
        let mut looked = 0;
        loop {
            if let Some(at) = self.rest()[looked..].iter().position(|&byte| byte == b'\n') {
                return Ok((looked + at + 1).min(most));
            }
            looked = self.rest().len();
            if looked >= most || !self.more(py, looked + AHEAD)? {
                return Ok(self.rest().len().min(most));
            }
        }
    }

    /// Hands out bytes that were read ahead.
    fn give<'py>(&mut self, py: Python<'py>, most: usize) -> Bound<'py, PyBytes> {
        let length = self.rest().len().min(most);
        let given = PyBytes::new(py, &self.rest()[..length]);
        self.at += length;
        if self.at == self.ahead.len() {
            self.ahead = Vec::new();
            self.at = 0;
            self.held = Charge::default();
        }
        given
    }
}

fn body_error(error: BodyError) -> PyErr {
    match error {
        BodyError::Incomplete => {
            PyConnectionResetError::new_err("the client left before its request body was complete")
        }
        BodyError::Fault(fault) => PyOSError::new_err(format!("the request body is refused: {}", fault.text)),
        BodyError::Over => PyRuntimeError::new_err("the request has ended; its body can no longer be read"),
        BodyError::Io(error) => PyOSError::new_err(error),
    }
}
