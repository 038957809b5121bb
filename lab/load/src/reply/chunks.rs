//! The chunked coding (RFC 9112 section 7.1), strictly: no extension, no bare line end. Pure; called by the reader.

use super::{LONGEST_HEAD, head};
use crate::kinds::Wrong;

/// Sixteen hexadecimal digits would pass 2^63; no body is that long.
const MOST_DIGITS: u8 = 15;

#[derive(Debug, Default)]
enum State {
    #[default]
    FirstDigit,
    Digits,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// Field lines after the last chunk, kept as they come until the empty line.
    Trailer(Vec<u8>),
}

#[derive(Debug, Default)]
pub struct Chunks {
    state: State,
    size: u64,
    digits: u8,
}

#[derive(Debug)]
pub enum Part<'a> {
    Data(&'a [u8]),
    End,
}

impl Chunks {
    /// Takes bytes off the front of `input` until some data, the end, or nothing is left (None).
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Part<'a>>, Wrong> {
        while let Some((&byte, rest)) = input.split_first() {
            match &mut self.state {
                State::Data => {
                    let take = usize::try_from(self.size).map_or(input.len(), |size| size.min(input.len()));
                    let (data, rest) = input.split_at(take);
                    *input = rest;
                    self.size -= take as u64;
                    if self.size == 0 {
                        self.state = State::DataReturn;
                    }
                    return Ok(Some(Part::Data(data)));
                }
                State::Trailer(line) => {
                    *input = rest;
                    if Self::trailer(line, byte)? {
                        *self = Chunks::default();
                        return Ok(Some(Part::End));
                    }
                }
                _ => {
                    *input = rest;
                    self.framing(byte)?;
                }
            }
        }
        Ok(None)
    }

    /// A byte of the lines between chunks.
    fn framing(&mut self, byte: u8) -> Result<(), Wrong> {
        self.state = match (&self.state, byte) {
            (State::FirstDigit | State::Digits, _) if byte.is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits > MOST_DIGITS {
                    return Err(Wrong::BadChunk);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.size = self.size << 4 | u64::from(digit);
                State::Digits
            }
            (State::Digits, b'\r') => State::SizeLineFeed,
            (State::SizeLineFeed, b'\n') => {
                self.digits = 0;
                if self.size == 0 { State::Trailer(Vec::new()) } else { State::Data }
            }
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::FirstDigit,
            _ => return Err(Wrong::BadChunk),
        };
        Ok(())
    }

    /// A byte of the trailer section; true when its empty line is whole. `line` is bounded as a head is.
    fn trailer(line: &mut Vec<u8>, byte: u8) -> Result<bool, Wrong> {
        if byte != b'\n' {
            line.push(byte);
            return if line.len() > LONGEST_HEAD { Err(Wrong::BadHeader) } else { Ok(false) };
        }
        let whole = line.strip_suffix(b"\r").ok_or(Wrong::BadChunk)?;
        if whole.is_empty() {
            return Ok(true);
        }
        head::field(whole)?;
        line.clear();
        Ok(false)
    }
}
