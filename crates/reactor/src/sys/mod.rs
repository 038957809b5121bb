//! The only place with system calls: one small file per kind, one documented name each.
//!
//! A port to another system writes these names again (`epoll.rs` and `timer.rs` have the first four for Linux, `kqueue.rs` for macOS;
//! elsewhere a file has both, or says what a system lacks):
//! `Poll`, `PollEvents`, `PollEvent` (readiness), `Timer` (one absolute deadline that the
//! set reports), `Waker` (a wake-up that the set reports), `Socket` (non-blocking bytes),
//! `accept`, `Handoff` (connections between processes), `Reserve`, `monotonic_ms`, `monotonic_ns` and `compare_clocks`, `wall_seconds`, `random` (what nobody knows before), `SharedNumbers`, `forget_numbers`, `wait_for_change` and `tell_of_change` (memory between processes), `thread_id`,
//! `KernelThread` (how long a slice of a processor a thread wants), `Groups` (what a control group has and lacks), `queues` and `listen_overflows` (who waits to be accepted), `set_title`, `bound_arenas`, `become_subreaper`, `exit_now`, `FreeList` and `unbox` (memory of boxes, kept for the next value), `write_stderr`, `stacks_signal`, `CloseOnFork`, `keep_from_children`, `release`, `forks`, `has_forked`
//! (what a forked child never has), and the module `file` (files below a folder; `file/portable.rs` has what any POSIX system can do).

mod change;
mod clock;
mod close_on_fork;
mod direct;
#[cfg(target_os = "linux")]
mod epoll;
pub mod file;
mod free_list;
mod groups;
mod handoff;
#[cfg(not(target_os = "linux"))]
mod kqueue;
mod memory;
mod patient;
mod poll_event;
mod process;
mod queues;
mod random;
mod slice;
mod socket;
mod ticks;
#[cfg(target_os = "linux")]
mod timer;
mod title;
mod wake_up;

pub use change::{tell_of_change, wait_for_change};
pub use clock::{
    ThreadClock, ThreadWaits, compare_clocks, monotonic_ms, monotonic_ns, monotonic_us, process_cpu_ns,
    thread_cpu_ns, wall_seconds, wall_us,
};
pub use close_on_fork::{CloseOnFork, forks, has_forked, keep_from_children, release};
#[cfg(target_os = "linux")]
pub use epoll::{Poll, PollEvents};
pub use free_list::{FreeList, unbox};
pub use groups::{Groups, container_memory};
pub use handoff::{Handoff, NOTE_BYTES};
#[cfg(not(target_os = "linux"))]
pub use kqueue::{Poll, PollEvents, Timer, Waker};
pub use memory::{
    bound_arenas, give_back_code, give_back_memory, own_bytes_again, proportional_bytes, resident_bytes,
};
pub use patient::write_within;
pub use poll_event::PollEvent;
pub use process::{
    Access, SharedNumbers, Taken, become_subreaper, exit_now, forget_numbers, is_stopped, is_taken_away,
    is_there, stacks_signal, taken, thread_id, write_stderr,
};
pub use queues::{Family, Listening, Queue, listen_overflows, queues};
pub use random::random;
pub use slice::KernelThread;
pub use socket::{
    Accepted, Address, ListenerFd, PIECES, PollFor, Reserve, Sent, Socket, accept, duplicate_file,
    is_readable, is_writable,
};
#[cfg(target_os = "linux")]
pub use timer::{Timer, Waker};
pub use title::set_title;

use std::io;

/// Turns a system call's result into the error that errno holds.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that answer a size; `None` where the call would have to wait.
fn check_size(result: libc::ssize_t) -> io::Result<Option<usize>> {
    if let Ok(size) = usize::try_from(result) {
        return Ok(Some(size));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(None),
        _ => Err(error),
    }
}
