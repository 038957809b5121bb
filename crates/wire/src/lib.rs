//! Protocols as pure machines: bytes in, events out.
//!
//! Knows: HTTP/1 (RFC 9110, 9112), WebSocket (RFC 6455, 7692), forwarding headers (RFC 7239), the PROXY protocol,
//! and every limit of the engine. Does not know: sockets, clocks, threads, Python; there is no unsafe code. Time is
//! always an argument, so that tests run on virtual time.
//!
//! Read `http1.rs` first: the machine's verbs are `advance`, `eof`, `deadline` and `tick`.

#![forbid(unsafe_code)]

mod bytes;
mod chunked;
mod date;
mod fault;
mod fields;
mod forwarded;
mod head;
mod heads;
mod http1;
mod limits;
mod names;
mod policy;
pub mod proxy;
mod reason;
mod request_line;
mod response;
mod sniff;
pub mod ws;

pub use date::{DateLine, MONTHS, civil};
pub use fault::{
    BODIES_DISK, BODIES_MEMORY, CONCURRENCY, Fault, INTERNAL_ERROR, NO_STORAGE, OVERLOADED, QUEUE_FULL,
    QUEUE_TIMEOUT, REASONS, REQUEST_TIMEOUT, STOPPING, WS_KEY, WS_VERSION, Whose,
};
pub use forwarded::{BadTrust, Effective, Family, Peer, Scheme, Trust, effective};
pub use head::{Attachment, Block, Framing, Head};
pub use heads::{HeadCache, Hint};
pub use http1::{BodyLeft, Event, Http1, Shared, Tick};
pub use limits::{LimitDoc, Limits, TABLE, UnknownLimit};
pub use names::Names;
pub use policy::{Policy, REFUSABLE, RELAXABLE, Underscore, UnknownName};
pub use reason::reason_phrase;
pub use request_line::Version;
pub use response::{
    BodyPlan, FieldName, HeadError, LAST_CHUNK, Plan, RequestFacts, ResponseHead, chunk_prefix,
};
pub use sniff::looks_like;

/// Monotonic milliseconds.
pub type Millis = u64;

/// The interim response that a peer waits for (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
