//! The threads around a baton: as many as are needed, up to a maximum, and the watchdog.
//!
//! Knows: threads and how they begin and end. Does not know: what they do, or for whom.
//! [`Threads::start`] runs on the caller's thread; the rest says which thread runs it.

mod growing;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use reactor::file::Ask;
use reactor::holding::{Wait, will_wait};
use reactor::sys::monotonic_ms;

use self::growing::Growing;
use crate::app::App;
use crate::baton::{Baton, Look, Pool, Run};
use crate::engine::{Engine, Held};
use crate::exchange::Exchange;
use crate::named_files;
use crate::slots::NEVER;
use crate::sync::{lock, wait, wait_for};
use crate::turn::Loop;

/// Stack of a worker thread: what a main thread has, for applications recurse. Only pages
/// that are touched cost memory.
const STACK_BYTES: usize = 8 << 20;
/// How often the watchdog looks, and how soon again where it finds a job under way: together
/// the longest delay that a first blocking job can cause. Two looks at different distances
/// cost half the wake-ups of one at each millisecond (docs/performance.md), and no more delay.
const LOOK: Duration = Duration::from_micros(1800);
const LOOK_AGAIN: Duration = Duration::from_micros(300);
/// How often where no job has blocked for a second ([`crate::baton::MARK_MS`]) and nobody is to be helped: a look takes 13 µs of
/// a busy processor, most of it the timer's, and others wait so long for the first job that blocks again.
const LOOK_CALM: Duration = Duration::from_micros(3600);
/// A thread that was called, or leads and has something to do, and has not come for so long cannot have the interpreter:
/// another one holds it in a calculation that takes no turns. As long as a strain (`ffi/switch_interval.rs`).
const HELD_MS: u64 = 30;

/// How often it is tried again where no thread can be started, as there are as many as the system allows.
const TRY_MS: u64 = 1000;

/// A count that is odd while something lasts, and since when it has been the same.
#[derive(Default)]
struct Lasting {
    count: u64,
    since: u64,
}

impl Lasting {
    /// What it is now. True: it has lasted so long that nobody who waits has the interpreter.
    fn is_long(&mut self, count: u64, ms: u64) -> bool {
        if count != self.count || count & 1 == 0 {
            *self = Self { count, since: ms };
        }
        ms - self.since >= HELD_MS
    }
}

/// The threads of one engine.
pub struct Threads<A: App> {
    pub engine: Arc<Engine>,
    app: Arc<A>,
    baton: Baton<Loop>,
    count: Mutex<usize>,
    all_gone: Condvar,
    /// Threads ever started: names them.
    born: AtomicUsize,
    /// A thread was started and has not yet been of use: one at a time.
    growing: AtomicBool,
    /// The system lets nobody start a thread: when that is tried again, in milliseconds; zero: it does.
    refused_until: AtomicU64,
    watchdog: Mutex<Option<Thread>>,
}

impl<A: App> Threads<A> {
    /// `most`: the maximum of worker threads, at least one.
    pub fn new(app: A, turn: Loop, most: usize) -> Arc<Self> {
        let engine = Arc::clone(turn.engine());
        engine.set_threads(u32::try_from(most.max(1)).unwrap_or(u32::MAX));
        let waker = Arc::clone(&engine.waker);
        Arc::new(Self {
            engine,
            app: Arc::new(app),
            baton: Baton::new(turn, Box::new(move || waker.wake())),
            count: Mutex::new(0),
            all_gone: Condvar::new(),
            born: AtomicUsize::new(0),
            growing: AtomicBool::new(false),
            refused_until: AtomicU64::new(0),
            watchdog: Mutex::new(None),
        })
    }

