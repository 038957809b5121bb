//! `forehand._core.AsgiServer`: an engine under an event loop, as Python sees it.
//!
//! Knows: how requests begin, are found again and end. Does not know: events, or which event
//! loop it is (Python's driver does). Runs on the event loop's thread.

use std::os::fd::RawFd;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::evented::{Evented, Wakeup};
use server::exchange::Exchange;
use server::log::Level;
use wire::ws::{Handshake, NoHandshake, code};

use super::awaitable::Done;
use super::constants::{Constants, address, common};
use super::reply::Http;
use super::request::{Conversation, Request, Requests};
use super::scope::Gateway;
use super::series::{Called, give_task, give_tasks};
use super::shared::Shared;
use super::waiting::Waiting;
use super::websocket::WebSocket;
use crate::controls::{Controls, in_use};
use crate::event_loop::{EventLoop, Turn};
use crate::ffi::{call_three, quicken, quicken_done, receive_send_functions};
use crate::request_id::Names;
use crate::settings::{Listeners, Settings};
use crate::told_route;

/// What stands for the thread of a request with a deadline: the event loop's.
const EVENT_LOOP: u64 = 1;

/// One ASGI server over listeners that Python keeps open.
#[pyclass(frozen, extends = Controls, module = "forehand._core")]
pub struct AsgiServer {
    application: Py<PyAny>,
    gateways: Vec<Gateway>,
    names: Names,
    requests: Arc<Requests>,
}

#[pymethods]
impl AsgiServer {
    /// `listeners`: descriptor, URL and kind of each. `settings`: a mapping of the names in
    /// `forehand.settings`. `life`: `(loop, state, on_end)`, the running event loop, the
    /// dictionary that scopes get copies of, and what is called once when the engine has ended.
    #[new]
    fn new(
        application: Py<PyAny>,
        listeners: Listeners,
        settings: &Bound<'_, PyDict>,
        life: (Bound<'_, PyAny>, Bound<'_, PyDict>, Py<PyAny>),
    ) -> PyResult<PyClassInitializer<Self>> {
        let py = settings.py();
        let mut settings = Settings::read(settings)?;
        let (event_loop, state, on_end) = life;
        settings.config.evented = true;
        settings.config.stepwise = true;
        settings.config.websockets = true;
        settings.config.request_buffering = true;
        let of_threads = settings.config.by_hand.said();
        if !of_threads.is_empty() {
            settings.log.warn(format!(
                "about threads, and without effect for this application, which is ASGI, so that its requests run in an \
                 event loop: {}. --limit-concurrency bounds how many do (docs/asgi.md)",
                of_threads.join(", ")
            ));
        }
        let trust = settings.config.trust.clone();
        let mut gateways = Vec::new();
        for (_, url, kind) in &listeners {
            let texts = (settings.scheme_of(kind), settings.script_name.as_str());
            let common = common(py, &state)?;
            let limits = &settings.config.limits;
            gateways.push(Gateway::new(address(py, url)?, texts, trust.clone(), common, limits));
        }
        let names = Names::new(py, &settings.config);
        let driver = Evented::new(settings.into_loop(&listeners)?)?;
        let call_soon = event_loop.getattr("call_soon")?.unbind();
        quicken_done::<Done>(py);
        quicken::<Waiting>(py);
        let constants = Constants::new(&event_loop)?;
        let shared = Shared::new(EventLoop::new(driver, call_soon, on_end), constants);
        let controls = Controls::new(&shared.engine);
        let server = Self { application, gateways, names, requests: Arc::new(Requests::new(shared)) };
        Ok(PyClassInitializer::from(controls).add_subclass(server))
    }

