//! One request's life: the application's coroutine, the task that drives it, the conversation.
//!
//! Knows: when a request begins, waits, goes on and ends. Does not know: events (`reply.rs`,
//! `receive.rs`). The task's coroutine is this object, which passes each step on to the
//! application's own, so that its end is known without a callback. Runs on the event loop's
//! thread.

use pyo3::exceptions::{
    PyConnectionResetError, PyKeyboardInterrupt, PyRuntimeError, PyStopIteration, PyTypeError,
};
use pyo3::intern;
use pyo3::prelude::*;

use super::awaitable::{Attempt, For, Waiting, stopped, thrown};
use super::events::{event, kind_of};
use super::receive::disconnect;
use super::reply::{Http, Refused, Stage};
use super::server::AsgiServer;
use super::websocket::{Socket, Stage as SocketStage};
use server::exchange::{About, Exchange};
use wire::ws::code;

use crate::disconnect::is_from_disconnect;
use crate::failure;
use crate::ffi::{GilCell, Stepped, Talks, Tried, is_coroutine, step};
use crate::forked;

/// What the application may still say and hear.
pub enum Talk {
    Http(Box<Http>),
    Socket(Box<Socket>),
    /// The response is complete, or will never be; `gone`: the client left before.
    Over {
        gone: bool,
    },
}

/// What belongs to one request.
pub struct State {
    pub talk: Talk,
    /// The application's coroutine, or the iterator of what else it returned to be awaited.
    coroutine: Option<Py<PyAny>>,
    pub task: Option<Py<PyAny>>,
    /// Futures of those that wait for an event, and for room.
    receivers: Vec<Py<PyAny>>,
    senders: Vec<Py<PyAny>>,
    /// It has suspended, so that its connection is watched.
    watched: bool,
    /// Its place among those that run.
    pub place: usize,
    /// Which request it is, once its exchange has gone home before the application has ended.
    pub about: Option<About>,
}

/// One request, which is also the coroutine of its task.
#[pyclass(frozen, module = "forehand._core")]
pub struct Request {
    pub server: Py<AsgiServer>,
    pub state: GilCell<State>,
}

/// The message where one request's object is used twice at once, which one thread cannot do.
fn busy() -> PyErr {
    PyRuntimeError::new_err(
        "this request is in use; ASGI's receive and send belong to the event loop's thread",
    )
}

