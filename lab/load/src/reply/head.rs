//! The head of a reply: status line and fields (RFC 9112 sections 4 and 5), strictly. Pure; called by the reader.

use crate::kinds::Wrong;

/// How the body's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunks,
    UntilEnd,
}

#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub status: u16,
    pub keeps_alive: bool,
    pub framing: Framing,
}

/// Length of the head with its empty line, if it is whole. The first `seen` bytes were looked at before.
pub fn length(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    let mut at = from;
    // Line by line: a search for one byte is the quickest there is, and heads have few lines.
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let end = at + found + 1;
        if bytes[end..].starts_with(b"\r\n") {
            return Some(end + 2);
        }
        if end >= 4 && bytes[end - 4..end] == *b"\r\n\r\n" {
            return Some(end);
        }
        at = end;
    }
    None
}

/// Whether a head that has not come whole can still become one.
pub fn beginning(bytes: &[u8]) -> Result<(), Wrong> {
    const PATTERN: &[u8] = b"HTTP/1.";
    let common = bytes.len().min(PATTERN.len());
    if bytes[..common] != PATTERN[..common] {
        return Err(Wrong::BadStatusLine);
    }
    match Lines(bytes).next_line() {
        Some(Ok(line)) => status_line(line).map(|_| ()),
        Some(Err(_)) => Err(Wrong::BadStatusLine),
        None => Ok(()),
    }
}

/// `head` ends with the empty line.
pub fn parse(head: &[u8]) -> Result<Head, Wrong> {
    let mut lines = Lines(head);
    let line = lines.next_line().ok_or(Wrong::BadStatusLine)?.map_err(|_| Wrong::BadStatusLine)?;
    let (newer, status) = status_line(line)?;
    let mut fields = Fields::default();
    while let Some(line) = lines.next_line() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        fields.take(line)?;
    }
    fields.head(newer, status)
}

/// Lines that end with CRLF; a bare LF or CR is refused (section 2.2 lets us, and no server of good faith sends it).
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Option<Result<&'a [u8], Wrong>> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(line.strip_suffix(b"\r").ok_or(Wrong::BadHeader))
    }
}

/// `HTTP/1.x SP NNN SP reason`; the second space is there even where the reason is empty. True for 1.1.
fn status_line(line: &[u8]) -> Result<(bool, u16), Wrong> {
    let newer = match line.get(..9) {
        Some(b"HTTP/1.1 ") => true,
        Some(b"HTTP/1.0 ") => false,
        _ => return Err(Wrong::BadStatusLine),
    };
    let (Some(digits), Some(b' '), Some(reason)) = (line.get(9..12), line.get(12), line.get(13..)) else {
        return Err(Wrong::BadStatusLine);
    };
    if !digits.iter().all(u8::is_ascii_digit)
        || digits[0] == b'0'
        || !reason.iter().all(|byte| is_of_a_value(*byte))
    {
        return Err(Wrong::BadStatusLine);
    }
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    Ok((newer, status))
}

/// Tab, space, visible ASCII, and bytes above it.
fn is_of_a_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// One field line: a token, a colon, a value. No space before the colon, no folded line.
pub fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Wrong> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Wrong::BadHeader)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty()
        || !name.iter().all(|byte| is_of_a_token(*byte))
        || !value.iter().all(|byte| is_of_a_value(*byte))
    {
        return Err(Wrong::BadHeader);
    }
    Ok((name, value.trim_ascii()))
}

/// What the fields say about the message and the connection.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn take(&mut self, line: &[u8]) -> Result<(), Wrong> {
        let (name, value) = field(line)?;
        // Lengths first: three fields matter, and most heads have a dozen.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.take_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = number(value).ok_or(Wrong::BadHeader)?;
                // Section 6.3: the same field twice is as dangerous as two that differ.
                if self.length.replace(length).is_some() {
                    return Err(Wrong::BadHeader);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // Section 7: other codings need our TE, which says nothing.
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Wrong::BadHeader);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn head(&self, newer: bool, status: u16) -> Result<Head, Wrong> {
        // Section 6.1: chunks and a length at once, or chunks from 1.0, are an attack or an error; section 6.1 forbids chunks,
        // and RFC 9110 section 8.6 a length, with 1xx and 204. A length of 0 with 204 is so common that it passes.
        let bodiless = status < 200 || status == 204;
        let refused = (self.chunked && (self.length.is_some() || !newer))
            || (bodiless && (self.chunked || self.length.is_some_and(|length| length > 0)));
        if refused {
            return Err(Wrong::BadHeader);
        }
        let framing = match (self.chunked, self.length) {
            (true, _) => Framing::Chunks,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilEnd,
        };
        let keeps_alive = !self.close && (newer || self.keep_alive);
        Ok(Head { status, keeps_alive, framing })
    }
}

/// Digits and nothing else, below 2^63.
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
