//! Replies with a file in place of a body: one that the application names (`--sendfile`), or sends by its path (ASGI).
//!
//! Knows: which lines of the application's head stay, and which follow from the file. Does not know: where files are
//! (`sendfile.rs`), how conditions and ranges are read (`files`). A named file is answered with when the application is
//! done with the request, so that nobody waits for a disk who holds what others need: by a thread outside of the
//! interpreter, or, under an event loop, from what the kernel has in memory, and else by a thread of `disk.rs`.

use std::fs::File;
use std::sync::Arc;

use reactor::file::{Ask, Facts};
use reactor::sys::wall_seconds;
use wire::encodings::Encoding;
use wire::etag::{ContentHash, Stamp, Validators};
use wire::named_file::NamedBy;
use wire::{DateLine, ResponseHead, http_date, media};

use crate::engine::Engine;
use crate::exchange::{Exchange, Gone, NamedFile};
use crate::files::{Content, Decision, answer as complete, decide, short};
use crate::log::Level;
use crate::reply_builder::ReplyBuilder;
use crate::sendfile::Refused;

/// Answers with the file that was named. False: the disk would have to be waited for, which this caller may not.
#[cold]
pub fn answer(exchange: &mut Exchange, ask: Ask, engine: &Engine) -> bool {
    let (Some(named), Some(sendfile)) = (exchange.take_named(), &engine.config.sendfile) else { return true };
    let Some(opened) = sendfile.open(named.by, &named.value, ask) else {
        exchange.name_again(named);
        return false;
    };
    let mut builder = ReplyBuilder::new();
    match opened {
        Ok(found) => {
            builder.head = named.head;
            if builder.head.code() == 206 {
                // The application has counted in its own body; which part is sent is decided here.
                builder.head.restate(200, b"200 OK");
                while builder.head.take_line(b"Content-Range").is_some() {}
            }
            if builder.head.value(b"content-type").is_none() {
                // What may stand behind a question mark is no part of the name.
                let name =
                    named.value.split(|&byte| byte == b'?' && named.by == NamedBy::AccelRedirect).next();
                builder.head.line(b"Content-Type", media::type_of(name.unwrap_or_default()).as_bytes());
            }
            engine.counters.sendfile_replies.add();
            // A peer that is gone shows when the connection is back.
            let _ = send(exchange, &mut builder, found, &named.value, engine);
        }
        Err(why) => refuse(exchange, &mut builder, (&named, &why), engine),
    }
    true
}

fn refuse(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    what: (&NamedFile, &Refused),
    engine: &Engine,
) {
    let (named, why) = what;
    let status: &[u8] = if why.is_ours() { b"500 Internal Server Error" } else { b"404 Not Found" };
    engine.counters.sendfile_refused.add();
    engine.log.complain(Level::Error, || {
        format!(
            "{}: the application named '{}' in {}, and {why}: its client gets {}",
            String::from_utf8_lossy(exchange.head.request_line()),
            String::from_utf8_lossy(&named.value),
            named.by.header(),
            String::from_utf8_lossy(&status[..3]),
        )
    });
    short(exchange, builder, status, &[], engine);
}

/// Answers with a file and the head in the builder: 304, 412, 416 and parts, where a request asks for them. `path` tells the
/// file from others that the same address may stand for.
///
/// # Errors
/// [`Gone`] when the peer is.
pub fn send(
    exchange: &mut Exchange,
    builder: &mut ReplyBuilder,
    (file, facts): (File, Facts),
    path: &[u8],
    engine: &Engine,
) -> Result<(), Gone> {
    let head = &mut builder.head;
    let asked = Arc::clone(&exchange.head);
    let mut decision = Decision::Whole;
    // A condition comes too late for a method that has changed something, and there are no parts of another answer.
    if head.code() == 200 && matches!(asked.method(), b"GET" | b"HEAD") {
        let (etag, modified) = validators(head, &facts, path);
        if head.value(b"accept-ranges").is_none() {
            head.line(b"Accept-Ranges", b"bytes");
        }
        decision = decide(&asked, &Validators { etag: &etag, modified }, facts.size);
    }
    if decision == Decision::NotModified {
        // RFC 9110 §15.4.5: nothing of the content that is not sent.
        for name in [&b"Content-Type"[..], b"Content-Encoding", b"Accept-Ranges"] {
            while head.take_line(name).is_some() {}
        }
    }
    let content = Content::File(Arc::new(file.into()), facts.size);
    complete(exchange, builder, &content, decision, engine)
}

/// The validators of a reply: the application's, or the file's, which are then added. There are none of the file where its
/// time cannot be believed.
fn validators(head: &mut ResponseHead, facts: &Facts, path: &[u8]) -> (Vec<u8>, Option<u64>) {
    let now = wall_seconds();
    let stamp = Stamp::of_time(facts.modified.0);
    let etag = match (head.value(b"etag"), stamp) {
        (Some(own), _) => own.to_vec(),
        (None, None) => Vec::new(),
        (None, Some(stamp)) => {
            // One address may stand for one file for one user and for another file for the next.
            let mut hash = ContentHash::default();
            hash.update(path);
            hash.update(&facts.modified.0.to_le_bytes());
            let tag = hash.stamp().etag(facts.size, Encoding::Identity, now);
            let weak = stamp.etag(facts.size, Encoding::Identity, now).starts_with("W/");
            let tag = if weak { format!("W/{tag}") } else { tag };
            head.line(b"ETag", tag.as_bytes());
            tag.into_bytes()
        }
    };
    let modified = match head.value(b"last-modified") {
        Some(own) => http_date(own, now),
        None => {
            let modified = stamp.and_then(|stamp| stamp.last_modified(now));
            if let Some(modified) = modified {
                head.line(b"Last-Modified", DateLine::at(modified).date());
            }
            modified
        }
    };
    (etag, modified)
}
