//! The path of a request as the name of a file below a folder, or why it is none.
//!
//! Knows: percent escapes (RFC 3986 §2.1), and which names are never served. Does not know: folders, files, mounts. Pure.
//!
//! A path is decoded once. What is left is checked and never decoded, normalised or mended again: a name is served as it
//! is or not at all, so that no two readers of it can differ in what it means. That a name stays below its folder is held
//! a second time by whoever opens it (`openat2` in `reactor`); here, nothing that would leave it gets so far.

/// Why a path names no file. All of them are answered as a file that is not there: 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// It does not begin with a slash.
    NotAbsolute,
    /// `%` without two hexadecimal digits behind it.
    Escape,
    /// A NUL, a line end, or another control character (below 0x20, or 0x7f), however it was written.
    Control,
    /// `\`, however it was written: another system's slash.
    Backslash,
    /// `%2F`: a slash that is a part of a name, which no name can have.
    EncodedSlash,
    /// Two slashes next to each other.
    EmptySegment,
    /// `.` or `..`, however it was written.
    DotSegment,
    /// A name that begins with a dot (`.git`, `.env`), but for `.well-known` (RFC 8615).
    DotName,
    /// A name that ends in a dot or a blank: on other systems' volumes the same file as the name without it.
    TrailingDot,
    /// Not UTF-8, overlong forms and surrogates included (RFC 3629 §3).
    NotUtf8,
    /// A name longer than 255 bytes ([`NAME_BYTES`]), or a path longer than 4,095 ([`PATH_BYTES`]): no file has one.
    TooLong,
}

/// The longest name of a file that Linux and macOS know (`NAME_MAX`), in bytes.
pub const NAME_BYTES: usize = 255;
/// The longest path that Linux takes (`PATH_MAX` without its NUL), in bytes.
pub const PATH_BYTES: usize = 4095;

/// What a path names, by its last character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// `/a/b`: a file, or a folder that wants a redirect to the path with a slash.
    File,
    /// `/a/b/` and `/`: a folder. `out` has no slash at its end, and is empty for `/`.
    Folder,
}

/// Decodes a path, as sent and without its query, into a relative one: `/css/a%20b.css` into `css/a b.css`. `out` is
/// emptied first; after an error it holds nothing of use. What is written is UTF-8 without a NUL: a name for each segment,
/// one slash between them, none at either end.
///
/// # Errors
/// The first thing that keeps it from naming a file.
pub fn decode(path: &[u8], out: &mut Vec<u8>) -> Result<Named, PathFault> {
    out.clear();
    let [b'/', path @ ..] = path else { return Err(PathFault::NotAbsolute) };
    let (path, named) = match path {
        [] => return Ok(Named::Folder),
        [inner @ .., b'/'] => (inner, Named::Folder),
        _ => (path, Named::File),
    };
    for (index, segment) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        let start = out.len();
        unescape(segment, out)?;
        judge(&out[start..])?;
    }
    if out.len() > PATH_BYTES {
        return Err(PathFault::TooLong);
    }
    Ok(named)
}

