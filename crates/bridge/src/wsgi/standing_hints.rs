//! The function for hints that stands in a dictionary of which `environ` is a copy.
//!
//! Knows: whose it is, and how often it was another one's that was wanted. Does not know: requests. Whichever thread
//! makes an `environ`; whoever forgets a head drops it.
//!
//! To set a key costs more than all else that is done for hints. Of the threads that make copies of a dictionary most
//! often one is the one that leads: it need not set what stands there already.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::early_hints::EarlyHints;
use crate::ffi::{GilCell, set_item};

/// So often another one was wanted before that one stands there.
const OFTEN: u32 = 8;

/// What stands in one dictionary.
pub struct StandingHints(GilCell<Standing>);

#[derive(Default)]
struct Standing {
    hints: Option<Py<EarlyHints>>,
    others: u32,
}

impl Default for StandingHints {
    fn default() -> Self {
        Self(GilCell::new(Standing::default()))
    }
}

impl StandingHints {
    /// Sees to it that these stand in `environ`, which is a copy of `dict`.
    #[inline]
    pub fn set(
        &self,
        (dict, environ): (&Bound<'_, PyDict>, &Bound<'_, PyDict>),
        hints: &Bound<'_, EarlyHints>,
    ) -> PyResult<()> {
        if let Some(standing) = self.0.borrow(environ.py())
            && standing.hints.as_ref().is_some_and(|known| known.as_ptr() == hints.as_ptr())
        {
            return Ok(());
        }
        self.set_others((dict, environ), hints)
    }

    /// The same, where other ones stand there, or none.
    #[inline(never)]
    fn set_others(
        &self,
        (dict, environ): (&Bound<'_, PyDict>, &Bound<'_, PyDict>),
        hints: &Bound<'_, EarlyHints>,
    ) -> PyResult<()> {
        let key = intern!(environ.py(), "wsgi.early_hints");
        set_item(environ, key, hints)?;
        let before = match self.0.borrow(environ.py()) {
            Some(mut standing) if standing.others >= OFTEN => {
                set_item(dict, key, hints)?;
                hints.get().stands(true);
                standing.others = 0;
                standing.hints.replace(hints.clone().unbind())
            }
            Some(mut standing) => {
                standing.others += 1;
                None
            }
            None => None,
        };
        if let Some(before) = before {
            before.get().stands(false);
        }
        Ok(())
    }

    /// Sees to it that none that reach a client stand in `environ`, which is a copy.
    #[inline]
    pub fn unset(&self, environ: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = environ.py();
        let stands = self.0.borrow(py).is_none_or(|standing| standing.hints.is_some());
        if !stands {
            return Ok(());
        }
        let nobodys = Bound::new(py, EarlyHints::for_nobody())?;
        set_item(environ, intern!(py, "wsgi.early_hints"), &nobodys)
    }
}

impl Drop for StandingHints {
    /// It is counted before the references are given back: one that is counted too few is taken for one that an application
    /// has kept, which costs another function, and one too many would hide one that was.
    fn drop(&mut self) {
        if let Some(hints) = &self.0.get_mut().hints {
            hints.get().stands(false);
        }
    }
}
