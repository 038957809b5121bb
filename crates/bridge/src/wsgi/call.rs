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
use server::access::Wanted;
use server::app::App;
use server::body::Body;
use server::engine::Engine;
use server::exchange::Exchange;
use server::reply_builder::ReplyBuilder;
use server::strain::Strain;
use wire::Fault;

use super::asked;
use super::environ::{Gateway, PeerStrings};
use super::input::Input;
use super::iterate::send_result;
use super::reply::{Failure, Reply};
use super::routes::{Routes, resident_kib};
use super::start_response::Responder;
use super::wait_mode::WaitMode;
use crate::disconnect::is_from_disconnect;
use crate::ffi::{
    DictVersion, GilCell, Serving, attached, back_at, call_two, latin1, outside, outside_for_work,
    raise_in_thread, references, set_item, strain, thread_ident,
};
use crate::request_id::Names;
use crate::{failure, told_route};

/// A WSGI application on the engine.
pub struct Wsgi {
    application: Py<PyAny>,
    /// One for each listener.
    gateways: Vec<Gateway>,
    /// Memory by route, where it is watched.
    pub routes: Option<Routes>,
    names: Names,
}

/// What a thread keeps from one request to the next, and how its requests wait.
#[derive(Default)]
pub struct Workspace {
    responder: Option<Responder>,
    peers: Arc<GilCell<PeerStrings>>,
    mode: WaitMode,
}

impl Workspace {
    /// For requests that wait like this; `peers`: what they have in common.
    pub fn new(mode: WaitMode, peers: Arc<GilCell<PeerStrings>>) -> Self {
        Self { mode, peers, responder: None }
    }

    /// What its next request is answered with.
    ///
    /// # Errors
    /// Python's (memory).
    pub fn reply(&mut self, py: Python<'_>, engine: &Arc<Engine>) -> PyResult<Py<Reply>> {
        let responder = self.take_responder(py, engine)?;
        let reply = responder.reply.clone_ref(py);
        self.responder = Some(responder);
        Ok(reply)
    }

    #[inline]
    fn take_responder(&mut self, py: Python<'_>, engine: &Arc<Engine>) -> PyResult<Responder> {
        if let Some(kept) = self.responder.take().filter(|kept| kept.is_ours(py)) {
            return Ok(kept);
        }
        let responder = Responder::new(py, engine, &self.mode)?;
        if let WaitMode::Blocking = self.mode {
            asked::note(py, &responder.reply);
        }
        Ok(responder)
    }
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::new(Workspace::default());
}

/// What an application is called with.
struct Prepared<'py> {
    environ: Bound<'py, PyDict>,
    responder: Responder,
    /// Another request may have `environ` as it is, as long as that is its version.
    version: Option<DictVersion>,
}

impl App for Wsgi {
    fn live(&self, life: &mut dyn FnMut()) {
        let _serving = Serving::begin();
        Python::attach(|py| {
            crate::forked::register_with_threading(py);
            life();
            // The thread's objects go while it is attached.
            WORKSPACE.take();
            asked::forget();
        });
    }

