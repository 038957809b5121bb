//! What a request says of a file means the same to a second reader, written for shortness and from other ideas: its
//! name, its parts, its codings, its dates, its tags.
//!
//! Knows: the rules a second time, where it can as sets: a range is the bytes that are in it. Does not know: how the first
//! readers go about it.

use std::collections::BTreeSet;

use wire::conditional::{Outcome, evaluate, if_range_holds};
use wire::encodings::{Encoding, Encodings, choose};
use wire::etag::Validators;
use wire::ranges::{Boundary, MOST_RANGES, Multipart, Ranges, parse};
use wire::static_path::{Named, decode};
use wire::{Event, Http1, http_date};

use crate::mutate::Random;
use crate::{Input, shared};

/// The target.
pub fn files(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let mut random = Random::new(u64::from(input.cuts) << 8 | u64::from(input.rules));
    // The input as it is, and something that is mostly valid with a piece of the input in it.
    path(input.sent);
    path(&made(b"/", PATHS, &mut random, input.sent));
    range(input.sent, random.below(40) as u64);
    range(&made(b"bytes=", RANGES, &mut random, input.sent), random.below(40) as u64);
    let accept = made(b"", CODINGS, &mut random, input.sent);
    codings(&accept, &mut random);
    date(&made(b"", DATES, &mut random, input.sent));
    tags(&made(b"", TAGS, &mut random, input.sent), &mut random);
}

const PATHS: &[&str] = &[
    "a",
    "b.css",
    "/",
    "/",
    "/",
    ".",
    "..",
    "%2e",
    "%2E",
    "%2f",
    "%5c",
    "\\",
    "%00",
    "%",
    "%25",
    "%20",
    " ",
    "%c0%ae",
    "%e2%80%a4",
    ".well-known",
    "%c3%a9",
    "%ff",
    "%7f",
    "%0a",
    "%zz",
    "~",
    "%2e%2e",
    "...",
];
const RANGES: &[&str] = &[
    "0",
    "1",
    "5",
    "9",
    "39",
    "40",
    "-",
    "-",
    "-",
    ",",
    ",",
    " ",
    "\t",
    "18446744073709551616",
    "x",
    "00",
    "+",
];
const CODINGS: &[&str] = &[
    "gzip", "br", "zstd", "identity", "*", "x-gzip", "GZIP", "deflate", ",", ",", ";", "q=", "Q=", "0", "1",
    ".", "5", "001", "000", " ", "\t", ";q=0", ";q=1", ";q=0.5",
];
const DATES: &[&str] = &[
    "Sun, ",
    "Sunday, ",
    "Sun ",
    "06 ",
    " 6 ",
    "06-",
    "29 ",
    "31 ",
    "Nov ",
    "Feb ",
    "Feb-",
    "Nov-",
    "1994 ",
    "2000 ",
    "1900 ",
    "94 ",
    "70 ",
    "08:49:37",
    "23:59:60",
    " GMT",
    " 1994",
    "Sun, 06 Nov 1994 ",
    "Sunday, 06-Nov-94 ",
    "Sun Nov  6 ",
];
const TAGS: &[&str] =
    &["\"a\"", "\"b\"", "W/\"a\"", "W/", "\"", ",", ", ", ",", " ", "*", "\"a,b\"", "a", "w/\"a\"", "\"\""];

/// A few of these words one after the other, and somewhere among them a few bytes of the input.
fn made(begins: &[u8], words: &[&str], random: &mut Random, sent: &[u8]) -> Vec<u8> {
    let mut text = begins.to_vec();
    for _ in 0..1 + random.below(9) {
        text.extend(words[random.below(words.len())].bytes());
        if random.below(16) == 0 {
            let from = random.below(sent.len());
            text.extend(&sent[from..sent.len().min(from + random.below(4))]);
        }
    }
    text
}

/// A name is what a browser of escapes makes of it, all at once; and nothing in it leads anywhere else.
fn path(sent: &[u8]) {
    let mut out = Vec::new();
    let named = decode(sent, &mut out);
    let again = again_path(sent);
    assert_eq!(named.ok().map(|named| (named, out)), again, "{}", sent.escape_ascii());
}

