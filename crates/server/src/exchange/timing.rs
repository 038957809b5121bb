//! When the phases of an exchange begin, and what is left of it to be counted.
//!
//! Knows: which moments are stamped, and that nobody looks where none was. Does not know: what becomes of the times
//! (`statistics`). Runs on the thread that owns the exchange.

use std::sync::Arc;

use reactor::sys::{monotonic_ns, own_bytes_again, thread_cpu_ns};
use wire::gateway::Given;
use wire::proxy::Proxied;
use wire::{TraceParent, Trust};

use super::Exchange;
use crate::downstream::Downstream;
use crate::engine::{Config, Engine};
use crate::pipelined::PipelinedReplies;
use crate::request_id::{RequestId, RequestIds};
use crate::statistics::phase::{NAMES, NOT_MEASURED, Phase, Spans, Weighed};
use crate::statistics::step_clock::StepClock;
use crate::statistics::{self, Counted, Ended, Statistics};
use crate::tracing::{Trace, Tracing};

/// The names that proxies use for the moment at which they have had a request.
const REQUEST_START: [&str; 2] = ["x-request-start", "x-queue-start"];

/// A connection's token, and which of its streams; zero where it has none.
pub(crate) type Replying = (u64, u32);

impl Exchange {
    /// It is complete. `first`: the stamp of its first byte, zero: it came with an earlier one.
    #[inline]
    pub(crate) fn arrives(&mut self, statistics: &Statistics, first: u64, engine: &Engine) {
        let config = &engine.config;
        if let Some(tracing) = &config.tracing {
            self.is_traced(tracing);
        }
        if let Some(ids) = &config.request_id {
            self.has_name(ids, config);
        }
        if statistics.is_on() {
            statistics.arrived(&mut self.times, first);
            if statistics::is_new(&self.head) {
                self.note_scheme(config);
            }
            if engine.scheme_comes_beside {
                self.times.https = self.is_said_to_be_https(config);
            }
            if self.head.block.has_request_start() {
                self.came_by(statistics, &config.trust);
            }
        }
    }

    /// By what is said beside its head, which may be another thing each time.
    #[inline(never)]
    fn is_said_to_be_https(&self, config: &Config) -> bool {
        config.proxy_tls && self.proxied().is_some_and(Proxied::was_encrypted)
            || self.given().is_some_and(Given::is_https)
    }

