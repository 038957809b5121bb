//! Every thread is inside the application: requests wait, and the loop's health is kept.
//!
//! Knows: requests that have been read and not begun, how long they have waited and how fast
//! others are done. Does not know: what they ask for. Runs under the baton, on the watchdog's
//! thread, which needs no interpreter: an application that holds every thread, or the
//! interpreter itself, stops neither timeouts nor refusals. Under an event loop, on its thread.
//!
//! A request is refused at once when it would wait longer than is allowed, going by how fast
//! the last ones were done: a client that hears so within milliseconds can try elsewhere, and
//! what is worked on is still wanted when it is done.

use wire::{Fault, Millis};

use crate::exchange::Exchange;
use crate::scribe::Scribe;
use crate::turn::Loop;

/// Over how long the speed is measured.
const WINDOW_MS: Millis = 200;
/// A request that has waited so long is looked at before it is begun: is its client there?
const LOOK_AFTER_MS: Millis = 250;
/// How many things one pass goes through: peers that send without end get no more of it.
const VISITS: u32 = 4096;
/// How many connections one look accepts.
const ACCEPTS: u32 = 256;

/// How fast requests are done.
#[derive(Debug, Default)]
pub struct Pace {
    since: Millis,
    done: u64,
    /// How many of them were only refused.
    refused: u64,
    /// Requests a second; zero while it is not known.
    rate: u64,
}

impl Pace {
    /// One request is done.
    #[inline]
    pub fn count(&mut self) {
        self.done += 1;
    }

    /// Closes a window that is long enough. A window from idler times is thrown away.
    fn look(&mut self, now: Millis) {
        let span = now.saturating_sub(self.since);
        if span > 5 * WINDOW_MS {
            *self = Self { since: now, ..Self::default() };
        } else if span >= WINDOW_MS {
            let measured = self.done.saturating_sub(self.refused) * 1000 / span;
            self.rate = if self.rate == 0 { measured } else { (self.rate + measured) / 2 };
            self.since = now;
            self.done = 0;
            self.refused = 0;
        }
    }

    /// How long the last of `waiting` requests will wait.
    fn wait_of(&self, waiting: usize) -> Option<Millis> {
        (waiting as u64 * 1000).checked_div(self.rate)
    }
}

impl Loop {
    /// Does what needs no thread of the application's: reads, queues, refuses, closes. True:
    /// the loop has ended.
    pub(crate) fn keep_house(&mut self) -> bool {
        // What the last look found is told once: it comes before another look.
        self.read_what_is_there();
        self.look();
        self.pace.look(self.now);
        self.heed();
        self.read_what_is_there();
        for _ in 0..ACCEPTS {
            let listeners = &self.listeners;
            if !(listeners.any_ready() && (listeners.next_is_handed_over() || self.nobody_is_free())) {
                break;
            }
            let exchange = self.accept_one();
            self.enqueue(exchange);
        }
        self.refuse_those_that_waited();
        while let Some(exchange) = self.take_homecoming() {
            self.enqueue(exchange);
        }
        self.engine.note_queued(self.batch.len());
        self.is_over()
    }

    /// Goes through all that has happened, as far as there is no end to it.
    fn read_what_is_there(&mut self) {
        for _ in 0..VISITS {
            if let Some(exchange) = self.take_homecoming() {
                self.enqueue(exchange);
            } else if self.batch.has_replies() {
                self.send_batch();
            } else if let Some(happening) = self.reactor.take_next() {
                let exchange = self.look_at(happening);
                self.enqueue(exchange);
            } else if self.allowance.visit()
                && let Some(resumed) = self.slots.next_resumed()
            {
                let exchange = resumed.and_then(|connection| self.progress(connection));
                self.enqueue(exchange);
            } else {
                break;
            }
        }
    }

