//! The chunked coding (RFC 9112 §7.1), byte for byte, without a buffer but for one trailer line.
//!
//! Knows: sizes, extensions, data, trailers. Does not know: what the data is. Pure.
//!
//! ```text
//!   SIZE ─► [BLANK] ─► EXTENSION… ─► LF ─┬─► DATA ─► CR ─► LF ─► SIZE
//!                                        └─ size 0 ─► TRAILER lines ─► end
//! ```

use crate::bytes::{is_tchar, is_token, is_value, trim_ows};
use crate::fault::{self, Fault};
use crate::limits::Limits;
use crate::policy::Policy;

/// Digits of the largest size that fits 64 bits.
const SIZE_DIGITS: u8 = 16;

/// Trailers that would change framing, routing or authority if anybody believed them
/// (RFC 9110 §6.5.1): refused. All others are dropped (RFC 9112 §7.1.2).
const FORBIDDEN: &[&str] = &[
    "transfer-encoding",
    "content-length",
    "host",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "authorization",
    "proxy-authorization",
    "cookie",
    "content-type",
    "content-encoding",
    "content-range",
];

/// Where in the coding the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size {
        digits: u8,
    },
    /// Blanks behind a size or an extension: only a semicolon may follow (BWS, §7.1.1).
    Blank,
    /// A name, a value or a quoted value of an extension.
    Name {
        empty: bool,
    },
    Value {
        empty: bool,
    },
    Quoted {
        escaped: bool,
    },
    QuotedEnd,
    /// Blanks behind a name: an equals sign or a semicolon may follow.
    NameBlank,
    /// Blanks behind a value: only a semicolon may follow.
    ValueBlank,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    End,
}

/// What came of some input.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    NeedMore,
    Data(&'a [u8]),
    End,
}

/// A body in the chunked coding, as far as it has been read.
#[derive(Debug)]
pub struct Chunked {
    at: At,
    /// What is left of the chunk; while its size is read, the size so far.
    left: u64,
    total: u64,
    extension_bytes: u64,
    trailer_bytes: u64,
    trailer_lines: u64,
    line: Vec<u8>,
}

impl Chunked {
    pub fn new() -> Self {
        Self {
            at: At::Size { digits: 0 },
            left: 0,
            total: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_lines: 0,
            line: Vec::new(),
        }
    }

