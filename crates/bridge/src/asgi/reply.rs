//! `send`: a response, event by event, in the order that the specification allows.
//!
//! Knows: ASGI, "Response Start" and "Response Body", and the extensions. Does not know: how
//! bytes travel. Runs on the event loop's thread.
//!
//! ```text
//!   START ──http.response.start──► BODY ──body, pathsend, zerocopysend──► OVER
//!                                    └─(trailers: True)─► TRAILERS ──────────┘
//! ```

use std::fs::File;
use std::os::fd::RawFd;
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use reactor::file::{facts, open_at_once};
use reactor::sys::duplicate_file;
use server::engine::Engine;
use server::exchange::{Exchange, Gone};
use server::named_files;
use server::reply_builder::ReplyBuilder;
use wire::field_text::has_member;
use wire::{HeadError, ResponseHead};

use super::events::{Content, content, flag, headers, number, text, wrong};
use crate::ffi::{KEEP_BYTES, KeptBytes};

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Start,
    /// The head stands in the builder; `begun`: some of the body was given.
    Body {
        begun: bool,
    },
    Trailers,
    Over,
}

/// One request's conversation.
pub struct Http {
    pub exchange: Box<Exchange>,
    pub builder: ReplyBuilder,
    pub stage: Stage,
    pub body_is_over: bool,
    /// The peer has ended its side, or is gone.
    pub peer_left: bool,
    /// The application has said that trailers will follow its body.
    promised: bool,
    trailers: ResponseHead,
}

/// Why an event was not taken.
pub enum Refused {
    /// The application's mistake, or Python's exception.
    Wrong(PyErr),
    /// The client has left.
    Gone,
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Wrong(error)
    }
}

impl From<Gone> for Refused {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

type Taken = Result<(), Refused>;

impl Http {
    pub fn new(exchange: Box<Exchange>, builder: ReplyBuilder) -> Self {
        Self {
            exchange,
            builder,
            stage: Stage::Start,
            body_is_over: false,
            peer_left: false,
            promised: false,
            trailers: ResponseHead::new(),
        }
    }

    /// Takes an event. The exchange is over when `stage` is.
    pub fn take(&mut self, event: &Bound<'_, PyDict>, kind: &str, engine: &Engine) -> Taken {
        if self.exchange.is_over() {
            // Refused or cut by us, while the application was at work.
            return Err(Refused::Gone);
        }
        match (self.stage, kind) {
            (Stage::Start, "http.response.start") => self.start(event),
            (Stage::Body { begun }, "http.response.body") => self.body(event, begun, engine),
            (Stage::Body { begun }, "http.response.zerocopysend") => self.zero_copy(event, begun, engine),
            (Stage::Body { begun: false }, "http.response.pathsend") => self.path(event, engine),
            (Stage::Start | Stage::Body { begun: false }, "http.response.early_hint") => {
                self.hint(event, engine)
            }
            // Too late to be of use, and allowed.
            (Stage::Body { begun: true }, "http.response.early_hint") => Ok(()),
            (Stage::Trailers, "http.response.trailers") => self.take_trailers(event, engine),
            (stage, kind) => Err(out_of_order(stage, kind).into()),
        }
    }

    fn start(&mut self, event: &Bound<'_, PyDict>) -> Taken {
        let py = event.py();
        let promised = flag(event, intern!(py, "trailers"))?;
        let status = number(event, intern!(py, "status"))?
            .ok_or_else(|| PyValueError::new_err("'http.response.start' needs a 'status'"))?;
        let head = &mut self.builder.head;
        head.clear();
        let judged =
            u16::try_from(status).map_err(|_| HeadError::Status).and_then(|code| head.status_code(code));
        judged.map_err(|error| PyValueError::new_err(format!("status {status}: {error}")))?;
        headers(event, |name, value| {
            let added = if promised && name.eq_ignore_ascii_case(b"trailer") {
                head.plain(name, value)
            } else {
                head.field(name, value)
            };
            added.map_err(|error| header_refused(name, value, error))
        })?;
        self.promised = promised;
        self.stage = Stage::Body { begun: false };
        Ok(())
    }

    fn body(&mut self, event: &Bound<'_, PyDict>, begun: bool, engine: &Engine) -> Taken {
        let py = event.py();
        let more = flag(event, intern!(py, "more_body"))?;
        let body = content(event, intern!(py, "body"))?;
        if !begun && !more && !self.promised {
            return self.whole(&body, engine);
        }
        if !begun {
            self.exchange.start(&mut self.builder, None, engine);
        }
        if body.bytes().is_empty() {
            // The specification's sign that the head may go.
            self.exchange.send_head(&mut self.builder, engine)?;
        } else {
            match &body {
                Content::Bytes(bytes) if bytes.as_bytes().len() >= KEEP_BYTES => {
                    let kept = KeptBytes::boxed(bytes);
                    self.exchange.write_kept(&mut self.builder, kept, engine)?;
                }
                body => self.exchange.write(&mut self.builder, body.bytes(), engine)?,
            }
        }
        self.part_is_sent(more, engine)
    }

    fn whole(&mut self, body: &Content<'_>, engine: &Engine) -> Taken {
        self.stage = Stage::Over;
        match body {
            Content::Bytes(bytes) if bytes.as_bytes().len() >= KEEP_BYTES => {
                let kept = KeptBytes::boxed(bytes);
                Ok(self.exchange.whole_kept(&mut self.builder, kept, engine)?)
            }
            body => Ok(self.exchange.whole(&mut self.builder, body.bytes(), engine)?),
        }
    }

