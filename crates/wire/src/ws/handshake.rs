//! The opening handshake (RFC 6455 §4.2, on a stream of HTTP/2 RFC 8441 §5), of which HTTP has judged the grammar already.
//!
//! Knows: what makes a request one for a WebSocket, and what answers it. Pure.

use crate::bytes::{is_token, trim_ows};
use crate::head::{Framing, Head};
use crate::pem::base64;
use crate::request_line::Version;

/// RFC 6455 §1.3.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request that asks for a WebSocket as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// The value of Sec-WebSocket-Accept; a stream has none.
    pub accept: Option<String>,
    pub deflate: Offer,
}

/// Whether permessage-deflate was offered in a form that can be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    None,
    /// `window`: the bound that the client sets to ours, in bits (RFC 7692 §7.1.2.1).
    Deflate {
        window: Option<u8>,
    },
}

/// Why there is no handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHandshake {
    /// The request asks for nothing of the kind: it is an ordinary one.
    Ordinary,
    /// Another version than 13 (§4.2.2: 426, and which one would do).
    Version,
    /// The key is missing, there twice, or not 16 bytes in base64.
    Key,
}

impl Handshake {
    /// Reads a request's head.
    ///
    /// # Errors
    /// [`NoHandshake`] says why it is none.
    pub fn read(head: &Head) -> Result<Self, NoHandshake> {
        if !Self::is_asked_for(head) {
            return Err(NoHandshake::Ordinary);
        }
        let mut versions = values(head, "sec-websocket-version");
        if versions.next() != Some(b"13") || versions.next().is_some() {
            return Err(NoHandshake::Version);
        }
        if head.version == Version::Http2 {
            return Ok(Self { accept: None, deflate: offer(head) });
        }
        let mut keys = values(head, "sec-websocket-key");
        let key = keys.next().filter(|key| is_key(key)).ok_or(NoHandshake::Key)?;
        if keys.next().is_some() {
            return Err(NoHandshake::Key);
        }
        Ok(Self { accept: Some(accept(key)), deflate: offer(head) })
    }

    /// A GET of HTTP/1.1 without a body, whose `Upgrade: websocket` is named in `Connection`
    /// (RFC 9110 §7.8), or in HTTP/2 a CONNECT: there is none for anything else (`h2/request.rs`). Whatever is not that is
    /// answered as if there were no Upgrade.
    pub fn is_asked_for(head: &Head) -> bool {
        if head.version == Version::Http2 {
            return head.method() == b"CONNECT";
        }
        head.version == Version::Http11
            && head.method() == b"GET"
            && matches!(head.framing, Framing::None | Framing::Length(0))
            && has(head, "upgrade", b"websocket")
            && has(head, "connection", b"upgrade")
    }

    /// The head of the answer, to which other headers and an empty line are to be added.
    pub fn answer(&self, subprotocol: Option<&str>) -> Vec<u8> {
        let mut out = match &self.accept {
            Some(accept) => format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n"
            )
            .into_bytes(),
            None => b"HTTP/1.1 200 OK\r\n".to_vec(),
        };
        if let Some(name) = subprotocol {
            out.extend_from_slice(format!("Sec-WebSocket-Protocol: {name}\r\n").as_bytes());
        }
        if let Offer::Deflate { window } = self.deflate {
            out.extend_from_slice(
                b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
                  client_no_context_takeover",
            );
            if let Some(bits) = window {
                out.extend_from_slice(format!("; server_max_window_bits={bits}").as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        out
    }
}

fn values<'a>(head: &'a Head, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    head.block
        .fields()
        .filter(move |(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value)
}

fn has(head: &Head, name: &'static str, member: &[u8]) -> bool {
    values(head, name)
        .flat_map(|value| value.split(|&byte| byte == b','))
        .any(|found| trim_ows(found).eq_ignore_ascii_case(member))
}

/// 16 bytes in base64: 22 characters and two equals signs.
fn is_key(key: &[u8]) -> bool {
    let digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(digit)
}

fn accept(key: &[u8]) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key);
    hash.update(MAGIC);
    base64(&hash.digest().bytes())
}

/// The first offer that can be accepted (RFC 7692 §5, §7.1). Ours is to answer without context
/// takeover, which every offer allows.
fn offer(head: &Head) -> Offer {
    let offers = values(head, "sec-websocket-extensions").flat_map(|value| value.split(|&byte| byte == b','));
    for one in offers {
        let mut parts = one.split(|&byte| byte == b';').map(trim_ows);
        if parts.next() == Some(b"permessage-deflate")
            && let Some(offer) = acceptable(parts)
        {
            return offer;
        }
    }
    Offer::None
}

