//! The loop: what happened, whose it is, and the next request to be answered.
//!
//! Knows: its parts, each of which owns its state: `poller.rs` (what happened, and when), `connections.rs` (those that
//! are there), `accept.rs` (those that come), `requests.rs` (what is to be answered). Does not know: what any of them
//! does. Runs on the thread that holds the baton.

mod computing;
mod housekeeping;

use std::io;
use std::sync::Arc;

use reactor::Event;
use wire::Millis;

use crate::accept::Acceptor;
use crate::arrivals::welcome;
use crate::baton::{Lead, Next};
use crate::connections::Connections;
use crate::engine::{Config, Engine, Held, Stage};
use crate::exchange::Exchange;
use crate::heartbeat::Heartbeat;
use crate::listener::Listener;
use crate::listeners::Listeners;
use crate::log::Log;
use crate::poller::Poller;
use crate::requests::Requests;
use crate::slots::{LISTENER, NEVER, NOTIFIER, Wakeup};

/// How many connections are accepted between two looks at those that are there.
const ACCEPTS_A_LOOK: u32 = 64;

/// One loop. See [`Lead`] for its verbs.
pub struct Loop {
    engine: Arc<Engine>,
    poller: Poller,
    connections: Connections,
    acceptor: Acceptor,
    requests: Requests,
    /// Connections that were accepted since the last look.
    accepts: u32,
    /// Another thread has something for this loop, or for whoever leads it.
    woken: bool,
    /// What was in flight at its end is counted: whoever leads may see that after the watchdog.
    cut: bool,
}

