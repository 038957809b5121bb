//! The fields of a block into a request (RFC 9113 §8.2 and §8.3, RFC 8441 §4).
//!
//! Knows: what a well-formed request is, and what of it HTTP/1 says in other words. Does not know: streams. What both
//! protocols have in common (what a Host, a length, an expectation is) is judged where HTTP/1 is: a request means the
//! same by whichever it comes. What could not stand in a header line of HTTP/1 never gets there.

use std::sync::Arc;

use super::fault::{self as wrong, Wrong};
use super::priority::Priority;
use crate::Millis;
use crate::block::Block;
use crate::bytes::{is_token, is_value, is_visible};
use crate::fault::{self, Fault};
use crate::fields;
use crate::forwarded::Scheme;
use crate::head::{Framing, Head};
use crate::head_cache::Hint;
use crate::hpack::List;
use crate::http1::Shared;
use crate::request_line::{self, Version};

/// What a request asks, beside the stream that it has.
#[derive(Clone)]
pub struct Asked {
    pub head: Arc<Head>,
    pub scheme: Scheme,
    /// What the stream is to become (RFC 8441 §4): the method is CONNECT then.
    pub protocol: Option<Box<[u8]>>,
    pub priority: Priority,
}

/// Why there is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is malformed: the stream is reset.
    Malformed(Wrong),
    /// It is answered with this.
    Answered(Fault),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        Self::Malformed(wrong)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Answered(fault)
    }
}

/// Pseudo-headers and headers apart.
#[derive(Default)]
struct Sorted<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    cookie: Vec<u8>,
    priority: Vec<u8>,
    /// The other headers, a line each.
    lines: Vec<u8>,
    count: u64,
}

