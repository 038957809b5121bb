//! A finished reply that waits to be sent together with others.
//!
//! Knows: its bytes and its connection. Does not know: why it waits, or for whom. On the thread that has the replies of
//! the batch: the leader's, or a watchdog's.

use reactor::Sent;

use crate::connection::Connection;

/// A reply that waits.
pub(crate) struct Reply {
    pub connection: Box<Connection>,
    pub bytes: Vec<u8>,
    /// How much of it is sent.
    pub sent: usize,
    pub failed: bool,
}

impl Reply {
    pub fn new(connection: Box<Connection>, bytes: Vec<u8>) -> Self {
        Self { connection, bytes, sent: 0, failed: false }
    }

    /// Sends it, as far as the socket takes it.
    pub fn send(&mut self) {
        while !self.failed && self.sent < self.bytes.len() {
            match self.connection.transport.send(&self.bytes[self.sent..]) {
                Ok(Sent::Some(n)) => self.sent += n,
                Ok(Sent::Full) => break,
                Err(_) => self.failed = true,
            }
        }
    }
}