impl Loop {
    /// A loop over listeners that somebody else keeps open.
    ///
    /// # Errors
    /// The kernel's, when a descriptor cannot be had or watched.
    pub fn new(config: Config, log: Log, listeners: Vec<Listener>) -> io::Result<Self> {
        let poller = Poller::new(&config, &log)?;
        let shared_listeners = config.shared_listeners;
        if let Some(scoreboard) = &config.scoreboard {
            poller.reactor.watch_doorbell(scoreboard.notifier(), NOTIFIER)?;
        }
        let slow = poller.statistics.slow();
        let mut engine = Engine::new(config, poller.reactor.waker(), log, slow);
        engine.serves_on(&listeners)?;
        let engine = Arc::new(engine);
        let listeners = Listeners::new(
            listeners,
            engine.config.handoff.clone(),
            engine.config.apart.clone(),
            shared_listeners,
        );
        listeners.watch(&poller.reactor)?;
        Ok(Self {
            connections: Connections::new(Arc::clone(&engine)),
            acceptor: Acceptor::new(Arc::clone(&engine), listeners),
            requests: Requests::new(Arc::clone(&engine))?,
            poller,
            engine,
            accepts: 0,
            woken: false,
            cut: false,
        })
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The descriptor to poll, for a driver with an event loop of its own.
    pub fn fileno(&self) -> i32 {
        self.poller.reactor.fileno()
    }

    /// One thing that happened; a request, if that completed one.
    #[inline]
    fn look_at(&mut self, event: Event) -> Option<Box<Exchange>> {
        match event {
            Event::Edge { token: NOTIFIER, .. } => {
                self.acceptor.look_again();
                None
            }
            Event::Edge { token, .. } if token & LISTENER != 0 => {
                self.acceptor.ready(token);
                None
            }
            Event::Edge { token, readable, hung_up, .. } => {
                self.connections.edge(token, readable, hung_up, &mut self.poller)
            }
            Event::Woken => {
                self.woken = true;
                self.connections.fetch_stored();
                self.fetch_what_was_read();
                self.fetch_newcomers();
                self.visit_those_asked_for();
                if self.engine.stage() != Stage::Serving {
                    self.begin_stop();
                }
                self.acceptor.recheck();
                None
            }
            Event::Due => {
                self.expire();
                None
            }
        }
    }

    /// Files that wait to be sent were read from the disk, or looked up there.
    fn fetch_what_was_read(&mut self) {
        for token in self.engine.cold_reads.take() {
            self.engine.counters.cold_reads.add();
            let request = self.connections.go_on(token, &mut self.poller);
            self.requests.add(request);
        }
        self.requests.fetch_files();
        self.requests.fetch_named();
        self.engine.counters.disk_waits.copy(self.engine.disk.waits());
    }

    /// Connections whose TLS handshakes are over.
    fn fetch_newcomers(&mut self) {
        for arrival in self.acceptor.arrivals(&self.poller) {
            let kind = self.acceptor.kind(arrival.guest.listener);
            let request = welcome(arrival, kind, &self.engine, &mut self.connections, &mut self.poller);
            self.requests.add(request);
        }
    }

    /// Other threads have done something with streams of connections.
    fn visit_those_asked_for(&mut self) {
        for token in self.engine.visits.take() {
            let request = self.connections.visit(token, &mut self.poller);
            self.requests.add(request);
        }
    }

    /// Takes requests of streams, whose connections have stayed.
    #[inline]
    fn take_opened(&mut self) {
        while let Some(request) = self.connections.next_opened() {
            self.requests.add(Some(request));
        }
    }

    /// Looks for what is due, in all parts.
    fn expire(&mut self) {
        self.poller.is_due();
        let connections = self.connections.expire(&mut self.poller);
        let next = connections.min(self.acceptor.expire(&mut self.connections, &self.poller));
        if next != NEVER {
            self.poller.wake_by(next);
        }
        self.requests.look_at_lanes(&mut self.poller);
        self.requests.look_at_held(&mut self.poller);
    }

    /// Reads what has arrived, up to a batch. True: there is something to answer.
    fn gather(&mut self) -> bool {
        while !self.requests.is_batch_full() {
            let Some(event) = self.poller.next() else { break };
            let request = self.look_at(event);
            self.requests.add(request);
        }
        self.take_opened();
        self.requests.any_wait()
    }

    /// Goes on with the next connection whose socket holds more. False: there is none, or
    /// others come first.
    fn resume_next(&mut self) -> bool {
        let Some(request) = self.connections.resume_next(&mut self.poller) else { return false };
        self.requests.add(request);
        true
    }

    /// Takes a new connection.
    fn accept(&mut self) {
        self.accepts += 1;
        let request = self.acceptor.accept_one(&mut self.connections, &mut self.poller);
        self.requests.add(request);
    }

    /// Looks without waiting. True: something happened.
    pub(crate) fn look(&mut self) -> bool {
        self.poll(false) > 0
    }

    #[inline]
    fn poll(&mut self, waits: bool) -> usize {
        self.accepts = 0;
        self.poller.poll(waits, self.connections.resuming(), &self.engine)
    }

    /// Many requests were begun since the last look, and more of the same connections wait:
    /// whoever else has said something comes in between, and what is answered is sent.
    #[cold]
    fn look_at_everybody(&mut self) {
        if self.requests.any_replies() {
            self.send_replies();
        }
        let next_requests = self.requests.next_requests();
        // What the last look found is told once: it comes before another look.
        self.read_events();
        self.look();
        self.read_events();
        // One at least, and no more than are answered together: a crowd of which nobody has been answered has
        // no idle connection that could make room.
        while self.acceptor.any_ready()
            && (self.accepts == 0 || self.accepts < ACCEPTS_A_LOOK && !self.requests.is_batch_full())
            && !self.leaves_it_to_another()
        {
            self.accept();
        }
        if next_requests > 0 {
            self.requests.let_others_first(next_requests);
        }
        while self.resume_next() {}
        self.begin_batch();
    }

    /// All requests of a batch are read, and the first of them is begun.
    #[inline]
    fn begin_batch(&mut self) {
        let slow = self.poller.allowance.is_slow();
        self.poller.statistics.note(self.requests.begin_batch(slow, self.poller.now));
    }

    /// Goes through all that the last look found.
    fn read_events(&mut self) {
        while let Some(event) = self.poller.next() {
            let request = self.look_at(event);
            self.requests.add(request);
        }
        self.take_opened();
    }

    fn send_replies(&mut self) {
        self.requests.send_replies(&mut self.connections, &mut self.poller);
    }

    fn leaves_it_to_another(&mut self) -> bool {
        self.acceptor.leaves_it_to_another(&mut self.connections, &mut self.poller)
    }

    /// The word to stop has come.
    fn begin_stop(&mut self) {
        let stage = self.engine.stage();
        if self.connections.begin_stop(stage, &mut self.poller) {
            self.acceptor.begin_stop(stage, &self.poller);
        }
    }

    /// True when there is nothing left to do and nothing will come.
    #[inline]
    fn is_over(&mut self) -> bool {
        self.engine.stage() != Stage::Serving && self.is_over_now()
    }

    #[cold]
    fn is_over_now(&mut self) -> bool {
        if self.engine.stage() == Stage::Aborting {
            return self.cut();
        }
        self.begin_stop();
        let Some(ends_at) = self.connections.shutdown().ends_at() else { return false };
        if self.poller.now >= ends_at {
            return self.cut();
        }
        if self.has_more() {
            return false;
        }
        self.acceptor.close(&self.poller);
        self.connections.is_empty() && !self.acceptor.expects_arrivals()
    }

    fn cut(&mut self) -> bool {
        let left = if std::mem::replace(&mut self.cut, true) { 0 } else { self.connections.in_flight() };
        (0..left).for_each(|_| self.engine.counters.requests_cut.add());
        true
    }

    /// There is more to accept, read or send, of which no edge will tell.
    #[inline]
    fn has_more(&self) -> bool {
        self.acceptor.any_ready() || self.connections.resuming() > 0
    }
}

/// For a driver that keeps exchanges for long (`evented.rs`).
impl Loop {
    /// Exchanges are in flight for as long as their tasks want, and replies wait where the driver's watchdog finds them.
    pub(crate) fn serve_tasks(&mut self, heartbeat: Arc<Heartbeat>) {
        self.poller.statistics.count_at_once();
        self.connections.tell_of_in_flight();
        self.requests.wait_in(heartbeat);
        self.acceptor.serve_tasks();
    }

