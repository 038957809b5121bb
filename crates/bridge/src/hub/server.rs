//! `forehand._core.GeventServer`: an engine under gevent's hub, as Python sees it.
//!
//! Knows: how requests begin, in a greenlet each, and how they end. Does not know: what is done
//! in them. Runs on the hub's thread; `turn` in the hub itself.

use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::body::Body;
use server::engine::Engine;
use server::evented::{After, Evented, Roused};
use server::exchange::Exchange;
use server::watchdog::Watchdog;
use server::watched::Watched;
use wire::Head;

use super::waiting::Waiting;
use crate::controls::{Controls, in_use};
use crate::ffi::{GilCell, call_two, keep_frames};
use crate::server::gateways;
use crate::settings::{Lent, Settings};
use crate::witness;
use crate::wsgi::{Scheduler, WaitMode, Workspace, Wsgi};

/// What one request needs is kept for so many.
const KEPT_WORKSPACES: usize = 64;

/// A request whose greenlet has not ended.
struct Running {
    head: Arc<Head>,
    /// None until it is suspended for the first time.
    greenlet: Option<Py<PyAny>>,
}

/// Requests that run, each at its place.
#[derive(Default)]
struct Places {
    all: Vec<Option<Running>>,
    free: Vec<usize>,
}

/// A request that its greenlet is about to take.
struct Beginning {
    exchange: Box<Exchange>,
    place: usize,
}

/// When `turn` runs next.
#[derive(Default)]
struct Soon {
    turn_again: Option<Py<PyAny>>,
    /// The hub will call it by itself.
    asked: bool,
    /// Connections whose exchange has ended while somebody still waits for them.
    over: Vec<u64>,
}

/// What Python has given for the server's life.
struct Ties {
    hub: Py<PyAny>,
    run_callback: Py<PyAny>,
    greenlet: Py<PyAny>,
    on_overdue: Py<PyAny>,
}

/// One WSGI server over listeners that Python keeps open.
#[pyclass(frozen, extends = Controls, module = "forehand._core")]
pub struct GeventServer {
    wsgi: Wsgi,
    engine: Arc<Engine>,
    watched: Arc<Watched>,
    watchdog: GilCell<Option<Watchdog>>,
    waiting: Arc<Waiting>,
    ties: Ties,
    /// The bound method `play`.
    play: GilCell<Option<Py<PyAny>>>,
    beginning: GilCell<Option<Beginning>>,
    places: GilCell<Places>,
    workspaces: GilCell<Vec<Workspace>>,
    soon: GilCell<Soon>,
    on_end: GilCell<Option<Py<PyAny>>>,
}

#[pymethods]
impl GeventServer {
    /// `listeners`: descriptor, URL and kind of each. `settings`: a mapping of the names in
    /// `forehand.settings`; `threads` is how many greenlets may run at a time. `life`:
    /// `(hub, on_overdue, on_end)`: the thread's hub, what is called in it with a greenlet, its
    /// request line and seconds, and what is called once when the engine has ended.
    #[new]
    fn new(
        py: Python<'_>,
        application: Py<PyAny>,
        listeners: Vec<Lent>,
        settings: &Bound<'_, PyDict>,
        life: (Bound<'_, PyAny>, Py<PyAny>, Py<PyAny>),
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = Settings::read(settings)?;
        let (hub, on_overdue, on_end) = life;
        let gateways = gateways(py, &listeners, &settings)?;
        let most = settings.config.threads;
        let driver = Evented::bounded(settings.into_loop(&listeners)?, most)?;
        let engine = Arc::clone(driver.engine());
        let controls = Controls::new(&engine);
        let server = Self {
            wsgi: Wsgi::new(application, gateways, false),
            engine,
            watched: Arc::clone(driver.watched()),
            watchdog: GilCell::new(None),
            waiting: Arc::new(Waiting::new(&hub, driver)?),
            ties: Ties {
                run_callback: hub.getattr("loop")?.getattr("run_callback")?.unbind(),
                greenlet: py.import("greenlet")?.getattr("greenlet")?.unbind(),
                hub: hub.unbind(),
                on_overdue,
            },
            play: GilCell::new(None),
            beginning: GilCell::new(None),
            places: GilCell::new(Places::default()),
            workspaces: GilCell::new(Vec::new()),
            soon: GilCell::new(Soon::default()),
            on_end: GilCell::new(Some(on_end)),
        };
        Ok(PyClassInitializer::from(controls).add_subclass(server))
    }

    /// The descriptor to watch for reading.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.waiting.driver.borrow(py).map(|driver| driver.fileno()).ok_or_else(in_use)
    }

