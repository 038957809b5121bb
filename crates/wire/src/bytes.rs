//! Which bytes may stand where, as tables: one look-up a byte.
//!
//! Knows: RFC 9110 §5.6.2 (token) and §5.5 (field values). Pure.

/// Bits of a byte's class.
const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const VISIBLE: u8 = 4;
const HOST: u8 = 8;
const VARIABLE: u8 = 16;

const fn class(byte: u8) -> u8 {
    let mut bits = 0;
    let alphanumeric = byte.is_ascii_alphanumeric();
    if alphanumeric
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
    {
        bits |= TOKEN;
    }
    if byte == b'\t' || (byte >= 0x20 && byte != 0x7f) {
        bits |= VALUE;
    }
    if byte > 0x20 && byte < 0x7f {
        bits |= VISIBLE;
    }
    // RFC 3986 §3.2.2 reg-name, without the comma: a list of hosts is no host.
    if alphanumeric
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
    {
        bits |= HOST;
    }
    if byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_' {
        bits |= VARIABLE;
    }
    bits
}

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = class(byte as u8);
        byte += 1;
    }
    table
};

#[inline]
fn all(bytes: &[u8], bit: u8) -> bool {
    bytes.iter().fold(true, |good, &byte| good & (CLASS[byte as usize] & bit != 0))
}

/// `tchar`, RFC 9110 §5.6.2.
#[inline]
pub fn is_tchar(byte: u8) -> bool {
    CLASS[byte as usize] & TOKEN != 0
}

/// A token of at least one character.
#[inline]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// Bytes of a field value: no control characters but HTAB. Eight at a time: this looks at
/// every header that is sent.
#[inline]
pub fn is_value(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    let suspicious = words.iter().fold(0, |found, word| {
        let word = u64::from_ne_bytes(*word);
        let delete = word ^ (ONES * 0x7f);
        // A byte below 0x20 borrows into its top bit, as does a zero after the exclusive or.
        found | (word.wrapping_sub(ONES * 0x20) & !word | delete.wrapping_sub(ONES) & !delete) & TOPS
    });
    // A tab is suspicious too: then each byte is looked up.
    if suspicious == 0 { all(rest, VALUE) } else { all(bytes, VALUE) }
}

/// Visible ASCII, without the blank.
pub fn is_visible(bytes: &[u8]) -> bool {
    all(bytes, VISIBLE)
}

/// Bytes of a variable's name as CGI has them (RFC 3875 §4.1), possibly none.
#[inline]
pub fn is_variable(bytes: &[u8]) -> bool {
    all(bytes, VARIABLE)
}

/// Bytes of a host name, possibly none.
pub fn is_host_name(bytes: &[u8]) -> bool {
    all(bytes, HOST)
}

/// Without blanks and tabs at both ends: OWS, RFC 9110 §5.6.3, and nothing else (not the
/// other characters that `trim_ascii` or Unicode know).
#[inline]
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Decimal digits only, at least one, no overflow.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        for (text, number) in [("0", 0), ("010", 10), ("18446744073709551615", u64::MAX)] {
            assert_eq!(decimal(text.as_bytes()), Some(number), "{text}");
        }
        for text in ["", "+5", "-5", "0x5", "5_0", "5 5", "5.0", "18446744073709551616", "\u{665}"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_control_character_is_found_wherever_it_stands() {
        for byte in (0..=255u8).step_by(if cfg!(miri) { 15 } else { 1 }) {
            let good = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
            for length in [1, 7, 8, 9, 16, 21] {
                for at in 0..length {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    assert_eq!(is_value(&text), good, "{byte:#x} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn only_blanks_and_tabs_are_trimmed() {
        assert_eq!(trim_ows(b" \t\x85a b\xa0\t "), b"\x85a b\xa0");
        assert_eq!(trim_ows(b"\x0ba"), b"\x0ba");
        assert_eq!(trim_ows(b"  "), b"");
    }
}
