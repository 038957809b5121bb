//! kqueue(2), where epoll(7), timerfd(2) and eventfd(2) are not (macOS): the same names with the same meaning.
//!
//! A queue is a descriptor that another queue can watch. So the deadline and the wake-up are queues of one event each.

mod one;
mod poll;

use std::io;
use std::ptr;

pub use one::{Timer, Waker};
pub use poll::{Poll, PollEvents};

use super::close_on_fork::CloseOnFork;

/// A queue, closed on exec. A forked child has none in any case.
fn queue() -> io::Result<CloseOnFork> {
    // SAFETY: takes nothing; the flags of a descriptor that was just made.
    CloseOnFork::made(|| unsafe {
        let fd = libc::kqueue();
        if fd >= 0 {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        fd
    })
}

/// What is to be watched, or not any more.
fn change(ident: usize, filter: i16, flags: u16, token: u64) -> libc::kevent {
    // A pointer, which has as many bits as a token on every machine with this system, and comes back as it was.
    let udata = ptr::without_provenance_mut(token as usize);
    libc::kevent { ident, filter, flags, fflags: 0, data: 0, udata }
}
