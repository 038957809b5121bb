//! Several workers, one listener: who takes the next connection.
//!
//! Knows: how busy this worker is, and the scoreboard where the others say how busy they are. Does
//! not know: processes. Runs under the baton.
//!
//! A worker that waits is woken by the kernel, one a connection (EPOLLEXCLUSIVE); one that is
//! at work is passed over. What is left to decide is whether a worker should wait for new
//! connections at all while some of its threads are inside the application: it steps back as
//! long as another one watches that is less busy. Both things are written to the scoreboard before
//! the other's are read, so that two never step back for one another, and a connection always
//! finds somebody. A worker that gets busier than one that has stepped back notifies that one,
//! which looks again.

mod apart;

use std::sync::Arc;

use wire::Millis;

use self::apart::Apart;
use crate::connections::Connections;
use crate::crowd::Crowd;
use crate::engine::Engine;
use crate::listeners::Listeners;
use crate::load::{COMPUTES, FULL, STRAINED};
use crate::offer::{GIFTS, NEWCOMERS, Offer};
use crate::poller::Poller;
use crate::requests::LEAVES_AFTER_MS;
use crate::returns::ASK_MS;
use crate::rows::{self, Listening};
use crate::scoreboard::Field;
use crate::slots::NEVER;

/// For so long every thread has been inside the application before idle connections are given away.
const FULL_MS: Millis = 250;
/// So often requests that wait are given to a worker that has free threads, as many at a time as it has.
const GIVE_MS: Millis = 20;
/// How often a worker that has stepped back looks whether it is needed.
const LOOK_MS: Millis = 100;
/// So many connections go back at a time, which is less than a millisecond's work for either side, ...
const PORTION: u64 = 32;
/// ... and for so long whoever gives them back leaves them to others.
const LEAVE_MS: Millis = 20;
/// So often a worker calls while it asks for them.
const CALL_MS: Millis = 500;

/// What one worker does about the others.
pub(crate) struct Sharing {
    engine: Arc<Engine>,
    /// Requests are tasks of an event loop, of which any number can be under way.
    tasks: bool,
    /// How busy this worker was when it last decided whether to watch the listeners.
    level: u64,
    /// Since when every thread is inside the application.
    full_since: Millis,
    /// When requests that wait may be given away again.
    gives_at: Millis,
    /// When connections that nobody has taken are looked for, while others watch the listeners.
    neglected_at: Millis,
    /// It has asked for connections of its own, and takes what comes.
    asks: bool,
    /// When it calls those who may have them.
    calls_at: Millis,
    /// Another worker has called.
    called: bool,
    /// So many connections are another worker's, and are given back by and by, ...
    owes: u64,
    /// ... until then.
    owes_until: Millis,
    /// When there is something to ask for or to give back.
    even_at: Millis,
    /// New connections that another worker draws.
    newcomers: Offer,
    /// Those that this one has taken.
    crowd: Crowd,
    /// Connections that were given away, while other workers are better places.
    gifts: Offer,
    /// What this worker does about requests that compute.
    apart: Apart,
}

