//! The reactor: one epoll set that holds listeners, connections, a timer and a wake-up.
//!
//! Knows: tokens and what happened to them. Does not know: what a token stands for.
//! Runs on whichever thread holds the baton; only [`Waker`] is used from others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use crate::holding::{Wait, will_wait};
use crate::sys::{Poll, PollEvents, Socket, Timer, Waker};

/// Tokens from here on are the reactor's own; callers use smaller ones.
pub const WAKE_TOKENS_FROM: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX;

/// How much one read may bring: as large as a socket buffer is likely to be, so that one
/// system call empties it.
const LENT_BYTES: usize = 64 * 1024;

/// One thing that happened, in the order in which the kernel told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Something changed on a watched descriptor. Edge-triggered for connections: it is
    /// told once, and whoever cannot look now must remember it.
    Edge { token: u64, readable: bool, writable: bool, hung_up: bool },
    /// Another thread used the [`Waker`].
    Woken,
    /// The deadline given to [`Reactor::wake_at`] has passed.
    Due,
}

/// What a read brought.
#[derive(Debug)]
pub enum Read<'a> {
    /// Bytes, lent until the next read. `more` says that the buffer was filled, so that
    /// the socket may hold more without telling again.
    Data { bytes: &'a [u8], more: bool },
    /// Nothing now; an edge will tell.
    Nothing,
    /// The peer has ended its side.
    Ended,
    /// The connection broke.
    Failed(io::Error),
}

/// One epoll set and what belongs to it.
pub struct Reactor {
    poll: Poll,
    events: PollEvents,
    timer: Timer,
    /// The deadline that the timer is set to, in monotonic milliseconds; `u64::MAX`: none.
    set_to: u64,
    waker: Arc<Waker>,
    lent: Box<[u8]>,
}

impl Reactor {
    /// Makes the set with its timer and wake-up.
    ///
    /// # Errors
    /// The kernel's, when a descriptor cannot be had.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new()?;
        let waker = Arc::new(Waker::new()?);
        poll.watch_level(timer.as_fd(), TIMER)?;
        poll.watch_level(waker.as_fd(), WAKE)?;
        let lent = vec![0; LENT_BYTES].into_boxed_slice();
        Ok(Self { poll, events: PollEvents::new(), timer, set_to: u64::MAX, waker, lent })
    }

    /// The one descriptor to poll: readable whenever a turn would find something.
    pub fn fileno(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// A handle that wakes a sleeping [`Reactor::poll`] from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Watches a listener, level-triggered: it is told again while connections wait. `shared`:
    /// other processes watch it too, and one of those that wait is woken, not all.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch_listener(&self, listener: &impl AsFd, token: u64, shared: bool) -> io::Result<()> {
        match shared {
            true => self.poll.watch_shared(listener.as_fd(), token),
            false => self.poll.watch_level(listener.as_fd(), token),
        }
    }

    /// Watches something that other processes write to, and that nobody reads: each writing is
    /// told once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch_doorbell(&self, eventfd: &impl AsFd, token: u64) -> io::Result<()> {
        self.poll.watch_edge(eventfd.as_fd(), token)
    }

    /// Stops watching a listener, or a connection that stays open.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unwatch(&self, fd: &impl AsFd) -> io::Result<()> {
        self.poll.unwatch(fd.as_fd())
    }

    /// Watches a connection for both directions, edge-triggered, once for its whole life.
    /// What is ready already is told at the next poll.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.poll.watch_edge(socket.as_fd(), token)
    }

    /// Asks the kernel what happened. `wait` false: looks and returns at once.
    ///
    /// # Errors
    /// The kernel's; an interrupted wait is no error and finds nothing.
    pub fn poll(&mut self, wait: bool) -> io::Result<usize> {
        if wait {
            will_wait(Wait::Work);
        }
        self.poll.wait(&mut self.events, if wait { -1 } else { 0 })
    }

    /// Like [`Reactor::poll`], waiting at most so many milliseconds.
    ///
    /// # Errors
    /// As [`Reactor::poll`].
    pub fn poll_for(&mut self, milliseconds: i32) -> io::Result<usize> {
        if milliseconds != 0 {
            will_wait(Wait::Work);
        }
        self.poll.wait(&mut self.events, milliseconds)
    }

    /// The next thing of the last poll.
    #[inline]
    pub fn take_next(&mut self) -> Option<Event> {
        let event = self.events.take_next()?;
        Some(match event.token {
            TIMER => {
                self.timer.clear();
                self.set_to = u64::MAX;
                Event::Due
            }
            WAKE => {
                self.waker.clear();
                Event::Woken
            }
            token => Event::Edge {
                token,
                readable: event.readable,
                writable: event.writable,
                hung_up: event.hung_up,
            },
        })
    }

    /// Sets the deadline, in monotonic milliseconds ([`crate::sys::monotonic_ms`]), at
    /// which [`Event::Due`] is to come. A later one than the one that is set already
    /// costs nothing: the earlier one comes first, and then asks again.
    pub fn wake_at(&mut self, deadline: u64) {
        if deadline < self.set_to {
            self.set_to = deadline;
            self.timer.set(deadline);
        }
    }

    /// Takes the lent buffer, so that the caller may read and call the reactor besides.
    #[inline]
    pub fn take_lent(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.lent)
    }

    /// Gives the lent buffer back.
    #[inline]
    pub fn give_lent(&mut self, lent: Box<[u8]>) {
        self.lent = lent;
    }

    /// Reads once into the lent buffer.
    #[inline]
    pub fn read<'a>(lent: &'a mut [u8], socket: &Socket) -> Read<'a> {
        match socket.recv(lent) {
            Ok(Some(0)) => Read::Ended,
            Ok(Some(n)) => Read::Data { more: n == lent.len(), bytes: &lent[..n] },
            Ok(None) => Read::Nothing,
            Err(error) => Read::Failed(error),
        }
    }
}
