//! Requests that wait for a thread, and those that need not wait: they would wait too long, or nobody waits for them.
//!
//! Knows: how long each has waited and how fast others are done. Does not know: what they ask for. Runs under the baton,
//! also on the watchdog's thread; under an event loop, on its thread.
//!
//! A request is refused at once when it would wait longer than is allowed, going by how fast
//! the last ones were done: a client that hears so within milliseconds can try elsewhere, and
//! what is worked on is still wanted when it is done. That is so in each lane: a slow one that is full refuses nobody else.
//! Where those in front have waited for too long all the same, the newest and the oldest begin in turn (`lanes/order.rs`).

use std::sync::Arc;

use wire::{Fault, Millis};

use super::Requests;
use super::express::judged;
use crate::exchange::Exchange;
use crate::lanes::{End, Lane, Order, Priority, Waits};
use crate::reply_builder::ReplyBuilder;
use crate::statistics::phase::Ending;
use crate::throughput::Throughput;

/// A request that has waited so long is looked at before it is begun: is its client there?
const LOOK_AFTER_MS: Millis = 250;

impl Requests {
    /// A request that has been read, if there is one: it waits, or is refused.
    pub fn enqueue(&mut self, exchange: Option<Box<Exchange>>) {
        let Some(mut exchange) = exchange.and_then(|exchange| self.answer_one_natively(exchange)) else {
            return;
        };
        judged(&mut exchange, &self.engine.config.mounted, &mut self.lanes);
        match self.lanes.place_behind(&exchange.lane, &self.lined_up) {
            lane if lane != Lane::Express => self.line_up(lane, exchange),
            _ => self.enqueue_at_front(exchange),
        }
    }

    /// The same of one that waits at the front.
    fn enqueue_at_front(&mut self, mut exchange: Box<Exchange>) {
        let in_time = self.is_in_time_at_front(self.before_at_front(&exchange), &exchange);
        if in_time && self.has_room_at_front(&exchange) {
            let waiting = self.batch.len();
            self.engine.log.debug(|| format!("a request waits for its turn: {waiting} before it"));
            self.batch.add(exchange);
        } else if self.has_its_turn(&mut exchange) {
            self.batch.add(exchange);
        } else if in_time {
            self.refuse_newcomer(exchange);
        } else {
            self.refuse_late(exchange);
        }
    }

    /// A request that is not known to be quick waits in its lane, or is refused.
    pub(super) fn line_up(&mut self, lane: Lane, mut exchange: Box<Exchange>) {
        // Replies to earlier requests of its connection do not wait with it.
        exchange.send_pipelined();
        let share = self.share_of(&mut exchange);
        let before = self.lined_up.before(lane, share, self.order(exchange.arrived()));
        if !self.begins_at_once(lane) {
            if !self.is_lane_in_time(lane, before, &exchange) {
                return self.refuse_late(exchange);
            }
            if !self.has_room(lane, share, &exchange) {
                return self.refuse_newcomer(exchange);
            }
        }
        self.engine.log.debug(|| format!("a request waits for its turn: {before} before it"));
        self.lanes.wake();
        self.lined_up.push(lane, share, exchange);
    }

    /// True: no one who comes to a lane waits there, as there are threads for all that do, and they have the interpreter.
    fn begins_at_once(&self, lane: Lane) -> bool {
        self.lined_up.len() - self.lined_up.limited() < self.about_to_begin(lane)
    }

    /// So many of those in lanes do not wait for others: there are threads for them, or will be at once, and they have the
    /// interpreter.
    fn about_to_begin(&self, lane: Lane) -> usize {
        match lane {
            Lane::Limited(_) => 0,
            _ if self.engine.is_held() => 0,
            lane => self.lanes.room_for(lane) as usize,
        }
    }

    /// True: behind so many of a lane a request is begun in time.
    fn is_lane_in_time(&self, lane: Lane, before: usize, exchange: &Exchange) -> bool {
        match lane {
            Lane::Long if !self.lanes.admits_long() => {
                self.is_in_time(lane, before, &self.long_throughput, exchange)
            }
            // What takes much longer waits for any thread as well, as long as there are few of them.
            Lane::Slow | Lane::Long => self.is_in_time(lane, before, &self.slow_throughput, exchange),
            Lane::Limited(limit) => self
                .limited_throughput
                .get(usize::from(limit))
                .is_none_or(|throughput| self.is_in_time(lane, before, throughput, exchange)),
            Lane::Unknown | Lane::Express => self.is_in_time(lane, before, &self.throughput, exchange),
        }
    }

    /// The same behind so many at the front, where those wait that are quick, and all where no thread is kept for these.
    pub(super) fn is_in_time_at_front(&self, before: usize, exchange: &Exchange) -> bool {
        let lane = exchange.lane.lane.unwrap_or(Lane::Unknown);
        self.is_in_time(lane, before, &self.throughput, exchange)
    }

