//! The end of the process when its time is over, without the interpreter.
//!
//! Knows: a time and a status. Does not know: what is still running. A thread of its own, so that
//! a callback that holds the interpreter does not keep a process from its end.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reactor::sys::{exit_now, write_stderr};

/// When this process ends; nobody has said that it does.
static END: Mutex<Option<Instant>> = Mutex::new(None);

/// Ends this process so many milliseconds from now, or, if that was said before, then and not at the time that was said.
///
/// # Errors
/// The system's, when no thread can be started.
pub fn within(patience_ms: u64, status: i32) -> std::io::Result<()> {
    let at = Instant::now() + Duration::from_millis(patience_ms);
    if END.lock().unwrap_or_else(PoisonError::into_inner).replace(at).is_some() {
        return Ok(());
    }
    thread::Builder::new().name("forehand-end".into()).stack_size(64 << 10).spawn(move || {
        while let Some(left) = left() {
            thread::sleep(left);
        }
        write_stderr(
            "forehand: a process ends although something holds its interpreter: a thread, or a callback of atexit, \
             that was still running after --graceful-timeout\n",
        );
        exit_now(status);
    })?;
    Ok(())
}

/// How much time there is; none if it is over.
fn left() -> Option<Duration> {
    let end = END.lock().unwrap_or_else(PoisonError::into_inner);
    end.and_then(|at| at.checked_duration_since(Instant::now())).filter(|left| !left.is_zero())
}
