//! A reply whose body comes in parts: its start, parts of memory and of files, its end.
//!
//! Knows: the plan of the body, and how much of an announced length is left. Does not know:
//! how bytes leave (`sending.rs`). Runs on the thread that owns the exchange.

use std::fs::File;
use std::sync::Arc;

use wire::gateway::fastcgi::Records;
use wire::{BodyPlan, chunk_prefix};

use super::{Exchange, Gone, Reply};
use crate::budget::Budget;
use crate::connection::complain_of_file;
use crate::downstream::Downstream;
use crate::engine::Engine;
use crate::log::Level;
use crate::output::Kept;
use crate::reply_builder::ReplyBuilder;
use crate::sent_file::{OpenFile, SentFile};

impl Exchange {
    /// Answers `OPTIONS *`: nothing but that the server is there.
    pub fn answer_options(&mut self, engine: &Engine) {
        let mut builder = ReplyBuilder::new();
        if builder.head.status(b"200 OK").is_ok() {
            // A peer that is gone shows when the connection is back.
            let _ = self.whole(&mut builder, b"", engine);
        }
    }

    /// Begins a reply whose body comes in parts. The head goes out with the first of them
    /// (PEP 3333: not before there is a first non-empty part), or at the end.
    /// `known`: the whole length of the body, where it is known now.
    pub fn start(&mut self, builder: &mut ReplyBuilder, known: Option<u64>, engine: &Engine) {
        if builder.head.names_file() && self.is_named(builder, engine) {
            return;
        }
        if !self.claim(engine) {
            return;
        }
        let plan = self.end_head(builder, known, engine);
        self.left = match plan {
            BodyPlan::Length(length) => Some(length),
            _ => None,
        };
        self.reply = Reply::Open { plan, unsent: true };
    }

    /// Sends a part of the body; what the socket does not take is queued.
    ///
    /// # Errors
    /// [`Gone`] when the peer is, or when the announced length is used up.
    pub fn write(&mut self, builder: &mut ReplyBuilder, part: &[u8], engine: &Engine) -> Result<(), Gone> {
        let Reply::Open { plan, unsent } = self.reply else { return self.unsendable() };
        if part.is_empty() {
            return Ok(());
        }
        if !unsent && self.is_given_up() {
            return Err(self.broke(engine));
        }
        let part = self.within_length(part, engine);
        let mut scratch = std::mem::take(&mut builder.scratch);
        scratch.clear();
        if unsent {
            scratch.extend_from_slice(builder.head.bytes());
            self.reply = Reply::Open { plan, unsent: false };
        }
        let head = scratch.len();
        let result = match plan {
            BodyPlan::None => self.deliver(&[&scratch], head, engine),
            BodyPlan::Chunked => {
                self.written += part.len() as u64;
                chunk_prefix(part.len(), &mut scratch);
                self.deliver(&[&scratch, part, b"\r\n"], head, engine)
            }
            BodyPlan::Length(_) | BodyPlan::UntilClose => {
                self.written += part.len() as u64;
                self.deliver(&[&scratch, part], head, engine)
            }
        };
        builder.scratch = scratch;
        result?;
        if self.is_broken() { Err(Gone) } else { Ok(()) }
    }

    /// Like [`Exchange::write`], for a part that its owner lets us keep: what the socket does
    /// not take is queued without a copy, and nothing waits here.
    ///
    /// # Errors
    /// As [`Exchange::write`].
    pub fn write_kept(
        &mut self,
        builder: &mut ReplyBuilder,
        part: Kept,
        engine: &Engine,
    ) -> Result<(), Gone> {
        self.write_large(builder, part, Some(&engine.budget), engine)
    }

    /// The same for what its owner counts itself: it is not part of what may be kept for slow readers.
    ///
    /// # Errors
    /// As [`Exchange::write`].
    pub fn write_shared(
        &mut self,
        builder: &mut ReplyBuilder,
        part: Kept,
        engine: &Engine,
    ) -> Result<(), Gone> {
        self.write_large(builder, part, None, engine)
    }

