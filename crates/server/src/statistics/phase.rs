//! The phases of a request, and when each began: what is stamped on its way.
//!
//! Knows: order and names. Does not know: clocks, or who stamps. An exchange carries its [`Times`]; who owns the exchange
//! writes them.
//!
//! ```text
//!   upstream │ receive │ gil │ queue │ app = cpu + off │ send
//!            first     complete      begun             ended, or the reply's first byte
//! ```

use super::layout::PHASE_COUNT;
use crate::request_id::{RequestId, RequestIds};
use crate::tracing::{Trace, Tracing};

/// Where a request spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// In front of the server, as a trusted proxy's X-Request-Start has it.
    Upstream,
    /// From its first byte to its last.
    Receive,
    /// From there until a thread has taken it, but for the next.
    Queue,
    /// Waiting for the interpreter's lock before it was begun.
    Gil,
    /// Inside the application.
    App,
    /// Of that, what its thread has used of a processor; known of a part of all requests.
    Cpu,
    /// Of that, what it has not: it waited for something, or for its turn. Known of the same.
    Off,
    /// From the reply's first byte until the kernel has its last.
    Send,
    /// From the request's first byte to there.
    Total,
}

/// Their names, by their places.
pub const NAMES: [&str; PHASE_COUNT] =
    ["upstream", "receive", "queue", "gil", "app", "cpu", "off", "send", "total"];

/// Where the thread's clock was not read.
pub const NOT_MEASURED: u64 = u64::MAX;
/// A request without a slot.
pub const NO_SLOT: u16 = 0;

/// Why a request did not end as its application wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ending {
    #[default]
    Answered,
    /// Its deadline has passed (`request_timeout`).
    Timeout,
    /// It has waited too long, or would have (`queue_timeout`).
    QueueTimeout,
    /// Too many waited (`queue`).
    QueueFull,
    /// The client had left before its reply was complete.
    ClientGone,
    /// Its worker died.
    WorkerDied,
    /// It was no request, or none that is answered.
    Refused,
    /// Its reply had begun, and was cut off: the application has failed, or was ended.
    CutOff,
}

/// What `error_type` says of each, where that is not the status.
pub const ENDINGS: [&str; 8] =
    ["", "timeout", "queue_timeout", "queue_full", "client_gone", "worker_died", "refused", "cut_off"];

/// When what began, in monotonic nanoseconds; zero: it did not, or nobody looks. It fits into a line of a cache, as every
/// request carries it from its first byte to its last.
#[derive(Debug, Default)]
pub struct Times {
    pub first: u64,
    pub complete: u64,
    pub begun: u64,
    /// The first byte of the reply was offered to the kernel, where that was inside the application's call.
    pub reply: u64,
    pub ended: u64,
    /// How long it waited for the interpreter's lock.
    pub gil: u64,
    /// What few have.
    pub rare: Option<Box<Rare>>,
    /// One more than its slot; zero: it has none.
    pub slot: u16,
    /// The thread's clock is to be read, ...
    pub measures: bool,
    /// ... and how much memory the worker has.
    pub weighs: bool,
    /// Whoever handed it on says that it came by https.
    pub https: bool,
    /// A trace begins with it, and is recorded.
    pub traced: bool,
    pub ending: Ending,
}

/// By how much the worker's memory has grown while a request was inside the application, and no other was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighed {
    /// Nobody has looked, or others were inside, too.
    No,
    /// So many bytes were there when its call began, and so many requests had come.
    Since {
        resident: u64,
        requests: u64,
    },
    Grown(i64),
}

/// What is known of few requests.
#[derive(Debug)]
pub struct Rare {
    /// The first part of a reply in parts was offered to the kernel.
    pub started: u64,
    /// How long these took, in nanoseconds.
    pub upstream: u64,
    /// Its thread waited for the client to take more of the reply.
    pub held_up: u64,
    pub cpu: u64,
    pub weighed: Weighed,
    /// What a framework has said of its route, and by what a proxy has named it.
    pub route: Option<Box<str>>,
    pub id: Option<Box<str>>,
    /// Which trace it is part of, where that has begun elsewhere.
    pub trace: Option<Box<Trace>>,
}

impl Default for Rare {
    fn default() -> Self {
        NOTHING_RARE
    }
}

/// What is said of a request without any of it.
const NOTHING_RARE: Rare = Rare {
    started: 0,
    upstream: 0,
    held_up: 0,
    cpu: NOT_MEASURED,
    weighed: Weighed::No,
    route: None,
    id: None,
    trace: None,
};
static NOTHING: Rare = NOTHING_RARE;

const _: () = assert!(size_of::<Times>() <= 64);

/// How long each phase took, in nanoseconds, by their places.
pub type Spans = [u64; PHASE_COUNT];

impl Times {
    /// What few have of it.
    #[inline]
    pub fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    /// The same, to be said.
    #[inline]
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The client has not got all of the reply. Where that had been cut off before it is no matter: the application has
    /// failed, whatever the client did then.
    #[cold]
    pub fn client_is_gone(&mut self) {
        if self.ending != Ending::CutOff {
            self.ending = Ending::ClientGone;
        }
    }

    /// It is part of a trace of which somebody is told.
    #[inline]
    pub fn has_trace(&self) -> bool {
        self.traced || self.rare.as_ref().is_some_and(|rare| rare.trace.is_some())
    }

