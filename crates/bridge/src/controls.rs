//! `forehand._core.Controls`: what can be said to a running engine, whoever drives it.
//!
//! Knows: the engine. Does not know: threads, event loops, hubs. Any thread that is attached.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::engine::Engine;

use crate::profile::{self, Wanted};
use crate::settings::material;

/// How long a stop waits for lines that are still to be written.
const LOG_PATIENCE: Duration = Duration::from_millis(500);

/// The base of the servers; `_core` makes none by itself.
#[pyclass(frozen, subclass, module = "forehand._core")]
pub struct Controls {
    engine: Arc<Engine>,
}

impl Controls {
    /// Of this engine.
    pub fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::clone(engine) }
    }
}

#[pymethods]
impl Controls {
    /// Begins a graceful stop: what runs is finished, nothing new is taken. May be called
    /// again, and from a signal handler.
    pub fn stop(&self) {
        self.engine.drain();
    }

    /// Lets other workers go on: accepts nothing more, finishes what runs, answers idle
    /// connections once more if they come back in time.
    pub fn retire(&self) {
        self.engine.retire();
    }

    /// The end will come: everybody is answered as before, and each reply is the last of its connection.
    fn announce_end(&self) {
        self.engine.announce_end();
    }

    /// Has the listeners looked at: a connection may wait for a worker that is no more.
    fn check_listeners(&self) {
        self.engine.recheck_listeners();
    }

    /// Ends at once: connections are cut, late threads are not waited for.
    fn abort(&self) {
        self.engine.abort();
    }

    /// Goes on with another file for the access log, of which a copy is kept.
    fn reopen_access_log(&self, fd: RawFd) -> PyResult<()> {
        if let Some(access) = &self.engine.config.access {
            access.log.reopen(fd)?;
        }
        Ok(())
    }

    /// Goes on with other certificates: handshakes that begin from now on have them, connections that are open stay as
    /// they are. ValueError says what cannot be used; then nothing changes.
    fn renew_tls(&self, bytes: &[u8]) -> PyResult<()> {
        let material = material(bytes)?;
        if let Some(porch) = &self.engine.porch {
            porch.renew(&material);
        }
        Ok(())
    }

    /// What happened how often, by name.
    pub fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, value) in self.engine.counted() {
            all.set_item(name, value)?;
        }
        Ok(all)
    }

    /// Looks at this process's stacks for so many seconds, so often a second at most, on a thread that never asks for the
    /// interpreter, and writes what it has found to a copy of the descriptor (`profile/report.rs`). `running`: threads are
    /// looked at that use a processor, and not those that wait inside a request.
    fn profile(&self, fd: RawFd, seconds: f64, rate: u32, running: bool) -> PyResult<()> {
        Ok(profile::start(&self.engine, fd, Wanted { seconds, rate, running })?)
    }

    /// Waits a moment for log lines that are still to be written.
    pub fn flush_logs(&self, py: Python<'_>) {
        py.detach(|| {
            self.engine.log.flush(LOG_PATIENCE);
            if let Some(access) = &self.engine.config.access {
                access.log.flush(LOG_PATIENCE);
            }
        });
    }
}

/// The message where one thing is used twice at once, which one thread cannot do.
pub fn in_use() -> PyErr {
    PyRuntimeError::new_err("the server is in use by another call")
}
