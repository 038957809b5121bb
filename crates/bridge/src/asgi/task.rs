//! The coroutine of a request's task: it passes each step on to the application's own, so that its end is known
//! without a callback.
//!
//! Knows: when an application begins, waits, goes on and ends. Does not know: events. Runs on the event loop's
//! thread.

use pyo3::exceptions::{PyKeyboardInterrupt, PyStopIteration, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use server::statistics::phase::NO_SLOT;
use server::statistics::step_clock::StepClock;
use wire::ws::code;

use super::awaitable::{stopped, thrown};
use super::reply::Http;
use super::request::{Conversation, Request, busy};
use super::websocket::Stage;
use crate::current::{self, CurrentRequest};
use crate::disconnect::is_from_disconnect;
use crate::failure;
use crate::ffi::{Stepped, is_coroutine, step};
use crate::forked;
use crate::told_route::said_in_scope;

impl Request {
    /// Takes what the application returned: a coroutine, or something else that can be awaited.
    pub fn begin(&self, returned: Bound<'_, PyAny>) -> PyResult<()> {
        let py = returned.py();
        let coroutine = if is_coroutine(&returned) {
            returned
        } else {
            returned.call_method0(intern!(py, "__await__")).map_err(|_| {
                let kind =
                    returned.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string());
                PyTypeError::new_err(format!(
                    "the application returned {kind}, which cannot be awaited: an ASGI 3 application is \
                     `async def app(scope, receive, send)`"
                ))
            })?
        };
        self.state.borrow(py).ok_or_else(busy)?.coroutine = Some(coroutine.unbind());
        Ok(())
    }

    /// One step of the application.
    fn advance<'py>(
        this: &Bound<'py, Self>,
        drive: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Stepped<'py>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = this.py();
        let engine = &this.get().requests.shared.engine;
        let (coroutine, is_first, measured, slot) = {
            let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
            let is_first = matches!(state.clock, StepClock::New);
            let measured = state.step_begins();
            (state.coroutine.as_ref().map(|it| it.clone_ref(py)), is_first, measured, state.slot())
        };
        let Some(coroutine) = coroutine else { return Err(stopped(None)) };
        if is_first {
            current::begins(this.as_any());
        }
        let driven = {
            let _step = this.get().requests.shared.event_loop.heartbeat.step();
            engine.stepping.set(slot);
            drive(coroutine.bind(py))
        };
        engine.stepping.set(NO_SLOT);
        if measured && let Some(mut state) = this.get().state.borrow(py) {
            state.clock.step_ends();
        }
        if engine.is_a_copy() {
            match driven {
                Ok(Stepped::Yielded(_)) => forked::would_wait(py),
                Ok(Stepped::Returned) => forked::end_child(py, None),
                Err(error) => forked::end_child(py, Some(&error)),
            }
        }
        match driven {
            Ok(Stepped::Yielded(waits)) => {
                this.get().suspended(py);
                Ok(Some(waits))
            }
            Ok(Stepped::Returned) => {
                if is_first {
                    this.get().requests.in_one_step.note();
                }
                Self::ended(this, None)?;
                Ok(None)
            }
            Err(error) => {
                Self::ended(this, Some(error))?;
                Ok(None)
            }
        }
    }

    /// Goes on with what the event loop has sent. None: it is over.
    pub(super) fn send_in<'py>(
        this: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Self::advance(this, |coroutine| step(coroutine, value))
    }

    /// It waits for something: from now on events of its connection matter.
    fn suspended(&self, py: Python<'_>) {
        let Some(mut state) = self.state.borrow(py) else { return };
        if state.watched {
            return;
        }
        state.watched = true;
        self.requests.in_one_step.reset();
        let exchange = match &mut state.conversation {
            Conversation::Http(http) => Some(&mut http.exchange),
            Conversation::WebSocket(socket) => socket.exchange.as_mut(),
            Conversation::Over { .. } => None,
        };
        if let Some(exchange) = exchange {
            self.requests.shared.event_loop.watch(py, exchange);
        }
    }

    /// The application has returned or raised. An error that is the event loop's business is
    /// passed on; others are told here.
    fn ended(this: &Bound<'_, Self>, error: Option<PyErr>) -> PyResult<()> {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let (conversation, coroutine, task, place, waiters) = {
            let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
            let (conversation, waiters) = match &mut state.conversation {
                // It goes on until it is closed in order, and stays where its events find it.
                Conversation::WebSocket(_) => (Conversation::Over { gone: false }, Vec::new()),
                // Its reply is not complete, and will not be: tasks that it has left behind hear so.
                Conversation::Http(_) => {
                    let over = Conversation::Over { gone: true };
                    (std::mem::replace(&mut state.conversation, over), state.all_waiters())
                }
                Conversation::Over { gone } => (Conversation::Over { gone: *gone }, Vec::new()),
            };
            // One that ends before its task is known to us must not keep it.
            let place = std::mem::replace(&mut state.place, usize::MAX);
            (conversation, state.coroutine.take(), state.task.take(), place, waiters)
        };
        requests.leave(py, place);
        let cancelled =
            error.as_ref().is_some_and(|error| error.is_instance(py, shared.constants.cancelled.bind(py)));
        let was_websocket = Self::websocket_ended(this, error.as_ref(), cancelled);
        match conversation {
            Conversation::Http(http) => requests.conclude(py, *http, error.as_ref(), cancelled),
            _ if was_websocket => {}
            Conversation::WebSocket(_) => {}
            Conversation::Over { gone } => {
                if let Some(error) = &error
                    && !cancelled
                    && !(gone && is_from_disconnect(py, error))
                {
                    failure::tell(py, &after(this, "after its response was complete"), error);
                }
            }
        }
        shared.resolve_all(py, &waiters);
        drop((coroutine, task));
        match error {
            Some(error) if cancelled || error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
            _ => Ok(()),
        }
    }

    /// The application of a WebSocket has returned or raised. False: it is none.
    fn websocket_ended(this: &Bound<'_, Self>, error: Option<&PyErr>, cancelled: bool) -> bool {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let (unanswered, untold) = {
            let Some(mut state) = this.get().state.borrow(py) else { return false };
            let Conversation::WebSocket(socket) = &mut state.conversation else { return false };
            let gone = socket.ended.is_some() && !socket.by_us;
            let unanswered = match socket.stage {
                Stage::Connecting { .. } if !socket.is_gone() => {
                    socket.exchange.take().map(|exchange| Http::new(exchange, shared.builder(py)))
                }
                Stage::Denying => socket.denial.take().map(|http| *http),
                _ => None,
            };
            if unanswered.is_some() {
                // What tasks that are left behind hear.
                socket.stage = Stage::Over;
                socket.note_end(code::ABNORMAL, "");
            }
            if let Some(exchange) = &mut socket.exchange
                && error.is_some()
                && !(cancelled || gone || exchange.is_broken())
            {
                exchange.is_cut_off();
            }
            let code = if error.is_none() { code::NORMAL } else { code::INTERNAL };
            socket.close(code, "", shared, py);
            (unanswered, error.filter(|error| !(cancelled || gone && is_from_disconnect(py, error))))
        };
        match (unanswered, untold) {
            (Some(http), _) => requests.conclude(py, http, error, cancelled),
            (None, Some(error)) => failure::tell(py, &after(this, "a WebSocket"), error),
            (None, None) => {}
        }
        Self::websocket_moved(this);
        true
    }

    /// It could not be called: nothing runs that would end it.
    pub fn failed_to_begin(&self, py: Python<'_>, error: &PyErr) {
        let taken = self.state.borrow(py).map(|mut state| {
            (
                std::mem::replace(&mut state.conversation, Conversation::Over { gone: false }),
                std::mem::replace(&mut state.place, usize::MAX),
            )
        });
        let Some((conversation, place)) = taken else { return };
        self.requests.leave(py, place);
        match conversation {
            Conversation::Http(http) => self.requests.conclude(py, *http, Some(error), false),
            Conversation::WebSocket(mut socket) => {
                if let Some(exchange) = socket.exchange.take() {
                    let http = Http::new(exchange, self.requests.shared.builder(py));
                    self.requests.conclude(py, http, Some(error), false);
                }
            }
            Conversation::Over { .. } => {}
        }
    }
}

