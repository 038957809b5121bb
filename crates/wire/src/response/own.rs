//! Headers of the server's own, and whether an application has said the same.
//!
//! Knows: lines, and by marks which names they cannot have. Does not know: what they are about. Runs for each reply where
//! requests have names.

use super::ResponseHead;
use super::field::NameMark;

impl ResponseHead {
    /// A header of that name was written, in whatever case. `mark`: the name's, so that most heads are not looked through.
    #[inline]
    pub fn has(&self, name: &[u8], mark: NameMark) -> bool {
        self.names.may_have(mark) && self.has_line(name)
    }

    fn has_line(&self, name: &[u8]) -> bool {
        let mut rest = &self.bytes[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            rest = &rest[end + 1..];
            let found = rest.split_at_checked(name.len()).filter(|(_, behind)| behind.first() == Some(&b':'));
            if found.is_some_and(|(found, _)| found.eq_ignore_ascii_case(name)) {
                return true;
            }
        }
        false
    }

    /// A header of the server's own, whose name and value were judged before.
    pub fn own(&mut self, name: &[u8], value: &[u8]) {
        self.line(name, value);
    }

    /// The same in two pieces: `before` is its name, colon and blank, and what its value begins with; `end` the rest, with
    /// the line's end.
    #[inline]
    pub fn own_line<const N: usize>(&mut self, before: &[u8], end: &[u8; N]) {
        self.bytes.reserve(before.len() + N);
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::FieldName;
    use super::*;

    #[test]
    fn a_header_is_found_by_its_whole_name_in_any_case_however_it_was_written() {
        let has = |head: &ResponseHead, name: &[u8]| head.has(name, NameMark::of(name));
        let mut head = ResponseHead::new();
        head.status(b"200 OK").expect("a status");
        head.field(b"Content-Type", b"x-request-id: 1").expect("a field");
        for name in [&b"x-request-id"[..], b"content-typ", b"content-types", b"200 ok", b""] {
            assert!(!has(&head, name), "{}", String::from_utf8_lossy(name));
        }
        assert!(has(&head, b"content-type") && has(&head, b"CONTENT-Type"));
        head.named(&FieldName::new(b"X-Request-Id").expect("a name"), b"1").expect("a field");
        head.own_line(b"X-Own: a", b"bc\r\n");
        assert!(has(&head, b"x-request-id"));
        assert!(head.bytes().ends_with(b"X-Request-Id: 1\r\nX-Own: abc\r\n"));
        head.clear();
        head.status(b"200 OK").expect("a status");
        assert!(!has(&head, b"x-request-id"), "of the reply before");
        head.prepared(b"X-Request-ID: 2\r\n");
        assert!(has(&head, b"x-request-id"), "lines that nobody has looked at");
    }
}