impl Request {
    pub fn new(server: Py<AsgiServer>, talk: Talk) -> Self {
        let about = match &talk {
            Talk::Socket(socket) => socket.exchange.as_ref().map(Exchange::about),
            _ => None,
        };
        let state = State {
            talk,
            coroutine: None,
            task: None,
            receivers: Vec::new(),
            senders: Vec::new(),
            watched: false,
            place: usize::MAX,
            about,
        };
        Self { server, state: GilCell::new(state) }
    }

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
        let coroutine =
            this.get().state.borrow(py).ok_or_else(busy)?.coroutine.as_ref().map(|it| it.clone_ref(py));
        let Some(coroutine) = coroutine else { return Err(stopped(None)) };
        let driven = {
            let _step = this.get().server.get().watched.step();
            drive(coroutine.bind(py))
        };
        if this.get().server.get().engine.is_a_copy() {
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
                Self::ended(this, None)?;
                Ok(None)
            }
            Err(error) => {
                Self::ended(this, Some(error))?;
                Ok(None)
            }
        }
    }

    /// It waits for something: from now on edges of its connection matter.
    fn suspended(&self, py: Python<'_>) {
        let Some(mut state) = self.state.borrow(py) else { return };
        if state.watched {
            return;
        }
        state.watched = true;
        let exchange = match &mut state.talk {
            Talk::Http(http) => Some(&mut http.exchange),
            Talk::Socket(socket) => socket.exchange.as_mut(),
            Talk::Over { .. } => None,
        };
        if let Some(exchange) = exchange {
            self.server.get().watch(py, exchange);
        }
    }

    /// The application has returned or raised. An error that is the event loop's business is
    /// passed on; others are told here.
    fn ended(this: &Bound<'_, Self>, error: Option<PyErr>) -> PyResult<()> {
        let py = this.py();
        let server = this.get().server.get();
        let (talk, coroutine, task, place) = {
            let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
            let talk = match &mut state.talk {
                // It goes on until it is closed in order, and stays where its edges find it.
                Talk::Socket(_) => Talk::Over { gone: false },
                other => std::mem::replace(other, Talk::Over { gone: false }),
            };
            // One that ends before its task is known to us must not keep it.
            let place = std::mem::replace(&mut state.place, usize::MAX);
            (talk, state.coroutine.take(), state.task.take(), place)
        };
        server.leave(py, place);
        let cancelled =
            error.as_ref().is_some_and(|error| error.is_instance(py, server.tools.cancelled.bind(py)));
        let socket = Self::socket_ended(this, error.as_ref(), cancelled);
        match talk {
            Talk::Http(http) => server.conclude(py, *http, error.as_ref(), cancelled),
            _ if socket => {}
            Talk::Socket(_) => {}
            Talk::Over { gone } => {
                if let Some(error) = &error
                    && !cancelled
                    && !(gone && is_from_disconnect(py, error))
                {
                    failure::tell(py, &after(this, "after its response was complete"), error);
                }
            }
        }
        drop((coroutine, task));
        match error {
            Some(error) if cancelled || error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
            _ => Ok(()),
        }
    }

    /// The application of a WebSocket has returned or raised. False: it is none.
    fn socket_ended(this: &Bound<'_, Self>, error: Option<&PyErr>, cancelled: bool) -> bool {
        let py = this.py();
        let server = this.get().server.get();
        let (unanswered, untold) = {
            let Some(mut state) = this.get().state.borrow(py) else { return false };
            let Talk::Socket(socket) = &mut state.talk else { return false };
            let unanswered = match socket.stage {
                SocketStage::Connecting { .. } if !socket.is_gone() => {
                    socket.stage = SocketStage::Over;
                    socket.exchange.take().map(|exchange| Http::new(exchange, server.scribe(py)))
                }
                SocketStage::Denying => socket.denial.take().map(|http| *http),
                _ => None,
            };
            let gone = socket.ended.is_some() && !socket.by_us;
            let code = if error.is_none() { code::NORMAL } else { code::INTERNAL };
            socket.close(code, "", server, py);
            (unanswered, error.filter(|error| !(cancelled || gone && is_from_disconnect(py, error))))
        };
        match (unanswered, untold) {
            (Some(http), _) => server.conclude(py, http, error, cancelled),
            (None, Some(error)) => failure::tell(py, &after(this, "a WebSocket"), error),
            (None, None) => {}
        }
        Self::settle(this);
        true
    }

    /// A WebSocket is closed because the server stops.
    pub fn go_away(this: &Bound<'_, Self>, code: u16) {
        let py = this.py();
        let server = this.get().server.get();
        if let Some(mut state) = this.get().state.borrow(py) {
            let listens = !state.receivers.is_empty();
            if let Talk::Socket(socket) = &mut state.talk {
                socket.close(code, "", server, py);
                if listens {
                    socket.turn_away(server, py);
                }
            }
        }
        Self::settle(this);
    }

    /// Whatever has happened to a WebSocket: it goes home if it is over, and those that wait
    /// look again.
    fn settle(this: &Bound<'_, Self>) {
        let py = this.py();
        let server = this.get().server.get();
        let (home, waiters) = {
            let Some(mut state) = this.get().state.borrow(py) else { return };
            let Talk::Socket(socket) = &mut state.talk else { return };
            let home = if socket.wants_home() { socket.exchange.take() } else { None };
            let (heard, room) = (socket.has_event(), socket.is_gone() || socket.unsent() * 2 <= server.room);
            let mut waiters = if heard { std::mem::take(&mut state.receivers) } else { Vec::new() };
            if room {
                waiters.append(&mut state.senders);
            }
            (home, waiters)
        };
        if let Some(exchange) = home {
            server.home(py, Http::new(exchange, server.scribe(py)));
        }
        for waiter in waiters {
            server.wake(py, &waiter);
        }
    }

    /// Tries what somebody waits for.
    pub fn attempt(this: &Bound<'_, Self>, what: For) -> PyResult<Attempt> {
        let py = this.py();
        let server = this.get().server.get();
        let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
        match (&mut state.talk, what) {
            (Talk::Http(http), For::Event) => {
                let attempt = http.next_event(server, py)?;
                if http.exchange.is_over() {
                    finish(server, py, &mut state);
                }
                Ok(attempt)
            }
            (Talk::Http(http), For::Room) => {
                if http.exchange.is_broken() {
                    return Err(left());
                }
                if http.exchange.unsent() * 2 > server.room {
                    server.send_on(py, &http.exchange);
                    return Ok(Attempt::Wait);
                }
                Ok(Attempt::Ready(py.None()))
            }
            (Talk::Socket(socket), For::Event) => {
                let attempt = socket.next_event(server, py);
                let home = if socket.wants_home() { socket.exchange.take() } else { None };
                if let Some(exchange) = home {
                    server.home(py, Http::new(exchange, server.scribe(py)));
                }
                attempt
            }
            (Talk::Socket(socket), For::Room) => {
                if socket.is_gone() {
                    return Err(left());
                }
                if socket.unsent() * 2 > server.room {
                    Ok(Attempt::Wait)
                } else {
                    Ok(Attempt::Ready(py.None()))
                }
            }
            (Talk::Over { .. }, For::Event) => Ok(Attempt::Ready(disconnect(server, py)?)),
            (Talk::Over { gone: true }, For::Room) => Err(left()),
            (Talk::Over { gone: false }, For::Room) => Ok(Attempt::Ready(py.None())),
        }
    }

    /// A future that is done when the connection has moved.
    pub fn wait_for<'py>(this: &Bound<'py, Self>, what: For) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let future = this.get().server.get().tools.create_future.bind(py).call0()?;
        let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
        let waiters = match what {
            For::Event => &mut state.receivers,
            For::Room => &mut state.senders,
        };
        waiters.push(future.clone().unbind());
        Ok(future)
    }

    /// Its connection has an edge, or a deadline has come.
    pub fn roused(this: &Bound<'_, Self>, hung_up: bool) {
        let py = this.py();
        let server = this.get().server.get();
        let waiters = {
            let Some(mut state) = this.get().state.borrow(py) else { return };
            let http = match &mut state.talk {
                Talk::Http(http) => http,
                Talk::Socket(socket) => {
                    socket.roused(hung_up, server, py);
                    drop(state);
                    return Self::settle(this);
                }
                Talk::Over { .. } => return,
            };
            http.peer_left |= hung_up;
            // What cannot be sent any more shows as a broken exchange below.
            let gone = http.exchange.push(&server.engine).is_err();
            server.send_on(py, &http.exchange);
            let mut waiters = std::mem::take(&mut state.receivers);
            waiters.append(&mut state.senders);
            if gone {
                finish(server, py, &mut state);
            }
            waiters
        };
        for waiter in waiters {
            server.wake(py, &waiter);
        }
    }

    fn sent(this: &Bound<'_, Self>, given: &Bound<'_, PyAny>) -> Tried {
        let py = this.py();
        let server = this.get().server.get();
        let event = event(given)?;
        let kind = kind_of(event)?;
        let kind = kind.to_str()?;
        let waiters = {
            let mut state = this.get().state.borrow(py).ok_or_else(busy)?;
            let http = match &mut state.talk {
                Talk::Http(http) => http,
                Talk::Socket(socket) => {
                    let taken = socket.take(event, kind, server);
                    let waits = taken.is_ok() && socket.unsent() > server.room;
                    let over = socket.wants_home() || socket.ended.is_some();
                    drop(state);
                    if over {
                        Self::settle(this);
                    }
                    return match taken {
                        Ok(()) if waits => {
                            let waiting = Waiting::new(this.clone().unbind(), For::Room);
                            Ok(Bound::new(py, waiting)?.into_any().unbind())
                        }
                        Ok(()) => Ok(server.tools.done.clone_ref(py)),
                        Err(Refused::Wrong(error)) => Err(error),
                        Err(Refused::Gone) => Err(left()),
                    };
                }
                Talk::Over { gone: true } => return Err(left()),
                // "Any further messages on the channel will be ignored."
                Talk::Over { gone: false } => return Ok(server.tools.done.clone_ref(py)),
            };
            match http.take(event, kind, &server.engine) {
                Ok(()) if http.stage == Stage::Over => finish(server, py, &mut state),
                Ok(()) if http.exchange.unsent() > server.room => {
                    server.send_on(py, &http.exchange);
                    drop(state);
                    let waiting = Waiting::new(this.clone().unbind(), For::Room);
                    return Ok(Bound::new(py, waiting)?.into_any().unbind());
                }
                Ok(()) => {
                    // A client that takes nothing is given up in time, whatever the application does.
                    server.send_on(py, &http.exchange);
                    Vec::new()
                }
                Err(Refused::Wrong(error)) => return Err(error),
                Err(Refused::Gone) => {
                    let waiters = finish(server, py, &mut state);
                    drop(state);
                    waiters.iter().for_each(|waiter| server.wake(py, waiter));
                    return Err(left());
                }
            }
        };
        for waiter in waiters {
            server.wake(py, &waiter);
        }
        Ok(server.tools.done.clone_ref(py))
    }
}

