//! Parts of a file: the Range header, Content-Range, and `multipart/byteranges` (RFC 9110 §14).
//!
//! Knows: ranges of bytes. Does not know: files, conditions (`conditional` says whether If-Range holds). Pure.

use std::ops::Range;

use crate::bytes::{decimal, trim_ows};
use crate::head::Head;

/// More ranges than this are not served one by one: the whole is sent (§14.2 lets a server do so). Readers of PDF files
/// ask for two or three; what asks for hundreds wants to be a burden (CVE-2011-3192).
pub const MOST_RANGES: usize = 10;

/// What a Range header comes to for content of a certain size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// 200 with everything: it is no Range header that we know, or asks for too much.
    Whole,
    /// 206 with one part and Content-Range.
    One(Range<u64>),
    /// 206 as [`Multipart`]: two to [`MOST_RANGES`] parts in the order in which they were asked for, none empty, no two
    /// of which overlap.
    Many(Vec<Range<u64>>),
    /// 416 with Content-Range as [`unsatisfied_range`] has it.
    Unsatisfiable,
}

/// The one Range line of a GET. None: there is none, or more than one, or another method, for which ranges
/// have no meaning (§14.2): HEAD tells of the whole.
pub fn requested(head: &Head) -> Option<&[u8]> {
    if head.method() != b"GET" {
        return None;
    }
    let mut lines = head.block.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"range"));
    let (_, value) = lines.next()?;
    if lines.next().is_some() { None } else { Some(value) }
}

/// Reads a Range header's value for content of `size` bytes. What is malformed, has another unit than bytes, more than
/// [`MOST_RANGES`] members, or members that overlap is answered with the whole.
pub fn parse(value: &[u8], size: u64) -> Ranges {
    let Some((unit, set)) = value.split_at_checked(6) else { return Ranges::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return Ranges::Whole;
    }
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut members = 0;
    // Empty members say nothing (§5.6.1.2).
    for member in set.split(|&byte| byte == b',').map(trim_ows) {
        let Some(range) = (match member {
            [] => continue,
            _ => one(member, size),
        }) else {
            return Ranges::Whole;
        };
        members += 1;
        if members > MOST_RANGES
            || ranges.iter().any(|known| known.start < range.end && range.start < known.end)
        {
            return Ranges::Whole;
        }
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    match ranges.len() {
        0 if members == 0 => Ranges::Whole,
        0 => Ranges::Unsatisfiable,
        1 => ranges.pop().map_or(Ranges::Whole, Ranges::One),
        _ => Ranges::Many(ranges),
    }
}

/// One member: `first-[last]` or `-suffix`. Empty: it cannot be satisfied. None: it is malformed, or all that there is
/// of nothing.
fn one(member: &[u8], size: u64) -> Option<Range<u64>> {
    let dash = memchr::memchr(b'-', member)?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        let suffix = number(last)?;
        return match (suffix, size) {
            (0, _) => Some(0..0),
            // §14.1.2: it can be satisfied, but Content-Range cannot say so.
            (_, 0) => None,
            _ => Some(size.saturating_sub(suffix)..size),
        };
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    if first >= size { Some(0..0) } else { Some(first..last.saturating_add(1).min(size)) }
}

/// Digits, at least one. More than fits is more than any file has.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(decimal(digits).unwrap_or(u64::MAX))
}

/// The value of Content-Range for a part of content: `bytes 0-4/100` (§14.4).
pub fn content_range(range: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end - 1)
}

/// The value of Content-Range of a 416: `bytes */100` (§15.5.17).
pub fn unsatisfied_range(size: u64) -> String {
    format!("bytes */{size}")
}

/// What stands between the parts of a reply.
///
/// A boundary must not occur in what it separates (RFC 2046 §5.1.1). Nobody looks through a large file for that: it is
/// made of 128 bits drawn for this reply, so that whoever wrote the file cannot have known them, and chance has it in a
/// file of a tebibyte once in 10^26 replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// From bits that nobody can foretell, other ones for each reply.
    pub fn from_random(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The content of a 206 with several parts (§14.6): for each its [`Multipart::part_head`] and its bytes, then
/// [`Multipart::end`].
#[derive(Debug, Clone, Copy)]
pub struct Multipart<'a> {
    pub boundary: &'a Boundary,
    /// Of each part.
    pub content_type: &'a str,
    /// Of the whole file, in bytes.
    pub size: u64,
    pub ranges: &'a [Range<u64>],
}

