//! Variables of a web server into a head: the one home of what their names mean, whatever has framed them.
//!
//! Knows: CGI's names (RFC 3875 §4.1), what servers add to them, and which must never get through. Does not know:
//! framing, trust, environ or scope. Pure.
//!
//! `HTTP_*` and `CONTENT_*` become a header section, the method and REQUEST_URI a request line; both are then judged
//! by the grammars of HTTP/1 and remembered with its heads, so that a request means the same through every door. What
//! is left is [`Given`]; what comes again, but for its client, is not judged again.

use std::sync::Arc;

use super::given::{Given, Known, Pair, Span};
use crate::Millis;
use crate::block::{Attachment, Block};
use crate::bytes::{is_token, is_value, is_variable, is_visible};
use crate::fault::{self, Fault};
use crate::fields;
use crate::head::{Framing, Head};
use crate::head_cache::{Hint, Seen};
use crate::http1::Shared;
use crate::request_line;
use crate::trust::{Peer, Trust};

/// Whom a web server names as its client. nginx says `unix:` of one that has come through a unix socket.
fn peer(address: Option<&[u8]>, port: Option<&[u8]>) -> Result<Option<Peer>, Fault> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| fault::GATEWAY_VARIABLE);
    Ok(Some(match address {
        None => return Ok(None),
        Some(b"unix:") => Peer::Unix,
        Some(address) => {
            let ip = text(address)?.parse().map_err(|_| fault::GATEWAY_VARIABLE)?;
            let port = port.map_or(Ok("0"), text)?.parse().map_err(|_| fault::GATEWAY_VARIABLE)?;
            Peer::Ip(ip, port)
        }
    }))
}

/// No place in the bytes: a value stands behind its name.
const NOWHERE: Span = (0, 0);

/// Bytes of REMOTE_ADDR and REMOTE_PORT.
const CLIENT_NAME: u32 = 11;

/// What is done with a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Method,
    Target,
    Field,
    /// CONTENT_TYPE and CONTENT_LENGTH: headers without their prefix.
    Content,
    Given,
    Dropped,
}

fn use_of(name: &[u8]) -> Use {
    // No name that WSGI or ASGI itself has: `wsgi.input` would be one.
    if !is_variable(name) {
        return Use::Dropped;
    }
    match name {
        b"REQUEST_METHOD" => Use::Method,
        b"REQUEST_URI" => Use::Target,
        b"CONTENT_TYPE" | b"CONTENT_LENGTH" => Use::Content,
        // They are about the web server's own connection to its client (RFC 9110 §7.6.1): the body is decoded, and
        // an expectation is met, before it gets here.
        b"HTTP_CONNECTION" | b"HTTP_KEEP_ALIVE" | b"HTTP_TRANSFER_ENCODING" | b"HTTP_EXPECT" => Use::Dropped,
        // They are there without the prefix; a proxy's name would be taken for the client's wish (CVE-2016-5385).
        b"HTTP_CONTENT_LENGTH" | b"HTTP_CONTENT_TYPE" | b"HTTP_PROXY" | b"HTTP_" => Use::Dropped,
        _ if name.starts_with(b"HTTP_") => Use::Field,
        // uWSGI obeys these, to the point of running files: nobody may think that they do anything here.
        _ if name.starts_with(b"UWSGI_") || name.is_empty() => Use::Dropped,
        // The mark of SCGI itself.
        b"SCGI" => Use::Dropped,
        _ => Use::Given,
    }
}

/// The variables of a request by what they are for.
#[derive(Default)]
struct Sorted<'a> {
    method: Option<&'a [u8]>,
    target: Option<&'a [u8]>,
    contents: Vec<&'a [u8]>,
    /// How many `HTTP_*` there are, and one of them names the host.
    fields: u64,
    has_host: bool,
    is_10: bool,
    /// The length of the body was told.
    is_sized: bool,
    given: Vec<Pair>,
    /// SCRIPT_NAME came again: who has configured the web server means this one.
    place_again: bool,
}

