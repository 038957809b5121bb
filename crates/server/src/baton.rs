//! The baton: one loop, several threads, and no hop between them.
//!
//! Knows: who leads, who is spare, who is armed, who comes back late. Does not know: sockets,
//! HTTP, Python. Runs on every worker thread; what the watchdog of `pool.rs` calls is in `baton/look.rs`.
//!
//! The thread that holds the baton polls, reads, parses, takes one job out of the loop, lets
//! go of the baton and does the job itself. Three things keep a slow job from stopping the
//! others:
//!
//! ```text
//!             take job, let go                      try the baton
//!   LEADING ───────────────────► RUNNING ──────────────────────────► LEADING   (free: the usual way)
//!      ▲                             └──── taken: leave the job in the inbox ──► SPARE (parked)
//!      │                                                                          │ woken
//!      └──────────── baton free ◄──── ARMED (waits for the interpreter) ◄─────────┘
//!                                        └── baton taken: the leader only slept ──► SPARE
//! ```
//!
//! - The watchdog sees that a job has run for some milliseconds and nobody leads; it wakes a spare.
//! - From then on, for a second, one spare is kept *armed*: it waits for the interpreter's own
//!   lock, so that it goes on at the very moment at which a job blocks and lets go of it.
//! - A late thread leaves its finished job in the inbox and wakes the loop.
//!
//! Whoever leads and has found something waits for the interpreter first, without the baton meanwhile: it is still
//! theirs, and nobody else leads, but the watchdog can do the loop's housekeeping where that takes long.
//!
//! Where no job ever blocks, nobody is armed and the price is one free mutex a request and a look.

mod look;
mod spares;

use self::spares::Spares;
use crate::inbox::Inbox;
use crate::sync::{AtomicBool, AtomicU64, Ordering, Tried, TriedGuard, a_moment, one_order, try_lock};

/// For how long after a job has blocked a spare is kept armed, in milliseconds.
pub const MARK_MS: u64 = 1000;

/// A spare that waits for the interpreter at least so long has got it because its turn came,
/// not because a job let go of it. CPython's switch interval, exactly: the bridge sets it to
/// 500 µs, and no turn is enforced earlier. Less would miss jobs that block late in the wait.
const TURNS_US: u64 = 500;

/// What the loop has for its leader.
pub enum Next<J> {
    /// A job to do, taken out of the loop: its owner is now the thread.
    Ready(J),
    /// Nothing until something happens: wait.
    Quiet,
    /// The loop has ended; there will be no more.
    Ended,
}

/// What the baton protects: a loop that gives out jobs and takes them back.
pub trait Lead {
    type Job;
    /// The next job, without waiting.
    fn next(&mut self) -> Next<Self::Job>;
    /// Sleeps until there may be something, or until the loop's waker is used. When that was over, in monotonic
    /// nanoseconds; zero: nobody has looked at the clock.
    fn wait(&mut self) -> u64;
    /// Takes a finished job back. What still waits for a job waits for this one: whenever another
    /// job is under way, [`Lead::relieved`] has come before.
    fn take_back(&mut self, job: Self::Job);
    /// A thread is in its job and does not lead any more: what waits for it is sent. Without the
    /// interpreter.
    fn relieved(&mut self);
    /// Every thread is in a job: what can be done without one is done, and without the
    /// interpreter. True: the loop has ended.
    fn housekeeping(&mut self) -> bool {
        false
    }
    /// Coarse monotonic milliseconds, as of the last poll.
    fn now(&self) -> u64;
}

/// Who does the jobs.
pub trait Run<J> {
    /// A job is about to be done. Under the baton, as [`Run::is_back`].
    fn begins(&self) {}
    /// Does a job, start to end, on this thread.
    fn run(&self, job: &mut J);
    /// Such a job does not block: where it has taken longer than a moment, it waited for the interpreter.
    fn is_short(&self, job: &J) -> bool;
    /// This thread has done a job, and leads again.
    fn is_back(&self) {}
    /// In its place, without the baton: somebody else leads: what was left for the loop to do with a finished job is done now.
    fn late(&self, job: &mut J);
    /// Runs something that waits, while others may use the interpreter.
    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R;
    /// The same, for the leader that waits for work; what it runs gives what [`Lead::wait`] has given.
    fn outside_for_work(&self, wait: impl FnOnce() -> u64) {
        self.outside(wait);
    }
}