    fn write_large(
        &mut self,
        builder: &mut ReplyBuilder,
        part: Kept,
        budget: Option<&Arc<Budget>>,
        engine: &Engine,
    ) -> Result<(), Gone> {
        let Reply::Open { plan, unsent } = self.reply else { return self.unsendable() };
        let bytes = (*part).as_ref();
        let too_long = self.left.is_some_and(|left| bytes.len() as u64 > left);
        if too_long || bytes.is_empty() || plan == BodyPlan::None || !unsent && self.is_given_up() {
            return self.write(builder, bytes, engine);
        }
        self.left = self.left.map(|left| left - bytes.len() as u64);
        self.written += bytes.len() as u64;
        let mut front = Vec::new();
        if unsent {
            front.extend_from_slice(builder.head.bytes());
            self.reply = Reply::Open { plan, unsent: false };
        }
        if let Some(records) = self.records() {
            let length = bytes.len();
            return self.keep_in_records(records, &front, (part, length, budget), engine);
        }
        let mut tail: &[u8] = b"";
        let head = front.len();
        if plan == BodyPlan::Chunked {
            chunk_prefix(bytes.len(), &mut front);
            tail = b"\r\n";
        }
        let (before_tail, total) = (front.len() + bytes.len(), front.len() + bytes.len() + tail.len());
        let mut sent = 0;
        if self.downstream.is_clear() {
            match self.send_now(&[&front, bytes, tail], head, engine) {
                Ok(n) if n == total => return Ok(()),
                Ok(n) => sent = n,
                Err(_) => return Err(self.broke(engine)),
            }
        }
        let queue = self.queue(engine);
        queue.copy(front.get(sent..).unwrap_or_default());
        let end = bytes.len();
        queue.keep(part, sent.saturating_sub(front.len()).min(end)..end, budget);
        queue.copy(tail.get(sent.saturating_sub(before_tail)..).unwrap_or_default());
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broke(engine)),
        }
    }

    /// True where no more waits for the peer than may; what waits is then our own memory, so
    /// that an application's large part does not live for as long as its last bytes wait.
    pub fn has_room(&mut self, engine: &Engine) -> bool {
        let fits = self.unsent_counted() <= engine.config.limits.response_buffer_bytes;
        if fits && let Some(output) = self.downstream.output_mut() {
            output.own();
        }
        fits
    }

    /// True for a reply that is complete and may wait for its peer, whatever is left of
    /// it: nothing of it is kept, or no more is kept for all peers than may be.
    pub fn may_be_left(&self, engine: &Engine) -> bool {
        matches!(self.reply, Reply::Done | Reply::Named) && (!self.keeps() || !engine.budget.is_over())
    }

    /// What was given is not what was announced: that is counted, logged, and closes the connection.
    pub(super) fn wrong_length(&mut self, announced: u64, given: u64, engine: &Engine) {
        self.keep_alive = false;
        engine.counters.replies_wrong_length.add();
        engine.log.complain(Level::Error, || {
            format!(
                "{}: the application announced Content-Length {announced} and gave {}{given} bytes; \
                 the connection is closed",
                String::from_utf8_lossy(self.head.request_line()),
                if given > announced { "at least " } else { "" },
            )
        });
    }

    /// The part as far as the announced length reaches.
    fn within_length<'a>(&mut self, part: &'a [u8], engine: &Engine) -> &'a [u8] {
        let Some(left) = self.left else { return part };
        if part.len() as u64 <= left {
            self.left = Some(left - part.len() as u64);
            return part;
        }
        // Counted once: what follows is cut to nothing by a length of zero.
        if self.keep_alive || left > 0 {
            self.wrong_length(self.written + left, self.written + part.len() as u64, engine);
        }
        self.left = Some(0);
        &part[..usize::try_from(left).unwrap_or(0)]
    }

    /// Sends part of a file with sendfile(2); what the socket does not take is left to the
    /// loop, and the thread is free. The reply must be open with a known length or no framing.
    ///
    /// # Errors
    /// [`Gone`] when the peer is, or the file is shorter than its length.
    pub fn file(
        &mut self,
        builder: &mut ReplyBuilder,
        file: File,
        range: (u64, u64),
        engine: &Engine,
    ) -> Result<(), Gone> {
        self.shared_file(builder, Arc::new(file.into()), range, engine)
    }

    /// The same for a file that others send, too.
    ///
    /// # Errors
    /// As [`Exchange::file`].
    pub fn shared_file(
        &mut self,
        builder: &mut ReplyBuilder,
        file: Arc<OpenFile>,
        range: (u64, u64),
        engine: &Engine,
    ) -> Result<(), Gone> {
        let Reply::Open { plan, unsent } = self.reply else { return self.unsendable() };
        let (offset, mut length) = range;
        if unsent {
            self.reply = Reply::Open { plan, unsent: false };
            self.deliver(&[builder.head.bytes()], builder.head.bytes().len(), engine)?;
        }
        if plan == BodyPlan::None {
            return Ok(());
        }
        if let Some(left) = self.left {
            length = length.min(left);
            self.left = Some(left - length);
        }
        self.written += length;
        let file = self.sent_file(file, (offset, length), engine);
        let records = self.records();
        let end = records.filter(|_| self.take_end()).map(Records::end);
        let queue = self.queue(engine);
        queue.frame_in(records);
        queue.file(file);
        if let Some(end) = end {
            queue.copy(&end);
        }
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(error) => {
                complain_of_file(&engine.log, &error, &self.peer());
                Err(self.broke(engine))
            }
        }
    }

    /// Part of a file that is to be sent, from what the kernel has in memory: of what it has not, the loop hears by the token
    /// of the connection.
    pub(super) fn sent_file(&self, file: Arc<OpenFile>, range: (u64, u64), engine: &Engine) -> SentFile {
        let connection = match &self.downstream {
            Downstream::Connection(connection) => connection.token,
            Downstream::Stream(stream) => stream.shared().origin().token,
        };
        SentFile::new(file, range).reading_ahead(&engine.cold_reads, connection)
    }

    /// Ends a reply that was begun with [`Exchange::start`].
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn finish(&mut self, builder: &mut ReplyBuilder, engine: &Engine) -> Result<(), Gone> {
        let Reply::Open { plan, unsent } = self.reply else { return Ok(()) };
        self.reply = Reply::Done;
        if unsent {
            self.deliver(&[builder.head.bytes()], builder.head.bytes().len(), engine)?;
        }
        match plan {
            BodyPlan::Chunked => self.deliver(&[wire::LAST_CHUNK], 0, engine),
            BodyPlan::Length(length) if self.left != Some(0) => {
                // The peer must see that the reply is cut: the connection ends here.
                self.wrong_length(length, self.written, engine);
                self.is_cut_off();
                self.complete();
                Ok(())
            }
            // What says in records that this was the last of it, where it was not known before.
            _ if self.records().is_some() => self.deliver(&[], 0, engine),
            _ => {
                self.complete();
                Ok(())
            }
        }
    }
}
