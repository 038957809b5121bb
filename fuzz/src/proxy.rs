//! A PROXY header means the same however it is cut, and the same as to a second reader that has all of it at once.
//!
//! Knows: the specification a second time, written for shortness, from the whole input. Does not know: how the first
//! reader goes about it.

use std::net::{IpAddr, SocketAddr};

use wire::proxy::{Found, Proxied, Versions, read};

use crate::Input;
use crate::mutate::Random;

/// The bound on version 2: small, so that inputs meet it.
const MOST: usize = 300;

/// The target.
pub fn proxy(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let mut random = Random::new(u64::from(input.cuts) << 8 | u64::from(input.rules));
    let versions = [Versions::V1, Versions::V2, Versions::Any, Versions::Any][usize::from(input.rules & 3)];
    let mut sent = match input.rules >> 2 & 3 {
        0 => input.sent.to_vec(),
        1 => line(input.sent, &mut random),
        _ => header(input.sent, &mut random),
    };
    // One changed byte, in three of four: it is refused, or means what the specification says.
    if input.rules >> 4 & 3 != 0 && !sent.is_empty() {
        let at = random.below(sent.len().min(80));
        sent[at] = random.number() as u8;
    }
    let whole = play(versions, [&sent[..]]);
    assert_eq!(play(versions, sent.chunks(1)), whole, "byte by byte: {}", sent.escape_ascii());
    for _ in 0..3 {
        let (first, second) = sent.split_at(random.below(sent.len() + 1));
        assert_eq!(play(versions, [first, second]), whole, "cut: {}", sent.escape_ascii());
    }
    let again = again(versions, &sent);
    match &whole {
        // Of a header that never ends, the reader may know already that it is wrong; not that it is right.
        Heard::More => assert!(again.is_none(), "it could be told: {}", sent.escape_ascii()),
        Heard::Refused(_) => assert!(!matches!(again, Some(Some(_))), "it is valid: {}", sent.escape_ascii()),
        Heard::Header(proxied, left) => {
            let expected = again.flatten().unwrap_or_else(|| panic!("not valid: {}", sent.escape_ascii()));
            assert_eq!((&proxied.addresses, left), (&expected.0, &expected.1), "{}", sent.escape_ascii());
            assert_eq!(proxied.unique_id.as_deref(), expected.2.as_deref(), "{}", sent.escape_ascii());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    More,
    Refused(&'static str),
    /// And how many bytes follow it.
    Header(Box<Proxied>, usize),
}

fn play<'a>(versions: Versions, parts: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let mut held = Vec::new();
    let mut heard = Heard::More;
    for part in parts {
        if let Heard::Header(_, left) = &mut heard {
            *left += part.len();
            continue;
        }
        held.extend_from_slice(part);
        match read(&held, versions, MOST) {
            Ok(Found::Incomplete) => assert!(held.len() < MOST, "too much is waited for"),
            Ok(Found::Complete(length, proxied)) => {
                heard = Heard::Header(Box::new(proxied), held.len() - length);
            }
            Err(fault) => return Heard::Refused(fault.reason),
        }
    }
    heard
}

type Told = (Option<(SocketAddr, SocketAddr)>, usize, Option<Vec<u8>>);

/// None: incomplete. Some of none: not valid, as far as the whole of it shows.
fn again(versions: Versions, sent: &[u8]) -> Option<Option<Told>> {
    let first = sent.first()?;
    match (first, versions) {
        (b'P', Versions::V1 | Versions::Any) => again_v1(sent),
        (b'\r', Versions::V2 | Versions::Any) => again_v2(sent),
        _ => Some(None),
    }
}

fn again_v1(sent: &[u8]) -> Option<Option<Told>> {
    let begins = b"PROXY ";
    if !sent.iter().zip(begins).all(|(one, other)| one == other) {
        return Some(None);
    }
    let Some(end) = sent.iter().take(107).position(|&byte| byte == b'\n') else {
        return (sent.len() >= 107).then_some(None);
    };
    let told = || {
        let text = std::str::from_utf8(&sent[..=end]).ok()?.strip_suffix("\r\n")?;
        let words: Vec<&str> = text.split(' ').collect();
        if text.contains('\r') {
            return None;
        }
        if words[1] == "UNKNOWN" {
            return Some((None, sent.len() - end - 1, None));
        }
        let [_, family, from, to, from_port, to_port] = words[..] else { return None };
        let address = |text: &str| {
            let address: IpAddr = text.parse().ok()?;
            (family == if address.is_ipv4() { "TCP4" } else { "TCP6" }).then_some(address)
        };
        // What a number reads as, written again, is the same only in its one form.
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| port.to_string() == text);
        let from = SocketAddr::new(address(from)?, port(from_port)?);
        let to = SocketAddr::new(address(to)?, port(to_port)?);
        Some((Some((from, to)), sent.len() - end - 1, None))
    };
    Some(told())
}

fn again_v2(sent: &[u8]) -> Option<Option<Told>> {
    let signature = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10];
    if !sent.iter().zip(signature).all(|(one, other)| *one == other) {
        return Some(None);
    }
    let (&command, &family) = (sent.get(12)?, sent.get(13)?);
    let length = usize::from(*sent.get(14)?) << 8 | usize::from(*sent.get(15)?);
    let known = [0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32].contains(&family);
    if !(command == 0x20 || command == 0x21 && known) || 16 + length > MOST {
        return Some(None);
    }
    let body = sent.get(16..16 + length)?;
    let left = sent.len() - 16 - length;
    if command == 0x20 || family == 0 {
        return Some(Some((None, left, None)));
    }
    let size = [0, 4, 16, 108][usize::from(family >> 4)];
    let ports = if family < 0x30 { 4 } else { 0 };
    if body.len() < 2 * size + ports {
        return Some(None);
    }
    let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let address = |at: usize| match size {
        4 => <[u8; 4]>::try_from(&body[at..at + 4]).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(&body[at..at + 16]).ok().map(IpAddr::from),
    };
    let addresses = [0x11, 0x21].contains(&family).then(|| {
        let from = SocketAddr::new(address(0).expect("its size"), number(2 * size));
        (from, SocketAddr::new(address(size).expect("its size"), number(2 * size + 2)))
    });
    let whole = &sent[..16 + length];
    Some(facts(whole, 16 + 2 * size + ports).map(|unique_id| (addresses, left, unique_id)))
}

