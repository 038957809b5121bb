//! Version 2: a binary header, with facts behind the addresses (§2.2).
//!
//! Knows: the header. Pure.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Found, Proxied, ProxyTls};
use crate::fault::{self, Fault};

/// No protocol that is spoken begins like this (§2.2).
pub(crate) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length.
const FIXED: usize = 16;

/// Bytes of a unique id, by the specification (§2.2.5).
const UNIQUE_ID: usize = 128;
/// Bytes of a server name (RFC 6066 §3: a DNS name).
const AUTHORITY: usize = 255;

/// Reads a header from its beginning; it may have so many bytes.
///
/// # Errors
/// The refusal for the first byte that cannot be part of one, or for what the whole of it says.
pub(super) fn read(bytes: &[u8], most: usize) -> Result<Found, Fault> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(fault::PROXY_EXPECTED);
    }
    let local = match bytes.get(12) {
        None => return Ok(Found::Incomplete),
        Some(0x20) => true,
        Some(0x21) => false,
        // "Receivers must drop connections presenting unexpected values here."
        Some(_) => return Err(fault::PROXY_HEADER),
    };
    let Some(&family) = bytes.get(13) else { return Ok(Found::Incomplete) };
    // The family of a LOCAL connection is ignored.
    let addresses = match family {
        _ if local => 0,
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        // "Other values are unspecified and must not be emitted", and are refused.
        _ => return Err(fault::PROXY_HEADER),
    };
    let Some(length) = bytes.get(14..FIXED) else { return Ok(Found::Incomplete) };
    let end = FIXED + usize::from(u16::from_be_bytes([length[0], length[1]]));
    if end > most {
        return Err(fault::PROXY_TOO_LONG);
    }
    if end < FIXED + addresses {
        return Err(fault::PROXY_HEADER);
    }
    let Some(header) = bytes.get(..end) else { return Ok(Found::Incomplete) };
    // "The receiver must [...] discard the protocol block" of LOCAL, and "should ignore address information" of
    // UNSPEC, whose length nobody knows: nothing behind it can be found.
    if local || family == 0 {
        return Ok(Found::Complete(end, Proxied::default()));
    }
    let (block, facts) = header[FIXED..].split_at(addresses);
    let mut proxied = Proxied { addresses: endpoints(family, block), ..Proxied::default() };
    read_facts(header, facts, &mut proxied)?;
    Ok(Found::Complete(end, proxied))
}

/// Of streams over IP. Datagrams are no connections, and a path of another machine tells nothing here: for both
/// the specification lets a receiver fall back to UNSPEC.
fn endpoints(family: u8, block: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    match family {
        0x11 => {
            let address = |at: usize| {
                let octets: [u8; 4] = block[at..at + 4].try_into().unwrap_or_default();
                Ipv4Addr::from(octets)
            };
            Some(((address(0), port(8)).into(), (address(4), port(10)).into()))
        }
        0x21 => {
            let address = |at: usize| {
                let octets: [u8; 16] = block[at..at + 16].try_into().unwrap_or_default();
                Ipv6Addr::from(octets)
            };
            Some(((address(0), port(32)).into(), (address(16), port(34)).into()))
        }
        _ => None,
    }
}

/// One fact: type, length in two bytes, value. None where they end; a fault where they end in the middle of one.
fn next_fact<'a>(facts: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Fault> {
    let [kind, high, low, rest @ ..] = *facts else {
        return if facts.is_empty() { Ok(None) } else { Err(fault::PROXY_HEADER) };
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let (value, rest) = rest.split_at_checked(length).ok_or(fault::PROXY_HEADER)?;
    *facts = rest;
    Ok(Some((*kind, value)))
}

/// Notes a value of which there may be one: of two, one of two servers would believe the wrong one.
fn note<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    if place.replace(value).is_some() { Err(fault::PROXY_HEADER) } else { Ok(()) }
}

fn read_facts(header: &[u8], mut facts: &[u8], proxied: &mut Proxied) -> Result<(), Fault> {
    let mut sum = None;
    while let Some((kind, value)) = next_fact(&mut facts)? {
        match kind {
            0x02 if value.len() > AUTHORITY => return Err(fault::PROXY_HEADER),
            0x02 => note(&mut proxied.authority, value.into())?,
            0x03 => {
                let value: [u8; 4] = value.try_into().map_err(|_| fault::PROXY_HEADER)?;
                note(&mut sum, (u32::from_be_bytes(value), header.len() - facts.len()))?;
            }
            0x05 if value.len() > UNIQUE_ID => return Err(fault::PROXY_HEADER),
            0x05 => note(&mut proxied.unique_id, value.into())?,
            0x20 => note(&mut proxied.tls, Box::new(read_tls(value)?))?,
            // Its first byte says which fact of Amazon's it is; 1 is the VPC endpoint.
            0xea => {
                if let [1, endpoint @ ..] = value {
                    note(&mut proxied.vpc_endpoint, endpoint.into())?;
                }
            }
            // "Receivers should ignore the types they do not understand."
            _ => {}
        }
    }
    match sum {
        Some((said, end)) if crc32c(header, end - 4) != said => Err(fault::PROXY_CHECKSUM),
        _ => Ok(()),
    }
}

fn read_tls(value: &[u8]) -> Result<ProxyTls, Fault> {
    let [client, verify @ ..] = value else { return Err(fault::PROXY_HEADER) };
    let (verify, mut facts) = verify.split_at_checked(4).ok_or(fault::PROXY_HEADER)?;
    let has = |bit: u8| client & bit != 0;
    let (on_connection, in_session) = (has(2), has(4));
    let mut tls = ProxyTls {
        used: has(1),
        certificate_on_connection: on_connection,
        certificate_in_session: in_session,
        // "Zero if the client presented a certificate and it was successfully verified."
        verified: (on_connection || in_session) && verify == [0; 4],
        ..ProxyTls::default()
    };
    while let Some((kind, value)) = next_fact(&mut facts)? {
        match kind {
            0x21 => note(&mut tls.version, value.into())?,
            0x22 => note(&mut tls.common_name, value.into())?,
            0x23 => note(&mut tls.cipher, value.into())?,
            _ => {}
        }
    }
    Ok(tls)
}

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// CRC32C of each byte (RFC 3309; reflected).
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// The sum of a header whose own sum stands at that place; there it counts as zero.
fn crc32c(header: &[u8], sum_at: usize) -> u32 {
    let zeroed = sum_at..sum_at + 4;
    !header.iter().enumerate().fold(u32::MAX, |sum, (at, &byte)| {
        let byte = if zeroed.contains(&at) { 0 } else { byte };
        TABLE[((sum ^ u32::from(byte)) & 0xff) as usize] ^ sum >> 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_crc32c() {
        // RFC 3720 appendix B.4: 32 bytes of zeros, the last four of which are the sum's place.
        assert_eq!(crc32c(&[0; 32], 28), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789", 9), 0xe306_9283);
    }
}
