//! Queues of one event: time and other threads, as descriptors in the same set.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use super::super::check;
use super::super::clock::monotonic_ms;
use super::super::close_on_fork::CloseOnFork;
use super::super::wake_up::wait_for;
use super::{change, queue};

/// The one event of a queue has this name.
const IDENT: usize = 1;

/// Changes the one event.
fn tell(fd: &CloseOnFork, change: libc::kevent) -> io::Result<()> {
    // SAFETY: one change that outlives the call, and room for no event.
    check(unsafe { libc::kevent(fd.as_raw_fd(), &raw const change, 1, ptr::null_mut(), 0, ptr::null()) })?;
    Ok(())
}

/// Takes the event, if it is there, so that the queue falls silent.
fn take(fd: &CloseOnFork) {
    let mut room = change(0, 0, 0, 0);
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one event, and a time that outlives the call. Where there is none, that is as good; so the result
    // is not looked at.
    unsafe { libc::kevent(fd.as_raw_fd(), ptr::null(), 0, &raw mut room, 1, &raw const at_once) };
}

/// One absolute deadline on the monotonic clock.
#[derive(Debug)]
pub struct Timer {
    fd: CloseOnFork,
}

impl Timer {
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: queue()? })
    }

    /// Sets the deadline, in monotonic milliseconds. One in the past fires at once.
    pub fn set(&self, deadline: u64) {
        let mut timer = change(IDENT, libc::EVFILT_TIMER, libc::EV_ADD | libc::EV_ONESHOT, 0);
        // Milliseconds from now, as nothing else is asked for.
        timer.data = isize::try_from(deadline.saturating_sub(monotonic_ms())).unwrap_or(isize::MAX);
        // It fails only without memory; then what is due comes with the next event.
        let _ = tell(&self.fd, timer);
    }

    /// Takes note that it fired, so that the set falls silent.
    pub fn clear(&self) {
        take(&self.fd);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Wakes the set from any thread. Wake-ups that come before it looks are one.
#[derive(Debug)]
pub struct Waker {
    fd: CloseOnFork,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = queue()?;
        tell(&fd, change(IDENT, libc::EVFILT_USER, libc::EV_ADD | libc::EV_CLEAR, 0))?;
        Ok(Self { fd })
    }

    /// Wakes. Safe in a signal handler: one system call.
    pub fn wake(&self) {
        let mut wakes = change(IDENT, libc::EVFILT_USER, 0, 0);
        wakes.fflags = libc::NOTE_TRIGGER;
        // The event was added when this was made.
        let _ = tell(&self.fd, wakes);
    }

    /// Takes note of the wake-up.
    pub fn clear(&self) {
        take(&self.fd);
    }

    /// Waits until it is used, or until another descriptor can be read, or so many
    /// milliseconds; none: as long as it takes. For a thread that does nothing else.
    pub fn wait(&self, other: Option<RawFd>, milliseconds: Option<u64>) {
        if wait_for(self.fd.as_raw_fd(), other, milliseconds) {
            self.clear();
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
