//! Heads whose lines were judged before, and heads that turn out to be of another reply.
//!
//! Knows: lines. Does not know: what they are about. Runs for each reply with a file.

use super::field::{NameMark, NameMarks};
use super::{ResponseHead, VERSION, wants_status};

impl ResponseHead {
    /// Begins anew with `200 OK` and lines that are ready, each with its line end.
    pub fn prepared(&mut self, lines: &[u8]) {
        self.clear();
        // Those of files have validators.
        (self.code, self.wants_status) = (200, true);
        self.bytes.reserve(VERSION.len() + lines.len() + 160);
        self.bytes.extend_from_slice(VERSION);
        self.bytes.extend_from_slice(b"200 OK\r\n");
        self.bytes.extend_from_slice(lines);
        self.names = NameMarks::ALL;
    }

    /// Replaces the status line: `206`, and `206 Partial Content`.
    pub fn restate(&mut self, code: u16, status: &[u8]) {
        self.code = code;
        let end = self.bytes.iter().position(|&byte| byte == b'\r').unwrap_or(self.bytes.len());
        let from = VERSION.len().min(end);
        self.bytes.splice(from..end, status.iter().copied());
    }

    /// What Content-Length says, whatever was said before; none: there is no such line.
    pub fn announce(&mut self, length: Option<u64>) {
        self.length = length;
    }

    /// One line, whose name and value were judged before.
    #[inline]
    pub fn line(&mut self, name: &[u8], value: &[u8]) {
        self.wants_status |= wants_status(name);
        self.names.add(NameMark::of(name));
        self.bytes.reserve(name.len() + value.len() + 4);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Takes the first line of a name out, and gives its value.
    pub fn take_line(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let mut from = self.bytes.iter().position(|&byte| byte == b'\n')? + 1;
        while from < self.bytes.len() {
            let length = self.bytes[from..].iter().position(|&byte| byte == b'\n')? + 1;
            let line = &self.bytes[from..from + length];
            if line.len() > name.len()
                && line[..name.len()].eq_ignore_ascii_case(name)
                && line[name.len()] == b':'
            {
                let value = line[name.len() + 1..].trim_ascii().to_vec();
                self.bytes.drain(from..from + length);
                return Some(value);
            }
            from += length;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_turns_into_that_of_another_reply() {
        let mut head = ResponseHead::new();
        head.prepared(b"Content-Type: text/css\r\nETag: \"a\"\r\n");
        head.restate(206, b"206 Partial Content");
        assert_eq!(head.take_line(b"content-type").as_deref(), Some(&b"text/css"[..]));
        assert_eq!(head.take_line(b"content-type"), None);
        head.line(b"Content-Range", b"bytes 0-4/5");
        assert_eq!(
            (head.code(), head.bytes()),
            (206, &b"HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes 0-4/5\r\n"[..])
        );
        head.restate(304, b"304 Not Modified");
        assert!(head.bytes().starts_with(b"HTTP/1.1 304 Not Modified\r\nETag"));
    }
}
