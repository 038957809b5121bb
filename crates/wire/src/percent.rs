//! Percent-encoding of paths, undone as applications see it.
//!
//! Knows: RFC 3986 §2.1. Does not know: what a path is of, or which bytes may stand in it. Pure.

use std::borrow::Cow;

/// A path with its percent-encoding undone (RFC 3986 §2.1); what is no encoding stays. Two that are one path to
/// an application (PEP 3333's PATH_INFO, ASGI's `path`) are one here as well.
pub fn percent_decoded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return path.into();
    }
    let digit = |at: usize| path.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while at < path.len() {
        match (path[at], digit(at + 1), digit(at + 2)) {
            // Two digits of sixteen make a byte.
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_what_is_no_encoding_stays() {
        assert_eq!(&*percent_decoded(b"/a%20b%2Fc%25%zz%4"), b"/a b/c%%zz%4");
        assert_eq!(&*percent_decoded(b"/%2541"), b"/%41");
    }
}
