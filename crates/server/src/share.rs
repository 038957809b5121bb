//! Several workers, one listener: who takes the next connection.
//!
//! Knows: how busy this worker is, and the board where the others say how busy they are. Does
//! not know: processes. Runs under the baton.
//!
//! A worker that waits is woken by the kernel, one a connection (EPOLLEXCLUSIVE); one that is
//! at work is passed over. What is left to decide is whether a worker should wait for new
//! connections at all while some of its threads are inside the application: it steps back as
//! long as another one watches that is less busy. Both things are written to the board before
//! the other's are read, so that two never step back for one another, and a connection always
//! finds somebody. A worker that gets busier than one that has stepped back rings a bell, on
//! which that one looks again.

use wire::Millis;

use crate::board::Field;
use crate::engine::{Engine, Stage};
use crate::rows::Stand;
use crate::slots::NEVER;
use crate::turn::Loop;

/// Takes no connections any more.
const LEAVING: u64 = 1000;
/// A thread keeps the interpreter: nothing is done here before it lets go.
const HELD: u64 = 300;
/// Every thread is inside the application.
const FULL: u64 = 200;
/// Has no room for another connection: it would have to close one for it.
const CROWDED: u64 = 100;
/// For so long a worker counts as crowded that had no file descriptor for a connection.
const CROWDED_MS: Millis = 1000;
/// Doubling the threads that are busy makes so much of a difference, ...
const STEP: u64 = 2;
/// ... and this that one of them holds up the others: more than being twice as busy, less than
/// four times, because where every request burns, it is their number that counts.
const STRAINED: u64 = 3;
/// A thread that has not come back from an overdue request counts as much as being twice as
/// busy: the worker will be replaced. It is worse only where it burns, which is a strain.
const LOST: u64 = 2;
/// For so long every thread has been inside the application before idle connections are given away.
const FULL_MS: Millis = 250;
/// How often a worker that has stepped back looks whether it is needed.
const LOOK_MS: Millis = 100;

impl Engine {
    /// How unwilling this worker is: 0 is idle. Steps are wide, so that workers that are busy
    /// alike do not step back for one another.
    pub(crate) fn level(&self, now: Millis) -> u64 {
        let busy = self.playing();
        if busy > 0 && self.is_held() {
            return HELD;
        }
        if busy >= self.config.threads && !self.config.evented {
            return FULL;
        }
        let step = STEP * u64::from(u32::BITS - busy.leading_zeros());
        // Whoever held up the others has come back where nobody is inside.
        let strained = if busy > 0 && self.is_strained(now) { STRAINED } else { 0 };
        let lost = if self.tickets.any_lost() { LOST } else { 0 };
        let crowded = if self.is_crowded(now) { CROWDED } else { 0 };
        step + strained + lost + crowded
    }

    /// Tells the other workers as soon as a thread has come back late: a client that asks again
    /// at once is quicker than the loop.
    pub(crate) fn show_level(&self) {
        if let Some(board) = &self.config.board
            && self.stage() == Stage::Serving
        {
            board.set(Field::Level, self.level(reactor::sys::monotonic_ms()));
        }
    }
}

impl Loop {
    /// Watches the listeners, or leaves them to others. Called before every wait.
    #[inline]
    pub(crate) fn heed(&mut self) {
        if self.engine.config.board.is_some() && self.listeners.is_open() {
            let level = self.engine.level(self.now);
            if level != self.level || !self.listeners.are_watched() || level > 0 {
                self.reconsider(level);
            }
        }
    }

    /// A connection is there. True: another worker is less busy by now; this one steps back, and that one is told.
    pub(crate) fn leaves_it_to_another(&mut self) -> bool {
        let level = self.engine.level(self.now);
        if level == 0 || !self.listeners.is_open() || !self.listeners.are_watched() {
            return false;
        }
        if !self.engine.config.board.as_ref().is_some_and(|board| board.somebody_better(level)) {
            return false;
        }
        self.reconsider(level);
        let left = !self.listeners.are_watched();
        if left && let Some(board) = &self.engine.config.board {
            // The kernel has woken this worker for it, and nobody else.
            board.ring();
        }
        left
    }

