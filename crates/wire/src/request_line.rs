//! The request line: method, target, version (RFC 9112 §3).
//!
//! Knows: one line. Does not know: the header section. Pure.

use crate::bytes::{is_host_name, is_token, is_visible};
use crate::fault::{self, Fault};
use crate::policy::Policy;

/// The version of a request. A minor version above 1 is taken as 1.1 (RFC 9110 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

/// Where the parts of a line are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    pub method: usize,
    pub target: (usize, usize),
    /// Path and query, and the authority of a whole URL, as ranges of the line.
    pub path: (usize, usize),
    pub query: (usize, usize),
    pub authority: Option<(usize, usize)>,
    pub version: Version,
}

/// The methods of the IANA registry that a client may send to an origin server.
const REGISTERED: &[&[u8]] = &[
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"TRACE",
    b"ACL",
    b"BASELINE-CONTROL",
    b"BIND",
    b"CHECKIN",
    b"CHECKOUT",
    b"COPY",
    b"LABEL",
    b"LINK",
    b"LOCK",
    b"MERGE",
    b"MKACTIVITY",
    b"MKCALENDAR",
    b"MKCOL",
    b"MKREDIRECTREF",
    b"MKWORKSPACE",
    b"MOVE",
    b"ORDERPATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"QUERY",
    b"REBIND",
    b"REPORT",
    b"SEARCH",
    b"UNBIND",
    b"UNCHECKOUT",
    b"UNLINK",
    b"UNLOCK",
    b"UPDATE",
    b"UPDATEREDIRECTREF",
    b"VERSION-CONTROL",
];

/// With this line a connection of HTTP/2 begins (RFC 9113 §3.4).
const FIRST_LINE_OF_HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// Parses a line without its line ending.
///
/// # Errors
/// The refusal that RFC 9112 §3 or the policy asks for.
pub fn parse(line: &[u8], policy: &Policy) -> Result<RequestLine, Fault> {
    let method = memchr::memchr(b' ', line).ok_or(fault::REQUEST_LINE)?;
    if !is_token(&line[..method]) {
        return Err(fault::METHOD);
    }
    let last = memchr::memrchr(b' ', line).filter(|&last| last > method + 1).ok_or(fault::REQUEST_LINE)?;
    let version = version(&line[last + 1..]).map_err(|fault| match line == FIRST_LINE_OF_HTTP2 {
        true => fault::PRIOR_KNOWLEDGE,
        false => fault,
    })?;
    judge(line, (method, last), version, policy)
}

/// Judges a line whose blanks are at these places; its method is a token.
///
/// # Errors
/// As [`parse`].
pub fn judge(
    line: &[u8],
    (method, last): (usize, usize),
    version: Version,
    policy: &Policy,
) -> Result<RequestLine, Fault> {
    let target = &line[method + 1..last];
    // §3.2: no white space; a fragment is never sent; the rest must be percent-encoded.
    if !is_visible(target) || target.contains(&b'#') {
        return Err(fault::TARGET);
    }
    method_allowed(&line[..method], version, policy)?;
    let form = form(&line[..method], target, policy)?;
    Ok(placed(line, (method, last), form, version))
}

/// Where the parts of a line are that is refused, for whoever tells of it: as they are sent, whatever they are. None where it
/// is no line of HTTP. `version`: what is spoken, where it is not the line that says it.
#[cold]
pub fn told(line: &[u8], version: Option<Version>, policy: &Policy) -> Option<RequestLine> {
    let method = memchr::memchr(b' ', line).filter(|&method| is_token(&line[..method]))?;
    let last = memchr::memrchr(b' ', line).filter(|&last| last > method + 1)?;
    let said = match self::version(&line[last + 1..]) {
        Ok(said) => said,
        // It is answered as what is spoken here.
        Err(fault::NOT_HTTP1) => Version::Http11,
        Err(_) => return None,
    };
    let target = &line[method + 1..last];
    let form = form(&line[..method], target, policy).unwrap_or((None, (0, target.len())));
    Some(placed(line, (method, last), form, version.unwrap_or(said)))
}

/// The places of all parts, from those of a target's authority and path in it.
#[inline]
fn placed(
    line: &[u8],
    (method, last): (usize, usize),
    (authority, path): (Option<Part>, Part),
    version: Version,
) -> RequestLine {
    let start = method + 1;
    let shift = |(from, to): (usize, usize)| (from + start, to + start);
    let path_bytes = &line[start + path.0..start + path.1];
    let question = memchr::memchr(b'?', path_bytes).map_or(path.1, |at| path.0 + at);
    let query = if question < path.1 { (question + 1, path.1) } else { (path.1, path.1) };
    RequestLine {
        method,
        target: (start, last),
        path: shift((path.0, question)),
        query: shift(query),
        authority: authority.map(shift),
        version,
    }
}

/// RFC 9112 §2.3: `HTTP/` DIGIT `.` DIGIT, case-sensitive.
fn version(text: &[u8]) -> Result<Version, Fault> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9'] => {
            if *major == b'1' {
                Ok(Version::Http11)
            } else {
                Err(fault::NOT_HTTP1)
            }
        }
        _ => Err(fault::VERSION),
    }
}

fn method_allowed(method: &[u8], version: Version, policy: &Policy) -> Result<(), Fault> {
    match method {
        // No tunnels are opened here. In HTTP/2 it has another meaning, which is judged before (RFC 8441 §4).
        b"CONNECT" if version != Version::Http2 => Err(fault::METHOD_NOT_ALLOWED),
        // It would show a script the cookies that it must not see (RFC 9110 §9.3.8).
        b"TRACE" if !policy.trace => Err(fault::METHOD_NOT_ALLOWED),
        method if policy.refuses.unknown_methods && !REGISTERED.contains(&method) => {
            Err(fault::UNKNOWN_METHOD)
        }
        _ => Ok(()),
    }
}

type Part = (usize, usize);

/// §3.2.1 to §3.2.4: the form of a target is bound to its method.
fn form(method: &[u8], target: &[u8], policy: &Policy) -> Result<(Option<Part>, Part), Fault> {
    if target.starts_with(b"/") {
        return Ok((None, (0, target.len())));
    }
    if target == b"*" {
        return if method == b"OPTIONS" { Ok((None, (0, 1))) } else { Err(fault::TARGET) };
    }
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| target.len() > scheme.len() && target[..scheme.len()].eq_ignore_ascii_case(scheme));
    let Some(scheme) = scheme.filter(|_| !policy.refuses.absolute_form) else { return Err(fault::TARGET) };
    let from = scheme.len();
    let to = memchr::memchr2(b'/', b'?', &target[from..]).map_or(target.len(), |at| from + at);
    if to == from || target[from] == b':' || !is_authority(&target[from..to]) {
        return Err(fault::BAD_HOST);
    }
    Ok((Some((from, to)), (to, target.len())))
}

/// `host[:port]`, RFC 9110 §7.2; never with user information (§4.2.4).
pub fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text {
        [b'[', rest @ ..] => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            let address =
                std::str::from_utf8(&rest[..end]).ok().and_then(|it| it.parse::<std::net::Ipv6Addr>().ok());
            if address.is_none() {
                return false;
            }
            (&b""[..], &rest[end + 1..])
        }
        _ => match memchr::memchr(b':', text) {
            Some(colon) => text.split_at(colon),
            None => (text, &b""[..]),
        },
    };
    let port_is_good = match port {
        [] | [b':'] => true,
        [b':', digits @ ..] => crate::bytes::decimal(digits).is_some_and(|port| port <= 65_535),
        _ => false,
    };
    is_host_name(host) && port_is_good
}
