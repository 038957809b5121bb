//! Deadlines of requests: a client is answered in time, whatever its request's thread does.
//!
//! Knows: a request, its socket, and until when it may take. Does not know: Python: who wants
//! to act on an overdue request's thread asks for it. The watchdog looks; threads claim.
//!
//! ```text
//!   OPEN ──the application begins its reply──► ANSWERED ──deadline──► OVERDUE (the reply is cut)
//!     └───────────────deadline──► OVERDUE (504 is sent)
//! ```
//!
//! One step from OPEN is taken by exactly one side, so that a client never reads both replies.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reactor::Socket;
use reactor::sys::{monotonic_ms, wall_seconds};
use wire::{DateLine, Head, Millis};

use crate::connection::Connection;
use crate::engine::Engine;
use crate::log::Level;
use crate::output::Carry;
use crate::sync::lock;

const OPEN: u8 = 0;
const ANSWERED: u8 = 1;
const OVERDUE: u8 = 2;

/// Until when requests may take.
#[derive(Debug, Clone, Default)]
pub struct Deadlines {
    /// Milliseconds; zero: none.
    pub usual: Millis,
    /// By path prefix; the first that fits decides.
    pub by_path: Vec<(Vec<u8>, Millis)>,
}

impl Deadlines {
    fn of(&self, path: &[u8]) -> Millis {
        let special = self.by_path.iter().find(|(prefix, _)| path.starts_with(prefix));
        special.map_or(self.usual, |(_, time)| *time)
    }

    /// True when there are any.
    pub fn any(&self) -> bool {
        self.usual > 0 || self.by_path.iter().any(|(_, time)| *time > 0)
    }
}

/// One request's.
pub struct Ticket {
    head: Arc<Head>,
    socket: Arc<Socket>,
    /// Replies to earlier requests of the connection, which go first.
    carry: Option<Arc<Carry>>,
    /// Nothing else waits for the socket.
    clean: bool,
    began: Millis,
    deadline: Millis,
    serial: u64,
    state: AtomicU8,
    /// The thread that works on it, as the application's interpreter names it; zero: none yet.
    thread: AtomicU64,
    /// Its thread has come back.
    over: AtomicBool,
    /// Counted in [`Tickets::any_lost`].
    lost: AtomicBool,
    escalated: AtomicBool,
}

impl Ticket {
    /// A thread begins.
    pub fn begin(&self, thread: u64) {
        self.thread.store(thread, Ordering::Release);
    }

    /// The application's reply is about to go out. False: it comes too late.
    pub fn claim(&self) -> bool {
        self.state.compare_exchange(OPEN, ANSWERED, Ordering::AcqRel, Ordering::Acquire).is_ok()
            || self.state.load(Ordering::Acquire) == ANSWERED
    }

    pub fn is_overdue(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVERDUE
    }

    /// The thread has left the application. Called while it holds the interpreter, so that
    /// nobody interrupts what it does next.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Seconds that are left.
    pub fn left(&self) -> f64 {
        self.deadline.saturating_sub(monotonic_ms()) as f64 / 1000.0
    }

    fn line(&self) -> String {
        String::from_utf8_lossy(self.head.request_line()).into_owned()
    }

    /// Sends 504, or cuts a reply that was begun.
    fn expire(&self, engine: &Engine) {
        if self.state.swap(OVERDUE, Ordering::AcqRel) == OPEN && self.clean {
            let carried = self.carry.as_ref().is_none_or(|carry| carry.send().is_ok() && carry.is_empty());
            if carried {
                let mut reply = Vec::new();
                let date = DateLine::at(wall_seconds());
                wire::REQUEST_TIMEOUT.reply(
                    &date,
                    &engine.config.server_header,
                    self.head.is_head(),
                    &mut reply,
                );
                // A peer that is gone, or so slow that its socket is full, is not waited for.
                let _ = self.socket.send(&reply);
                return self.socket.shut_both();
            }
        }
        self.socket.reset_at_close();
        self.socket.shut_both();
    }
}

/// What is told of a request whose thread is to be looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Overdue {
    pub thread: u64,
    pub line: String,
    pub seconds: f64,
    pub serial: u64,
}

/// All requests that have a deadline and are not done.
pub struct Tickets {
    deadlines: Deadlines,
    open: Mutex<Vec<Arc<Ticket>>>,
    /// No deadline is earlier.
    next: AtomicU64,
    serial: AtomicU64,
    /// Overdue ones whose threads have not come back.
    lost: AtomicU32,
    found: Mutex<Vec<Overdue>>,
    /// A byte in here wakes whoever acts on them.
    bell: Mutex<Option<UnixStream>>,
}

impl Tickets {
    pub fn new(deadlines: Deadlines) -> Self {
        Self {
            deadlines,
            open: Mutex::new(Vec::new()),
            next: AtomicU64::new(Millis::MAX),
            serial: AtomicU64::new(0),
            lost: AtomicU32::new(0),
            found: Mutex::new(Vec::new()),
            bell: Mutex::new(None),
        }
    }

