//! Paths and listeners' addresses, as both interfaces need them.
//!
//! Knows: percent-encoding (RFC 3986 §2.1), `scheme://host:port`. Pure.

/// A path with its percent-encoding undone (RFC 3986 §2.1); what is no encoding stays.
pub fn percent_decoded(path: &[u8]) -> std::borrow::Cow<'_, [u8]> {
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

/// Host and port of a listener's URL. PEP 3333 wants both never to be empty: a unix socket
/// is `localhost` and its scheme's port.
pub fn name_and_port(url: &str) -> (String, String) {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    match rest.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => {
            (host.trim_start_matches('[').trim_end_matches(']').to_string(), port.to_string())
        }
        _ => ("localhost".into(), "80".into()),
    }
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
