//! Which request it is, for people: what the log says of one that has failed.
//!
//! Knows: a request line, its number and its age. Does not know: what has happened to it.

use std::fmt;
use std::sync::Arc;

use reactor::sys::monotonic_ms;
use wire::Head;

use super::Exchange;

/// A request that may be over: `GET /x HTTP/1.1 (request 17, after 12 ms)`.
pub struct About {
    head: Arc<Head>,
    /// Requests that this worker has begun, this one included.
    number: u64,
    /// When it had arrived, in monotonic milliseconds.
    arrived: u64,
}

impl Exchange {
    /// Which request it is, for as long as somebody wants to say so.
    pub fn about(&self) -> About {
        About { head: Arc::clone(&self.head), number: self.number, arrived: self.arrived }
    }
}

impl fmt::Display for About {
    /// Bytes that are not UTF-8 show as replacement characters; control characters are left to the log to escape.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = String::from_utf8_lossy(self.head.request_line());
        let age = monotonic_ms().saturating_sub(self.arrived);
        write!(to, "{line} (request {}, after {age} ms)", self.number)
    }
}
