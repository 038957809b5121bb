//! `forehand._core.AsgiServer`: an engine under an event loop, as Python sees it.
//!
//! Knows: how requests begin, are found again and end. Does not know: events, or which event
//! loop it is (Python's driver does). Runs on the event loop's thread.

use std::os::fd::RawFd;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::engine::Engine;
use server::evented::{After, Evented, Roused};
use server::exchange::Exchange;
use server::log::Level;
use server::scribe::Scribe;
use server::watchdog::Watchdog;
use server::watched::Watched;
use wire::Millis;
use wire::ws::{Deflater, Handshake, NoHandshake, code};

use super::reply::Http;
use super::request::{Request, Talk};
use super::scope::Gateway;
use super::tools::{Tools, address, common};
use super::websocket::Socket;
use crate::controls::{Controls, in_use};
use crate::ffi::{GilCell, call_three, latin1, make_with, talk_functions};
use crate::settings::{Lent, Settings};
use crate::witness;

/// What stands for the thread of a request with a deadline: the event loop's.
const EVENT_LOOP: u64 = 1;
/// So many bytes of a task's name stand before its number.
const PREFIX: usize = "Request-".len();
/// Scribes that are kept for the next request.
const KEPT_SCRIBES: usize = 64;

/// Requests that run: all of them, and by their connection's slot those that hold one.
#[derive(Default)]
struct Running {
    all: Vec<Option<Py<Request>>>,
    free: Vec<usize>,
    by_slot: Vec<Option<(u64, Py<Request>)>>,
}

/// One ASGI server over listeners that Python keeps open.
#[pyclass(frozen, extends = Controls, module = "forehand._core")]
pub struct AsgiServer {
    driver: GilCell<Evented>,
    pub engine: Arc<Engine>,
    /// What the watchdog sees of this loop.
    pub watched: Arc<Watched>,
    watchdog: GilCell<Option<Watchdog>>,
    application: Py<PyAny>,
    gateways: Vec<Gateway>,
    pub tools: Tools,
    running: GilCell<Running>,
    scribes: GilCell<Vec<Scribe>>,
    /// What all WebSockets of the loop share, one after the other.
    pub deflater: GilCell<Deflater>,
    pub room_to_read: GilCell<Vec<u8>>,
    /// The bound method `turn`, and whether the event loop will call it soon by itself.
    soon: GilCell<(Option<Py<PyAny>>, bool)>,
    on_end: GilCell<Option<Py<PyAny>>>,
    /// Bytes that may wait for a peer before `send` does.
    pub room: u64,
}

#[pymethods]
impl AsgiServer {
    /// `listeners`: descriptor, URL and kind of each. `settings`: a mapping of the names in
    /// `forehand.settings`. `life`: `(loop, state, on_end)`, the running event loop, the
    /// dictionary that scopes get copies of, and what is called once when the engine has ended.
    #[new]
    fn new(
        py: Python<'_>,
        application: Py<PyAny>,
        listeners: Vec<Lent>,
        settings: &Bound<'_, PyDict>,
        life: (Py<PyAny>, Bound<'_, PyDict>, Py<PyAny>),
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut settings = Settings::read(settings)?;
        let (event_loop, state, on_end) = life;
        settings.config.evented = true;
        settings.config.request_buffering = true;
        let trust = settings.config.trust.clone();
        let mut gateways = Vec::new();
        for (_, url, _) in &listeners {
            let texts = (settings.url_scheme.as_str(), settings.script_name.as_str());
            let common = common(py, &state)?;
            let limits = &settings.config.limits;
            gateways.push(Gateway::new(address(py, url)?, texts, trust.clone(), common, limits));
        }
        let driver = Evented::new(settings.into_loop(&listeners)?)?;
        let engine = Arc::clone(driver.engine());
        let controls = Controls::new(&engine);
        let server = Self {
            watched: Arc::clone(driver.watched()),
            watchdog: GilCell::new(None),
            driver: GilCell::new(driver),
            room: engine.config.limits.response_buffer_bytes,
            engine,
            application,
            gateways,
            tools: Tools::new(event_loop.bind(py))?,
            running: GilCell::new(Running::default()),
            scribes: GilCell::new(Vec::new()),
            deflater: GilCell::new(Deflater::new()),
            room_to_read: GilCell::new(Vec::new()),
            soon: GilCell::new((None, false)),
            on_end: GilCell::new(Some(on_end)),
        };
        Ok(PyClassInitializer::from(controls).add_subclass(server))
    }

    /// The descriptor to watch for reading.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.driver.borrow(py).map(|driver| driver.fileno()).ok_or_else(in_use)
    }