    /// The descriptor to watch for reading.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.requests.shared.event_loop.fileno(py)
    }

    /// Does what is ready; called when the descriptor is readable.
    fn turn(this: &Bound<'_, Self>) {
        let (py, server) = (this.py(), this.get());
        let event_loop = &server.requests.shared.event_loop;
        let Some(Turn { requests, ready, after }) = event_loop.turn(py) else { return };
        if event_loop.engine.deadlines.any_found() {
            server.overdue(py);
        }
        if event_loop.engine.slow.any_found() {
            server.look_at_slow(py);
        }
        for Wakeup { token, hung_up } in ready {
            if let Some(request) = server.find(py, token) {
                Request::on_ready(request.bind(py), hung_up);
            }
        }
        let (mut pipelined, mut called) = (Vec::new(), Vec::new());
        for exchange in requests {
            if exchange.pipelined_replies().is_some() {
                pipelined.push(exchange.token());
            }
            server.begin(py, exchange, &mut called);
        }
        give_tasks(py, &server.requests, called);
        if !pipelined.is_empty() {
            // Runs behind the first steps of the tasks that were made just now.
            let _ = this
                .getattr(intern!(py, "send_pipelined"))
                .and_then(|send| event_loop.call_soon.bind(py).call1((send, pipelined)));
        }
        event_loop.turn_ends(py, after);
    }

    /// The same, as the event loop calls it because it was asked to.
    fn turn_again(this: &Bound<'_, Self>) {
        this.get().requests.shared.event_loop.asked_turn_begins(this.py());
        Self::turn(this);
    }

    /// Sends replies that wait for the next of their connection, where that one takes longer.
    fn send_pipelined(&self, py: Python<'_>, tokens: Vec<u64>) {
        for token in tokens {
            let Some(request) = self.find(py, token) else { continue };
            if let Some(state) = request.get().state.borrow(py)
                && let Conversation::Http(http) = &state.conversation
            {
                http.exchange.send_pipelined();
            }
        }
    }

    /// Ready for the first request.
    fn start(this: &Bound<'_, Self>) -> PyResult<()> {
        let shared = &this.get().requests.shared;
        let tasks_of = shared.constants.event_loop.clone_ref(this.py());
        shared.event_loop.start(this.as_any(), Some(tasks_of))
    }

    /// Nobody watches the loop any more: it, or the interpreter, is about to end.
    fn end_watch(&self, py: Python<'_>) {
        self.requests.shared.event_loop.end_watch(py);
    }

    /// Begins a graceful stop: what runs is finished, nothing new is taken, and WebSockets
    /// are closed with 1001.
    fn stop(this: PyRef<'_, Self>, py: Python<'_>) {
        this.as_super().stop();
        this.close_websockets(py, code::GOING_AWAY);
    }

    /// Lets other workers go on: accepts nothing more, finishes what runs, answers idle
    /// connections once more if they come back in time. WebSockets are closed with 1012.
    fn retire(this: PyRef<'_, Self>, py: Python<'_>) {
        this.as_super().retire();
        this.close_websockets(py, code::RESTART);
    }

    /// The tasks of requests that run, also of those whose response is complete.
    fn tasks(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let all = self.requests.running(py, |running| running.all(py)).ok_or_else(in_use)?;
        Ok(all.iter().filter_map(|request| request.get().task(py)).collect())
    }
}