/// One segment without its escapes.
fn unescape(segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathFault> {
    let mut rest = segment;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [_, high, low, behind @ ..] = &rest[at..] else { return Err(PathFault::Escape) };
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(PathFault::Escape) };
        let byte = high << 4 | low;
        if byte == b'/' {
            return Err(PathFault::EncodedSlash);
        }
        out.push(byte);
        rest = behind;
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Whether a decoded segment may be the name of a file that is served.
fn judge(name: &[u8]) -> Result<(), PathFault> {
    match name {
        [] => return Err(PathFault::EmptySegment),
        b"." | b".." => return Err(PathFault::DotSegment),
        b".well-known" => return Ok(()),
        [b'.', ..] => return Err(PathFault::DotName),
        [.., b'.' | b' '] => return Err(PathFault::TrailingDot),
        _ => {}
    }
    if name.len() > NAME_BYTES {
        return Err(PathFault::TooLong);
    }
    let text = std::str::from_utf8(name).map_err(|_| PathFault::NotUtf8)?;
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(PathFault::Control);
    }
    if text.contains('\\') { Err(PathFault::Backslash) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(path: impl AsRef<[u8]>) -> Result<(String, Named), PathFault> {
        let mut out = b"what was there".to_vec();
        let named = decode(path.as_ref(), &mut out)?;
        Ok((String::from_utf8(out).expect("UTF-8"), named))
    }

    #[test]
    fn a_path_is_decoded_once_and_loses_its_outer_slashes() {
        for (path, name, named) in [
            ("/", "", Named::Folder),
            ("/a", "a", Named::File),
            ("/a/", "a", Named::Folder),
            ("/css/a%20b.css", "css/a b.css", Named::File),
            ("/%E2%82%ac", "\u{20ac}", Named::File),
            ("/a+b;c=d,e&f:@!$'()*~-", "a+b;c=d,e&f:@!$'()*~-", Named::File),
            ("/a..b/c.d", "a..b/c.d", Named::File),
            // What is left of the first decoding is a name with a percent sign.
            ("/%252e%252e%252f", "%2e%2e%2f", Named::File),
            ("/%25", "%", Named::File),
            ("/.well-known/security.txt", ".well-known/security.txt", Named::File),
            ("/%2ewell-known/x", ".well-known/x", Named::File),
        ] {
            assert_eq!(decoded(path), Ok((name.to_string(), named)), "{path}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused_with_its_reason() {
        use PathFault::*;
        for (path, fault) in [
            ("", NotAbsolute),
            ("a", NotAbsolute),
            ("%2Fa", NotAbsolute),
            ("*", NotAbsolute),
            ("/%", Escape),
            ("/%4", Escape),
            ("/%4/a", Escape),
            ("/%zz", Escape),
            ("/%+1", Escape),
            ("/a%00", Control),
            ("/a%00.png", Control),
            ("/a%0d%0aSet-Cookie:x", Control),
            ("/%7f", Control),
            ("/..\\a", DotName),
            ("/a\\..\\b", Backslash),
            ("/a%5Cb", Backslash),
            ("/..%2f..%2fetc/passwd", EncodedSlash),
            ("/a%2Fb", EncodedSlash),
            ("//", EmptySegment),
            ("//etc/passwd", EmptySegment),
            ("/a//b", EmptySegment),
            ("/a//", EmptySegment),
            ("/..", DotSegment),
            ("/../a", DotSegment),
            ("/a/../../b", DotSegment),
            ("/a/..", DotSegment),
            ("/a/./b", DotSegment),
            ("/%2e%2e/a", DotSegment),
            ("/.%2E/a", DotSegment),
            ("/%2e", DotSegment),
            ("/.git/config", DotName),
            ("/a/.env", DotName),
            ("/%2eenv", DotName),
            ("/.../a", DotName),
            ("/..%20/a", DotName),
            ("/.well-knowN/a", DotName),
            ("/.well-known/.a", DotName),
            ("/a.", TrailingDot),
            ("/a.php%20", TrailingDot),
            ("/a%2e/b", TrailingDot),
            ("/%20", TrailingDot),
            // Overlong forms of a dot and of a slash, a surrogate, a lone letter of Latin-1.
            ("/%c0%ae%c0%ae/a", NotUtf8),
            ("/%e0%80%af", NotUtf8),
            ("/%ed%a0%80", NotUtf8),
            ("/caf%e9", NotUtf8),
        ] {
            assert_eq!(decoded(path), Err(fault), "{path}");
        }
        // As they cannot come over HTTP/1, where a target is visible ASCII.
        assert_eq!(decoded(b"/a\0b"), Err(Control));
        assert_eq!(decoded(b"/\xff"), Err(NotUtf8));
    }

    #[test]
    fn names_and_paths_are_as_long_as_a_file_s_can_be() {
        for (length, fits) in [(NAME_BYTES - 1, true), (NAME_BYTES, true), (NAME_BYTES + 1, false)] {
            let path = format!("/a/{}", "%61".repeat(length));
            assert_eq!(decoded(&path).is_ok(), fits, "{length}");
        }
        for (length, fits) in [(PATH_BYTES - 1, true), (PATH_BYTES, true), (PATH_BYTES + 1, false)] {
            let path = format!("/{}{}", "a/".repeat((length - 1) / 2), "b".repeat(2 - length % 2));
            assert_eq!(path.len(), length + 1);
            assert_eq!(decoded(&path).is_ok(), fits, "{length}");
        }
    }
}