    /// Its peer is one whose forwarding headers are believed: a block is another one there.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.head.block.variant & 1 == 1
    }

    #[inline(never)]
    fn is_traced(&mut self, tracing: &Tracing) {
        let block = &self.head.block;
        match if block.has_trace_parent() { TraceParent::of(block) } else { None } {
            None => self.times.traced = tracing.begins(self.number),
            Some(given) => {
                if let Some(trace) = tracing.follows(given, self.is_trusted(), self.number) {
                    self.times.rare_mut().trace = Some(trace);
                }
            }
        }
    }

    /// Only what somebody else has named is noted: our own names follow from its number.
    #[inline(never)]
    fn has_name(&mut self, ids: &RequestIds, config: &Config) {
        if self.is_trusted()
            && let Some(given) = ids.given(&self.head.block)
        {
            self.times.rare_mut().id = Some(given.into());
        }
        if let Some(deadline) = &self.deadline {
            deadline.request.is_named(self.times.id(ids, config.tracing.as_ref(), self.number));
        }
    }

    #[cold]
    fn came_by(&mut self, statistics: &Statistics, trust: &Trust) {
        if trust.trusts(&self.from())
            && let Some(said) = REQUEST_START.iter().find_map(|name| self.head.block.get(name))
        {
            statistics.came_by(&mut self.times, said);
        }
    }

    /// It is begun on this thread, which has had the interpreter since `back`.
    #[inline]
    pub(crate) fn begins(&mut self, statistics: &mut Statistics, back: u64) {
        statistics.begin(&self.head, &mut self.times, (self.number, back));
    }

    /// Where the statistics say that it is inside; [`NO_SLOT`](crate::statistics::phase::NO_SLOT): nowhere.
    #[inline]
    pub fn slot(&self) -> u16 {
        self.times.slot
    }

    /// What names it, where requests have names.
    #[inline]
    pub fn id(&self, config: &Config) -> Option<RequestId<'_>> {
        let ids = config.request_id.as_ref()?;
        Some(self.times.id(ids, config.tracing.as_ref(), self.number))
    }

    /// Which trace records it, and as which span.
    #[inline]
    pub fn recorded_in(&self, config: &Config) -> Option<(u128, u64)> {
        config.tracing.as_ref().and_then(|tracing| self.times.recorded_in(tracing, self.number))
    }

    /// What its application is told of that.
    #[inline]
    pub fn told(&self, config: &Config) -> Option<TraceParent> {
        let tracing = config.tracing.as_ref()?;
        match self.times.traced {
            true => Some(tracing.root(self.number).told()),
            false => self.times.rare().trace.as_deref().map(Trace::told),
        }
    }

    /// What its client says of a trace (`tracestate`) is not said of the one that its application is told of: that begins here
    /// (Trace Context §3.2.4 and §3.3.1.5).
    #[inline]
    pub fn leaves_trace_state(&self) -> bool {
        self.head.block.has_trace_state()
            && self.times.rare().trace.as_deref().is_none_or(|trace| trace.parent == 0)
    }

    /// Its application is told by what names it is known: its own, and its trace's.
    #[inline]
    pub fn has_names(&self, config: &Config) -> bool {
        config.request_id.is_some() || config.tracing.is_some() && self.times.has_trace()
    }

    /// A framework has said which route it is for.
    pub fn is_for_route(&mut self, route: Option<Box<str>>) {
        if route.is_some() {
            self.times.rare_mut().route = route;
        }
    }

    /// What is counted of it, as far as it has come.
    #[inline]
    pub(crate) fn counted(&self) -> Counted<'_> {
        let (number, written, status) = (self.number, self.written, self.status);
        Counted { head: &self.head, times: &self.times, number, written, status }
    }

    /// The same, to be kept until its reply is sent.
    #[cold]
    pub(crate) fn take_counted(&mut self) -> Ended {
        let times = std::mem::take(&mut self.times);
        let (number, written, status) = (self.number, self.written, self.status);
        Ended { head: Arc::clone(&self.head), times, number, written, status }
    }

    /// Its reply waits among those of its connection, as the next request is there: what names that, and they.
    #[inline]
    pub(crate) fn waits_with(&self) -> Option<(u64, &Arc<PipelinedReplies>)> {
        let connection = self.downstream.connection()?;
        let replies = connection.sending.pipelined.as_ref()?;
        let is_all = !replies.is_empty()
            && self.batched.as_ref().is_none_or(Vec::is_empty)
            && !connection.waits_for_its_peer();
        is_all.then_some((connection.token, replies))
    }

    /// Its reply waits until those of its batch are sent.
    #[inline]
    pub(crate) fn is_batched(&self) -> bool {
        match &self.downstream {
            Downstream::Connection(_) => self.batched.as_ref().is_some_and(|reply| !reply.is_empty()),
            Downstream::Stream(stream) => stream.waits(),
        }
    }

    /// Where replies have waited for the one to this request, if any have. None: they are not sent, as its client is gone.
    #[inline]
    pub(crate) fn pipelined(&self) -> Option<&PipelinedReplies> {
        self.downstream.pipelined().map(Arc::as_ref)
    }

    /// Its client has not taken all of its reply.
    #[inline]
    pub(crate) fn is_unsent(&self) -> bool {
        match &self.downstream {
            Downstream::Connection(connection) => connection.waits_for_its_peer(),
            Downstream::Stream(stream) => stream.has_left_some(),
        }
    }

    /// What tells its reply from others that wait.
    pub(crate) fn replying(&self) -> Replying {
        match &self.downstream {
            Downstream::Connection(connection) => (connection.token, 0),
            Downstream::Stream(stream) => (stream.shared().origin().token, stream.id()),
        }
    }

    /// Its phases are timed.
    #[inline]
    fn is_timed(&self) -> bool {
        self.times.begun != 0
    }

    /// The application is about to be called on this thread: what the thread has used of a processor, if it is measured.
    #[inline]
    pub fn call_begins(&mut self, engine: &Engine) -> u64 {
        if !self.times.measures {
            return NOT_MEASURED;
        }
        if self.times.weighs {
            self.weigh(engine);
        }
        thread_cpu_ns()
    }

    /// The call has come back.
    #[inline]
    pub fn call_ended(&mut self, cpu: u64, engine: &Engine) {
        if self.is_timed() {
            self.times.ended = monotonic_ns();
            if cpu != NOT_MEASURED {
                self.used_cpu(thread_cpu_ns().saturating_sub(cpu));
                if self.times.weighs {
                    self.weigh(engine);
                }
            }
        }
    }

    /// Looks how much memory the worker has, before and after a call: what has come between is this request's, where no other
    /// was inside meanwhile, or came.
    #[cold]
    fn weigh(&mut self, engine: &Engine) {
        let alone = engine.in_flight() == 1;
        let requests = engine.counters.requests_total.get();
        let found = own_bytes_again().filter(|_| alone);
        let weighed = &mut self.times.rare_mut().weighed;
        *weighed = match (*weighed, found) {
            (Weighed::No, Some(resident)) => Weighed::Since { resident, requests },
            (Weighed::Since { resident, requests: before }, Some(now)) if before == requests => {
                Weighed::Grown(now.cast_signed() - resident.cast_signed())
            }
            _ => Weighed::No,
        };
    }

    /// Under an event loop: it is begun now, though it was given out earlier. Whether the thread's clock is read for it, and
    /// how much memory the worker has.
    #[inline]
    pub fn begins_now(&mut self) -> (bool, bool) {
        if self.is_timed() {
            self.times.begun = monotonic_ns();
        }
        (self.times.measures, self.times.weighs)
    }

    /// Under an event loop: its reply is complete, or never will be.
    #[inline]
    pub fn ends_now(&mut self) {
        if self.is_timed() && self.times.ended == 0 {
            self.times.ended = monotonic_ns();
        }
    }

    /// What is known of its steps up to now.
    pub fn has_used(&mut self, clock: &StepClock) {
        if let Some(ns) = clock.so_far() {
            self.used_cpu(ns);
        }
        if let Some(bytes) = clock.grown() {
            self.times.rare_mut().weighed = Weighed::Grown(bytes);
        }
    }

    /// How much of a processor its call has used, in microseconds, if that was measured.
    pub fn used_cpu_us(&self) -> Option<u64> {
        Some(self.times.rare().cpu).filter(|&ns| ns != NOT_MEASURED).map(|ns| ns / 1000)
    }

    /// Nanoseconds of a processor.
    fn used_cpu(&mut self, ns: u64) {
        self.times.rare_mut().cpu = ns;
    }

    /// How long its phases took until now; none where nobody looks, or no application was called.
    #[cold]
    pub(super) fn spans_so_far(&self) -> Option<Spans> {
        let now = if self.times.ended == 0 { monotonic_ns() } else { self.times.ended };
        self.is_timed().then(|| self.times.spans(now))
    }

    /// The value of `Server-Timing`, in milliseconds: where its time went until its head was made.
    #[cold]
    pub(super) fn server_timing(&self) -> Option<Vec<u8>> {
        let spans = self.spans_so_far()?;
        let mut told = Vec::with_capacity(96);
        for phase in [Phase::Receive, Phase::Queue, Phase::Gil, Phase::App] {
            let ns = spans[phase as usize];
            if ns > 0 {
                let comma: &[u8] = if told.is_empty() { b"" } else { b", " };
                told.extend_from_slice(comma);
                told.extend_from_slice(NAMES[phase as usize].as_bytes());
                told.extend_from_slice(b";dur=");
                push_milliseconds(&mut told, ns / 1000);
            }
        }
        (!told.is_empty()).then_some(told)
    }

    /// The last of its reply is offered to the kernel.
    #[inline]
    pub(super) fn reply_begins(&mut self) {
        if self.is_timed() && self.times.reply == 0 {
            self.times.reply = monotonic_ns();
        }
    }

    /// A part of its reply is offered to the kernel, and more may follow.
    #[inline]
    pub(super) fn reply_starts(&mut self) {
        if self.is_timed() && self.times.rare().started == 0 {
            self.times.rare_mut().started = monotonic_ns();
        }
    }

    /// Its thread has waited for the client since then.
    pub fn was_held_up(&mut self, since: u64) {
        if self.is_timed() && self.times.reply == 0 {
            self.times.rare_mut().held_up += monotonic_ns().saturating_sub(since);
        }
    }
}

/// Microseconds as milliseconds with three decimals, without the formatting machinery: this is done for every reply.
fn push_milliseconds(out: &mut Vec<u8>, mut us: u64) {
    let mut text = [b'0'; 24];
    let mut at = text.len();
    while at > text.len() - 5 || us > 0 {
        at -= 1;
        if at == text.len() - 4 {
            text[at] = b'.';
            continue;
        }
        text[at] = b'0' + (us % 10) as u8;
        us /= 10;
    }
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_decimals() {
        for (us, text) in [
            (0, "0.000"),
            (7, "0.007"),
            (1000, "1.000"),
            (41_208, "41.208"),
            (u64::MAX, "18446744073709551.615"),
        ] {
            let mut out = Vec::new();
            push_milliseconds(&mut out, us);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
