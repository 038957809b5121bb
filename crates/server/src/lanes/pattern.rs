//! What requests of one route have in common, as far as a path shows it.
//!
//! Knows: methods and paths. Does not know: the application's own routes. Pure.
//!
//! What looks like a key (a number, a date, a token) is `*`: `/orders/17/items` and `/orders/18/items` are one route.
//! Names that do not look like keys, as titles and users' names, stay what they are; where there are too many of them
//! (`routes.rs`) less of the path is kept.

/// So many segments of a path are looked at.
const SEGMENTS: usize = 8;
/// A longer segment is a key.
const NAME_BYTES: usize = 32;
/// One of such a length is a key as soon as it has a digit, ...
const TOKEN_BYTES: usize = 12;
/// ... and any with so many.
const KEY_DIGITS: usize = 3;

/// Methods that are told apart (RFC 9110 §9, RFC 5789); others are one.
const METHODS: &[&[u8]] = &[b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"];

/// How much of a path is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Every name.
    Names,
    /// The first and the last: `/u/*/export`, whatever people are called.
    Ends,
    /// The first, where there are more, and how many there are.
    First,
    /// How many there are.
    Depth,
}

/// Writes what a request has in common with others of its route in place of what `into` holds.
pub fn write(method: &[u8], path: &[u8], keep: Keep, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(if METHODS.contains(&method) { method } else { b"(other)" });
    into.push(b' ');
    let path = path.strip_prefix(b"/").unwrap_or(path);
    // Behind a slash at the end there is no name.
    let last = path.strip_suffix(b"/").unwrap_or(path).iter().filter(|&&byte| byte == b'/').count();
    for (at, segment) in path.split(|&byte| byte == b'/').enumerate() {
        into.push(b'/');
        if at == SEGMENTS {
            into.extend_from_slice(b"**");
            break;
        }
        let kept = match keep {
            Keep::Names => true,
            Keep::Ends => at == 0 || at == last,
            Keep::First => at == 0 && last > 0,
            Keep::Depth => false,
        };
        let shown = if segment.is_empty() || kept && !is_key(segment) { segment } else { b"*" };
        into.extend_from_slice(shown);
    }
}

/// True for what is likely to differ from request to request.
fn is_key(segment: &[u8]) -> bool {
    if segment.len() > NAME_BYTES
        || segment.iter().any(|byte| matches!(byte, b'%' | b'@' | b'=' | b',' | b';'))
    {
        return true;
    }
    let digits = segment.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits == segment.len() || digits >= KEY_DIGITS || digits > 0 && segment.len() >= TOKEN_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(method: &str, path: &str, keep: Keep) -> String {
        let mut into = b"what was there".to_vec();
        write(method.as_bytes(), path.as_bytes(), keep, &mut into);
        String::from_utf8(into).expect("the tests' paths are text")
    }

    #[test]
    fn what_looks_like_a_key_is_left_out() {
        for (path, pattern) in [
            ("/", "GET /"),
            ("/orders", "GET /orders"),
            ("/orders/", "GET /orders/"),
            ("/orders/17", "GET /orders/*"),
            ("/api/v2/orders/17/items", "GET /api/v2/orders/*/items"),
            ("/oauth2/s3", "GET /oauth2/s3"),
            ("/days/2026-11-22", "GET /days/*"),
            ("/u/3f2a9c01-77aa-4d1e-9f00-aabbccddeeff", "GET /u/*"),
            ("/u/abcdefghijk1", "GET /u/*"),
            ("/u/abcdefghijkl", "GET /u/abcdefghijkl"),
            ("/tags/caf%C3%A9", "GET /tags/*"),
            ("/@somebody", "GET /*"),
            ("/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "GET /a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            ("/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "GET /a/*"),
            ("/1/2/3/4/5/6/7/8", "GET /*/*/*/*/*/*/*/*"),
            ("/1/2/3/4/5/6/7/8/9", "GET /*/*/*/*/*/*/*/*/**"),
            ("/1/2/3/4/5/6/7/8/9/10/11", "GET /*/*/*/*/*/*/*/*/**"),
            ("//", "GET //"),
            ("*", "GET /*"),
        ] {
            assert_eq!(written("GET", path, Keep::Names), pattern, "{path}");
        }
    }

    #[test]
    fn less_is_kept_where_there_are_too_many_names() {
        for (path, ends, first, depth) in [
            ("/articles/how-to-bake", "GET /articles/how-to-bake", "GET /articles/*", "GET /*/*"),
            ("/how-to-bake", "GET /how-to-bake", "GET /*", "GET /*"),
            ("/u/somebody/settings", "GET /u/*/settings", "GET /u/*/*", "GET /*/*/*"),
            ("/u/somebody/settings/", "GET /u/*/settings/", "GET /u/*/*/", "GET /*/*/*/"),
            ("/how-to-bake/", "GET /how-to-bake/", "GET /*/", "GET /*/"),
            ("/17/settings", "GET /*/settings", "GET /*/*", "GET /*/*"),
            (
                "/a/1/2/3/4/5/6/7/end",
                "GET /a/*/*/*/*/*/*/*/**",
                "GET /a/*/*/*/*/*/*/*/**",
                "GET /*/*/*/*/*/*/*/*/**",
            ),
        ] {
            assert_eq!(written("GET", path, Keep::Ends), ends);
            assert_eq!(written("GET", path, Keep::First), first);
            assert_eq!(written("GET", path, Keep::Depth), depth);
        }
    }

    #[test]
    fn methods_are_told_apart_and_invented_ones_are_not() {
        assert_eq!(written("POST", "/a", Keep::Names), "POST /a");
        assert_eq!(written("BREW", "/a", Keep::Names), "(other) /a");
    }

    #[test]
    fn what_is_written_has_a_bound() {
        let path = format!("/{}", vec!["a".repeat(NAME_BYTES); 10_000].join("/"));
        assert!(written("OPTIONS", &path, Keep::Names).len() < 300);
    }
}
