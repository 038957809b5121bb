//! The chunked decoder beside a second one that is slow, short and sees all bytes at once.
//!
//! Inputs are built from the grammar of RFC 9112 §7.1, then some are damaged by one byte. They
//! follow from a seed, so that a failure can be had again.

use wire::{Event, Http1, Limits, Policy, Shared};

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A sequence of numbers that depends on nothing but its seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// What a body is: its data, or refused, or not all there.
#[derive(Debug, PartialEq, Eq)]
enum Body {
    Whole(Vec<u8>),
    Refused,
    Open,
}

/// The decoder under test, in pieces of some size.
fn streamed(bytes: &[u8], size: usize) -> Body {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut machine = Http1::new(0, 0);
    let mut body = Vec::new();
    for piece in [HEAD].into_iter().chain(bytes.chunks(size)) {
        let mut input = piece;
        loop {
            match machine.advance(&mut input, &mut shared, 0) {
                Event::NeedMore => break,
                Event::Request(_) => {}
                Event::Body(data) => body.extend_from_slice(data),
                Event::End => return Body::Whole(body),
                Event::Fault(_) => return Body::Refused,
            }
        }
    }
    Body::Open
}

/// The second decoder: line by line over all bytes, by the grammar.
fn at_once(mut bytes: &[u8]) -> Body {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            return if open_line(bytes) { Body::Open } else { Body::Refused };
        };
        let Some(size) = size_of_line(&bytes[..end]) else { return Body::Refused };
        bytes = &bytes[end + 2..];
        if size == 0 {
            return if bytes == b"\r\n" {
                Body::Whole(body)
            } else if b"\r\n".starts_with(bytes) {
                Body::Open
            } else {
                Body::Refused
            };
        }
        if bytes.len() < size + 2 {
            let ending = bytes.get(size..).unwrap_or(b"");
            return if b"\r\n".starts_with(ending) { Body::Open } else { Body::Refused };
        }
        if &bytes[size..size + 2] != b"\r\n" {
            return Body::Refused;
        }
        body.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size + 2..];
    }
}

/// Whether some ending makes a good line of it.
fn open_line(line: &[u8]) -> bool {
    let endings: [&[u8]; 6] = [b"", b"1", b"a", b"=a", b"\"", b"a\""];
    if let Some(line) = line.strip_suffix(b"\r") {
        return size_of_line(line).is_some();
    }
    let tries = [&b""[..], b";a", b"1"];
    tries
        .iter()
        .any(|more| endings.iter().any(|ending| size_of_line(&[line, *ending, more].concat()).is_some()))
}

/// `1*HEXDIG *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn size_of_line(line: &[u8]) -> Option<usize> {
    let text: String = line.iter().map(|&byte| char::from(byte)).collect();
    let digits = text.chars().take_while(char::is_ascii_hexdigit).count();
    if digits == 0 || digits > 16 {
        return None;
    }
    let size = usize::from_str_radix(&text[..digits], 16).ok().filter(|&size| size < 1 << 30)?;
    let mut rest = &text[digits..];
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    let token = |text: &str| {
        text.find(|one: char| !(one.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(one)))
            .unwrap_or(text.len())
    };
    while !rest.is_empty() {
        rest = rest[blanks(rest)..].strip_prefix(';')?;
        rest = &rest[blanks(rest)..];
        let name = token(rest);
        if name == 0 {
            return None;
        }
        rest = &rest[name..];
        let Some(value) = rest[blanks(rest)..].strip_prefix('=') else { continue };
        let value = &value[blanks(value)..];
        rest = if let Some(mut quoted) = value.strip_prefix('"') {
            loop {
                let (escaped, one) = match quoted.strip_prefix('\\') {
                    Some(after) => (true, after.chars().next()?),
                    None => (false, quoted.chars().next()?),
                };
                if one != '\t' && (one < ' ' || one == '\x7f') {
                    return None;
                }
                quoted = &quoted[usize::from(escaped) + one.len_utf8()..];
                if one == '"' && !escaped {
                    break quoted;
                }
            }
        } else {
            let length = token(value);
            if length == 0 {
                return None;
            }
            &value[length..]
        };
    }
    Some(size)
}

/// A body by the grammar.
fn built(random: &mut Random) -> Vec<u8> {
    const EXTENSIONS: &[&str] = &["", "", "", ";a", "; a=b", " ;a =\t\"b;\\\"c\"", ";a;b;c=~", ";q=\"\""];
    let mut bytes = Vec::new();
    for _ in 0..random.below(4) {
        let size = 1 + random.below(20) as usize;
        let zeros = random.pick(&["", "0", "000"]);
        bytes.extend(format!("{zeros}{size:x}{}\r\n", random.pick(EXTENSIONS)).bytes());
        bytes.extend((0..size).map(|_| random.pick(&["a", "\r", "\n", "0", ";"]).as_bytes()[0]));
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("{}{}\r\n\r\n", random.pick(&["0", "000"]), random.pick(EXTENSIONS)).bytes());
    bytes
}

#[test]
fn what_follows_the_grammar_is_read_as_a_second_decoder_reads_it() {
    for seed in 0..3000 {
        let mut random = Random(seed);
        let bytes = built(&mut random);
        let expected = at_once(&bytes);
        assert!(matches!(expected, Body::Whole(_)), "seed {seed}: {}", bytes.escape_ascii());
        for size in [1, 2, 3, 7, bytes.len()] {
            assert_eq!(streamed(&bytes, size), expected, "seed {seed}, by {size}: {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn what_is_damaged_is_read_as_a_second_decoder_reads_it() {
    let mut refused = 0;
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut bytes = built(&mut random);
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => drop(bytes.remove(at)),
            1 => bytes.truncate(at),
            2 => bytes
                .insert(at, random.pick(&["\r", "\n", " ", "\t", ";", "=", "\"", "\\", "x"]).as_bytes()[0]),
            _ => bytes[at] = random.pick(&["\0", "\n", "\r", "g", "0", "\x7f", ";", " "]).as_bytes()[0],
        }
        let expected = at_once(&bytes);
        // The second decoder knows no trailers and stops where a message does.
        let found = streamed(&bytes, bytes.len().max(1));
        refused += u32::from(found == Body::Refused);
        let told = || format!("seed {seed}: {}", bytes.escape_ascii());
        match (&expected, &found) {
            (Body::Refused, Body::Whole(_) | Body::Open) => {
                // A trailer, or bytes behind the message.
                assert!(has_zero_chunk(&bytes), "{}", told());
            }
            _ => assert_eq!(found, expected, "{}", told()),
        }
        assert_eq!(streamed(&bytes, 1), found, "{}", told());
    }
    assert!(refused > 5000, "only {refused} were refused");
}

/// Whether the chunks come to a last one, so that something else is wrong behind it.
fn has_zero_chunk(mut bytes: &[u8]) -> bool {
    loop {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return false };
        match size_of_line(&bytes[..end]) {
            Some(0) => return true,
            Some(size) if bytes.get(end + 2 + size..end + 4 + size) == Some(b"\r\n") => {
                bytes = &bytes[end + 4 + size..];
            }
            _ => return false,
        }
    }
}