    /// True: there is room for a request in a lane, or another one has made it: who matters less, or who has most that wait.
    fn has_room(&mut self, lane: Lane, share: u8, exchange: &Exchange) -> bool {
        let waiting = self.lined_up.waiting(lane);
        let others = (self.lined_up.len() - self.lined_up.limited()).saturating_sub(waiting);
        let begin = self.about_to_begin(lane).saturating_sub(others);
        if (waiting.saturating_sub(begin) as u64) < self.engine.config.limits.queue {
            return true;
        }
        let engine = Arc::clone(&self.engine);
        let (by_hand, mounted) = (&engine.config.by_hand, &engine.config.mounted);
        let lesser = by_hand.lower(exchange.asked(mounted)).find_map(|lower| {
            self.lined_up.make_room_where(lane, |one| by_hand.priority(one.asked(mounted)) == lower)
        });
        match lesser.or_else(|| self.lined_up.make_room(lane, share)) {
            Some(last) => self.refuse_newcomer(last),
            None => return false,
        }
        true
    }

    /// The same of the front.
    fn has_room_at_front(&mut self, exchange: &Exchange) -> bool {
        if (self.batch.len() as u64) < self.engine.config.limits.queue {
            return true;
        }
        let engine = Arc::clone(&self.engine);
        let (by_hand, mounted) = (&engine.config.by_hand, &engine.config.mounted);
        let lesser = by_hand.lower(exchange.asked(mounted)).find_map(|lower| {
            self.batch.take_last_where(|one| by_hand.priority(one.asked(mounted)) == lower)
        });
        lesser.map(|last| self.refuse_newcomer(last)).is_some()
    }

    /// By what it is decided at a moment which end of a queue is next.
    pub(super) fn order(&self, now: Millis) -> Order {
        Order { now, after: self.engine.config.limits.newest_first_after }
    }

    /// How many go before one that comes to the front now.
    fn before_at_front(&self, exchange: &Exchange) -> usize {
        let since = self.batch.oldest().map(Exchange::arrived);
        self.order(exchange.arrived()).behind(since, self.batch.len())
    }

    /// Whoever begins next of the front comes first there: where its oldest has waited for too long, each second time the newest.
    pub(super) fn turn_front(&mut self, now: Millis) {
        if self.by_turns() && self.batch.len() > 1 {
            return self.turn_clients(now);
        }
        let order = self.order(now);
        let Some(oldest) = self.batch.oldest() else { return };
        if !order.is_overload(oldest.arrived()) {
            return;
        }
        self.front_end = order.next(oldest.arrived(), self.front_end);
        let last = self.batch.len() - 1;
        if self.front_end == End::Oldest || last == 0 {
            return;
        }
        if let Some(newest) = self.batch.at(last) {
            judged(newest, &self.engine.config.mounted, &mut self.lanes);
            if self.lanes.place_behind(&newest.lane, &self.lined_up) == Lane::Express {
                self.batch.put_newest_first();
                self.engine.counters.requests_newest_first.add();
            }
        }
    }

    /// True: behind so many, which are done so fast, a request is begun in time.
    fn is_in_time(&self, lane: Lane, before: usize, throughput: &Throughput, exchange: &Exchange) -> bool {
        let config = &self.engine.config;
        // Where threads are free and only the interpreter is held, throughput says nothing.
        if self.engine.is_held() {
            return true;
        }
        let Some(mut wait) = throughput.wait_of(before) else { return true };
        if may_shorten(lane) {
            wait = with_threads_to_come(wait, self.engine.threads(), self.engine.lined_up.threads_to_come());
        }
        let priority = config.by_hand.priority(exchange.asked(&config.mounted));
        is_patient(wait, config.limits.queue_timeout, priority)
    }

    /// Refuses one that would be begun too late.
    fn refuse_late(&mut self, exchange: Box<Exchange>) {
        self.engine.counters.requests_not_in_time.add();
        self.turn_away(exchange, &wire::QUEUE_TOO_SLOW);
    }

    /// Refuses one for which there is no room.
    pub(super) fn refuse_newcomer(&mut self, exchange: Box<Exchange>) {
        self.engine.counters.requests_not_queued.add();
        self.turn_away(exchange, &wire::QUEUE_FULL);
    }

    /// Where no watchdog comes by: what was read together may be more than is allowed to wait.
    pub fn shorten(&mut self) {
        self.batch.put_in_order();
        while self.batch.len() as u64 > self.engine.config.limits.queue
            && let Some(newest) = self.batch.take_newest()
        {
            self.refuse_newcomer(newest);
        }
    }

    /// When the oldest request has waited too long, in monotonic milliseconds; none: it may wait for ever.
    pub fn oldest_until(&self) -> Option<Millis> {
        self.waits_until(self.batch.oldest()?)
    }

    /// The same of any request.
    pub(super) fn waits_until(&self, exchange: &Exchange) -> Option<Millis> {
        let patience = self.engine.config.limits.queue_timeout;
        (patience > 0).then(|| exchange.arrived().saturating_add(patience).saturating_add(1))
    }