    /// A descriptor that can be read when [`Tickets::take_overdue`] has something.
    ///
    /// # Errors
    /// The kernel's.
    pub fn listen(&self) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        *lock(&self.bell) = Some(ours);
        Ok(theirs)
    }

    /// A ticket for a request, if it has a deadline.
    #[inline]
    pub fn issue(&self, connection: &Connection, head: &Arc<Head>, now: Millis) -> Option<Arc<Ticket>> {
        if !self.deadlines.any() {
            return None;
        }
        let time = self.deadlines.of(head.path());
        if time == 0 {
            return None;
        }
        let ticket = Arc::new(Ticket {
            head: Arc::clone(head),
            socket: Arc::clone(&connection.socket),
            carry: connection.sending.carry.clone(),
            clean: connection.sending.output.is_none(),
            began: now,
            deadline: now + time,
            serial: self.serial.fetch_add(1, Ordering::Relaxed),
            state: AtomicU8::new(OPEN),
            thread: AtomicU64::new(0),
            over: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            escalated: AtomicBool::new(false),
        });
        lock(&self.open).push(Arc::clone(&ticket));
        self.next.fetch_min(ticket.deadline, Ordering::SeqCst);
        Some(ticket)
    }

    /// A request is done.
    pub fn settle(&self, ticket: &Arc<Ticket>) {
        let mut open = lock(&self.open);
        if let Some(at) = open.iter().position(|other| Arc::ptr_eq(other, ticket)) {
            open.swap_remove(at);
        }
        drop(open);
        if ticket.lost.load(Ordering::Acquire) {
            self.lost.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// True while a thread has not come back from an overdue request.
    pub fn any_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) > 0
    }

    /// When [`Tickets::look`] has something to do.
    pub fn next(&self) -> Millis {
        self.next.load(Ordering::SeqCst)
    }

    /// Answers what is overdue, and tells of it.
    pub fn look(&self, engine: &Engine, now: Millis) {
        if now < self.next() {
            return;
        }
        let grace = engine.config.limits.request_timeout_grace;
        let mut next = Millis::MAX;
        let mut ignored = Vec::new();
        let open = lock(&self.open);
        for ticket in open.iter() {
            if !ticket.is_overdue() {
                if ticket.deadline > now {
                    next = next.min(ticket.deadline);
                    continue;
                }
                self.expire(ticket, engine, now);
            }
            let last = ticket.deadline + grace;
            if last > now {
                next = next.min(last);
            } else if ticket.thread.load(Ordering::Acquire) != 0
                && !ticket.escalated.swap(true, Ordering::AcqRel)
            {
                engine.counters.request_deadlines_ignored.add();
                ignored.push(format!(
                    "stale {}: its thread has not come back {} s after its deadline (--request-timeout-grace)",
                    ticket.line(),
                    grace as f64 / 1000.0
                ));
            }
        }
        // Stored while the list is locked: a ticket that is issued now lowers it again.
        self.next.store(next, Ordering::SeqCst);
        drop(open);
        for line in ignored {
            // The supervisor may be slow to listen, and whoever issues a ticket wants the list.
            engine.report(&line);
        }
    }

    fn expire(&self, ticket: &Ticket, engine: &Engine, now: Millis) {
        let thread = ticket.thread.load(Ordering::Acquire);
        if thread != 0 {
            ticket.lost.store(true, Ordering::Release);
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        ticket.expire(engine);
        engine.counters.request_deadlines.add();
        let seconds = now.saturating_sub(ticket.began) as f64 / 1000.0;
        if thread == 0 {
            engine.log.complain(Level::Error, || {
                format!(
                    "{}: overdue after {seconds:.2} s, all of it in the queue; answered 504",
                    ticket.line()
                )
            });
            return;
        }
        lock(&self.found).push(Overdue { thread, line: ticket.line(), seconds, serial: ticket.serial });
        if let Some(bell) = &mut *lock(&self.bell) {
            // A full pipe rings already.
            let _ = bell.write(b"!");
        }
    }

    /// The requests that have become overdue since the last time.
    pub fn take_overdue(&self) -> Vec<Overdue> {
        std::mem::take(&mut *lock(&self.found))
    }

    /// True when [`Tickets::take_overdue`] has something.
    pub fn any_found(&self) -> bool {
        self.deadlines.any() && !lock(&self.found).is_empty()
    }

    /// True while the thread of that request is still inside the application.
    pub fn is_inside(&self, serial: u64) -> bool {
        lock(&self.open).iter().any(|ticket| ticket.serial == serial && !ticket.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_prefix_that_fits_decides() {
        let by_path = vec![(b"/export/big".to_vec(), 0), (b"/export".to_vec(), 300)];
        let deadlines = Deadlines { usual: 30, by_path };
        assert_eq!(deadlines.of(b"/"), 30);
        assert_eq!(deadlines.of(b"/export/small"), 300);
        assert_eq!(deadlines.of(b"/export/big/1"), 0);
        assert!(deadlines.any());
        assert!(!Deadlines { usual: 0, by_path: vec![(b"/a".to_vec(), 0)] }.any());
    }
}
