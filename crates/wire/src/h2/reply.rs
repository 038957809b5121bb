//! A reply's head, which the layers above write as HTTP/1 does ([`crate::ReplyForm::Stream`]), as a block of fields.
//!
//! Knows: which headers belong to a connection and not to its reply. Does not know: frames. What it makes depends on the
//! head alone, so that the block of a head that repeats can be kept.

use crate::bytes::trim_ows;
use crate::hpack;

/// Appends the block of a status line and header lines, each ending in CR LF. A head that is no head makes a 500.
pub fn encode(head: &[u8], out: &mut Vec<u8>) {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status = lines.next().and_then(|line| line.split(|&byte| byte == b' ').nth(1)).unwrap_or(b"500");
    if !hpack::indexed_status(status, out) {
        hpack::field(b":status", status, out);
    }
    fields(lines, out);
}

/// Appends the block of lines that stand behind the content, each ending in CR LF.
pub fn encode_trailers(trailers: &[u8], out: &mut Vec<u8>) {
    fields(trailers.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)), out);
}

fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut name = Vec::new();
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        name.clear();
        name.extend(line[..colon].iter().map(u8::to_ascii_lowercase));
        if !is_of_a_connection(&name) {
            hpack::field(&name, trim_ows(&line[colon + 1..]), out);
        }
    }
}

/// RFC 9113 §8.2.2: no message has these.
fn is_of_a_connection(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{Decoder, List};

    #[test]
    fn a_head_of_lines_becomes_fields() {
        let mut block = Vec::new();
        let head = b"HTTP/1.1 418 I'm a teapot\r\nContent-Type:  text/plain \r\nConnection: close\r\n\
            Transfer-Encoding: chunked\r\nSet-Cookie: a=b\r\nX-Empty:\r\n\r\n";
        encode(head, &mut block);
        let mut list = List::new(1000);
        Decoder::default().decode(&block, &mut list).expect("a block");
        let found: Vec<_> = list.fields().map(|(name, value)| [name, b"=", value].concat()).collect();
        assert_eq!(
            found,
            [&b":status=418"[..], b"content-type=text/plain", b"set-cookie=a=b", b"x-empty="]
                .map(<[u8]>::to_vec)
        );
    }

    #[test]
    fn usual_statuses_are_one_byte() {
        for (status, byte) in [("200", 0x88), ("204", 0x89), ("304", 0x8b), ("404", 0x8d), ("500", 0x8e)] {
            let mut block = Vec::new();
            encode(format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes(), &mut block);
            assert_eq!(block, [byte]);
        }
    }
}
