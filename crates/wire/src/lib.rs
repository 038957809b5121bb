//! Protocols as pure machines: bytes in, events out.
//!
//! Knows: HTTP/1 (RFC 9110, 9112), HTTP/2 (RFC 9113, 7541), WebSocket (RFC 6455, 7692), forwarding headers (RFC 7239), the
//! PROXY protocol, uwsgi, SCGI and FastCGI, what of HTTP concerns files (names, conditions, ranges, codings, types), and every
//! limit of the engine. Does not know: sockets, clocks, threads, Python; there is no unsafe code. Time is
//! always an argument, so that tests run on virtual time.
//!
//! Read `http1.rs` first: the machine's verbs are `advance`, `eof`, `deadline` and `tick`.

#![forbid(unsafe_code)]

mod block;
mod body;
mod bytes;
mod chunked;
pub mod conditional;
mod date;
pub mod der;
pub mod distinguished_name;
pub mod encodings;
pub mod etag;
mod fault;
pub mod field_text;
mod fields;
mod forwarded;
mod found_out;
pub mod gateway;
pub mod h2;
mod head;
mod head_cache;
mod hex;
pub mod hpack;
mod http1;
mod http_date;
mod limits;
pub mod media;
pub mod mount;
mod name_cache;
pub mod named_file;
pub mod pem;
mod percent;
mod policy;
pub mod proxy;
pub mod ranges;
mod reason;
mod request_line;
mod response;
mod sniff;
pub mod static_path;
mod trace_context;
mod trust;
pub mod ws;

pub use block::{Attachment, Block};
pub use date::{DateLine, MONTHS, civil};
pub use fault::{
    BODIES_DISK, BODIES_MEMORY, CONCURRENCY, Fault, GATEWAY_ABORTED, GATEWAY_FORMAT, GATEWAY_MODIFIER,
    GATEWAY_PEER, HTTP_ON_TLS, INCOMPLETE, INTERNAL_ERROR, MISDIRECTED, NO_STORAGE, NOT_HTTP, OVERLOADED,
    PRIOR_KNOWLEDGE, PROXY_EXPECTED, PROXY_HEADER, PROXY_PEER, PROXY_TOO_LONG, QUEUE_FULL, QUEUE_TIMEOUT,
    QUEUE_TOO_SLOW, REASONS, REQUEST_LINE, REQUEST_TIMEOUT, STOPPING, TLS_ON_HTTP, VERSION, WS_KEY,
    WS_VERSION, Whose, retry_after,
};
pub use forwarded::{Effective, Scheme, effective, forwarded_prefix};
pub use head::{Framing, Head};
pub use head_cache::{HeadCache, Hint};
pub use hex::{hex, hex_pair, put_digits};
pub use http_date::http_date;
pub use http1::{BodyLeft, Event, Http1, Shared, Tick};
pub use limits::{LimitDoc, Limits, TABLE, UnknownLimit};
pub use name_cache::NameCache;
pub use percent::percent_decoded;
pub use policy::{Policy, REFUSABLE, RELAXABLE, Underscore, UnknownName};
pub use reason::reason_phrase;
pub use request_line::Version;
pub use response::{
    BodyPlan, FieldName, HeadError, LAST_CHUNK, NameMark, Plan, ReplyForm, RequestFacts, ResponseHead,
    chunk_prefix, head_length,
};
pub use sniff::{another_protocol, looks_like};
pub use trace_context::{TraceParent, trace_state};
pub use trust::{BadTrust, Family, Peer, Trust};

/// Monotonic milliseconds.
pub type Millis = u64;

/// The interim response that a peer waits for (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
