//! Where a head ends, line by line as its bytes arrive (RFC 9112 §2.2), and the limits of its size.
//!
//! Knows: line endings and lengths. Does not know: what header lines mean (`fields.rs` does).

use crate::bytes::is_tchar;
use crate::fault::{self, Fault};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::request_line;
use crate::sniff::is_scgi;

/// How far the lines of a head have been looked at.
#[derive(Default)]
pub struct Scan {
    /// Behind the last line that was looked at, or all that has arrived.
    pub at: usize,
    line_start: usize,
    /// Where the request line begins, behind empty lines.
    pub start: usize,
    empty_lines: u8,
    /// Where the header section begins; none before the request line is complete.
    pub block: Option<usize>,
    lines: u64,
}

impl Scan {
    /// The request line with its ending, once it has come.
    pub fn line<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.block.and_then(|end| bytes.get(self.start..end))
    }

    /// Looks at lines from where it stopped. The end of the head, behind its empty line.
    pub fn look(
        &mut self,
        bytes: &[u8],
        (limits, policy): (&Limits, &Policy),
    ) -> Result<Option<usize>, Fault> {
        while let Some(found) = memchr::memchr(b'\n', &bytes[self.at..]) {
            let lf = self.at + found;
            let start = std::mem::replace(&mut self.line_start, lf + 1);
            self.at = lf + 1;
            let line = &bytes[start..lf];
            match self.block {
                None => self.before_block(line, start, limits, policy)?,
                Some(block) => {
                    if self.in_block(line, lf + 1 - block, limits, policy)? {
                        return Ok(Some(lf + 1));
                    }
                }
            }
        }
        self.at = bytes.len();
        self.unfinished(bytes, limits).map(|()| None)
    }

    /// An empty line or the request line. The order of what is asked is the order in which
    /// bytes show it, so that it does not matter how they are cut: the first byte, the
    /// length, the ending.
    fn before_block(
        &mut self,
        line: &[u8],
        start: usize,
        limits: &Limits,
        policy: &Policy,
    ) -> Result<(), Fault> {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(&byte) = text.first()
            && !is_tchar(byte)
        {
            return Err(not_http(byte));
        }
        if is_scgi(text) {
            return Err(fault::NOT_HTTP);
        }
        if text.len() as u64 > limits.request_line_bytes {
            return Err(fault::REQUEST_LINE_TOO_LONG);
        }
        // Before it is judged: whoever tells of a refusal tells of this line.
        if !text.is_empty() {
            (self.start, self.block) = (start, Some(self.at));
        }
        // RFC 9112 §2.2 allows to accept a bare LF; what is in front of us may not.
        if text.len() == line.len() && !policy.bare_lf {
            return Err(fault::BARE_LF);
        }
        if text.is_empty() {
            self.empty_lines += 1;
            return if self.empty_lines > policy.leading_lines {
                Err(fault::TOO_MANY_EMPTY_LINES)
            } else {
                Ok(())
            };
        }
        // At once, for what is no HTTP may never send an empty line.
        request_line::parse(text, policy).map(drop)
    }

    /// A header line, or the empty one that ends the section: true. `size`: bytes of the
    /// section through this line.
    fn in_block(
        &mut self,
        line: &[u8],
        size: usize,
        limits: &Limits,
        policy: &Policy,
    ) -> Result<bool, Fault> {
        let ends = matches!(line, b"" | b"\r");
        // The empty line is no part of what is measured.
        if size as u64 > limits.header_bytes.saturating_add(if ends { 2 } else { 0 }) {
            return Err(fault::HEADERS_TOO_LARGE);
        }
        if !line.ends_with(b"\r") && !policy.bare_lf {
            return Err(fault::BARE_LF);
        }
        if !ends {
            self.lines += 1;
            if self.lines > limits.header_lines {
                return Err(fault::TOO_MANY_HEADERS);
            }
        }
        Ok(ends)
    }

    /// What can be said of a line that has not ended.
    fn unfinished(&self, bytes: &[u8], limits: &Limits) -> Result<(), Fault> {
        match self.block {
            // One more for the CR that may be the last byte.
            Some(block) if (bytes.len() - block) as u64 > limits.header_bytes.saturating_add(1) => {
                Err(fault::HEADERS_TOO_LARGE)
            }
            Some(_) => Ok(()),
            None => {
                let line = &bytes[self.line_start..];
                // TLS, SSH and noise have no line ending to wait for.
                match line {
                    [b'\r'] | [] => {}
                    // Its first digits might be a method, and no line ends.
                    [b'0'..=b'9', ..] if is_scgi(line) => return Err(fault::NOT_HTTP),
                    [byte, ..] if is_tchar(*byte) => {}
                    [byte, ..] => return Err(not_http(*byte)),
                }
                if line.len() as u64 > limits.request_line_bytes.saturating_add(1) {
                    return Err(fault::REQUEST_LINE_TOO_LONG);
                }
                Ok(())
            }
        }
    }
}

/// What a line is that begins with no token: a handshake record of TLS (RFC 8446 §5.1), or something else.
fn not_http(first: u8) -> Fault {
    if first == 0x16 { fault::TLS_ON_HTTP } else { fault::NOT_HTTP }
}