    /// Ready for the first request.
    fn start(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        reactor::sys::give_back();
        keep_frames(py);
        *this.get().play.borrow(py).ok_or_else(in_use)? = Some(this.getattr(intern!(py, "play"))?.unbind());
        this.get().soon.borrow(py).ok_or_else(in_use)?.turn_again =
            Some(this.getattr(intern!(py, "turn_again"))?.unbind());
        let driver = this.get().waiting.driver.borrow(py).ok_or_else(in_use)?;
        *this.get().watchdog.borrow(py).ok_or_else(in_use)? = Some(witness::watch(py, &driver, None)?);
        Ok(())
    }

    /// Nobody watches the hub any more: it, or the interpreter, is about to end.
    fn end_watch(&self, py: Python<'_>) {
        witness::end_watch(py, &self.waiting.driver, &self.watchdog);
    }

    /// Does what is ready; called in the hub when the descriptor is readable.
    fn turn(&self, py: Python<'_>) {
        let (mut requests, mut roused) = (Vec::new(), Vec::new());
        let after = {
            let Some(mut driver) = self.waiting.driver.borrow(py) else { return };
            driver.turn(&mut requests, &mut roused)
        };
        if self.engine.tickets.any_found() {
            self.overdue(py);
        }
        let over = self.soon.borrow(py).map_or_else(Vec::new, |mut soon| std::mem::take(&mut soon.over));
        for token in roused.into_iter().map(|Roused { token, .. }| token).chain(over) {
            let _step = self.watched.step();
            self.waiting.rouse(py, token);
        }
        for exchange in requests {
            self.begin(py, exchange);
        }
        match after {
            After::Quiet => {}
            After::Again => self.turn_soon(py),
            After::Ended => self.end(py),
        }
    }

    /// The same, as the hub calls it by our own wish.
    fn turn_again(&self, py: Python<'_>) {
        if let Some(mut soon) = self.soon.borrow(py) {
            soon.asked = false;
        }
        self.turn(py);
    }

    /// A greenlet's whole life: the request that has just begun.
    fn play(&self, py: Python<'_>) {
        let Some(Beginning { mut exchange, place }) = self.beginning.borrow(py).and_then(|mut it| it.take())
        else {
            return;
        };
        let space = self.workspaces.borrow(py).and_then(|mut workspaces| workspaces.pop());
        let mut space = space.unwrap_or_else(|| {
            let waiting = Arc::clone(&self.waiting) as Arc<dyn Scheduler>;
            Workspace::new(WaitMode::Cooperative(waiting))
        });
        let ticket = exchange.ticket.clone();
        if let Some(ticket) = &ticket {
            // What stands for a thread is the place; zero is nobody.
            ticket.begin(place as u64 + 1);
        }
        let answered = catch_unwind(AssertUnwindSafe(|| {
            self.wsgi.answer_at(py, &mut exchange, &self.engine, &mut space)
        }));
        if self.engine.is_a_copy() {
            // In a forked child, where nothing of it may be given back.
            std::mem::forget((exchange, space));
            return;
        }
        if answered.is_err() {
            exchange.fail(&self.engine);
        } else if let Some(mut workspaces) = self.workspaces.borrow(py)
            && workspaces.len() < KEPT_WORKSPACES
        {
            workspaces.push(space);
        }
        if let Some(ticket) = &ticket {
            ticket.end();
        }
        self.leave(py, place);
        self.home(py, *exchange);
    }

    /// Requests that run and wait for something: (greenlet, request line).
    fn greenlets(&self, py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, String)>> {
        let places = self.places.borrow(py).ok_or_else(in_use)?;
        let one = |running: &Running| {
            let line = String::from_utf8_lossy(running.head.request_line()).into_owned();
            running.greenlet.as_ref().map(|greenlet| (greenlet.clone_ref(py), line))
        };
        Ok(places.all.iter().flatten().filter_map(one).collect())
    }
}