/// The exchange is over: it goes home, and those that wait for the client are told so.
fn finish(server: &AsgiServer, py: Python<'_>, state: &mut State) -> Vec<Py<PyAny>> {
    let Talk::Http(http) = &state.talk else { return Vec::new() };
    let gone = http.exchange.is_broken();
    state.about = Some(http.exchange.about());
    if let Talk::Http(http) = std::mem::replace(&mut state.talk, Talk::Over { gone }) {
        server.home(py, *http);
    }
    let mut waiters = std::mem::take(&mut state.receivers);
    waiters.append(&mut state.senders);
    waiters
}

/// Which request has failed after its exchange had gone home, and when in its life.
#[cold]
fn after(this: &Bound<'_, Request>, what: &str) -> String {
    let about = this.get().state.borrow(this.py()).and_then(|mut state| state.about.take());
    match about {
        Some(about) => format!("{about}, {what}"),
        None => what.to_string(),
    }
}

/// What `send` raises from the moment on at which nobody listens (ASGI, HTTP 2.4).
fn left() -> PyErr {
    PyConnectionResetError::new_err(forked::LEFT)
}

impl Talks for Request {
    fn receive(this: &Bound<'_, Self>) -> Tried {
        let waiting = Waiting::new(this.clone().unbind(), For::Event);
        Ok(Bound::new(this.py(), waiting)?.into_any().unbind())
    }

    fn send(this: &Bound<'_, Self>, event: &Bound<'_, PyAny>) -> Tried {
        Self::sent(this, event)
    }
}

#[pymethods]
impl Request {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let none = this.py().None().into_bound(this.py());
        Self::advance(this, |coroutine| step(coroutine, &none))
    }

    fn send<'py>(this: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::advance(this, |coroutine| step(coroutine, value))?.ok_or_else(|| stopped(None))
    }

    #[pyo3(signature = (kind, value = None, _trace = None))]
    fn throw<'py>(
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

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let coroutine = self.state.borrow(py).ok_or_else(busy)?.coroutine.take();
        match coroutine {
            Some(coroutine) => coroutine.bind(py).call_method0(intern!(py, "close")).map(|_| ()),
            None => Ok(()),
        }
    }

    /// What `inspect` asks of a coroutine is the application's own: `cr_frame`, `cr_running`,
    /// `cr_suspended`, `cr_await`, `cr_code`, and its name.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
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
