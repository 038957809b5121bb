//! What proxies say of their clients (RFC 7239; X-Forwarded-*).
//!
//! Knows: the headers' grammars. Does not know: who is trusted (`trust.rs`), environ or scope. Pure.
//!
//! Each proxy appends the peer that it saw. The chain is read from the right: the first
//! address that is not a trusted proxy's is the client; what stands to the left of it was
//! sent by the client and proves nothing.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::bytes::{is_token, is_visible, trim_ows};
use crate::fault::{self, Fault};
use crate::head::Head;
use crate::request_line::is_authority;
use crate::trust::{Forwarding, Peer, Trust};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// What is true of a request behind its proxies, where they have said it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effective {
    pub addr: Option<IpAddr>,
    pub port: Option<u16>,
    pub scheme: Option<Scheme>,
    pub host: Option<Vec<u8>>,
    pub server_port: Option<u16>,
    pub prefix: Option<Vec<u8>>,
}

/// What the forwarding headers of a request mean. None where the peer is not trusted or says
/// nothing.
///
/// # Errors
/// A refusal where they are malformed or contradict each other: then one of two servers
/// would believe the wrong one.
pub fn effective(head: &Head, peer: &Peer, trust: &Trust) -> Result<Option<Effective>, Fault> {
    if !head.block.has_forwarding() || !trust.trusts(peer) {
        return Ok(None);
    }
    let said = Said::of(head, trust);
    let mut found = Effective { scheme: scheme(&said)?, ..Effective::default() };
    if said.has(Forwarding::For) {
        let lines = lines(head, Forwarding::For).rev();
        let chain = lines.flat_map(|value| value.rsplit(|&byte| byte == b','));
        if let Some((address, port)) = client(chain.map(|member| node(trim_ows(member))), trust)? {
            (found.addr, found.port) = (Some(address), port);
        }
    }
    if let Some(host) = said.nearest(Forwarding::Host) {
        found.host = Some(good_host(host)?.to_vec());
    }
    if let Some(port) = said.nearest(Forwarding::Port) {
        let port = crate::bytes::decimal(port).and_then(|port| u16::try_from(port).ok());
        found.server_port = Some(port.ok_or(fault::FORWARDED)?);
    }
    if let Some(prefix) = said.nearest(Forwarding::Prefix) {
        found.prefix = Some(good_prefix(prefix)?.to_vec());
    }
    if said.has(Forwarding::Standard) {
        standard(lines(head, Forwarding::Standard), trust, &mut found)?;
    }
    Ok(Some(found))
}

/// Below which path the nearest proxy says that the application is, if its peer is one that is trusted: the prefix of [`effective`]
/// alone. None as well for one that is refused.
pub fn forwarded_prefix<'a>(head: &'a Head, trust: &Trust) -> Option<&'a [u8]> {
    if !head.block.has_forwarding() {
        return None;
    }
    good_prefix(Said::of(head, trust).nearest(Forwarding::Prefix)?).ok()
}

/// Of each header that is believed the last line.
struct Said<'a>([Option<&'a [u8]>; Forwarding::KINDS]);

impl<'a> Said<'a> {
    fn of(head: &'a Head, trust: &Trust) -> Self {
        let mut last = [None; Forwarding::KINDS];
        for (name, value) in head.block.fields() {
            if let Some(kind) = Forwarding::of(name).filter(|&kind| trust.accepts(kind)) {
                last[kind as usize] = Some(value);
            }
        }
        Self(last)
    }

    fn has(&self, kind: Forwarding) -> bool {
        self.0[kind as usize].is_some()
    }

    /// The last member of the last line: what the nearest proxy has said.
    fn nearest(&self, kind: Forwarding) -> Option<&'a [u8]> {
        let member = self.0[kind as usize]?.rsplit(|&byte| byte == b',').next().map(trim_ows);
        member.filter(|member| !member.is_empty())
    }
}

/// All lines of a header, in order.
fn lines(head: &Head, kind: Forwarding) -> impl DoubleEndedIterator<Item = &[u8]> {
    head.block.fields().filter(move |(name, _)| Forwarding::of(name) == Some(kind)).map(|(_, value)| value)
}

type Node = (IpAddr, Option<u16>);

/// The first from the right that is not a trusted proxy; the left-most where all are.
fn client(chain: impl Iterator<Item = Option<Node>>, trust: &Trust) -> Result<Option<Node>, Fault> {
    let mut nearest = None;
    for node in chain {
        // A name of a proxy's own (`unknown`, `_hidden`) or no address: it cannot be trusted,
        // so that the chain ends here, with the address to its right.
        let Some(node) = node else { return Ok(nearest) };
        let is_proxy = trust.has(node.0) && !trust.all;
        nearest = Some(node);
        if !is_proxy && !trust.all {
            break;
        }
    }
    Ok(nearest)
}

/// An address with or without a port: `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]`, `[::1]:5`.
fn node(text: &[u8]) -> Option<Node> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some((ip, None));
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some((socket.ip(), Some(socket.port())));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<Ipv6Addr>().ok().map(|ip| (IpAddr::V6(ip), None))
}

