//! Records of FastCGI (specification 1.0, §3.3, §8): their heads, and those that we send.
//!
//! Knows: bytes. Does not know: which record may follow which. Pure.

use super::super::Pair;
use crate::fault::{self, Fault};

pub const BEGIN: u8 = 1;
pub const ABORT: u8 = 2;
pub const END: u8 = 3;
pub const PARAMS: u8 = 4;
pub const STDIN: u8 = 5;
pub const STDOUT: u8 = 6;
pub const DATA: u8 = 8;
pub const GET_VALUES: u8 = 9;
pub const GET_VALUES_RESULT: u8 = 10;
pub const UNKNOWN_TYPE: u8 = 11;

/// Bytes of a record's head.
pub const HEAD: usize = 8;

/// The most that one record may hold; a multiple of eight, so that no padding is needed (§3.3).
pub const MOST: usize = 65_528;

/// What a record's head says.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub kind: u8,
    pub id: u16,
    pub content: u16,
    pub padding: u8,
}

impl Record {
    pub fn read(head: [u8; HEAD]) -> Self {
        let [_, kind, id, id_low, length, length_low, padding, _] = head;
        Self {
            kind,
            id: u16::from_be_bytes([id, id_low]),
            content: u16::from_be_bytes([length, length_low]),
            padding,
        }
    }
}

/// A request that is all there and has no body.
pub struct Whole<'a> {
    pub id: u16,
    pub keep: bool,
    /// Names and values.
    pub params: &'a [u8],
}

/// The request that the input begins with, where it is for a responder, has its variables in one record, as web servers send
/// them, and an empty STDIN; and what follows. None: it is to be read record by record.
#[inline]
pub fn whole(input: &[u8]) -> Option<(Whole<'_>, &[u8])> {
    let (id, begin, rest) = next(input, BEGIN)?;
    let &[0, 1, flags, _, _, _, _, _] = begin else { return None };
    let (of, params, rest) = next(rest, PARAMS)?;
    let (of_end, end, rest) = next(rest, PARAMS)?;
    let (of_body, body, rest) = next(rest, STDIN)?;
    let is_one = id != 0 && [of, of_end, of_body] == [id; 3];
    let is_whole = is_one && !params.is_empty() && end.is_empty() && body.is_empty();
    is_whole.then_some((Whole { id, keep: flags & 1 != 0, params }, rest))
}

/// The record of this kind that the input begins with: its request, its content, and what follows.
#[inline]
fn next(input: &[u8], kind: u8) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = input.split_first_chunk::<HEAD>()?;
    let record = Record::read(*head);
    if head[0] != 1 || record.kind != kind {
        return None;
    }
    let (content, rest) = rest.split_at_checked(usize::from(record.content))?;
    Some((record.id, content, rest.get(usize::from(record.padding)..)?))
}

/// How a request has ended for the protocol (§5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Complete = 0,
    /// One connection, one request at a time: nobody sends more (§3.4).
    CannotMultiplex = 1,
    UnknownRole = 3,
}

/// The head of a record without padding.
pub fn head_of(kind: u8, id: u16, length: u16) -> [u8; HEAD] {
    let ([id, id_low], [length, length_low]) = (id.to_be_bytes(), length.to_be_bytes());
    [1, kind, id, id_low, length, length_low, 0, 0]
}

fn head(kind: u8, id: u16, length: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&head_of(kind, id, length));
}

/// FCGI_END_REQUEST.
pub fn end(id: u16, ended: Ended, out: &mut Vec<u8>) {
    head(END, id, 8, out);
    out.extend_from_slice(&[0, 0, 0, 0, ended as u8, 0, 0, 0]);
}

/// FCGI_UNKNOWN_TYPE: the answer to a management record that is not known (§4.2).
pub fn unknown_type(kind: u8, out: &mut Vec<u8>) {
    head(UNKNOWN_TYPE, 0, 8, out);
    out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
}

/// FCGI_GET_VALUES_RESULT for what was asked for, of the three names that there are (§4.1). `connections`: how many may
/// be open, each of which has one request at a time.
///
/// # Errors
/// The refusal for pairs that are malformed.
pub fn values(asked: &[u8], connections: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
    let pairs = pairs(asked)?;
    let most = connections.to_string();
    let mut known = Vec::new();
    for (name, value) in [("FCGI_MAX_CONNS", &*most), ("FCGI_MAX_REQS", &*most), ("FCGI_MPXS_CONNS", "0")] {
        if pairs.iter().any(|pair| asked[pair.0.0 as usize..pair.0.1 as usize] == *name.as_bytes()) {
            known.extend_from_slice(&[name.len() as u8, value.len() as u8]);
            known.extend_from_slice(&[name.as_bytes(), value.as_bytes()].concat());
        }
    }
    head(GET_VALUES_RESULT, 0, known.len() as u16, out);
    out.extend_from_slice(&known);
    Ok(())
}

/// Names and values with lengths of one byte or, beyond 127, of four (§3.4).
///
/// # Errors
/// The refusal for those that do not fill the bytes exactly.
pub fn pairs(bytes: &[u8]) -> Result<Vec<Pair>, Fault> {
    let mut pairs = Vec::with_capacity(32);
    let mut at = 0;
    while at < bytes.len() {
        let (name, value) = match bytes[at..] {
            // Almost all are short.
            [name @ 0..128, value @ 0..128, ..] => {
                at += 2;
                (usize::from(name), usize::from(value))
            }
            _ => (length(bytes, &mut at)?, length(bytes, &mut at)?),
        };
        let middle = at.checked_add(name).ok_or(fault::GATEWAY_FORMAT)?;
        let end = middle.checked_add(value).filter(|&end| end <= bytes.len()).ok_or(fault::GATEWAY_FORMAT)?;
        // Bounded far below 2³² bytes by the limit `header_bytes`.
        pairs.push(((at as u32, middle as u32), (middle as u32, end as u32)));
        at = end;
    }
    Ok(pairs)
}

fn length(bytes: &[u8], at: &mut usize) -> Result<usize, Fault> {
    let rest = &bytes[*at..];
    let (length, size) = match rest {
        [short @ 0..128, ..] => (usize::from(*short), 1),
        [a, b, c, d, ..] => (u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize, 4),
        _ => return Err(fault::GATEWAY_FORMAT),
    };
    *at += size;
    Ok(length)
}