    /// Consumes from the front of the input up to the next thing to tell.
    ///
    /// # Errors
    /// The refusal for what is no chunked coding, or is beyond a limit.
    pub fn advance<'a>(
        &mut self,
        input: &mut &'a [u8],
        rules: (&Limits, &Policy),
    ) -> Result<Chunk<'a>, Fault> {
        loop {
            match self.at {
                At::End => return Ok(Chunk::End),
                At::Data if self.left == 0 => self.at = At::DataCr,
                At::Data => {
                    if input.is_empty() {
                        return Ok(Chunk::NeedMore);
                    }
                    let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
                    let (data, rest) = input.split_at(size);
                    *input = rest;
                    self.left -= size as u64;
                    return Ok(Chunk::Data(data));
                }
                At::Trailer => {
                    if !self.trailer(input, rules)? {
                        return Ok(Chunk::NeedMore);
                    }
                }
                _ => {
                    let Some((&byte, rest)) = input.split_first() else { return Ok(Chunk::NeedMore) };
                    *input = rest;
                    self.at = self.framing(byte, rules.0)?;
                }
            }
        }
    }

    /// One byte of framing: where the next stands.
    fn framing(&mut self, byte: u8, limits: &Limits) -> Result<At, Fault> {
        match (self.at, byte) {
            (At::Size { digits }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                self.left = self.left << 4 | digit;
                Ok(At::Size { digits: digits + 1 })
            }
            (At::Size { digits: 1.. }, b'\r') => self.sized(limits),
            (At::Size { digits: 1.. }, b' ' | b'\t') => self.extension(limits, At::Blank),
            (At::Size { digits: 1.. }, b';') => self.extension(limits, At::Name { empty: true }),
            (At::Size { .. }, _) => Err(fault::CHUNK_SIZE),
            (At::Blank, b' ' | b'\t') => self.extension(limits, At::Blank),
            (At::Blank | At::QuotedEnd, b';') => self.extension(limits, At::Name { empty: true }),
            // A size followed by a blank and no extension is not a size (§7.1).
            (At::Blank, _) => Err(fault::CHUNK_SIZE),
            (At::Name { .. }, _) if is_tchar(byte) => self.extension(limits, At::Name { empty: false }),
            (At::Name { empty: true }, b' ' | b'\t') => self.extension(limits, At::Name { empty: true }),
            (At::Name { empty: false } | At::NameBlank, b'=') => {
                self.extension(limits, At::Value { empty: true })
            }
            (At::Name { empty: false } | At::Value { empty: false }, b';')
            | (At::NameBlank | At::ValueBlank, b';') => self.extension(limits, At::Name { empty: true }),
            (At::Name { empty: false } | At::NameBlank, b' ' | b'\t') => {
                self.extension(limits, At::NameBlank)
            }
            (At::Value { empty: true }, b' ' | b'\t') => self.extension(limits, At::Value { empty: true }),
            (At::Value { empty: false } | At::QuotedEnd | At::ValueBlank, b' ' | b'\t') => {
                self.extension(limits, At::ValueBlank)
            }
            (At::Name { empty: false } | At::Value { empty: false } | At::QuotedEnd, b'\r') => {
                self.sized(limits)
            }
            (At::Value { .. }, _) if is_tchar(byte) => self.extension(limits, At::Value { empty: false }),
            (At::Value { empty: true }, b'"') => self.extension(limits, At::Quoted { escaped: false }),
            (At::Quoted { escaped: false }, b'"') => self.extension(limits, At::QuotedEnd),
            (At::Quoted { escaped }, _) if is_value(&[byte]) => {
                self.extension(limits, At::Quoted { escaped: !escaped && byte == b'\\' })
            }
            (At::SizeLf, b'\n') => Ok(if self.left == 0 { At::Trailer } else { At::Data }),
            (At::SizeLf, _) => Err(fault::CHUNK_SIZE),
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => {
                self.left = 0;
                Ok(At::Size { digits: 0 })
            }
            (At::DataCr | At::DataLf, _) => Err(fault::CHUNK_END),
            _ => Err(fault::CHUNK_EXTENSION),
        }
    }

    /// One more byte that is no size and no data. The sum over the message is bounded: an
    /// extension behind each byte would make a body of any size out of nothing.
    fn extension(&mut self, limits: &Limits, next: At) -> Result<At, Fault> {
        self.extension_bytes += 1;
        if self.extension_bytes > limits.chunk_extension_bytes {
            return Err(fault::CHUNK_EXTENSIONS_TOO_LARGE);
        }
        Ok(next)
    }

    /// The size is known: is there room for so much?
    fn sized(&mut self, limits: &Limits) -> Result<At, Fault> {
        self.total = self.total.checked_add(self.left).ok_or(fault::BODY_TOO_LARGE)?;
        if self.total > limits.body_bytes { Err(fault::BODY_TOO_LARGE) } else { Ok(At::SizeLf) }
    }

    /// Reads trailer lines. False: more input is needed.
    fn trailer(&mut self, input: &mut &[u8], (limits, policy): (&Limits, &Policy)) -> Result<bool, Fault> {
        let end = memchr::memchr(b'\n', input);
        let (part, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        *input = rest;
        self.trailer_bytes += part.len() as u64;
        // The empty line that ends the section is no trailer.
        if self.trailer_bytes > limits.trailer_bytes.saturating_add(2) {
            return Err(fault::TRAILERS_TOO_LARGE);
        }
        self.line.extend_from_slice(part);
        if end.is_none() {
            return Ok(false);
        }
        let line = std::mem::take(&mut self.line);
        let Some(line) = line.strip_suffix(b"\r\n") else { return Err(fault::TRAILER) };
        if line.is_empty() {
            self.at = At::End;
            return Ok(true);
        }
        self.trailer_lines += 1;
        if self.trailer_lines > limits.trailer_lines {
            return Err(fault::TOO_MANY_TRAILERS);
        }
        judge_trailer(line, policy)?;
        Ok(true)
    }
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

fn judge_trailer(line: &[u8], policy: &Policy) -> Result<(), Fault> {
    let colon = memchr::memchr(b':', line).ok_or(fault::TRAILER)?;
    let (name, value) = (&line[..colon], trim_ows(&line[colon + 1..]));
    let forbidden = FORBIDDEN.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    if policy.refuses.trailers || forbidden || !is_token(name) || !is_value(value) {
        return Err(fault::TRAILER);
    }
    Ok(())
}