    /// Starts the first threads and the watchdog; returns at once.
    ///
    /// # Errors
    /// The system's, when no thread can be started.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        if let Some(scoreboard) = &self.engine.config.scoreboard {
            scoreboard.enter();
        }
        // One leads and one is spare, so that the first blocking request finds help at once.
        for _ in 0..self.most().min(2) {
            self.spawn()?;
        }
        let this = Arc::clone(self);
        let watchdog = thread::Builder::new()
            .name("forehand-watch".into())
            .stack_size(256 << 10)
            .spawn(move || this.watch())?;
        *lock(&self.watchdog) = Some(watchdog.thread().clone());
        Ok(())
    }

    /// How many there may be.
    fn most(&self) -> usize {
        self.engine.threads() as usize
    }

    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        let mut count = lock(&self.count);
        if *count >= self.most() {
            return Ok(());
        }
        let this = Arc::clone(self);
        let name = format!("forehand-{}", self.born.fetch_add(1, Ordering::Relaxed) + 1);
        thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || this.live())?;
        *count += 1;
        Ok(())
    }

    /// A worker thread's life.
    fn live(self: Arc<Self>) {
        let thread = PoolThread(&self);
        self.app.live(&mut || {
            self.growing.store(false, Ordering::Release);
            self.baton.live(&thread, &thread);
        });
        let mut count = lock(&self.count);
        *count -= 1;
        if *count == 0 {
            self.wake_watchdog();
            self.all_gone.notify_all();
        }
    }

    /// The watchdog's life: looks now and then while jobs are run, sleeps otherwise.
    fn watch(self: Arc<Self>) {
        let mut seen = 0;
        let (mut job, mut leader) = (Lasting::default(), Lasting::default());
        // Looks that found nothing, one at twice the distance as two, until there are enough to sleep.
        let (mut quiet, mut counts) = (0, 1);
        let enough = self.engine.config.quiet_looks + 1;
        let mut again = false;
        let mut growing = Growing::new(&self.engine);
        while !self.baton.ended() {
            let found = self.baton.look(seen);
            let ms = monotonic_ms();
            let (Look::Fine(now) | Look::Called(now) | Look::NoSpare(now)) = found;
            let waits = self.baton.waits();
            let leader_is_held = leader.is_long(waits, ms);
            self.help(found, job.is_long(now, ms), leader_is_held);
            self.engine.answer_overdue(ms);
            self.engine.publish(ms);
            if self.engine.slow.look(ms) {
                self.engine.deadlines.ring();
            }
            if let Some(threads) = growing.look(&self.engine, ms) {
                self.engine.set_threads(threads);
            }
            self.shrink();
            let is_quiet = now & 1 == 0 && now == seen && waits & 1 == 0;
            quiet = match is_quiet {
                true if quiet < enough => (quiet + counts).min(enough),
                true => quiet + 1,
                false => 0,
            };
            seen = now;
            again = now & 1 == 1 && !again;
            if quiet >= enough && self.baton.watch_may_sleep(seen) {
                will_wait(Wait::For("the next job"));
                // Once it has said that it sleeps it looks once more before it sleeps for long.
                let first = if quiet == enough { ms + HELD_MS } else { NEVER };
                match self.engine.deadlines.next().min(self.engine.look_by(ms)).min(first) {
                    NEVER => {
                        self.engine.rests(ms);
                        thread::park();
                    }
                    next => thread::park_timeout(Duration::from_millis(next.saturating_sub(ms).max(1))),
                }
            } else {
                will_wait(Wait::For("the next look"));
                let calm =
                    matches!(found, Look::Fine(_)) && !leader_is_held && !self.baton.expects_to_block(ms);
                let (distance, counted) = match again {
                    true => (LOOK_AGAIN, 1),
                    false if calm => (LOOK_CALM, 2),
                    false => (LOOK, 1),
                };
                thread::sleep(distance);
                counts = counted;
            }
        }
    }

    /// Does what a look has found to be necessary. `held`: it has found the same for a while, so that
    /// the thread that was called, or started, does not get the interpreter; `leader_is_held`: nor does the one that leads.
    fn help(self: &Arc<Self>, found: Look, held: bool, leader_is_held: bool) {
        let now = match found {
            Look::Fine(_) if leader_is_held => {
                self.engine.held(Held::FromLeader);
                return self.baton.housekeeping();
            }
            Look::Fine(_) => return self.engine.held(Held::No),
            Look::Called(now) | Look::NoSpare(now) => now,
        };
        self.baton.relieve(now);
        let helped = matches!(found, Look::Called(_)) || self.grow();
        if helped && held {
            self.engine.held(Held::FromSpares);
        }
        if !helped || held {
            self.baton.housekeeping();
        }
    }

    /// Starts another thread, one at a time. False: there are as many as there may be.
    fn grow(self: &Arc<Self>) -> bool {
        if *lock(&self.count) >= self.most() {
            return false;
        }
        let now = monotonic_ms();
        if now < self.refused_until.load(Ordering::Relaxed) {
            return false;
        }
        if self.growing.swap(true, Ordering::AcqRel) {
            return true;
        }
        if let Err(error) = self.spawn() {
            self.growing.store(false, Ordering::Release);
            if self.refused_until.swap(now + TRY_MS, Ordering::Relaxed) == 0 {
                let count = *lock(&self.count);
                self.engine.log.warn(format!("cannot start another thread: {error}; going on with {count}"));
            }
            return false;
        }
        if self.refused_until.swap(0, Ordering::Relaxed) != 0 {
            self.engine.log.catch_up();
        }
        self.engine.log.debug(|| {
            let (count, parked) = self.numbers();
            format!("starts a thread, as a request blocks: {count} of at most {}, {parked} idle", self.most())
        });
        true
    }

    /// Has a thread end that waits to be of use, if there are more than there may be: one at a time, and not the last.
    fn shrink(&self) {
        let count = *lock(&self.count);
        if count > self.most() && self.baton.parked() > 1 {
            self.baton.dismiss();
        }
    }

    fn wake_watchdog(&self) {
        if let Some(watchdog) = &*lock(&self.watchdog) {
            watchdog.unpark();
        }
    }

    /// Waits until every worker thread has ended, or so long. True: they have.
    pub fn join(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.map(|t| Instant::now() + t);
        let mut count = lock(&self.count);
        while *count > 0 {
            let Some(until) = until else {
                count = wait(&self.all_gone, count);
                continue;
            };
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            (count, _) = wait_for(&self.all_gone, count, left);
        }
        true
    }

    /// Who answers requests.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// True once the loop has ended; late threads may still be in their jobs.
    pub fn ended(&self) -> bool {
        self.baton.ended()
    }

    /// How many threads there are, and how many of them wait to be of use.
    pub fn numbers(&self) -> (usize, usize) {
        (*lock(&self.count), self.baton.parked())
    }

    /// Does what is ready on the calling thread, for a driver that polls the descriptor.
    /// `None`: another thread leads.
    pub fn turn(self: &Arc<Self>, most: usize) -> Option<usize> {
        let thread = PoolThread(self);
        self.baton.turn(&thread, &thread, most)
    }
}

