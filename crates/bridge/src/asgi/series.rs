//! Requests that came together, one after the other in one task, for as long as nobody can tell.
//!
//! Before Python 3.12 a task waits for the next round of its loop before it begins, and is entered into a set that is
//! written in Python: that takes as long as all that the server does for a small request. Where requests end without
//! having waited for anything, the next one begins in the task of the one before: with a context and a name of its own,
//! as each task has them, and only if the task is as it was before that request: nobody has kept it, has set a variable
//! on it, asked to be told of its end, or cancelled it. Where one waits, the task is its own from then on, and those that
//! have not begun have tasks of their own, as they do where lately requests have waited.
//!
//! Knows: who has begun, and in which context. Does not know: what a request does. Runs on the event loop's thread.

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;

use super::awaitable::stopped;
use super::request::{Request, Requests, busy};
use crate::ffi::{Context, GilCell, Snapshot, latin1, make_with, references};

/// So many bytes of a task's name stand before its number.
const PREFIX: usize = "Request-".len();

/// A request whose application was called, and its number.
pub type Called = (Py<Request>, u64);

/// The requests of one task; to asyncio it is the task's coroutine.
#[pyclass(frozen, module = "forehand._core")]
pub struct Series {
    requests: Arc<Requests>,
    state: GilCell<State>,
}

struct State {
    /// Those that have not begun.
    waiting: VecDeque<Called>,
    /// The one that has, and the context that it runs in where that is not the task's.
    current: Option<(Py<Request>, Option<Context>)>,
    task: Option<Py<PyAny>>,
    /// What was there when they came: each has a copy.
    context: Context,
    /// The task before the one that has begun.
    before: Snapshot,
}

/// Gives requests that have come together their tasks: one for all of them, or one each.
pub fn give_tasks(py: Python<'_>, requests: &Arc<Requests>, called: Vec<Called>) {
    let may_share = requests.shared.constants.tasks_are_plain && requests.in_one_step.is_usual();
    if called.len() > 1 && may_share {
        return share(py, requests, called.into());
    }
    for called in called {
        give_task(py, &called);
    }
}

/// Gives one its own.
pub fn give_task(py: Python<'_>, (request, number): &Called) {
    let request = request.bind(py);
    match make_task(&request.get().requests, request.as_any(), *number) {
        Ok(task) => request.get().runs_in(task),
        Err(error) => request.get().failed_to_begin(py, &error),
    }
}

/// A task that runs a coroutine.
fn make_task<'py>(
    requests: &Requests,
    coroutine: &Bound<'py, PyAny>,
    number: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = coroutine.py();
    let constants = &requests.shared.constants;
    let (event_loop, names) = (constants.event_loop.bind(py), constants.task_names.bind(py));
    let class = constants.task.bind(py);
    match &constants.eager {
        Some(eager) => make_with(class, coroutine, &[event_loop, eager.bind(py)], names),
        None => make_with(class, coroutine, &[event_loop, &request_name(py, number)?], names),
    }
}

fn share(py: Python<'_>, requests: &Arc<Requests>, waiting: VecDeque<Called>) {
    let first = waiting.front().map_or(0, |(_, number)| *number);
    let all: Vec<Py<Request>> = waiting.iter().map(|(request, _)| request.clone_ref(py)).collect();
    let made = Context::of_caller(py).and_then(|context| {
        let state = State { waiting, current: None, task: None, context, before: Snapshot::new() };
        let series = Bound::new(py, Series { requests: Arc::clone(requests), state: GilCell::new(state) })?;
        let task = make_task(requests, series.as_any(), first)?;
        if let Some(mut state) = series.get().state.borrow(py) {
            state.task = Some(task.clone().unbind());
        }
        Ok(task)
    });
    for request in all {
        match &made {
            Ok(task) => request.get().waits_in(task.clone()),
            Err(error) => request.get().failed_to_begin(py, error),
        }
    }
}

impl Series {
    /// The request that has begun, and its context; none: none has.
    fn current(&self, py: Python<'_>) -> PyResult<Option<(Py<Request>, Option<Context>)>> {
        let state = self.state.borrow(py).ok_or_else(busy)?;
        let current = state.current.as_ref();
        Ok(current.map(|(request, context)| {
            (request.clone_ref(py), context.as_ref().map(|context| context.clone_ref(py)))
        }))
    }

    /// Goes on with the one that has begun, or begins with the first.
    fn go<'py>(
        this: &Bound<'py, Self>,
        step: impl FnOnce(&Bound<'py, Request>) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = this.py();
        let Some((request, context)) = this.get().current(py)? else { return Self::begin(this) };
        within(py, context.as_ref(), || step(request.bind(py)))
    }

