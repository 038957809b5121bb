//! Version 1: one line of words (§2.1).
//!
//! Knows: the line. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Found, Proxied, V1_BYTES};
use crate::fault::{self, Fault};

const BEGINS: &[u8] = b"PROXY ";

/// Reads a line from its beginning.
///
/// # Errors
/// The refusal for the first byte that cannot be part of one.
pub(super) fn read(bytes: &[u8]) -> Result<Found, Fault> {
    let known = bytes.len().min(BEGINS.len());
    if bytes[..known] != BEGINS[..known] {
        return Err(fault::PROXY_EXPECTED);
    }
    let within = &bytes[..bytes.len().min(V1_BYTES)];
    // §2.1: the line ends in CR LF. Everything that was seen of it is known before what follows is.
    match memchr::memchr(b'\n', within) {
        Some(end) => {
            let line = within[..end].strip_suffix(b"\r").ok_or(fault::PROXY_HEADER)?;
            let addresses = line_of(&line[BEGINS.len().min(line.len())..]).ok_or(fault::PROXY_HEADER)?;
            Ok(Found::Complete(end + 1, Proxied { addresses, ..Proxied::default() }))
        }
        None if bytes.len() >= V1_BYTES => Err(fault::PROXY_TOO_LONG),
        None => Ok(Found::Incomplete),
    }
}

/// What stands behind `PROXY `. None: it is malformed.
fn line_of(text: &[u8]) -> Option<Option<(SocketAddr, SocketAddr)>> {
    let text = std::str::from_utf8(text).ok()?;
    if text.contains('\r') {
        return None;
    }
    // "The receiver must ignore anything presented before the CRLF", for what is unknown.
    if text == "UNKNOWN" || text.starts_with("UNKNOWN ") {
        return Some(None);
    }
    let mut words = text.split(' ');
    let family = words.next()?;
    let (from, to) = (words.next()?, words.next()?);
    let (from, to) = match family {
        "TCP4" => (address::<Ipv4Addr>(from)?, address::<Ipv4Addr>(to)?),
        "TCP6" => (address::<Ipv6Addr>(from)?, address::<Ipv6Addr>(to)?),
        _ => return None,
    };
    let from = SocketAddr::new(from, port(words.next()?)?);
    let to = SocketAddr::new(to, port(words.next()?)?);
    words.next().is_none().then_some(Some((from, to)))
}

fn address<A: FromStr + Into<IpAddr>>(text: &str) -> Option<IpAddr> {
    text.parse::<A>().ok().map(Into::into)
}

/// `0` to `65535`, without leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    if plain { text.parse().ok() } else { None }
}
