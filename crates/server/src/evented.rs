//! The loop under an event loop of somebody else (asyncio, uvloop, gevent's hub): no baton, one thread.
//!
//! Knows: what happened, in three kinds: requests that begin, connections that are in flight and
//! have an edge, the end. Does not know: Python, or what becomes of a request. Runs on the
//! event loop's thread, whenever the engine's descriptor is readable.

use std::sync::Arc;

use reactor::file::Ask;
use wire::Millis;

use crate::baton::{Lead, Next};
use crate::engine::{Engine, Held};
use crate::exchange::Exchange;
use crate::heartbeat::Heartbeat;
use crate::incoming::AT_ONCE;
use crate::named_files;
use crate::slots::NEVER;
pub use crate::slots::Wakeup;
use crate::turn::Loop;

/// How many requests one turn brings, so that the event loop's other work is not kept waiting, and that what Python holds
/// for all that wait for the first step of their task stays below 700 objects, at which its collector begins: with 64 it did
/// each time, for a twentieth of what a request to FastAPI takes (docs/performance.md).
const MOST: usize = 32;

/// What a turn found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing until the descriptor is readable.
    Quiet,
    /// There is more: turn again soon.
    Again,
    /// The loop has ended.
    Ended,
}

/// How often the worker's numbers are shown, in milliseconds.
const PUBLISH_MS: Millis = 100;

/// A loop and its driver's end of it.
pub struct Evented {
    turn: Loop,
    ended: bool,
    publish_at: Millis,
    /// How many requests may be in flight at a time; more wait in the queue.
    most: u32,
    /// How many the last turn has brought.
    begun: usize,
    heartbeat: Arc<Heartbeat>,
}

impl Evented {
    /// Takes a loop whose requests may all be in flight at the same time.
    ///
    /// # Errors
    /// The kernel's, when a descriptor cannot be had.
    pub fn new(turn: Loop) -> std::io::Result<Self> {
        // There are as many tasks as requests: it says of none how many more may be.
        turn.engine().set_threads(0);
        Self::bounded(turn, u32::MAX)
    }

    /// Takes a loop of which `most` requests may be in flight at a time.
    ///
    /// # Errors
    /// As [`Evented::new`].
    pub fn bounded(mut turn: Loop, most: u32) -> std::io::Result<Self> {
        let heartbeat = Arc::new(Heartbeat::new()?);
        turn.serve_tasks(Arc::clone(&heartbeat));
        Ok(Self { turn, ended: false, publish_at: 0, most, begun: 0, heartbeat })
    }

    /// What its watchdog sees.
    pub fn heartbeat(&self) -> &Arc<Heartbeat> {
        &self.heartbeat
    }

    pub fn engine(&self) -> &Arc<Engine> {
        self.turn.engine()
    }

    pub fn fileno(&self) -> i32 {
        self.turn.fileno()
    }

    /// Does what is ready: requests to be begun and connections to be looked at are appended.
    pub fn turn(&mut self, requests: &mut Vec<Box<Exchange>>, wakeups: &mut Vec<Wakeup>) -> After {
        self.heartbeat.beat();
        // It comes round: whatever has held it up is over, perhaps only for now.
        self.turn.engine().held(Held::No);
        if self.ended {
            return After::Ended;
        }
        // What the last look found is told once: it comes before another look.
        let mut looked = self.turn.looks_first(std::mem::take(&mut self.begun));
        let after = loop {
            if requests.len() >= MOST {
                break After::Again;
            }
            if self.is_full() {
                break self.queue_arrivals();
            }
            match self.turn.next() {
                Next::Ready(exchange) => {
                    self.turn.has_begun();
                    self.turn.engine().inside.begins();
                    if let Some(pipelined) = exchange.pipelined_replies() {
                        self.heartbeat.note(pipelined);
                    }
                    requests.push(exchange);
                }
                Next::Quiet if looked => break self.rest(true),
                Next::Quiet => {
                    looked = true;
                    self.turn.look();
                }
                Next::Ended => {
                    self.end();
                    break After::Ended;
                }
            }
        };
        self.begun = requests.len();
        self.turn.take_wakeups(wakeups);
        self.periodic_work();
        after
    }

