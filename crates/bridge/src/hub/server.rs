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
use server::evented::{Evented, Wakeup};
use server::exchange::Exchange;
use server::statistics::phase::NO_SLOT;
use server::statistics::step_clock::StepClocks;
use wire::Head;

use super::waiting::Waiting;
use crate::controls::{Controls, in_use};
use crate::current::CurrentRequest;
use crate::event_loop::{EventLoop, Turn};
use crate::ffi::{GilCell, call_two, keep_frames};
use crate::request_id::Names;
use crate::settings::{Listeners, Settings};
use crate::slab::Slab;
use crate::wsgi::{PeerStrings, Reply, Scheduler, WaitMode, Workspace, Wsgi, gateways};

/// What one request needs is kept for so many.
const KEPT_WORKSPACES: usize = 64;

/// A request whose greenlet has not ended.
struct Running {
    head: Arc<Head>,
    number: u64,
    /// None until it is suspended for the first time.
    greenlet: Option<Py<PyAny>>,
    /// What it is answered with, once it has begun.
    reply: Option<Py<Reply>>,
}

/// A request that its greenlet is about to take.
struct Starting {
    exchange: Box<Exchange>,
    place: usize,
}

/// What a greenlet is made of: its class, and what it runs, which is the bound method `run_request`.
struct Making {
    greenlet: Py<PyAny>,
    run_request: Py<PyAny>,
}

/// What Python has given for the server's life.
struct Hub {
    hub: Py<PyAny>,
    /// `greenlet.greenlet.switch`
    switch: Py<PyAny>,
    on_overdue: Py<PyAny>,
}

/// One WSGI server over listeners that Python keeps open.
#[pyclass(frozen, extends = Controls, module = "forehand._core")]
pub struct GeventServer {
    wsgi: Wsgi,
    event_loop: Arc<EventLoop>,
    waiting: Arc<Waiting>,
    hub: Hub,
    making: GilCell<Option<Making>>,
    starting: GilCell<Option<Starting>>,
    running: GilCell<Slab<Running>>,
    clocks: GilCell<StepClocks>,
    workspaces: GilCell<Vec<Workspace>>,
    /// One for all greenlets: of their own they would be 4 KiB more for each that waits.
    peers: Arc<GilCell<PeerStrings>>,
    /// Connections whose exchange has ended while somebody still waits for them.
    ended: GilCell<Vec<u64>>,
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
        listeners: Listeners,
        settings: &Bound<'_, PyDict>,
        life: (Bound<'_, PyAny>, Py<PyAny>, Py<PyAny>),
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut settings = Settings::read(settings)?;
        settings.config.stepwise = true;
        let (hub, on_overdue, on_end) = life;
        let called_with = (gateways(py, &listeners, &settings)?, Names::new(py, &settings.config));
        let most = settings.config.threads;
        let driver = Evented::bounded(settings.into_loop(&listeners)?, most)?;
        let run_callback = hub.getattr("loop")?.getattr("run_callback")?.unbind();
        let event_loop = Arc::new(EventLoop::new(driver, run_callback, on_end));
        let controls = Controls::new(&event_loop.engine);
        let server = Self {
            wsgi: Wsgi::new(application, called_with, false),
            waiting: Arc::new(Waiting::new(&hub, Arc::clone(&event_loop))?),
            event_loop,
            hub: Hub {
                switch: py.import("greenlet")?.getattr("greenlet")?.getattr("switch")?.unbind(),
                hub: hub.unbind(),
                on_overdue,
            },
            making: GilCell::new(None),
            starting: GilCell::new(None),
            running: GilCell::new(Slab::default()),
            clocks: GilCell::new(StepClocks::default()),
            workspaces: GilCell::new(Vec::new()),
            peers: Arc::default(),
            ended: GilCell::new(Vec::new()),
        };
        Ok(PyClassInitializer::from(controls).add_subclass(server))
    }

