//! Which request a thread works on, for who asks on it: the one that is lent to the thread's reply.
//!
//! Knows: the replies that a thread has made, of which there are more than one only while calls are nested. Does not know:
//! what is asked. Nothing is written for a request: a thread has its reply for all of them. Runs on worker threads.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::reply::Reply;
use crate::current::CurrentRequest;
use crate::told_route;

thread_local! {
    static REPLIES: RefCell<Vec<Py<Reply>>> = const { RefCell::new(Vec::new()) };
}

/// This thread has made itself a reply. Those that it has not come back to are kept.
#[cold]
pub fn note(py: Python<'_>, reply: &Py<Reply>) {
    let (mut kept, left): (Vec<_>, Vec<_>) =
        REPLIES.take().into_iter().partition(|one| one.get().exchange.is_lent(py));
    kept.push(reply.clone_ref(py));
    REPLIES.set(kept);
    drop(left);
}

/// This thread ends.
pub fn forget() {
    drop(REPLIES.take());
}

/// The request that this thread works on.
pub fn request(py: Python<'_>) -> PyResult<Option<CurrentRequest>> {
    let found = REPLIES.with_borrow(|replies| {
        let lent = replies.iter().rfind(|reply| reply.get().exchange.is_lent(py));
        lent.map(|reply| reply.clone_ref(py))
    });
    found.map_or(Ok(None), |reply| reply.get().request(py))
}

impl Reply {
    /// The request that is answered by it now.
    pub fn request(&self, py: Python<'_>) -> PyResult<Option<CurrentRequest>> {
        let config = &self.engine.config;
        let Some(found) = self.exchange.with(py, |exchange| exchange.so_far(config)) else { return Ok(None) };
        let told = || {
            let environ: Py<PyDict> = self.environ.borrow(py)?.as_ref()?.clone_ref(py);
            told_route::said_in_environ(environ.bind(py))
        };
        CurrentRequest::new(py, &found, config, told).map(Some)
    }
}