    #[inline]
    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>) {
        attached(|py| {
            if exchange.deadline.is_none() && self.routes.is_none() {
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
    fn outside_for_work(&self, wait: impl FnOnce() -> u64) {
        outside_for_work(wait);
    }

    #[inline]
    fn back_at(&self) -> u64 {
        back_at()
    }

    #[inline]
    fn strain(&self) -> Option<&Strain> {
        Some(strain())
    }
}

impl Wsgi {
    /// `gateways`: one for each listener, in the engine's order.
    pub fn new(application: Py<PyAny>, (gateways, names): (Vec<Gateway>, Names), watch_routes: bool) -> Self {
        let routes = watch_routes.then(Routes::default);
        Self { application, gateways, routes, names }
    }

    /// Answers one request with what the thread keeps.
    #[inline]
    fn answer(&self, py: Python<'_>, exchange: &mut Exchange, engine: &Arc<Engine>) {
        WORKSPACE.with(|kept| match kept.try_borrow_mut() {
            Ok(mut space) => self.answer_at(py, exchange, engine, &mut space),
            // A call of this thread is under way already, and has what it keeps.
            Err(_) => self.answer_at(py, exchange, engine, &mut Workspace::default()),
        });
    }

    /// Answers one request. Where requests are suspended, the exchange is not on the stack:
    /// others reach it while this one's stack is not in its place.
    #[inline]
    pub fn answer_at(
        &self,
        py: Python<'_>,
        exchange: &mut Exchange,
        engine: &Arc<Engine>,
        space: &mut Workspace,
    ) {
        match self.prepare(py, exchange, engine, space) {
            Ok(Ok(Prepared { environ, responder, version })) => {
                let reply = responder.reply.get();
                let may_tell = told_route::is_wanted(exchange, engine);
                if may_tell {
                    show(py, reply, Some(&environ));
                }
                let called = reply.exchange.during(py, exchange, || {
                    let called = self.call_application(py, &environ, &responder);
                    if engine.is_a_copy() { end_forked_child(py, called, &space.mode) } else { called }
                });
                if let Some(access) = &engine.config.access
                    && !access.format.wanted().is_empty()
                {
                    note_environ(exchange, &environ, access.format.wanted());
                }
                if may_tell {
                    show(py, reply, None);
                    told_route::from_environ(exchange, &environ);
                }
                application_left(&space.mode, exchange);
                if let Err(failure) = called {
                    self.failed(py, exchange, engine, (failure, &space.mode));
                }
                if let Some(version) = version
                    && version.is_of(&environ)
                    && references(&environ) == 1
                {
                    Gateway::leave(exchange, environ, responder.hints.bind(py));
                }
                space.responder = Some(responder);
            }
            Ok(Err(fault)) => exchange.refuse(&fault, &mut ReplyBuilder::new(), engine),
            Err(error) => {
                application_left(&space.mode, exchange);
                self.failed(py, exchange, engine, (Failure::Raised(error), &space.mode));
            }
        }
    }

    /// Answers one request that has a deadline, or whose memory is watched.
    #[cold]
    fn answer_watched(&self, py: Python<'_>, exchange: &mut Exchange, engine: &Arc<Engine>) {
        let deadline = exchange.deadline.clone();
        let thread = thread_ident();
        if let Some(deadline) = &deadline
            && !deadline.begin(thread)
        {
            // Its client has been answered while it waited for this thread.
            return deadline.end();
        }
        let before = self.routes.as_ref().map(|_| resident_kib());
        self.answer(py, exchange, engine);
        if let (Some(routes), Some(before)) = (&self.routes, before) {
            routes.add(&exchange.head, before);
        }
        if let Some(deadline) = &deadline {
            deadline.end();
            if deadline.is_overdue() {
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
        space: &mut Workspace,
    ) -> PyResult<Result<Prepared<'py>, Fault>> {
        let mut responder = space.take_responder(py, engine)?;
        let hints = if exchange.takes_interim() { Some(responder.hints(py)?) } else { None };
        let gateway = &self.gateways[usize::from(exchange.listener())];
        let made = match space.peers.borrow(py) {
            Some(mut peers) => gateway.environ(py, exchange, engine, (&mut peers, hints.as_ref())),
            // A finaliser that ran there waits for something.
            None => gateway.environ(py, exchange, engine, (&mut PeerStrings::default(), hints.as_ref())),
        };
        let (environ, mut as_before) = match made? {
            Ok(environ) => environ,
            Err(fault) => {
                space.responder = Some(responder);
                return Ok(Err(fault));
            }
        };
        if !matches!(exchange.body, Body::Empty) {
            add_body(&environ, exchange, &space.mode)?;
            as_before = false;
        }
        if let Some(deadline) = &exchange.deadline {
            as_before = false;
            environ.set_item(intern!(py, "forehand.deadline"), deadline.left())?;
        }
        if exchange.has_names(&engine.config) {
            self.names.introduce(&environ, exchange, &engine.config)?;
            as_before = false;
        }
        let version = if as_before { DictVersion::of(&environ) } else { None };
        Ok(Ok(Prepared { environ, responder, version }))
    }

    /// Calls the application and sends what it gives back.
    #[inline]
    fn call_application(
        &self,
        py: Python<'_>,
        environ: &Bound<'_, PyDict>,
        responder: &Responder,
    ) -> Result<(), Failure> {
        let reply = responder.reply.get();
        if let Some(mut draft) = reply.draft.borrow(py) {
            draft.started = false;
        }
        let result = call_two(self.application.bind(py), environ, responder.start_response.bind(py))?;
        send_result(py, reply, &result)
    }

    /// Sees an application's failure through: told to the log, and to the client as far as
    /// that is still possible. The worker lives.
    #[cold]
    fn failed(
        &self,
        py: Python<'_>,
        exchange: &mut Exchange,
        engine: &Engine,
        failure: (Failure, &WaitMode),
    ) {
        let (failure, mode) = failure;
        let error = match failure {
            // The peer has gone, which the engine has counted: nobody is to be told.
            Failure::Gone => return,
            Failure::Wrong(message) => PyTypeError::new_err(message),
            Failure::Raised(error) => error,
        };
        if let WaitMode::Cooperative(scheduler) = mode
            && scheduler.has_killed(py, &error)
        {
            return exchange.refuse(&wire::STOPPING, &mut ReplyBuilder::new(), engine);
        }
        let body = match &exchange.body {
            Body::Stream(incoming) => Some(incoming),
            _ => None,
        };
        if (exchange.is_broken() || body.is_some_and(|body| body.is_lost())) && is_from_disconnect(py, &error)
        {
            // What a read or a write has raised came back: nobody is left who could be answered.
            return exchange.lose(engine);
        }
        if let Some(body) = body
            && let (_, Some(fault)) = body.stop()
        {
            // The application could not read what was no body: the peer's fault, not its own.
            engine.counters.refused(&fault);
            return exchange.refuse(&fault, &mut ReplyBuilder::new(), engine);
        }
        failure::tell(py, &exchange.about(&engine.config), &error);
        failure::answer(py, exchange, engine, &error);
    }
}

/// Where a route may be said that is not known yet: who asks meanwhile looks there, too.
#[cold]
fn show(py: Python<'_>, reply: &Reply, environ: Option<&Bound<'_, PyDict>>) {
    let environ = environ.map(|environ| environ.clone().unbind());
    let before = reply.environ.borrow(py).map(|mut place| std::mem::replace(&mut *place, environ));
    drop(before);
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
fn end_forked_child(py: Python<'_>, called: Result<(), Failure>, mode: &WaitMode) -> Result<(), Failure> {
    if matches!(mode, WaitMode::Cooperative(_)) && crate::forked::is_bystander(py) {
        return Err(Failure::Gone);
    }
    match called {
        Ok(()) => crate::forked::end_child(py, None),
        // Nobody in this process has a client: that one is gone is what it was meant to find.
        Err(Failure::Gone) => crate::forked::end_child(py, None),
        Err(Failure::Raised(error)) => crate::forked::end_child(py, Some(&error)),
        Err(Failure::Wrong(message)) => crate::forked::end_child(py, Some(&PyTypeError::new_err(message))),
    }
}

/// The application has been left: what its deadline raises from now on is for nobody, and does
/// not hit what is done with its failure.
#[inline]
fn application_left(mode: &WaitMode, exchange: &Exchange) {
    if let Some(deadline) = &exchange.deadline {
        deadline.end();
        if let WaitMode::Blocking = mode
            && deadline.is_overdue()
        {
            raise_in_thread(thread_ident(), None);
        }
    }
}

/// `wsgi.input`, and the length that is known because the body is complete: applications
/// that read by CONTENT_LENGTH alone (Django) understand chunked uploads so. It is one number,
/// whatever a relaxed policy has let through.
fn add_body(environ: &Bound<'_, PyDict>, exchange: &mut Exchange, mode: &WaitMode) -> PyResult<()> {
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
    let input = Bound::new(py, Input::new(take_body(&mut exchange.body), (token, mode)))?;
    set_item(environ, intern!(py, "wsgi.input"), &input)
}

/// The body for the application; a stream is shared, for the engine takes its half back.
fn take_body(body: &mut Body) -> Body {
    match body {
        Body::Stream(incoming) => Body::Stream(Arc::clone(incoming)),
        other => std::mem::replace(other, Body::Empty),
    }
}