impl GeventServer {
    /// A request begins: its greenlet runs until it ends or waits for something.
    fn begin(&self, py: Python<'_>, exchange: Exchange) {
        let carry = exchange.carry_that_waits().cloned();
        let mut exchange = Box::new(exchange);
        if let Body::Stream(_) = exchange.body {
            // Whoever reads it waits for the next of its bytes.
            self.waiting.watch(py, &mut exchange);
        }
        let Some(place) = self.enter(py, &exchange) else { return };
        if let Some(mut beginning) = self.beginning.borrow(py) {
            *beginning = Some(Beginning { exchange, place });
        }
        let run = {
            let _step = self.watched.step();
            self.run(py)
        };
        match run {
            Ok(greenlet) => {
                if self.is_suspended(py, place, greenlet)
                    && let Some(carry) = carry
                {
                    // Replies to earlier requests of its connection do not wait for it.
                    let _ = carry.send();
                }
            }
            Err(error) => {
                error.print(py);
                self.failed_to_begin(py);
            }
        }
    }

    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let play = self.play.borrow(py).and_then(|play| play.as_ref().map(|play| play.clone_ref(py)));
        let play = play.ok_or_else(in_use)?;
        let greenlet = call_two(self.ties.greenlet.bind(py), play.bind(py), self.ties.hub.bind(py))?;
        greenlet.call_method0(intern!(py, "switch"))?;
        Ok(greenlet)
    }

    /// No greenlet could be made: memory has run out.
    #[cold]
    fn failed_to_begin(&self, py: Python<'_>) {
        let Some(left) = self.beginning.borrow(py).and_then(|mut it| it.take()) else { return };
        let Beginning { mut exchange, place } = left;
        exchange.fail(&self.engine);
        self.leave(py, place);
        self.home(py, *exchange);
    }

    /// Takes a place among those that run.
    fn enter(&self, py: Python<'_>, exchange: &Exchange) -> Option<usize> {
        let mut places = self.places.borrow(py)?;
        let running = Running { head: Arc::clone(&exchange.head), greenlet: None };
        match places.free.pop() {
            Some(place) => {
                places.all[place] = Some(running);
                Some(place)
            }
            None => {
                places.all.push(Some(running));
                Some(places.all.len() - 1)
            }
        }
    }

    /// False for a request that has ended. The place cannot have been taken by another one: only
    /// the hub gives places, and the hub has been here.
    fn is_suspended(&self, py: Python<'_>, place: usize, greenlet: Bound<'_, PyAny>) -> bool {
        let Some(mut places) = self.places.borrow(py) else { return false };
        match places.all.get_mut(place) {
            Some(Some(running)) => {
                running.greenlet = Some(greenlet.unbind());
                true
            }
            _ => false,
        }
    }

    fn leave(&self, py: Python<'_>, place: usize) {
        let Some(mut places) = self.places.borrow(py) else { return };
        let left = places.all.get_mut(place).and_then(Option::take);
        places.free.push(place);
        drop(places);
        drop(left);
    }

    /// An exchange has come to its end.
    fn home(&self, py: Python<'_>, exchange: Exchange) {
        let token = exchange.token();
        let mut again = self.waiting.driver.borrow(py).is_some_and(|mut driver| driver.home(exchange));
        if self.waiting.any(py, token)
            && let Some(mut soon) = self.soon.borrow(py)
        {
            soon.over.push(token);
            again = true;
        }
        if again {
            self.turn_soon(py);
        }
    }

    /// Requests have become overdue, and their clients have had 504.
    #[cold]
    fn overdue(&self, py: Python<'_>) {
        for found in self.engine.tickets.take_overdue() {
            let place = usize::try_from(found.thread).unwrap_or(0).wrapping_sub(1);
            let greenlet = self.places.borrow(py).and_then(|places| {
                let running = places.all.get(place)?.as_ref()?;
                running.greenlet.as_ref().map(|greenlet| greenlet.clone_ref(py))
            });
            // The one that runs there may be the next already.
            if let Some(greenlet) = greenlet
                && self.engine.tickets.is_inside(found.serial)
                && let Err(error) = self.ties.on_overdue.bind(py).call1((greenlet, found.line, found.seconds))
            {
                error.print(py);
            }
        }
    }

    /// Asks the hub for a turn; one wish at a time.
    fn turn_soon(&self, py: Python<'_>) {
        let turn_again = {
            let Some(mut soon) = self.soon.borrow(py) else { return };
            if std::mem::replace(&mut soon.asked, true) {
                return;
            }
            soon.turn_again.as_ref().map(|it| it.clone_ref(py))
        };
        if let Some(turn_again) = turn_again
            && let Err(error) = self.ties.run_callback.bind(py).call1((turn_again,))
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
