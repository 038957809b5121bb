//! Which request it is, for people: what the log says of one that has failed, and what its application may ask.
//!
//! Knows: a request line, its number, names and age. Does not know: what has happened to it.

use std::fmt;
use std::sync::Arc;

use reactor::sys::monotonic_ms;
use wire::Head;

use super::Exchange;
use crate::engine::{Config, Engine, ServerTiming};
use crate::reply_builder::ReplyBuilder;
use crate::request_id::{RequestId, RequestIds};
use crate::statistics::phase::Spans;
use crate::statistics::{route_of, wants_route};

/// A request that may be over: `GET /x HTTP/1.1 (request 17, after 12 ms)`.
#[derive(Clone)]
pub struct About {
    head: Arc<Head>,
    /// Requests that this worker has begun, this one included.
    number: u64,
    /// When it had arrived, in monotonic milliseconds.
    arrived: u64,
    id: Option<RequestId<'static>>,
    /// Which trace records it, and as which span.
    trace: Option<(u128, u64)>,
}

impl Exchange {
    /// Which request it is, for as long as somebody wants to say so.
    pub fn about(&self, config: &Config) -> About {
        About {
            head: Arc::clone(&self.head),
            number: self.number,
            arrived: self.arrived,
            id: self.id(config).map(RequestId::into_owned),
            trace: self.recorded_in(config),
        }
    }
}

/// What is known of a request while it runs, or behind its reply.
pub struct SoFar {
    about: About,
    status: u16,
    /// Seconds until it is overdue; none: it has no deadline, or has been answered.
    pub left: Option<f64>,
    /// How long its phases took until now; none where nobody looks, or its reply is complete.
    pub spans: Option<Spans>,
}

impl SoFar {
    pub fn id(&self) -> Option<&str> {
        self.about.id.as_ref().map(RequestId::as_str)
    }

    /// Which trace records it, and as which span.
    pub fn trace(&self) -> Option<(u128, u64)> {
        self.about.trace
    }

    /// A framework is asked for its route.
    pub fn wants_route(&self, config: &Config) -> bool {
        config.ask_routes && wants_route(&self.about.head)
    }

    /// The route that it is counted for, or will be; `told`: what a framework says of it.
    pub fn route(&self, config: &Config, told: Option<&str>) -> Option<String> {
        route_of(config.statistics, &self.about.head, told, self.status)
    }
}

impl From<About> for SoFar {
    /// Of one whose reply is complete.
    fn from(about: About) -> Self {
        Self { about, status: 0, left: None, spans: None }
    }
}

impl Exchange {
    /// What is known of it now.
    pub fn so_far(&self, config: &Config) -> SoFar {
        SoFar {
            about: self.about(config),
            status: self.status,
            left: self.deadline.as_ref().map(|deadline| deadline.left()),
            spans: self.spans_so_far(),
        }
    }
}

impl Exchange {
    /// The head of its reply names it, unless the application has said how. The header was judged with the options, and a
    /// name that a proxy has given when it was taken.
    #[inline]
    pub(super) fn name_reply(&self, builder: &mut ReplyBuilder, ids: &RequestIds, config: &Config) {
        let head = &mut builder.head;
        if head.has(ids.name.as_bytes(), ids.mark) {
            return;
        }
        match &self.times.rare {
            None => head.own_line(&ids.line, &ids.own_end(self.number)),
            Some(_) => {
                let id = self.times.id(ids, config.tracing.as_ref(), self.number);
                head.own(ids.header.as_bytes(), id.as_bytes());
            }
        }
    }

    /// The head of its reply says where its time went, to who may know.
    #[cold]
    pub(super) fn time_reply(&self, builder: &mut ReplyBuilder, engine: &Engine) {
        if (engine.config.server_timing == ServerTiming::All || self.is_trusted())
            && let Some(told) = self.server_timing()
        {
            // Beside one of the application's own: several are one list (RFC 9110 §5.3).
            builder.head.own(b"Server-Timing", &told);
        }
    }

    /// So does a refusal of ours, which is complete.
    pub(super) fn name_refusal(&self, reply: &mut Vec<u8>, engine: &Engine) {
        if let (Some(id), Some(ids)) = (self.id(&engine.config), &engine.config.request_id) {
            ids.name_refusal(&id, self.head.is_head(), reply);
        }
    }
}

impl fmt::Display for About {
    /// Bytes that are not UTF-8 show as replacement characters; control characters are left to the log to escape.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = String::from_utf8_lossy(self.head.request_line());
        let age = monotonic_ms().saturating_sub(self.arrived);
        write!(to, "{line} (request {}, ", self.number)?;
        if let Some(id) = &self.id {
            write!(to, "id {id}, ")?;
        }
        write!(to, "after {age} ms)")
    }
}
