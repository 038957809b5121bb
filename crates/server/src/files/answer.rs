//! Replies with a file: whole, in part, in several parts, or only that the client has it.
//!
//! Knows: what a request and a file come to, and how that is sent. Does not know: where the file is from, nor who has written
//! the other lines of the head. On whichever thread owns the exchange.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use reactor::sys::wall_seconds;
use wire::conditional::{self, Outcome};
use wire::etag::Validators;
use wire::ranges::{self, Boundary, Multipart, Ranges};
use wire::{Head, media};

use super::content::{Content, StoredPart};
use crate::engine::Engine;
use crate::exchange::{Exchange, Gone};
use crate::reply_builder::ReplyBuilder;

/// Up to this size bytes are copied behind their head, so that both leave in one piece.
const COPY_BYTES: usize = 8 * 1024;

/// What a request for a file comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Whole,
    /// 206
    Part(Range<u64>),
    /// 206, `multipart/byteranges`
    Parts(Vec<Range<u64>>),
    /// 304
    NotModified,
    /// 412
    Failed,
    /// 416
    Unsatisfiable,
}

impl Decision {
    /// The file's content follows, or part of it.
    pub fn has_content(&self) -> bool {
        matches!(self, Self::Whole | Self::Part(_) | Self::Parts(_))
    }
}

/// What a request for a file comes to that is so large and has these validators.
pub fn decide(head: &Head, current: &Validators<'_>, size: u64) -> Decision {
    if !conditional::asked(&head.block) {
        return Decision::Whole;
    }
    let now = wall_seconds();
    match conditional::evaluate(head, current, now) {
        Outcome::NotModified => return Decision::NotModified,
        Outcome::PreconditionFailed => return Decision::Failed,
        Outcome::Send => {}
    }
    let Some(value) = ranges::requested(head) else { return Decision::Whole };
    if !conditional::if_range_holds(head, current, now) {
        return Decision::Whole;
    }
    match ranges::parse(value, size) {
        Ranges::Whole => Decision::Whole,
        Ranges::One(range) => Decision::Part(range),
        Ranges::Many(parts) => Decision::Parts(parts),
        Ranges::Unsatisfiable => Decision::Unsatisfiable,
    }
}

/// Completes a reply with a file, or without it. The head stands in the builder: status 200, or 206 to 416 as a decision says
/// where it has none, every line but the length and the range.
///
/// # Errors
/// [`Gone`] when the peer is.
pub fn answer(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    content: &Content,
    decision: Decision,
    engine: &Engine,
) -> Result<(), Gone> {
    let size = content.size();
    let head = &mut builder.head;
    match decision {
        Decision::Whole => {
            head.announce(Some(size));
            send(exchange, builder, content, 0..size, engine)
        }
        Decision::Part(range) => {
            head.restate(206, b"206 Partial Content");
            head.line(b"Content-Range", ranges::content_range(&range, size).as_bytes());
            head.announce(Some(range.end - range.start));
            send(exchange, builder, content, range, engine)
        }
        Decision::Parts(parts) => send_parts(exchange, builder, content, &parts, engine),
        Decision::NotModified => {
            head.restate(304, b"304 Not Modified");
            head.announce(None);
            exchange.whole(builder, b"", engine)
        }
        Decision::Failed => {
            head.restate(412, b"412 Precondition Failed");
            end_short(exchange, builder, b"412 Precondition Failed\n", engine)
        }
        Decision::Unsatisfiable => {
            head.restate(416, b"416 Range Not Satisfiable");
            head.line(b"Content-Range", ranges::unsatisfied_range(size).as_bytes());
            end_short(exchange, builder, b"416 Range Not Satisfiable\n", engine)
        }
    }
}

/// A short reply in the place of a file, from a status line such as `404 Not Found`, with more lines.
pub fn short(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    status: &[u8],
    lines: &[(&[u8], &[u8])],
    engine: &Engine,
) {
    builder.head.prepared(b"");
    builder.head.restate(code(status), status);
    for (name, value) in lines {
        builder.head.line(name, value);
    }
    let text = [status, b"\n"].concat();
    // A peer that is gone shows when the connection is back.
    let _ = end_short(exchange, builder, &text, engine);
}

fn code(status: &[u8]) -> u16 {
    status.iter().take(3).fold(0, |code, digit| code * 10 + u16::from(digit.wrapping_sub(b'0')))
}

/// Ends a reply with a line of text in the place of the file.
fn end_short(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    text: &[u8],
    engine: &Engine,
) -> Result<(), Gone> {
    let head = &mut builder.head;
    head.take_line(b"Content-Type");
    head.take_line(b"Content-Encoding");
    head.line(b"Content-Type", b"text/plain; charset=utf-8");
    head.announce(Some(text.len() as u64));
    exchange.whole(builder, text, engine)
}

/// Sends part of the content as the whole body, of which the head knows.
fn send(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    content: &Content,
    range: Range<u64>,
    engine: &Engine,
) -> Result<(), Gone> {
    match content {
        Content::Memory(stored) => {
            let all = stored.bytes();
            let (from, to) = (at(range.start, all), at(range.end, all));
            if to - from <= COPY_BYTES {
                return exchange.whole(builder, &all[from..to], engine);
            }
            exchange.start(builder, None, engine);
            exchange.write_shared(builder, Box::new(StoredPart(Arc::clone(stored), from..to)), engine)?;
        }
        Content::File(open, _) => {
            exchange.start(builder, None, engine);
            let length = range.end - range.start;
            exchange.shared_file(builder, Arc::clone(open), (range.start, length), engine)?;
        }
    }
    exchange.finish(builder, engine)
}

fn at(offset: u64, bytes: &[u8]) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len())
}

/// Several parts in one body (RFC 9110 §14.6).
fn send_parts(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    content: &Content,
    parts: &[Range<u64>],
    engine: &Engine,
) -> Result<(), Gone> {
    let size = content.size();
    let content_type = builder.head.take_line(b"Content-Type");
    let content_type = content_type.and_then(|value| String::from_utf8(value).ok());
    let content_type = content_type.as_deref().unwrap_or(media::UNKNOWN);
    let boundary = Boundary::from_random(random());
    let body = Multipart { boundary: &boundary, content_type, size, ranges: parts };
    builder.head.restate(206, b"206 Partial Content");
    builder.head.line(b"Content-Type", body.reply_type().as_bytes());
    builder.head.announce(Some(body.length()));
    if let Content::Memory(stored) = content {
        // Parts that overlap are not sent: together they are no larger than the file.
        let mut text = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            text.extend_from_slice(body.part_head(index).as_bytes());
            text.extend_from_slice(
                &stored.bytes()[at(part.start, stored.bytes())..at(part.end, stored.bytes())],
            );
        }
        text.extend_from_slice(body.end().as_bytes());
        return exchange.whole(builder, &text, engine);
    }
    exchange.start(builder, None, engine);
    for (index, part) in parts.iter().enumerate() {
        exchange.write(builder, body.part_head(index).as_bytes(), engine)?;
        if let Content::File(open, _) = content {
            let range = (part.start, part.end - part.start);
            exchange.shared_file(builder, Arc::clone(open), range, engine)?;
        }
    }
    exchange.write(builder, body.end().as_bytes(), engine)?;
    exchange.finish(builder, engine)
}

/// What no client can know before, and no file has in it.
fn random() -> u128 {
    let keys = RandomState::new();
    u128::from(keys.hash_one(0)) << 64 | u128::from(keys.hash_one(1))
}