/// Whether all facts are well formed and the sum is right; the unique id.
fn facts(whole: &[u8], mut at: usize) -> Option<Option<Vec<u8>>> {
    let (mut seen, mut unique_id) = (Vec::new(), None);
    while at < whole.len() {
        let kind = whole[at];
        let length = usize::from(u16::from_be_bytes([*whole.get(at + 1)?, *whole.get(at + 2)?]));
        let value = whole.get(at + 3..at + 3 + length)?;
        let counts = [0x02, 0x03, 0x05, 0x20].contains(&kind) || kind == 0xea && value.first() == Some(&1);
        if counts && seen.contains(&kind) {
            return None;
        }
        if counts {
            seen.push(kind);
        }
        match kind {
            0x02 if length > 255 => return None,
            0x03 => {
                let mut zeroed = whole.to_vec();
                zeroed.get_mut(at + 3..at + 7).filter(|_| length == 4)?.fill(0);
                if value != castagnoli(&zeroed).to_be_bytes() {
                    return None;
                }
            }
            0x05 if length > 128 => return None,
            0x05 => unique_id = Some(value.to_vec()),
            0x20 => tls(value)?,
            _ => {}
        }
        at += 3 + length;
    }
    Some(unique_id)
}

fn tls(value: &[u8]) -> Option<()> {
    let (mut at, mut seen) = (5, Vec::new());
    value.get(..5)?;
    while at < value.len() {
        let kind = value[at];
        at += 3 + usize::from(u16::from_be_bytes([*value.get(at + 1)?, *value.get(at + 2)?]));
        if at > value.len() || (0x21..=0x23).contains(&kind) && seen.contains(&kind) {
            return None;
        }
        seen.push(kind);
    }
    Some(())
}

/// CRC32C, a bit at a time.
fn castagnoli(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(
            sum ^ u32::from(byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 },
        )
    })
}

/// A line of version 1, mostly valid, with the input behind it.
fn line(sent: &[u8], random: &mut Random) -> Vec<u8> {
    const V4: [&str; 4] = ["192.0.2.7", "0.0.0.0", "255.255.255.255", "10.01.0.1"];
    const V6: [&str; 4] = ["::1", "2001:db8::7", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"];
    const PORTS: [&str; 6] = ["0", "80", "65535", "65536", "08", "51234"];
    let mut pick = |from: &[&'static str]| from[random.below(from.len())];
    let family = pick(&["TCP4", "TCP6", "UNKNOWN", "TCP4"]);
    let from = if family == "TCP6" { &V6 } else { &V4 };
    let words = ["PROXY", family, pick(from), pick(from), pick(&PORTS[..3]), pick(&PORTS)];
    [words.join(" ").as_bytes(), b"\r\n", sent].concat()
}

/// A header of version 2, mostly valid, whose facts are made of the input.
fn header(mut sent: &[u8], random: &mut Random) -> Vec<u8> {
    let family = [0x11, 0x21, 0x31, 0x00, 0x12, 0x11][random.below(6)];
    let addresses = [0, 12, 36, 216][usize::from(family >> 4)];
    let mut body: Vec<u8> = (0..addresses).map(|_| random.number() as u8).collect();
    for _ in 0..random.below(4) {
        let kind = [0x01, 0x02, 0x04, 0x05, 0x20, 0xea, 0x05][random.below(7)];
        let (value, rest) = sent.split_at(random.below(30).min(sent.len()));
        let inner = if kind == 0x20 {
            [&[1, 0, 0, 0, 0, 0x21, 0, value.len() as u8], value].concat()
        } else {
            value.to_vec()
        };
        body.extend([kind, 0, inner.len() as u8]);
        body.extend(inner);
        sent = rest;
    }
    let summed = random.below(2) == 1;
    if summed {
        body.extend([3, 0, 4, 0, 0, 0, 0]);
    }
    let command = 0x20 | u8::from(random.below(5) > 0);
    let length = (body.len() as u16).to_be_bytes();
    let mut whole = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, &body].concat();
    if summed {
        let sum = castagnoli(&whole).to_be_bytes();
        let at = whole.len() - 4;
        whole[at..].copy_from_slice(&sum);
    }
    whole.extend(&sent[..sent.len().min(20)]);
    whole
}