    /// Runs them, until one waits, or has done something with the task.
    fn begin<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = this.py();
        let Some(task) = this.get().take_task(py) else { return Ok(None) };
        let (task, mut is_first) = (task.bind(py), true);
        while let Some((request, number)) = this.get().next(py) {
            let request = request.bind(py);
            // The task was made with the context and the name of the first.
            let is_first = std::mem::take(&mut is_first);
            if request.get().is_overdue(py) {
                this.get().give_own(py, &(request.clone().unbind(), number));
                request.get().cancel(py);
                continue;
            }
            let own = if is_first { Ok(None) } else { this.get().prepare(task, number).map(Some) };
            let stepped = match own {
                Ok(context) => {
                    let context = this.get().begins(request, context, task);
                    let kept = references(this.as_any());
                    let stepped = within(py, context.as_ref(), || Request::__next__(request));
                    if matches!(stepped, Ok(None))
                        && kept == references(this.as_any())
                        && this.get().is_as_it_was(task)
                    {
                        continue;
                    }
                    stepped
                }
                Err(error) => {
                    request.get().failed_to_begin(py, &error);
                    Ok(None)
                }
            };
            this.get().requests.in_one_step.reset();
            if !matches!(stepped, Ok(None)) {
                request.get().runs_in(task.clone());
            }
            this.get().scatter(py);
            return stepped;
        }
        Ok(None)
    }

    /// The task, which holds this, so that this must not hold it any longer.
    fn take_task(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.borrow(py)?.task.take()
    }

    /// Those that have not begun, where nothing will begin here any more.
    fn take_waiting(&self, py: Python<'_>) -> VecDeque<Called> {
        self.state.borrow(py).map(|mut state| std::mem::take(&mut state.waiting)).unwrap_or_default()
    }

    fn next(&self, py: Python<'_>) -> Option<Called> {
        self.state.borrow(py)?.waiting.pop_front()
    }

    /// The task is that of the next request from now on; that one's context.
    fn prepare(&self, task: &Bound<'_, PyAny>, number: u64) -> PyResult<Context> {
        let py = task.py();
        task.call_method1(intern!(py, "set_name"), (request_name(py, number)?,))?;
        // Not copied while it is borrowed: what is allocated may have the collector run finalisers, which ask who runs.
        let context = self.state.borrow(py).ok_or_else(busy)?.context.clone_ref(py);
        context.copy(py)
    }

    /// A request is about to begin, in a context; none: the task's. Its context again.
    fn begins(
        &self,
        request: &Bound<'_, Request>,
        context: Option<Context>,
        task: &Bound<'_, PyAny>,
    ) -> Option<Context> {
        let py = request.py();
        // Its reference to the task would not be there any more behind it.
        request.get().leaves_task(py);
        let again = context.as_ref().map(|context| context.clone_ref(py));
        let last = self
            .state
            .borrow(py)
            .and_then(|mut state| state.current.replace((request.clone().unbind(), context)));
        drop(last);
        if let Some(mut state) = self.state.borrow(py) {
            state.before.take(task);
        }
        again
    }

    fn is_as_it_was(&self, task: &Bound<'_, PyAny>) -> bool {
        self.state.borrow(task.py()).is_some_and(|state| state.before.is_of(task))
    }

    /// Those that have not begun have tasks of their own.
    fn scatter(&self, py: Python<'_>) {
        for called in self.take_waiting(py) {
            self.give_own(py, &called);
        }
    }

    /// One has a task of its own, with what was there when they came: here others have set variables.
    fn give_own(&self, py: Python<'_>, called: &Called) {
        let context = self.state.borrow(py).map(|state| state.context.clone_ref(py));
        let given = context.map(|context| context.run(py, || give_task(py, called)));
        if let Some(Err(error)) = given {
            called.0.get().failed_to_begin(py, &error);
        }
    }

    /// Something is thrown before any of them has begun: into each of them.
    fn throw_into_all<'py>(
        &self,
        py: Python<'py>,
        mut throw: impl FnMut(&Bound<'py, Request>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(self.take_task(py));
        let mut last = Err(stopped(None));
        for (request, _) in self.take_waiting(py) {
            last = throw(request.bind(py));
        }
        last
    }
}

/// Runs something in a context; none: in the task's.
fn within<'py>(
    py: Python<'py>,
    context: Option<&Context>,
    work: impl FnOnce() -> PyResult<Option<Bound<'py, PyAny>>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match context {
        Some(context) => context.run(py, work)?,
        None => work(),
    }
}

#[pymethods]
impl Series {
    /// The request that has begun, of those that share the task.
    #[getter]
    fn forehand_inside(&self, py: Python<'_>) -> PyResult<Option<Py<Request>>> {
        Ok(self.current(py)?.map(|(request, _)| request))
    }

    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(this: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Self::go(this, |request| Request::__next__(request))
    }

    fn send<'py>(this: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::go(this, |request| Request::send_in(request, value))?.ok_or_else(|| stopped(None))
    }

    #[pyo3(signature = (kind, value = None, trace = None))]
    fn throw<'py>(
        this: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        trace: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let throw = |request: &Bound<'py, Request>| Request::throw(request, kind, value, trace);
        match this.get().current(py)? {
            None => this.get().throw_into_all(py, throw),
            Some((request, context)) => within(py, context.as_ref(), || throw(request.bind(py)).map(Some))?
                .ok_or_else(|| stopped(None)),
        }
    }

    fn close(this: &Bound<'_, Self>) -> PyResult<()> {
        let py = this.py();
        let Some((request, context)) = this.get().current(py)? else {
            drop(this.get().take_task(py));
            for (request, _) in this.get().take_waiting(py) {
                Request::close(request.bind(py))?;
            }
            return Ok(());
        };
        within(py, context.as_ref(), || Request::close(request.bind(py)).map(|()| None)).map(|_| ())
    }

    /// As of a request: what `inspect` asks of a coroutine is that of the one that has begun.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.current(py)? {
            Some((request, _)) => request.get().__getattr__(py, name),
            None => {
                Err(PyAttributeError::new_err(format!("no request has begun that has an attribute '{name}'")))
            }
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
