//! Refusals: whose fault it is, what the peer is told, and under which name it is counted.
//!
//! Knows: every reason that there is. Does not know: where one was found. Each refusal closes
//! the connection: after a framing error nothing that follows can be trusted to be a request.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::date::DateLine;
use crate::reason::reason_phrase;

/// Whose fault something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Peer,
    Us,
}

/// One refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub status: u16,
    /// A stable name, for counters.
    pub reason: &'static str,
    /// One sentence for the peer.
    pub text: &'static str,
    pub whose: Whose,
}

macro_rules! faults {
    ($($name:ident = $status:literal $whose:ident $reason:literal $text:literal;)+) => {
        $(#[doc = $text] pub const $name: Fault =
            Fault { status: $status, reason: $reason, text: $text, whose: Whose::$whose };)+
        /// The names of all refusals: the values of the label `reason`.
        pub const REASONS: &[&str] = &[$($reason,)+];
    };
}

faults! {
    REQUEST_LINE = 400 Peer "request-line" "the request line is not METHOD SP TARGET SP HTTP/1.1";
    METHOD = 400 Peer "method" "the method is not a token";
    TARGET = 400 Peer "target" "the request target has a character that must be percent-encoded, or is of no form that its method allows";
    VERSION = 400 Peer "version" "the version is not HTTP/ DIGIT . DIGIT";
    NOT_HTTP1 = 505 Peer "not-http-1" "only HTTP/1.0 and HTTP/1.1 are spoken here";
    PRIOR_KNOWLEDGE = 505 Peer "prior-knowledge" "HTTP/2 without TLS is spoken here with peers that are trusted, and at addresses for it (h2c://)";
    NOT_HTTP = 400 Peer "not-http" "what arrived is not HTTP";
    MISDIRECTED = 421 Peer "misdirected" "the host is not the one that was named in the TLS handshake, where clients show certificates";
    TLS_ON_HTTP = 400 Peer "tls-on-http" "what arrived is a TLS handshake, and this address speaks plain HTTP";
    HTTP_ON_TLS = 400 Peer "http-on-tls" "this address speaks HTTPS: ask it with https:// in place of http://";
    BARE_LF = 400 Peer "bare-lf" "a line ends in LF without CR";
    TOO_MANY_EMPTY_LINES = 400 Peer "empty-lines" "too many empty lines before the request line";
    REQUEST_LINE_TOO_LONG = 414 Peer "request-line-too-long" "the request line is too long";
    HEADERS_TOO_LARGE = 431 Peer "headers-too-large" "the header section is too large";
    TOO_MANY_HEADERS = 431 Peer "too-many-headers" "there are too many header lines";
    FIELD_NAME = 400 Peer "field-name" "a header name is not a token directly followed by a colon";
    FIELD_VALUE = 400 Peer "field-value" "a header value has a control character";
    OBS_FOLD = 400 Peer "obs-fold" "a header line begins with a blank";
    UNDERSCORE = 400 Peer "underscore-name" "a header name has an underscore";
    NO_HOST = 400 Peer "no-host" "an HTTP/1.1 request needs a Host header";
    TWO_HOSTS = 400 Peer "two-hosts" "there is more than one Host header";
    BAD_HOST = 400 Peer "bad-host" "the Host header or the target's authority is not host[:port]";
    TWO_CONTENT_TYPES = 400 Peer "two-content-types" "there is more than one Content-Type header";
    LENGTH = 400 Peer "length" "Content-Length is not a number";
    TWO_LENGTHS = 400 Peer "two-lengths" "there is more than one Content-Length";
    LENGTH_AND_CHUNKED = 400 Peer "length-and-chunked" "there are both Content-Length and Transfer-Encoding";
    TRANSFER_ENCODING = 400 Peer "transfer-encoding" "Transfer-Encoding is not exactly 'chunked'";
    UNKNOWN_CODING = 501 Peer "unknown-coding" "a transfer coding is not known here";
    CHUNKED_IN_10 = 400 Peer "chunked-in-1.0" "HTTP/1.0 has no Transfer-Encoding";
    UNKNOWN_EXPECT = 417 Peer "unknown-expect" "the only expectation that is met here is 100-continue";
    METHOD_NOT_ALLOWED = 405 Peer "method-not-allowed" "this method is not allowed here";
    UNKNOWN_METHOD = 501 Peer "unknown-method" "this method is not known here";
    BODY_TOO_LARGE = 413 Peer "body-too-large" "the body is larger than is allowed here";
    CHUNK_SIZE = 400 Peer "chunk-size" "a chunk size is not a hexadecimal number on a line of its own";
    CHUNK_EXTENSION = 400 Peer "chunk-extension" "a chunk extension is not ;name or ;name=value";
    CHUNK_EXTENSIONS_TOO_LARGE = 400 Peer "chunk-extensions-too-large" "the chunk extensions are too large";
    CHUNK_END = 400 Peer "chunk-end" "a chunk's data does not end in CR LF";
    TRAILER = 400 Peer "trailer" "a trailer is malformed or must not be one";
    TRAILERS_TOO_LARGE = 431 Peer "trailers-too-large" "the trailers are too large";
    TOO_MANY_TRAILERS = 431 Peer "too-many-trailers" "there are too many trailers";
    HEAD_TOO_SLOW = 408 Peer "head-too-slow" "the request's head took too long";
    BODY_TOO_SLOW = 408 Peer "body-too-slow" "the request's body came too slowly";
    BODY_STALLED = 408 Peer "body-stalled" "nothing of the request's body arrived for too long";
    INCOMPLETE = 400 Peer "incomplete" "the request ended before it was complete";
    FORWARDED = 400 Peer "forwarded" "the forwarding headers contradict each other or are malformed";
    PROXY_EXPECTED = 400 Peer "proxy-expected" "a PROXY header is expected before anything else";
    PROXY_HEADER = 400 Peer "proxy-header" "the PROXY header is malformed";
    PROXY_TOO_LONG = 400 Peer "proxy-too-long" "the PROXY header is too long";
    PROXY_PEER = 400 Peer "proxy-peer" "the peer is none of those that may send a PROXY header";
    PROXY_CHECKSUM = 400 Peer "proxy-checksum" "the checksum of the PROXY header is wrong";
    GATEWAY_PEER = 400 Peer "gateway-peer" "the peer is none of the web servers whose variables are believed";
    GATEWAY_FORMAT = 400 Peer "gateway-format" "what arrived is no request of the protocol that is spoken at this address";
    GATEWAY_MODIFIER = 400 Peer "gateway-modifier" "what arrived is no uwsgi packet with modifiers 0 and 0";
    GATEWAY_ABORTED = 400 Peer "gateway-aborted" "the web server has given the request up";
    GATEWAY_VARIABLE = 400 Peer "gateway-variable" "a variable is malformed, there twice or missing";
    INTERNAL_ERROR = 500 Us "internal-error" "the application failed to answer";
    OVERLOADED = 503 Us "overloaded" "the server has no room for another connection";
    QUEUE_FULL = 503 Us "queue-full" "too many requests are waiting";
    QUEUE_TOO_SLOW = 503 Us "queue-too-slow" "the request would have waited too long for its turn";
    QUEUE_TIMEOUT = 503 Us "queue-timeout" "the request has waited too long for its turn";
    CONCURRENCY = 503 Us "concurrency" "as many requests are running as may run at a time";
    REQUEST_TIMEOUT = 504 Us "request-timeout" "the application did not answer in time";
    WS_VERSION = 426 Peer "websocket-version" "WebSocket is spoken in version 13 here";
    WS_KEY = 400 Peer "websocket-key" "Sec-WebSocket-Key is not 16 bytes in base64, once";
    STOPPING = 503 Us "stopping" "the server is stopping";
    BODIES_MEMORY = 503 Us "bodies-memory" "too many request bodies are being received at once";
    BODIES_DISK = 507 Us "bodies-disk" "the server has no room on its disk for another request body";
    NO_STORAGE = 507 Us "no-storage" "the server cannot store the request's body";
}

