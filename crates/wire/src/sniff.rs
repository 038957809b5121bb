//! What the first bytes of a connection look like: for log lines, and for nothing else.
//!
//! Knows: how the protocols begin that are sent to a wrong port. Does not know: which is expected. Pure. Nothing is
//! decided by it: a listener speaks what it was told to speak.

use crate::bytes::is_token;
use crate::proxy::SIGNATURE;

/// A few words for people: `a TLS handshake`, `an HTTP request`.
pub fn looks_like(bytes: &[u8]) -> &'static str {
    match another_protocol(bytes) {
        Some(name) => name,
        None if bytes.is_empty() => "nothing",
        None if is_http(bytes) => "an HTTP request",
        None => "something unknown",
    }
}

/// The same of what is known and no request of HTTP/1; none: it is one, or something unknown.
pub fn another_protocol(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x16, 0x03, ..] => "a TLS handshake",
        _ if bytes.starts_with(&SIGNATURE[..5]) => "a PROXY v2 header",
        _ if bytes.starts_with(b"PROXY ") => "a PROXY v1 header",
        _ if bytes.starts_with(b"PRI * HTTP/2") => "HTTP/2 without TLS",
        _ if bytes.starts_with(b"SSH-") => "SSH",
        // Version 1, BEGIN_REQUEST, its id, a body of eight bytes (FastCGI 1.0 §3.3).
        [1, 1, _, _, 0, 8, ..] => "a FastCGI request",
        // modifier1, the size of the variables, modifier2, the first one's name.
        [0, _, _, 0, 1..128, 0, b'A'..=b'Z', ..] => "a uwsgi request",
        _ if is_scgi(bytes) => "an SCGI request",
        _ => return None,
    })
}

/// A token, a blank, a path or a URL.
fn is_http(bytes: &[u8]) -> bool {
    let Some(blank) = bytes.iter().take(32).position(|&byte| byte == b' ') else { return false };
    let target = &bytes[blank + 1..];
    is_token(&bytes[..blank]) && (matches!(target.first(), Some(b'/' | b'*')) || target.starts_with(b"http"))
}

/// A netstring whose first variable is the one that has to be first.
pub(crate) fn is_scgi(bytes: &[u8]) -> bool {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..8).contains(&digits) && bytes[digits..].starts_with(b":CONTENT_LENGTH\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_is_named_by_its_beginning() {
        for (bytes, name) in [
            (&b""[..], "nothing"),
            (b"\x16\x03\x01\x02\x00", "a TLS handshake"),
            (b"\r\n\r\n\0\r\nQUIT\n\x21", "a PROXY v2 header"),
            (b"PROXY TCP4 ", "a PROXY v1 header"),
            (b"PRI * HTTP/2.0\r\n", "HTTP/2 without TLS"),
            (b"SSH-2.0-OpenSSH", "SSH"),
            (b"GET / HTTP/1.1\r\n", "an HTTP request"),
            (b"OPTIONS * HTTP/1.1\r\n", "an HTTP request"),
            (b"GET http://a/ HTTP/1.1\r\n", "an HTTP request"),
            (b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0", "a FastCGI request"),
            (b"\0\x20\0\0\x0e\0REQUEST_METHOD", "a uwsgi request"),
            (b"70:CONTENT_LENGTH\x0027\0", "an SCGI request"),
            (b"\x80\x81", "something unknown"),
            (b"hello", "something unknown"),
        ] {
            assert_eq!(looks_like(bytes), name, "{}", bytes.escape_ascii());
        }
    }
}