    fn end(&mut self) {
        self.ended = true;
        self.heartbeat.end();
    }

    fn is_full(&self) -> bool {
        self.turn.engine().in_flight() >= self.most
    }

    /// As many are in flight as may be: what comes is read and waits, or is refused.
    #[cold]
    fn queue_arrivals(&mut self) -> After {
        if self.turn.work_without_threads() {
            self.end();
            return After::Ended;
        }
        self.turn.queue_alone();
        // Newcomers that are left to others are told again while they wait.
        self.rest(false)
    }

    /// What one look allows is done: is there more, of which no edge will tell?
    fn rest(&self, newcomers: bool) -> After {
        if self.turn.is_busy(newcomers) { After::Again } else { After::Quiet }
    }

    /// What a watchdog does beside threads: deadlines, requests that take long, this worker's numbers, and whether it
    /// shall take new connections. A quiet worker has shown its last numbers.
    fn periodic_work(&mut self) {
        let engine = Arc::clone(self.turn.engine());
        let turn = &mut self.turn;
        let now = turn.now();
        if engine.deadlines.next() <= now {
            engine.answer_overdue(now);
        }
        let next = engine.deadlines.next();
        if next != NEVER {
            turn.wake_by(next);
        }
        if self.begun > 0 {
            engine.slow.begins(now);
        }
        if engine.slow.due() <= now {
            engine.slow.look(now);
        }
        let next = engine.slow.due();
        if next != NEVER {
            turn.wake_by(next);
        }
        if now >= self.publish_at {
            engine.note_queued(turn.waiting(), 0);
            engine.publish(now);
            self.publish_at = now + PUBLISH_MS;
            let next = engine.publish_by(now);
            if next != NEVER {
                turn.wake_by(next);
            }
        } else if engine.config.scoreboard.is_some() {
            // Once more after the last request, or its numbers would stay as they were in the middle of it.
            turn.wake_by(self.publish_at);
        }
        turn.update_listening();
    }

    /// A finished exchange comes back. True: something is ready by it, so turn soon.
    pub fn take_back(&mut self, mut exchange: Box<Exchange>) -> bool {
        exchange.ends_now();
        self.turn.engine().inside.is_back();
        self.heartbeat.work();
        if self.turn.engine().blockers.take(exchange.slot()) {
            self.turn.connections().0.has_held_up(&exchange);
        }
        if self.ended {
            exchange.send_batched(self.turn.engine());
            return false;
        }
        if exchange.names_file() && !named_files::answer(&mut exchange, Ask::Cached, self.turn.engine()) {
            self.turn.answer_from_disk(exchange);
            return false;
        }
        self.turn.finish(exchange)
    }

    /// An exchange will be in flight for a while: its connection is watched from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&mut self, exchange: &mut Exchange) -> std::io::Result<()> {
        let (_, poller) = self.turn.connections();
        exchange.connection_mut().map_or(Ok(()), |connection| poller.watch(connection))
    }

    /// Wakes a connection that is in flight no later than `at`; [`AT_ONCE`]: with the next turn,
    /// which comes as soon as the event loop has looked at everybody.
    pub fn wake_at(&mut self, token: u64, at: Millis) {
        let (connections, poller) = self.turn.connections();
        match at {
            AT_ONCE => connections.wake(token),
            NEVER => {}
            at => connections.wake_at(token, at, poller),
        }
    }

    /// Wakes a connection that is in flight when others have had their turn.
    pub fn wake_soon(&mut self, token: u64) {
        self.wake_at(token, AT_ONCE);
    }

    /// The time of the last look.
    pub fn now(&self) -> Millis {
        self.turn.now()
    }
}

impl Drop for Evented {
    fn drop(&mut self) {
        self.heartbeat.end();
    }
}
