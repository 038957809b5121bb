//! A reply under construction, and why one could not be completed.
//!
//! Knows: what `start_response` has said so far. Does not know: how bytes travel. One [`Reply`] serves one thread
//! for call after call; an application that keeps a function for longer than its call keeps that reply, and the
//! thread makes itself a new one.

use std::sync::Arc;

use pyo3::Borrowed;
use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use server::engine::Engine;
use server::exchange::{Exchange, Gone};
use server::reply_builder::ReplyBuilder;
use wire::{FieldName, HeadError};

use super::kept_heads::KeptHeads;
use super::wait_mode::WaitMode;
use crate::ffi::{GilCell, Loan, text_bytes};

/// One thread's reply under construction.
#[pyclass(frozen, module = "forehand._core")]
pub struct Reply {
    pub exchange: Loan<Exchange>,
    pub draft: GilCell<Draft>,
    pub engine: Arc<Engine>,
    pub mode: WaitMode,
    /// What its application was called with, while its framework may say a route there that is not known yet.
    pub environ: GilCell<Option<Py<PyDict>>>,
}

/// What `start_response` has said so far.
pub struct Draft {
    pub builder: ReplyBuilder,
    /// `start_response` has been called, and its head stands in the builder.
    pub started: bool,
    pub names: JudgedNames,
    pub kept: KeptHeads,
}

impl Draft {
    /// Nothing was said.
    pub fn new() -> Self {
        Self {
            builder: ReplyBuilder::new(),
            started: false,
            names: JudgedNames::default(),
            kept: KeptHeads::default(),
        }
    }
}

/// Header names that were judged before, found by the identity of their string: those of an
/// application are constants. A string that is kept here cannot be another one meanwhile.
#[derive(Default)]
pub struct JudgedNames(Vec<Option<(Py<PyString>, FieldName)>>);

/// How many names are kept.
const KEPT_NAMES: usize = 64;
/// Longer names are not kept.
const KEPT_NAME_BYTES: usize = 64;

impl JudgedNames {
    /// Uses the judgement on a name, made now if it is not kept.
    #[inline]
    pub fn with<R>(
        &mut self,
        name: Borrowed<'_, '_, PyAny>,
        work: impl FnOnce(&FieldName) -> R,
    ) -> PyResult<Result<R, HeadError>> {
        let address = name.as_ptr() as usize;
        let place = (address >> 4 ^ address >> 11) % KEPT_NAMES;
        if let Some(Some((known, judged))) = self.0.get(place)
            && known.as_ptr() == name.as_ptr()
        {
            return Ok(Ok(work(judged)));
        }
        let judged = match text_bytes(name, "a header's name", FieldName::new)? {
            Ok(judged) => judged,
            Err(error) => return Ok(Err(error)),
        };
        let result = work(&judged);
        if let Ok(text) = name.cast_exact::<PyString>()
            && text.len()? <= KEPT_NAME_BYTES
        {
            if self.0.is_empty() {
                self.0.resize_with(KEPT_NAMES, || None);
            }
            self.0[place] = Some((text.to_owned().unbind(), judged));
        }
        Ok(Ok(result))
    }
}

/// Why a reply could not be completed.
pub enum Failure {
    /// The application raised.
    Raised(PyErr),
    /// The application did what PEP 3333 does not allow; the sentence says what.
    Wrong(String),
    /// The client has left.
    Gone,
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Gone> for Failure {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Failure> for PyErr {
    /// As a function that the application has called raises it.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Raised(error) => error,
            Failure::Wrong(what) => PyRuntimeError::new_err(what),
            Failure::Gone => PyConnectionResetError::new_err(crate::forked::LEFT),
        }
    }
}

/// What is raised where early hints would come behind what they are hints for.
#[cold]
pub fn too_late() -> PyErr {
    PyRuntimeError::new_err(
        "early hints are sent before the reply, and its head has gone: call wsgi.early_hints before the body's first part",
    )
}

/// What is raised where a function is used when it must not be.
pub fn over() -> PyErr {
    PyRuntimeError::new_err(
        "the request that this function belongs to has ended, or another thread is using it",
    )
}
