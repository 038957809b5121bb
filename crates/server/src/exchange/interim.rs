//! Interim responses: what a client is told before its reply (RFC 9110 §15.2).
//!
//! Knows: who can be told, and that a deadline's refusal must not come into the middle of it. Does not know: what is told.
//! Runs on the thread that owns the exchange.

use wire::Version;

use super::{Exchange, Gone};
use crate::downstream::Downstream;
use crate::engine::Engine;

impl Exchange {
    /// Its client reads what comes before a reply: one of HTTP/1.0 and a web server that takes one reply do not.
    #[inline]
    pub fn takes_interim(&self) -> bool {
        self.head.version != Version::Http10 && !self.downstream.form().has_one_reply()
    }

    /// Sends an interim response, where its client takes one. False: the reply's head has gone.
    ///
    /// # Errors
    /// [`Gone`] when the peer is, or its deadline's refusal has been sent.
    pub fn interim(&mut self, bytes: &[u8], engine: &Engine) -> Result<bool, Gone> {
        if self.is_broken() || self.is_overdue() {
            return Err(Gone);
        }
        if self.head_is_sent() {
            return Ok(false);
        }
        if self.takes_interim() {
            self.deliver(&[bytes], bytes.len(), engine)?;
        }
        // A refusal would come into the middle of what the socket has not taken: the deadline cuts, as in a reply that
        // has begun. Streams frame it whole.
        if let (Some(deadline), Downstream::Connection(connection)) = (&self.deadline, &self.downstream)
            && !connection.sending.is_empty()
        {
            deadline.claim();
        }
        Ok(true)
    }
}
