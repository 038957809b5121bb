//! `wsgi.file_wrapper`: a file as a response, without its bytes passing through Python.
//!
//! Knows: PEP 3333, "Optional Platform-Specific File Handling". Does not know: sendfile(2)
//! itself (`reactor` does). Runs on the thread that calls the application.

use std::os::fd::RawFd;

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use reactor::sys::duplicate_file;
use server::exchange::Gone;

use super::reply::{Failure, Reply};

/// A file-like object as an iterable of blocks. Where it is an ordinary file and reaches the
/// server as it is, the kernel sends it.
#[pyclass(frozen, module = "forehand._core")]
pub struct FileWrapper {
    #[pyo3(get)]
    filelike: Py<PyAny>,
    #[pyo3(get)]
    blksize: usize,
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, blksize = 8192))]
    fn new(filelike: Py<PyAny>, blksize: usize) -> Self {
        Self { filelike, blksize: blksize.max(1) }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let block = self.filelike.bind(py).call_method1(intern!(py, "read"), (self.blksize,))?;
        Ok(if block.is_truthy()? { Some(block) } else { None })
    }

    /// Closes the file, if it can be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.filelike.bind(py).getattr(intern!(py, "close")) {
            Ok(close) => close.call0().map(|_| ()),
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl FileWrapper {
    /// Sends the file by the kernel. False: it is not one that can be, so iterate.
    pub fn send(&self, py: Python<'_>, reply: &Reply) -> Result<bool, Failure> {
        let Some(mut draft) = reply.draft.borrow(py) else { return Ok(false) };
        if !draft.started {
            return Ok(false);
        }
        let Some((fd, offset)) = self.plain_file(py)? else { return Ok(false) };
        // A copy of the descriptor, for `close()` may be called before the last byte is out.
        let Ok(file) = duplicate_file(fd) else { return Ok(false) };
        let Ok(metadata) = file.metadata() else { return Ok(false) };
        if !metadata.is_file() {
            return Ok(false);
        }
        let length = metadata.len().saturating_sub(offset);
        let builder = &mut draft.builder;
        let engine = &reply.engine;
        let sent = reply.exchange.with(py, |exchange| -> Result<bool, Gone> {
            if !exchange.is_unanswered() {
                return Ok(false);
            }
            exchange.start(builder, Some(length), engine);
            exchange.file(builder, file, (offset, length), engine)?;
            exchange.finish(builder, engine)?;
            Ok(true)
        });
        Ok(sent.unwrap_or(Ok(false))?)
    }

    /// Descriptor and position of an ordinary binary file. Only the types of `io` themselves
    /// count: a compressed or decrypted file has a descriptor too, of other bytes than it reads.
    fn plain_file(&self, py: Python<'_>) -> PyResult<Option<(RawFd, u64)>> {
        let io = py.import(intern!(py, "io"))?;
        let mut file = self.filelike.bind(py).clone();
        // `tempfile` wraps its files in an object that passes everything on.
        if let Ok(inner) = file.getattr(intern!(py, "file"))
            && file.get_type().name()?.to_string_lossy() == "_TemporaryFileWrapper"
        {
            file = inner;
        }
        let raw = if file.get_type().is(&io.getattr(intern!(py, "FileIO"))?) {
            file.clone()
        } else if file.get_type().is(&io.getattr(intern!(py, "BufferedReader"))?)
            || file.get_type().is(&io.getattr(intern!(py, "BufferedRandom"))?)
        {
            file.getattr(intern!(py, "raw"))?
        } else {
            return Ok(None);
        };
        if !raw.get_type().is(&io.getattr(intern!(py, "FileIO"))?) {
            return Ok(None);
        }
        let position = || -> PyResult<(RawFd, u64)> {
            let fd = file.call_method0(intern!(py, "fileno"))?.extract()?;
            let at = file.call_method0(intern!(py, "tell"))?.extract()?;
            Ok((fd, at))
        };
        // A pipe has no position, a closed file no descriptor: reading it says what is wrong.
        Ok(position().ok())
    }
}