impl AsgiServer {
    /// A request begins: its scope, its coroutine. Its task, too, where that begins at once, or `called` has the request.
    fn begin(&self, py: Python<'_>, mut exchange: Box<Exchange>, called: &mut Vec<Called>) {
        let (requests, engine) = (&self.requests, &self.requests.shared.engine);
        let gateway = &self.gateways[usize::from(exchange.listener())];
        let mut builder = requests.shared.builder(py);
        let most = engine.config.limits.concurrency;
        if most > 0 && self.running_now(py) >= most {
            engine.counters.requests_over_concurrency.add();
            engine.counters.refused(&wire::CONCURRENCY);
            engine.log.debug(|| format!("a request is refused: {most} are running (--limit-concurrency)"));
            exchange.refuse(&wire::CONCURRENCY, &mut builder, engine);
            return requests.hand_back(py, Http::new(exchange, builder));
        }
        let made = gateway.scope(py, &exchange, engine).and_then(|made| {
            if let (Ok(scope), true) = (&made, exchange.has_names(&engine.config)) {
                self.names.introduce_to_scope(&scope.dict, &exchange, &engine.config)?;
            }
            Ok(made)
        });
        let scope = match made {
            Ok(Ok(scope)) => scope,
            Ok(Err(fault)) => {
                exchange.refuse(&fault, &mut builder, engine);
                return requests.hand_back(py, Http::new(exchange, builder));
            }
            Err(error) => return requests.conclude(py, Http::new(exchange, builder), Some(&error), false),
        };
        let (token, number) = (exchange.token(), exchange.number());
        if let Some(deadline) = &exchange.deadline {
            deadline.begin(EVENT_LOOP);
        }
        let conversation = if scope.websocket {
            match Handshake::read(&exchange.head) {
                Ok(handshake) => Conversation::WebSocket(Box::new(WebSocket::new(exchange, handshake))),
                Err(why) => {
                    let fault = if why == NoHandshake::Version { wire::WS_VERSION } else { wire::WS_KEY };
                    engine.counters.refused(&fault);
                    exchange.refuse(&fault, &mut builder, engine);
                    return requests.hand_back(py, Http::new(exchange, builder));
                }
            }
        } else {
            Conversation::Http(Box::new(Http::new(exchange, builder)))
        };
        let asked = matches!(&conversation, Conversation::Http(http) if told_route::is_wanted(&http.exchange, engine));
        let request = Request::new(Arc::clone(requests), conversation);
        if asked && let Some(mut state) = request.state.borrow(py) {
            state.scope = Some(scope.dict.clone().unbind());
        }
        let Ok(request) = Bound::new(py, request) else { return };
        if let Err(error) = self.call(&request, &scope.dict, token) {
            return request.get().failed_to_begin(py, &error);
        }
        let one = (request.unbind(), number);
        if scope.websocket || requests.shared.constants.eager.is_some() {
            give_task(py, &one);
        } else {
            called.push(one);
        }
    }

    /// How many requests run, those included whose reply is complete and whose task is not.
    fn running_now(&self, py: Python<'_>) -> u64 {
        self.requests.running(py, |running| running.len() as u64).unwrap_or(0)
    }

    fn call(&self, request: &Bound<'_, Request>, scope: &Bound<'_, PyDict>, token: u64) -> PyResult<()> {
        let py = request.py();
        let (receive, send) = receive_send_functions(request)?;
        if let Some(place) = self.requests.running(py, |running| running.enter(request, token))
            && let Some(mut state) = request.get().state.borrow(py)
        {
            state.place = place;
        }
        let returned = call_three(self.application.bind(py), [scope.as_any(), &receive, &send])?;
        request.get().begin(returned)
    }

    fn close_websockets(&self, py: Python<'_>, code: u16) {
        let holders = self.requests.running(py, |running| running.holders(py)).unwrap_or_default();
        for request in holders {
            Request::close_websocket(request.bind(py), code);
        }
    }

    /// Requests have become overdue, and their clients have had 504: their tasks are cancelled.
    fn overdue(&self, py: Python<'_>) {
        for found in self.requests.shared.engine.deadlines.take_overdue() {
            let (line, seconds) = (found.line, found.seconds);
            self.requests.shared.engine.log.complain(Level::Error, || {
                format!("{line}: overdue after {seconds:.2} s (--request-timeout); its task is cancelled")
            });
        }
        for request in self.requests.running(py, |running| running.all(py)).unwrap_or_default() {
            if request.get().is_overdue(py) {
                request.get().cancel(py);
            }
        }
    }

    /// Requests take long: where their tasks wait.
    #[cold]
    fn look_at_slow(&self, py: Python<'_>) {
        let all = self.requests.running(py, |running| running.all(py)).unwrap_or_default();
        self.requests.shared.event_loop.look_at_slow(py, "of_task", |number| {
            all.iter().find(|request| request.get().number(py) == Some(number))?.get().task(py)
        });
    }

    /// The request that holds a connection.
    fn find(&self, py: Python<'_>, token: u64) -> Option<Py<Request>> {
        self.requests.running(py, |running| running.find(py, token)).flatten()
    }
}