impl Sharing {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            tasks: false,
            level: 0,
            full_since: NEVER,
            gives_at: 0,
            neglected_at: NEVER,
            asks: false,
            calls_at: 0,
            called: false,
            owes: 0,
            owes_until: 0,
            even_at: NEVER,
            newcomers: Offer::new(NEWCOMERS),
            crowd: Crowd::default(),
            gifts: Offer::new(GIFTS),
            apart: Apart::default(),
        }
    }

    /// An event loop takes part from now on: other workers see how busy it is.
    pub fn serve_tasks(&mut self) {
        self.tasks = true;
        self.apart.never();
        if let Some(scoreboard) = &self.engine.config.scoreboard {
            scoreboard.enter();
        }
    }

    /// How busy this worker is. Tasks that are under way make no difference, but where something holds up all of them.
    #[inline]
    fn level(&self, now: Millis) -> u64 {
        match self.engine.level(now) {
            level if self.tasks && level < STRAINED => 0,
            level => level,
        }
    }

    /// An event loop was held up a moment ago: its clients go, and with them nobody who has done that.
    #[inline]
    fn sheds(&self, now: Millis) -> bool {
        self.tasks && self.engine.is_stuck(now)
    }

    /// Watches the listeners, or leaves them to others. Called before every wait.
    #[inline]
    pub fn update_listening(
        &mut self,
        listeners: &mut Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) {
        if poller.now >= self.apart.next() {
            self.look_apart(listeners, connections, poller);
        }
        // Again before each wait: the timer is set to nothing when it fires, whatever for.
        poller.wake_by(self.apart.wakes_at());
        if self.engine.computing.is_apart() {
            self.show_room_apart();
        }
        let level = self.level(poller.now);
        let gives = self.sheds(poller.now) || connections.handover().is_on();
        if level != self.level || !listeners.are_watched() || level > 0 || gives {
            self.reconsider(level, listeners, connections, poller);
            self.even_at = self.even_at.min(connections.handover().returns().next());
        }
        if self.even_at != NEVER {
            self.even_out(listeners, connections, poller);
        }
    }

    /// Another worker has called: perhaps it would have its connections back.
    pub fn is_called(&mut self) {
        self.called = true;
        self.even_at = 0;
    }

    /// A connection has come from another worker.
    pub fn came_back(&mut self, connections: &mut Connections) {
        connections.handover().returns().came();
        self.even_at = 0;
    }

    /// When it is time: asks for connections that were given away, and gives back what others ask for.
    #[cold]
    fn even_out(&mut self, listeners: &mut Listeners, connections: &mut Connections, poller: &mut Poller) {
        let now = poller.now;
        if now >= self.even_at {
            let engine = Arc::clone(&self.engine);
            let Some(scoreboard) = &engine.config.scoreboard else { return };
            let may_take = self.level < FULL && !connections.shutdown().has_begun();
            let returns = connections.handover().returns();
            let wanted = if may_take { returns.wanted(now) } else { 0 };
            self.even_at = returns.next().max(now + LOOK_MS);
            let asked = std::mem::replace(&mut self.asks, wanted > 0);
            scoreboard.wants(wanted);
            if wanted > 0 && !asked {
                engine.log.debug(|| format!("would have {wanted} connections back: nothing holds it up"));
            }
            // Again and again: what comes too late is taken back by whoever gave it.
            if wanted > 0 && now >= self.calls_at {
                self.calls_at = now + CALL_MS;
                engine.publish(now);
                scoreboard.notify_all();
            }
            if wanted > 0 {
                self.even_at = self.even_at.min(self.calls_at);
            }
            if std::mem::take(&mut self.called) {
                self.owes = scoreboard.wanted_back(engine.connections());
                self.owes_until = now + ASK_MS;
            }
            self.give_back(listeners, connections, poller);
        }
        poller.wake_by(self.even_at);
    }

    /// Gives back some of what is owed: the rest goes another time.
    fn give_back(&mut self, listeners: &mut Listeners, connections: &mut Connections, poller: &mut Poller) {
        if poller.now >= self.owes_until || connections.shutdown().has_begun() {
            self.owes = 0;
        }
        if self.owes > 0 && !connections.handover().is_on() {
            // First: of what is under way this worker shall not be told.
            listeners.leave_handed_over(&poller.reactor, poller.now + LEAVE_MS);
            poller.wake_by(poller.now + LEAVE_MS);
            self.owes -= connections.give_back(self.owes.min(PORTION), poller);
        }
        if self.owes > 0 {
            self.even_at = poller.now + LOOK_MS;
        }
    }

    /// How many requests that wait here are better off with other workers, which have free threads. Asked after
    /// [`Sharing::update_listening`].
    pub fn may_give_requests(&mut self, connections: &mut Connections, now: Millis) -> u64 {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return 0 };
        let full = self.level >= FULL && now >= self.full_since.saturating_add(LEAVES_AFTER_MS);
        let may_give = !connections.shutdown().has_begun() && connections.handover().may_begin(now);
        if !full || now < self.gives_at || !may_give {
            return 0;
        }
        self.gives_at = now + GIVE_MS;
        scoreboard.free_elsewhere(self.level, self.engine.config.limits.connections)
    }

    /// A request that computes would have to share the interpreter with others that do, and another worker has fewer of those.
    pub fn may_pass_on(
        &mut self,
        listeners: &mut Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> bool {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return false };
        let now = poller.now;
        let bar = self.level(now).saturating_sub(COMPUTES / 2);
        // Those that come to the worker that takes all of them wait there for one another.
        let apart = self.engine.computing.is_apart();
        let may_give = !connections.shutdown().has_begun() && connections.handover().may_begin(now);
        if apart || !may_give || !scoreboard.somebody_is_sound(bar, self.engine.config.limits.connections) {
            return false;
        }
        if listeners.are_watched() {
            // Of what is under way this worker shall not be told.
            listeners.leave_handed_over(&poller.reactor, now + LEAVE_MS);
            poller.wake_by(now + LEAVE_MS);
        }
        true
    }

    /// A connection is there. True: another worker is less busy by now; this one steps back, and that one is told.
    pub fn leaves_it_to_another(
        &mut self,
        listeners: &mut Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> bool {
        let level = self.level(poller.now);
        if !listeners.is_open() || !listeners.are_watched() || listeners.next_is_apart() {
            return false;
        }
        if self.tasks && !listeners.next_is_handed_over() && self.leaves_newcomers(listeners, poller) {
            return true;
        }
        if level == 0 {
            return false;
        }
        if !self.engine.config.scoreboard.as_ref().is_some_and(|scoreboard| scoreboard.somebody_better(level))
        {
            return false;
        }
        self.reconsider(level, listeners, connections, poller);
        let left = !listeners.are_watched();
        if left && let Some(scoreboard) = &self.engine.config.scoreboard {
            // The kernel has woken this worker for it, and nobody else.
            scoreboard.notify_all();
        }
        left
    }

    /// A new connection is there. True: another worker draws those, and has a moment to take it.
    fn leaves_newcomers(&mut self, listeners: &mut Listeners, poller: &mut Poller) -> bool {
        let Some(scoreboard) = &self.engine.config.scoreboard else { return false };
        let hold_up = self.engine.draws(poller.now);
        if !scoreboard.somebody_draws(STRAINED) || self.crowd.is_one(hold_up, poller.now) {
            return false;
        }
        let Some(until) = self.newcomers.leave(poller.now) else { return false };
        listeners.pause(&poller.reactor, until);
        poller.wake_by(until);
        true
    }

    /// A new connection was taken.
    #[inline]
    pub fn took_newcomer(&mut self, now: Millis) {
        if self.tasks {
            self.crowd.took(now);
        }
    }

    /// When it is due: looks whether what was left to others was taken.
    #[inline]
    pub fn look_after_offers(
        &mut self,
        listeners: &Listeners,
        connections: &mut Connections,
        poller: &Poller,
    ) {
        if self.newcomers.is_due(poller.now) {
            self.newcomers.looked(listeners.any_wait(), poller.now);
        }
        if self.gifts.is_due(poller.now) && self.gifts.looked(listeners.any_handed_over(), poller.now) {
            connections.handover().pause(poller.now);
        }
    }

    /// A connection is there that a worker has given away, maybe this one. True: this one's loop was held up itself, and it
    /// leaves that to one whose loop moves.
    pub fn leaves_gifts(&mut self, listeners: &mut Listeners, poller: &mut Poller) -> bool {
        let Some(scoreboard) = self.engine.config.scoreboard.as_ref().filter(|_| self.tasks && !self.asks)
        else {
            return false;
        };
        let room = self.engine.config.limits.connections;
        // One that has stepped back looks by itself what nobody takes.
        let stays = !listeners.are_watched() || !scoreboard.was_held_lately();
        if stays || !scoreboard.somebody_is_sound(STRAINED, room) {
            return false;
        }
        let Some(until) = self.gifts.leave(poller.now) else { return false };
        listeners.leave_handed_over(&poller.reactor, until);
        poller.wake_by(until);
        true
    }

    fn reconsider(
        &mut self,
        level: u64,
        listeners: &mut Listeners,
        connections: &mut Connections,
        poller: &mut Poller,
    ) {
        let engine = self.engine.clone();
        let Some(scoreboard) = &engine.config.scoreboard else { return };
        let before = std::mem::replace(&mut self.level, level);
        if scoreboard.show_level(level, before) {
            scoreboard.notify_all();
        }
        let strained = level >= FULL || level > 0 && engine.is_strained(poller.now);
        let draws = engine.draws(poller.now);
        scoreboard.set(Field::Strained, rows::strained(strained, draws));
        if strained {
            // It ends by itself, and nobody else would say so.
            poller.wake_by(poller.now + LOOK_MS);
        }
        if level < FULL {
            self.full_since = NEVER;
        } else if self.full_since == NEVER {
            self.full_since = poller.now;
        }
        // A worker with one thread is full at each request, which is no reason to move anybody.
        let holds_up = match level {
            0 => self.sheds(poller.now),
            FULL => poller.now >= self.full_since.saturating_add(FULL_MS),
            _ if level > FULL => true,
            _ => engine.is_stuck(poller.now),
        };
        if holds_up || engine.computing.is_apart() {
            connections.handover().returns().is_held_up(poller.now);
            if std::mem::take(&mut self.asks) {
                self.even_at = 0;
            }
        }
        // Where the others stop as well, nobody might take them.
        let may_give = !connections.shutdown().has_begun() && connections.handover().may_begin(poller.now);
        let room = engine.config.limits.connections;
        // Nothing shows how busy a loop is but that it is held up: it was, whatever it does now.
        let bar = if self.tasks { level.max(STRAINED) } else { level };
        let hands_over = holds_up && may_give && scoreboard.somebody_is_sound(bar, room);
        connections.handover().switch(hands_over);
        // What it has asked for would wait if it stepped back.
        let stands_at = if self.asks { 0 } else { level };
        let takes =
            self.takes_new(scoreboard.stand(stands_at, listeners.are_watched()), level, listeners, poller);
        if takes && !(hands_over && self.sheds(poller.now)) {
            connections.handover().switch(false);
            return;
        }
        if hands_over {
            connections.hand_over_idle(poller);
        }
        poller.wake_by(poller.now + LOOK_MS);
    }

    /// Does what was decided. True: this worker takes new connections.
    fn takes_new(
        &mut self,
        stand: Listening,
        level: u64,
        listeners: &mut Listeners,
        poller: &Poller,
    ) -> bool {
        let log = &self.engine.log;
        match stand {
            Listening::Resume => {
                listeners.step_forward(&poller.reactor);
                log.debug(|| format!("takes new connections again: busy at level {level}"));
            }
            Listening::Keep => {}
            Listening::Suspend => {
                listeners.step_back(&poller.reactor);
                log.debug(|| format!("leaves new connections to others, who are less busy: level {level}"));
                self.neglected_at = poller.now + LOOK_MS;
            }
            Listening::StayOut if poller.now >= self.neglected_at => {
                // Whoever is better takes a connection at once. One that waits even so has met a worker
                // that is idle and does not run, or comes from here and finds no room.
                let scoreboard = self.engine.config.scoreboard.as_ref();
                let runs = scoreboard.is_some_and(|scoreboard| scoreboard.somebody_better_runs(level));
                listeners.take_neglected(level < FULL && !runs);
                self.neglected_at = poller.now + LOOK_MS;
            }
            Listening::StayOut => {}
        }
        listeners.are_watched()
    }
}
