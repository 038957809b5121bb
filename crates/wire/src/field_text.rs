//! What the text of a field is to programs behind a server: a list of members, and the key of a CGI variable.
//!
//! Knows: commas (RFC 9110 §5.6.1), and how names are spelt there (RFC 3875 §4.1.18). Does not know: which fields are lists.
//! Pure.

use crate::fields;

/// The members of a list; empty ones are none.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    fields::members(value).filter(|member| !member.is_empty())
}

/// A list has this member, in whatever case.
pub fn has_member(value: &[u8], wanted: &[u8]) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(wanted))
}

/// `HTTP_ACCEPT_LANGUAGE` from `Accept-Language`; none: it is not passed on.
pub fn environ_key(name: &[u8]) -> Option<Vec<u8>> {
    // With `_` and `-` folded, `X_Forwarded_For` would pass for `X-Forwarded-For`; such names
    // reach this place only where the policy was relaxed. `Proxy` would become HTTP_PROXY,
    // which some programs take for their own setting (CVE-2016-5385).
    if name.eq_ignore_ascii_case(b"proxy") {
        return None;
    }
    let upper = name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    Some(match name.to_ascii_lowercase().as_slice() {
        b"content-type" | b"content-length" => upper.collect(),
        _ => b"HTTP_".iter().copied().chain(upper).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_in_a_list() {
        assert!(has_member(b"keep-alive, Upgrade", b"upgrade"));
        assert!(!has_member(b"upgraded", b"upgrade"));
        assert!(members(b" a ,,\tb, ").eq([b"a", b"b"]));
    }

    #[test]
    fn proxy_never_becomes_a_key() {
        assert_eq!(environ_key(b"Proxy"), None);
        assert_eq!(environ_key(b"accept-Language").as_deref(), Some(&b"HTTP_ACCEPT_LANGUAGE"[..]));
        assert_eq!(environ_key(b"Content-Type").as_deref(), Some(&b"CONTENT_TYPE"[..]));
    }
}
