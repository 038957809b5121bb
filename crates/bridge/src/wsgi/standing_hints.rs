//! The function for hints that stands in a dictionary of which `environ` is a copy, and such a copy that was left as it was
//! made.
//!
//! Knows: whose function it is, and how often it was another one's that was wanted. Does not know: requests. Whichever thread
//! makes an `environ`; whoever forgets a head drops it.
//!
//! To set a key costs more than all else that is done for hints. Of the threads that make copies of a dictionary most
//! often one is the one that leads: it need not set what stands there already. And to make a copy, and to drop it, is a sixth of
//! what a request costs outside of the kernel, which the next one is spared if the application has changed nothing.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::early_hints::EarlyHints;
use crate::ffi::{GilCell, copy_dict, set_item};

/// So often another one was wanted before that one stands there.
const OFTEN: u32 = 8;
/// What refers to hints that stand in a dictionary: this, and the dictionary; and a copy that is left.
const STANDING: isize = 2;
const LEFT: isize = 1;

/// What stands in one dictionary.
pub struct StandingHints(GilCell<Standing>);

#[derive(Default)]
struct Standing {
    hints: Option<Py<EarlyHints>>,
    others: u32,
    /// A copy with these hints, but for the keys that each request sets.
    left: Option<Py<PyDict>>,
}

impl Standing {
    fn stands(&self, hints: &Bound<'_, EarlyHints>) -> bool {
        self.hints.as_ref().is_some_and(|known| known.as_ptr() == hints.as_ptr())
    }

    /// It is counted before the references are given back: one that is counted too few is taken for one that an application
    /// has kept, which costs another function, and one too many would hide one that was.
    fn counts_no_more(&self) {
        if let Some(hints) = &self.hints {
            let left = if self.left.is_some() { LEFT } else { 0 };
            hints.get().is_referred_to(-STANDING - left);
        }
    }
}

impl Default for StandingHints {
    fn default() -> Self {
        Self(GilCell::new(Standing::default()))
    }
}

impl StandingHints {
    /// A copy of `dict` in which these stand; and whether it is as another one would be, so that it may be left.
    #[inline]
    pub fn copy<'py>(
        &self,
        dict: &Bound<'py, PyDict>,
        hints: &Bound<'py, EarlyHints>,
    ) -> PyResult<(Bound<'py, PyDict>, bool)> {
        let py = dict.py();
        if let Some(mut standing) = self.0.borrow(py)
            && standing.stands(hints)
        {
            if let Some(left) = standing.left.take() {
                hints.get().is_referred_to(-LEFT);
                return Ok((left.into_bound(py), true));
            }
            return Ok((copy_dict(dict)?, true));
        }
        let environ = copy_dict(dict)?;
        self.set_others((dict, &environ), hints)?;
        Ok((environ, false))
    }

    /// One that [`StandingHints::copy`] has made, with the same hints, and that nobody has changed or kept.
    #[inline]
    pub fn leave(&self, environ: Bound<'_, PyDict>, hints: &Bound<'_, EarlyHints>) {
        if let Some(mut standing) = self.0.borrow(environ.py())
            && standing.left.is_none()
            && standing.stands(hints)
        {
            hints.get().is_referred_to(LEFT);
            standing.left = Some(environ.unbind());
        }
    }

    /// Sets them where other ones stand in the dictionary, or none.
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
                hints.get().is_referred_to(STANDING);
                let new = Standing { hints: Some(hints.clone().unbind()), others: 0, left: None };
                Some(std::mem::replace(&mut *standing, new))
            }
            Some(mut standing) => {
                standing.others += 1;
                None
            }
            None => None,
        };
        if let Some(before) = before {
            before.counts_no_more();
        }
        Ok(())
    }

    /// A copy of `dict` in which none stand that reach a client.
    #[inline]
    pub fn copy_without<'py>(&self, dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let py = dict.py();
        let environ = copy_dict(dict)?;
        let stands = self.0.borrow(py).is_none_or(|standing| standing.hints.is_some());
        if stands {
            let nobodys = Bound::new(py, EarlyHints::for_nobody())?;
            set_item(&environ, intern!(py, "wsgi.early_hints"), &nobodys)?;
        }
        Ok(environ)
    }
}

impl Drop for StandingHints {
    fn drop(&mut self) {
        self.0.get_mut().counts_no_more();
    }
}