    /// Does what is ready; called when the descriptor is readable.
    fn turn(this: &Bound<'_, Self>) {
        let py = this.py();
        let server = this.get();
        let (mut requests, mut roused) = (Vec::new(), Vec::new());
        let after = {
            let Some(mut driver) = server.driver.borrow(py) else { return };
            driver.turn(&mut requests, &mut roused)
        };
        if server.engine.tickets.any_found() {
            server.overdue(py);
        }
        for Roused { token, hung_up } in roused {
            if let Some(request) = server.find(py, token) {
                Request::roused(request.bind(py), hung_up);
            }
        }
        let mut carried = Vec::new();
        for exchange in requests {
            if exchange.carry_that_waits().is_some() {
                carried.push(exchange.token());
            }
            server.begin(this, exchange);
        }
        if !carried.is_empty() {
            // Runs behind the first steps of the tasks that were made just now.
            let _ = this
                .getattr(intern!(py, "relieve"))
                .and_then(|relieve| server.tools.call_soon.bind(py).call1((relieve, carried)));
        }
        match after {
            After::Quiet => {}
            After::Again => server.turn_soon(py),
            After::Ended => server.end(py),
        }
    }

    /// The same, as the event loop calls it by our own wish.
    fn turn_again(this: &Bound<'_, Self>) {
        if let Some(mut soon) = this.get().soon.borrow(this.py()) {
            soon.1 = false;
        }
        Self::turn(this);
    }

    /// Sends replies that wait for the next of their connection, where that one takes longer.
    fn relieve(&self, py: Python<'_>, tokens: Vec<u64>) {
        for token in tokens {
            let Some(request) = self.find(py, token) else { continue };
            if let Some(state) = request.get().state.borrow(py)
                && let Talk::Http(http) = &state.talk
            {
                http.exchange.send_carried();
            }
        }
    }

    /// Ready for the first request.
    fn start(this: &Bound<'_, Self>) -> PyResult<()> {
        let (py, server) = (this.py(), this.get());
        reactor::sys::give_back();
        if let Some(mut soon) = server.soon.borrow(py) {
            soon.0 = Some(this.getattr(intern!(py, "turn_again"))?.unbind());
        }
        let event_loop = server.tools.event_loop.clone_ref(py);
        let driver = server.driver.borrow(py).ok_or_else(in_use)?;
        *server.watchdog.borrow(py).ok_or_else(in_use)? =
            Some(witness::watch(py, &driver, Some(event_loop))?);
        Ok(())
    }

    /// Nobody watches the loop any more: it, or the interpreter, is about to end.
    fn end_watch(&self, py: Python<'_>) {
        witness::end_watch(py, &self.driver, &self.watchdog);
    }

    /// Begins a graceful stop: what runs is finished, nothing new is taken, and WebSockets
    /// are closed with 1001.
    fn stop(this: PyRef<'_, Self>, py: Python<'_>) {
        this.as_super().stop();
        this.close_sockets(py, code::GOING_AWAY);
    }

    /// Lets other workers go on: accepts nothing more, finishes what runs, answers idle
    /// connections once more if they come back in time. WebSockets are closed with 1012.
    fn retire(this: PyRef<'_, Self>, py: Python<'_>) {
        this.as_super().retire();
        this.close_sockets(py, code::RESTART);
    }

    /// The tasks of requests that run, also of those whose response is complete.
    fn tasks(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let running = self.running.borrow(py).ok_or_else(in_use)?;
        let task = |request: &Py<Request>| {
            request
                .get()
                .state
                .borrow(py)
                .and_then(|state| state.task.as_ref().map(|task| task.clone_ref(py)))
        };
        Ok(running.all.iter().flatten().filter_map(task).collect())
    }
}

