//! The process that answers `--status-bind`, as a program of its own: what is forked off the supervisor would keep the
//! interpreter's memory, page by page as the supervisor changes its own.
//!
//! Knows: how it is begun (`python/forehand/supervisor/panel.py`): its only argument is the descriptor of what it is told,
//! and it has inherited those that are named there. Does not know: what it answers (`server/status`).

use std::process::ExitCode;

use server::status::process;

/// What `top` shows: a program that is begun by a descriptor has the descriptor's number there, on older systems.
const NAME: &str = "forehand-status";

fn main() -> ExitCode {
    // Only a name: nothing depends on it.
    let _ = std::fs::write("/proc/self/comm", NAME);
    let told = std::env::args().nth(1).and_then(|fd| fd.parse().ok());
    match told.map(process::run) {
        Some(Ok(())) => ExitCode::SUCCESS,
        // Its parent tells of it.
        _ => ExitCode::FAILURE,
    }
}
