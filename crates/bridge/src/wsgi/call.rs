//! The way of a request through a WSGI application.
//!
//! Knows: the order of things in PEP 3333. Does not know: how bytes travel. Runs on worker
//! threads, which are attached to the interpreter except where they wait.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reactor::LetGo;
use server::access::Wanted;
use server::app::App;
use server::body::Body;
use server::engine::Engine;
use server::exchange::Exchange;
use server::outside::Outside;
use server::scribe::Scribe;
use wire::{Fault, Millis};

use super::environ::{Gateway, Origin};
use super::input::Input;
use super::iterate::{Failure, send_result};
use super::reply::Desk;
use super::routes::{Routes, resident_kib};
use super::way::Way;
use crate::failure;
use crate::farewell::is_farewell;
use crate::ffi::{
    Serving, attached, call_two, latin1, outside, outside_for_work, raise_in_thread, set_item,
    strained_until, thread_ident,
};

/// A WSGI application on the engine.
pub struct Wsgi {
    application: Py<PyAny>,
    /// One for each listener.
    gateways: Vec<Gateway>,
    /// Memory by route, where it is watched.
    pub routes: Option<Routes>,
}

/// Waits without the interpreter.
pub struct Detached;

impl Outside for Detached {
    fn outside(&self, wait: &mut dyn FnMut(&LetGo)) {
        outside(wait);
    }
}

/// What a thread keeps from one request to the next, and how its requests wait.
#[derive(Default)]
pub struct Bench {
    desk: Option<Desk>,
    origin: Origin,
    way: Way,
}

impl Bench {
    /// A bench for requests that wait like this.
    pub fn new(way: Way) -> Self {
        Self { way, ..Self::default() }
    }
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench::default());
}

impl App for Wsgi {
    fn live(&self, life: &mut dyn FnMut()) {
        let _serving = Serving::begin();
        Python::attach(|py| {
            crate::forked::known_to_threading(py);
            life();
            // The thread's objects go while it is attached.
            BENCH.take();
        });
    }

    #[inline]
    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>) {
        attached(|py| {
            if exchange.ticket.is_none() && self.routes.is_none() {
                self.answer(py, exchange, engine);
            } else {
                self.answer_watched(py, exchange, engine);
            }
        });
    }

    #[inline]
    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        outside(|_| wait())
    }

    #[inline]
    fn outside_for_work<R>(&self, wait: impl FnOnce() -> R) -> R {
        outside_for_work(wait)
    }

    #[inline]
    fn strained_until(&self) -> Millis {
        strained_until()
    }
}

impl Wsgi {
    /// `gateways`: one for each listener, in the engine's order.
    pub fn new(application: Py<PyAny>, gateways: Vec<Gateway>, watch_routes: bool) -> Self {
        Self { application, gateways, routes: watch_routes.then(Routes::default) }
    }

    /// Answers one request with what the thread keeps.
    #[inline]
    fn answer(&self, py: Python<'_>, exchange: &mut Exchange, engine: &Arc<Engine>) {
        let mut bench = BENCH.take();
        self.answer_at(py, exchange, engine, &mut bench);
        BENCH.set(bench);
    }

    /// Answers one request. Where requests are suspended, the exchange is not on the stack:
    /// others reach it while this one's stack is not in its place.
    #[inline]
    pub fn answer_at(
        &self,
        py: Python<'_>,
        exchange: &mut Exchange,
        engine: &Arc<Engine>,
        bench: &mut Bench,
    ) {
        match self.prepare(py, exchange, engine, bench) {
            Ok(Ok((environ, desk))) => {
                let reply = desk.reply.get();
                let played = reply.exchange.during(py, exchange, || {
                    let played = self.play(py, &environ, &desk);
                    if engine.is_a_copy() { end_of_a_copy(py, played, &bench.way) } else { played }
                });
                if let Some(access) = &engine.config.access
                    && !access.format.wanted().is_empty()
                {
                    note_environ(exchange, &environ, access.format.wanted());
                }
                leaves(&bench.way, exchange);
                if let Err(failure) = played {
                    self.failed(py, exchange, engine, (failure, &bench.way));
                }
                bench.desk = Some(desk);
            }
            Ok(Err(fault)) => exchange.refuse(&fault, &mut Scribe::new(), engine),
            Err(error) => {
                leaves(&bench.way, exchange);
                self.failed(py, exchange, engine, (Failure::Raised(error), &bench.way));
            }
        }
    }

    /// Answers one request that has a deadline, or whose memory is watched.
    #[cold]
    fn answer_watched(&self, py: Python<'_>, exchange: &mut Exchange, engine: &Arc<Engine>) {
        let ticket = exchange.ticket.clone();
        let thread = thread_ident();
        if let Some(ticket) = &ticket
            && !ticket.begin(thread)
        {
            // Its client has been answered while it waited for this thread.
            return ticket.end();
        }
        let before = self.routes.as_ref().map(|_| resident_kib());
        self.answer(py, exchange, engine);
        if let (Some(routes), Some(before)) = (&self.routes, before) {
            routes.add(&exchange.head, before);
        }
        if let Some(ticket) = &ticket {
            ticket.end();
            if ticket.is_overdue() {
                // An exception that came too late for this request is not for the next one.
                raise_in_thread(thread, None);
            }
        }
    }

