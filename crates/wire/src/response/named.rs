//! What is read of a head that an application has given: a line's value, and the file that it names in place of a body.
//!
//! Knows: how the lines of an unfinished head look. Does not know: what becomes of a file. Runs for replies with a file and
//! for no others.

use super::ResponseHead;
use crate::named_file::NamedBy;

impl ResponseHead {
    /// A header was given that names a file, X-Sendfile or X-Accel-Redirect.
    #[inline]
    pub fn names_file(&self) -> bool {
        self.file
    }

    /// Takes all headers out that name a file; what the first of them says, X-Sendfile before the other.
    pub fn take_named_file(&mut self) -> Option<(NamedBy, Vec<u8>)> {
        self.file = false;
        let mut found = None;
        for by in [NamedBy::Sendfile, NamedBy::AccelRedirect] {
            while let Some(value) = self.take_line(by.header().as_bytes()) {
                found = found.or(Some((by, value)));
            }
        }
        found
    }

    /// The first value of a header that stands in an unfinished head.
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.bytes.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
            let (before, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            before.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> ResponseHead {
        let mut head = ResponseHead::new();
        head.status(b"200 OK").expect("a status");
        for (name, value) in fields {
            head.field(name.as_bytes(), value.as_bytes()).expect("a field");
        }
        head
    }

    #[test]
    fn a_value_is_found_by_the_whole_name_in_any_case() {
        let head = head(&[("ETag", "\"1\""), ("ETags", "more"), ("A", ""), ("etag", "second")]);
        for (name, value) in [
            ("etag", Some("\"1\"")),
            ("ETAGS", Some("more")),
            ("a", Some("")),
            ("e", None),
            ("HTTP/1.1 200 OK", None),
        ] {
            assert_eq!(head.value(name.as_bytes()), value.map(str::as_bytes), "{name}");
        }
        assert_eq!(ResponseHead::new().value(b"a"), None);
    }

    #[test]
    fn the_headers_that_name_a_file_are_all_taken_out() {
        let mut given = head(&[
            ("X-Accel-Redirect", "/p/a"),
            ("X-Own", "1"),
            ("x-sendfile", "/srv/a"),
            ("X-Sendfile", "/srv/b"),
            ("X-Sendfiles", "more"),
        ]);
        assert!(given.names_file());
        assert_eq!(given.take_named_file(), Some((NamedBy::Sendfile, b"/srv/a".to_vec())));
        assert_eq!(given.bytes(), b"HTTP/1.1 200 OK\r\nX-Own: 1\r\nX-Sendfiles: more\r\n");
        assert!(!given.names_file());
        let mut other = head(&[("x-accel-redirect", "/p/a")]);
        assert_eq!(other.take_named_file(), Some((NamedBy::AccelRedirect, b"/p/a".to_vec())));
    }

    #[test]
    fn a_head_that_names_no_file_says_so() {
        let mut head = head(&[
            ("X-Sendfil", "a"),
            ("X-Sendfiles", "a"),
            ("X-Accel-Redirecd", "a"),
            ("X-Accel-Expires", "a"),
            ("Connection", "close"),
        ]);
        assert!(!head.names_file());
        head.field(b"x-accel-redirect", b"/a").expect("a field");
        assert!(head.names_file());
        head.clear();
        assert!(!head.names_file());
    }
}