/// Which request has failed after its exchange was handed back, and when in its life.
#[cold]
fn after(this: &Bound<'_, Request>, what: &str) -> String {
    let about = this.get().state.borrow(this.py()).and_then(|mut state| state.about.take());
    match about {
        Some(about) => format!("{about}, {what}"),
        None => what.to_string(),
    }
}

#[pymethods]
impl Request {
    /// What is known of it now, for its task and those that it has started. Any thread that is given its context asks.
    #[pyo3(name = "forehand_request")]
    fn asked(&self, py: Python<'_>) -> PyResult<Option<CurrentRequest>> {
        let config = &self.requests.shared.engine.config;
        let Some((found, scope)) = self.so_far(py, config) else { return Ok(None) };
        let told = || said_in_scope(scope?.bind(py));
        CurrentRequest::new(py, &found, config, told).map(Some)
    }

    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    pub(super) fn __next__<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let none = this.py().None().into_bound(this.py());
        Self::advance(this, |coroutine| step(coroutine, &none))
    }

    fn send<'py>(this: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::send_in(this, value)?.ok_or_else(|| stopped(None))
    }

    #[pyo3(signature = (kind, value = None, _trace = None))]
    pub(super) fn throw<'py>(
        this: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        _trace: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let error = thrown(kind, value);
        let advanced = Self::advance(this, |coroutine| {
            match coroutine.call_method1(intern!(py, "throw"), (error.value(py),)) {
                Ok(waits) => Ok(Stepped::Yielded(waits)),
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(Stepped::Returned),
                Err(error) => Err(error),
            }
        })?;
        advanced.ok_or_else(|| stopped(None))
    }

    pub(super) fn close(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        let coroutine =
            this.get().state.borrow(py).ok_or_else(busy)?.coroutine.as_ref().map(|it| it.clone_ref(py));
        let Some(coroutine) = coroutine else { return Ok(()) };
        coroutine.bind(py).call_method0(intern!(py, "close"))?;
        // Nothing else would end it: what it has waited for may never come.
        Self::ended(this, None)
    }

    /// What `inspect` asks of a coroutine is the application's own: `cr_frame`, `cr_running`,
    /// `cr_suspended`, `cr_await`, `cr_code`, and its name.
    pub(super) fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let coroutine = self.state.borrow(py).ok_or_else(busy)?.coroutine.as_ref().map(|it| it.clone_ref(py));
        match coroutine {
            Some(coroutine) if name.starts_with("cr_") || name.starts_with("__") => {
                coroutine.bind(py).getattr(name)
            }
            _ => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "a request has no attribute '{name}'"
            ))),
        }
    }
}
