//! Every thread is inside the application: requests wait, and the loop's health is kept.
//!
//! Knows: what needs no thread of the application's. Does not know: how long is too long (`requests/queue.rs`). Runs
//! under the baton, on the watchdog's thread, which needs no interpreter: an application that holds every thread, or
//! the interpreter itself, stops neither timeouts nor refusals. Under an event loop, on its thread.

use super::Loop;
use crate::baton::{Lead, Next};
use crate::engine::Stage;

/// How many things one pass goes through: peers that send without end get no more of it.
const VISITS: u32 = 4096;
/// How many connections one look accepts.
const ACCEPTS: u32 = 256;

impl Loop {
    /// Does what needs no thread of the application's: reads, queues, refuses, closes. True:
    /// the loop has ended.
    pub(crate) fn work_without_threads(&mut self) -> bool {
        self.requests.wake_lanes();
        self.requests.nobody_waits_to_compute();
        if self.engine.is_held() {
            // Who can leave does, before what they ask is read here, where nobody answers it.
            self.poller.look_at_clock();
            self.update_listening();
        }
        // What the last look found is told once: it comes before another look.
        self.read_what_is_there();
        self.look();
        self.requests.measure(self.poller.now);
        self.requests.look_at_lanes(&mut self.poller);
        self.update_listening();
        self.read_what_is_there();
        for _ in 0..ACCEPTS {
            if !self.acceptor.is_for_whoever_comes() {
                break;
            }
            let request = self.acceptor.accept_one(&mut self.connections, &mut self.poller);
            self.requests.enqueue(request);
        }
        if self.requests.answers_natively() {
            // Those that were read while there was a thread.
            self.requests.answer_natively(&mut self.poller);
        }
        self.requests.refuse_those_that_waited(self.poller.now);
        while self.queue_next() {}
        self.engine.note_queued(self.requests.len(), self.requests.limited());
        self.requests.say_who_waits(self.poller.now);
        self.connections.settle_over(&mut self.poller);
        self.is_over()
    }

    /// Does what the last look found, as far as it is for files or a probe: that needs no interpreter, so that nobody waits
    /// for whoever has it. False: that was all, and the loop can wait again. True: there is something for a thread.
    pub(super) fn answer_natively_alone(&mut self) -> bool {
        if self.engine.stage() != Stage::Serving {
            return true;
        }
        self.woken = false;
        match self.next() {
            Next::Ready(exchange) => {
                self.requests.put_back(exchange);
                return true;
            }
            Next::Ended => return true,
            Next::Quiet => {}
        }
        // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
        self.engine.publish(self.poller.now);
        // What has come back from the interpreter wants a thread that leads.
        self.woken
    }

    /// Goes through all that has happened, as far as there is no end to it.
    fn read_what_is_there(&mut self) {
        for _ in 0..VISITS {
            if self.queue_next() {
                // It waits, or was refused.
            } else if self.requests.any_replies() {
                self.send_replies();
            } else if let Some(happening) = self.poller.next() {
                let request = self.look_at(happening);
                self.requests.enqueue(request);
            } else if let Some(request) = self.connections.resume_next(&mut self.poller) {
                self.requests.enqueue(request);
            } else {
                break;
            }
        }
    }

    fn queue_next(&mut self) -> bool {
        if let Some(opened) = self.connections.next_opened() {
            self.requests.enqueue(Some(opened));
            return true;
        }
        self.requests.queue_next(&mut self.connections, &mut self.poller)
    }

    /// Watches the listeners, or leaves them to other workers, and with them what waits here; where nobody is connected, lets go
    /// of what the last requests needed. Called before every wait.
    #[inline]
    pub(crate) fn update_listening(&mut self) {
        self.acceptor.update_listening(&mut self.connections, &mut self.poller);
        if self.requests.len() > 0 {
            self.give_requests();
        } else if self.connections.is_empty() {
            self.engine.is_deserted(self.poller.now);
        }
    }

    /// Requests that wait here for a thread go to workers that have one.
    #[cold]
    fn give_requests(&mut self) {
        let most = self.acceptor.may_give_requests(&mut self.connections, self.poller.now);
        if most > 0 && self.requests.give_away(most, &mut self.connections, &mut self.poller) > 0 {
            // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
            self.engine.publish(self.poller.now);
        }
    }

    /// Where no watchdog comes by: what was read together may be more than is allowed to wait,
    /// replies do not wait for requests that do, and the oldest is looked at in time.
    pub(crate) fn queue_alone(&mut self) {
        self.requests.shorten();
        while self.queue_next() {}
        self.engine.note_queued(self.requests.len(), self.requests.limited());
        self.requests.say_who_waits(self.poller.now);
        if let Some(until) = self.requests.oldest_until() {
            self.poller.wake_by(until);
        }
        self.requests.relieve_batch();
    }
}
