//! What the loop, its threads and its users share: settings, numbers, the word to stop.
//!
//! Knows: no connection and no request. Any thread reads it; nothing in it is locked on the
//! way of a request.

mod computing;
mod config;
mod descriptors;
mod lined_up;
mod shown;
mod strained;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use reactor::Waker;
use reactor::sys::forks;

use crate::blockers::Blockers;
use crate::budget::Budget;
use crate::counters::Counters;
use crate::disk::DiskThreads;
use crate::given_back::GivenBack;
use crate::in_flight::InFlight;
use crate::listener::Listener;
use crate::log::Log;
use crate::report;
use crate::request_deadlines::{RequestDeadlines, Telling};
use crate::rows::{LATELY_MS, queued, strained};
use crate::scoreboard::Field;
use crate::sent_file::ColdReads;
use crate::slow_requests::SlowRequests;
use crate::spool::Spool;
use crate::statistics::layout;
use crate::statistics::slots::Stepping;
use crate::strain::STRAIN_MS;
use crate::tls::Porch;
use crate::turned_away::TurnedAway;
use crate::visits::Visits;

use self::computing::Computing;
pub use self::config::{AutoThreads, Config, LOCAL, QUIET_LOOKS};
pub use self::lined_up::LinedUp;

/// Who sees the traceback of an application that has failed, beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracebacks {
    Never,
    /// Clients on this machine.
    Local,
    Always,
}

/// Who gets `Server-Timing`: it tells strangers how much work they cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTiming {
    Off,
    /// Peers whose forwarding headers are believed.
    Trusted,
    All,
}

/// How far the engine is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    Serving = 0,
    /// Others go on: accept nothing, finish what runs, answer idle connections once more.
    Retiring = 1,
    /// Nobody goes on: finish what runs, take nothing new.
    Draining = 2,
    /// Cut everything.
    Aborting = 3,
}

/// Whether one thread keeps the interpreter for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Held {
    No = 0,
    /// From all that were called to lead.
    FromSpares = 1,
    /// From the one that leads and has something to do, or from an event loop.
    FromLeader = 2,
}

/// One engine: shared by its loop, its threads and its owner.
pub struct Engine {
    pub config: Config,
    pub counters: Counters,
    pub waker: Arc<Waker>,
    /// Where bodies go that are too large for memory, and how much all of them hold.
    pub spool: Arc<Spool>,
    /// Threads that look into files where that may wait for a disk.
    pub disk: Arc<DiskThreads>,
    /// Connections of many streams that shall be looked at.
    pub visits: Arc<Visits>,
    /// What those read for connections that are sent files.
    pub cold_reads: Arc<ColdReads>,
    /// Where TLS handshakes take place, if there are any.
    pub porch: Option<Arc<Porch>>,
    pub log: Log,
    pub deadlines: RequestDeadlines,
    /// Those that take long.
    pub slow: Arc<SlowRequests>,
    /// What is kept for slow readers.
    pub budget: Arc<Budget>,
    stage: AtomicU8,
    /// Connections go on after a reply, where nothing else speaks against it.
    keeps_connections: AtomicBool,
    /// A thread holds up the others until then, or did, as far as is known: just now, ...
    burns_until: AtomicU64,
    /// ... for some time, ...
    strained_until: AtomicU64,
    /// ... and for longer than is usual.
    stuck_until: AtomicU64,
    /// The same, as a thread has kept the interpreter from all others.
    after_held_until: AtomicU64,
    /// Until then those who have held up the event loop are expected to come again with new connections.
    draws_until: AtomicU64,
    /// How many of their connections have ended since none were.
    ended: AtomicU64,
    /// Until when there is taken to be no file descriptor for another connection.
    crowded_until: AtomicU64,
    /// One thread keeps the interpreter, and those that were called cannot have it.
    held: AtomicU8,
    /// Threads inside the application.
    pub(crate) inside: InFlight,
    /// How many may be.
    threads: AtomicU32,
    /// Requests that compute, as others of their routes have.
    pub(crate) computing: Computing,
    queued: AtomicU32,
    /// Of those that wait, these wait as many of their route are inside as may be.
    limited: AtomicU32,
    pub(crate) lined_up: LinedUp,
    turned_away: TurnedAway,
    max_requests_told: AtomicBool,
    given_back: GivenBack,
    /// Which process it serves in (`reactor::sys::forks`).
    born: u32,
    /// How often listeners shall be looked at whether or not the kernel has told of them.
    rechecks: AtomicU64,
    /// When the leader has had the interpreter again, in monotonic nanoseconds.
    leader_back: AtomicU64,
    /// For who looks from outside.
    pub stepping: Stepping,
    /// Requests whose steps hold up all others.
    pub(crate) blockers: Blockers,
    /// A load balancer or a web server may say beside a request's head by which scheme it came.
    pub(crate) scheme_comes_beside: bool,
    /// How many refusals of what was no request have been given a name of ours.
    pub(crate) refusals: AtomicU64,
}