impl<'a> Sorted<'a> {
    fn pseudo(&mut self, name: &[u8], value: &'a [u8], connect: bool) -> Result<(), Refusal> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":path" => &mut self.path,
            b":authority" => &mut self.authority,
            b":protocol" if connect => &mut self.protocol,
            _ => return Err(wrong::PSEUDO_FIELD.into()),
        };
        if place.replace(value).is_some() { Err(wrong::PSEUDO_FIELD.into()) } else { Ok(()) }
    }

    fn header(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        judge_field(name, value)?;
        match name {
            b"cookie" => {
                // §8.2.3: crumbs are one header. They count by their bytes, which the list's budget has bounded.
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
                return Ok(());
            }
            b"host" if self.host.replace(value).is_some() => return Err(fault::TWO_HOSTS.into()),
            b"host" => {}
            _ => {
                if name == b"priority" {
                    self.priority.extend_from_slice(value);
                    self.priority.push(b',');
                }
                line(name, value, &mut self.lines);
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// §8.2: what no field of HTTP/2 may have, in a head and behind the content.
///
/// # Errors
/// The message is malformed.
pub fn judge_field(name: &[u8], value: &[u8]) -> Result<(), Wrong> {
    if !is_token(name) || name.iter().any(u8::is_ascii_uppercase) {
        return Err(wrong::FIELD);
    }
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if !is_value(value) || blank(value.first()) || blank(value.last()) {
        return Err(wrong::FIELD);
    }
    match name {
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(wrong::CONNECTION_FIELD)
        }
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err(wrong::CONNECTION_FIELD),
        _ => Ok(()),
    }
}

fn line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Makes a request of a block's fields. `end`: no content follows. `connect`: a stream may become something else.
///
/// # Errors
/// It is malformed, or is answered with a refusal: `shared` has what can be told of the request then.
pub fn judge(
    list: &List,
    kind: (bool, bool),
    (variant, hint): (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<Asked, Refusal> {
    let judged = judge_fields(list, kind, (variant, hint), shared, now);
    if let Err(Refusal::Answered(fault)) = judged {
        tell(list, (variant, fault), shared);
    }
    judged
}

/// Where a request that is refused is known by its block, that is told already; else its line is.
#[cold]
fn tell(list: &List, (variant, fault): (u32, Fault), shared: &mut Shared) {
    let value = |wanted: &[u8]| list.fields().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    // A tunnel has an authority in the place of a path.
    let target = value(b":path").or_else(|| value(b":authority"));
    if let (Some(method), Some(target)) = (value(b":method"), target)
        && !shared.has_refused()
    {
        let line = line_of(method, target);
        let block = Arc::new(Block::without_fields(variant));
        shared.refuse(&line, Some(Version::Http2), (fault, block));
    }
}

fn line_of(method: &[u8], target: &[u8]) -> Vec<u8> {
    [method, b" ", target, b" HTTP/2.0\r\n"].concat()
}

fn judge_fields(
    list: &List,
    (end, connect): (bool, bool),
    (variant, hint): (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<Asked, Refusal> {
    if list.is_over() {
        return Err(fault::HEADERS_TOO_LARGE.into());
    }
    let mut sorted = Sorted::default();
    let mut headers = false;
    for (name, value) in list.fields() {
        if name.first() != Some(&b':') {
            headers = true;
            sorted.header(name, value)?;
        } else if headers {
            // §8.3: they stand before all others.
            return Err(wrong::PSEUDO_FIELD.into());
        } else {
            sorted.pseudo(name, value, connect)?;
        }
    }
    let count = sorted.count + u64::from(!sorted.cookie.is_empty());
    let (line, scheme) = request_of(&sorted, &shared.limits)?;
    if count > shared.limits.header_lines {
        return Err(fault::TOO_MANY_HEADERS.into());
    }
    let method = sorted.method.unwrap_or_default().len();
    let text = Text { line, method, section: section_of(&sorted)?, end };
    let head = join(&text, (variant, hint), shared, now)?;
    if end && matches!(head.framing, Framing::Length(1..)) {
        return Err(wrong::BODY_LENGTH.into());
    }
    let priority = match sorted.priority.is_empty() {
        true => Priority::UNSAID,
        false => Priority::read(&sorted.priority),
    };
    Ok(Asked { head, scheme, protocol: sorted.protocol.map(Into::into), priority })
}

/// The request line that HTTP/1 would have, and the scheme.
fn request_of(sorted: &Sorted<'_>, limits: &crate::Limits) -> Result<(Vec<u8>, Scheme), Refusal> {
    let method = sorted.method.ok_or(wrong::PSEUDO_FIELD)?;
    if !is_token(method) {
        return Err(wrong::PSEUDO_VALUE.into());
    }
    if method == b"CONNECT" && sorted.protocol.is_none() {
        // §8.5: a tunnel has neither scheme nor path. None is opened here.
        let is_tunnel = sorted.scheme.is_none() && sorted.path.is_none() && sorted.authority.is_some();
        return Err(if is_tunnel { fault::METHOD_NOT_ALLOWED.into() } else { wrong::PSEUDO_FIELD.into() });
    }
    if sorted.protocol.is_some() && (method != b"CONNECT" || sorted.authority.is_none()) {
        return Err(wrong::PSEUDO_FIELD.into());
    }
    let (Some(scheme), Some(path)) = (sorted.scheme, sorted.path) else {
        return Err(wrong::PSEUDO_FIELD.into());
    };
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case(b"https") => Scheme::Https,
        scheme if scheme.eq_ignore_ascii_case(b"http") => Scheme::Http,
        _ => return Err(wrong::PSEUDO_VALUE.into()),
    };
    // §8.3.1: a path is never empty; of a whole URL, or an authority, it has only this part.
    let is_path = path.starts_with(b"/") || path == b"*" && method == b"OPTIONS";
    if !is_path || !is_visible(path) || path.contains(&b'#') {
        return Err(wrong::PSEUDO_VALUE.into());
    }
    if sorted.protocol.is_some_and(|protocol| protocol != b"websocket") {
        // RFC 9220 §3 asks for 501 where a protocol is not known.
        return Err(fault::UNKNOWN_METHOD.into());
    }
    let line = line_of(method, path);
    if line.len() as u64 - 2 > limits.request_line_bytes {
        return Err(fault::REQUEST_LINE_TOO_LONG.into());
    }
    Ok((line, scheme))
}

/// The header section that HTTP/1 would have: `:authority` is its Host (§8.3.1).
fn section_of(sorted: &Sorted<'_>) -> Result<Vec<u8>, Refusal> {
    if let (Some(authority), Some(host)) = (sorted.authority, sorted.host)
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err(wrong::AUTHORITY.into());
    }
    let mut section = Vec::with_capacity(sorted.lines.len() + sorted.cookie.len() + 64);
    if let Some(host) = sorted.authority.or(sorted.host) {
        // What is no value of a header is no authority either.
        if !is_visible(host) {
            return Err(wrong::PSEUDO_VALUE.into());
        }
        line(b"host", host, &mut section);
    }
    section.extend_from_slice(&sorted.lines);
    if !sorted.cookie.is_empty() {
        line(b"cookie", &sorted.cookie, &mut section);
    }
    section.extend_from_slice(b"\r\n");
    Ok(section)
}

/// A request as HTTP/1 would have written it.
struct Text {
    line: Vec<u8>,
    /// The method's length.
    method: usize,
    section: Vec<u8>,
    /// No content follows.
    end: bool,
}

/// The head, from the cache where it is known.
fn join(
    text: &Text,
    (variant, hint): (u32, &mut Hint),
    shared: &mut Shared,
    now: Millis,
) -> Result<Arc<Head>, Fault> {
    let known = shared.heads.block(hint, variant, &text.section, now);
    let block = known.map_or_else(|| fields::parse(&text.section, variant, &shared.policy), Ok)?;
    // Of two that are the same byte for byte, one may have content and the other not: only those are remembered whose
    // head says it.
    let says_length = text.end || block.facts.length.is_some();
    if says_length && let Some(head) = shared.heads.head(hint, &text.line, &block, now) {
        return Ok(head);
    }
    let line = &text.line[..text.line.len() - 2];
    let places = (text.method, line.len() - b" HTTP/2.0".len());
    let parts = request_line::judge(line, places, Version::Http2, &shared.policy)?;
    let joined = Head::join(&text.line, parts, block, (&shared.limits, &shared.policy));
    let mut head = joined.map_err(|refused| shared.refuse(&text.line, Some(Version::Http2), refused))?;
    if !says_length {
        head.framing = Framing::Chunked;
        head.expects_continue = head.block.facts.expect_continue;
    }
    let head = Arc::new(head);
    if says_length {
        shared.heads.keep(hint, &head, now);
    }
    Ok(head)
}
