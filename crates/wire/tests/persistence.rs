//! Whether a connection goes on after a request, and what its peer waits for (RFC 9112 §9.3).

use std::sync::Arc;

use wire::{Event, Head, Http1, Limits, Policy, Shared};

fn head(bytes: &str, policy: &Policy) -> Arc<Head> {
    let mut shared = Shared::new(Limits::default(), policy.clone());
    let mut input = bytes.as_bytes();
    match Http1::new(0, 0).advance(&mut input, &mut shared, 0) {
        Event::Request(head) => head,
        _ => panic!("no request: {bytes:?}"),
    }
}

#[test]
fn http_1_1_goes_on_unless_it_says_close() {
    for (line, goes_on) in [
        ("", true),
        ("Connection: keep-alive\r\n", true),
        ("Connection: close\r\n", false),
        ("Connection: Close\r\n", false),
        ("Connection: x, CLOSE ,y\r\n", false),
        ("Connection: keep-alive\r\nConnection: close\r\n", false),
        ("Connection: closed\r\n", true),
        ("Connection: \"close\"\r\n", true),
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
        assert_eq!(head(&bytes, &Policy::default()).persistent, goes_on, "{bytes:?}");
    }
}

#[test]
fn http_1_0_goes_on_only_where_it_says_exactly_so() {
    let mut strict = Policy::default();
    strict.refuse("http10-keep-alive").expect("a name");
    for (line, goes_on) in [
        ("", false),
        ("Connection: keep-alive\r\n", true),
        ("connection:Keep-Alive\r\n", true),
        ("Connection: keep-alive, close\r\n", false),
        ("Connection: keep-alive, x\r\n", false),
        ("Connection: x\r\nConnection: keep-alive\r\n", false),
        ("Connection: keep-alive\r\nConnection: x\r\n", false),
        ("Keep-Alive: timeout=5\r\n", false),
    ] {
        let bytes = format!("GET / HTTP/1.0\r\n{line}\r\n");
        assert_eq!(head(&bytes, &Policy::default()).persistent, goes_on, "{bytes:?}");
        assert!(!head(&bytes, &strict).persistent, "where that is refused: {bytes:?}");
    }
}

#[test]
fn only_http_1_1_with_a_body_waits_for_100_continue() {
    for (bytes, waits) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", true),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-CONTINUE\r\nTransfer-Encoding: chunked\r\n\r\n", true),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", false),
        ("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", false),
    ] {
        assert_eq!(head(bytes, &Policy::default()).expects_continue, waits, "{bytes:?}");
    }
}

#[test]
fn the_parts_of_a_target_are_found_in_every_form() {
    for (line, path, query, authority) in [
        ("GET /a/b?c=d?e HTTP/1.1", "/a/b", "c=d?e", None),
        ("GET /? HTTP/1.1", "/", "", None),
        ("GET / HTTP/1.1", "/", "", None),
        ("GET http://b HTTP/1.1", "/", "", Some("b")),
        ("GET http://b?q HTTP/1.1", "/", "q", Some("b")),
        ("GET HTTPS://b:1/x?q=/ HTTP/1.1", "/x", "q=/", Some("b:1")),
        ("OPTIONS * HTTP/1.1", "*", "", None),
        ("OPTIONS http://b HTTP/1.1", "/", "", Some("b")),
    ] {
        let found = head(&format!("{line}\r\nHost: a\r\n\r\n"), &Policy::default());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!((text(found.path()), text(found.query())), (path.into(), query.into()), "{line}");
        assert_eq!(found.authority().map(text).as_deref(), authority, "{line}");
        assert_eq!(found.host().map(text).as_deref(), Some(authority.unwrap_or("a")), "{line}");
        assert_eq!(text(found.request_line()), line);
    }
}