    /// A turn begins, and so many requests were begun since the last one. Where they took long and the next ones of
    /// their connections wait, whoever has asked meanwhile goes before those. True: it was looked for them.
    #[inline]
    pub(crate) fn looks_first(&mut self, begun: usize) -> bool {
        if self.requests.next_requests() == 0 {
            self.poller.allowance.quiet_turn_begins();
            return false;
        }
        self.poller.allowance.turn_begins(begun);
        let slow = self.poller.allowance.is_slow();
        if slow {
            self.look_at_everybody();
        }
        slow
    }

    /// A request that was given out has been begun: others do not wait for it.
    #[inline]
    pub(crate) fn has_begun(&mut self) {
        self.connections.nobody_is_held_up();
    }

    /// An exchange has been answered. True: something is ready by it, so look soon.
    #[inline]
    pub(crate) fn finish(&mut self, exchange: Box<Exchange>) -> bool {
        let kept = exchange.keeps().then(|| (exchange.token(), None));
        // A task may have held the event loop since the last look: the time that its peer has begins now.
        self.poller.look_at_clock();
        let next = self.requests.finish(exchange, &mut self.connections, &mut self.poller);
        self.requests.add_next(next);
        self.take_opened();
        if let Some(token) = kept {
            self.connections.keep_budget(token, &mut self.poller);
        }
        // Replies of tasks that take one step each, one after the other, are sent together.
        if self.requests.are_replies_due() {
            self.send_replies();
        }
        self.acceptor.note_room(&mut self.connections, &self.poller);
        self.requests.any_wait()
            || self.connections.resuming() > 0
            || self.requests.any_replies()
            || self.connections.shutdown().has_begun()
    }

    /// An application has named a file that the kernel does not have in memory.
    #[cold]
    pub(crate) fn answer_from_disk(&mut self, exchange: Box<Exchange>) {
        self.requests.answer_from_disk(exchange);
    }

