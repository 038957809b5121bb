//! One request's conversation with its application: what it may still hear and say, and who waits for either.
//!
//! Knows: who is woken when its connection has an event. Does not know: events' fields and order (`reply.rs`,
//! `receive.rs`, `websocket.rs`), or how its coroutine is driven (`task.rs`). Runs on the event loop's thread.

use std::sync::Arc;

use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::engine::Config;
use server::exchange::{About, SoFar};
use server::in_one_step::InOneStep;
use server::statistics::phase::NO_SLOT;
use server::statistics::step_clock::StepClock;

use super::awaitable::{Attempt, WaitFor};
use super::conclude::conclude;
use super::events::{event, kind_of};
use super::receive::disconnect;
use super::reply::{Http, Refused, Stage};
use super::running::Running;
use super::shared::Shared;
use super::websocket::WebSocket;
use crate::ffi::GilCell;
use crate::{forked, told_route};

/// What the application may still say and hear.
pub enum Conversation {
    Http(Box<Http>),
    WebSocket(Box<WebSocket>),
    /// The response is complete, or will never be; `gone`: the client left before.
    Over {
        gone: bool,
    },
}

/// What belongs to one request.
pub struct State {
    pub conversation: Conversation,
    /// The application's coroutine, or the iterator of what else it returned to be awaited.
    pub coroutine: Option<Py<PyAny>>,
    pub task: Option<Py<PyAny>>,
    /// It has not begun, and others begin before it in the same task.
    waits_in_line: bool,
    /// Futures of those that wait for an event, and for room.
    receivers: Vec<Py<PyAny>>,
    senders: Vec<Py<PyAny>>,
    /// It has suspended, so that its connection is watched.
    pub watched: bool,
    /// Its place among those that run.
    pub place: usize,
    /// What its steps have used of a processor, where that is measured.
    pub clock: StepClock,
    /// Where its framework leaves what it has matched, where that is asked for.
    pub scope: Option<Py<PyDict>>,
    /// Which request it is, once its exchange was handed back before the application has ended.
    pub about: Option<About>,
}

impl State {
    /// The slot in which the statistics say that it is inside; none once its reply is complete.
    #[inline]
    pub fn slot(&self) -> u16 {
        match &self.conversation {
            Conversation::Http(http) => http.exchange.slot(),
            Conversation::WebSocket(socket) => {
                socket.exchange.as_ref().map_or(NO_SLOT, |exchange| exchange.slot())
            }
            Conversation::Over { .. } => NO_SLOT,
        }
    }

    /// Those that wait for this.
    fn waiters(&mut self, what: WaitFor) -> &mut Vec<Py<PyAny>> {
        match what {
            WaitFor::Event => &mut self.receivers,
            WaitFor::Room => &mut self.senders,
        }
    }

    /// Takes all that wait, to be told.
    pub fn all_waiters(&mut self) -> Vec<Py<PyAny>> {
        let mut waiters = std::mem::take(&mut self.receivers);
        waiters.append(&mut self.senders);
        waiters
    }

    /// A step of the application is about to begin. True: its end is to be told. With the first one its time in the
    /// application begins: until then other tasks had their turn.
    #[inline]
    pub fn step_begins(&mut self) -> bool {
        if matches!(self.clock, StepClock::New) {
            let measured = match &mut self.conversation {
                Conversation::Http(http) => http.exchange.begins_now(),
                Conversation::WebSocket(socket) => {
                    if let Some(exchange) = &mut socket.exchange {
                        exchange.begins_now();
                    }
                    (false, false)
                }
                Conversation::Over { .. } => (false, false),
            };
            self.clock.start(measured);
        }
        self.clock.step_begins()
    }
}

/// One request, which is also the coroutine of its task.
#[pyclass(frozen, module = "forehand._core")]
pub struct Request {
    pub requests: Arc<Requests>,
    pub state: GilCell<State>,
}

/// All requests of one server.
pub struct Requests {
    pub shared: Shared,
    running: GilCell<Running<Request>>,
    pub in_one_step: InOneStep,
}

impl Requests {
    pub fn new(shared: Shared) -> Self {
        Self { shared, running: GilCell::new(Running::default()), in_one_step: InOneStep::default() }
    }

