//! A reply in records, where its web server takes it so (FastCGI).
//!
//! Knows: when a reply is whole, so that its end goes with its last bytes. Does not know: how records look (`wire`
//! does), or how large bodies are cut into them (`output.rs`). Runs on the thread that owns the exchange.

use std::sync::Arc;

use wire::gateway::fastcgi::Records;
use wire::{BodyPlan, ReplyForm};

use super::{Exchange, Gone, Reply};
use crate::budget::Budget;
use crate::engine::Engine;
use crate::output::Kept;

/// What is no more than this is copied into one piece; more is sent from where it is, as far as one record has it.
const COPY_BYTES: usize = 16 * 1024;

impl Exchange {
    /// The records that its reply is sent in, if it is.
    #[inline]
    pub(super) fn records(&self) -> Option<Records> {
        match self.downstream.form() {
            ReplyForm::FastCgi(records) => Some(records),
            _ => None,
        }
    }

    /// What ends the reply, once, if nothing of it is missing but what is sent now: whoever has its last byte has the end
    /// with it, and may ask for more.
    pub(super) fn take_end(&mut self) -> bool {
        let whole = match self.reply {
            Reply::Done => !matches!(self.left, Some(1..)),
            Reply::Open { plan: BodyPlan::None, unsent } => !unsent,
            Reply::Open { .. } => self.left == Some(0),
            Reply::Nothing | Reply::Named | Reply::Broken => false,
        };
        whole && !std::mem::replace(&mut self.ended, true)
    }

    /// The web server has said that nobody waits for the rest any more. Asked of replies in parts alone.
    #[inline]
    pub(super) fn is_given_up(&self) -> bool {
        self.records().is_some()
            && !self.ended
            && self.downstream.connection().is_some_and(|one| one.is_given_up_unread())
    }

    /// [`Exchange::deliver`] in records: those of the pieces, and what ends a reply that is whole with them.
    pub(super) fn deliver_in_records(
        &mut self,
        records: Records,
        pieces: &[&[u8]],
        engine: &Engine,
    ) -> Result<(), Gone> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let end = records.end();
        let end = if self.take_end() { &end[..] } else { &[] };
        let (open, first) = records.open(total as u64);
        if let &[one, two] = pieces
            && total == first
            && total > COPY_BYTES
        {
            return self.deliver_framed(&[&open, one, two, end], 0, engine);
        }
        if total + end.len() == 0 {
            return Ok(());
        }
        let mut framed = Vec::with_capacity(total + end.len() + Records::heads(total as u64) as usize);
        records.add(&pieces.concat(), &mut framed);
        framed.extend_from_slice(end);
        self.deliver_framed(&[&framed], 0, engine)
    }

    /// A head, if there is one to be sent, and content that its owner lets us keep: what the socket does not take of it
    /// is queued without a copy.
    pub(super) fn keep_in_records(
        &mut self,
        records: Records,
        head: &[u8],
        (content, length, budget): (Kept, usize, Option<&Arc<Budget>>),
        engine: &Engine,
    ) -> Result<(), Gone> {
        let mut front = Vec::new();
        records.add(head, &mut front);
        let whole = self.take_end();
        let queue = self.queue(engine);
        queue.copy(&front);
        queue.frame_in(Some(records));
        queue.keep(content, 0..length, budget);
        if whole {
            queue.copy(&records.end());
        }
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broke(engine)),
        }
    }
}
