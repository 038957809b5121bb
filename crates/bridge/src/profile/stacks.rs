//! What every thread of this process does, as py-spy reads it out of memory, and which request that is for.
//!
//! Knows: py-spy, and which requests are inside. Does not know: how often somebody looks. The process reads its own memory
//! through the kernel, which needs no right; what is freed meanwhile is an error there and no crash. Nothing is stopped
//! for it, so that a stack may change while it is read: such a look is dropped.

use std::time::{Duration, Instant};

use py_spy::config::LockingStrategy;
use py_spy::{Config, Frame, PythonSpy, StackTrace};
use server::engine::Engine;
use server::profile::{Place, Stack, requests, route};

/// As long as a look takes where nobody else wants the processor, several times over.
const QUICKLY: Duration = Duration::from_millis(5);

/// The stacks of this process.
pub struct Stacks {
    spy: PythonSpy,
    running: bool,
}

impl Stacks {
    /// `running`: only of threads that use a processor. The error says why nothing can be read here.
    pub fn open(running: bool) -> Result<Self, String> {
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            collect_thread_names: false,
            full_filenames: true,
            ..Config::default()
        };
        let pid = i32::try_from(std::process::id()).map_err(|error| error.to_string())?;
        let spy = PythonSpy::new(pid, &config)
            .map_err(|error| format!("this interpreter cannot be read: {error:#}"))?;
        if running && (spy.version.major, spy.version.minor) < (3, 11) {
            // Older ones do not say which of the kernel's threads is theirs.
            return Err(
                "threads that run cannot be told from those that wait before Python 3.11: leave --cpu out"
                    .into(),
            );
        }
        Ok(Self { spy, running })
    }

    /// What they do now. The error is of this look; the next one may see something.
    pub fn look(&mut self, engine: &Engine) -> Result<Vec<Stack>, String> {
        let begun = Instant::now();
        let before = requests(engine);
        let traces = self.spy.get_stack_traces().map_err(|error| format!("{error:#}"))?;
        let after = requests(engine);
        let quickly = begun.elapsed() < QUICKLY;
        let mut found = Vec::new();
        for trace in traces {
            let (was, is) = (before.get(&trace.thread_id), after.get(&trace.thread_id));
            let inside = was.is_some() && is.is_some();
            let runs = trace.active && trace.os_thread_id.is_some() && !is_idle(&trace);
            // Where greenlets serve, which is on the first thread, that is the last request's also while all of them wait.
            let is_first = trace.os_thread_id.is_none_or(|id| id == u64::from(std::process::id()));
            let nobody = is_first && is_hub(&trace);
            if nobody || !(runs || inside && !self.running) {
                continue;
            }
            let places = trace.frames.into_iter().map(place).collect();
            found.push(Stack { route: route(engine, (was, is), quickly), places });
        }
        Ok(found)
    }
}

fn place(frame: Frame) -> Place {
    Place { file: frame.filename, function: frame.name, line: frame.line }
}

/// It waits for events or for orders, whatever the kernel has just said of it; or it is about to take the interpreter, and
/// has nothing to show.
fn is_idle(trace: &StackTrace) -> bool {
    let Some(frame) = trace.frames.first() else { return true };
    is_hub(trace)
        || is_at(frame, "select", "selectors.py")
        || is_at(frame, "wait", "/supervisor/worker_control.py")
        || is_at(frame, "wait", "threading.py")
}

/// gevent's hub waits for events, or looks for them; or no frame is there while it goes from one greenlet to another.
fn is_hub(trace: &StackTrace) -> bool {
    trace.frames.first().is_none_or(|frame| is_at(frame, "run", "/gevent/hub.py"))
}

fn is_at(frame: &Frame, name: &str, file: &str) -> bool {
    frame.name.ends_with(name) && frame.filename.ends_with(file)
}
