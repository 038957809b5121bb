//! How long a thread waits for the interpreter before it asks for its turn.
//!
//! Threads that compete for the interpreter take turns; CPython's default is 5 ms, which a
//! request waits for as soon as another thread computes. This module sets half a millisecond:
//! less would interrupt requests that are worked on. But the thread that comes back from the
//! kernel, to a request that has just arrived, should not wait even so long for one that burns.
//! While such a one is seen, the interval is short as long as the leader is in the kernel, and
//! the usual one as soon as it is back, because what counts is its value when a thread begins
//! to wait (`take_gil` in CPython's `ceval_gil`). So the burning thread is interrupted soon,
//! and the request in its turn is not.
//!
//! A thread burns while the leader waits for the interpreter each time that it comes back. When
//! that has gone on for a while, this worker is strained: others are a better place to ask.
//!
//! Knows: the interpreter's interval. Does not know: who waits, or why. Statics, because there
//! is one interpreter in a process; they are written by the leader alone.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyFloat;
use pyo3::{Python, intern};
use reactor::sys::{monotonic_ms, monotonic_us};

/// CPython's own, in seconds: where another is found, the application wants that one.
const DEFAULT: f64 = 0.005;
/// The usual one. `server/baton.rs` knows it, too.
const USUAL: f64 = 0.0005;
/// While a thread burns and ours are outside. The kernel's timer adds some 50 µs.
const SHORT: f64 = 0.00005;
/// A wait so long (microseconds) means that a thread burns: nearly a turn of the usual length.
const BURNS_US: u64 = 400;
/// And this goes on to mean it: nearly a turn of the short length.
const STILL_BURNS_US: u64 = 40;
/// So many shorter waits, one after the other, and nobody burns any more: a single one may be luck.
const CALM: u32 = 3;
/// A worker is strained when a thread has burnt for so long, ...
const STRAIN_AFTER_MS: u64 = 30;
/// ... and for so long after the last sign of it.
const STRAIN_MS: u64 = 200;

/// A thread burns, and the interval is short while the leader is outside.
static BURNING: AtomicBool = AtomicBool::new(false);
/// When that began; monotonic milliseconds.
static SINCE: AtomicU64 = AtomicU64::new(0);
/// Shorter waits since the last long one.
static QUIET: AtomicU32 = AtomicU32::new(0);
/// Until when the worker is taken to be strained; monotonic milliseconds.
static STRAINED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// `sys.setswitchinterval` and the two lengths, once the interval is ours.
static SET: PyOnceLock<(Py<PyAny>, Py<PyFloat>, Py<PyFloat>)> = PyOnceLock::new();

/// Sets the usual interval, unless the application has set its own.
///
/// # Errors
/// What `sys` raises.
pub fn take_turns(py: Python<'_>) -> PyResult<()> {
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

/// Until when (monotonic milliseconds) this worker is strained; zero: it never was.
#[inline]
pub fn strained_until() -> u64 {
    STRAINED_UNTIL.load(Ordering::Relaxed)
}

/// The leader is about to let go of the interpreter.
#[inline]
pub fn leaving() {
    if BURNING.load(Ordering::Relaxed) {
        set_length(true);
    }
}

/// The leader has it back, after it has waited since `since` (microseconds) for it.
#[inline]
pub fn back(since: u64) {
    let waited = monotonic_us().saturating_sub(since);
    if waited >= BURNS_US || BURNING.load(Ordering::Relaxed) {
        note(waited);
    }
}

#[cold]
fn note(waited: u64) {
    let burning = BURNING.load(Ordering::Relaxed);
    if waited >= if burning { STILL_BURNS_US } else { BURNS_US } {
        let now = monotonic_ms();
        QUIET.store(0, Ordering::Relaxed);
        if !burning {
            SINCE.store(now, Ordering::Relaxed);
            BURNING.store(true, Ordering::Relaxed);
        } else if now >= SINCE.load(Ordering::Relaxed) + STRAIN_AFTER_MS {
            STRAINED_UNTIL.store(now + STRAIN_MS, Ordering::Relaxed);
        }
    } else if QUIET.fetch_add(1, Ordering::Relaxed) + 1 >= CALM {
        BURNING.store(false, Ordering::Relaxed);
    }
    if burning {
        set_length(false);
    }
}

#[cold]
fn set_length(short: bool) {
    super::attached(|py| {
        if let Some((set, brief, usual)) = SET.get(py) {
            // It can only fail for want of memory, and then it stays as it is.
            let _ = set.call1(py, (if short { brief } else { usual },));
        }
    });
}
