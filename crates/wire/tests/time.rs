//! Slowness on virtual time: policy rows T1, T2 and T4.

use wire::{Event, Http1, Limits, Policy, Shared, Tick};

fn feed(machine: &mut Http1, shared: &mut Shared, bytes: &[u8], now: u64) -> Vec<&'static str> {
    let mut input = bytes;
    let mut names = Vec::new();
    loop {
        names.push(match machine.advance(&mut input, shared, now) {
            Event::NeedMore => return names,
            Event::Request(_) => "request",
            Event::Body(_) => "body",
            Event::End => "end",
            Event::Fault(fault) => {
                names.push(fault.reason);
                return names;
            }
        });
    }
}

fn start(now: u64) -> (Http1, Shared, Limits) {
    let limits = Limits::default();
    (Http1::new(0, now), Shared::new(limits.clone(), Policy::default()), limits)
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let (mut machine, _, limits) = start(1000);
    assert_eq!(machine.deadline(&limits), Some(1000 + limits.first_byte_timeout));
    assert_eq!(machine.tick(1000 + limits.first_byte_timeout - 1, &limits), Tick::Nothing);
    assert_eq!(machine.tick(1000 + limits.first_byte_timeout, &limits), Tick::Close);
}

#[test]
fn a_byte_now_and_then_does_not_extend_the_time_for_a_head() {
    let (mut machine, mut shared, limits) = start(0);
    for (index, byte) in b"GET / HTTP/1.1\r\n".iter().enumerate() {
        feed(&mut machine, &mut shared, &[*byte], 500 + 600 * index as u64);
        assert_eq!(machine.deadline(&limits), Some(500 + limits.header_timeout));
    }
    assert_eq!(machine.tick(500 + limits.header_timeout - 1, &limits), Tick::Nothing);
    let Tick::Fault(fault) = machine.tick(500 + limits.header_timeout, &limits) else { panic!("no fault") };
    assert_eq!((fault.status, fault.reason), (408, "head-too-slow"));
    // T10: it stays refused.
    assert_eq!(feed(&mut machine, &mut shared, b"Host: a\r\n\r\n", 20_000), ["head-too-slow"]);
}

#[test]
fn after_a_reply_the_keep_alive_time_begins() {
    let (mut machine, mut shared, limits) = start(0);
    assert_eq!(feed(&mut machine, &mut shared, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 100), ["request"]);
    machine.answered(5000);
    assert_eq!(machine.deadline(&limits), Some(5000 + limits.keep_alive_timeout));
    assert_eq!(machine.tick(5000 + limits.keep_alive_timeout - 1, &limits), Tick::Nothing);
    assert_eq!(machine.tick(5000 + limits.keep_alive_timeout, &limits), Tick::Close);
    assert_eq!(machine.tick(5000 + limits.keep_alive_timeout + 1, &limits), Tick::Close);
}

#[test]
fn a_body_has_a_grace_and_then_a_rate() {
    let (mut machine, mut shared, limits) = start(0);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    assert_eq!(feed(&mut machine, &mut shared, head, 0), ["request"]);
    assert_eq!(machine.deadline(&limits), Some(limits.body_grace));
    // 2,400 bytes pay for ten seconds at 240 bytes a second.
    feed(&mut machine, &mut shared, &[b'x'; 2400], 1000);
    assert_eq!(machine.deadline(&limits), Some(10_000));
    assert_eq!(machine.tick(9_999, &limits), Tick::Nothing);
    let Tick::Fault(fault) = machine.tick(10_000, &limits) else { panic!("no fault") };
    assert_eq!((fault.status, fault.reason), (408, "body-too-slow"));
}

/// What is asked of a body of a megabyte that began at 0: when, and what came of it.
fn stalled(head: &[u8], first: &[u8]) -> (Http1, Shared, Limits) {
    let (mut machine, mut shared, limits) = start(0);
    assert_eq!(feed(&mut machine, &mut shared, head, 0), ["request"]);
    feed(&mut machine, &mut shared, first, 1000);
    (machine, shared, limits)
}

#[test]
fn a_body_that_has_paid_for_hours_is_still_not_silent_for_longer_than_is_allowed() {
    let chunk = [b"100000\r\n".as_slice(), &[b'x'; 500_000]].concat();
    for (head, first) in [
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".as_slice(),
            [b'x'; 500_000].as_slice(),
        ),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &chunk),
    ] {
        let (mut machine, mut shared, limits) = stalled(head, first);
        let end = 1000 + limits.body_idle_timeout;
        assert_eq!(machine.deadline(&limits), Some(end));
        assert_eq!(machine.tick(end - 1, &limits), Tick::Nothing);
        // One byte at the last moment, and it goes on from there.
        feed(&mut machine, &mut shared, b"x", end - 1);
        assert_eq!(machine.tick(end, &limits), Tick::Nothing);
        let end = end - 1 + limits.body_idle_timeout;
        assert_eq!(machine.tick(end - 1, &limits), Tick::Nothing);
        let Tick::Fault(fault) = machine.tick(end + 1, &limits) else { panic!("no fault") };
        assert_eq!((fault.status, fault.reason), (408, "body-stalled"));
        assert_eq!(feed(&mut machine, &mut shared, b"x", end + 2), ["body-stalled"]);
    }
}

