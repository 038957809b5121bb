//! epoll(7): the readiness of many descriptors behind one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::close_on_fork::CloseOnFork;
use super::poll_event::{Batch, PollEvent};
use super::{check, direct};

const EDGE: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const LEVEL: u32 = libc::EPOLLIN as u32;

/// Room for one batch, and how far it has been looked at.
pub struct PollEvents {
    batch: Batch<libc::epoll_event>,
}

impl PollEvents {
    pub fn new() -> Self {
        Self { batch: Batch::new() }
    }

    /// The next event of the batch.
    #[inline]
    pub fn take_next(&mut self) -> Option<PollEvent> {
        let event = self.batch.take_next()?;
        let bits = event.events;
        let broken = bits & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        Some(PollEvent {
            token: event.u64,
            readable: bits & libc::EPOLLIN as u32 != 0,
            writable: bits & libc::EPOLLOUT as u32 != 0,
            hung_up: broken || bits & libc::EPOLLRDHUP as u32 != 0,
        })
    }
}

impl Default for PollEvents {
    fn default() -> Self {
        Self::new()
    }
}

/// An epoll set.
#[derive(Debug)]
pub struct Poll {
    fd: CloseOnFork,
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointer.
        Ok(Self { fd: CloseOnFork::made(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })? })
    }

    /// Watches for readability, told again and again while it lasts.
    pub fn watch_level(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, LEVEL, token)
    }

    /// The same, where several processes watch one listener: of those that wait, one is woken.
    pub fn watch_shared(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, LEVEL | libc::EPOLLEXCLUSIVE as u32, token)
    }

    /// Watches both directions, told once per change.
    pub fn watch_edge(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, EDGE, token)
    }

    pub fn unwatch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, what: libc::c_int, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: both descriptors are borrowed and so open; `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Waits for a batch; -1 waits without end, 0 only looks. Interrupted: an empty batch.
    pub fn wait(&self, into: &mut PollEvents, milliseconds: i32) -> io::Result<usize> {
        // SAFETY: the call fills that room, and says how much of it.
        unsafe {
            into.batch.fill(|room, most| direct::epoll_wait(self.fd.as_raw_fd(), room, most, milliseconds))
        }
    }
}

impl AsRawFd for Poll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
