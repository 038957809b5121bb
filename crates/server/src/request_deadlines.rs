//! Deadlines of requests: a client is answered in time, whatever its request's thread does.
//!
//! Knows: a request, who answers in its exchange's place, and until when it may take. Does not know: Python: who wants
//! to act on an overdue request's thread asks for it. The watchdog looks; threads claim. Which of
//! them comes first is decided in `claims.rs`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};

use reactor::sys::{monotonic_ms, wall_seconds};
use wire::{DateLine, Head, Millis};

use crate::claims::{Claim, Claims, Passed};
use crate::counters::Counters;
use crate::downstream::{Downstream, StandIn};
use crate::lanes::said_of;
use crate::log::{Level, Log};
use crate::mounted::{Asked, Mounted};
use crate::request_id::{RequestId, RequestIds};
use crate::sync::lock;

/// Until when requests may take.
#[derive(Debug, Clone, Default)]
pub struct RequestTimeouts {
    /// Milliseconds; zero: none.
    pub usual: Millis,
    /// By path prefix; the first that fits decides.
    pub by_path: Vec<(Vec<u8>, Millis)>,
}

impl RequestTimeouts {
    fn of<'a>(&self, path: impl Into<Asked<'a>>) -> Millis {
        said_of(&self.by_path, path).unwrap_or(self.usual)
    }

    /// True when there are any.
    pub fn any(&self) -> bool {
        self.usual > 0 || self.by_path.iter().any(|(_, time)| *time > 0)
    }
}

/// What a deadline answers for.
pub struct Request {
    head: Arc<Head>,
    client: StandIn,
    began: Millis,
    /// What names it, where requests have names.
    id: OnceLock<RequestId<'static>>,
}

/// One request's.
pub type RequestDeadline = Claim<Request>;

impl RequestDeadline {
    /// Seconds that are left.
    pub fn left(&self) -> f64 {
        self.deadline.saturating_sub(monotonic_ms()) as f64 / 1000.0
    }
}

impl Request {
    /// It has a name.
    pub fn is_named(&self, id: RequestId<'_>) {
        let _ = self.id.set(id.into_owned());
    }

    fn line(&self) -> String {
        let line = String::from_utf8_lossy(self.head.request_line());
        self.id.get().map_or_else(|| line.to_string(), |id| format!("{line} (id {id})"))
    }

    /// Sends 504, or cuts a reply that was begun.
    fn expire(&self, telling: &Telling<'_>, unanswered: bool) {
        if !unanswered {
            return self.client.cut();
        }
        let mut reply = Vec::new();
        let date = DateLine::at(wall_seconds());
        wire::REQUEST_TIMEOUT.reply(&date, telling.server_header, self.head.is_head(), &mut reply);
        if let (Some(id), Some(ids)) = (self.id.get(), telling.request_id) {
            ids.name_refusal(id, self.head.is_head(), &mut reply);
        }
        self.client.answer(&reply, wire::head_length(&reply));
    }
}

/// What is told of a request whose thread is to be looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Overdue {
    pub thread: u64,
    pub line: String,
    pub seconds: f64,
    pub serial: u64,
}

/// All requests that have a deadline and are not done.
pub struct RequestDeadlines {
    timeouts: RequestTimeouts,
    claims: Claims<Request>,
    found: Mutex<Vec<Overdue>>,
    /// A byte in here wakes whoever acts on them.
    wakeup: Mutex<Option<UnixStream>>,
}

impl RequestDeadlines {
    pub fn new(timeouts: RequestTimeouts) -> Self {
        Self { timeouts, claims: Claims::default(), found: Mutex::new(Vec::new()), wakeup: Mutex::new(None) }
    }