    fn part_is_sent(&mut self, more: bool, engine: &Engine) -> Taken {
        if more {
            self.stage = Stage::Body { begun: true };
        } else if self.promised {
            self.stage = Stage::Trailers;
        } else {
            self.stage = Stage::Over;
            self.exchange.finish(&mut self.builder, engine)?;
        }
        Ok(())
    }

    fn zero_copy(&mut self, event: &Bound<'_, PyDict>, begun: bool, engine: &Engine) -> Taken {
        let py = event.py();
        let more = flag(event, intern!(py, "more_body"))?;
        let given = event
            .get_item("file")?
            .ok_or_else(|| PyValueError::new_err("'http.response.zerocopysend' needs a 'file'"))?;
        let fd: RawFd = match given.extract() {
            Ok(fd) => fd,
            Err(_) => given
                .call_method0(intern!(py, "fileno"))
                .and_then(|fd| fd.extract())
                .map_err(|_| wrong("file", "a file with a descriptor", &given))?,
        };
        // A copy, for the application may close its own before the last byte is out.
        let file = duplicate_file(fd).map_err(PyOSError::new_err)?;
        let size = file.metadata().map_err(PyOSError::new_err)?.len();
        let offset = match number(event, intern!(py, "offset"))? {
            Some(offset) => {
                u64::try_from(offset).map_err(|_| PyValueError::new_err("'offset' is below zero"))?
            }
            None => position(&file),
        };
        let rest = size.saturating_sub(offset);
        let count = match number(event, intern!(py, "count"))? {
            Some(count) => {
                u64::try_from(count).map_err(|_| PyValueError::new_err("'count' is below zero"))?.min(rest)
            }
            None => rest,
        };
        self.file(file, (offset, count), (begun, more), engine)
    }

    fn path(&mut self, event: &Bound<'_, PyDict>, engine: &Engine) -> Taken {
        let path = text(event, "path")?
            .ok_or_else(|| PyValueError::new_err("'http.response.pathsend' needs a 'path'"))?;
        let file = open_at_once(Path::new(&path))
            .map_err(|error| PyErr::from(std::io::Error::new(error.kind(), format!("{path}: {error}"))))?;
        let metadata = file.metadata().map_err(PyOSError::new_err)?;
        if !metadata.is_file() {
            return Err(PyValueError::new_err(format!(
                "'http.response.pathsend': {path} is no ordinary file"
            ))
            .into());
        }
        if self.promised || self.builder.head.code() != 200 {
            return self.file(file, (0, metadata.len()), (false, false), engine);
        }
        let facts = facts(&file).map_err(PyOSError::new_err)?;
        self.stage = Stage::Over;
        Ok(named_files::send(&mut self.exchange, &mut self.builder, (file, facts), path.as_bytes(), engine)?)
    }

    fn file(&mut self, file: File, range: (u64, u64), flags: (bool, bool), engine: &Engine) -> Taken {
        let (begun, more) = flags;
        if !begun {
            let known = (!more && !self.promised).then_some(range.1);
            self.exchange.start(&mut self.builder, known, engine);
        }
        self.exchange.file_part(&mut self.builder, file, range, engine)?;
        self.part_is_sent(more, engine)
    }

    /// RFC 8297: what the client may fetch while the response is made.
    fn hint(&mut self, event: &Bound<'_, PyDict>, engine: &Engine) -> Taken {
        let mut lines = ResponseHead::new();
        if let Some(links) = event.get_item("links")? {
            for link in links.try_iter().map_err(|_| wrong("links", "an iterable of bytes", &links))? {
                let link = link?;
                let bytes =
                    link.cast::<PyBytes>().map_err(|_| wrong("links", "an iterable of bytes", &link))?;
                lines
                    .plain(b"Link", bytes.as_bytes())
                    .map_err(|error| header_refused(b"link", bytes.as_bytes(), error))?;
            }
        }
        if !lines.bytes().is_empty() {
            let reply = [b"HTTP/1.1 103 Early Hints\r\n", lines.bytes(), b"\r\n"].concat();
            self.exchange.interim(&reply, engine)?;
        }
        Ok(())
    }

    /// Trailers go out where the client asked for them (RFC 9110 §6.5.1: `TE: trailers`).
    fn take_trailers(&mut self, event: &Bound<'_, PyDict>, engine: &Engine) -> Taken {
        let more = flag(event, intern!(event.py(), "more_trailers"))?;
        let trailers = &mut self.trailers;
        headers(event, |name, value| {
            trailers.trailer(name, value).map_err(|error| header_refused(name, value, error))
        })?;
        if more {
            return Ok(());
        }
        self.stage = Stage::Over;
        let wanted = self.exchange.head.block.get("te").is_some_and(|te| has_member(te, b"trailers"));
        let lines = if wanted { self.trailers.bytes() } else { b"" };
        Ok(self.exchange.finish_with(&mut self.builder, lines, engine)?)
    }
}

/// Where a file is being read; the beginning, where it has no such place.
fn position(file: &File) -> u64 {
    use std::io::Seek;
    let mut file = file;
    file.stream_position().unwrap_or(0)
}

pub fn header_refused(name: &[u8], value: &[u8], error: HeadError) -> PyErr {
    PyValueError::new_err(format!(
        "response header '{}': '{}' refused: {error}",
        name.escape_ascii(),
        value.escape_ascii()
    ))
}

fn out_of_order(stage: Stage, kind: &str) -> PyErr {
    let wanted = match stage {
        Stage::Start => "'http.response.start' comes first",
        Stage::Body { begun: false } => "'http.response.body' comes next",
        Stage::Body { begun: true } => "the rest of the body comes next",
        Stage::Trailers => "'http.response.trailers' comes next, as 'trailers' of the start said",
        Stage::Over => "the response is complete",
    };
    PyRuntimeError::new_err(format!("the application sent '{kind}', and {wanted} (ASGI)"))
}