impl AsgiServer {
    /// A request begins: its scope, its task.
    fn begin(&self, this: &Bound<'_, Self>, mut exchange: Exchange) {
        let py = this.py();
        let gateway = &self.gateways[usize::from(exchange.listener())];
        let mut scribe = self.scribe(py);
        let most = self.engine.config.limits.concurrency;
        if most > 0 && self.running_now(py) >= most {
            self.engine.counters.requests_over_concurrency.add();
            self.engine.counters.refused(&wire::CONCURRENCY);
            self.engine
                .log
                .debug(|| format!("a request is refused: {most} are running (--limit-concurrency)"));
            exchange.refuse(&wire::CONCURRENCY, &mut scribe, &self.engine);
            return self.home(py, Http::new(exchange, scribe));
        }
        let scope = match gateway.scope(py, &exchange, &self.engine) {
            Ok(Ok(scope)) => scope,
            Ok(Err(fault)) => {
                exchange.refuse(&fault, &mut scribe, &self.engine);
                return self.home(py, Http::new(exchange, scribe));
            }
            Err(error) => return self.conclude(py, Http::new(exchange, scribe), Some(&error), false),
        };
        let (token, number) = (exchange.token(), exchange.number());
        if let Some(ticket) = &exchange.ticket {
            ticket.begin(EVENT_LOOP);
        }
        let talk = if scope.websocket {
            match Handshake::read(&exchange.head) {
                Ok(handshake) => Talk::Socket(Box::new(Socket::new(exchange, handshake))),
                Err(why) => {
                    let fault = if why == NoHandshake::Version { wire::WS_VERSION } else { wire::WS_KEY };
                    self.engine.counters.refused(&fault);
                    exchange.refuse(&fault, &mut scribe, &self.engine);
                    return self.home(py, Http::new(exchange, scribe));
                }
            }
        } else {
            Talk::Http(Box::new(Http::new(exchange, scribe)))
        };
        let request = Request::new(this.clone().unbind(), talk);
        let Ok(request) = Bound::new(py, request) else { return };
        if let Err(error) = self.call(&request, &scope.dict, (token, number)) {
            self.failed_to_begin(&request, &error);
        }
    }

    /// How many requests run, those included whose reply is complete and whose task is not.
    fn running_now(&self, py: Python<'_>) -> u64 {
        self.running.borrow(py).map_or(0, |running| (running.all.len() - running.free.len()) as u64)
    }

    fn call(
        &self,
        request: &Bound<'_, Request>,
        scope: &Bound<'_, PyDict>,
        (token, number): (u64, u64),
    ) -> PyResult<()> {
        let py = request.py();
        let (receive, send) = talk_functions(request)?;
        self.enter(request, token);
        let returned = call_three(self.application.bind(py), [scope.as_any(), &receive, &send])?;
        request.get().begin(returned)?;
        let tools = &self.tools;
        let event_loop = tools.event_loop.bind(py);
        let names = tools.task_names.bind(py);
        let class = tools.task.bind(py);
        let task = match &tools.eager {
            Some(eager) => make_with(class, request.as_any(), &[event_loop, eager.bind(py)], names)?,
            None => {
                let name = request_name(py, number)?;
                make_with(class, request.as_any(), &[event_loop, &name], names)?
            }
        };
        if let Some(mut state) = request.get().state.borrow(py)
            && state.place != usize::MAX
        {
            state.task = Some(task.unbind());
        }
        Ok(())
    }

    fn close_sockets(&self, py: Python<'_>, code: u16) {
        let holders: Vec<Py<Request>> = self.running.borrow(py).map_or_else(Vec::new, |running| {
            running.by_slot.iter().flatten().map(|(_, request)| request.clone_ref(py)).collect()
        });
        for request in holders {
            Request::go_away(request.bind(py), code);
        }
    }

    /// Requests have become overdue, and their clients have had 504: their tasks are cancelled.
    fn overdue(&self, py: Python<'_>) {
        for found in self.engine.tickets.take_overdue() {
            let (line, seconds) = (found.line, found.seconds);
            self.engine.log.complain(Level::Error, || {
                format!("{line}: overdue after {seconds:.2} s (--request-timeout); its task is cancelled")
            });
        }
        let running: Vec<Py<Request>> = self.running.borrow(py).map_or_else(Vec::new, |running| {
            running.all.iter().flatten().map(|request| request.clone_ref(py)).collect()
        });
        for request in running {
            let task = request.get().state.borrow(py).and_then(|state| match &state.talk {
                Talk::Http(http) if http.exchange.is_overdue() => {
                    state.task.as_ref().map(|task| task.clone_ref(py))
                }
                _ => None,
            });
            if let Some(task) = task
                && let Err(error) = task.bind(py).call_method0(intern!(py, "cancel"))
            {
                error.print(py);
            }
        }
    }

    /// An exchange that is over goes back to its loop.
    pub fn home(&self, py: Python<'_>, http: Http) {
        let Http { exchange, scribe, .. } = http;
        let token = exchange.token();
        if let Some(mut running) = self.running.borrow(py)
            && let Some(place) = running.by_slot.get_mut((token & 0xffff_ffff) as usize)
        {
            *place = None;
        }
        if let Some(mut scribes) = self.scribes.borrow(py)
            && scribes.len() < KEPT_SCRIBES
        {
            scribes.push(scribe);
        }
        let again = self.driver.borrow(py).is_some_and(|mut driver| driver.home(exchange));
        if again {
            self.turn_soon(py);
        }
    }

