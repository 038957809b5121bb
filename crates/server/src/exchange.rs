//! A request and its reply: taken out of the loop, owned by one thread, handed back.
//!
//! Knows: one request, its body, how far the reply has come. Does not know: the loop, Python.
//! Runs on the thread that owns it.
//!
//! ```text
//!   NOTHING ──start──► OPEN ──finish──► DONE
//!      └──────whole / refuse──────────────┘     any error ──► BROKEN (the connection is closed)
//! ```

mod about;
mod evented;
mod interim;
mod leaving;
mod named;
mod notes;
mod origin;
mod parts;
mod records;
mod sending;
mod timing;
mod whole;

pub use about::{About, SoFar};
pub use evented::Raw;
pub use named::NamedFile;
pub(crate) use timing::Replying;

use std::sync::Arc;

use reactor::sys::{monotonic_ms, monotonic_us};
use wire::{BodyPlan, Fault, Head, ReplyForm, RequestFacts};

use self::notes::Notes;
pub(crate) use self::notes::content_length;
use crate::body::Body;
use crate::connection::{After, Connection, Phase};
use crate::downstream::Downstream;
use crate::engine::{Engine, ServerTiming};
use crate::lanes::Mark;
use crate::output::Output;
use crate::patience::Patience;
use crate::pipelined::PipelinedReplies;
use crate::reply_builder::ReplyBuilder;
use crate::request_deadlines::RequestDeadline;
use crate::request_id::RequestIds;
use crate::statistics::Ended;
use crate::statistics::phase::{Ending, Times};
use crate::stream::{self, Stream};

/// The connection is gone, or the reply cannot go on: the application may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// What an exchange had, given back to the loop.
pub(crate) enum Back {
    Connection(Box<Connection>),
    Stream(stream::Ended),
}

/// How far the reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Nothing,
    /// The head is decided; `unsent` while it still waits in the builder.
    Open {
        plan: BodyPlan,
        unsent: bool,
    },
    /// A file was named in its place, which is sent when the application is done (`exchange/named.rs`).
    Named,
    Done,
    Broken,
}

/// One request on its way through an application.
pub struct Exchange {
    pub head: Arc<Head>,
    pub body: Body,
    /// What it replies through.
    downstream: Downstream,
    reply: Reply,
    keep_alive: bool,
    /// Content bytes given by the application, and bytes that its Content-Length leaves.
    written: u64,
    left: Option<u64>,
    status: u16,
    /// The peer may still be sending what nobody will read.
    lingers: bool,
    /// No file is meant (`files`): the application is asked.
    pub(crate) for_application: bool,
    /// A probe, which the server has answered: it is neither logged nor counted among requests.
    pub(crate) is_probe: bool,
    /// It was read by another worker.
    pub(crate) has_come_over: bool,
    /// Which lane it waits in, and its place among those that are inside.
    pub(crate) lane: Mark,
    /// Somebody who looks at this time or later, in the loop's milliseconds, and finds that it has not come back, knows that
    /// its call is slow. Zero where it is measured in any case.
    pub(crate) late_from: u64,
    /// It has been told where the reply ends, where records say so.
    ended: bool,
    /// A small whole reply may wait here until the loop sends those of a batch together.
    batched: Option<Vec<u8>>,
    /// When it was taken out, in microseconds; zero where nobody will ask.
    began: u64,
    /// When it had arrived, in the loop's milliseconds.
    arrived: u64,
    /// Requests that this worker has begun, this one included.
    number: u64,
    /// What the access log wants of it; nothing where the log's format does not ask.
    notes: Option<Box<Notes>>,
    /// The file that the application has named in place of a body.
    named: Option<Box<NamedFile>>,
    /// Its deadline, if it has one.
    pub deadline: Option<Arc<RequestDeadline>>,
    /// When its phases began, where statistics are kept.
    pub times: Times,
}

impl Exchange {
    /// Takes a request out of the loop, together with its connection.
    #[inline(always)]
    pub(crate) fn new(
        connection: Box<Connection>,
        head: Arc<Head>,
        body: Body,
        engine: &Engine,
        now: u64,
    ) -> Self {
        Self::through(Downstream::Connection(connection), head, body, engine, now)
    }