/// One loop and the threads around it.
pub struct Baton<L: Lead> {
    held: Tried<L>,
    /// Finished jobs of late threads.
    inbox: Inbox<L::Job>,
    /// Wakes the sleeping leader.
    wake: Box<dyn Fn() + Send + Sync>,
    spares: Spares,
    /// A spare has been told to take the interpreter and then try the baton.
    armed: AtomicBool,
    /// Until when (milliseconds) jobs are expected to block.
    marked_until: AtomicU64,
    /// Odd while the last leader runs a job and nobody has led since; even while somebody leads.
    runs: AtomicU64,
    /// Odd while whoever leads waits for the interpreter, without the baton: nobody else leads. Written under the baton.
    waits: AtomicU64,
    /// The run that was let on by whoever came back last, as it may only have been interrupted; even: none was.
    let_on: AtomicU64,
    /// The watchdog sleeps and wants to be woken when a job starts.
    watch_sleeps: AtomicBool,
    ended: AtomicBool,
}

/// What a thread does that does not lead any more, or was called in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Looks for the baton, and parks where somebody has it.
    Looks,
    Parks,
    /// Lets the thread go on that is in that run, and looks a moment later whether it is still there.
    LetsOn(u64),
}

/// A thread that is about to wait for the interpreter.
struct Called {
    /// The count of runs, ...
    runs: u64,
    /// ... and the time in microseconds, when it began to.
    since: u64,
    /// It is the one that is kept armed.
    armed: bool,
}

/// What the watchdog found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Somebody leads, or the job is young: remember the count for the next look.
    Fine(u64),
    /// A job is old and nobody leads: a spare was called.
    Called(u64),
    /// The same, and there is no spare to call.
    NoSpare(u64),
}

