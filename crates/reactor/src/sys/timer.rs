//! timerfd(2) and eventfd(2): time and other threads, as descriptors in the same set.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use super::close_on_fork::CloseOnFork;
use super::wake_up::wait_for;

fn read_counter(fd: &CloseOnFork) {
    let mut counter = 0u64;
    // SAFETY: reads at most eight bytes into eight bytes. Would it block, there is nothing
    // to clear, which is as good; so the result is not looked at.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut counter).cast(), 8) };
}

/// One absolute deadline on the monotonic clock.
#[derive(Debug)]
pub struct Timer {
    fd: CloseOnFork,
}

impl Timer {
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: takes no pointer.
        Ok(Self { fd: CloseOnFork::made(|| unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })? })
    }

    /// Sets the deadline, in monotonic milliseconds. One in the past fires at once.
    pub fn set(&self, deadline: u64) {
        // Zero would mean "never" to the kernel.
        let deadline = deadline.max(1);
        let seconds = libc::time_t::try_from(deadline / 1000).unwrap_or(libc::time_t::MAX);
        let value = libc::timespec { tv_sec: seconds, tv_nsec: (deadline % 1000 * 1_000_000) as _ };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the setting is valid for the call, no old one is asked for.
        unsafe {
            libc::timerfd_settime(
                self.fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
    }

    /// Takes note that it fired, so that the set falls silent.
    pub fn clear(&self) {
        read_counter(&self.fd);
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
        let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
        // SAFETY: takes no pointer.
        Ok(Self { fd: CloseOnFork::made(|| unsafe { libc::eventfd(0, flags) })? })
    }

    /// Wakes. Safe in a signal handler.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes eight bytes from eight bytes. It fails only when the counter is
        // full, and then the set is awake already.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes note of the wake-up.
    pub fn clear(&self) {
        read_counter(&self.fd);
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
