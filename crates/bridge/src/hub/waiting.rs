//! How a greenlet waits for its connection: it lets the hub run until there is an edge.
//!
//! Knows: who waits for which connection. Does not know: what for. Runs on the hub's thread.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use server::engine::Stage;
use server::exchange::Exchange;
use wire::Millis;

use crate::controls::in_use;
use crate::event_loop::EventLoop;
use crate::ffi::GilCell;
use crate::wsgi::Scheduler;

/// The greenlets that wait for a connection.
pub struct Waiting {
    event_loop: Arc<EventLoop>,
    waiters: GilCell<HashMap<u64, Vec<Py<PyAny>>>>,
    hub: Py<PyAny>,
    /// `hub.switch`: others run until this greenlet is switched to.
    switch: Py<PyAny>,
    current: Py<PyAny>,
    exit: Py<PyAny>,
}

impl Waiting {
    pub fn new(hub: &Bound<'_, PyAny>, event_loop: Arc<EventLoop>) -> PyResult<Self> {
        let greenlet = hub.py().import("greenlet")?;
        Ok(Self {
            event_loop,
            waiters: GilCell::new(HashMap::new()),
            hub: hub.clone().unbind(),
            switch: hub.getattr("switch")?.unbind(),
            current: greenlet.getattr("getcurrent")?.unbind(),
            exit: greenlet.getattr("GreenletExit")?.unbind(),
        })
    }

    /// True while somebody waits for this connection.
    pub fn any(&self, py: Python<'_>, token: u64) -> bool {
        self.waiters.borrow(py).is_some_and(|waiters| waiters.contains_key(&token))
    }

    /// Runs those who wait for a connection. Called in the hub.
    pub fn wake(&self, py: Python<'_>, token: u64) {
        let all: Vec<Py<PyAny>> = match self.waiters.borrow(py).as_ref().and_then(|all| all.get(&token)) {
            Some(waiters) => waiters.iter().map(|one| one.clone_ref(py)).collect(),
            None => return,
        };
        for one in all {
            // Another one may have ended it meanwhile.
            if self.waits(py, token, &one)
                && let Err(error) = one.bind(py).call_method0(intern!(py, "switch"))
            {
                error.print(py);
            }
        }
    }

    fn waits(&self, py: Python<'_>, token: u64, greenlet: &Py<PyAny>) -> bool {
        self.waiters
            .borrow(py)
            .is_some_and(|all| all.get(&token).is_some_and(|these| these.iter().any(|it| it.is(greenlet))))
    }

    fn leave(&self, py: Python<'_>, token: u64, greenlet: &Bound<'_, PyAny>) {
        let Some(mut all) = self.waiters.borrow(py) else { return };
        let Some(these) = all.get_mut(&token) else { return };
        if let Some(at) = these.iter().position(|it| it.is(greenlet)) {
            these.swap_remove(at);
        }
        if these.is_empty() {
            all.remove(&token);
        }
    }
}

impl Scheduler for Waiting {
    fn suspend(&self, py: Python<'_>, token: u64, until: Millis) -> PyResult<()> {
        let greenlet = self.current.bind(py).call0()?;
        if greenlet.is(&self.hub) {
            return Err(PyRuntimeError::new_err(
                "this would wait for a client in gevent's hub; do it in a greenlet (gevent.spawn)",
            ));
        }
        {
            let mut waiters = self.waiters.borrow(py).ok_or_else(in_use)?;
            waiters.entry(token).or_default().push(greenlet.clone().unbind());
            match until {
                0 => self.event_loop.wake_soon(py, token),
                until => self.event_loop.wake_at(py, token, until),
            }
        }
        let switched = self.switch.bind(py).call0();
        self.leave(py, token, &greenlet);
        switched.map(|_| ())
    }

    fn watch(&self, py: Python<'_>, exchange: &mut Exchange) {
        self.event_loop.watch(py, exchange);
    }

    fn has_killed(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.event_loop.engine.stage() != Stage::Serving && error.is_instance(py, self.exit.bind(py))
    }
}
