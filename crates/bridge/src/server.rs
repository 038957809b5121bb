//! `forehand._core.Server`: an engine with its threads, as Python sees it.
//!
//! Knows: how the pieces are put together and stopped. Does not know: options' sources or
//! signals (Python does). Runs on the thread that calls it, usually the main thread.

use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::pool::Threads;

use crate::controls::Controls;
use crate::request_id::Names;
use crate::settings::{Listeners, Settings};
use crate::wsgi::{Wsgi, gateways};

/// Between two looks for a signal while waiting.
const JOIN_LOOK: Duration = Duration::from_millis(200);

/// One WSGI server over listeners that Python keeps open.
#[pyclass(frozen, extends = Controls, module = "forehand._core")]
pub struct Server {
    threads: Arc<Threads<Wsgi>>,
    fileno: RawFd,
    /// Rings when a request is overdue.
    wakeup: UnixStream,
}

#[pymethods]
impl Server {
    /// `listeners`: descriptor, URL and kind of each. `settings`: a mapping of the names in
    /// `forehand.settings`.
    #[new]
    fn new(
        py: Python<'_>,
        application: Py<PyAny>,
        listeners: Listeners,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = Settings::read(settings)?;
        let called_with = (gateways(py, &listeners, &settings)?, Names::new(py, &settings.config));
        let (threads, watch_routes) = (settings.threads, settings.watch_routes);
        let turn = settings.into_loop(&listeners)?;
        let fileno = turn.fileno();
        let wakeup = turn.engine().deadlines.listen()?;
        let wsgi = Wsgi::new(application, called_with, watch_routes);
        let controls = Controls::new(turn.engine());
        let server = Self { threads: Threads::new(wsgi, turn, threads), fileno, wakeup };
        Ok(PyClassInitializer::from(controls).add_subclass(server))
    }

    /// Starts the threads; returns at once.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        reactor::sys::give_back_memory();
        crate::ffi::set_switch_interval(py)?;
        crate::slices::tell(&self.threads.engine.log);
        if self.threads.engine.config.limits.concurrency > 0 {
            self.threads.engine.log.warn(
                "limit_concurrency is for ASGI applications and does nothing for this one, which is WSGI: \
                 threads and limit_queue are its bounds",
            );
        }
        self.threads.start().map_err(PyOSError::new_err)
    }

    /// A descriptor that can be read when `overdue` has something to tell.
    fn overdue_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }

    /// Requests that have become overdue since the last time: (thread, request line, seconds,
    /// serial), for `interrupt`.
    fn overdue(&self) -> Vec<(u64, String, f64, u64)> {
        let mut rung = [0; 64];
        while (&self.wakeup).read(&mut rung).is_ok_and(|count| count == rung.len()) {}
        let overdue = self.threads.engine.deadlines.take_overdue();
        overdue.into_iter().map(|one| (one.thread, one.line, one.seconds, one.serial)).collect()
    }

    /// Raises an exception in a thread, if it is still inside the request of that serial.
    fn interrupt(&self, thread: u64, serial: u64, exception: &Bound<'_, PyAny>) -> bool {
        // The thread needs the interpreter to leave the application, and this one has it.
        let inside = self.threads.engine.deadlines.is_inside(serial);
        if inside {
            crate::ffi::raise_in_thread(thread, Some(exception));
        }
        inside
    }

    /// Threads that are inside requests that take long, and shall be looked at: (thread, number of the request).
    fn slow(&self) -> Vec<(u64, u64)> {
        self.threads.engine.slow.take_found()
    }

    /// A thread stood there, inside the request of that number.
    fn stands_at(&self, number: u64, place: &str) {
        self.threads.engine.slow.note(number, place);
    }

    /// Routes that have grown most: (route, KiB, requests).
    fn routes(&self) -> Vec<(String, i64, u64)> {
        self.threads.app().routes.as_ref().map_or_else(Vec::new, |routes| routes.most(5))
    }

    /// Waits until every thread has ended, at most `timeout` seconds. True: they have. After
    /// an abort, threads that are stuck in the application are not waited for. Signal
    /// handlers run meanwhile.
    #[pyo3(signature = (timeout = None))]
    fn join(this: PyRef<'_, Self>, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let threads = &this.threads;
        let mut left = timeout.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        loop {
            let slice = left.map_or(JOIN_LOOK, |left| left.min(JOIN_LOOK));
            let done = py.detach(|| threads.join(Some(slice)));
            py.check_signals()?;
            left = left.map(|left| left.saturating_sub(slice));
            if done || left == Some(Duration::ZERO) {
                this.as_super().flush_logs(py);
                return Ok(done);
            }
        }
    }

    /// True once the loop has ended; threads that are stuck in the application may be left.
    fn ended(&self) -> bool {
        self.threads.ended()
    }

    /// What happened how often, by name; and how many threads there are.
    fn counters<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = this.as_super().counters(py)?;
        let (threads, parked) = this.threads.numbers();
        all.set_item("threads", threads)?;
        all.set_item("threads_parked", parked)?;
        Ok(all)
    }

    /// The engine's descriptor, for an event loop that drives it instead of threads.
    fn fileno(&self) -> RawFd {
        self.fileno
    }

    /// Does what is ready on this thread, at most `most` requests; how many it did. None:
    /// a worker thread leads.
    #[pyo3(signature = (most = 64))]
    fn turn(&self, most: usize) -> Option<usize> {
        self.threads.turn(most)
    }
}