fn again_path(sent: &[u8]) -> Option<(Named, Vec<u8>)> {
    let text = std::str::from_utf8(sent).ok()?.strip_prefix('/')?;
    if text.is_empty() {
        return Some((Named::Folder, Vec::new()));
    }
    let named = if text.ends_with('/') { Named::Folder } else { Named::File };
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.to_ascii_lowercase().contains("%2f") {
        return None;
    }
    // What stands behind each percent sign begins with its two digits.
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(piece[2..].bytes());
    }
    let name = String::from_utf8(bytes).ok()?;
    let bad = |segment: &str| {
        let hidden = segment.starts_with('.') && segment != ".well-known";
        segment.is_empty() || hidden || segment.ends_with(['.', ' ']) || segment.len() > 255
    };
    let refused = name.chars().any(|it| it.is_ascii_control() || it == '\\')
        || name.split('/').any(bad)
        || name.len() > 4095;
    (!refused).then(|| (named, name.into_bytes()))
}

/// A range is the set of its bytes.
fn range(value: &[u8], size: u64) {
    let found = parse(value, size);
    let expected = again_range(value, size);
    let shown: Option<Vec<BTreeSet<u64>>> = match &found {
        Ranges::Whole => None,
        Ranges::Unsatisfiable => Some(Vec::new()),
        Ranges::One(range) => Some(vec![range.clone().collect()]),
        Ranges::Many(ranges) => Some(ranges.iter().map(|range| range.clone().collect()).collect()),
    };
    assert_eq!(shown, expected, "{} of {size}", value.escape_ascii());
    if let Ranges::Many(ranges) = &found {
        let boundary = Boundary::from_random(u128::from(size));
        let reply = Multipart { boundary: &boundary, content_type: "a/b", size, ranges };
        let heads: usize = (0..ranges.len()).map(|index| reply.part_head(index).len()).sum();
        let content: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(reply.length(), (heads + reply.end().len()) as u64 + content);
    }
}