    /// A descriptor that can be read when [`RequestDeadlines::take_overdue`] has something.
    ///
    /// # Errors
    /// The kernel's.
    pub fn listen(&self) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        *lock(&self.wakeup) = Some(ours);
        Ok(theirs)
    }

    /// A deadline for a request, if it has one.
    #[inline]
    pub(crate) fn issue(
        &self,
        downstream: &Downstream,
        head: &Arc<Head>,
        mounted: &Mounted,
        now: Millis,
    ) -> Option<Arc<RequestDeadline>> {
        if !self.timeouts.any() {
            return None;
        }
        let time = self.timeouts.of(Asked::Of(head, downstream.given(), mounted));
        if time == 0 {
            return None;
        }
        let client = downstream.stand_in();
        let request = Request { head: Arc::clone(head), client, began: now, id: OnceLock::new() };
        Some(self.claims.issue(request, now + time))
    }

    /// A request is done.
    pub fn complete(&self, deadline: &Arc<RequestDeadline>) {
        self.claims.complete(deadline);
    }

    /// True while a thread has not come back from an overdue request.
    pub fn any_lost(&self) -> bool {
        self.claims.any_lost()
    }

    /// When [`RequestDeadlines::look`] has something to do.
    pub fn next(&self) -> Millis {
        self.claims.next()
    }

    /// Answers what is overdue, and tells of it. With it comes what the supervisor is to be told: it may be slow to
    /// listen, and whoever issues a deadline wants the list. `grace`: how long a thread may take to come back, in
    /// milliseconds; it is told a little later at a bad moment.
    pub fn look(&self, telling: &Telling<'_>, grace: Millis, bad_moment: bool, now: Millis) -> Vec<String> {
        let mut watch = Watch { deadlines: self, telling, now, grace, ignored: Vec::new() };
        self.claims.look(now, grace, bad_moment, &mut watch);
        watch.ignored
    }

    /// Wakes whoever looks after requests that take long.
    pub fn ring(&self) {
        if let Some(wakeup) = &mut *lock(&self.wakeup) {
            // A full pipe wakes already.
            let _ = wakeup.write(b"!");
        }
    }

    /// The requests that have become overdue since the last time.
    pub fn take_overdue(&self) -> Vec<Overdue> {
        std::mem::take(&mut *lock(&self.found))
    }

    /// True when [`RequestDeadlines::take_overdue`] has something.
    pub fn any_found(&self) -> bool {
        self.timeouts.any() && !lock(&self.found).is_empty()
    }

    /// True while the thread of that request is still inside the application.
    pub fn is_inside(&self, serial: u64) -> bool {
        self.claims.is_inside(serial)
    }
}

/// Who is told of overdue requests: their clients, the numbers, the log.
pub struct Telling<'a> {
    /// The value of the Server header of a refusal.
    pub server_header: &'a [u8],
    /// The header by which requests are named.
    pub request_id: Option<&'a RequestIds>,
    pub counters: &'a Counters,
    pub log: &'a Log,
}

/// One look at the deadlines.
struct Watch<'a> {
    deadlines: &'a RequestDeadlines,
    telling: &'a Telling<'a>,
    now: Millis,
    grace: Millis,
    ignored: Vec<String>,
}

impl Passed<Request> for Watch<'_> {
    fn overdue(&mut self, deadline: &RequestDeadline, thread: u64, unanswered: bool) {
        let request = &deadline.request;
        request.expire(self.telling, unanswered);
        self.telling.counters.request_deadlines.add();
        let seconds = self.now.saturating_sub(request.began) as f64 / 1000.0;
        if thread == 0 {
            self.telling.log.complain(Level::Error, || {
                format!(
                    "{}: overdue after {seconds:.2} s, all of it in the queue; answered 504",
                    request.line()
                )
            });
            return;
        }
        let found = Overdue { thread, line: request.line(), seconds, serial: deadline.serial };
        lock(&self.deadlines.found).push(found);
        self.deadlines.ring();
    }

    fn ignored(&mut self, deadline: &RequestDeadline) {
        self.telling.counters.request_deadlines_ignored.add();
        self.ignored.push(format!(
            "stale {}: its thread has not come back {} s after its deadline (--request-timeout-grace)",
            deadline.request.line(),
            self.grace as f64 / 1000.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_prefix_that_fits_decides() {
        let by_path = vec![(b"/export/big".to_vec(), 0), (b"/export".to_vec(), 300)];
        let timeouts = RequestTimeouts { usual: 30, by_path };
        assert_eq!(timeouts.of(b"/"), 30);
        assert_eq!(timeouts.of(b"/export/small"), 300);
        assert_eq!(timeouts.of(b"/export/big/1"), 0);
        assert!(timeouts.any());
        assert!(!RequestTimeouts { usual: 0, by_path: vec![(b"/a".to_vec(), 0)] }.any());
    }
}
