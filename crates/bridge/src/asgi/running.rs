//! Which requests run, and which of them holds a connection.
//!
//! Knows: places and connections' tokens. Does not know: requests. Runs on the event loop's thread.

use pyo3::PyClass;
use pyo3::prelude::*;

use crate::slab::Slab;

/// Requests that run: all of them, and by their connection's slot those that hold one.
pub struct Running<R> {
    all: Slab<Py<R>>,
    by_slot: Vec<Option<(u64, Py<R>)>>,
}

/// A connection's slot is the lower half of its token.
fn slot(token: u64) -> usize {
    (token & 0xffff_ffff) as usize
}

impl<R: PyClass> Running<R> {
    /// A request begins, on the connection of a token. Its place.
    pub fn enter(&mut self, request: &Bound<'_, R>, token: u64) -> usize {
        let slot = slot(token);
        if slot >= self.by_slot.len() {
            self.by_slot.resize_with(slot + 1, || None);
        }
        self.by_slot[slot] = Some((token, request.clone().unbind()));
        self.all.insert(request.clone().unbind())
    }

    /// A request runs no more.
    pub fn leave(&mut self, place: usize) -> Option<Py<R>> {
        self.all.remove(place)
    }

    /// A connection is held by its request no more, which the caller drops.
    pub fn let_go(&mut self, token: u64) -> Option<Py<R>> {
        self.by_slot.get_mut(slot(token))?.take().map(|(_, request)| request)
    }

    /// The request that holds a connection.
    pub fn find(&self, py: Python<'_>, token: u64) -> Option<Py<R>> {
        let (known, request) = self.by_slot.get(slot(token))?.as_ref()?;
        (*known == token).then(|| request.clone_ref(py))
    }

    /// Those that hold a connection.
    pub fn holders(&self, py: Python<'_>) -> Vec<Py<R>> {
        self.by_slot.iter().flatten().map(|(_, request)| request.clone_ref(py)).collect()
    }

    /// All of them, also those whose response is complete.
    pub fn all(&self, py: Python<'_>) -> Vec<Py<R>> {
        self.all.iter().map(|request| request.clone_ref(py)).collect()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

impl<R> Default for Running<R> {
    fn default() -> Self {
        Self { all: Slab::default(), by_slot: Vec::new() }
    }
}