    /// A request that came on one stream of a connection, which stays where it is. `now` in monotonic milliseconds.
    pub fn on_stream(stream: Stream, head: Arc<Head>, body: Body, engine: &Engine, now: u64) -> Self {
        Self::through(Downstream::Stream(Box::new(stream)), head, body, engine, now)
    }

    #[inline(always)]
    fn through(downstream: Downstream, head: Arc<Head>, body: Body, engine: &Engine, now: u64) -> Self {
        let timed = engine.config.access.is_some();
        Self {
            deadline: engine.deadlines.issue(&downstream, &head, &engine.config.mounted, now),
            arrived: now,
            late_from: 0,
            number: engine.counters.requests_total.get(),
            notes: None,
            named: None,
            head,
            body,
            downstream,
            reply: Reply::Nothing,
            keep_alive: false,
            written: 0,
            left: None,
            status: 0,
            lingers: false,
            for_application: false,
            is_probe: false,
            has_come_over: false,
            lane: Mark::default(),
            ended: false,
            batched: None,
            began: if timed { monotonic_us() } else { 0 },
            times: Times::default(),
        }
    }

    /// Lets a small whole reply wait in `buffer`, which is empty, until its batch is sent.
    pub fn lend_buffer(&mut self, buffer: Vec<u8>) {
        if let Downstream::Stream(stream) = &mut self.downstream {
            // Its reply waits where it is framed.
            stream.may_wait(true);
        }
        self.batched = Some(buffer);
    }

    /// Takes back what was lent, where nothing has been done with it.
    pub(crate) fn take_buffer(&mut self) -> Option<Vec<u8>> {
        if let Downstream::Stream(stream) = &mut self.downstream {
            stream.may_wait(false);
        }
        self.batched.take()
    }

    /// Sends a reply that waits: the thread is late, and the batch has gone without it.
    pub fn send_batched(&mut self, engine: &Engine) {
        if let Downstream::Stream(stream) = &mut self.downstream {
            return stream.send_batched();
        }
        if let Some(bytes) = self.batched.take()
            && !bytes.is_empty()
        {
            // A peer that is gone shows when the connection is back.
            let _ = self.deliver_framed(&[&bytes], wire::head_length(&bytes), engine);
        }
    }

    /// Replies of this connection that wait for the one to this request.
    #[inline]
    pub fn pipelined_replies(&self) -> Option<&Arc<PipelinedReplies>> {
        self.downstream.pipelined().filter(|pipelined| !pipelined.is_empty())
    }

    /// Sends what waits of earlier pipelined requests of this connection.
    pub fn send_pipelined(&self) {
        if let Some(pipelined) = self.downstream.pipelined() {
            // An error shows again when the connection comes back.
            let _ = pipelined.send();
        }
    }