/// Sorts them; the header section goes to `section`, which is empty. `has_body`: the framing shows one.
fn sort<'a>(
    bytes: &'a [u8],
    (pairs, has_body): (&[Pair], bool),
    section: &mut Vec<u8>,
) -> Result<Sorted<'a>, Fault> {
    let part = |(from, to): Span| &bytes[from as usize..to as usize];
    let mut sorted = Sorted { given: Vec::with_capacity(pairs.len()), ..Sorted::default() };
    for &pair in pairs {
        let (name, value) = (part(pair.0), part(pair.1));
        match use_of(name) {
            Use::Dropped => {}
            Use::Method => once(&mut sorted.method, value)?,
            Use::Target => once(&mut sorted.target, value)?,
            Use::Content => {
                if sorted.contents.contains(&name) {
                    return Err(fault::GATEWAY_VARIABLE);
                }
                sorted.contents.push(name);
                // Web servers send them empty where a request has none; of a body whose length it does not know, Caddy
                // says that it is -1.
                let untold = value.is_empty() || has_body && name == b"CONTENT_LENGTH" && value == b"-1";
                if !untold {
                    sorted.is_sized |= name == b"CONTENT_LENGTH";
                    line(name, value, section)?;
                }
            }
            // Of two headers of a name some servers make two variables.
            Use::Field => {
                sorted.fields += 1;
                sorted.has_host |= name == b"HTTP_HOST";
                line(&name[b"HTTP_".len()..], value, section)?;
            }
            Use::Given => {
                if value.iter().fold(false, |found, &byte| found | (byte == 0)) {
                    return Err(fault::GATEWAY_VARIABLE);
                }
                sorted.is_10 |= name == b"SERVER_PROTOCOL" && value == b"HTTP/1.0";
                match sorted.given.iter_mut().find(|(known, _)| part(*known) == name) {
                    None => sorted.given.push(pair),
                    // nginx sends what its file of usual variables says, and then what the location says.
                    Some(known) if matches!(name, b"SCRIPT_NAME" | b"PATH_INFO") => {
                        *known = pair;
                        sorted.place_again |= name == b"SCRIPT_NAME";
                    }
                    Some(_) => return Err(fault::GATEWAY_VARIABLE),
                }
            }
        }
    }
    section.extend_from_slice(b"\r\n");
    Ok(sorted)
}