    /// Uses the table of those that run; none while it is in use.
    pub fn running<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Running<Request>) -> R) -> Option<R> {
        self.running.borrow(py).map(|mut running| work(&mut running))
    }

    /// A request runs no more.
    pub fn leave(&self, py: Python<'_>, place: usize) {
        // Dropped when the table can be used again.
        let left = self.running(py, |running| running.leave(place));
        drop(left);
    }

    /// An exchange that is over goes back to the engine.
    pub fn hand_back(&self, py: Python<'_>, http: Http) {
        let Http { exchange, builder, .. } = http;
        // Dropped when the table can be used again.
        let held = self.running(py, |running| running.let_go(exchange.token()));
        self.shared.keep_scribe(py, builder);
        if self.shared.event_loop.hand_back(py, exchange) {
            self.shared.event_loop.turn_soon(py);
        }
        drop(held);
    }

    /// The application is done with an exchange, which is concluded and goes back.
    pub fn conclude(&self, py: Python<'_>, mut http: Http, error: Option<&PyErr>, cancelled: bool) {
        conclude(py, &mut http, &self.shared.engine, error, cancelled);
        self.hand_back(py, http);
    }
}

/// What became of an event that the application has sent.
pub enum Sent {
    Taken,
    /// It is taken, and the client is slow: `send` ends when most of what waits is gone.
    Waits,
}

/// The message where one request's object is used twice at once, which one thread cannot do.
pub fn busy() -> PyErr {
    PyRuntimeError::new_err(
        "this request is in use; ASGI's receive and send belong to the event loop's thread",
    )
}

impl Request {
    pub fn new(requests: Arc<Requests>, conversation: Conversation) -> Self {
        let about = match &conversation {
            Conversation::WebSocket(socket) => {
                let config = &requests.shared.engine.config;
                socket.exchange.as_ref().map(|exchange| exchange.about(config))
            }
            _ => None,
        };
        let state = State {
            clock: StepClock::New,
            scope: None,
            conversation,
            coroutine: None,
            task: None,
            waits_in_line: false,
            receivers: Vec::new(),
            senders: Vec::new(),
            watched: false,
            place: usize::MAX,
            about,
        };
        Self { requests, state: GilCell::new(state) }
    }

    /// Its task, once it is known and as long as it runs.
    pub fn task(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.borrow(py)?.task.as_ref().map(|task| task.clone_ref(py))
    }

    /// It runs in that task. One that has ended by now must not keep it.
    pub fn runs_in(&self, task: Bound<'_, PyAny>) {
        if let Some(mut state) = self.state.borrow(task.py())
            && state.place != usize::MAX
        {
            state.task = Some(task.unbind());
            state.waits_in_line = false;
        }
    }

    /// It will begin in that task, which is that of others as well.
    pub fn waits_in(&self, task: Bound<'_, PyAny>) {
        let py = task.py();
        self.runs_in(task);
        if let Some(mut state) = self.state.borrow(py) {
            state.waits_in_line = true;
        }
    }

    /// It knows nothing of its task from now on.
    pub fn leaves_task(&self, py: Python<'_>) {
        let task = self.state.borrow(py).and_then(|mut state| {
            state.waits_in_line = false;
            state.task.take()
        });
        drop(task);
    }

    /// Cancels its task, unless that is another one's as well.
    pub fn cancel(&self, py: Python<'_>) {
        let waits_in_line = self.state.borrow(py).is_some_and(|state| state.waits_in_line);
        if !waits_in_line
            && let Some(task) = self.task(py)
            && let Err(error) = task.bind(py).call_method0(intern!(py, "cancel"))
        {
            error.print(py);
        }
    }

    /// Which request of its worker it is; none where its exchange was handed back.
    pub fn number(&self, py: Python<'_>) -> Option<u64> {
        match &self.state.borrow(py)?.conversation {
            Conversation::Http(http) => Some(http.exchange.number()),
            Conversation::WebSocket(socket) => socket.exchange.as_ref().map(|exchange| exchange.number()),
            Conversation::Over { .. } => None,
        }
    }

    /// What is known of it now, and where its framework may say its route. None: somebody else is using it, or it has come to
    /// nothing.
    pub fn so_far(&self, py: Python<'_>, config: &Config) -> Option<(SoFar, Option<Py<PyDict>>)> {
        let state = self.state.borrow(py)?;
        let exchange = match &state.conversation {
            Conversation::Http(http) => Some(&http.exchange),
            Conversation::WebSocket(socket) => socket.exchange.as_ref(),
            Conversation::Over { .. } => None,
        };
        let found = match exchange {
            Some(exchange) => exchange.so_far(config),
            None => state.about.clone()?.into(),
        };
        Some((found, state.scope.as_ref().map(|scope| scope.clone_ref(py))))
    }