    /// The descriptor to watch for reading.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.event_loop.fileno(py)
    }

    /// Ready for the first request.
    fn start(this: &Bound<'_, Self>) -> PyResult<()> {
        let (py, server) = (this.py(), this.get());
        keep_frames(py);
        let class = py.import(intern!(py, "forehand.greenlets.steps"))?.getattr(intern!(py, "class_of"))?;
        let calls = (this.getattr(intern!(py, "step"))?, this.getattr(intern!(py, "request"))?);
        *server.making.borrow(py).ok_or_else(in_use)? = Some(Making {
            greenlet: class.call1(calls)?.unbind(),
            run_request: this.getattr(intern!(py, "run_request"))?.unbind(),
        });
        server.event_loop.start(this.as_any(), None)
    }

    /// Nobody watches the hub any more: it, or the interpreter, is about to end.
    fn end_watch(&self, py: Python<'_>) {
        self.event_loop.end_watch(py);
    }

    /// Does what is ready; called in the hub when the descriptor is readable.
    fn turn(&self, py: Python<'_>) {
        let Some(Turn { requests, ready, after }) = self.event_loop.turn(py) else { return };
        if self.event_loop.engine.deadlines.any_found() {
            self.overdue(py);
        }
        if self.event_loop.engine.slow.any_found() {
            self.look_at_slow(py);
        }
        let ended = self.ended.borrow(py).map_or_else(Vec::new, |mut ended| std::mem::take(&mut *ended));
        for token in ready.into_iter().map(|Wakeup { token, .. }| token).chain(ended) {
            let _step = self.event_loop.heartbeat.step();
            self.waiting.wake(py, token);
        }
        for exchange in requests {
            self.begin(py, exchange);
        }
        self.event_loop.turn_ends(py, after);
    }

    /// The same, as the hub calls it because it was asked to.
    fn turn_again(&self, py: Python<'_>) {
        self.event_loop.asked_turn_begins(py);
        self.turn(py);
    }

    /// A greenlet's whole life: the request that has just begun.
    fn run_request(&self, py: Python<'_>) {
        let Some(Starting { mut exchange, place }) = self.starting.borrow(py).and_then(|mut it| it.take())
        else {
            return;
        };
        let space = self.workspaces.borrow(py).and_then(|mut workspaces| workspaces.pop());
        let mut space = space.unwrap_or_else(|| {
            let waiting = Arc::clone(&self.waiting) as Arc<dyn Scheduler>;
            Workspace::new(WaitMode::Cooperative(waiting), Arc::clone(&self.peers))
        });
        self.answers_with(py, place, &mut space);
        let (slot, measured) = (exchange.slot(), exchange.begins_now());
        if let Some(mut clocks) = self.clocks.borrow(py) {
            clocks.start(slot, measured);
        }
        let deadline = exchange.deadline.clone();
        if let Some(deadline) = &deadline {
            // What stands for a thread is the place; zero is nobody.
            deadline.begin(place as u64 + 1);
        }
        let answered = catch_unwind(AssertUnwindSafe(|| {
            self.wsgi.answer_at(py, &mut exchange, &self.event_loop.engine, &mut space)
        }));
        if self.event_loop.engine.is_a_copy() {
            // In a forked child, where nothing of it may be given back.
            std::mem::forget((exchange, space));
            return;
        }
        if answered.is_err() {
            exchange.fail(&self.event_loop.engine);
        } else if let Some(mut workspaces) = self.workspaces.borrow(py)
            && workspaces.len() < KEPT_WORKSPACES
        {
            workspaces.push(space);
        }
        if let Some(deadline) = &deadline {
            deadline.end();
        }
        self.leave(py, place);
        if let Some(clock) = self.clocks.borrow(py).map(|mut clocks| clocks.take(slot)) {
            exchange.has_used(&clock);
        }
        self.hand_back(py, exchange);
    }

    /// A step of the request in that slot runs now, or none does (0); that of which one ran until now. Called on the hub's
    /// thread, where a greenlet is switched to that has waited.
    fn step(&self, py: Python<'_>, slot: u16) -> u16 {
        let stepping = &self.event_loop.engine.stepping;
        let before = stepping.get();
        stepping.set(slot);
        if let Some(mut clocks) = self.clocks.borrow(py) {
            clocks.change(before, slot);
        }
        before
    }

    /// The request of a greenlet that is one's, and runs.
    fn request(&self, py: Python<'_>, greenlet: &Bound<'_, PyAny>) -> PyResult<Option<CurrentRequest>> {
        let found = {
            let running = self.running.borrow(py).ok_or_else(in_use)?;
            let is_its = |known: &Option<Py<PyAny>>| known.as_ref().is_some_and(|known| known.is(greenlet));
            // One that has not waited yet runs its first step: there is one of these at a time.
            let found = running.iter().find(|running| is_its(&running.greenlet));
            let found = found.or_else(|| running.iter().find(|running| running.greenlet.is_none()));
            found.and_then(|running| running.reply.as_ref()).map(|reply| reply.clone_ref(py))
        };
        found.map_or(Ok(None), |reply| reply.get().request(py))
    }

    /// Requests that run and wait for something: (greenlet, request line).
    fn greenlets(&self, py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, String)>> {
        let running = self.running.borrow(py).ok_or_else(in_use)?;
        let one = |running: &Running| {
            let line = String::from_utf8_lossy(running.head.request_line()).into_owned();
            running.greenlet.as_ref().map(|greenlet| (greenlet.clone_ref(py), line))
        };
        Ok(running.iter().filter_map(one).collect())
    }
}