impl<L: Lead> Baton<L> {
    pub fn new(work: L, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            held: Tried::new(work),
            inbox: Inbox::default(),
            wake,
            spares: Spares::new(),
            armed: AtomicBool::new(false),
            marked_until: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            let_on: AtomicU64::new(0),
            watch_sleeps: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// A worker thread's life, to the end of the loop. The caller has entered the interpreter.
    pub fn live<P: Run<L::Job>>(&self, runner: &P, pool: &impl Pool) {
        let mut then = Then::Looks;
        while !self.ended.load(Ordering::Acquire) {
            if then == Then::Looks
                && let Some(work) = self.take()
            {
                then = self.lead(work, runner, pool);
                continue;
            }
            let Some(called) = runner.outside(|| self.rest(then, pool)) else { return };
            then = self.step_up(&called, runner, pool);
        }
    }

    /// Waits to be of use, without the interpreter. None: this thread is not needed any more.
    fn rest(&self, then: Then, pool: &impl Pool) -> Option<Called> {
        if let Then::LetsOn(run) = then {
            pool.moment();
            if self.runs.load(Ordering::Acquire) == run {
                return Some(Called { runs: run, since: pool.clock(), armed: false });
            }
        }
        let goes_on = self.spares.park();
        goes_on.then(|| Called { runs: self.runs.load(Ordering::Relaxed), since: pool.clock(), armed: true })
    }

    /// A spare that was called: it has the interpreter now, which is the moment an armed
    /// thread waits for.
    fn step_up<P: Run<L::Job>>(&self, called: &Called, runner: &P, pool: &impl Pool) -> Then {
        if called.armed {
            self.armed.store(false, Ordering::Release);
        }
        // Two ways lead here. A job has blocked and let go of the interpreter: that is quick.
        // Or the interpreter took turns after its switch interval: then nobody has blocked,
        // unless the job is still the one that was run when this thread was called. The
        // baton is free then as well, as whoever had to give its turn is in a job; but it comes
        // back as soon as it is let, and two that lead in turn send every reply alone.
        let blocked = pool.clock().saturating_sub(called.since) < TURNS_US;
        let runs = self.runs.load(Ordering::Relaxed);
        if !blocked && runs != called.runs {
            return Then::Parks;
        }
        // Or a thread that has come back has let go of it for that job, and looks whether that has blocked. Whoever is
        // called once more does not rely on that.
        let is_let_on =
            || self.let_on.compare_exchange(runs, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if blocked && called.armed && runs & 1 == 1 && is_let_on() {
            return Then::Parks;
        }
        // Taken: the leader was only about to sleep. Park again; it costs nothing to be wrong.
        let Some(work) = self.take() else { return Then::Looks };
        if blocked {
            self.mark(work.now());
        }
        self.lead(work, runner, pool)
    }

    fn mark(&self, now: u64) {
        self.marked_until.store(now + MARK_MS, Ordering::Relaxed);
    }

    /// The baton, if nobody has it or is about to come back for it.
    #[inline]
    fn take(&self) -> Option<TriedGuard<'_, L>> {
        let work = try_lock(&self.held)?;
        (self.waits.load(Ordering::Relaxed) & 1 == 0).then_some(work)
    }

    /// Waits until there may be something to do, and for the interpreter, which another thread may keep for long: the baton
    /// is let go of for that, and taken back.
    #[inline]
    fn wait_for_work<'a, P: Run<L::Job>>(
        &'a self,
        mut work: TriedGuard<'a, L>,
        runner: &P,
        pool: &impl Pool,
    ) -> TriedGuard<'a, L> {
        let waits = self.waits.load(Ordering::Relaxed);
        runner.outside_for_work(|| {
            let over = work.wait();
            self.waits.store(waits + 1, Ordering::Release);
            drop(work);
            // A watchdog that goes to sleep at this very moment looks once more (`Baton::watch_may_sleep`).
            self.wake_watchdog(pool);
            over
        });
        loop {
            if let Some(work) = try_lock(&self.held) {
                self.waits.store(waits + 2, Ordering::Release);
                return work;
            }
            // The watchdog is at it, or a thread that has come back looks whether it is wanted.
            runner.outside(a_moment);
        }
    }

    /// Leads until the baton is lost or the loop ends.
    fn lead<'a, P: Run<L::Job>>(&'a self, mut work: TriedGuard<'a, L>, runner: &P, pool: &impl Pool) -> Then {
        self.now_leading(&mut work, None);
        loop {
            if self.inbox.is_full() {
                self.empty_inbox(&mut work);
            }
            let job = match work.next() {
                Next::Ready(job) => job,
                // The word that somebody has come back may have been read with what was ready: nothing else tells of it.
                Next::Quiet if self.inbox.is_full() => continue,
                Next::Quiet => {
                    work = self.wait_for_work(work, runner, pool);
                    continue;
                }
                Next::Ended => {
                    self.end();
                    return Then::Looks;
                }
            };
            if work.now() < self.marked_until.load(Ordering::Relaxed) {
                self.arm(pool);
            }
            match self.do_job(work, job, runner, pool) {
                Ok(again) => work = again,
                Err(then) => return then,
            }
        }
    }

    /// Does one job without the baton, and takes it back. Otherwise the baton was taken meanwhile, and the job is in the
    /// inbox.
    ///
    /// Where it was taken, and is free again, another thread is in a job that was begun later: either that has blocked, or
    /// this thread has had the interpreter because its turn came, and has interrupted it. Who leads then keeps the other
    /// from ending what takes no time; in a crowd of such threads each goes on for a turn and interrupts the next. So
    /// the other is let on: it leads again when it has ended, and this thread looks a moment later whether it has not.
    // Always: a job is some hundred bytes, which a call of its own would copy once more.
    #[inline(always)]
    fn do_job<'a, P: Run<L::Job>>(
        &'a self,
        work: TriedGuard<'a, L>,
        mut job: L::Job,
        runner: &P,
        pool: &impl Pool,
    ) -> Result<TriedGuard<'a, L>, Then> {
        let mine = self.now_running(pool);
        runner.begins();
        drop(work);
        runner.run(&mut job);
        let runs = self.runs.load(Ordering::Relaxed);
        let lets_on = runs != mine && runs & 1 == 1 && runner.is_short(&job);
        let back = if lets_on { None } else { self.take() };
        let Some(mut work) = back else {
            return Err(self.is_late(job, lets_on.then_some(runs), runner, pool));
        };
        runner.is_back();
        self.now_leading(&mut work, Some(mine));
        work.take_back(job);
        Ok(work)
    }

    /// A thread has come back and does not lead: its job is left to whoever does. `lets_on`: to the one in that run.
    #[cold]
    fn is_late<P: Run<L::Job>>(
        &self,
        mut job: L::Job,
        lets_on: Option<u64>,
        runner: &P,
        pool: &impl Pool,
    ) -> Then {
        if let Some(run) = lets_on {
            self.let_on.store(run, Ordering::Relaxed);
        }
        runner.late(&mut job);
        self.leave(job, pool);
        lets_on.map_or(Then::Looks, Then::LetsOn)
    }

    /// This thread leads, and comes from the run of that count, if from any. Where the one that
    /// led last is still in another, nobody waits for that one any more.
    #[inline]
    fn now_leading(&self, work: &mut TriedGuard<'_, L>, mine: Option<u64>) {
        let runs = self.runs.load(Ordering::Relaxed);
        // Only the holder of the baton writes, so that load and store need not be one.
        self.runs.store(runs + (runs & 1), Ordering::Release);
        if runs & 1 == 1 && mine != Some(runs) {
            work.relieved();
        }
    }

    /// This thread is about to let go of the baton for a job: the count of its run.
    #[inline]
    fn now_running(&self, pool: &impl Pool) -> u64 {
        let mine = self.runs.load(Ordering::Relaxed) | 1;
        // One order with the watchdog's own store and load: either it sees that a job has
        // begun, or this thread sees that it sleeps.
        self.runs.swap(mine, Ordering::SeqCst);
        one_order();
        self.wake_watchdog(pool);
        mine
    }

    #[inline]
    fn wake_watchdog(&self, pool: &impl Pool) {
        if self.watch_sleeps.load(Ordering::SeqCst) && self.watch_sleeps.swap(false, Ordering::SeqCst) {
            pool.wake_watchdog();
        }
    }

    /// Keeps one spare waiting for the interpreter.
    fn arm(&self, pool: &impl Pool) {
        if self.armed.load(Ordering::Relaxed) {
            return;
        }
        if self.spares.parked() == 0 {
            pool.grow();
        } else {
            self.call_spare();
        }
    }

    /// Calls one spare, unless one is on its way already. False: there was none.
    fn call_spare(&self) -> bool {
        if self.armed.swap(true, Ordering::AcqRel) {
            return true;
        }
        let called = self.spares.call();
        if !called {
            self.armed.store(false, Ordering::Release);
        }
        called
    }

    /// A late thread's finished job: somebody else leads, and shall take it back.
    fn leave(&self, job: L::Job, pool: &impl Pool) {
        if self.ended() {
            return;
        }
        // Whoever watches a thread come back after a long time tells that it has.
        self.wake_watchdog(pool);
        if self.inbox.put(job) {
            (self.wake)();
        }
    }

    fn empty_inbox(&self, work: &mut TriedGuard<'_, L>) {
        for job in self.inbox.take() {
            work.take_back(job);
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.spares.end();
    }

    /// True when the loop has ended and every thread is on its way out.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Drives the loop from outside (an event loop that polls its descriptor): does every job
    /// that is ready on this thread, at most `most`, and returns how many. Without `most`
    /// jobs to do it returns at once.
    pub fn turn<P: Run<L::Job>>(&self, runner: &P, pool: &impl Pool, most: usize) -> Option<usize> {
        let mut work = self.take()?;
        self.now_leading(&mut work, None);
        for done in 0..most {
            self.empty_inbox(&mut work);
            match work.next() {
                Next::Ready(job) => match self.do_job(work, job, runner, pool) {
                    Ok(again) => work = again,
                    Err(_) => return Some(done + 1),
                },
                Next::Quiet if self.inbox.is_full() => {}
                Next::Quiet => return Some(done),
                Next::Ended => {
                    self.end();
                    return Some(done);
                }
            }
        }
        Some(most)
    }

    /// One of the threads that are parked ends its life.
    pub fn dismiss(&self) {
        self.spares.dismiss();
    }

    /// How many threads are parked.
    pub fn parked(&self) -> usize {
        self.spares.parked()
    }
}

/// What the baton asks of those who own the threads.
pub trait Pool {
    /// A spare is wanted and none is parked: start one, if the maximum allows.
    fn grow(&self);
    /// The watchdog sleeps, and a job has begun.
    fn wake_watchdog(&self);
    /// Monotonic microseconds.
    fn clock(&self) -> u64;
    /// Waits as long as a thread takes to go on that has been let.
    fn moment(&self) {
        a_moment();
    }
}