    /// What the application is called with.
    #[inline]
    fn prepare<'py>(
        &self,
        py: Python<'py>,
        exchange: &mut Exchange,
        engine: &Arc<Engine>,
        bench: &mut Bench,
    ) -> PyResult<Result<(Bound<'py, PyDict>, Desk), Fault>> {
        let gateway = &self.gateways[usize::from(exchange.listener())];
        let environ = match gateway.environ(py, exchange, engine, &mut bench.origin)? {
            Ok(environ) => environ,
            Err(fault) => return Ok(Err(fault)),
        };
        if !matches!(exchange.body, Body::Empty) {
            add_body(&environ, exchange, &bench.way)?;
        }
        if let Some(ticket) = &exchange.ticket {
            environ.set_item(intern!(py, "forehand.deadline"), ticket.left())?;
        }
        let desk = match bench.desk.take().filter(|desk| desk.is_ours(py)) {
            Some(desk) => desk,
            None => Desk::new(py, engine, &bench.way)?,
        };
        Ok(Ok((environ, desk)))
    }

    /// Calls the application and sends what it gives back.
    #[inline]
    fn play(&self, py: Python<'_>, environ: &Bound<'_, PyDict>, desk: &Desk) -> Result<(), Failure> {
        let reply = desk.reply.get();
        if let Some(mut draft) = reply.draft.borrow(py) {
            draft.started = false;
        }
        let result = call_two(self.application.bind(py), environ, desk.start_response.bind(py))?;
        send_result(py, reply, &result)
    }

    /// Sees an application's failure through: told to the log, and to the client as far as
    /// that is still possible. The worker lives.
    #[cold]
    fn failed(&self, py: Python<'_>, exchange: &mut Exchange, engine: &Engine, failure: (Failure, &Way)) {
        let (failure, way) = failure;
        let error = match failure {
            // The peer has gone, which the engine has counted: nobody is to be told.
            Failure::Gone => return,
            Failure::Wrong(message) => PyTypeError::new_err(message),
            Failure::Raised(error) => error,
        };
        if let Way::Suspended(others) = way
            && others.is_farewell(py, &error)
        {
            return exchange.refuse(&wire::STOPPING, &mut Scribe::new(), engine);
        }
        let body = match &exchange.body {
            Body::Stream(incoming) => Some(incoming),
            _ => None,
        };
        if (exchange.is_broken() || body.is_some_and(|body| body.is_lost())) && is_farewell(py, &error) {
            // What a read or a write has raised came back: nobody is left who could be answered.
            return exchange.lose(engine);
        }
        if let Some(body) = body
            && let (_, Some(fault)) = body.settle()
        {
            // The application could not read what was no body: the peer's fault, not its own.
            engine.counters.refused(&fault);
            return exchange.refuse(&fault, &mut Scribe::new(), engine);
        }
        failure::tell(py, &exchange.about(), &error);
        failure::answer(py, exchange, engine, &error);
    }
}

/// Notes what the access log wants of `environ`, as the application has left it: text and numbers.
#[cold]
fn note_environ(exchange: &mut Exchange, environ: &Bound<'_, PyDict>, wanted: &[Wanted]) {
    for (at, wanted) in wanted.iter().enumerate() {
        if let Wanted::Environ(key) = wanted
            && let Ok(Some(value)) = environ.get_item(key)
            && let Ok(text) = value.str()
        {
            exchange.note(at, text.to_string_lossy().into_owned().into_bytes());
        }
    }
}

/// The application has come back in a forked child, which ends here. The greenlet of another request,
/// which was copied along, only ends itself.
#[cold]
fn end_of_a_copy(py: Python<'_>, played: Result<(), Failure>, way: &Way) -> Result<(), Failure> {
    if matches!(way, Way::Suspended(_)) && crate::forked::is_bystander(py) {
        return Err(Failure::Gone);
    }
    match played {
        Ok(()) => crate::forked::came_back(py, None),
        // Nobody in this process has a client: that one is gone is what it was meant to find.
        Err(Failure::Gone) => crate::forked::came_back(py, None),
        Err(Failure::Raised(error)) => crate::forked::came_back(py, Some(&error)),
        Err(Failure::Wrong(message)) => crate::forked::came_back(py, Some(&PyTypeError::new_err(message))),
    }
}

/// The application has been left: what its deadline raises from now on is for nobody, and does
/// not hit what is done with its failure.
#[inline]
fn leaves(way: &Way, exchange: &Exchange) {
    if let Some(ticket) = &exchange.ticket {
        ticket.end();
        if let Way::Thread = way
            && ticket.is_overdue()
        {
            raise_in_thread(thread_ident(), None);
        }
    }
}

/// `wsgi.input`, and the length that is known because the body is complete: applications
/// that read by CONTENT_LENGTH alone (Django) understand chunked uploads so. It is one number,
/// whatever a relaxed policy has let through.
fn add_body(environ: &Bound<'_, PyDict>, exchange: &mut Exchange, way: &Way) -> PyResult<()> {
    let py = environ.py();
    let known = match &exchange.body {
        Body::Memory(received) => Some(received.bytes.len() as u64),
        Body::File(file) => Some(file.length()),
        Body::Empty | Body::Stream(_) => None,
    };
    if let Some(length) = known {
        set_item(environ, intern!(py, "CONTENT_LENGTH"), &latin1(py, length.to_string().as_bytes())?)?;
    }
    let token = exchange.token();
    let input = Bound::new(py, Input::new(take_body(&mut exchange.body), (token, way)))?;
    set_item(environ, intern!(py, "wsgi.input"), &input)
}

/// The body for the application; a stream is shared, for the engine takes its half back.
fn take_body(body: &mut Body) -> Body {
    match body {
        Body::Stream(incoming) => Body::Stream(Arc::clone(incoming)),
        other => std::mem::replace(other, Body::Empty),
    }
}
