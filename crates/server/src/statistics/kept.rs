//! What is kept of single requests: a span of one that is traced; a record, and a line of the log, of one that is remarkable.
//!
//! Knows: what is at hand when a request has ended. Does not know: how spans and records lie in memory, or which request is
//! remarkable. Runs where requests are settled.

use reactor::sys::{monotonic_ns, thread_id, wall_us};
use wire::{Framing, Head, trace_state};

use super::layout::Meta;
use super::phase::{Parts, Times};
use super::routes;
use super::slots::Slots;
use super::{Block, Counted, Known, Statistics, records, spans};
use crate::slow_requests::Outcome;

/// So often (nanoseconds) one request of all is kept in the recorder; and what was not kept meanwhile, as nothing had come, is
/// made up for so far back: where little goes on, whoever looks sees the newest, each of them.
const TRACE_EVERY_NS: u64 = 100_000_000;
const TRACE_BACK_NS: u64 = 39 * TRACE_EVERY_NS;

/// When the next one is kept, after one at `sent` which could be kept from `due` on.
fn next_trace(due: u64, sent: u64) -> u64 {
    // Remarkable ones come before they are due.
    due.clamp(sent.saturating_sub(TRACE_BACK_NS), sent) + TRACE_EVERY_NS
}

impl Statistics {
    /// The application has done with a request, and its client has not taken all of the reply: that is sent from now on.
    #[cold]
    pub fn is_left(&self, times: &Times) {
        if let Some(block) = &self.block
            && times.begun != 0
        {
            // What its phases will say when it has ended.
            let app = times.parts(monotonic_ns()).app;
            Slots::is_left(block.words, times.slot, times.begun.max(times.complete) + app);
        }
    }
}

impl Block {
    /// A request took so long that it is remarkable.
    #[inline]
    pub(super) fn is_slow(&self, head: &Head, reached: u64) -> bool {
        reached >= self.slow && self.requests.is_slow(head, reached)
    }

    /// It is part of a trace: where that is recorded, a span is left of it.
    #[inline(never)]
    pub(super) fn trace(&self, ended: &Counted<'_>, parts: &Parts, (route, https): (u16, bool)) {
        let Some((tracing, spans)) = &self.tracing else { return };
        let (times, head, number, rare) = (ended.times, ended.head, ended.number, ended.times.rare());
        let (ids, link) = match &rare.trace {
            Some(trace) if !trace.sampled => return,
            Some(trace) => (trace.ids(), trace.link),
            None => (tracing.root(number).ids(), None),
        };
        // Only of a trace that a trusted sender has begun.
        let follows = rare.trace.as_ref().is_some_and(|trace| trace.parent != 0);
        let state = match follows && head.block.has_trace_state() {
            true => trace_state(&head.block, spans::STATE_BYTES),
            false => Vec::new(),
        };
        let room = spans.put(&spans::Ended {
            ids,
            link,
            state: &state,
            first: times.first,
            parts,
            upstream: rare.upstream,
            cpu: rare.cpu,
            answer: spans::Answer {
                status: ended.status,
                ending: times.ending as u8,
                version: head.version,
                https,
            },
            number,
            bytes: (ended.written, if let Framing::Length(length) = head.framing { length } else { 0 }),
            name: match &rare.id {
                Some(given) => spans::Name::Given(given),
                None if self.ids.is_some() => spans::Name::Trace,
                None => spans::Name::Nothing,
            },
            // What a framework has said is a route, and what was made of a path is none (OpenTelemetry's http.route).
            route: routes::told(self.words, usize::from(route)),
            line: head.method_and_path(),
        });
        self.count(if room { Meta::Spans } else { Meta::SpansDropped }, 1);
    }

    /// Its reply, or a part of it, has waited until its client took more.
    fn waited_for_client(&self, times: &Times) -> bool {
        times.rare().held_up > 0 || Slots::is_being_sent(self.words, times.slot)
    }

    /// It is remarkable, or its turn to be kept has come.
    #[cold]
    pub(super) fn keep(
        &mut self,
        ended: &Counted<'_>,
        (sent, reached): (u64, u64),
        (known, route): (Known, u16),
    ) {
        let failed = known.failed;
        let (spans, slow) = (ended.times.spans(sent), self.is_slow(ended.head, reached));
        let tracing = self.tracing.as_ref().map(|(tracing, _)| tracing);
        let id = self.ids.as_ref().map(|ids| ended.times.id(ids, tracing, ended.number));
        if failed && ended.times.begun != 0 {
            routes::count_failed(self.words, route);
        }
        let mut stood = String::new();
        if slow {
            let mut request = String::from_utf8_lossy(ended.head.method_and_path()).into_owned();
            if let Some(id) = &id {
                request = format!("{request} (id {id})");
            }
            let outcome = Outcome {
                status: ended.status,
                ending: ended.times.ending,
                reached,
                spans: &spans,
                waited_for_client: self.waited_for_client(ended.times),
            };
            stood = self.requests.stood(ended.number);
            self.log.warn(outcome.told(&request, &stood));
        }
        self.next_trace = next_trace(self.next_trace, sent);
        let trace = tracing.and_then(|tracing| ended.times.recorded_in(tracing, ended.number));
        let record = records::Record {
            number: ended.number,
            wall: wall_us(),
            status: ended.status,
            ending: ended.times.ending as u8,
            thread: thread_id(),
            sent: ended.written,
            series: known.key,
            spans,
            id: id.map_or_else(String::new, |id| id.to_string()),
            trace,
            line: String::new(),
            remarkable: failed || slow,
            died: None,
            stood,
        };
        records::put(self.words, &record, ended.head.method_and_path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_after_a_pause_and_then_one_now_and_then() {
        const MS: u64 = 1_000_000;
        let (mut due, mut now) = (0, 100_000 * MS);
        let mut kept_of = |count: usize, apart: u64| {
            (0..count)
                .filter(|_| {
                    now += apart;
                    let is_kept = now >= due;
                    if is_kept {
                        due = next_trace(due, now);
                    }
                    is_kept
                })
                .count()
        };
        assert_eq!(kept_of(40, MS), 40, "the first");
        assert_eq!(kept_of(10_000, MS), 100, "ten a second");
        assert_eq!(kept_of(1, 10_000 * MS) + kept_of(99, MS), 40, "after a pause");
        assert_eq!(
            next_trace(500 * MS, 400 * MS),
            500 * MS,
            "what is remarkable takes nothing from those to come"
        );
    }
}
