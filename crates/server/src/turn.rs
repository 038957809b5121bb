//! The loop: what happened, whose it is, and the next request to be answered.
//!
//! Knows: everything below it, and stays short because each part has its own file: `accept.rs`
//! (new connections), `progress.rs` (what one connection does next), `expiry.rs` (what is due,
//! and the end). Runs on the thread that holds the baton.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use reactor::sys::{ListenerFd, monotonic_ms};
use reactor::{Happening, Reactor};
use wire::{Millis, Shared};

use crate::accept::Listeners;
use crate::allowance::Allowance;
use crate::batch::Batch;
use crate::baton::{Lead, Next};
use crate::engine::{Config, Engine, Stage};
use crate::exchange::Exchange;
use crate::log::Log;
use crate::output::Carry;
use crate::queue::Pace;
use crate::room::Idlest;
use crate::slots::{BELL, LISTENER, NEVER, Place, Roused, Slots};
use crate::storing::{Stored, Storing};

/// How many connections are accepted between two looks at those that are there.
const ACCEPTS_A_LOOK: u32 = 64;

/// From so many happenings at once on, more are expected at once.
const BRISK: usize = 4;

/// One loop. See [`Lead`] for its verbs.
pub struct Loop {
    pub(crate) reactor: Reactor,
    pub(crate) engine: Arc<Engine>,
    /// Head cache, limits and policy: what the machines share.
    pub(crate) shared: Shared,
    pub(crate) slots: Slots,
    pub(crate) listeners: Listeners,
    pub(crate) now: Millis,
    /// Finished exchanges that have not been looked at.
    homecoming: VecDeque<Exchange>,
    /// Connections whose bodies are being written.
    pub(crate) storing: Storing,
    /// Connections whose bodies have been written meanwhile.
    stored: VecDeque<Stored>,
    /// Requests that nobody has begun, and replies of the same batch that have not been sent.
    pub(crate) batch: Batch,
    /// What may be done before the next look.
    pub(crate) allowance: Allowance,
    /// Replies that wait for the exchange that was taken out last.
    pub(crate) hostage: Option<Arc<Carry>>,
    /// No deadline in the table is earlier.
    pub(crate) due: Millis,
    /// When the graceful stop ends; none: it has not begun.
    pub(crate) stop_at: Option<Millis>,
    /// How far the stop has come that this loop knows of.
    pub(crate) stopping: Stage,
    /// Until when idle connections may come back while it lasts.
    pub(crate) idle_until: Millis,
    /// How busy this worker was when it last decided whether to watch the listeners.
    pub(crate) level: u64,
    /// Idle connections are better off with another worker.
    pub(crate) gives_away: bool,
    /// Since when every thread is inside the application.
    pub(crate) full_since: Millis,
    /// Before then no connection is given away again, as nobody has taken the last ones.
    pub(crate) gives_again_at: Millis,
    /// Who makes room for another connection.
    pub(crate) idlest: Idlest,
    /// When connections that nobody has taken are looked for, while others watch the listeners.
    pub(crate) neglected_at: Millis,
    pub(crate) pace: Pace,
    kicks: u64,
    accepts: u32,
    /// For a driver that keeps exchanges for long: connections that are away and have an edge.
    pub(crate) roused: Option<Vec<Roused>>,
    /// The last look found much: another one without waiting is worth its system call, and
    /// so is another accept. Where little happens at a time both would mostly find nothing.
    pub(crate) brisk: bool,
}

impl Loop {
    /// A loop over listeners that somebody else keeps open.
    ///
    /// # Errors
    /// The kernel's, when a descriptor cannot be had or watched.
    pub fn new(config: Config, log: Log, listeners: Vec<ListenerFd>) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let shared = Shared::new(config.limits.clone(), config.policy.clone());
        let shared_listeners = config.shared_listeners;
        if let Some(board) = &config.board {
            reactor.watch_bell(board.bell(), BELL)?;
        }
        let engine = Arc::new(Engine::new(config, reactor.waker(), log));
        let listeners = Listeners::new(listeners, engine.config.handoff.clone(), shared_listeners);
        listeners.watch(&reactor)?;
        let storing = Storing::new(Arc::clone(&engine.spool), Arc::clone(&engine.waker));
        Ok(Self {
            reactor,
            engine,
            shared,
            slots: Slots::default(),
            listeners,
            now: monotonic_ms(),
            homecoming: VecDeque::new(),
            storing,
            stored: VecDeque::new(),
            batch: Batch::default(),
            allowance: Allowance::default(),
            hostage: None,
            due: NEVER,
            stop_at: None,
            stopping: Stage::Serving,
            idle_until: NEVER,
            level: 0,
            gives_away: false,
            full_since: NEVER,
            gives_again_at: 0,
            idlest: Idlest::default(),
            neglected_at: NEVER,
            pace: Pace::default(),
            kicks: 0,
            accepts: 0,
            roused: None,
            brisk: false,
        })
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The descriptor to poll, for a driver with an event loop of its own.
    pub fn fileno(&self) -> i32 {
        self.reactor.fileno()
    }

