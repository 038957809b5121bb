//! How a reply's bytes leave: at once, together with those of the next request, or queued.
//!
//! Knows: what the socket takes, and where the rest goes. Does not know: what
//! the bytes mean. Runs on the thread that owns the exchange.

use std::io;

use reactor::PIECES;
use reactor::sys::monotonic_ms;

use super::{Exchange, Gone, Reply};
use crate::downstream::Downstream;
use crate::engine::Engine;
use crate::output::Flushed;
use crate::pipelined::PipelinedReplies;
use crate::statistics::phase::Ending;

/// How much of replies is kept for a reader that is slow.
fn buffer_bytes(engine: &Engine) -> usize {
    usize::try_from(engine.config.limits.response_buffer_bytes).unwrap_or(usize::MAX)
}

/// A copy from this size on is counted among what is kept for slow readers.
const KEPT_FROM: usize = 64 * 1024;

impl Exchange {
    /// Sends pieces in order: now as far as the socket takes them, the rest from the queue.
    /// Nothing waits here: whoever gives more than fits does so with nothing borrowed.
    /// The first `head` bytes are a head.
    #[inline]
    pub(super) fn deliver(&mut self, pieces: &[&[u8]], head: usize, engine: &Engine) -> Result<(), Gone> {
        match self.records() {
            None => self.deliver_framed(pieces, head, engine),
            Some(records) => self.deliver_in_records(records, pieces, engine),
        }
    }

    /// The same for pieces that are in the form that the connection has.
    pub(super) fn deliver_framed(
        &mut self,
        pieces: &[&[u8]],
        head: usize,
        engine: &Engine,
    ) -> Result<(), Gone> {
        debug_assert!(pieces.len() <= PIECES);
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        match self.join_pipelined(pieces, total, engine) {
            None => {}
            Some(Ok(_)) => return Ok(()),
            Some(Err(_)) => return Err(self.broke(engine)),
        }
        let mut sent = 0;
        if self.downstream.is_clear() {
            match self.send_now(pieces, head, engine) {
                Ok(n) => sent = n,
                Err(_) => return Err(self.broke(engine)),
            }
        }
        if sent < total {
            self.queue_rest(pieces, sent, engine)?;
        }
        self.complete();
        Ok(())
    }

    /// A stream whose reply is complete ends, whatever of it still waits; one whose reply is too short is cut.
    #[inline]
    pub(super) fn complete(&mut self) {
        if let Downstream::Stream(stream) = &mut self.downstream
            && self.reply == Reply::Done
        {
            match self.left {
                Some(1..) => stream.reset(),
                _ => stream.end(),
            }
        }
    }

    /// Replies to pipelined requests wait for one another while the next request is at hand; the last of them takes them
    /// along, in one write. None: this one does neither.
    fn join_pipelined(
        &mut self,
        pieces: &[&[u8]],
        total: usize,
        engine: &Engine,
    ) -> Option<io::Result<Flushed>> {
        let connection = self.downstream.connection_mut()?;
        let is_last = connection.pending.is_empty();
        if !self.keep_alive || self.reply != Reply::Done || connection.sending.output.is_some() {
            return None;
        }
        if is_last && (total >= KEPT_FROM || connection.sending.is_empty()) {
            return None;
        }
        let sending = &mut connection.sending.pipelined;
        let pipelined = sending.get_or_insert_with(|| PipelinedReplies::new(&connection.transport));
        if !pipelined.add(pieces, buffer_bytes(engine)) {
            return None;
        }
        Some(if is_last { pipelined.send() } else { Ok(Flushed::All) })
    }

    /// One send of everything, or of as much as one visit allows; how much was taken.
    #[inline]
    pub(super) fn send_now(&mut self, pieces: &[&[u8]], head: usize, engine: &Engine) -> io::Result<usize> {
        let most = usize::try_from(engine.config.limits.send_burst_bytes).unwrap_or(usize::MAX);
        match self.reply {
            Reply::Done => self.reply_begins(),
            Reply::Open { .. } => self.reply_starts(),
            _ => {}
        }
        let end = self.reply == Reply::Done && !matches!(self.left, Some(1..));
        if end {
            engine.loop_goes_on(self.slot(), self.keep_alive || self.has_stream());
        }
        self.downstream.send(pieces, (head, end), most)
    }

    fn queue_rest(&mut self, pieces: &[&[u8]], sent: usize, engine: &Engine) -> Result<(), Gone> {
        let mut skip = sent;
        for piece in pieces {
            let rest = piece.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(piece.len());
            if rest.len() < KEPT_FROM {
                self.queue(engine).copy(rest);
            } else {
                // Counted with what others let us keep.
                self.queue(engine).keep(Box::new(rest.to_vec()), 0..rest.len(), Some(&engine.budget));
            }
        }
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broke(engine)),
        }
    }

    /// Sends more of what waits. What is little enough to be left waiting is not left for the
    /// sake of others: nobody might come by for it before the application's next part.
    pub(super) fn flush(&mut self, engine: &Engine) -> io::Result<Flushed> {
        let limits = &engine.config.limits;
        loop {
            let flushed = self.downstream.flush(limits, monotonic_ms())?;
            if flushed != Flushed::More || self.unsent() > limits.response_buffer_bytes {
                return Ok(flushed);
            }
        }
    }

    /// The client does not get the whole of what was begun, and that is not its doing.
    pub fn is_cut_off(&mut self) {
        if self.times.ending == Ending::Answered {
            self.times.ending = Ending::CutOff;
        }
    }

    /// The peer is gone: nothing more is sent.
    pub(super) fn broke(&mut self, engine: &Engine) -> Gone {
        if self.reply != Reply::Broken {
            engine.counters.replies_incomplete.add();
            self.times.client_is_gone();
        }
        self.downstream.drop_waiting();
        self.keep_alive = false;
        self.reply = Reply::Broken;
        Gone
    }
}
