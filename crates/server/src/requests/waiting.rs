//! What is said of those that wait, in the worker's statistics: for how long the oldest has, and how many are in each lane.
//!
//! Knows: the queues. Does not know: who looks. Runs under the baton, wherever the number of those that wait is told.

use wire::Millis;

use super::Requests;
use crate::exchange::Exchange;
use crate::lanes::Lane;
use crate::statistics::condition;

/// As long as somebody waits it is said anew so often at most: it takes longer than to count them.
const SAY_MS: Millis = 20;

impl Requests {
    /// Nothing waits any more but so many connections, and those in lanes.
    #[inline]
    pub fn show_rest(&mut self, connections: usize, now: Millis) {
        self.engine.show_rest(connections, self.beside_the_front());
        self.say_who_waits(now);
    }

    /// How many wait beside the front, and how many of them not for a thread: those that compute wait for one that does.
    #[inline]
    pub(super) fn beside_the_front(&self) -> (usize, usize) {
        let held_back = self.computing.len();
        (self.lined_up.len() + held_back, self.lined_up.limited() + held_back)
    }

    /// Says who waits, if that may have changed.
    #[inline]
    pub fn say_who_waits(&mut self, now: Millis) {
        let is_due = match self.said_to_wait {
            None => self.len() > 0,
            Some(at) => now >= at + SAY_MS || self.len() == 0,
        };
        if is_due {
            self.say_it(now);
        }
    }

    #[cold]
    fn say_it(&mut self, now: Millis) {
        let Some(words) = self.engine.config.statistics else { return };
        let lined_up = &self.lined_up;
        let unknown = lined_up.waiting(Lane::Unknown);
        let slow = lined_up.len() - unknown - lined_up.limited();
        // Where the newest begins next it stands before the oldest.
        let front = (0..2).filter_map(|place| self.batch.get(place)).map(Exchange::arrived).min();
        let oldest = front.into_iter().chain(lined_up.oldest()).min();
        condition::wait(words, oldest, [self.batch.len(), unknown, slow, lined_up.limited()]);
        self.said_to_wait = (self.len() > 0).then_some(now);
    }
}