    /// True for a request whose client has had 504.
    pub fn is_overdue(&self, py: Python<'_>) -> bool {
        self.state.borrow(py).is_some_and(
            |state| matches!(&state.conversation, Conversation::Http(http) if http.exchange.is_overdue()),
        )
    }

    /// A WebSocket is closed because the server stops.
    pub fn close_websocket(this: &Bound<'_, Self>, code: u16) {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        if let Some(mut state) = this.get().state.borrow(py) {
            let listens = !state.receivers.is_empty();
            if let Conversation::WebSocket(socket) = &mut state.conversation {
                socket.close(code, "", shared, py);
                if listens {
                    socket.refuse_if_stopping(shared, py);
                }
            }
        }
        Self::websocket_moved(this);
    }

    /// Whatever has happened to a WebSocket: its exchange is handed back if it is over, and those
    /// that wait look again.
    pub fn websocket_moved(this: &Bound<'_, Self>) {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let (done, waiters) = {
            let Some(mut state) = this.get().state.borrow(py) else { return };
            let Conversation::WebSocket(socket) = &mut state.conversation else { return };
            let done = socket.take_done(shared, py);
            let (heard, room) = (socket.has_event(), socket.is_gone() || socket.unsent() * 2 <= shared.room);
            let mut waiters = if heard { std::mem::take(&mut state.receivers) } else { Vec::new() };
            if room {
                waiters.append(&mut state.senders);
            }
            (done, waiters)
        };
        if let Some(http) = done {
            requests.hand_back(py, http);
        }
        shared.resolve_all(py, &waiters);
    }

    /// Tries what somebody waits for. Where that shows that it is over, all others that wait are told: no event of its
    /// connection will.
    pub fn attempt(this: &Bound<'_, Self>, what: WaitFor) -> PyResult<Attempt> {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
        match (&mut state.conversation, what) {
            (Conversation::Http(http), WaitFor::Event) => {
                let attempt = http.next_event(shared, py);
                let is_over = http.exchange.is_over();
                let waiters = if is_over { finish(requests, py, &mut state) } else { Vec::new() };
                drop(state);
                shared.resolve_all(py, &waiters);
                attempt
            }
            (Conversation::Http(http), WaitFor::Room) => {
                if http.exchange.is_broken() {
                    return Err(left());
                }
                if http.exchange.unsent_counted() * 2 > shared.room {
                    shared.event_loop.send_later(py, &http.exchange);
                    return Ok(Attempt::Wait);
                }
                Ok(Attempt::Ready(py.None()))
            }
            (Conversation::WebSocket(socket), WaitFor::Event) => {
                let attempt = socket.next_event(shared, py);
                let is_over = socket.is_done() || socket.ended.is_some();
                drop(state);
                if is_over {
                    Self::websocket_moved(this);
                }
                attempt
            }
            (Conversation::WebSocket(socket), WaitFor::Room) => {
                if socket.is_gone() {
                    return Err(left());
                }
                if socket.unsent() * 2 > shared.room {
                    Ok(Attempt::Wait)
                } else {
                    Ok(Attempt::Ready(py.None()))
                }
            }
            (Conversation::Over { .. }, WaitFor::Event) => Ok(Attempt::Ready(disconnect(shared, py)?)),
            (Conversation::Over { gone: true }, WaitFor::Room) => Err(left()),
            (Conversation::Over { gone: false }, WaitFor::Room) => Ok(Attempt::Ready(py.None())),
        }
    }

    /// A future that is done when the connection has moved.
    pub fn wait_for<'py>(this: &Bound<'py, Self>, what: WaitFor) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let shared = &this.get().requests.shared;
        let future = shared.constants.create_future.bind(py).call0()?;
        let mut waiters = std::mem::take(this.get().state.borrow(py).ok_or_else(busy)?.waiters(what));
        // Who polls, by a `receive()` with a timeout, leaves one behind each time.
        waiters.retain(|waiter| !shared.is_done(py, waiter));
        waiters.push(future.clone().unbind());
        this.get().state.borrow(py).ok_or_else(busy)?.waiters(what).append(&mut waiters);
        Ok(future)
    }

    /// Its connection has an event, or a deadline has come.
    pub fn on_ready(this: &Bound<'_, Self>, hung_up: bool) {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let waiters = {
            let Some(mut state) = this.get().state.borrow(py) else { return };
            let http = match &mut state.conversation {
                Conversation::Http(http) => http,
                Conversation::WebSocket(socket) => {
                    socket.on_ready(hung_up, shared, py);
                    drop(state);
                    return Self::websocket_moved(this);
                }
                Conversation::Over { .. } => return,
            };
            http.peer_left |= hung_up;
            // What cannot be sent any more shows as a broken exchange below.
            let gone = http.exchange.push(&shared.engine).is_err();
            shared.event_loop.send_later(py, &http.exchange);
            let waiters = state.all_waiters();
            if gone {
                finish(requests, py, &mut state);
            }
            waiters
        };
        shared.resolve_all(py, &waiters);
    }

    /// Takes an event that the application sends.
    pub fn take(this: &Bound<'_, Self>, given: &Bound<'_, PyAny>) -> PyResult<Sent> {
        let py = this.py();
        let requests = &this.get().requests;
        let shared = &requests.shared;
        let event = event(given)?;
        let kind = kind_of(event)?;
        let kind = kind.to_str()?;
        let waiters = {
            let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
            let http = match &mut state.conversation {
                Conversation::Http(http) => http,
                Conversation::WebSocket(socket) => {
                    let taken = socket.take(event, kind, shared);
                    let waits = taken.is_ok() && socket.unsent() > shared.room;
                    let over = socket.is_done() || socket.ended.is_some();
                    drop(state);
                    if over {
                        Self::websocket_moved(this);
                    }
                    return match taken {
                        Ok(()) if waits => Ok(counted(shared)),
                        Ok(()) => Ok(Sent::Taken),
                        Err(Refused::Wrong(error)) => Err(error),
                        Err(Refused::Gone) => Err(left()),
                    };
                }
                Conversation::Over { gone: true } => return Err(left()),
                // "Any further messages on the channel will be ignored."
                Conversation::Over { gone: false } => return Ok(Sent::Taken),
            };
            match http.take(event, kind, &shared.engine) {
                Ok(()) if http.stage == Stage::Over => finish(requests, py, &mut state),
                Ok(()) if http.exchange.unsent_counted() > shared.room => {
                    shared.event_loop.send_later(py, &http.exchange);
                    return Ok(counted(shared));
                }
                Ok(()) => {
                    // A client that takes nothing is given up in time, whatever the application does.
                    shared.event_loop.send_later(py, &http.exchange);
                    Vec::new()
                }
                Err(Refused::Wrong(error)) => return Err(error),
                Err(Refused::Gone) => {
                    let waiters = finish(requests, py, &mut state);
                    drop(state);
                    shared.resolve_all(py, &waiters);
                    return Err(left());
                }
            }
        };
        shared.resolve_all(py, &waiters);
        Ok(Sent::Taken)
    }
}

/// `send` waits until its client has taken more.
#[cold]
fn counted(shared: &Shared) -> Sent {
    shared.engine.counters.reply_waits.add();
    Sent::Waits
}

/// The exchange is over: it is handed back, and those that wait for the client are told so.
fn finish(requests: &Requests, py: Python<'_>, state: &mut State) -> Vec<Py<PyAny>> {
    let State { conversation: Conversation::Http(http), clock, scope, .. } = state else { return Vec::new() };
    if let Some(scope) = scope.take() {
        told_route::from_scope(&mut http.exchange, scope.bind(py));
    }
    http.exchange.has_used(clock);
    // Of what was cut off nothing more can be sent: one that goes on for ever must be told.
    let gone = http.exchange.is_broken() || http.stage != Stage::Over;
    state.about = Some(http.exchange.about(&requests.shared.engine.config));
    if let Conversation::Http(http) = std::mem::replace(&mut state.conversation, Conversation::Over { gone })
    {
        requests.hand_back(py, *http);
    }
    state.all_waiters()
}

/// What `send` raises from the moment on at which nobody listens (ASGI, HTTP 2.4).
fn left() -> PyErr {
    PyConnectionResetError::new_err(forked::LEFT)
}
