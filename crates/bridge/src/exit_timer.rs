//! The end of the process when its time is over, without the interpreter.
//!
//! Knows: a time and a status. Does not know: what is still running. A thread of its own, so that
//! a callback that holds the interpreter does not keep a process from its end.

use std::thread;
use std::time::Duration;

use reactor::sys::{exit_now, write_stderr};

/// Ends this process so many milliseconds from now.
///
/// # Errors
/// The system's, when no thread can be started.
pub fn within(patience_ms: u64, status: i32) -> std::io::Result<()> {
    thread::Builder::new().name("forehand-end".into()).stack_size(64 << 10).spawn(move || {
        thread::sleep(Duration::from_millis(patience_ms));
        write_stderr(
            "forehand: a process ends although something holds its interpreter: a thread, or a callback of atexit, \
             that was still running after --graceful-timeout\n",
        );
        exit_now(status);
    })?;
    Ok(())
}
