//! A finished reply that waits to be sent together with others.
//!
//! Knows: its bytes and its connection, or that it is framed on a connection that others share. Does not know: why it
//! waits, or for whom. On the thread that has the replies of the batch: the leader's, or a watchdog's.

use std::sync::Arc;

use reactor::Sent;
use reactor::sys::monotonic_ns;

use crate::connection::Connection;
use crate::multiplexed::Multiplexed;

/// A reply that waits.
pub(crate) enum Reply {
    Connection {
        connection: Box<Connection>,
        bytes: Vec<u8>,
        /// How much of it is sent.
        sent: usize,
        failed: bool,
        /// Since when the kernel has it, where it was sent early; monotonic nanoseconds.
        sent_at: u64,
    },
    /// Those of one or more streams.
    Streams(Arc<Multiplexed>),
}

impl Reply {
    pub fn new(connection: Box<Connection>, bytes: Vec<u8>) -> Self {
        Self::Connection { connection, bytes, sent: 0, failed: false, sent_at: 0 }
    }

    /// Sends it before those that lead come by.
    pub fn send_early(&mut self) {
        self.send();
        if let Self::Connection { bytes, sent, sent_at: sent_at @ 0, .. } = self
            && *sent == bytes.len()
        {
            *sent_at = monotonic_ns();
        }
    }

    /// Sends it, as far as the socket takes it.
    pub fn send(&mut self) {
        match self {
            Self::Connection { connection, bytes, sent, failed, .. } => {
                while !*failed && *sent < bytes.len() {
                    match connection.transport.send(&bytes[*sent..]) {
                        Ok(Sent::Some(n)) => *sent += n,
                        Ok(Sent::Full) => break,
                        Err(_) => *failed = true,
                    }
                }
            }
            Self::Streams(shared) => shared.send_batched(),
        }
    }
}