#[test]
fn at_the_limit_itself_a_silent_body_is_over() {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let (mut machine, _, limits) = stalled(head, &[b'x'; 500_000]);
    let Tick::Fault(fault) = machine.tick(1000 + limits.body_idle_timeout, &limits) else {
        panic!("no fault")
    };
    assert_eq!(fault.reason, "body-stalled");
}

#[test]
fn the_time_in_which_nobody_asked_for_a_body_is_not_its_peers() {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let (mut machine, _, limits) = stalled(head, b"x");
    assert_eq!(machine.deadline(&limits), Some(limits.body_grace));
    machine.reader_paused(7_000_000);
    assert_eq!(machine.deadline(&limits), Some(7_000_000 + limits.body_grace));
    let (mut machine, _, limits) = stalled(head, &[b'x'; 500_000]);
    machine.reader_paused(7_000_000);
    assert_eq!(machine.deadline(&limits), Some(7_001_000 + limits.body_idle_timeout));
}

#[test]
fn heads_that_nobody_sends_any_more_are_forgotten() {
    let (mut machine, mut shared, limits) = start(0);
    feed(&mut machine, &mut shared, b"GET / HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n", 0);
    assert_eq!(shared.heads.len(), 2);
    assert_eq!(shared.heads.sweep(limits.cached_head_idle - 1), Some(limits.cached_head_idle));
    assert_eq!(shared.heads.len(), 2);
    assert_eq!(shared.heads.sweep(limits.cached_head_idle), None);
    assert!(shared.heads.is_empty());
}

#[test]
fn the_cache_is_bounded_and_large_heads_are_not_kept() {
    let limits = Limits { cached_heads: 4, cached_head_bytes: 100, ..Limits::default() };
    let mut shared = Shared::new(limits, Policy::default());
    let mut machine = Http1::new(0, 0);
    for number in 0..20 {
        let head = format!("GET /{number} HTTP/1.1\r\nHost: a\r\nX: {number}\r\n\r\n");
        feed(&mut machine, &mut shared, head.as_bytes(), number);
    }
    assert_eq!(shared.heads.len(), 8, "four heads and four blocks");
    for (length, kept) in [(99 - 42, true), (100 - 42, true), (101 - 42, false)] {
        shared.heads = wire::HeadCache::new(&shared.limits);
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(length + 10));
        let total = head.len();
        feed(&mut machine, &mut shared, head.as_bytes(), 0);
        assert_eq!(!shared.heads.is_empty(), total <= 100, "{total} bytes");
        assert_eq!(kept, total <= 100, "the lengths of this test are wrong: {total}");
    }
}

#[test]
fn an_empty_line_is_a_first_byte() {
    let (mut machine, mut shared, limits) = start(0);
    feed(&mut machine, &mut shared, b"\r\n", 100);
    assert_eq!(machine.deadline(&limits), Some(100 + limits.header_timeout));
    assert!(!machine.idle());
    assert_eq!(machine.eof(), None, "empty lines alone are no message");
}

#[test]
fn a_chunked_body_is_paid_for_by_its_data_not_by_its_framing() {
    let (mut machine, mut shared, limits) = start(0);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(feed(&mut machine, &mut shared, head, 0), ["request"]);
    // Leading zeros and extensions by the byte buy no time.
    for second in 0..5 {
        feed(&mut machine, &mut shared, b"0", second * 1000);
    }
    assert_eq!(machine.deadline(&limits), Some(limits.body_grace));
    let Tick::Fault(fault) = machine.tick(limits.body_grace, &limits) else { panic!("no fault") };
    assert_eq!((fault.status, fault.reason), (408, "body-too-slow"));
}

#[test]
fn the_time_of_a_body_begins_with_its_head() {
    let (mut machine, mut shared, limits) = start(0);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    feed(&mut machine, &mut shared, &head[..20], 1000);
    assert_eq!(feed(&mut machine, &mut shared, &head[20..], 7000), ["request"]);
    assert_eq!(machine.deadline(&limits), Some(7000 + limits.body_grace));
    assert_eq!(feed(&mut machine, &mut shared, b"123456789", 8000), ["body", "end"]);
    assert_eq!(machine.deadline(&limits), Some(8000 + limits.keep_alive_timeout));
}

#[test]
fn a_reply_that_ends_while_the_next_head_arrives_extends_nothing() {
    let (mut machine, mut shared, limits) = start(0);
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
    assert_eq!(feed(&mut machine, &mut shared, bytes, 100), ["request"]);
    machine.answered(5000);
    assert_eq!(machine.deadline(&limits), Some(100 + limits.header_timeout));
}

#[test]
fn a_rate_of_nothing_asks_for_nothing() {
    let limits = Limits { body_rate: 0, body_idle_timeout: u64::MAX, ..Limits::default() };
    let mut shared = Shared::new(limits.clone(), Policy::default());
    let mut machine = Http1::new(0, 0);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    feed(&mut machine, &mut shared, head, 0);
    assert_eq!(machine.tick(u64::MAX - 1, &limits), Tick::Nothing);
}