    /// There is more of which no edge will tell; `newcomers` says whether connections that wait count.
    pub(crate) fn is_busy(&self, newcomers: bool) -> bool {
        newcomers && (self.acceptor.any_ready() || self.requests.any_left())
            || self.connections.resuming() > 0
    }

    /// How many requests wait to be begun; what is said of them is said anew.
    pub(crate) fn waiting(&mut self) -> usize {
        self.requests.say_who_waits(self.poller.now);
        self.requests.len()
    }

    /// The connections of the loop, and what they are watched and woken with.
    pub(crate) fn connections(&mut self) -> (&mut Connections, &mut Poller) {
        (&mut self.connections, &mut self.poller)
    }

    /// Appends connections that are in flight and shall be looked at.
    pub(crate) fn take_wakeups(&mut self, into: &mut Vec<Wakeup>) {
        self.connections.take_wakeups(into);
    }

    /// Sees to it that the loop looks at deadlines no later than `at`.
    pub(crate) fn wake_by(&mut self, at: Millis) {
        self.poller.wake_by(at);
    }
}

impl Lead for Loop {
    type Job = Box<Exchange>;

    fn next(&mut self) -> Next<Box<Exchange>> {
        loop {
            self.let_one_compute();
            self.take_opened();
            if self.requests.finish_next(&mut self.connections, &mut self.poller) {
                // Whether that yielded a request is seen below.
            } else if self.poller.allowance.is_spent() && self.requests.any_wait() {
                self.look_at_everybody();
            } else if self.requests.any_wait() {
                if self.requests.may_begin(&mut self.poller)
                    && !self.waits_to_compute()
                    && let Some(mut next) = self.requests.take(self.poller.now)
                {
                    self.connections.begins(&next);
                    next.begins(&mut self.poller.statistics, self.engine.leader_back());
                    self.shows_that_it_computes(&next);
                    return Next::Ready(next);
                }
                if self.requests.native_pause() {
                    // What the last look found is told once: it comes before another look.
                    self.read_events();
                    return Next::Quiet;
                }
            } else if self.requests.any_replies() {
                self.send_replies();
            } else if self.gather() {
                self.begin_batch();
            } else if self.connections.any_stored() {
                // That was the news; they are taken up above.
            } else if self.is_over() {
                self.connections.settle_over(&mut self.poller);
                return Next::Ended;
            } else if self.acceptor.any_ready() && self.leaves_it_to_another() {
                // Nothing is ready any more.
            } else if self.accepts < ACCEPTS_A_LOOK && self.acceptor.any_ready() {
                self.accept();
            } else if self.resume_next() {
                // Whether that yielded a request is seen above.
            } else if self.has_more() || !(self.poller.is_brisk() && self.look()) {
                // As much was accepted, read or sent as one look allows: those that are there
                // come next, then more of these. What else an event loop does comes in between,
                // and threads that wait for the interpreter.
                self.acceptor.note_room(&mut self.connections, &self.poller);
                self.connections.settle_over(&mut self.poller);
                return Next::Quiet;
            }
        }
    }

    fn wait(&mut self) -> u64 {
        loop {
            // Whoever leads has had the interpreter, or does not need it.
            self.engine.held(Held::No);
            self.update_listening();
            self.requests.show_rest(self.connections.len(), self.poller.now);
            let nothing_left = !self.has_more() && !self.requests.any_left();
            self.poll(nothing_left);
            if !self.requests.answers_natively() {
                return self.poller.statistics.stamp();
            }
            if self.answer_natively_alone() {
                return 0;
            }
        }
    }

    // Always: it is done for each request.
    #[inline(always)]
    fn take_back(&mut self, mut exchange: Box<Exchange>) {
        self.connections.nobody_is_held_up();
        self.poller.statistics.note(exchange.times.ended);
        self.requests.came_back(&mut exchange, self.poller.looked);
        self.requests.finish_later(exchange);
    }

    fn relieved(&mut self) {
        self.poller.statistics.refresh();
        self.connections.relieve();
        self.requests.relieve();
    }

    fn housekeeping(&mut self) -> bool {
        self.work_without_threads()
    }

    fn now(&self) -> u64 {
        self.poller.now
    }
}