/// How a thread sees its engine.
struct PoolThread<'a, A: App>(&'a Arc<Threads<A>>);

impl<A: App> Run<Box<Exchange>> for PoolThread<'_, A> {
    #[inline]
    fn begins(&self) {
        self.0.engine.inside.begins();
    }

    fn is_short(&self, exchange: &Box<Exchange>) -> bool {
        exchange.lane.is_short()
    }

    #[inline]
    fn is_back(&self) {
        self.0.engine.inside.is_back();
    }

    #[inline]
    fn run(&self, exchange: &mut Box<Exchange>) {
        let (app, engine) = (&*self.0.app, &self.0.engine);
        let cpu = exchange.call_begins(engine);
        let call = std::panic::AssertUnwindSafe(|| {
            app.call(exchange, engine);
            if exchange.names_file() {
                app.outside(|| named_files::answer(exchange, Ask::Disk, engine));
            }
        });
        if std::panic::catch_unwind(call).is_err() {
            // The fault is ours: this client gets 500, the worker lives.
            engine.counters.panics.add();
            exchange.fail(engine);
        }
        exchange.call_ended(cpu, engine);
    }

    fn late(&self, exchange: &mut Box<Exchange>) {
        self.0.engine.inside.is_back_late();
        exchange.send_batched(&self.0.engine);
        self.0.engine.show_level();
    }

    #[inline]
    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.0.app.outside(wait)
    }

    #[inline]
    fn outside_for_work(&self, wait: impl FnOnce() -> u64) {
        self.0.app.outside_for_work(wait);
        if let Some(strain) = self.0.app.strain() {
            self.0.engine.strained(strain);
        }
        self.0.engine.leader_is_back(self.0.app.back_at());
        if self.0.engine.is_held() {
            self.0.engine.held(Held::No);
        }
    }
}

impl<A: App> Pool for PoolThread<'_, A> {
    fn grow(&self) {
        // With none to be had the one that leads goes on alone.
        let _ = self.0.grow();
    }

    fn wake_watchdog(&self) {
        self.0.wake_watchdog();
    }

    fn clock(&self) -> u64 {
        reactor::sys::monotonic_us()
    }
}