/// When to try again, in seconds (RFC 9110 §10.2.3): those that are refused together are told different times, so that they
/// do not come back together.
const RETRY_AFTER: [&str; 3] = ["1", "2", "3"];
/// How many were told.
static RETRIES: AtomicUsize = AtomicUsize::new(0);

/// The next of them: the value of a `Retry-After` field.
pub fn retry_after() -> &'static str {
    RETRY_AFTER[RETRIES.fetch_add(1, Ordering::Relaxed) % RETRY_AFTER.len()]
}

impl Fault {
    /// Its place in [`REASONS`].
    pub fn index(&self) -> usize {
        REASONS.iter().position(|reason| *reason == self.reason).unwrap_or(0)
    }

    /// Writes the whole reply. `server`: the value of its Server header, none where it is
    /// empty; `head_request`: without content (RFC 9110 §9.3.2).
    pub fn reply(&self, date: &DateLine, server: &[u8], head_request: bool, out: &mut Vec<u8>) {
        let phrase = reason_phrase(self.status);
        let content = format!("{} {phrase}: {}\n", self.status, self.text);
        let retry = match self.status {
            503 => format!("Retry-After: {}\r\n", retry_after()),
            _ => String::new(),
        };
        // RFC 9110 §15.5.6 and §10.2.3 ask for these two.
        let extra = match self.status {
            405 => "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n",
            // RFC 6455 §4.4, and RFC 9110 §15.5.22 for the Upgrade; `Connection` closes as ever.
            426 => "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n",
            _ => &retry,
        };
        out.extend_from_slice(format!("HTTP/1.1 {} {phrase}\r\n", self.status).as_bytes());
        out.extend_from_slice(date.bytes());
        if !server.is_empty() {
            out.extend_from_slice(&[b"Server: ", server, b"\r\n"].concat());
        }
        out.extend_from_slice(
            format!(
                "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{extra}Connection: close\r\n\r\n",
                content.len()
            )
            .as_bytes(),
        );
        if !head_request {
            out.extend_from_slice(content.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_refused_one_after_the_other_are_told_different_times() {
        let told: std::collections::BTreeSet<&str> = (0..30)
            .filter_map(|_| {
                let mut reply = Vec::new();
                QUEUE_FULL.reply(&DateLine::at(0), b"", false, &mut reply);
                let text = String::from_utf8_lossy(&reply).into_owned();
                RETRY_AFTER.into_iter().find(|after| text.contains(&format!("\r\nRetry-After: {after}\r\n")))
            })
            .collect();
        assert_eq!(told.len(), RETRY_AFTER.len(), "{told:?}");
    }

    #[test]
    fn each_reason_has_one_name() {
        let mut names = REASONS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REASONS.len());
        assert_eq!(REASONS[TWO_LENGTHS.index()], "two-lengths");
    }

    #[test]
    fn a_refusal_is_a_whole_reply_that_closes() {
        let mut out = Vec::new();
        BODY_TOO_LARGE.reply(&DateLine::at(0), b"", false, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        assert!(
            text.starts_with("HTTP/1.1 413 Content Too Large\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text}");
    }
}