impl Engine {
    pub fn new(config: Config, waker: Arc<Waker>, log: Log, slow: Arc<SlowRequests>) -> Self {
        let stepping = Stepping::new(config.statistics, config.stepwise);
        let disk = DiskThreads::new("forehand-disk", config.limits.disk_threads);
        let counters = Counters::new(
            config
                .statistics
                .map(|words| &words[layout::COUNTERS..layout::COUNTERS + layout::COUNTERS_COUNT]),
        );
        for log in [Some(&log), config.access.as_ref().map(|access| &access.log)].into_iter().flatten() {
            log.count(&counters);
        }
        Self {
            deadlines: RequestDeadlines::new(config.request_timeouts.clone()),
            slow,
            cold_reads: ColdReads::new(Arc::clone(&disk), Arc::clone(&waker)),
            visits: Visits::new(Arc::clone(&waker)),
            disk,
            budget: Budget::new(config.limits.kept_bytes),
            counters,
            computing: Computing::default(),
            threads: AtomicU32::new(config.threads),
            lined_up: LinedUp::default(),
            turned_away: TurnedAway::default(),
            config,
            spool: Spool::new(),
            waker,
            porch: None,
            log,
            stage: AtomicU8::new(Stage::Serving as u8),
            keeps_connections: AtomicBool::new(true),
            burns_until: AtomicU64::new(0),
            strained_until: AtomicU64::new(0),
            stuck_until: AtomicU64::new(0),
            after_held_until: AtomicU64::new(0),
            draws_until: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            crowded_until: AtomicU64::new(0),
            held: AtomicU8::new(Held::No as u8),
            inside: InFlight::default(),
            queued: AtomicU32::new(0),
            limited: AtomicU32::new(0),
            max_requests_told: AtomicBool::new(false),
            given_back: GivenBack::new(),
            born: forks(),
            rechecks: AtomicU64::new(0),
            leader_back: AtomicU64::new(0),
            stepping,
            blockers: Blockers::default(),
            scheme_comes_beside: false,
            refusals: AtomicU64::new(0),
        }
    }

