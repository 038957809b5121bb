//! uwsgi packets: a head of four bytes, then names and values with their lengths (uWSGI's "The uwsgi Protocol").
//!
//! Knows: the framing. Pure.

use super::{Look, Pair};
use crate::fault::{self, Fault};
use crate::limits::Limits;

/// modifier1, the size of the variables (little-endian), modifier2.
const FIXED: usize = 4;

/// Looks at a packet from its beginning, in the order of its bytes.
///
/// # Errors
/// The refusal for the first byte that cannot be part of one.
pub(super) fn look(bytes: &[u8], limits: &Limits) -> Result<Look, Fault> {
    // 0 asks for a request of a Python application; the others are for uWSGI's own plugins, or no uwsgi at all.
    if bytes.first().is_some_and(|&modifier| modifier != 0) {
        return Err(fault::GATEWAY_MODIFIER);
    }
    let Some(fixed) = bytes.get(..3) else { return Ok(Look::Incomplete) };
    let size = usize::from(u16::from_le_bytes([fixed[1], fixed[2]]));
    if size as u64 > limits.header_bytes {
        return Err(fault::HEADERS_TOO_LARGE);
    }
    // modifier2 chooses among several applications of one plugin; there is one here.
    if bytes.get(3).is_some_and(|&modifier| modifier != 0) {
        return Err(fault::GATEWAY_MODIFIER);
    }
    let end = FIXED + size;
    let Some(packet) = bytes.get(..end) else { return Ok(Look::Incomplete) };
    let mut pairs: Vec<Pair> = Vec::with_capacity(32);
    let mut at = FIXED;
    while at < end {
        let name = text(packet, at)?;
        let value = text(packet, name.1 as usize)?;
        at = value.1 as usize;
        pairs.push((name, value));
    }
    Ok(Look::Complete(end, pairs))
}

/// A length (little-endian) and so many bytes, all inside the packet.
fn text(packet: &[u8], at: usize) -> Result<(u32, u32), Fault> {
    let length = packet.get(at..at + 2).ok_or(fault::GATEWAY_FORMAT)?;
    let from = at + 2;
    let to = from + usize::from(u16::from_le_bytes([length[0], length[1]]));
    if to > packet.len() {
        return Err(fault::GATEWAY_FORMAT);
    }
    // Packets are bounded far below 2³² bytes by their format.
    Ok((from as u32, to as u32))
}
