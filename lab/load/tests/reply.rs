//! The reader of replies: what is whole, what is refused, and that it does not matter in how many pieces it comes.

use forehand_load::kinds::Wrong;
use forehand_load::reply::{Expectation, LONGEST_HEAD, Reader, Reply, Step};
use std::sync::Arc;

fn ok() -> Expectation {
    Expectation { statuses: vec![200], ..Expectation::default() }
}

fn body(text: &str) -> Expectation {
    Expectation { body: Some(Arc::from(text.as_bytes())), ..ok() }
}

/// Reads pieces of `size` bytes; the steps, and how many bytes no reply took before the first fault.
fn read(bytes: &[u8], size: usize, expected: &Expectation, ends: bool) -> Vec<Step> {
    let (mut reader, mut steps) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(size) {
        let mut input = piece;
        while !input.is_empty() {
            match reader.step(&mut input, expected) {
                Some(step) => steps.push(step),
                None => break,
            }
            if matches!(steps.last(), Some(Step::Bad(_))) {
                return steps;
            }
        }
    }
    if ends && let Some(step) = reader.end(expected) {
        steps.push(step);
    }
    if reader.is_within() {
        steps.push(Step::Bad(Wrong::Truncated));
    }
    steps
}

/// Whole, byte by byte, and in pieces of three: the same.
#[track_caller]
fn check(bytes: &str, expected: &Expectation, wanted: &[Step]) {
    for size in [usize::MAX, 1, 3] {
        let steps = read(bytes.as_bytes(), size.min(bytes.len()), expected, true);
        assert_eq!(steps, wanted, "in pieces of {size}: {bytes:?}");
    }
}

fn good(status: u16, keeps_alive: bool) -> Step {
    Step::Reply(Reply { status, keeps_alive, wrong: None })
}

fn wrong(status: u16, wrong: Wrong) -> Step {
    Step::Reply(Reply { status, keeps_alive: true, wrong: Some(wrong) })
}

#[test]
fn a_length_frames_the_body() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong!", &body("Pong!"), &[good(200, true)]);
    check("HTTP/1.1 200 \r\ncontent-length:0\r\n\r\n", &ok(), &[good(200, true)]);
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        &body("ab"),
        &[good(200, true), good(200, true)],
    );
}

#[test]
fn chunks_frame_the_body() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{head}3\r\nPon\r\n02\r\ng!\r\n0\r\n\r\n"), &body("Pong!"), &[good(200, true)]);
    let many = "1\r\nx\r\n".repeat(40);
    check(&format!("{head}{many}0\r\n\r\n"), &body(&"x".repeat(40)), &[good(200, true)]);
    check(&format!("{head}0\r\nSum: 1\r\n\r\n"), &body(""), &[good(200, true)]);
    for bad in [
        "x\r\n",
        "\r\n",
        "3;a=b\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3\nabc",
        "2\r\nabc\r\n",
        "10000000000000000\r\n",
    ] {
        check(&format!("{head}{bad}"), &ok(), &[Step::Bad(Wrong::BadChunk)]);
    }
    check(&format!("{head}0\r\nbad trailer\r\n\r\n"), &ok(), &[Step::Bad(Wrong::BadHeader)]);
}

#[test]
fn without_a_length_the_end_is_the_end() {
    check("HTTP/1.0 200 OK\r\n\r\nPong!", &body("Pong!"), &[good(200, false)]);
    check("HTTP/1.1 200 OK\r\n\r\n", &body(""), &[good(200, false)]);
}

#[test]
fn some_replies_have_no_body() {
    let head = Expectation { head: true, length: Some(41_148), ..ok() };
    check("HTTP/1.1 200 OK\r\nContent-Length: 41148\r\n\r\n", &head, &[good(200, true)]);
    check("HTTP/1.1 200 OK\r\nContent-Length: 41147\r\n\r\n", &head, &[wrong(200, Wrong::WrongBody)]);
    check("HTTP/1.1 200 OK\r\n\r\n", &head, &[wrong(200, Wrong::WrongBody)]);
    for status in [204, 304] {
        let expected = Expectation { statuses: vec![status], ..Expectation::default() };
        check(&format!("HTTP/1.1 {status} X\r\n\r\n"), &expected, &[good(status, true)]);
    }
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        &ok(),
        &[good(200, true)],
    );
}

#[test]
fn whether_the_connection_is_kept_is_the_replys_word() {
    for (head, keeps) in [
        ("HTTP/1.1 200 OK\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n", false),
        ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\n", false),
        ("HTTP/1.0 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", true),
    ] {
        check(&format!("{head}Content-Length: 0\r\n\r\n"), &ok(), &[good(200, keeps)]);
    }
}

#[test]
fn status_length_and_body_are_compared() {
    check(
        "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno",
        &body("ok"),
        &[wrong(503, Wrong::WrongStatus(503))],
    );
    for other in ["Pong?", "Pong", "Pong!!", "pong!"] {
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{other}", other.len());
        check(&reply, &body("Pong!"), &[wrong(200, Wrong::WrongBody)]);
    }
    let five = Expectation { length: Some(5), ..ok() };
    check("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nPong", &five, &[wrong(200, Wrong::WrongBody)]);
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPing!", &five, &[good(200, true)]);
}

#[test]
fn what_is_no_status_line_is_said() {
    for line in [
        "HTTP/2.0 200 OK",
        "HTTP/1.2 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 200",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 200 O\x01K",
        "<html>",
        "",
    ] {
        check(&format!("{line}\r\nContent-Length: 0\r\n\r\n"), &ok(), &[Step::Bad(Wrong::BadStatusLine)]);
    }
    check("HTTP/1.1 200 OK\nContent-Length: 0\n\n", &ok(), &[Step::Bad(Wrong::BadStatusLine)]);
}

#[test]
fn what_is_no_header_field_is_said() {
    for field in [
        "no colon",
        ": empty",
        "Name : value",
        "A: b\r\n folded: c",
        "Na me: value",
        "A: b\x00c",
        "A: b\rc",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length: 0x5",
        "Content-Length:",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ] {
        check(&format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n"), &ok(), &[Step::Bad(Wrong::BadHeader)]);
    }
    check("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &ok(), &[Step::Bad(Wrong::BadHeader)]);
    let empty = Expectation { statuses: vec![204], ..Expectation::default() };
    check("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", &empty, &[Step::Bad(Wrong::BadHeader)]);
    check("HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", &empty, &[good(204, true)]);
}

#[test]
fn a_bare_line_feed_ends_no_field() {
    for bytes in ["HTTP/1.1 200 OK\r\nA: b\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\n\r\n"] {
        check(bytes, &ok(), &[Step::Bad(Wrong::BadHeader)]);
    }
}

#[test]
fn what_ends_too_soon_is_cut_off() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nPon",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nPong!\r\n0\r\n",
    ] {
        check(bytes, &ok(), &[Step::Bad(Wrong::Truncated)]);
    }
}

#[test]
fn a_head_without_end_is_refused_at_its_limit() {
    let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(LONGEST_HEAD));
    for size in [endless.len(), 1000] {
        assert_eq!(read(endless.as_bytes(), size, &ok(), false), [Step::Bad(Wrong::BadHeader)]);
    }
}