    /// What follows from its listeners: room for TLS handshakes, where one wants them.
    ///
    /// # Errors
    /// The kernel's; and one that says that there is no certificate.
    pub(crate) fn serves_on(&mut self, listeners: &[Listener]) -> io::Result<()> {
        let is_told = |one: &Listener| one.kind.protocol.speaks_for_others();
        self.scheme_comes_beside = self.config.proxy_tls || listeners.iter().any(is_told);
        if !listeners.iter().any(|one| one.kind.tls) {
            return Ok(());
        }
        let none = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "an address speaks HTTPS, and there is no certificate",
            )
        };
        let material = self.config.tls.take().ok_or_else(none)?;
        let kinds: Vec<_> = listeners.iter().map(|one| one.kind).collect();
        self.porch = Some(Porch::new(&material, &kinds, &self.config.limits, Arc::clone(&self.waker))?);
        Ok(())
    }

    /// Every counter by its name.
    pub fn counted(&self) -> Vec<(String, u64)> {
        self.counters.read()
    }

    /// Threads inside the application.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.inside.count()
    }

    /// How many threads may be inside the application at a time.
    #[inline]
    pub fn threads(&self) -> u32 {
        self.threads.load(Ordering::Relaxed)
    }

    /// So many from now on.
    pub(crate) fn set_threads(&self, threads: u32) {
        self.threads.store(threads, Ordering::Relaxed);
    }

    /// How many requests wait to be begun.
    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    /// How many of them would be begun if there were more threads.
    pub(crate) fn short_of_threads(&self) -> u32 {
        self.queued().saturating_sub(self.limited.load(Ordering::Relaxed))
    }

    /// So many requests wait to be begun, so many of them for others of their route and not for a thread.
    pub(crate) fn note_queued(&self, count: usize, limited: usize) {
        self.queued.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.limited.store(u32::try_from(limited).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn shown_queue(&self) -> u64 {
        queued(self.queued(), self.limited.load(Ordering::Relaxed))
    }

    /// Says something to the supervisor, if there is one: a word, and a text to its end.
    pub fn report(&self, line: &str) {
        if let Some(report) = self.config.report.as_ref() {
            report::tell(report, line);
        }
    }

    /// Answers requests whose deadlines have come. `now` in monotonic milliseconds.
    pub(crate) fn answer_overdue(&self, now: u64) {
        if now < self.deadlines.next() {
            return;
        }
        let telling = Telling {
            server_header: &self.config.server_header,
            request_id: self.config.request_id.as_ref(),
            counters: &self.counters,
            log: &self.log,
        };
        let grace = self.config.limits.request_timeout_grace;
        for line in self.deadlines.look(&telling, grace, self.is_bad_moment_to_be_replaced(now), now) {
            self.report(&line);
        }
    }

    /// Nothing waits here any more but connections, so many, and so many requests that none of the threads that are
    /// left is for, so many of them as others of their route are inside: the watchdog, which shows numbers, sleeps
    /// through what is no request, and knows of a queue only while threads are missing.
    #[inline]
    pub(crate) fn show_rest(&self, connections: usize, (lined_up, limited): (usize, usize)) {
        let changed = self.queued() as usize != lined_up;
        if changed {
            self.note_queued(lined_up, limited);
        }
        let Some(scoreboard) = &self.config.scoreboard else { return };
        scoreboard.set(Field::Connections, connections as u64);
        if changed {
            scoreboard.set(Field::Queued, self.shown_queue());
        }
    }

    /// Has the listeners looked at: a connection may wait for a worker that is no more.
    pub fn recheck_listeners(&self) {
        self.rechecks.fetch_add(1, Ordering::Relaxed);
        self.waker.wake();
    }

    /// The leader has the interpreter again, since then. Only it says so.
    #[inline]
    pub(crate) fn leader_is_back(&self, at: u64) {
        self.leader_back.store(at, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn leader_back(&self) -> u64 {
        self.leader_back.load(Ordering::Relaxed)
    }

    pub(crate) fn rechecks(&self) -> u64 {
        self.rechecks.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections_accepted.get().saturating_sub(self.counters.connections_closed.get())
    }

    /// No file descriptor was left for a connection: none is expected until then.
    pub(crate) fn crowded_until(&self, until: u64) {
        self.crowded_until.store(until, Ordering::Relaxed);
    }

    /// True while another connection would cost one of those that are open.
    pub(crate) fn is_crowded(&self, now: u64) -> bool {
        self.connections() >= self.config.limits.connections
            || self.crowded_until.load(Ordering::Relaxed) > now
    }

    /// One thread keeps the interpreter, or does not any more. Said by the watchdog, and by whoever
    /// leads.
    #[inline]
    pub(crate) fn held(&self, held: Held) {
        if self.held.load(Ordering::Relaxed) != held as u8 {
            if held == Held::No {
                // That was longer than a strain takes, and who else has waited may not have told.
                let until = reactor::sys::monotonic_ms() + STRAIN_MS;
                self.after_held_until.store(until, Ordering::Relaxed);
                if let Some(scoreboard) = self.config.scoreboard.as_ref().filter(|_| self.config.stepwise) {
                    // It has shown nothing for as long as it was held, and runs.
                    scoreboard.set(Field::Updated, reactor::sys::monotonic_ms());
                }
            }
            self.held.store(held as u8, Ordering::Relaxed);
            self.show_level();
        }
    }

    /// A connection has ended, or does now, whose requests have held up the event loop: whoever had it comes again with another one, which
    /// this worker takes rather than one that serves those it has given away. Said by the loop.
    #[cold]
    pub(crate) fn draws_newcomers(&self, now: u64, has_ended: bool) {
        let ended = (self.draws(now) + u64::from(has_ended)).max(1);
        self.ended.store(ended, Ordering::Relaxed);
        self.draws_until.store(now + LATELY_MS, Ordering::Relaxed);
        self.held(Held::No);
        if let Some(scoreboard) = &self.config.scoreboard {
            scoreboard.set(Field::Strained, strained(false, ended));
            self.show_level();
        }
    }

    /// Newcomers are better off elsewhere, for this worker has sent some away to come again.
    #[cold]
    pub(crate) fn draws_nobody(&self) {
        self.draws_until.store(0, Ordering::Relaxed);
    }

    /// How many connections have ended of those who are expected to come again; zero: nobody is.
    pub(crate) fn draws(&self, now: u64) -> u64 {
        match self.draws_until.load(Ordering::Relaxed) > now {
            true => self.ended.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// The event loop is about to end the reply to the request in that slot, and its connection, or not: if something has held up the
    /// loop, others hear of that before the client does, which may come again at once.
    #[inline]
    pub(crate) fn loop_goes_on(&self, slot: u16, keeps: bool) {
        if !keeps && self.blockers.has(slot) {
            self.draws_newcomers(reactor::sys::monotonic_ms(), false);
        } else if self.config.stepwise && self.is_held() {
            self.held(Held::No);
        }
    }

    /// True while no thread can have the interpreter.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != Held::No as u8
    }

    /// The same, and whoever leads has found something to do with it: also where a thread of the application's keeps it
    /// and no request is inside.
    pub(crate) fn is_held_from_leader(&self) -> bool {
        self.held.load(Ordering::Relaxed) == Held::FromLeader as u8
    }

    /// Where the engine is between serving and gone.
    #[inline]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Serving,
            1 => Stage::Retiring,
            2 => Stage::Draining,
            _ => Stage::Aborting,
        }
    }

    /// False: each reply is the last of its connection.
    #[inline]
    pub fn keeps_connections(&self) -> bool {
        self.keeps_connections.load(Ordering::Relaxed)
    }

    /// The end will come: everybody is answered as before, and told with the reply to come back elsewhere.
    pub fn announce_end(&self) {
        self.keeps_connections.store(false, Ordering::Relaxed);
    }

    /// Goes on to a stage in which nothing new is taken.
    fn leave_for(&self, stage: Stage) {
        self.announce_end();
        self.stage.fetch_max(stage as u8, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Lets others go on: accepts nothing more, finishes what runs, and answers connections
    /// that are idle once more if they come back in time (limit `drain_keep_alive`).
    pub fn retire(&self) {
        self.leave_for(Stage::Retiring);
    }

    /// Begins a graceful stop: what runs is finished, nothing new is taken.
    pub fn drain(&self) {
        self.leave_for(Stage::Draining);
    }

    /// Ends at once: connections are cut, late threads are not waited for.
    pub fn abort(&self) {
        self.leave_for(Stage::Aborting);
    }
}
