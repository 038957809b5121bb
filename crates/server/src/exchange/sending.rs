//! How a reply's bytes leave: at once, carried with those of the next request, or queued.
//!
//! Knows: what the socket takes, and how long a slow reader is waited for. Does not know: what
//! the bytes mean. Runs on the thread that owns the exchange.

use std::io;

use reactor::sys::monotonic_ms;
use reactor::{PIECES, PollFor, Sent};

use super::{Exchange, Gone, Reply};
use crate::app::{Outside, Waits};
use crate::engine::{Engine, Stage};
use crate::output::{Carry, Flushed};

/// How much of replies is kept for a reader that is slow.
fn buffer_bytes(engine: &Engine) -> usize {
    usize::try_from(engine.config.limits.response_buffer_bytes).unwrap_or(usize::MAX)
}

/// How often a thread that waits for a slow reader looks whether the engine still lives.
const LOOK_MS: u64 = 1000;

impl Exchange {
    /// Sends pieces in order: now as far as the socket takes them, then from the queue as far
    /// as the bound allows, and beyond it this thread waits.
    pub(super) fn deliver(
        &mut self,
        pieces: &[&[u8]],
        engine: &Engine,
        waits: Waits<'_>,
    ) -> Result<(), Gone> {
        debug_assert!(pieces.len() <= PIECES);
        if self.carry(pieces, engine) {
            return Ok(());
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        if self.connection.sending.is_empty() {
            match self.send_now(pieces) {
                Ok(n) if n == total => return Ok(()),
                Ok(n) => sent = n,
                Err(_) => return Err(self.broke(engine)),
            }
        }
        self.queue_rest(pieces, sent, engine, waits)
    }

    /// Replies to pipelined requests wait for one another while the next request is at hand.
    fn carry(&mut self, pieces: &[&[u8]], engine: &Engine) -> bool {
        let connection = &mut *self.connection;
        if connection.pending.is_empty() || !self.keep_alive || self.reply != Reply::Done {
            return false;
        }
        if connection.sending.output.is_some() {
            return false;
        }
        if connection.sending.carry.is_none() {
            connection.sending.carry = Some(Carry::new(&connection.socket));
        }
        let Some(carry) = &connection.sending.carry else { return false };
        carry.add(pieces, buffer_bytes(engine))
    }

    /// One send of everything; how much was taken.
    #[inline]
    pub(super) fn send_now(&self, pieces: &[&[u8]]) -> io::Result<usize> {
        let socket = &self.connection.socket;
        let sent = match pieces {
            [one] => socket.send(one)?,
            many => socket.send_pieces(many)?,
        };
        Ok(match sent {
            Sent::Some(n) => n,
            Sent::Full => 0,
        })
    }

    fn queue_rest(
        &mut self,
        pieces: &[&[u8]],
        sent: usize,
        engine: &Engine,
        waits: Waits<'_>,
    ) -> Result<(), Gone> {
        let bound = buffer_bytes(engine);
        let mut skip = sent;
        for piece in pieces {
            let mut rest = piece.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(piece.len());
            while !rest.is_empty() {
                let queue = self.queue(engine);
                let Waits::Outside(away) = waits else {
                    queue.copy(rest);
                    break;
                };
                let room = bound.saturating_sub(queue.copied()).min(rest.len());
                queue.copy(&rest[..room]);
                rest = &rest[room..];
                if !rest.is_empty() {
                    self.make_room(engine, away)?;
                }
            }
        }
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broke(engine)),
        }
    }

    pub(super) fn flush(&mut self, engine: &Engine) -> io::Result<Flushed> {
        self.connection.flush(&engine.config.limits, monotonic_ms())
    }

    /// Waits until the peer has taken something of a full queue.
    fn make_room(&mut self, engine: &Engine, away: &dyn Outside) -> Result<(), Gone> {
        let before = self.queue(engine).copied();
        engine.counters.reply_waits.add();
        loop {
            match self.flush(engine) {
                Ok(Flushed::All) => return Ok(()),
                Ok(Flushed::Full) if self.queue(engine).copied() < before => return Ok(()),
                Ok(Flushed::Full) => {}
                Err(_) => return Err(self.broke(engine)),
            }
            let now = monotonic_ms();
            let patience = self.connection.patience;
            if patience.is_over(now) || engine.stage() == Stage::Aborting {
                engine.counters.write_timeouts.add();
                self.connection.socket.reset_at_close();
                return Err(self.broke(engine));
            }
            let mut result = Ok(true);
            let socket = &self.connection.socket;
            let wait = (patience.until() - now).min(LOOK_MS);
            away.outside(&mut |let_go| result = socket.wait(PollFor::Writable, wait, let_go));
            if result.is_err() {
                return Err(self.broke(engine));
            }
        }
    }

    /// The peer is gone: nothing more is sent.
    pub(super) fn broke(&mut self, engine: &Engine) -> Gone {
        if self.reply != Reply::Broken {
            engine.counters.replies_incomplete.add();
        }
        self.connection.sending = Default::default();
        self.keep_alive = false;
        self.reply = Reply::Broken;
        Gone
    }
}
