//! Listeners' addresses, as both interfaces need them.
//!
//! Knows: `scheme://host:port`. Pure.

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