    /// Another worker is too busy for what it would have to do.
    pub(crate) fn hear_the_bell(&mut self) {
        if self.listeners.are_watched() && self.listeners.is_open() {
            self.listeners.all_ready();
        }
    }

    /// This worker has no room for a new connection. True: another one has, and hears of it.
    pub(crate) fn another_has_room(&self) -> bool {
        let Some(board) = &self.engine.config.board else { return false };
        let other = self.stop_at.is_none() && board.somebody_is_freer(CROWDED);
        if other {
            board.ring();
        }
        other
    }

    /// There was no descriptor for a connection.
    pub(crate) fn is_crowded_for_a_while(&mut self) {
        self.engine.crowded_until(self.now + CROWDED_MS);
        self.wake_by(self.now + CROWDED_MS);
    }

    /// True when connections that wait may be taken by a worker without a free thread: no
    /// other worker has one.
    pub(crate) fn nobody_is_free(&self) -> bool {
        self.engine.config.board.as_ref().is_none_or(|board| !board.somebody_is_freer(FULL))
    }

    /// This worker is on its way out.
    pub(crate) fn leave_board(&self) {
        if let Some(board) = &self.engine.config.board {
            board.set(Field::Level, LEAVING);
            board.set(Field::Watching, 0);
            board.ring();
        }
    }

    fn reconsider(&mut self, level: u64) {
        let engine = self.engine.clone();
        let Some(board) = &engine.config.board else { return };
        let before = std::mem::replace(&mut self.level, level);
        if board.show_level(level, before) {
            board.ring();
        }
        let strained = level >= FULL || level > 0 && engine.is_strained(self.now);
        board.set(Field::Strained, u64::from(strained));
        if strained {
            // It ends by itself, and nobody else would say so.
            self.wake_by(self.now + LOOK_MS);
        }
        if level < FULL {
            self.full_since = NEVER;
        } else if self.full_since == NEVER {
            self.full_since = self.now;
        }
        // A worker with one thread is full at each request, which is no reason to move anybody.
        let holds_up = level != FULL || self.now >= self.full_since.saturating_add(FULL_MS);
        // Where the others stop as well, nobody might take them.
        let may_give = self.stop_at.is_none() && self.now >= self.gives_again_at;
        let room = engine.config.limits.connections;
        self.gives_away = strained && holds_up && may_give && board.somebody_is_sound(level, room);
        if self.takes_new(board.stand(level, self.listeners.are_watched()), level) {
            self.gives_away = false;
            return;
        }
        if self.gives_away {
            self.hand_over_idle();
        }
        self.wake_by(self.now + LOOK_MS);
    }

    /// Does what was decided. True: this worker takes new connections.
    fn takes_new(&mut self, stand: Stand, level: u64) -> bool {
        let log = &self.engine.log;
        match stand {
            Stand::Forward => {
                self.listeners.step_forward(&self.reactor);
                log.debug(|| format!("takes new connections again: busy at level {level}"));
            }
            Stand::Watches => {}
            Stand::Back => {
                self.listeners.step_back(&self.reactor);
                log.debug(|| format!("leaves new connections to others, who are less busy: level {level}"));
                self.neglected_at = self.now + LOOK_MS;
            }
            Stand::Away if self.now >= self.neglected_at => {
                // Whoever is better takes a connection at once. One that waits even so has met a worker
                // that is idle and does not run, or comes from here and finds no room.
                let board = self.engine.config.board.as_ref();
                let runs = board.is_some_and(|board| board.somebody_better_runs(level));
                self.listeners.take_neglected(level < FULL && !runs);
                self.neglected_at = self.now + LOOK_MS;
            }
            Stand::Away => {}
        }
        self.listeners.are_watched()
    }
}
