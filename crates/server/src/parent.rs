//! The parent's death, seen without the interpreter.
//!
//! Knows: a pipe whose other end only the supervisor holds. Does not know: why it died. A
//! thread of its own, so that an application that holds the interpreter does not keep the
//! port of a server that is gone.

use std::io::Read;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use reactor::sys::{duplicate_file, exit_now};

/// The exit status of a worker whose supervisor is gone.
const ORPHANED: i32 = 1;

/// Ends this process so many milliseconds after the pipe has ended.
///
/// # Errors
/// The kernel's, when the descriptor is not open or no thread can be started.
pub fn watch(fd: RawFd, patience_ms: u64) -> std::io::Result<()> {
    let mut pipe = duplicate_file(fd)?;
    thread::Builder::new().name("forehand-parent".into()).stack_size(64 << 10).spawn(move || {
        let mut byte = [0];
        // Nobody writes; whatever comes, only the end means something.
        while !matches!(pipe.read(&mut byte), Ok(0)) {}
        thread::sleep(Duration::from_millis(patience_ms));
        exit_now(ORPHANED);
    })?;
    Ok(())
}