/// The scheme, from all headers that name it: they must agree.
fn scheme(said: &Said<'_>) -> Result<Option<Scheme>, Fault> {
    let mut found = None;
    for kind in [Forwarding::Proto, Forwarding::Protocol, Forwarding::Scheme] {
        if let Some(value) = said.nearest(kind) {
            agree(&mut found, scheme_of(value)?)?;
        }
    }
    if let Some(value) = said.nearest(Forwarding::Ssl) {
        let scheme = if value.eq_ignore_ascii_case(b"on") { Scheme::Https } else { Scheme::Http };
        agree(&mut found, scheme)?;
    }
    Ok(found)
}

fn scheme_of(value: &[u8]) -> Result<Scheme, Fault> {
    // A WebSocket's handshake is a request of http or https.
    if value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"wss") {
        Ok(Scheme::Https)
    } else if value.eq_ignore_ascii_case(b"http") || value.eq_ignore_ascii_case(b"ws") {
        Ok(Scheme::Http)
    } else {
        Err(fault::FORWARDED)
    }
}

fn agree<T: PartialEq>(found: &mut Option<T>, other: T) -> Result<(), Fault> {
    match found {
        Some(before) if *before != other => Err(fault::FORWARDED),
        _ => {
            *found = Some(other);
            Ok(())
        }
    }
}

fn good_host(host: &[u8]) -> Result<&[u8], Fault> {
    if !host.is_empty() && is_authority(host) { Ok(host) } else { Err(fault::FORWARDED) }
}

/// A path prefix: absolute, without an end slash, nothing that could be a host or a header.
fn good_prefix(prefix: &[u8]) -> Result<&[u8], Fault> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let good =
        prefix.is_empty() || (prefix.starts_with(b"/") && !prefix.starts_with(b"//") && is_visible(prefix));
    if good { Ok(prefix) } else { Err(fault::FORWARDED) }
}

/// RFC 7239 §4: elements with commas between, pairs with semicolons, values quoted or not.
fn standard<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    trust: &Trust,
    found: &mut Effective,
) -> Result<(), Fault> {
    let mut elements = Vec::new();
    for value in values {
        parse_elements(value, &mut elements)?;
    }
    if elements.is_empty() {
        return Ok(());
    }
    let chain = elements.iter().rev().map(|element| element.client.as_deref().and_then(node));
    if let Some((address, port)) = client(chain, trust)? {
        let mut known = found.addr.take();
        agree(&mut known, address)?;
        found.addr = known;
        found.port = port.or(found.port);
    }
    // What the nearest proxy says of the connection that reached it.
    if let Some(nearest) = elements.last() {
        if let Some(proto) = &nearest.proto {
            agree(&mut found.scheme, scheme_of(proto)?)?;
        }
        if let Some(host) = &nearest.host {
            agree(&mut found.host, good_host(host)?.to_vec())?;
        }
    }
    Ok(())
}

/// One element of Forwarded.
#[derive(Default)]
struct Element {
    client: Option<Vec<u8>>,
    proto: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    said: bool,
}

impl Element {
    /// Joins the others and begins anew. An empty member of a list is no element (RFC 9110
    /// §5.6.1.2): it must not hide what the nearest proxy says.
    fn finish(&mut self, others: &mut Vec<Self>) {
        let element = std::mem::take(self);
        if element.said {
            others.push(element);
        }
    }
}

fn parse_elements(mut text: &[u8], elements: &mut Vec<Element>) -> Result<(), Fault> {
    let mut element = Element::default();
    loop {
        text = trim_ows(text);
        let equals = text.iter().position(|byte| matches!(byte, b'=' | b';' | b','));
        if let Some(equals) = equals.filter(|&at| text[at] == b'=') {
            let name = &text[..equals];
            if !is_token(name) {
                return Err(fault::FORWARDED);
            }
            let (value, rest) = value(&text[equals + 1..])?;
            element.said = true;
            let place = match name.to_ascii_lowercase().as_slice() {
                b"for" => Some(&mut element.client),
                b"proto" => Some(&mut element.proto),
                b"host" => Some(&mut element.host),
                _ => None,
            };
            if let Some(place) = place
                && place.replace(value).is_some()
            {
                // §4: a parameter must not occur twice in an element.
                return Err(fault::FORWARDED);
            }
            text = trim_ows(rest);
        }
        // No pair in front of a separator: an empty one is allowed (RFC 7239 §4).
        match text.first() {
            None => break,
            Some(b';') => text = &text[1..],
            Some(b',') => {
                element.finish(elements);
                text = &text[1..];
            }
            Some(_) => return Err(fault::FORWARDED),
        }
    }
    element.finish(elements);
    Ok(())
}

/// A token or a quoted string, and what follows it.
fn value(text: &[u8]) -> Result<(Vec<u8>, &[u8]), Fault> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let mut value = Vec::new();
        let mut bytes = quoted.iter().enumerate();
        while let Some((at, &byte)) = bytes.next() {
            match byte {
                b'"' => return Ok((value, &quoted[at + 1..])),
                b'\\' => value.push(*bytes.next().ok_or(fault::FORWARDED)?.1),
                _ => value.push(byte),
            }
        }
        return Err(fault::FORWARDED);
    }
    // Many send addresses with colons and brackets unquoted; their meaning is plain.
    let end = text.iter().position(|byte| matches!(byte, b';' | b',' | b' ' | b'\t')).unwrap_or(text.len());
    let (value, rest) = text.split_at(end);
    if value.is_empty() || !is_visible(value) || value.contains(&b'"') {
        return Err(fault::FORWARDED);
    }
    Ok((value.to_vec(), rest))
}
