//! A request's head: what was sent, where its parts are, and what it means for framing.
//!
//! Knows: one head. Does not know: the connection it came on. Immutable once made, and shared
//! between all requests that send the same bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::block::{Attachment, Block, Facts};
use crate::fault::{self, Fault};
use crate::found_out::FoundOut;
use crate::limits::Limits;
use crate::policy::Policy;
use crate::request_line::{self, RequestLine, Version};

/// How the body is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// What follows from a line's version and a block: how the body is delimited, and what comes around it.
struct Framed {
    framing: Framing,
    persistent: bool,
    expects_continue: bool,
}

impl Default for Framed {
    fn default() -> Self {
        Self { framing: Framing::None, persistent: false, expects_continue: false }
    }
}

impl Framed {
    #[inline]
    fn judge(facts: &Facts, version: Version, (limits, policy): (&Limits, &Policy)) -> Result<Self, Fault> {
        // What is newer means the same by a Host, a length, an expectation (RFC 9110).
        let is_11 = version != Version::Http10;
        // RFC 9112 §3.2: every HTTP/1.1 request has exactly one Host, also with a whole URL.
        if facts.hosts == 0 && is_11 {
            return Err(fault::NO_HOST);
        }
        if facts.host_empty && !policy.empty_host {
            return Err(fault::BAD_HOST);
        }
        let framing = match (facts.chunked, facts.length) {
            // RFC 9112 §6.1: HTTP/1.0 has no chunked, so that its framing is in doubt.
            (true, _) if !is_11 => return Err(fault::CHUNKED_IN_10),
            (true, _) => Framing::Chunked,
            (false, Some(length)) if length > limits.body_bytes => return Err(fault::BODY_TOO_LARGE),
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::None,
        };
        if facts.expect_unknown && is_11 && !policy.unknown_expect {
            return Err(fault::UNKNOWN_EXPECT);
        }
        let persistent = match version {
            Version::Http11 => !facts.close,
            Version::Http2 => true,
            Version::Http10 => facts.keep_alive == Some(true) && !policy.refuses.http10_keep_alive,
        };
        let has_body = !matches!(framing, Framing::None | Framing::Length(0));
        let expects_continue = facts.expect_continue && is_11 && has_body;
        Ok(Self { framing, persistent, expects_continue })
    }
}

/// A whole head.
pub struct Head {
    /// The request line with its line ending.
    pub(crate) line: Box<[u8]>,
    pub(crate) parts: RequestLine,
    pub version: Version,
    pub block: Arc<Block>,
    pub framing: Framing,
    /// The peer wants to go on after this request.
    pub persistent: bool,
    /// The peer waits for `100 Continue` (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    pub attachment: Attachment,
    /// What a layer above counts requests with these bytes under; zero until it is known.
    pub label: AtomicU64,
    /// By which number it knows these bytes again; zero: it has given none.
    pub number: AtomicU64,
    repeated: AtomicBool,
    /// What whoever keeps heads has found out about this one; zero: nothing yet.
    found_out: FoundOut,
}

impl Head {
    /// Joins a request line and a block.
    ///
    /// # Errors
    /// The refusals that need both: Host, and framing by version. With it comes the block, for whoever tells of it.
    pub fn join(
        line: &[u8],
        parts: RequestLine,
        block: Arc<Block>,
        rules: (&Limits, &Policy),
    ) -> Result<Self, (Fault, Arc<Block>)> {
        match Framed::judge(&block.facts, parts.version, rules) {
            Ok(framed) => Ok(Self::made(line, parts, block, framed)),
            Err(fault) => Err((fault, block)),
        }
    }

    /// A request that is refused, as far as it can be told of: its line, and the fields that were understood. None where
    /// what has come is no line. `version`: what is spoken, where it is not the line that says it.
    #[cold]
    pub(crate) fn refused(
        line: &[u8],
        version: Option<Version>,
        block: Arc<Block>,
        policy: &Policy,
    ) -> Option<Self> {
        let parts = request_line::told(without_ending(line), version, policy)?;
        Some(Self::made(line, parts, block, Framed::default()))
    }

    fn made(line: &[u8], parts: RequestLine, block: Arc<Block>, framed: Framed) -> Self {
        Self {
            line: line.into(),
            version: parts.version,
            parts,
            framing: framed.framing,
            persistent: framed.persistent,
            expects_continue: framed.expects_continue,
            attachment: OnceLock::new(),
            label: AtomicU64::new(0),
            number: AtomicU64::new(0),
            repeated: AtomicBool::new(false),
            found_out: FoundOut::default(),
            block,
        }
    }

    /// The same request without its fields: what is left of it where no more than its line is of interest, and nothing
    /// else of it is to be held.
    pub fn without_fields(&self) -> Self {
        Self {
            line: self.line.clone(),
            parts: self.parts.clone(),
            block: Arc::new(Block::without_fields(self.block.variant)),
            attachment: OnceLock::new(),
            label: AtomicU64::new(self.label.load(Ordering::Relaxed)),
            number: AtomicU64::new(0),
            repeated: AtomicBool::new(false),
            found_out: FoundOut::default(),
            ..*self
        }
    }

    fn part(&self, (from, to): (usize, usize)) -> &[u8] {
        &self.line[from..to]
    }

    pub fn method(&self) -> &[u8] {
        &self.line[..self.parts.method]
    }

    /// The target as sent.
    pub fn target(&self) -> &[u8] {
        self.part(self.parts.target)
    }

    /// The path, still encoded; `/` for a URL without one; `*` for `OPTIONS *`.
    pub fn path(&self) -> &[u8] {
        match self.part(self.parts.path) {
            b"" => b"/",
            path => path,
        }
    }

    pub fn query(&self) -> &[u8] {
        self.part(self.parts.query)
    }

    /// The authority of a whole URL, which overrides Host (RFC 9112 §3.2.2).
    pub fn authority(&self) -> Option<&[u8]> {
        self.parts.authority.map(|part| self.part(part))
    }

    /// The host that is meant.
    pub fn host(&self) -> Option<&[u8]> {
        self.authority().or_else(|| self.block.get("host"))
    }

    /// Method and target up to the end of its path: `GET /path`, without the query.
    #[inline]
    pub fn method_and_path(&self) -> &[u8] {
        let end = self.parts.path.1.max(self.parts.method);
        self.line.get(..end).unwrap_or_default()
    }

    pub fn is_head(&self) -> bool {
        self.method() == b"HEAD"
    }

    /// The request line with its line ending, which begins with [`Self::method_and_path`].
    #[inline]
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Without its line ending.
    pub fn request_line(&self) -> &[u8] {
        without_ending(&self.line)
    }

    pub fn raw_len(&self) -> usize {
        self.line.len() + self.block.raw.len()
    }

    /// What was found out about it the first time, by whoever asks: a number that is not zero and follows from the head.
    #[inline]
    pub fn once(&self, find_out: impl FnOnce(&Self) -> u64) -> u64 {
        self.found_out.once(|| find_out(self))
    }

    /// True from the second request with these bytes on: worth a template of its own.
    #[inline]
    pub fn seen_before(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn repeat(&self) {
        if !self.repeated.load(Ordering::Relaxed) {
            self.repeated.store(true, Ordering::Relaxed);
        }
    }
}

/// A line without its line ending.
fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
