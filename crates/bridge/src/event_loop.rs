//! An event loop of Python's that drives an engine: asyncio's, uvloop's, or gevent's hub.
//!
//! Knows: how the loop is asked for a turn, and the engine's end of it. Does not know: what becomes of requests.
//! Runs on the event loop's thread.

use std::os::fd::RawFd;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use server::engine::Engine;
use server::evented::{After, Evented, Wakeup};
use server::exchange::Exchange;
use server::heartbeat::Heartbeat;
use server::watchdog::Watchdog;
use wire::Millis;

use crate::controls::in_use;
use crate::ffi::GilCell;
use crate::{sampler, slices};

/// The engine's driver, and how its loop is asked for something.
pub struct EventLoop {
    driver: GilCell<Evented>,
    pub engine: Arc<Engine>,
    /// What the watchdog sees of this loop.
    pub heartbeat: Arc<Heartbeat>,
    watchdog: GilCell<Option<Watchdog>>,
    /// Has the loop call something soon: asyncio's `call_soon`, gevent's `run_callback`.
    pub call_soon: Py<PyAny>,
    next: GilCell<NextTurn>,
    /// Called once, when the engine has ended.
    on_end: GilCell<Option<Py<PyAny>>>,
}

/// A turn that the loop takes without an event of its descriptor.
#[derive(Default)]
struct NextTurn {
    /// The server's bound method `turn_again`.
    call: Option<Py<PyAny>>,
    /// The loop has been asked, and will call it.
    asked: bool,
}

/// What a turn has brought.
pub struct Turn {
    /// Requests that begin.
    #[expect(clippy::vec_box, reason = "each goes on by itself, as a pointer")]
    pub requests: Vec<Box<Exchange>>,
    /// Connections of requests that run, and have an event.
    pub ready: Vec<Wakeup>,
    pub after: After,
}

impl EventLoop {
    pub fn new(driver: Evented, call_soon: Py<PyAny>, on_end: Py<PyAny>) -> Self {
        Self {
            engine: Arc::clone(driver.engine()),
            heartbeat: Arc::clone(driver.heartbeat()),
            driver: GilCell::new(driver),
            watchdog: GilCell::new(None),
            call_soon,
            next: GilCell::new(NextTurn::default()),
            on_end: GilCell::new(Some(on_end)),
        }
    }

    /// The descriptor to watch for reading.
    pub fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        self.driver.borrow(py).map(|driver| driver.fileno()).ok_or_else(in_use)
    }

    /// Ready for the first request. `server` has `turn_again`; `tasks_of`: the loop whose tasks are named where one
    /// of them blocks it.
    pub fn start(&self, server: &Bound<'_, PyAny>, tasks_of: Option<Py<PyAny>>) -> PyResult<()> {
        let py = server.py();
        reactor::sys::give_back_memory();
        self.next.borrow(py).ok_or_else(in_use)?.call =
            Some(server.getattr(intern!(py, "turn_again"))?.unbind());
        let driver = self.driver.borrow(py).ok_or_else(in_use)?;
        *self.watchdog.borrow(py).ok_or_else(in_use)? = Some(sampler::watch(py, &driver, tasks_of)?);
        slices::tell(&self.engine.log);
        slices::shorten();
        Ok(())
    }

    /// Nobody watches the loop any more, and the watchdog has ended: the interpreter may go after this.
    pub fn end_watch(&self, py: Python<'_>) {
        if self.engine.is_a_copy() {
            // A forked child has no such thread.
            return;
        }
        // It holds the server, which holds this: what nobody asks for a turn any more can go.
        let turn_again = self.next.borrow(py).and_then(|mut next| next.call.take());
        drop(turn_again);
        slices::give_back();
        self.heartbeat.end();
        let watchdog = self.watchdog.borrow(py).and_then(|mut watchdog| watchdog.take());
        if let Some(watchdog) = watchdog {
            py.detach(|| watchdog.join());
        }
    }

    /// Does what is ready in the engine. None: it is in use.
    pub fn turn(&self, py: Python<'_>) -> Option<Turn> {
        let (mut requests, mut ready) = (Vec::new(), Vec::new());
        let after = self.driver.borrow(py)?.turn(&mut requests, &mut ready);
        Some(Turn { requests, ready, after })
    }

    /// Requests take long: where the greenlets or tasks stand that `find` knows by the requests' numbers. `how` is the function
    /// of `forehand.waits` that says so.
    #[cold]
    pub fn look_at_slow(&self, py: Python<'_>, how: &str, find: impl Fn(u64) -> Option<Py<PyAny>>) {
        let tell = py.import(intern!(py, "forehand.waits")).and_then(|waits| waits.getattr(how));
        for (_, number) in self.engine.slow.take_found() {
            let Some(found) = find(number) else { continue };
            // What cannot be described, memory being short, is not worth more of it.
            if let Ok(tell) = &tell
                && let Ok(Some(place)) =
                    tell.call1((found,)).and_then(|told| told.extract::<Option<String>>())
            {
                self.engine.slow.note(number, &place);
            }
        }
    }

    /// The loop has called `turn_again`.
    pub fn asked_turn_begins(&self, py: Python<'_>) {
        if let Some(mut next) = self.next.borrow(py) {
            next.asked = false;
        }
    }

    /// What a turn brought is done.
    pub fn turn_ends(&self, py: Python<'_>, after: After) {
        match after {
            After::Quiet => {}
            After::Again => self.turn_soon(py),
            After::Ended => self.end(py),
        }
    }

    /// Asks the loop for a turn; it is asked once.
    pub fn turn_soon(&self, py: Python<'_>) {
        let call = {
            let Some(mut next) = self.next.borrow(py) else { return };
            if std::mem::replace(&mut next.asked, true) {
                return;
            }
            next.call.as_ref().map(|call| call.clone_ref(py))
        };
        if let Some(call) = call
            && let Err(error) = self.call_soon.bind(py).call1((call,))
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

    /// From now on events of this connection are told.
    pub fn watch(&self, py: Python<'_>, exchange: &mut Exchange) {
        if let Some(mut driver) = self.driver.borrow(py) {
            // It fails only where memory has run out; then its events are not seen.
            let _ = driver.watch(exchange);
        }
    }

    /// Tells of a connection no later than `at`, whether it has an event or not.
    pub fn wake_at(&self, py: Python<'_>, token: u64, at: Millis) {
        if let Some(mut driver) = self.driver.borrow(py) {
            driver.wake_at(token, at);
        }
    }

    /// Tells of a connection when others have had their turn.
    pub fn wake_soon(&self, py: Python<'_>, token: u64) {
        if let Some(mut driver) = self.driver.borrow(py) {
            driver.wake_soon(token);
        }
    }

    /// Sees to it that what waits is sent: when the peer has room, when others have had their
    /// turn, or, where it takes nothing, that it is given up in time.
    pub fn send_later(&self, py: Python<'_>, exchange: &Exchange) {
        match exchange.send_until() {
            Millis::MAX => {}
            until if exchange.awaits_edge() => self.wake_at(py, exchange.token(), until),
            _ => self.wake_soon(py, exchange.token()),
        }
    }

    /// An exchange that is over goes back to the engine. True: a turn is needed soon.
    pub fn hand_back(&self, py: Python<'_>, exchange: Box<Exchange>) -> bool {
        self.driver.borrow(py).is_some_and(|mut driver| driver.take_back(exchange))
    }
}
