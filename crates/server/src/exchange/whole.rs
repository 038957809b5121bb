//! A reply whose body is complete: the usual one.
//!
//! Knows: how much of the body the plan lets through, and which bytes are copied. Does not know: how bytes leave
//! (`sending.rs`). Runs on the thread that owns the exchange.

use wire::BodyPlan;

use super::{Exchange, Gone, Reply};
use crate::downstream::Downstream;
use crate::engine::Engine;
use crate::output::Kept;
use crate::reply_builder::ReplyBuilder;

/// Bodies up to this size are copied behind their head and leave in one `send`; larger ones
/// leave with their head in one `sendmsg`.
const COPY_BYTES: usize = 8 * 1024;

impl Exchange {
    /// Answers with a body that is complete: the usual way, one system call.
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    #[inline]
    pub fn whole(&mut self, builder: &mut ReplyBuilder, body: &[u8], engine: &Engine) -> Result<(), Gone> {
        if builder.head.names_file() && self.is_named(builder, engine) {
            return Ok(());
        }
        if !self.claim(engine) {
            return Err(Gone);
        }
        let plan = self.end_head(builder, Some(body.len() as u64), engine);
        let body = self.cut_to_plan(plan, body, engine);
        self.written = body.len() as u64;
        self.reply = Reply::Done;
        let head = builder.head.bytes().len();
        if body.len() <= COPY_BYTES {
            builder.head.append(body);
            if let Some(records) = self.records() {
                builder.head.wrap(records, self.take_end());
            }
            if let Some(buffer) = &mut self.batched
                && let Downstream::Connection(connection) = &self.downstream
                && connection.pending.is_empty()
                && connection.sending.is_empty()
            {
                builder.head.swap(buffer);
                return Ok(());
            }
            self.deliver_framed(&[builder.head.bytes()], head, engine)
        } else {
            self.deliver(&[builder.head.bytes(), body], head, engine)
        }
    }

    /// Like [`Exchange::whole`], for a body that its owner lets us keep: what the socket does
    /// not take is queued without a copy, behind whatever waits already, and the thread is free.
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn whole_kept(
        &mut self,
        builder: &mut ReplyBuilder,
        body: Kept,
        engine: &Engine,
    ) -> Result<(), Gone> {
        if builder.head.names_file() && self.is_named(builder, engine) {
            return Ok(());
        }
        if !self.claim(engine) {
            return Err(Gone);
        }
        let bytes = (*body).as_ref();
        let plan = self.end_head(builder, Some(bytes.len() as u64), engine);
        let length = self.cut_to_plan(plan, bytes, engine).len();
        self.written = length as u64;
        self.reply = Reply::Done;
        if let Some(records) = self.records() {
            let body = (body, length, Some(&engine.budget));
            return self.keep_in_records(records, builder.head.bytes(), body, engine);
        }
        let (head, bytes) = (builder.head.bytes(), &bytes[..length]);
        let total = head.len() + length;
        let mut sent = 0;
        if self.downstream.is_clear() {
            match self.send_now(&[head, bytes], head.len(), engine) {
                Ok(n) => sent = n,
                Err(_) => return Err(self.broke(engine)),
            }
        }
        if sent < total {
            let queue = self.queue(engine);
            queue.copy(head.get(sent..).unwrap_or_default());
            queue.keep(body, sent.saturating_sub(head.len())..length, Some(&engine.budget));
        }
        self.complete();
        Ok(())
    }

    /// How much of a body the plan lets through; what is wrong with its length is counted,
    /// logged, and closes the connection.
    fn cut_to_plan<'a>(&mut self, plan: BodyPlan, body: &'a [u8], engine: &Engine) -> &'a [u8] {
        match plan {
            BodyPlan::None => &[],
            BodyPlan::Length(length) if length == body.len() as u64 => body,
            BodyPlan::Length(length) => {
                self.wrong_length(length, body.len() as u64, engine);
                if length > body.len() as u64 {
                    self.is_cut_off();
                }
                self.left = Some(length.saturating_sub(body.len() as u64));
                &body[..body.len().min(usize::try_from(length).unwrap_or(usize::MAX))]
            }
            BodyPlan::Chunked | BodyPlan::UntilClose => body,
        }
    }
}
