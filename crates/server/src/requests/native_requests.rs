//! Requests that files are the answer to, and probes: taken out of those that wait, and answered before the application is
//! asked.
//!
//! Knows: which of those that wait have been looked at. Does not know: files (`files`), or how the server is (`probes.rs`).
//! Runs under the baton, also on the watchdog's thread; under an event loop, on its thread. Nothing here needs the
//! interpreter.

use super::Requests;
use crate::exchange::Exchange;
use crate::files::Served;
use crate::poller::Poller;

/// After so many the driver's other work comes in between: what an event loop does, threads that wait for the interpreter.
const AT_A_TIME: u32 = 64;

impl Requests {
    /// There are files to be served, or probes to be answered.
    #[inline]
    pub fn answers_natively(&self) -> bool {
        self.natively
    }

    /// True for one that needs no application, as far as its path says.
    fn claims(&self, exchange: &Exchange) -> bool {
        self.probes.as_ref().is_some_and(|probes| probes.check(exchange).is_some())
            || self.files.as_ref().is_some_and(|files| files.claims(exchange))
    }

    /// Answers those that wait and are for files, or probes. They are quick, so that they overtake those for the application.
    pub fn answer_natively(&mut self, poller: &mut Poller) {
        if !std::mem::take(&mut self.unjudged) {
            return;
        }
        let mut place = 0;
        while let Some(exchange) = self.batch.get(place) {
            if exchange.for_application || !self.claims(exchange) {
                self.batch.at(place).into_iter().for_each(|exchange| exchange.for_application = true);
                place += 1;
                continue;
            }
            poller.allowance.count_request();
            self.natively_answered += 1;
            if let Some(exchange) = self.batch.take_at(place)
                && let Some(passed) = self.answer_one_natively(exchange)
            {
                self.batch.put_back(place, passed);
                place += 1;
            }
        }
    }

    /// Answers a request for a file, or a probe; given back where the application is asked.
    pub(super) fn answer_one_natively(&mut self, mut exchange: Box<Exchange>) -> Option<Box<Exchange>> {
        if let Some(probes) = &mut self.probes
            && let Some(check) = probes.check(&exchange)
        {
            // It leaves at once, so that no list of a batch has it.
            if let Some(buffer) = exchange.take_buffer() {
                self.batch.give_back(buffer);
            }
            probes.answer(&mut exchange, check);
            self.finished.push_back(exchange);
            return None;
        }
        let Some(files) = &mut self.files else { return Some(exchange) };
        if exchange.for_application || !files.claims(&exchange) {
            return Some(exchange);
        }
        let served = files.serve(exchange);
        self.file_is_served(served)
    }

    fn file_is_served(&mut self, served: Served) -> Option<Box<Exchange>> {
        match served {
            Served::Answered(exchange) => self.finished.push_back(exchange),
            Served::Waits => {}
            Served::Passed(mut exchange) => {
                exchange.for_application = true;
                return Some(exchange);
            }
        }
        None
    }

    /// Goes on with those that have waited for a disk.
    pub fn fetch_files(&mut self) {
        let Some(mut files) = self.files.take() else { return };
        files.fetch(|served| {
            if let Some(passed) = self.file_is_served(served) {
                self.batch.add(passed);
            }
        });
        self.files = Some(files);
    }

    /// One that was taken is not begun now: it comes next.
    pub fn put_back(&mut self, mut exchange: Box<Exchange>) {
        if let Some(stream) = exchange.stream() {
            stream.note_call(false);
        }
        if let Some(buffer) = exchange.take_buffer() {
            self.batch.give_back(buffer);
        }
        self.lanes.comes_back();
        if let Some(exchange) = self.leave_unbegun(exchange) {
            self.batch.put_back(0, exchange);
        }
    }

    /// So many were answered that the driver's other work is due; it is, once.
    pub fn native_pause(&mut self) -> bool {
        let due = self.natively_answered >= AT_A_TIME;
        if due {
            self.natively_answered = 0;
        }
        due
    }

    /// Something waits of which no edge will tell: requests, what is finished, replies.
    pub fn any_left(&self) -> bool {
        self.any_wait() || !self.finished.is_empty() || self.batch.has_replies()
    }
}