fn acceptable<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Option<Offer> {
    let mut seen: Vec<&[u8]> = Vec::new();
    let mut ours = None;
    for parameter in parameters {
        let mut halves = parameter.splitn(2, |&byte| byte == b'=');
        let name = halves.next().unwrap_or_default();
        let value = halves.next().map(|value| {
            value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
        });
        let good = match (name, value) {
            (b"server_no_context_takeover" | b"client_no_context_takeover", None) => true,
            (b"client_max_window_bits", None) => true,
            (b"client_max_window_bits", Some(bits)) => window(bits).is_some(),
            (b"server_max_window_bits", Some(bits)) => {
                ours = window(bits);
                ours.is_some()
            }
            _ => false,
        };
        if !good || seen.contains(&name) {
            return None;
        }
        seen.push(name);
    }
    Some(Offer::Deflate { window: ours })
}

/// 8 to 15, without leading zeros (RFC 7692 §7.1.2).
fn window(bits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(bits).ok().filter(|_| is_token(bits))?;
    let number: u8 = text.parse().ok()?;
    ((8..=15).contains(&number) && !text.starts_with(['0', '+'])).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Http1, Limits, Policy, Shared};

    fn read(lines: &str) -> Result<Handshake, NoHandshake> {
        let text = format!("GET /chat HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        read_all(&text)
    }

    fn read_all(text: &str) -> Result<Handshake, NoHandshake> {
        let mut shared = Shared::new(Limits::default(), Policy::default());
        let mut input = text.as_bytes();
        match Http1::new(0, 0).advance(&mut input, &mut shared, 0) {
            Event::Request(head) => Handshake::read(&head),
            _ => panic!("no request: {text}"),
        }
    }

    const GOOD: &str = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    #[test]
    fn the_example_of_the_rfc_is_answered_as_there() {
        let accept = read(GOOD).expect("a handshake").accept;
        assert_eq!(accept.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn what_does_not_ask_in_full_is_an_ordinary_request() {
        for (from, to) in [("Upgrade: WebSocket", "Upgrade: foo"), ("keep-alive, Upgrade", "keep-alive")] {
            assert_eq!(read(&GOOD.replace(from, to)), Err(NoHandshake::Ordinary), "{to}");
        }
        for line in ["POST / HTTP/1.1", "GET / HTTP/1.0"] {
            assert_eq!(
                read_all(&format!("{line}\r\nHost: a\r\n{GOOD}\r\n")),
                Err(NoHandshake::Ordinary),
                "{line}"
            );
        }
    }

    #[test]
    fn another_version_and_a_bad_key_are_told_apart() {
        let version = |text: &str| read(&GOOD.replace("Version: 13", text));
        assert_eq!(version("Version: 8"), Err(NoHandshake::Version));
        assert_eq!(version("Versions: 13"), Err(NoHandshake::Version));
        let key = |text: &str| read(&GOOD.replace("dGhlIHNhbXBsZSBub25jZQ==", text));
        for bad in ["", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZ===", "dGhlIHNhbXBsZSBub25j ===", "x"]
        {
            assert_eq!(key(bad), Err(NoHandshake::Key), "{bad}");
        }
        let twice = format!("{GOOD}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
        assert_eq!(read(&twice), Err(NoHandshake::Key));
    }

    #[test]
    fn an_offer_is_accepted_where_it_can_be_kept() {
        let offered = |text: &str| {
            read(&format!("{GOOD}Sec-WebSocket-Extensions: {text}\r\n")).expect("a handshake").deflate
        };
        for (good, window) in [
            ("permessage-deflate", None),
            ("permessage-deflate; client_max_window_bits", None),
            (
                "x-unknown, permessage-deflate; server_max_window_bits=15; client_max_window_bits=\"10\"",
                Some(15),
            ),
            ("permessage-deflate; server_max_window_bits=10, permessage-deflate", Some(10)),
            ("permessage-deflate; server_max_window_bits=7, permessage-deflate", None),
        ] {
            assert_eq!(offered(good), Offer::Deflate { window }, "{good}");
        }
        for bad in [
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; unknown",
            "permessage-deflate; client_max_window_bits=7",
            "permessage-deflate; client_max_window_bits=010",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
            "deflate-frame",
        ] {
            assert_eq!(offered(bad), Offer::None, "{bad}");
        }
    }

    #[test]
    fn a_bound_of_our_window_is_confirmed() {
        let line = "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9";
        let answer = read(&format!("{GOOD}{line}\r\n")).expect("a handshake").answer(None);
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.ends_with("client_no_context_takeover; server_max_window_bits=9\r\n"), "{answer}");
    }
}