    /// One thing that happened; a request, if that completed one.
    #[inline]
    pub(crate) fn look_at(&mut self, happening: Happening) -> Option<Exchange> {
        match happening {
            Happening::Edge { token: BELL, .. } => {
                self.hear_the_bell();
                None
            }
            Happening::Edge { token, .. } if token & LISTENER != 0 => {
                self.listeners.ready(token);
                None
            }
            Happening::Edge { token, readable, hung_up, .. } => self.edge(token, readable, hung_up),
            Happening::Woken => {
                self.stored.extend(self.storing.take());
                if self.engine.stage() != Stage::Serving {
                    self.begin_stop();
                }
                if self.kicks != self.engine.kicks()
                    && self.listeners.are_watched()
                    && self.listeners.is_open()
                {
                    self.kicks = self.engine.kicks();
                    self.listeners.all_ready();
                }
                None
            }
            Happening::Due => {
                self.expire();
                None
            }
        }
    }

    /// An edge belongs to a connection that is home, or is remembered for one that is away,
    /// or comes too late for one that is gone.
    #[inline]
    fn edge(&mut self, token: u64, readable: bool, hung_up: bool) -> Option<Exchange> {
        let connection = self.slots.lift(token);
        let Some(mut connection) = connection else {
            if let Some(row) = self.slots.get(token)
                && let Place::Away { missed, hung_up: ended } = &mut row.place
            {
                *missed |= readable;
                *ended |= hung_up;
                if let Some(roused) = &mut self.roused {
                    roused.push(Roused { token, hung_up });
                }
            }
            return None;
        };
        connection.note_edge(readable, hung_up);
        self.progress(connection)
    }

    /// Reads what has arrived, up to a batch. True: there is something to answer.
    fn gather(&mut self) -> bool {
        while !self.batch.is_full() {
            let Some(happening) = self.reactor.take_next() else { break };
            if let Some(exchange) = self.look_at(happening) {
                self.batch.add(exchange);
            }
        }
        !self.batch.is_empty()
    }

    /// Remembers whose earlier replies wait for the exchange that is about to be played.
    #[inline]
    fn note_hostage(&mut self, exchange: &Exchange) {
        if let Some(carry) = exchange.carry_that_waits() {
            self.hostage = Some(Arc::clone(carry));
        }
    }

    /// A finished exchange comes home.
    #[inline]
    pub(crate) fn settle(&mut self, exchange: Exchange) -> Option<Exchange> {
        let (mut connection, parcel) = exchange.hand_back(&self.engine);
        self.slots.catch_up(&mut connection);
        connection.machine.answered(self.now);
        self.pace.count();
        match parcel {
            Some(parcel) => self.batch.keep(connection, parcel),
            None => return self.progress(connection),
        }
        None
    }

    /// Settles one finished exchange, or takes up one connection whose body was written, and
    /// says what the connection has next.
    pub(crate) fn take_homecoming(&mut self) -> Option<Option<Exchange>> {
        match self.homecoming.pop_front() {
            Some(exchange) => Some(self.settle(exchange)),
            None => self.stored.pop_front().map(|stored| self.take_up(stored)),
        }
    }

    /// An exchange that was answered here comes home.
    pub(crate) fn come_home(&mut self, exchange: Exchange) {
        self.homecoming.push_back(exchange);
    }

    /// Goes on with the next connection whose socket holds more. False: there is none, or
    /// others come first.
    fn go_on(&mut self) -> bool {
        if !self.allowance.visit() {
            return false;
        }
        match self.slots.next_resumed() {
            Some(Some(connection)) => {
                if let Some(next) = self.progress(connection) {
                    self.batch.add(next);
                }
                true
            }
            Some(None) => true,
            None => false,
        }
    }

