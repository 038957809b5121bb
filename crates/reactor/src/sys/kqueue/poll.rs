//! The readiness of many descriptors behind one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use super::super::check;
use super::super::close_on_fork::CloseOnFork;
use super::super::poll_event::{Batch, PollEvent};
use super::{change, queue};

/// Room for one batch, and how far it has been looked at.
pub struct PollEvents {
    batch: Batch<libc::kevent>,
}

// SAFETY: the pointers in it are tokens, which nobody follows.
unsafe impl Send for PollEvents {}

impl PollEvents {
    pub fn new() -> Self {
        Self { batch: Batch::new() }
    }

    /// The next event of the batch. Of a descriptor that can be read and written there are two.
    #[inline]
    pub fn take_next(&mut self) -> Option<PollEvent> {
        let event = self.batch.take_next()?;
        let filter = event.filter;
        Some(PollEvent {
            token: event.udata.addr() as u64,
            readable: filter == libc::EVFILT_READ,
            writable: filter == libc::EVFILT_WRITE,
            hung_up: event.flags & (libc::EV_EOF | libc::EV_ERROR) != 0,
        })
    }
}

impl Default for PollEvents {
    fn default() -> Self {
        Self::new()
    }
}

/// A queue of what is ready.
#[derive(Debug)]
pub struct Poll {
    fd: CloseOnFork,
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: queue()? })
    }

    /// Watches for readability, told again and again while it lasts.
    pub fn watch_level(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.change(fd, libc::EVFILT_READ, libc::EV_ADD, token)
    }

    /// The same, where several processes watch one listener. All that wait are woken: the system has no other way.
    pub fn watch_shared(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.watch_level(fd, token)
    }

    /// Watches both directions, told once per change.
    pub fn watch_edge(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = libc::EV_ADD | libc::EV_CLEAR;
        self.change(fd, libc::EVFILT_READ, flags, token)?;
        match self.change(fd, libc::EVFILT_WRITE, flags, token) {
            // The reading end of a pipe has one direction only.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPIPE)) => Ok(()),
            other => other,
        }
    }

    pub fn unwatch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // Whoever is watched for readability only has no other filter.
        let _ = self.change(fd, libc::EVFILT_WRITE, libc::EV_DELETE, 0);
        self.change(fd, libc::EVFILT_READ, libc::EV_DELETE, 0)
    }

    fn change(&self, fd: BorrowedFd<'_>, filter: i16, flags: u16, token: u64) -> io::Result<()> {
        let ident = usize::try_from(fd.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let change = change(ident, filter, flags, token);
        // SAFETY: one change that outlives the call, and room for no event, so that its error is the call's.
        check(unsafe {
            libc::kevent(self.fd.as_raw_fd(), &raw const change, 1, ptr::null_mut(), 0, ptr::null())
        })?;
        Ok(())
    }

    /// Waits for a batch; -1 waits without end, 0 only looks. Interrupted: an empty batch.
    pub fn wait(&self, into: &mut PollEvents, milliseconds: i32) -> io::Result<usize> {
        let wait = u32::try_from(milliseconds).ok().map(|milliseconds| libc::timespec {
            tv_sec: libc::time_t::from(milliseconds / 1000),
            tv_nsec: libc::c_long::from(milliseconds % 1000 * 1_000_000),
        });
        let wait = wait.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the call fills that room, and says how much of it; the time, if any, outlives it.
        unsafe {
            into.batch.fill(|room, most| libc::kevent(self.fd.as_raw_fd(), ptr::null(), 0, room, most, wait))
        }
    }
}

impl AsRawFd for Poll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