    pub fn scribe(&self, py: Python<'_>) -> Scribe {
        self.scribes.borrow(py).and_then(|mut scribes| scribes.pop()).unwrap_or_default()
    }

    /// Notes a request among those that run.
    fn enter(&self, request: &Bound<'_, Request>, token: u64) {
        let py = request.py();
        let Some(mut running) = self.running.borrow(py) else { return };
        let place = running.free.pop().unwrap_or_else(|| {
            running.all.push(None);
            running.all.len() - 1
        });
        running.all[place] = Some(request.clone().unbind());
        let slot = (token & 0xffff_ffff) as usize;
        if slot >= running.by_slot.len() {
            running.by_slot.resize_with(slot + 1, || None);
        }
        running.by_slot[slot] = Some((token, request.clone().unbind()));
        if let Some(mut state) = request.get().state.borrow(py) {
            state.place = place;
        }
    }

    /// A request runs no more.
    pub fn leave(&self, py: Python<'_>, place: usize) {
        let Some(mut running) = self.running.borrow(py) else { return };
        if let Some(entry) = running.all.get_mut(place)
            && let Some(request) = entry.take()
        {
            running.free.push(place);
            drop(running);
            drop(request);
        }
    }

    /// The request that holds a connection.
    fn find(&self, py: Python<'_>, token: u64) -> Option<Py<Request>> {
        let running = self.running.borrow(py)?;
        let (known, request) = running.by_slot.get((token & 0xffff_ffff) as usize)?.as_ref()?;
        (*known == token).then(|| request.clone_ref(py))
    }

    /// From now on edges of this connection are told.
    pub fn watch(&self, py: Python<'_>, exchange: &mut Exchange) {
        if let Some(mut driver) = self.driver.borrow(py) {
            // It fails only where memory has run out; then its edges are not seen.
            let _ = driver.watch(exchange);
        }
    }

    /// Rouses a request no later than `at`.
    pub fn rouse_at(&self, py: Python<'_>, token: u64, at: Millis) {
        if let Some(mut driver) = self.driver.borrow(py) {
            driver.rouse_at(token, at);
        }
    }

    /// Sees to it that what waits is sent: when the peer has room, when others have had their
    /// turn, or, where it takes nothing, that it is given up in time.
    pub fn send_on(&self, py: Python<'_>, exchange: &Exchange) {
        let until = exchange.send_until();
        if until == Millis::MAX {
            return;
        }
        if let Some(mut driver) = self.driver.borrow(py) {
            match exchange.awaits_edge() {
                true => driver.rouse_at(exchange.token(), until),
                false => driver.rouse_soon(exchange.token()),
            }
        }
    }

    /// Ends a future, unless somebody has.
    pub fn wake(&self, py: Python<'_>, future: &Py<PyAny>) {
        let future = future.bind(py);
        let done =
            future.call_method0(intern!(py, "done")).is_ok_and(|done| done.is_truthy().unwrap_or(true));
        if !done && let Err(error) = future.call_method1(intern!(py, "set_result"), (py.None(),)) {
            error.print(py);
        }
    }

    /// Asks the event loop for a turn; one wish at a time.
    fn turn_soon(&self, py: Python<'_>) {
        let Some(mut soon) = self.soon.borrow(py) else { return };
        if std::mem::replace(&mut soon.1, true) {
            return;
        }
        if let Some(turn) = &soon.0
            && let Err(error) = self.tools.call_soon.bind(py).call1((turn.bind(py),))
        {
            error.print(py);
        }
    }

    fn end(&self, py: Python<'_>) {
        let on_end = self.on_end.borrow(py).and_then(|mut on_end| on_end.take());
        if let Some(on_end) = on_end
            && let Err(error) = on_end.bind(py).call0()
        {
            error.print(py);
        }
    }
}

/// What a task is called that serves a request, by the number that the log gives the request. asyncio before 3.12 writes a name
/// for each task that has none, whether anybody asks for it or not, and takes ten times as long.
fn request_name(py: Python<'_>, mut number: u64) -> PyResult<Bound<'_, PyAny>> {
    let mut text = *b"Request-00000000000000000000";
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let digits = text.len() - at;
    text.copy_within(at.., PREFIX);
    Ok(latin1(py, &text[..PREFIX + digits])?.into_any())
}