/// Judges the variables of a request. `body`: whether the framing shows one, whatever length was told; none: it does not
/// say, as FastCGI's alone does.
///
/// # Errors
/// The refusal for the first that is malformed, there twice, or missing.
pub(super) fn judge(
    bytes: Vec<u8>,
    pairs: &[Pair],
    body: Option<bool>,
    cache: (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<(Arc<Head>, Given), Fault> {
    let has_body = body == Some(true);
    // What it says of its client differs, where the rest comes again: it is looked at each time.
    let client @ (address, port) = client_of(&bytes, pairs);
    let peer = peer(said(part(&bytes, address)), said(part(&bytes, port)))?;
    let variant = variant_of(cache.0, peer.as_ref(), &shared.trust);
    if let Some((head, known)) = shared.heads.request((variant, has_body), &bytes, client, now) {
        return Ok((head, Given { bytes, known, peer }));
    }
    let mut text = shared.lend_text();
    let judged = judge_in(&mut text, &bytes, (pairs, has_body), (variant, cache.1), shared, now);
    shared.give_text(text);
    let (head, Verdict { pairs, is_sized, place_again }) = judged?;
    // nginx's `fastcgi_params` say SCRIPT_NAME, which uWSGI's and SCGI's do not: the path, until a location says a place.
    let script_is_path = body.is_some() && !place_again;
    let known = Arc::new(Known { pairs, script_is_path, attachment: Attachment::default() });
    if !has_body || is_sized {
        let seen = Seen { bytes: bytes.clone().into(), client, peer, variant, is_sized };
        shared.heads.keep_request(seen, &head, &known, now);
    }
    Ok((head, Given { bytes, known, peer }))
}

/// The request that was judged last, where it comes again, from whichever client, and has no body: nothing of it is taken
/// apart but its client. None: it has to be judged, which is also the way to every refusal.
#[inline]
pub(super) fn again(
    bytes: &[u8],
    variant: u32,
    shared: &mut Shared,
    now: Millis,
) -> Option<(Arc<Head>, Given)> {
    let seen = shared.heads.last_request(bytes)?;
    let (address, port) = seen.client;
    let is_same = part(bytes, address) == part(&seen.bytes, address);
    let peer = match seen.peer {
        Some(Peer::Ip(ip, _)) if is_same => Some(Peer::Ip(ip, short_number(part(bytes, port))?)),
        known if is_same => known,
        _ => peer(said(part(bytes, address)), said(part(bytes, port))).ok()?,
    };
    // Whether it is trusted, its address alone decides.
    let variant = match &peer {
        Some(_) if is_same => variant & !1 | seen.variant & 1,
        peer => variant_of(variant, peer.as_ref(), &shared.trust),
    };
    if variant != seen.variant {
        return None;
    }
    let (head, known) = shared.heads.repeat_last(now)?;
    let bodiless = matches!(head.framing, Framing::None | Framing::Length(0));
    bodiless.then(|| (head, Given { bytes: bytes.to_vec(), known, peer }))
}

/// Which heads of the cache are those of this client: its forwarding headers are believed as those of one that has connected
/// itself would be. None is named: it is the web server.
fn variant_of(variant: u32, peer: Option<&Peer>, trust: &Trust) -> u32 {
    peer.map_or(variant, |peer| variant & !1 | u32::from(trust.trusts(peer)))
}

fn part(bytes: &[u8], (from, to): Span) -> &[u8] {
    &bytes[from as usize..to as usize]
}

/// A value that is empty says nothing.
fn said(value: &[u8]) -> Option<&[u8]> {
    Some(value).filter(|value| !value.is_empty())
}

/// The number of a port as web servers write it, zero where they do not.
#[inline]
fn short_number(digits: &[u8]) -> Option<u16> {
    if digits.len() > 5 {
        return None;
    }
    let add = |number: u32, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'));
    u16::try_from(digits.iter().try_fold(0, add)?).ok()
}

/// Where the address and the port of the client are, the first of each; nowhere, where they are not there.
fn client_of(bytes: &[u8], pairs: &[Pair]) -> (Span, Span) {
    let (mut address, mut port) = (NOWHERE, NOWHERE);
    for &((from, to), value) in pairs {
        // Few other names are as long.
        if to - from == CLIENT_NAME {
            match &bytes[from as usize..to as usize] {
                b"REMOTE_ADDR" if address == NOWHERE => address = value,
                b"REMOTE_PORT" if port == NOWHERE => port = value,
                _ => {}
            }
        }
    }
    (address, port)
}

/// What of the variables is not in the head.
struct Verdict {
    pairs: Vec<Pair>,
    is_sized: bool,
    place_again: bool,
}

/// The head, and what is not in it. It is written to `text`, which is empty.
fn judge_in(
    text: &mut Vec<u8>,
    bytes: &[u8],
    (pairs, has_body): (&[Pair], bool),
    (variant, hint): (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<(Arc<Head>, Verdict), Fault> {
    let sorted = sort(bytes, (pairs, has_body), text)?;
    let (Some(method @ [_, ..]), Some(target @ [_, ..])) = (sorted.method, sorted.target) else {
        return Err(fault::GATEWAY_VARIABLE);
    };
    // Joined with blanks, each must be the same part when the line is read.
    if !is_token(method) {
        return Err(fault::METHOD);
    }
    if target.len() as u64 > shared.limits.request_line_bytes {
        return Err(fault::REQUEST_LINE_TOO_LONG);
    }
    if !is_visible(target) {
        return Err(fault::TARGET);
    }
    // Newer versions differ on the way to the web server, not here. Whoever names no host speaks the older one.
    let is_11 = sorted.has_host && !sorted.is_10;
    let version = if is_11 { &b" HTTP/1.1\r\n"[..] } else { b" HTTP/1.0\r\n" };
    let section = text.len();
    for part in [method, b" ", target, version] {
        text.extend_from_slice(part);
    }
    text.rotate_left(section);
    let (first, section) = text.split_at(text.len() - section);
    if sorted.fields > shared.limits.header_lines {
        let block = Arc::new(Block::without_fields(variant));
        return Err(shared.refuse(first, None, (fault::TOO_MANY_HEADERS, block)));
    }
    let head = match has_body && !sorted.is_sized {
        true => Arc::new(unsized_head(first, section, variant, shared)?),
        false => match shared.heads.front(hint, variant, text, now) {
            Some(head) => head,
            None => joined(first, section, (variant, hint), shared, now)?,
        },
    };
    let Sorted { given: pairs, is_sized, place_again, .. } = sorted;
    Ok((head, Verdict { pairs, is_sized, place_again }))
}

/// The head of a request whose body has an end and no length. It is not remembered: of two that are the same byte for
/// byte one may have a body.
fn unsized_head(first: &[u8], section: &[u8], variant: u32, shared: &mut Shared) -> Result<Head, Fault> {
    let block = block_of(first, section, variant, shared)?;
    let mut head = joined_with(first, block, shared)?;
    head.framing = Framing::Chunked;
    Ok(head)
}

fn block_of(first: &[u8], section: &[u8], variant: u32, shared: &mut Shared) -> Result<Arc<Block>, Fault> {
    fields::parse(section, variant, &shared.policy)
        .map_err(|fault| shared.refuse(first, None, (fault, Arc::new(Block::without_fields(variant)))))
}

/// A line and a block. A connection is one request, whatever the client has agreed upon with its web server.
fn joined_with(first: &[u8], block: Arc<Block>, shared: &mut Shared) -> Result<Head, Fault> {
    let text = first.strip_suffix(b"\r\n").unwrap_or(first);
    let parts = match request_line::parse(text, &shared.policy) {
        Ok(parts) => parts,
        Err(fault) => return Err(shared.refuse(first, None, (fault, block))),
    };
    let joined = Head::join(first, parts, block, (&shared.limits, &shared.policy));
    let mut head = joined.map_err(|refused| shared.refuse(first, None, refused))?;
    head.persistent = false;
    Ok(head)
}

fn once<'a>(place: &mut Option<&'a [u8]>, value: &'a [u8]) -> Result<(), Fault> {
    if place.replace(value).is_some() { Err(fault::GATEWAY_VARIABLE) } else { Ok(()) }
}

/// A header line. Which of the underscores were dashes nobody knows any more; names of headers have dashes.
fn line(name: &[u8], value: &[u8], section: &mut Vec<u8>) -> Result<(), Fault> {
    if !is_value(value) {
        return Err(fault::FIELD_VALUE);
    }
    let dashed = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    section.extend(name.iter().map(dashed));
    section.extend_from_slice(b": ");
    section.extend_from_slice(value);
    section.extend_from_slice(b"\r\n");
    Ok(())
}

/// The head, from the cache where it is known.
fn joined(
    first: &[u8],
    section: &[u8],
    (variant, hint): (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<Arc<Head>, Fault> {
    let block = match shared.heads.block(hint, variant, section, now) {
        Some(block) => block,
        None => block_of(first, section, variant, shared)?,
    };
    if let Some(head) = shared.heads.head(hint, first, &block, now) {
        return Ok(head);
    }
    let head = Arc::new(joined_with(first, block, shared)?);
    shared.heads.keep(hint, &head, now);
    Ok(head)
}