    /// Looks without waiting. True: something happened.
    pub(crate) fn look(&mut self) -> bool {
        let found = self.reactor.poll(false).unwrap_or_else(|_| self.engine.cannot_poll());
        self.has_looked(found);
        found > 0
    }

    #[inline]
    fn has_looked(&mut self, found: usize) {
        self.engine.counters.looks.add_alone();
        self.accepts = 0;
        self.now = monotonic_ms();
        self.brisk = found >= BRISK;
        self.allowance.renew(self.slots.resuming());
    }

    /// Many requests were begun since the last look, and more of the same connections wait:
    /// whoever else has said something comes in between, and what is answered is sent.
    #[cold]
    fn look_at_everybody(&mut self) {
        if self.batch.has_replies() {
            self.send_batch();
        }
        // What the last look found is told once: it comes before another look.
        self.read_events();
        self.look();
        self.read_events();
        while self.listeners.any_ready() && self.accepts < ACCEPTS_A_LOOK && !self.leaves_it_to_another() {
            self.accepts += 1;
            if let Some(next) = self.accept_one() {
                self.batch.add(next);
            }
        }
        while self.go_on() {}
        self.batch.begin();
    }

    /// Goes through all that the last look found.
    fn read_events(&mut self) {
        while let Some(happening) = self.reactor.take_next() {
            if let Some(exchange) = self.look_at(happening) {
                self.batch.add(exchange);
            }
        }
    }
}

impl Lead for Loop {
    type Job = Exchange;

    fn next(&mut self) -> Next<Exchange> {
        loop {
            if let Some(exchange) = self.homecoming.pop_front() {
                if let Some(next) = self.settle(exchange) {
                    self.batch.add(next);
                }
            } else if let Some(stored) = self.stored.pop_front() {
                if let Some(next) = self.take_up(stored) {
                    self.batch.add(next);
                }
            } else if self.allowance.is_spent() && !self.batch.is_empty() {
                self.look_at_everybody();
            } else if let Some(mut next) = self.batch.take() {
                self.allowance.count_request();
                if self.batch.is_wary() {
                    self.now = monotonic_ms();
                    match self.worth_beginning(next) {
                        Some(worth) => next = worth,
                        None => continue,
                    }
                }
                if next.is_for_the_server() {
                    next.answer_options(&self.engine);
                    self.homecoming.push_back(next);
                    continue;
                }
                self.note_hostage(&next);
                return Next::Ready(next);
            } else if self.batch.has_replies() {
                self.send_batch();
            } else if self.gather() {
                self.batch.begin();
            } else if !self.stored.is_empty() {
                // That was the news; they are taken up above.
            } else if self.is_over() {
                return Next::Ended;
            } else if self.listeners.any_ready() && self.leaves_it_to_another() {
                // Nothing is ready any more.
            } else if self.accepts < ACCEPTS_A_LOOK && self.listeners.any_ready() {
                self.accepts += 1;
                if let Some(next) = self.accept_one() {
                    self.batch.add(next);
                }
            } else if self.go_on() {
                // Whether that yielded a request is seen above.
            } else if self.listeners.any_ready() || self.slots.resuming() > 0 {
                // As much was accepted, read or sent as one look allows: those that are there
                // come next, then more of these. What else an event loop does comes in between,
                // and threads that wait for the interpreter.
                return Next::Quiet;
            } else if !(self.brisk && self.look()) {
                return Next::Quiet;
            }
        }
    }

    fn wait(&mut self) {
        // Whoever leads has had the interpreter.
        self.engine.held(false);
        self.heed();
        self.engine.show_rest(self.slots.len());
        let nothing_left = !self.listeners.any_ready() && self.slots.resuming() == 0;
        let found = self.reactor.poll(nothing_left).unwrap_or_else(|_| self.engine.cannot_poll());
        self.has_looked(found);
    }

    #[inline]
    fn home(&mut self, exchange: Exchange) {
        // Whoever was waited for is back. Kept longer, it would keep a closed socket open.
        self.hostage = None;
        self.homecoming.push_back(exchange);
    }

    fn relieved(&mut self) {
        if let Some(carry) = self.hostage.take() {
            // An error shows again when the connection comes home.
            let _ = carry.send();
        }
        self.batch.relieve();
    }

    fn tend(&mut self) -> bool {
        self.keep_house()
    }

    fn now(&self) -> u64 {
        self.now
    }
}
