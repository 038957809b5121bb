//! Requests of streams whose connection has its share of threads: held until it has fewer.
//!
//! Knows: who is held, in the order of arrival. Does not know: lanes: whoever is let go has a route, and goes through them
//! as any other. Runs under the baton.

use std::sync::Arc;

use wire::Millis;

use super::Requests;
use crate::exchange::Exchange;
use crate::multiplexed::Multiplexed;
use crate::poller::Poller;

impl Requests {
    /// The oldest has a stream. True: it may begin. False: it is wanted by nobody, or held. A quick one is held as well: a
    /// client that reads nothing makes any call long.
    #[inline(never)]
    pub(super) fn stream_may_begin(&mut self, poller: &mut Poller) -> bool {
        let Some(stream) = self.batch.at(0).and_then(Exchange::stream) else { return false };
        if !stream.is_open() {
            self.forget_oldest();
            return false;
        }
        if self.engine.config.evented || stream.shared().room_for_calls(self.engine.threads()) > 0 {
            return true;
        }
        if let Some(oldest) = self.batch.take_oldest() {
            let place = self.held.partition_point(|held| held.number() < oldest.number());
            self.held.insert(place, oldest);
            self.look_at_held(poller);
        }
        false
    }

    /// A stream is over: others of its connection may be begun, as many as there may be threads for.
    pub(super) fn let_some_begin(&mut self, shared: &Arc<Multiplexed>) {
        if self.held.is_empty() {
            return;
        }
        let is_of = |exchange: &mut Box<Exchange>| {
            exchange.stream().is_some_and(|stream| Arc::ptr_eq(stream.shared(), shared))
        };
        for _ in 0..shared.room_for_calls(self.engine.threads()) {
            let Some(place) = self.held.iter_mut().position(is_of) else { return };
            let exchange = self.held.remove(place);
            self.add(exchange);
        }
    }

    /// Refuses those that have waited too long, and sees to it that somebody looks when the next one has.
    pub fn look_at_held(&mut self, poller: &mut Poller) {
        if self.held.is_empty() {
            return;
        }
        self.refuse_held(poller.now);
        if let Some(until) = self.held.front().and_then(|oldest| self.waits_until(oldest)) {
            poller.wake_by(until);
        }
    }

    /// Refuses those that have waited too long.
    pub(super) fn refuse_held(&mut self, now: Millis) {
        while self.held.front().is_some_and(|oldest| !self.may_wait(oldest, now))
            && let Some(oldest) = self.held.pop_front()
        {
            self.reject(oldest);
        }
    }
}