impl Multipart<'_> {
    /// The Content-Type of the reply.
    pub fn reply_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary.0)
    }

    /// What stands before the bytes of a part, which is one of `ranges` by its index.
    pub fn part_head(&self, index: usize) -> String {
        let (start, boundary) = (if index == 0 { "" } else { "\r\n" }, &self.boundary.0);
        let (kind, range) = (self.content_type, content_range(&self.ranges[index], self.size));
        format!("{start}--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n")
    }

    /// What stands behind the last part.
    pub fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary.0)
    }

    /// All of it, in bytes: Content-Length.
    pub fn length(&self) -> u64 {
        let parts = self.ranges.iter().enumerate();
        let parts: u64 =
            parts.map(|(index, it)| self.part_head(index).len() as u64 + it.end - it.start).sum();
        parts + self.end().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &str, size: u64) -> String {
        match parse(value.as_bytes(), size) {
            Ranges::Whole => "whole".into(),
            Ranges::Unsatisfiable => unsatisfied_range(size),
            Ranges::One(range) => content_range(&range, size),
            Ranges::Many(ranges) => {
                let parts: Vec<String> =
                    ranges.iter().map(|it| format!("{}-{}", it.start, it.end - 1)).collect();
                parts.join(" and ")
            }
        }
    }

    #[test]
    fn ranges_are_read_as_the_rfc_has_them() {
        for (value, answer) in [
            ("bytes=0-0", "bytes 0-0/100"),
            ("bytes=0-", "bytes 0-99/100"),
            ("bytes=99-", "bytes 99-99/100"),
            ("bytes=0-98", "bytes 0-98/100"),
            ("bytes=0-99", "bytes 0-99/100"),
            ("bytes=0-100", "bytes 0-99/100"),
            ("BYTES=007-8", "bytes 7-8/100"),
            ("bytes=-1", "bytes 99-99/100"),
            ("bytes=-100", "bytes 0-99/100"),
            ("bytes=-101", "bytes 0-99/100"),
            ("bytes=5-18446744073709551615", "bytes 5-99/100"),
            ("bytes=5-99999999999999999999", "bytes 5-99/100"),
            ("bytes=-99999999999999999999", "bytes 0-99/100"),
            ("bytes=100-", "bytes */100"),
            ("bytes=100-200", "bytes */100"),
            ("bytes=99999999999999999999-", "bytes */100"),
            ("bytes=-0", "bytes */100"),
            ("bytes=-0,100-", "bytes */100"),
            ("bytes= 0-4 \t,\t5-5 ", "0-4 and 5-5"),
            ("bytes=90-,0-4", "90-99 and 0-4"),
            ("bytes=0-0,-1", "0-0 and 99-99"),
            ("bytes=,0-4,,", "bytes 0-4/100"),
            // What cannot be satisfied is left out where something else can.
            ("bytes=0-4,200-", "bytes 0-4/100"),
            ("bytes=200-,0-4,-0,9-9", "0-4 and 9-9"),
            // Overlapping ones are answered with the whole.
            ("bytes=0-4,4-5", "whole"),
            ("bytes=0-,-1", "whole"),
            ("bytes=5-9,0-99", "whole"),
            ("bytes=0-0,0-0", "whole"),
        ] {
            assert_eq!(shown(value, 100), answer, "{value}");
        }
    }

    #[test]
    fn what_is_malformed_is_no_range_header() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=5",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=0x0-1",
            "bytes=0-1-2",
            "bytes=--1",
            "bytes=+0-1",
            "bytes=0 -1",
            "bytes=0- 1",
            "bytes = 0-1",
            "bytes:0-1",
            "bytes=0-1;2-3",
            "items=0-1",
            "byte=0-1",
            "bytes=0-1,x",
            "bytes=0-1,5-2",
            "bytes=\"0-1\"",
        ] {
            assert_eq!(parse(value.as_bytes(), 100), Ranges::Whole, "{value}");
        }
    }

    #[test]
    fn nothing_of_nothing_is_not_satisfiable_and_its_end_is_the_whole() {
        for (value, answer) in [
            ("bytes=0-", "bytes */0"),
            ("bytes=0-0", "bytes */0"),
            ("bytes=-1", "whole"),
            ("bytes=-0", "bytes */0"),
        ] {
            assert_eq!(shown(value, 0), answer, "{value}");
        }
        assert_eq!(shown("bytes=-1", 1), "bytes 0-0/1");
        assert_eq!(
            shown("bytes=18446744073709551614-", u64::MAX),
            format!("bytes {0}-{0}/{1}", u64::MAX - 1, u64::MAX)
        );
    }

    #[test]
    fn ten_ranges_are_served_and_eleven_are_the_whole() {
        for (count, served) in [(MOST_RANGES - 1, true), (MOST_RANGES, true), (MOST_RANGES + 1, false)] {
            let members: Vec<String> = (0..count).map(|it| format!("{0}-{0}", 2 * it)).collect();
            let parsed = parse(format!("bytes={}", members.join(",")).as_bytes(), 100);
            assert_eq!(
                matches!(&parsed, Ranges::Many(ranges) if ranges.len() == count),
                served,
                "{parsed:?}"
            );
            assert_eq!(parsed == Ranges::Whole, !served);
        }
        // Ranges that cannot be satisfied are counted: they are no way round.
        let beyond = "100-,".repeat(MOST_RANGES);
        assert_eq!(shown(&format!("bytes={beyond}0-1"), 100), "whole");
        assert_eq!(shown(&format!("bytes={}", "0-0,".repeat(1000)), 100), "whole");
    }

    #[test]
    fn several_parts_are_as_long_as_is_said_and_read_as_multipart() {
        let boundary = Boundary::from_random(0x0123_4567_89ab_cdef);
        assert_eq!(boundary.as_str(), "00000000000000000123456789abcdef");
        let content = b"0123456789";
        let ranges = [0..3, 9..10];
        let reply = Multipart {
            boundary: &boundary,
            content_type: "text/plain; charset=utf-8",
            size: 10,
            ranges: &ranges,
        };
        let mut sent = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            sent.extend(reply.part_head(index).bytes());
            sent.extend(&content[range.start as usize..range.end as usize]);
        }
        sent.extend(reply.end().bytes());
        let expected = "--B\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 0-2/10\r\n\r\n012\r\n\
            --B\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 9-9/10\r\n\r\n9\r\n--B--\r\n";
        assert_eq!(String::from_utf8_lossy(&sent), expected.replace('B', boundary.as_str()));
        assert_eq!(reply.length(), sent.len() as u64);
        assert_eq!(reply.reply_type(), "multipart/byteranges; boundary=00000000000000000123456789abcdef");
    }
}
