//! Requests that compute, as others of their routes have: where one does already the next waits until it is over, or another worker takes
//! it.
//!
//! Knows: who waits for that, in the order of arrival, and until when. Does not know: other workers (`share.rs`). Runs under the baton.
//!
//! Two that compute in one interpreter take turns: neither is over sooner for having begun, the first one is over later, and everybody else
//! waits for turns of both. So one waits for the other, but not for long: whoever is inside may take longer than others of its route.

use std::collections::VecDeque;

use reactor::sys::monotonic_us;
use wire::Millis;

use super::Requests;
use crate::connections::Connections;
use crate::exchange::Exchange;
use crate::handoff::To;
use crate::poller::Poller;

/// One begins when it has arrived so many times as long ago as it computes itself, wherever it has waited, so that it is over no later than
/// if the two had taken turns and a little more, ...
const WAITS_FOR: Millis = 2;
/// ... and no longer than this, ...
const LONGEST_MS: Millis = 250;
/// ... and of more than so many none waits.
const MOST: usize = 8;
/// While some wait it is looked so often whether another worker has become free.
const LOOK_MS: Millis = 3;

/// Those that wait.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// Each with the time until which it waits.
    waiting: VecDeque<(T, Millis)>,
    looked: Millis,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), looked: 0 }
    }
}

impl<T> Line<T> {
    /// How many wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= MOST
    }

    fn push(&mut self, one: T, until: Millis, now: Millis) {
        self.waiting.push_back((one, until));
        self.looked = now;
    }

    /// It is time to look whether the first one begins. `computing`: so many do.
    #[inline]
    fn is_due(&self, computing: u32, now: Millis) -> bool {
        !self.waiting.is_empty() && (computing == 0 || now >= self.looked + LOOK_MS)
    }

    fn take(&mut self) -> Option<(T, Millis)> {
        self.waiting.pop_front()
    }

    fn put_back(&mut self, one: T, until: Millis, now: Millis) {
        self.waiting.push_front((one, until));
        self.looked = now;
    }
}

/// How long (milliseconds) one waits that computes for so long (microseconds).
fn waits_for(computes_us: u64) -> Millis {
    (WAITS_FOR * computes_us / 1000).min(LONGEST_MS)
}

impl Requests {
    /// True: the next request computes, as others of its route have.
    #[inline]
    pub fn next_computes(&self) -> bool {
        self.batch.oldest().is_some_and(|next| next.lane.computes())
    }

    /// Gives the next request to another worker. False: it stays.
    #[cold]
    pub fn give_next(&mut self, to: To, connections: &mut Connections, poller: &mut Poller) -> bool {
        let Some(next) = self.batch.take_oldest() else { return false };
        let kept = give(next, to, connections, poller);
        let given = kept.is_none();
        if given {
            self.lanes.has_given(monotonic_us());
        }
        if let Some(kept) = kept {
            self.batch.put_back(0, kept);
        }
        given
    }

    /// The next request waits for one that is inside. False: it begins, as that would be for nothing or for too long.
    #[cold]
    pub fn next_waits(&mut self, poller: &mut Poller) -> bool {
        let Some(next) = self.batch.oldest() else { return false };
        let until = next.arrived() + waits_for(next.lane.computes_us());
        let left = until.saturating_sub(poller.now);
        // Whoever computes without the interpreter, as in a library of C, holds up nobody: this thread has just got it without a wait.
        if !self.engine.burns(poller.now)
            || left == 0
            || next.has_stream()
            || self.computing.is_full()
            || !self.lanes.is_one_over_by(monotonic_us() + left * 1000)
        {
            return false;
        }
        let Some(exchange) = self.batch.take_oldest() else { return false };
        // Replies to earlier requests of its connection do not wait with it.
        exchange.send_pipelined();
        self.engine.counters.requests_held_back.add();
        self.computing.push(exchange, until, poller.now);
        self.engine.computing.note_waiting(self.computing.len());
        poller.wake_soon(LOOK_MS);
        true
    }

    /// Some wait for one that computes, and it is time to look whether the first of them begins.
    #[inline]
    pub fn may_let_one_compute(&self, now: Millis) -> bool {
        self.computing.is_due(self.engine.computing(), now)
    }

    /// Lets the first of them begin where its time has come. `others`: another worker would take one.
    #[cold]
    pub fn let_one_compute(&mut self, others: bool, connections: &mut Connections, poller: &mut Poller) {
        let Some((exchange, until)) = self.computing.take() else { return };
        self.engine.computing.note_waiting(self.computing.len());
        let exchange = match others {
            true => give(exchange, To::Anybody, connections, poller),
            false => Some(exchange),
        };
        let Some(exchange) = exchange else { return };
        if self.engine.computing() > 0 && poller.now < until {
            self.computing.put_back(exchange, until, poller.now);
            self.engine.computing.note_waiting(self.computing.len());
            return poller.wake_soon(LOOK_MS);
        }
        self.goes_first(exchange);
    }

    /// Nobody leads for long: all of them wait as others do, and are refused as those are.
    pub fn nobody_waits_to_compute(&mut self) {
        while let Some((exchange, _)) = self.computing.waiting.pop_back() {
            self.goes_first(exchange);
        }
        self.engine.computing.note_waiting(0);
    }
}

/// Gives a request to another worker, if it may go.
fn give(
    exchange: Box<Exchange>,
    to: To,
    connections: &mut Connections,
    poller: &mut Poller,
) -> Option<Box<Exchange>> {
    // What has come from another worker would go to and fro.
    if exchange.has_come_over || exchange.has_stream() {
        return Some(exchange);
    }
    connections.give_request(exchange, to, poller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_for_twice_as_long_as_it_computes_and_for_a_quarter_of_a_second_at_most() {
        for (computes_us, waits) in
            [(5_000, 10), (40_000, 80), (124_999, 249), (125_000, 250), (125_001, 250), (250_000, 250)]
        {
            assert_eq!(waits_for(computes_us), waits, "{computes_us}");
        }
    }

    #[test]
    fn no_more_than_eight_wait() {
        let mut line = Line::default();
        for waiting in 0..=MOST + 1 {
            assert_eq!(line.is_full(), waiting >= MOST, "{waiting}");
            line.push(waiting, 1_080, 1_000);
        }
        assert_eq!(line.take(), Some((0, 1_080)), "the first one is the next");
        line.put_back(0, 1_080, 1_003);
        assert_eq!(line.take(), Some((0, 1_080)));
    }

    #[test]
    fn it_is_looked_at_once_when_nobody_computes_any_more_and_every_three_milliseconds_before() {
        let mut line = Line::default();
        assert!(!line.is_due(0, 1_000), "nobody waits");
        line.push((), 1_080, 1_000);
        for (computing, now, is_due) in [(1, 1_002, false), (1, 1_003, true), (0, 1_000, true)] {
            assert_eq!(line.is_due(computing, now), is_due, "{computing} {now}");
        }
        let (one, until) = line.take().expect("one waits");
        line.put_back(one, until, 1_003);
        assert!(!line.is_due(1, 1_005) && line.is_due(1, 1_006));
    }
}