impl GeventServer {
    /// A request begins: its greenlet runs until it ends or waits for something.
    fn begin(&self, py: Python<'_>, mut exchange: Box<Exchange>) {
        let pipelined = exchange.pipelined_replies().cloned();
        let slot = exchange.slot();
        if let Body::Stream(_) = exchange.body {
            // Whoever reads it waits for the next of its bytes.
            self.waiting.watch(py, &mut exchange);
        }
        let Some(place) = self.enter(py, &exchange) else { return };
        if let Some(mut starting) = self.starting.borrow(py) {
            *starting = Some(Starting { exchange, place });
        }
        let run = {
            let _step = self.event_loop.heartbeat.step();
            self.event_loop.engine.stepping.set(slot);
            self.run(py)
        };
        self.step(py, NO_SLOT);
        match run {
            Ok(greenlet) => {
                if self.is_suspended(py, (place, slot), greenlet)
                    && let Some(pipelined) = pipelined
                {
                    // Replies to earlier requests of its connection do not wait for it.
                    let _ = pipelined.send();
                }
            }
            Err(error) => {
                error.print(py);
                self.failed_to_begin(py);
            }
        }
    }

    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let made = {
            let making = self.making.borrow(py).ok_or_else(in_use)?;
            let making = making.as_ref().ok_or_else(in_use)?;
            (making.greenlet.clone_ref(py), making.run_request.clone_ref(py))
        };
        let greenlet = call_two(made.0.bind(py), made.1.bind(py), self.hub.hub.bind(py))?;
        // Whose step it is has been said: its class need not say it again.
        self.hub.switch.bind(py).call1((&greenlet,))?;
        Ok(greenlet)
    }

    /// No greenlet could be made: memory has run out.
    #[cold]
    fn failed_to_begin(&self, py: Python<'_>) {
        let Some(left) = self.starting.borrow(py).and_then(|mut it| it.take()) else { return };
        let Starting { mut exchange, place } = left;
        exchange.fail(&self.event_loop.engine);
        self.leave(py, place);
        self.hand_back(py, exchange);
    }

    /// Whoever asks for the request of a place finds it there.
    fn answers_with(&self, py: Python<'_>, place: usize, space: &mut Workspace) {
        if let Ok(reply) = space.reply(py, &self.event_loop.engine)
            && let Some(mut running) = self.running.borrow(py)
            && let Some(request) = running.get_mut(place)
        {
            request.reply = Some(reply);
        }
    }

    /// Takes a place among those that run.
    fn enter(&self, py: Python<'_>, exchange: &Exchange) -> Option<usize> {
        let running = Running {
            head: Arc::clone(&exchange.head),
            number: exchange.number(),
            greenlet: None,
            reply: None,
        };
        Some(self.running.borrow(py)?.insert(running))
    }

    /// False for a request that has ended. The place cannot have been taken by another one: only
    /// the hub gives places, and the hub has been here.
    fn is_suspended(&self, py: Python<'_>, (place, slot): (usize, u16), greenlet: Bound<'_, PyAny>) -> bool {
        let Some(mut running) = self.running.borrow(py) else { return false };
        match running.get_mut(place) {
            Some(request) => {
                if let Err(error) = greenlet.setattr(intern!(py, "slot"), slot) {
                    // Memory has run out: its other steps are nobody's.
                    error.print(py);
                }
                request.greenlet = Some(greenlet.unbind());
                true
            }
            None => false,
        }
    }

    fn leave(&self, py: Python<'_>, place: usize) {
        // What has left is dropped when the table can be used again.
        let left = self.running.borrow(py).and_then(|mut running| running.remove(place));
        drop(left);
    }

    /// An exchange has come to its end.
    fn hand_back(&self, py: Python<'_>, exchange: Box<Exchange>) {
        let token = exchange.token();
        let mut again = self.event_loop.hand_back(py, exchange);
        if self.waiting.any(py, token)
            && let Some(mut ended) = self.ended.borrow(py)
        {
            ended.push(token);
            again = true;
        }
        if again {
            self.event_loop.turn_soon(py);
        }
    }

    /// Requests take long: where their greenlets wait.
    #[cold]
    fn look_at_slow(&self, py: Python<'_>) {
        self.event_loop.look_at_slow(py, "of_greenlet", |number| {
            let running = self.running.borrow(py)?;
            let found = running.iter().find(|running| running.number == number)?;
            found.greenlet.as_ref().map(|greenlet| greenlet.clone_ref(py))
        });
    }

    /// Requests have become overdue, and their clients have had 504.
    #[cold]
    fn overdue(&self, py: Python<'_>) {
        for found in self.event_loop.engine.deadlines.take_overdue() {
            let place = usize::try_from(found.thread).unwrap_or(0).wrapping_sub(1);
            let greenlet = self.running.borrow(py).and_then(|running| {
                running.get(place)?.greenlet.as_ref().map(|greenlet| greenlet.clone_ref(py))
            });
            // The one that runs there may be the next already.
            if let Some(greenlet) = greenlet
                && self.event_loop.engine.deadlines.is_inside(found.serial)
                && let Err(error) = self.hub.on_overdue.bind(py).call1((greenlet, found.line, found.seconds))
            {
                error.print(py);
            }
        }
    }
}
