//! The switch interval: how long a thread waits for the interpreter before it asks for its turn.
//!
//! Threads that compete for the interpreter take turns; CPython's default is 5 ms, which a
//! request waits for as soon as another thread computes. This module sets half a millisecond:
//! less would interrupt requests that are worked on. But where one thread burns and does not
//! end, a request that has just arrived waits even so long twice, and every one of them does:
//! then the turns are short, so that a short request takes as long as it takes beside another
//! process. Beside two it is worse: who asks for its turn gets to the end of the line, and
//! the other one has it. Where more compute, short turns would cost them a good part of what they do.
//!
//! A thread burns while the leader waits for the interpreter each time that it comes back from
//! the kernel. What follows from these waits is decided in `server/strain.rs`.
//!
//! Knows: the interpreter's interval, and the processor time of threads. Does not know: what
//! they do. Statics, because there is one interpreter in a process; the leader writes them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyFloat;
use pyo3::{Python, intern};
use reactor::sys::{ThreadClock, monotonic_ms, monotonic_ns, monotonic_us};
use server::strain::{Looks, Sign, Strain};
use server::sync::{Guard, lock};

use super::gil::{attached, outside};

/// CPython's own, in seconds: where another is found, the application wants that one.
const DEFAULT: f64 = 0.005;
/// The usual one. `server/baton.rs` knows it, too.
const USUAL: f64 = 0.0005;
/// While one thread burns, or two do. The kernel's timer adds some 50 µs.
const SHORT: f64 = 0.00005;
/// How long threads are looked at, at least, before it is said whether few burn.
const LOOK_US: u64 = 5000;

/// Does some thread burn?
static STRAIN: Strain = Strain::new();
/// When the leader last had the interpreter again.
static BACK: AtomicU64 = AtomicU64::new(0);
/// One does, or two do: turns are short.
static FEW: AtomicBool = AtomicBool::new(false);
/// The threads that serve, and what they had used of a processor when they were looked at.
static THREADS: Mutex<Threads> = Mutex::new(Threads { clocks: Vec::new(), at: 0, looks: Looks::new() });
/// `sys.setswitchinterval` and the two lengths, once the interval is ours.
static SET: PyOnceLock<(Py<PyAny>, Py<PyFloat>, Py<PyFloat>)> = PyOnceLock::new();

/// Sets the usual interval, unless the application has set its own.
///
/// # Errors
/// What `sys` raises.
pub fn set_switch_interval(py: Python<'_>) -> PyResult<()> {
    let sys = py.import(intern!(py, "sys"))?;
    let interval: f64 = sys.call_method0(intern!(py, "getswitchinterval"))?.extract()?;
    if (interval - DEFAULT).abs() < 1e-9 {
        let set = sys.getattr(intern!(py, "setswitchinterval"))?;
        set.call1((USUAL,))?;
        let lengths = (PyFloat::new(py, SHORT).unbind(), PyFloat::new(py, USUAL).unbind());
        let _ = SET.set(py, (set.unbind(), lengths.0, lengths.1));
    }
    Ok(())
}

/// What the leader's waits have said.
#[inline]
pub fn strain() -> &'static Strain {
    &STRAIN
}

/// When the leader last had the interpreter again, in monotonic nanoseconds.
#[inline]
pub fn back_at() -> u64 {
    BACK.load(Ordering::Relaxed)
}

/// The threads that take turns.
struct Threads {
    clocks: Vec<(ThreadClock, u64)>,
    /// When they were looked at; microseconds, zero: never.
    at: u64,
    looks: Looks,
}

fn threads() -> Guard<'static, Threads> {
    lock(&THREADS)
}

/// A thread that serves, for as long as this lives.
pub struct Serving(Option<ThreadClock>);

impl Serving {
    /// The calling thread.
    pub fn begin() -> Self {
        crate::slices::shorten();
        let clock = ThreadClock::of_this_thread();
        threads().clocks.extend(clock.map(|clock| (clock, 0)));
        Self(clock)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        threads().clocks.retain(|(clock, _)| Some(*clock) != self.0);
    }
}

impl Threads {
    /// Looks at what each has used since the last look. True: one or two of them most of what they could.
    /// None where that cannot be said, as after a look just now: turns stay as they are.
    fn look(&mut self) -> Option<bool> {
        let now = monotonic_us();
        let since = now - self.at;
        if since < LOOK_US {
            return None;
        }
        let used = |(clock, before): &mut (ThreadClock, u64)| {
            let total = clock.micros();
            total.saturating_sub(std::mem::replace(before, total))
        };
        let used: Vec<u64> = self.clocks.iter_mut().map(used).collect();
        self.at = now;
        self.looks.few_burn(&used, since)
    }
}

/// Runs something that the leader waits for, while other threads may use the interpreter: how long it waits on its
/// way back tells what they do. `wait` gives when it was over, in monotonic nanoseconds; zero: it has not looked.
#[inline]
pub fn outside_for_work(wait: impl FnOnce() -> u64) {
    let since = outside(|_| match wait() {
        0 => monotonic_ns(),
        over => over,
    });
    let back = monotonic_ns();
    BACK.store(back, Ordering::Relaxed);
    let waited = back.saturating_sub(since) / 1000;
    if STRAIN.matters(waited) {
        note(waited);
    }
}

#[cold]
fn note(waited: u64) {
    match STRAIN.note(waited, monotonic_ms()) {
        Sign::Burns => {
            // Python is called when the lock has been let go of.
            let found = threads().look();
            if let Some(few) = found {
                shorten(few);
            }
        }
        Sign::Calm => shorten(false),
        Sign::Unclear => {}
    }
}

/// Makes turns short, or as long as usual.
fn shorten(short: bool) {
    if FEW.swap(short, Ordering::Relaxed) == short {
        return;
    }
    attached(|py| {
        if let Some((set, brief, usual)) = SET.get(py) {
            // It can only fail for want of memory, and then it stays as it is.
            let _ = set.call1(py, (if short { brief } else { usual },));
        }
    });
}
