//! What an event loop lets its watchdog see and do: signs of life, and what waits to be sent.
//!
//! Knows: that the loop lives, whether a step of the application runs, finished replies that
//! wait for others. Does not know: who asks. The loop's thread writes; the watchdog's reads, and
//! sends what waits. Neither the interpreter nor the loop is needed for that. The lock is held
//! for sends that do not wait, and by nobody who waits for anything else.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};

use reactor::Waker;

use crate::pipelined::PipelinedReplies;
use crate::reply::Reply;
use crate::sync::lock;

/// So many are noted before it is looked whether they still have anything.
const PIPELINED: usize = 64;

/// How deep the watchdog sleeps: what wakes it before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Sleep {
    /// It looks by itself, soon.
    Awake,
    /// It wants to know of replies that begin to wait.
    Dozing,
    /// And of steps of the application.
    Asleep,
}

/// One loop, as its watchdog sees it.
pub struct Heartbeat {
    /// Grows with each sign of life, by two; odd while a step of the application runs.
    pulse: AtomicU64,
    /// Grows with each step of the application and each reply.
    work: AtomicU64,
    /// Grows with each reply that begins to wait.
    kept: AtomicU64,
    sleep: AtomicU8,
    waker: Waker,
    /// It was woken because something began to wait.
    notified: AtomicBool,
    ended: AtomicBool,
    held: Mutex<Held>,
}

/// Finished replies that wait.
#[derive(Default)]
struct Held {
    replies: Vec<Reply>,
    /// Those of earlier pipelined requests of a connection whose next request runs.
    pipelined: Vec<Weak<PipelinedReplies>>,
    /// From so many of them on, those that have nothing left are dropped.
    room: usize,
}

impl Heartbeat {
    /// # Errors
    /// The kernel's, when a descriptor cannot be had.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            pulse: AtomicU64::new(0),
            work: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            sleep: AtomicU8::new(Sleep::Awake as u8),
            waker: Waker::new()?,
            notified: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            held: Mutex::default(),
        })
    }

    /// The loop lives. Only its thread says so.
    #[inline]
    pub fn beat(&self) {
        self.pulse.store(self.pulse.load(Ordering::Relaxed) + 2, Ordering::Relaxed);
    }

    /// The loop has done something, and lives.
    #[inline]
    pub fn work(&self) {
        self.work.store(self.work.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.beat();
    }

    /// A step of the application begins, on the loop's thread; it ends with what is returned.
    #[inline]
    pub fn step(&self) -> Step<'_> {
        self.work.store(self.work.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.pulse.store((self.pulse.load(Ordering::Relaxed) + 1) | 1, Ordering::Relaxed);
        // Pairs with `sleep`: who lies down sees this step, or this sees that it lies down.
        fence(Ordering::SeqCst);
        if self.sleep.load(Ordering::Relaxed) == Sleep::Asleep as u8 {
            self.wake();
        }
        Step(self)
    }

    /// A finished reply waits for others.
    #[inline]
    pub(crate) fn keep(&self, reply: Reply) {
        lock(&self.held).replies.push(reply);
        self.look_after();
    }

    /// Replies of a connection wait while its next request runs.
    pub(crate) fn note(&self, pipelined: &Arc<PipelinedReplies>) {
        {
            let mut held = lock(&self.held);
            if pipelined.note(true) {
                if held.pipelined.len() >= held.room.max(PIPELINED) {
                    held.drop_sent();
                    held.room = held.pipelined.len() * 2;
                }
                held.pipelined.push(Arc::downgrade(pipelined));
            }
        }
        self.look_after();
    }

    /// Something waits. The lock that both have had orders this after the watchdog's last look,
    /// or makes it see what waits.
    #[inline]
    fn look_after(&self) {
        self.kept.store(self.kept.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if self.sleep.load(Ordering::Relaxed) != Sleep::Awake as u8 {
            self.notified.store(true, Ordering::Relaxed);
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.sleep.store(Sleep::Awake as u8, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Works on the replies that wait.
    pub(crate) fn replies<R>(&self, work: impl FnOnce(&mut Vec<Reply>) -> R) -> R {
        work(&mut lock(&self.held).replies)
    }

    /// There is nothing to watch any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Changes with each sign of life; odd while a step of the application runs.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// Changes with what the loop does, other than to look.
    pub fn done(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Changes when something begins to wait.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// True while something waits to be sent.
    pub fn is_holding(&self) -> bool {
        let mut held = lock(&self.held);
        held.drop_sent();
        !held.replies.is_empty() || !held.pipelined.is_empty()
    }

    /// Sends what waits, as far as the sockets take it. What they do not take is the loop's again.
    pub fn send(&self) {
        let mut held = lock(&self.held);
        held.replies.iter_mut().for_each(Reply::send_early);
        for pipelined in held.pipelined.drain(..).filter_map(|pipelined| pipelined.upgrade()) {
            pipelined.note(false);
            // An error shows again when the connection comes back.
            let _ = pipelined.send();
        }
    }

    /// The watchdog sleeps until its time is over, or something wakes it. `seen`: the pulse at
    /// its last look. True: something has begun to wait, which may be sent by now; but where one
    /// reply waits, others will.
    pub fn sleep(&self, how: Sleep, seen: u64, milliseconds: Option<u64>, loop_fd: Option<i32>) -> bool {
        self.sleep.store(how as u8, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let moved = how == Sleep::Asleep && self.pulse() != seen;
        let holding = self.is_holding_anew();
        if !moved && !holding && !self.has_ended() {
            self.waker.wait(loop_fd, milliseconds);
        }
        self.sleep.store(Sleep::Awake as u8, Ordering::Relaxed);
        self.notified.swap(false, Ordering::Relaxed) || holding
    }

    /// Nothing waited at the last look.
    fn is_holding_anew(&self) -> bool {
        let held = lock(&self.held);
        !held.replies.is_empty() || !held.pipelined.is_empty()
    }
}

impl Held {
    fn drop_sent(&mut self) {
        self.pipelined.retain(|pipelined| {
            let Some(pipelined) = pipelined.upgrade() else { return false };
            let waits = !pipelined.is_empty();
            pipelined.note(waits);
            waits
        });
    }
}

/// A step of the application, which ends when this is dropped.
pub struct Step<'a>(&'a Heartbeat);

impl Drop for Step<'_> {
    #[inline]
    fn drop(&mut self) {
        let heartbeat = self.0;
        heartbeat.pulse.store((heartbeat.pulse.load(Ordering::Relaxed) | 1) + 1, Ordering::Relaxed);
    }
}