    /// When it had arrived, in the loop's milliseconds.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Which request of this worker it is, as the log counts them.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// True when its deadline has passed: its client has been answered, or cut off.
    pub fn is_overdue(&self) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| deadline.is_overdue())
    }

    /// True when the client has ended its side, with nothing more to be read. A client that
    /// only ends its side and waits is rare, so that this is asked of those that had to wait.
    pub fn client_has_left(&self) -> bool {
        self.downstream.has_left()
    }

    /// It has a stream of a connection that others share.
    #[inline]
    pub(crate) fn has_stream(&self) -> bool {
        matches!(self.downstream, Downstream::Stream(_))
    }

    /// Its stream, where it has one.
    #[inline]
    pub(crate) fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.downstream {
            Downstream::Connection(_) => None,
            Downstream::Stream(stream) => Some(stream),
        }
    }

    /// What waits for the client, as it counts against `response_buffer_bytes`: where many streams share a connection, that
    /// of each counts more.
    pub fn unsent_counted(&self) -> u64 {
        match &self.downstream {
            Downstream::Connection(_) => self.unsent(),
            Downstream::Stream(stream) => stream.unsent_counted(),
        }
    }

    /// The reply is about to go out. False: its deadline was first.
    fn claim(&mut self, engine: &Engine) -> bool {
        match &self.deadline {
            Some(deadline) if !deadline.claim() => {
                self.keep_alive = false;
                self.was_answered_for(engine);
                self.reply = Reply::Broken;
                false
            }
            _ => true,
        }
    }

    /// Its deadline's refusal is what its client got.
    #[cold]
    fn was_answered_for(&mut self, engine: &Engine) {
        let mut bytes = Vec::new();
        wire::REQUEST_TIMEOUT.reply(ReplyBuilder::new().date(), b"", self.head.is_head(), &mut bytes);
        self.status = wire::REQUEST_TIMEOUT.status;
        let named = self.id(&engine.config).as_ref().map_or(0, RequestIds::page_bytes);
        self.written = content_length(&bytes) + if self.head.is_head() { 0 } else { named };
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    /// Content bytes of the reply so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Microseconds since it was taken out; zero where it was not timed. Since it was begun, where that is the earlier stamp:
    /// no phase of it is longer than the whole.
    pub fn elapsed_us(&self) -> u64 {
        let since = if self.times.begun == 0 { self.began } else { self.began.min(self.times.begun / 1000) };
        if self.began == 0 { 0 } else { monotonic_us().saturating_sub(since) }
    }

    /// True while nothing of a reply has been decided.
    pub fn is_unanswered(&self) -> bool {
        self.reply == Reply::Nothing
    }

    /// True once the head is on its way: it can no longer be replaced.
    pub fn head_is_sent(&self) -> bool {
        !matches!(self.reply, Reply::Nothing | Reply::Open { unsent: true, .. })
    }

    /// True when the reply cannot go on.
    pub fn is_broken(&self) -> bool {
        self.reply == Reply::Broken
    }

    /// Bytes that the announced Content-Length still wants; none where it was not announced.
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    /// Decides framing and persistence, and completes the head in the builder.
    /// `known`: the whole length of the body, where it is known now.
    fn end_head(&mut self, builder: &mut ReplyBuilder, known: Option<u64>, engine: &Engine) -> BodyPlan {
        let form = self.downstream.form();
        let wants_more = match form {
            ReplyForm::FastCgi(records) => records.keeps(),
            _ => self.head.persistent,
        };
        let request = RequestFacts {
            version: self.head.version,
            is_head: self.head.is_head(),
            // A connection that would be closed at once is announced as closed: the next request would meet its end.
            persistent: wants_more
                && engine.config.limits.keep_alive_timeout > 0
                && engine.keeps_connections()
                // A web server's body that nobody reads is thrown away, and its connection goes on.
                && (matches!(form, ReplyForm::FastCgi(_)) || self.body_is_read()),
            form,
        };
        if let Some(ids) = &engine.config.request_id {
            self.name_reply(builder, ids, &engine.config);
        }
        if engine.config.server_timing != ServerTiming::Off {
            self.time_reply(builder, engine);
        }
        let (head, date) = builder.head_and_date();
        let plan = head.finish(&request, known, date, &engine.config.server_header);
        self.keep_alive = plan.keep_alive;
        self.status = head.code();
        if let Some(access) = &engine.config.access
            && !access.format.wanted().is_empty()
        {
            self.note_reply(access.format.wanted(), builder.head.bytes());
        }
        plan.body
    }

    fn body_is_read(&self) -> bool {
        match &self.body {
            Body::Stream(incoming) => incoming.stop().0,
            _ => true,
        }
    }

    /// The queue of what waits for the client.
    fn queue(&mut self, engine: &Engine) -> &mut Output {
        self.downstream.queue(&engine.config.limits, monotonic_ms())
    }

    /// `OPTIONS *` asks the server, not an application (RFC 9110 §9.3.7).
    #[inline]
    pub fn is_for_the_server(&self) -> bool {
        self.head.path() == b"*"
    }

    /// Cuts a reply that cannot be completed, so that the peer cannot take it for a whole one.
    pub fn cut(&mut self) {
        if matches!(self.reply, Reply::Open { .. }) {
            self.is_cut_off();
        }
        // Without a length an orderly end would look like the end of the body; a stream's end is one of its own.
        let until_close = matches!(self.reply, Reply::Open { plan: BodyPlan::UntilClose, .. });
        if until_close || matches!(self.downstream, Downstream::Stream(_)) {
            self.downstream.reset();
        }
        self.keep_alive = false;
        self.reply = Reply::Broken;
    }

    /// Answers with a refusal of ours, in place of the application's reply.
    pub fn refuse(&mut self, fault: &Fault, builder: &mut ReplyBuilder, engine: &Engine) {
        if self.head_is_sent() && !self.names_file() {
            return self.cut();
        }
        if !self.claim(engine) {
            return;
        }
        let mut bytes = Vec::new();
        fault.reply(builder.date(), &engine.config.server_header, self.head.is_head(), &mut bytes);
        self.name_refusal(&mut bytes, engine);
        self.keep_alive = false;
        self.status = fault.status;
        self.written = content_length(&bytes);
        self.reply = Reply::Done;
        self.downstream.form().apply(&mut bytes);
        // What cannot be sent to a peer that is gone needs no further word.
        let _ = self.deliver_framed(&[&bytes], wire::head_length(&bytes), engine);
    }

    /// Ends an exchange whose application has failed: 500, or a cut where something was sent.
    pub fn fail(&mut self, engine: &Engine) {
        engine.counters.application_errors.add();
        self.refuse(&wire::INTERNAL_ERROR, &mut ReplyBuilder::new(), engine);
    }

    /// Ends the exchange: one that nobody answered is answered with 500.
    pub(crate) fn conclude(&mut self, engine: &Engine) {
        if let Some(deadline) = self.deadline.take() {
            engine.deadlines.complete(&deadline);
            if deadline.is_overdue() {
                self.times.ending = Ending::Timeout;
                if self.reply == Reply::Nothing {
                    self.was_answered_for(engine);
                }
                self.keep_alive = false;
                self.downstream.drop_waiting();
                self.reply = Reply::Broken;
            }
        }
        match self.reply {
            Reply::Nothing | Reply::Named => self.fail(engine),
            Reply::Open { .. } => self.cut(),
            Reply::Done | Reply::Broken => {}
        }
        if let Some(access) = &engine.config.access
            && !self.is_probe
        {
            self.log_access(access, engine);
        }
    }

    /// Gives the connection of a concluded exchange back, with what shall become of it, or its stream, whose connection
    /// never left. With it comes the buffer that was lent, with the reply in it if that still waits. What is counted of it
    /// when that is sent is added to `waiting`.
    // Always: a request is some hundred bytes, which a call of its own would copy once more.
    #[inline(always)]
    pub(crate) fn hand_back(
        mut self,
        engine: &Engine,
        waiting: Option<&mut Vec<Ended>>,
    ) -> (Back, Option<Vec<u8>>) {
        let (mut unread, ended) = (false, self.times.ended);
        if let Body::Stream(incoming) = &self.body
            && let Some(flow) = incoming.take_back()
        {
            unread = !flow.is_complete();
            self.downstream.take_up(flow);
        }
        if let Some(waiting) = waiting {
            waiting.push(Ended {
                head: self.head,
                times: self.times,
                number: self.number,
                written: self.written,
                status: self.status,
            });
        }
        let mut connection = match self.downstream {
            Downstream::Connection(connection) => connection,
            Downstream::Stream(stream) => return (Back::Stream(stream.into_ended()), self.batched),
        };
        connection.phase = match (self.reply, self.keep_alive) {
            // A web server may not look at its reply before it has sent all of a body.
            (Reply::Done, keep) if unread && connection.machine.awaits_body() => {
                Phase::Flushing(After::Discard { keep })
            }
            // Bytes that nobody reads would make the kernel reset the connection before the
            // peer has read the reply (RFC 9112 §9.6).
            (Reply::Done, keep) if unread || !keep && (self.lingers || !connection.pending.is_empty()) => {
                Phase::Flushing(After::Linger { left: engine.config.limits.drain_bytes })
            }
            (Reply::Done, true) if !connection.waits_for_its_peer() => Phase::Reading,
            (Reply::Done, true) => Phase::Flushing(After::Continue),
            _ => Phase::Flushing(After::Close),
        };
        if connection.sending.pipelined.as_ref().is_some_and(|pipelined| !pipelined.is_empty()) {
            // Nobody has asked the peer to take these while the next request was answered.
            let now = if ended == 0 { monotonic_ms() } else { ended / 1_000_000 };
            connection.patience = Patience::to_write(&engine.config.limits, now);
        }
        (Back::Connection(connection), self.batched)
    }
}
