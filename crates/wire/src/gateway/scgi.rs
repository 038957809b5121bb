//! SCGI: a netstring of names and values, each ended by a NUL ("SCGI: A Simple Common Gateway Interface alternative",
//! N. Schemenauer, 2008).
//!
//! Knows: the framing. Pure.

use super::{Look, Pair};
use crate::fault::{self, Fault};
use crate::limits::Limits;

/// Digits of a netstring's length: more name no size that any limit allows.
const DIGITS: usize = 9;

/// Looks at a request from its beginning, in the order of its bytes.
///
/// # Errors
/// The refusal for the first byte that cannot be part of one.
pub(super) fn look(bytes: &[u8], limits: &Limits) -> Result<Look, Fault> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > DIGITS || digits > 1 && bytes[0] == b'0' {
        return Err(fault::GATEWAY_FORMAT);
    }
    let Some(colon) = bytes.get(digits) else { return Ok(Look::Incomplete) };
    if *colon != b':' || digits == 0 {
        return Err(fault::GATEWAY_FORMAT);
    }
    let size = bytes[..digits].iter().fold(0usize, |size, digit| size * 10 + usize::from(digit - b'0'));
    if size as u64 > limits.header_bytes {
        return Err(fault::HEADERS_TOO_LARGE);
    }
    let from = digits + 1;
    let comma = from + size;
    match bytes.get(comma) {
        None => Ok(Look::Incomplete),
        Some(b',') => Ok(Look::Complete(comma + 1, pairs(&bytes[..comma], from)?)),
        Some(_) => Err(fault::GATEWAY_FORMAT),
    }
}

fn pairs(bytes: &[u8], from: usize) -> Result<Vec<Pair>, Fault> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(32);
    let mut at = from;
    let mut text = || {
        let end = at + memchr::memchr(0, &bytes[at..])?;
        // Bounded far below 2³² bytes by the limit `header_bytes`.
        let found = (at as u32, end as u32);
        at = end + 1;
        Some(found)
    };
    while let Some(name) = text() {
        pairs.push((name, text().ok_or(fault::GATEWAY_FORMAT)?));
    }
    let part = |(from, to): (u32, u32)| &bytes[from as usize..to as usize];
    // "The first header must have the name CONTENT_LENGTH", and one called SCGI has the value 1.
    let first =
        pairs.first().is_some_and(|pair| part(pair.0) == b"CONTENT_LENGTH" && !part(pair.1).is_empty());
    let marked = pairs.iter().any(|pair| part(pair.0) == b"SCGI" && part(pair.1) == b"1");
    if at == bytes.len() && first && marked { Ok(pairs) } else { Err(fault::GATEWAY_FORMAT) }
}