    /// A request that has been read, if there is one: it waits, or is refused.
    fn enqueue(&mut self, exchange: Option<Exchange>) {
        let Some(exchange) = exchange else { return };
        let limits = &self.engine.config.limits;
        let waiting = self.batch.len();
        let patience = limits.queue_timeout;
        // Half of what is allowed: the pace is an estimate, and a refusal should come at once.
        // Where threads are free and only the interpreter is held, it says nothing.
        let too_long = patience > 0
            && !self.engine.is_held()
            && self.pace.wait_of(waiting).is_some_and(|wait| wait > patience / 2);
        if waiting as u64 >= limits.queue || too_long {
            self.engine.counters.requests_not_queued.add();
            return self.turn_away(exchange, &wire::QUEUE_FULL);
        }
        self.engine.log.debug(|| format!("a request waits for its turn: {waiting} before it"));
        self.batch.add(exchange);
    }

    /// Where no watchdog comes by: what was read together may be more than is allowed to wait,
    /// replies do not wait for requests that do, and the oldest is looked at in time.
    pub(crate) fn queue_alone(&mut self) {
        while self.batch.len() as u64 > self.engine.config.limits.queue
            && let Some(newest) = self.batch.take_newest()
        {
            self.engine.counters.requests_not_queued.add();
            self.turn_away(newest, &wire::QUEUE_FULL);
        }
        while let Some(exchange) = self.take_homecoming() {
            self.enqueue(exchange);
        }
        self.engine.note_queued(self.batch.len());
        let patience = self.engine.config.limits.queue_timeout;
        if let Some(oldest) = self.batch.oldest()
            && patience > 0
        {
            self.wake_by(oldest.saturating_add(patience).saturating_add(1));
        }
        self.batch.relieve();
    }

    fn turn_away(&mut self, mut exchange: Exchange, fault: &Fault) {
        self.engine.counters.refused(fault);
        self.engine
            .log
            .debug(|| format!("a request is not begun, and answered {}: {}", fault.status, fault.text));
        self.pace.refused += 1;
        exchange.refuse(fault, &mut Scribe::new(), &self.engine);
        self.come_home(exchange);
    }

    fn refuse_those_that_waited(&mut self) {
        let patience = self.engine.config.limits.queue_timeout;
        let now = self.now;
        while let Some(exchange) = self.batch.take_if(|oldest| !may_begin(oldest, now, patience)) {
            self.reject_stale(exchange);
        }
    }

    /// The oldest request, unless it need not be begun: then it is seen off, and there is none.
    pub(crate) fn worth_beginning(&mut self, exchange: Exchange) -> Option<Exchange> {
        let waited = self.now.saturating_sub(exchange.arrived());
        if waited < LOOK_AFTER_MS && !exchange.is_overdue() {
            return Some(exchange);
        }
        let left = exchange.client_has_left();
        if !left && may_begin(&exchange, self.now, self.engine.config.limits.queue_timeout) {
            return Some(exchange);
        }
        if left {
            self.engine.counters.requests_abandoned.add();
            let mut exchange = exchange;
            exchange.cut();
            self.come_home(exchange);
        } else {
            self.reject_stale(exchange);
        }
        None
    }

    fn reject_stale(&mut self, exchange: Exchange) {
        if exchange.is_overdue() {
            // Its client has been answered already.
            return self.come_home(exchange);
        }
        self.engine.counters.requests_waited_too_long.add();
        self.turn_away(exchange, &wire::QUEUE_TIMEOUT);
    }
}

/// False for a request that has waited too long, or is overdue.
fn may_begin(exchange: &Exchange, now: Millis, patience: Millis) -> bool {
    let waited = now.saturating_sub(exchange.arrived());
    !(exchange.is_overdue() || patience > 0 && waited > patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_from_the_pace_of_the_last_window() {
        let mut pace = Pace::default();
        pace.look(1000);
        assert_eq!(pace.wait_of(50), None, "nothing is known yet");
        for _ in 0..20 {
            pace.count();
        }
        pace.look(1000 + WINDOW_MS);
        assert_eq!(pace.wait_of(50), Some(500), "100 a second");
        pace.look(1000 + 20 * WINDOW_MS);
        assert_eq!(pace.wait_of(50), None, "that was long ago");
    }
}
