//! Whether a file is sent, or its client has it already: If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since
//! and If-Range (RFC 9110 §13), by entity tags and dates (§8.8).
//!
//! Knows: one request's conditions and one representation's validators (`etag.rs` makes them). Does not know: files, clocks,
//! ranges. Pure; nothing is allocated.

use crate::block::Block;
use crate::bytes::trim_ows;
use crate::etag::Validators;
use crate::head::Head;
use crate::http_date::http_date;

/// What a request's conditions come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The method is done as if there were no condition.
    Send,
    /// 304 with ETag, Last-Modified, Cache-Control, Vary and the like, and without content (§15.4.5).
    NotModified,
    /// 412 (§15.5.13).
    PreconditionFailed,
}

/// Whether a line is there that [`evaluate`], [`if_range_holds`] or `ranges::requested` reads: worth remembering beside a
/// block, as most have none.
pub fn asked(block: &Block) -> bool {
    block.fields().any(|(name, _)| {
        name.eq_ignore_ascii_case(b"range") || name.get(..3).is_some_and(|it| it.eq_ignore_ascii_case(b"if-"))
    })
}

/// Evaluates a request's conditions against what would be sent now, in the order of §13.2.2. `now` in seconds since
/// 1970. It is for representations that exist: a path that names nothing has no conditions to meet.
pub fn evaluate(head: &Head, current: &Validators<'_>, now: u64) -> Outcome {
    let block = &*head.block;
    let is_read = matches!(head.method(), b"GET" | b"HEAD");
    match any_matches(block, "if-match", |tag| strong(tag, current.etag)) {
        Some(false) => return Outcome::PreconditionFailed,
        Some(true) => {}
        // Of two dates it is not said which counts: they are ignored, as one that is no date (§13.1.4).
        None => match (date(block, "if-unmodified-since", now), current.modified) {
            (Some(since), Some(modified)) if modified > since => return Outcome::PreconditionFailed,
            _ => {}
        },
    }
    match any_matches(block, "if-none-match", |tag| weak(tag, current.etag)) {
        Some(true) if is_read => Outcome::NotModified,
        Some(true) => Outcome::PreconditionFailed,
        // If-Modified-Since is not looked at where there are tags, which are more exact (§13.1.3).
        Some(false) => Outcome::Send,
        None => match (date(block, "if-modified-since", now), current.modified) {
            (Some(since), Some(modified)) if is_read && modified <= since => Outcome::NotModified,
            _ => Outcome::Send,
        },
    }
}

/// Whether the Range of a request is to be looked at: there is no If-Range, or what it names is what would be sent now,
/// by a strong comparison (§13.1.5). False: the whole is sent.
pub fn if_range_holds(head: &Head, current: &Validators<'_>, now: u64) -> bool {
    let mut lines = lines(&head.block, "if-range");
    let Some(value) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    if value.contains(&b'"') {
        return strong(value, current.etag);
    }
    // A date has to be the very one, and a strong validator: none of a file that may change again within its second.
    let is_strong = !current.etag.starts_with(b"W/");
    is_strong && current.modified.is_some() && http_date(value, now) == current.modified
}

fn lines<'a>(block: &'a Block, wanted: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let named = move |name: &[u8]| name.eq_ignore_ascii_case(wanted.as_bytes());
    block.fields().filter(move |(name, _)| named(name)).map(|(_, value)| value)
}

/// The date of the only line of a name.
fn date(block: &Block, name: &'static str, now: u64) -> Option<u64> {
    let mut lines = lines(block, name);
    let first = lines.next()?;
    if lines.next().is_some() { None } else { http_date(first, now) }
}

/// Whether a tag of a list matches; of several lines, one list. None: there is no such line. `*` alone in its line
/// matches whatever exists.
fn any_matches(block: &Block, name: &'static str, matches: impl Fn(&[u8]) -> bool) -> Option<bool> {
    let mut found = None;
    for line in lines(block, name) {
        let here = line == b"*" || Tags(line).any(&matches);
        found = Some(here || found == Some(true));
    }
    found
}

/// §8.8.3.2: both strong, and equal.
fn strong(one: &[u8], other: &[u8]) -> bool {
    one == other && is_tag(one) && !one.starts_with(b"W/")
}

/// §8.8.3.2: equal but for the mark of weakness.
fn weak(one: &[u8], other: &[u8]) -> bool {
    is_tag(one) && opaque(one) == opaque(other)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

fn is_tag(text: &[u8]) -> bool {
    tag_length(text) == Some(text.len())
}

/// How long the tag is that a text begins with: `[W/]"` etagc* `"`. `W` is a capital (§8.8.3).
fn tag_length(text: &[u8]) -> Option<usize> {
    let [b'"', inner @ ..] = opaque(text) else { return None };
    let end = memchr::memchr(b'"', inner)?;
    let allowed = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    inner[..end].iter().all(allowed).then_some(text.len() - inner.len() + end + 1)
}

/// The well-formed entity tags of a list (§8.8.3). What is malformed is passed over up to the next comma: it matches
/// nothing, so that If-Match fails and If-None-Match sends.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.0.is_empty() {
            let text = trim_ows(self.0);
            let (tag, behind) = text.split_at(tag_length(text).unwrap_or(0));
            let comma = memchr::memchr(b',', behind).unwrap_or(behind.len());
            self.0 = behind.get(comma + 1..).unwrap_or_default();
            if !tag.is_empty() && trim_ows(&behind[..comma]).is_empty() {
                return Some(tag);
            }
        }
        None
    }
}
