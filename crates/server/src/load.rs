//! How busy a worker is, as the others see it.
//!
//! Knows: threads inside the application, who holds them up, and room for connections. Does not know: what follows
//! from it (`share.rs`). Any thread.

use wire::Millis;

use crate::board::Field;
use crate::engine::{Engine, Stage};

/// Takes no connections any more.
const LEAVING: u64 = 1000;
/// A thread keeps the interpreter: nothing is done here before it lets go.
const HELD: u64 = 300;
/// Every thread is inside the application.
pub(crate) const FULL: u64 = 200;
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

    /// This worker has no room for a new connection. True: another one has, and hears of it.
    pub(crate) fn another_has_room(&self) -> bool {
        let Some(board) = &self.config.board else { return false };
        let other = board.somebody_is_freer(CROWDED);
        if other {
            board.ring();
        }
        other
    }

    /// There was no descriptor for a connection, and none is expected for a while: until then.
    pub(crate) fn is_crowded_for_a_while(&self, now: Millis) -> Millis {
        self.crowded_until(now + CROWDED_MS);
        now + CROWDED_MS
    }

    /// True when connections that wait may be taken by a worker without a free thread: no
    /// other worker has one.
    pub(crate) fn nobody_is_free(&self) -> bool {
        self.config.board.as_ref().is_none_or(|board| !board.somebody_is_freer(FULL))
    }

    /// This worker is on its way out.
    pub(crate) fn leave_board(&self) {
        if let Some(board) = &self.config.board {
            board.set(Field::Level, LEAVING);
            board.set(Field::Watching, 0);
            board.ring();
        }
    }
}