/// None: the whole. An empty list: nothing of it is there.
fn again_range(value: &[u8], size: u64) -> Option<Vec<BTreeSet<u64>>> {
    let text = std::str::from_utf8(value).ok()?;
    let set = text.get(..6).filter(|unit| unit.eq_ignore_ascii_case("bytes=")).map(|_| &text[6..])?;
    let members: Vec<&str> =
        set.split(',').map(|it| it.trim_matches([' ', '\t'])).filter(|it| !it.is_empty()).collect();
    if members.is_empty() || members.len() > MOST_RANGES {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let mut sets: Vec<BTreeSet<u64>> = Vec::new();
    for member in members {
        let (first, last) = member.split_once('-')?;
        let wanted = |byte: &u64| match (number(first), number(last)) {
            (Some(first), Some(last)) => (first..=last).contains(byte),
            (Some(first), None) => *byte >= first,
            (None, Some(suffix)) => size - byte <= suffix,
            (None, None) => false,
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if last < first => return None,
            (Some(_), None) if !last.is_empty() => return None,
            (None, Some(suffix)) if !first.is_empty() || suffix > 0 && size == 0 => return None,
            (None, None) => return None,
            _ => sets.push((0..size).filter(wanted).collect()),
        }
    }
    sets.retain(|set| !set.is_empty());
    let all: usize = sets.iter().map(BTreeSet::len).sum();
    // They overlap where together they have fewer bytes than one by one.
    (sets.iter().flatten().collect::<BTreeSet<_>>().len() == all).then_some(sets)
}

/// The best is one than which no other is better, by weights read as fractions.
fn codings(accept: &[u8], random: &mut Random) {
    let mut available = Encodings::NONE;
    let mut all = vec![Encoding::Identity];
    for encoding in [Encoding::Gzip, Encoding::Zstd, Encoding::Brotli] {
        if random.below(3) > 0 {
            available = available.with(encoding);
            all.push(encoding);
        }
    }
    let weight = |encoding: &Encoding| {
        let names: &[&str] = match encoding {
            Encoding::Gzip => &["gzip", "x-gzip"],
            other => &[other.name().unwrap_or("identity")],
        };
        let own = weight_of(accept, names);
        let said = own.or_else(|| weight_of(accept, &["*"]));
        said.unwrap_or(if *encoding == Encoding::Identity { 0.000_001 } else { 0.0 })
    };
    // Sorted by preference, the least first, so that of equals the last is found.
    let best = all
        .into_iter()
        .filter(|it| weight(it) > 0.0)
        .max_by(|one, other| weight(one).total_cmp(&weight(other)));
    let expected = best.unwrap_or(Encoding::Identity);
    assert_eq!(choose([accept], available), expected, "{} of {available:?}", accept.escape_ascii());
    // A list may be cut into lines at any of its commas.
    let lines = accept.split(|&byte| byte == b',');
    assert_eq!(choose(lines, available), expected, "as lines: {}", accept.escape_ascii());
}

fn weight_of(accept: &[u8], names: &[&str]) -> Option<f64> {
    let text = String::from_utf8_lossy(accept);
    let blank = [' ', '\t'];
    text.split(',').find_map(|member| {
        let (name, weight) = member.split_once(';').unwrap_or((member, "q=1"));
        names.iter().find(|known| known.eq_ignore_ascii_case(name.trim_matches(blank)))?;
        let weight = weight.trim_matches(blank).strip_prefix(['q', 'Q'])?.strip_prefix('=')?;
        let plain =
            weight.len() <= 5 && weight.starts_with(['0', '1']) && !weight[1..].starts_with(|it| it != '.');
        let weight = weight.parse::<f64>().ok().filter(|_| plain)?;
        (weight <= 1.0).then_some(weight)
    })
}

/// A date that is understood is the one that is written for that moment, in its own form.
fn date(text: &[u8]) {
    const NOW: u64 = 1_795_305_600;
    let Some(seconds) = http_date(text, NOW) else { return };
    let words = String::from_utf8(text.to_vec()).expect("dates are ASCII");
    let said = wire::DateLine::at(seconds);
    let said = std::str::from_utf8(said.date()).expect("ASCII");
    // A leap second is the next one, and what is before 1970 its first moment.
    if seconds == 0 || words.contains(":60") {
        return;
    }
    let (day, month, year, time) = (&said[5..7], &said[8..11], &said[12..16], &said[17..25]);
    let forms = [
        format!("{day} {month} {year} {time} GMT"),
        format!("{day}-{month}-{} {time} GMT", &year[2..]),
        format!("{month} {day} {time} {year}"),
        format!("{month} {:>2} {time} {year}", day.trim_start_matches('0')),
    ];
    assert!(forms.iter().any(|form| words.ends_with(form.as_str())), "{words} is taken for {said}");
}

/// Lists of tags, read with quotes taken in pairs.
fn tags(value: &[u8], random: &mut Random) {
    // A line end would end the value, and what follows it says something else.
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return;
    }
    let current =
        Validators { etag: [&b"\"a\""[..], b"W/\"a\"", b"\"a,b\""][random.below(3)], modified: None };
    let text =
        format!("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: {0}\r\n\r\n", String::from_utf8_lossy(value));
    let matched = text.replace("None-", "");
    let ranged = text.replace("None-Match", "Range");
    let (Some(none), Some(matched), Some(ranged)) =
        (outcome(&text, &current), outcome(&matched, &current), head(&ranged))
    else {
        return;
    };
    let value = String::from_utf8_lossy(value);
    let value = value.trim_matches([' ', '\t']);
    let known = String::from_utf8_lossy(current.etag);
    let tags = again_tags(value);
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_string();
    let weakly = value == "*" || tags.iter().any(|tag| opaque(tag) == opaque(&known));
    let strongly = value == "*" || !known.starts_with('W') && tags.iter().any(|tag| *tag == known);
    assert_eq!(none == Outcome::NotModified, weakly, "{value:?} of {known}: {tags:?}");
    assert_eq!(matched == Outcome::Send, strongly, "{value:?} of {known}: {tags:?}");
    let same = !known.starts_with('W') && value == known;
    assert_eq!(if_range_holds(&ranged, &current, 0), same, "{value:?} of {known}");
}

fn head(text: &str) -> Option<std::sync::Arc<wire::Head>> {
    match Http1::new(0, 0).advance(&mut text.as_bytes(), &mut shared(0), 0) {
        Event::Request(head) => Some(head),
        _ => None,
    }
}

fn outcome(text: &str, current: &Validators<'_>) -> Option<Outcome> {
    Some(evaluate(&*head(text)?, current, 0))
}

/// Members between commas that are not inside of a tag; of a member that does not begin with a tag, a comma ends it
/// wherever it stands.
fn again_tags(value: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), value);
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t']);
        let quoted = rest.strip_prefix("W/").unwrap_or(rest);
        let end = quoted.strip_prefix('"').and_then(|inner| {
            let length = inner.find('"')?;
            let fine = !inner[..length].contains(|it: char| it <= ' ' || it == '\x7f');
            fine.then_some(rest.len() - inner.len() + length + 1)
        });
        let (tag, behind) = rest.split_at(end.unwrap_or(0));
        let (between, next) = behind.split_once(',').unwrap_or((behind, ""));
        if !tag.is_empty() && between.trim_matches([' ', '\t']).is_empty() {
            found.push(tag.to_string());
        }
        rest = next;
    }
    found
}
