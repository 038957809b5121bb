//! What a connection's input means, told to whoever owns it.

use std::sync::Arc;

use super::fault::Wrong;
use super::priority::Priority;
use super::settings::Settings;
use crate::fault::Fault;
use crate::forwarded::Scheme;
use crate::head::Head;

/// What the input meant.
pub enum Event<'a> {
    /// All of it was consumed.
    NeedMore,
    Request(Box<Request>),
    /// Part of a body. Its window is given back by [`super::Receive::read`].
    Data {
        stream: u32,
        data: &'a [u8],
    },
    /// A body is complete, its trailers are judged.
    End {
        stream: u32,
    },
    /// The peer has cut a stream: it is over but for its call, and nothing can be sent on it any more.
    Reset {
        stream: u32,
        code: u32,
    },
    /// The peer has done on a stream what it must not, and was told (RFC 9113 §5.4.2): it is over as if it had been cut.
    /// Of a stream that nobody has heard of, too, so that it can be counted.
    StreamError {
        stream: u32,
        wrong: Wrong,
    },
    /// A request that is answered with this, or cut where its reply has begun. More of its body, if any comes, is
    /// dropped.
    Refused {
        stream: u32,
        fault: Fault,
    },
    /// For the sending half: so much more may be sent on a stream, or on the connection where that is 0.
    Window {
        stream: u32,
        increment: u32,
    },
    /// For the sending half.
    Settings(Settings),
    /// In what order the peer wants a stream's reply.
    Priority {
        stream: u32,
        priority: Priority,
    },
    /// The peer begins no more streams and will leave; those that are open go on.
    Goaway {
        code: u32,
    },
    /// The connection ends with this: when the output is sent, it is closed. Nothing else comes any more.
    Fault(Wrong),
}

/// A request on a stream.
pub struct Request {
    pub stream: u32,
    pub head: Arc<Head>,
    pub scheme: Scheme,
    /// The stream is to become this, which is `websocket` (RFC 8441); the method is CONNECT.
    pub protocol: Option<Box<[u8]>>,
    pub priority: Priority,
    /// No content follows.
    pub end: bool,
}
