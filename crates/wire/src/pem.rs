//! Bytes as text: base64 (RFC 4648 §4), and PEM around it (RFC 7468).
//!
//! Knows: digits and line lengths. Does not know: what the bytes are. Pure.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Characters on a line of PEM.
const LINE: usize = 64;

/// In base64, filled up with equals signs.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// A section of this kind: `pem("CERTIFICATE", der)`.
pub fn pem(kind: &str, der: &[u8]) -> String {
    let encoded = base64(der);
    let mut text = format!("-----BEGIN {kind}-----\n");
    let mut rest = &*encoded;
    while !rest.is_empty() {
        // All of it is ASCII.
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text.push_str(&format!("-----END {kind}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc_come_out_as_there() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn lines_have_sixty_four_characters() {
        let line = "A".repeat(64);
        assert_eq!(pem("X", &[0; 48]), format!("-----BEGIN X-----\n{line}\n-----END X-----\n"));
        assert_eq!(pem("X", &[0; 51]), format!("-----BEGIN X-----\n{line}\nAAAA\n-----END X-----\n"));
    }
}
