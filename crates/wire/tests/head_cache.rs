//! What is remembered of heads is never taken for something else.

use std::sync::Arc;

use wire::{Event, Framing, Head, Http1, Limits, Policy, Shared};

fn shared() -> Shared {
    Shared::new(Limits::default(), Policy::default())
}

/// The next request of some bytes, all of which must be a head.
fn request(machine: &mut Http1, shared: &mut Shared, bytes: &[u8]) -> Arc<Head> {
    let mut input = bytes;
    match machine.advance(&mut input, shared, 0) {
        Event::Request(head) => {
            assert!(input.is_empty(), "left over: {}", input.escape_ascii());
            head
        }
        Event::Fault(fault) => panic!("{}: {}", fault.reason, bytes.escape_ascii()),
        _ => panic!("no request: {}", bytes.escape_ascii()),
    }
}

const FIRST: &[u8] = b"GET /first HTTP/1.1\r\nHost: a\r\nCookie: b=c\r\n\r\n";
const OTHER_PATH: &[u8] = b"GET /other HTTP/1.1\r\nHost: a\r\nCookie: b=c\r\n\r\n";
const OTHER_COOKIE: &[u8] = b"GET /first HTTP/1.1\r\nHost: a\r\nCookie: b=d\r\n\r\n";

#[test]
fn the_same_bytes_are_the_same_head() {
    let (mut shared, mut machine) = (shared(), Http1::new(0, 0));
    let first = request(&mut machine, &mut shared, FIRST);
    assert!(!first.seen_before());
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&first, &request(&mut machine, &mut shared, FIRST)));
    }
    assert!(first.seen_before());
    assert!(Arc::ptr_eq(&first, &request(&mut Http1::new(0, 0), &mut shared, FIRST)), "another connection");
}

#[test]
fn another_path_shares_the_block() {
    let (mut shared, mut machine) = (shared(), Http1::new(0, 0));
    let first = request(&mut machine, &mut shared, FIRST);
    let other = request(&mut machine, &mut shared, OTHER_PATH);
    assert!(!Arc::ptr_eq(&first, &other));
    assert!(Arc::ptr_eq(&first.block, &other.block));
    assert_eq!(other.path(), b"/other");
    assert!(Arc::ptr_eq(&other, &request(&mut machine, &mut shared, OTHER_PATH)));
}

#[test]
fn another_header_is_another_block() {
    let (mut shared, mut machine) = (shared(), Http1::new(0, 0));
    let first = request(&mut machine, &mut shared, FIRST);
    let other = request(&mut machine, &mut shared, OTHER_COOKIE);
    assert!(!Arc::ptr_eq(&first.block, &other.block));
    assert_eq!(other.block.get("cookie"), Some(&b"b=d"[..]));
}

#[test]
fn a_client_finds_its_block_among_others() {
    let mut shared = shared();
    let (mut one, mut two) = (Http1::new(0, 0), Http1::new(0, 0));
    let first = request(&mut one, &mut shared, FIRST);
    let second = request(&mut two, &mut shared, OTHER_COOKIE);
    for number in 0..20 {
        let path = format!("GET /{number} HTTP/1.1\r\n");
        let tail = |head: &[u8]| head[b"GET /first HTTP/1.1\r\n".len()..].to_vec();
        let here = request(&mut one, &mut shared, &[path.as_bytes(), &tail(FIRST)].concat());
        let there = request(&mut two, &mut shared, &[path.as_bytes(), &tail(OTHER_COOKIE)].concat());
        assert!(Arc::ptr_eq(&here.block, &first.block) && Arc::ptr_eq(&there.block, &second.block));
    }
}

#[test]
fn variants_never_share() {
    let mut shared = shared();
    let trusted = request(&mut Http1::new(1, 0), &mut shared, FIRST);
    let stranger = request(&mut Http1::new(2, 0), &mut shared, FIRST);
    let path = request(&mut Http1::new(2, 0), &mut shared, OTHER_PATH);
    assert!(!Arc::ptr_eq(&trusted.block, &stranger.block));
    assert_eq!((trusted.block.variant, stranger.block.variant, path.block.variant), (1, 2, 2));
    assert!(Arc::ptr_eq(&stranger.block, &path.block));
}

#[test]
fn what_a_block_means_follows_from_the_line_in_front_of_it() {
    let (mut shared, mut machine) = (shared(), Http1::new(0, 0));
    let block = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
    for (line, persistent) in [("GET / HTTP/1.1\r\n", true), ("GET / HTTP/1.0\r\n", true)] {
        let head = request(&mut machine, &mut shared, format!("{line}{block}").as_bytes());
        assert_eq!((head.framing, head.persistent), (Framing::Length(0), persistent), "{line}");
        assert!(!head.expects_continue, "there is no body to wait for");
    }
    // The same block is refused behind a version that has no chunked.
    let chunked = "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut machine = Http1::new(0, 0);
    let head = request(&mut machine, &mut shared, format!("POST / HTTP/1.1\r\n{chunked}").as_bytes());
    assert_eq!(head.framing, Framing::Chunked);
    let old = format!("POST / HTTP/1.0\r\n{chunked}");
    let mut input = old.as_bytes();
    let event = Http1::new(0, 0).advance(&mut input, &mut shared, 0);
    assert!(matches!(event, Event::Fault(fault) if fault.reason == "chunked-in-1.0"));
}

#[test]
fn a_line_that_is_refused_is_refused_in_front_of_a_known_block_too() {
    for (line, reason) in [
        ("GET /a b HTTP/1.1\r\n", "target"),
        ("GET / HTTP/2.0\r\n", "not-http-1"),
        ("TRACE / HTTP/1.1\r\n", "method-not-allowed"),
        ("GET / HTTP/1.1\n", "bare-lf"),
        ("\x15ET / HTTP/1.1\r\n", "not-http"),
        ("\x16ET / HTTP/1.1\r\n", "tls-on-http"),
        ("\r\n\r\n\r\nGET / HTTP/1.1\r\n", "empty-lines"),
    ] {
        let mut shared = shared();
        request(&mut Http1::new(0, 0), &mut shared, FIRST);
        let bytes = format!("{line}Host: a\r\nCookie: b=c\r\n\r\n");
        let mut input = bytes.as_bytes();
        let event = Http1::new(0, 0).advance(&mut input, &mut shared, 0);
        assert!(matches!(event, Event::Fault(fault) if fault.reason == reason), "{bytes:?}");
    }
}

#[test]
fn a_head_that_arrives_in_pieces_is_found_again() {
    let mut shared = shared();
    let first = request(&mut Http1::new(0, 0), &mut shared, FIRST);
    for place in 1..FIRST.len() {
        let mut machine = Http1::new(0, 0);
        let (mut front, back) = FIRST.split_at(place);
        assert!(matches!(machine.advance(&mut front, &mut shared, 0), Event::NeedMore));
        let again = request(&mut machine, &mut shared, back);
        assert!(Arc::ptr_eq(&first, &again), "split at {place}");
    }
}

#[test]
fn nothing_is_remembered_where_the_limit_is_none() {
    let mut shared = Shared::new(Limits { cached_heads: 0, ..Limits::default() }, Policy::default());
    for _ in 0..3 {
        request(&mut Http1::new(0, 0), &mut shared, FIRST);
    }
    assert!(shared.heads.is_empty());
}

#[test]
fn an_idle_machine_is_small() {
    assert!(size_of::<Http1>() <= 120, "{} bytes", size_of::<Http1>());
}
