//! What an engine shows of itself: its numbers on the scoreboard, and when they are shown again; and what it gives back.
//!
//! Knows: which numbers, and that a worker that has served enough is told to its supervisor. Does not know: who reads
//! them. The watchdog and whoever leads come by.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reactor::sys::give_back_code;

use super::Engine;
use crate::scoreboard::{self, Field};

/// For so long whoever leads gives code back, and nobody is served meanwhile.
const LONGEST_GIVING_BACK: Duration = Duration::from_millis(2);

impl Engine {
    /// Shows this worker's numbers, and asks to be replaced when it is time. `now` in
    /// monotonic milliseconds.
    pub(crate) fn publish(&self, now: u64) {
        let requests = self.counters.own_requests();
        let most = self.config.max_requests;
        // Nobody wants new workers for having asked how they are.
        let requests_asked = requests.saturating_sub(self.counters.probes_answered.get());
        if most > 0 && requests_asked >= most && !self.max_requests_told.swap(true, Ordering::Relaxed) {
            self.report(&format!("stale it has served {requests_asked} requests (--max-requests)"));
        }
        if self.given_back.is_due(requests, now) {
            give_back_code(LONGEST_GIVING_BACK);
        }
        self.turned_away.tell(&self.counters, &self.log, now);
        let Some(scoreboard) = &self.config.scoreboard else { return };
        let counters = &self.counters;
        let (busy, queued) = (u64::from(self.in_flight()), self.shown_queue());
        scoreboard.set(Field::Requests, requests);
        scoreboard.set(Field::Connections, self.connections());
        scoreboard.set(Field::Busy, busy);
        scoreboard.set(Field::Threads, u64::from(self.threads()));
        scoreboard.set(Field::Queued, queued);
        let turned_away: u64 = counters.turned_away().iter().sum();
        let refused = turned_away + counters.requests_abandoned.get();
        scoreboard.set(Field::Refused, refused);
        scoreboard.set(Field::Timeouts, counters.request_deadlines.get());
        scoreboard.set(Field::Errors, counters.application_errors.get());
        scoreboard.set(Field::Updated, now);
        if let Some(bell) = &self.config.bell {
            bell.shows(&[requests, busy, queued, refused], now);
        }
    }

    /// Nothing has happened for a while, and whoever looks after the threads is about to sleep until something does: what the
    /// last requests have mapped of code is given back. `now` in monotonic milliseconds.
    pub(crate) fn rests(&self, now: u64) {
        if self.given_back.is_due_at_rest(self.counters.own_requests(), now) {
            give_back_code(LONGEST_GIVING_BACK);
        }
    }

    /// Nobody is connected, and the loop is about to wait.
    #[cold]
    pub(crate) fn is_deserted(&self, now: u64) {
        if self.given_back.is_due_when_deserted(self.counters.own_requests(), now) {
            give_back_code(LONGEST_GIVING_BACK);
        }
    }

    /// When the numbers shall be shown again though nothing happens: while somebody is inside the
    /// application, the other workers want to see that this process is not stopped.
    pub(crate) fn publish_by(&self, now: u64) -> u64 {
        if self.config.scoreboard.is_some() && self.in_flight() > 0 {
            now + scoreboard::SHOW_MS
        } else {
            u64::MAX
        }
    }

    /// The same, and when requests that take long have to be looked at.
    pub(crate) fn look_by(&self, now: u64) -> u64 {
        let slow = if self.in_flight() > 0 { self.slow.look_by(now) } else { u64::MAX };
        slow.min(self.publish_by(now))
    }
}