    /// What it is in a trace. `number`: which request of its worker it is.
    #[inline]
    pub fn trace(&self, tracing: &Tracing, number: u64) -> Option<Trace> {
        if self.traced { Some(tracing.root(number)) } else { self.rare().trace.as_deref().copied() }
    }

    /// Which trace records it, and as which span.
    pub fn recorded_in(&self, tracing: &Tracing, number: u64) -> Option<(u128, u64)> {
        self.trace(tracing, number).filter(|trace| trace.sampled).map(|trace| (trace.id, trace.span))
    }

    /// What names it, where requests have names: a proxy's word, its trace's where that is recorded, or our own.
    #[inline]
    pub fn id(&self, ids: &RequestIds, tracing: Option<&Tracing>, number: u64) -> RequestId<'_> {
        match &self.rare {
            Some(rare) => self.rare_id(rare, (ids, tracing), number),
            // A trace that begins here has that number, too.
            None => ids.own(number),
        }
    }

    fn rare_id<'a>(
        &'a self,
        rare: &'a Rare,
        (ids, tracing): (&RequestIds, Option<&Tracing>),
        number: u64,
    ) -> RequestId<'a> {
        let trace = || tracing.and_then(|tracing| self.trace(tracing, number)).filter(|trace| trace.sampled);
        match &rare.id {
            Some(given) => RequestId::Given(given.as_ref().into()),
            None => trace().map_or_else(|| ids.own(number), |trace| RequestId::of_trace(trace.id)),
        }
    }

    /// The phases of a request whose last byte the kernel has had at `sent`. They add up to the last of them: what was
    /// never begun has only waited.
    #[inline]
    pub fn parts(&self, sent: u64) -> Parts {
        let begun = if self.begun == 0 { sent } else { self.begun.max(self.complete) };
        let ended = if self.ended == 0 { sent } else { self.ended.max(begun) };
        let sent = sent.max(ended);
        // What it sent inside the call is not the application's time.
        let left = if self.reply == 0 { ended } else { self.reply.clamp(begun, ended) };
        let held_up = self.rare.as_ref().map_or(0, |rare| rare.held_up.min(left - begun));
        let waited = begun.saturating_sub(self.complete);
        let gil = self.gil.min(waited);
        Parts {
            receive: self.complete.saturating_sub(self.first),
            queue: waited - gil,
            gil,
            app: left - begun - held_up,
            send: sent - left + held_up,
            total: sent.saturating_sub(self.first),
        }
    }

    /// All of them.
    pub fn spans(&self, sent: u64) -> Spans {
        let rare = self.rare();
        self.parts(sent).spans(rare.upstream, rare.cpu)
    }
}

/// How long each phase took that every request has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts {
    pub receive: u64,
    pub queue: u64,
    pub gil: u64,
    pub app: u64,
    pub send: u64,
    pub total: u64,
}

impl Parts {
    /// Each with its name.
    #[inline]
    pub fn phases(&self) -> [(Phase, u64); 6] {
        [
            (Phase::Receive, self.receive),
            (Phase::Queue, self.queue),
            (Phase::Gil, self.gil),
            (Phase::App, self.app),
            (Phase::Send, self.send),
            (Phase::Total, self.total),
        ]
    }

    /// All of them, with those that few requests have.
    pub fn spans(&self, upstream: u64, cpu: u64) -> Spans {
        let (cpu, off) = self.processor(cpu).unwrap_or((NOT_MEASURED, NOT_MEASURED));
        let Self { receive, queue, gil, app, send, total } = *self;
        [upstream, receive, queue, gil, app, cpu, off, send, total]
    }

    /// What of the application's time was spent on a processor and off it, by what its thread has used.
    pub fn processor(&self, cpu: u64) -> Option<(u64, u64)> {
        let on = cpu.min(self.app);
        (cpu != NOT_MEASURED).then_some((on, self.app - on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(spans: &Spans) -> u64 {
        [Phase::Receive, Phase::Queue, Phase::Gil, Phase::App, Phase::Send]
            .into_iter()
            .map(|phase| spans[phase as usize])
            .sum()
    }

    #[test]
    fn phases_add_up_to_the_whole() {
        let whole =
            || Times { first: 100, complete: 300, begun: 450, gil: 50, ended: 1000, ..Times::default() };
        let with = |rare| Times { rare: Some(Box::new(rare)), ..whole() };
        assert_eq!(
            whole().spans(1200),
            [0, 200, 100, 50, 550, NOT_MEASURED, NOT_MEASURED, 200, 1100],
            "a reply that waits for others"
        );
        let inside = Times { reply: 900, ..with(Rare { cpu: 120, ..Rare::default() }) };
        assert_eq!(inside.spans(1000), [0, 200, 100, 50, 450, 120, 330, 100, 900], "sent inside the call");
        let slow = with(Rare { held_up: 300, ..Rare::default() });
        assert_eq!(slow.spans(1000)[Phase::Send as usize], 300, "its thread waited for the client");
        let never = Times { first: 100, complete: 300, ..Times::default() };
        assert_eq!(never.spans(800), [0, 200, 500, 0, 0, NOT_MEASURED, NOT_MEASURED, 0, 700]);
        for times in [whole(), inside, slow, never] {
            for sent in [1000, 5000] {
                let spans = times.spans(sent);
                assert_eq!(sum(&spans), spans[Phase::Total as usize], "{spans:?}");
            }
        }
    }
}