    fn turn_away(&mut self, mut exchange: Box<Exchange>, fault: &Fault) {
        self.engine.counters.refused(fault);
        self.engine
            .log
            .debug(|| format!("a request is not begun, and answered {}: {}", fault.status, fault.text));
        self.throughput.count_refused();
        exchange.times.ending = match *fault {
            wire::QUEUE_FULL => Ending::QueueFull,
            _ => Ending::QueueTimeout,
        };
        exchange.refuse(fault, &mut ReplyBuilder::new(), &self.engine);
        self.finished.push_back(exchange);
    }

    /// Refuses those that have waited too long.
    pub fn refuse_those_that_waited(&mut self, now: Millis) {
        let patience = self.engine.config.limits.queue_timeout;
        self.batch.put_in_order();
        while self.batch.oldest().is_some_and(|oldest| !may_begin(oldest, now, patience)) {
            self.reject_oldest();
        }
        while let Some(oldest) = self.lined_up.pop_if(|oldest| !may_begin(oldest, now, patience)) {
            self.reject(oldest);
        }
        self.refuse_held(now);
    }

    /// False for a request that has waited too long, or is overdue.
    pub(super) fn may_wait(&self, exchange: &Exchange, now: Millis) -> bool {
        may_begin(exchange, now, self.engine.config.limits.queue_timeout)
    }

    /// True: the oldest request is still worth beginning. False: it has been seen off, or there is none.
    pub fn is_worth_beginning(&mut self, now: Millis) -> bool {
        let Some(oldest) = self.batch.oldest() else { return false };
        let waited = now.saturating_sub(oldest.arrived());
        if waited < LOOK_AFTER_MS && !oldest.is_overdue() {
            return true;
        }
        if !oldest.client_has_left() {
            if may_begin(oldest, now, self.engine.config.limits.queue_timeout) {
                return true;
            }
            self.reject_oldest();
        } else {
            self.forget_oldest();
        }
        false
    }

    fn reject_oldest(&mut self) {
        if let Some(exchange) = self.batch.take_oldest() {
            self.reject(exchange);
        }
    }

    pub(super) fn reject(&mut self, exchange: Box<Exchange>) {
        if exchange.is_overdue() {
            // Its client has been answered already.
            return self.finished.push_back(exchange);
        }
        self.engine.counters.requests_waited_too_long.add();
        self.turn_away(exchange, &wire::QUEUE_TIMEOUT);
    }
}

impl Waits for Box<Exchange> {
    fn since(&self) -> Millis {
        self.arrived()
    }

    fn is_quick(&self) -> bool {
        self.lane.lane == Some(Lane::Express)
    }
}

/// False for a request that has waited too long, or is overdue.
fn may_begin(exchange: &Exchange, now: Millis, patience: Millis) -> bool {
    !(exchange.is_overdue() || is_too_long(now.saturating_sub(exchange.arrived()), patience))
}

/// A request that matters so much may be expected to wait for so long; a patience of zero has no end.
fn is_patient(wait: Millis, patience: Millis, priority: Priority) -> bool {
    patience == 0 || wait <= patience / priority.part_of_patience()
}

/// What waits there begins sooner if more threads come: not what is quick, nor what waits for others of its route.
fn may_shorten(lane: Lane) -> bool {
    matches!(lane, Lane::Slow | Lane::Long | Lane::Unknown)
}

/// How long one waits at the least that would wait for so long with these threads, if those come that may.
fn with_threads_to_come(wait: Millis, threads: u32, to_come: u32) -> Millis {
    wait.saturating_mul(threads.into()) / Millis::from(threads.max(to_come).max(1))
}

/// Longer than may be waited (limit `queue_timeout`); zero: nothing is too long.
fn is_too_long(waited: Millis, patience: Millis) -> bool {
    patience > 0 && waited > patience
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_wait_as_long_as_the_limit_says_and_no_longer() {
        assert_eq!([999, 1000, 1001].map(|waited| is_too_long(waited, 1000)), [false, false, true]);
        assert!(!is_too_long(Millis::MAX, 0), "no bound");
    }

    #[test]
    fn what_matters_less_is_refused_for_a_shorter_wait() {
        for (priority, longest) in [(Priority::Low, 250), (Priority::Normal, 500), (Priority::High, 1000)] {
            let found = [longest - 1, longest, longest + 1].map(|wait| is_patient(wait, 1000, priority));
            assert_eq!(found, [true, true, false], "{priority:?}");
            assert!(is_patient(Millis::MAX, 0, priority), "no bound");
        }
    }

    #[test]
    fn more_threads_shorten_the_wait_of_what_waits_for_a_thread_and_is_not_quick() {
        let lanes = [Lane::Slow, Lane::Long, Lane::Unknown, Lane::Express, Lane::Limited(0)];
        assert_eq!(lanes.map(may_shorten), [true, true, true, false, false]);
        for (threads, to_come, wait) in
            [(32, 128, 1_000), (32, 33, 3_878), (32, 32, 4_000), (32, 0, 4_000), (128, 32, 4_000), (0, 0, 0)]
        {
            assert_eq!(with_threads_to_come(4_000, threads, to_come), wait, "{threads} {to_come}");
        }
        assert_eq!(with_threads_to_come(Millis::MAX, 32, 128), Millis::MAX / 128, "it is bounded");
    }
}
