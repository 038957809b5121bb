//! Conversations over FastCGI that the other gateways do not have: several requests, management, giving up, bodies
//! without a length. Each is played whole, byte by byte and split in two at every place.

use wire::gateway::FastCgi;
use wire::gateway::fastcgi::{Ended, Records, end};
use wire::{Event, Framing, Limits, Policy, ReplyForm, Shared, Trust};

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let (id, length) = (id.to_be_bytes(), (content.len() as u16).to_be_bytes());
    [&[1, kind][..], &id, &length, &[2, 0], content, &[0; 2]].concat()
}

fn begin(id: u16, role: u8, keep: u8) -> Vec<u8> {
    record(1, id, &[0, role, keep, 0, 0, 0, 0, 0])
}

fn params(id: u16, more: &[(&str, &str)]) -> Vec<u8> {
    let mut packed = Vec::new();
    let standard = [("REQUEST_METHOD", "POST"), ("REQUEST_URI", "/a"), ("HTTP_HOST", "h")];
    for (name, value) in standard.iter().chain(more) {
        packed.extend([name.len() as u8, value.len() as u8]);
        packed.extend([name.as_bytes(), value.as_bytes()].concat());
    }
    [record(4, id, &packed), record(4, id, b"")].concat()
}

fn stdin(id: u16, body: &[u8]) -> Vec<u8> {
    record(5, id, body)
}

/// What came out, a word each, and what is to be sent back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    words: Vec<String>,
    output: Vec<u8>,
}

/// Answers each request when it is complete.
fn play<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let limits = Limits { body_bytes: 20, ..Limits::default() };
    let mut shared = Shared::new(limits, Policy::default());
    let (mut machine, mut heard) = (FastCgi::new(2, 0), Heard::default());
    let mut whole = true;
    for part in parts {
        let mut input = part;
        loop {
            let event = machine.advance(&mut input, &mut shared, 0);
            heard.output.extend(machine.take_output());
            match event {
                Event::NeedMore => break,
                Event::Request(head) => {
                    whole = head.framing == Framing::None;
                    let target = String::from_utf8_lossy(head.target()).into_owned();
                    let (records, keeps) = (machine.records(), machine.records().keeps());
                    let id = u16::from_be_bytes([records.open(1).0[2], records.open(1).0[3]]);
                    heard.words.push(format!("{id} {target} {:?} keep {keeps}", head.framing));
                }
                // However it is cut, it is one body.
                Event::Body(part) => match heard.words.last_mut().filter(|last| last.starts_with("body ")) {
                    Some(last) => last.push_str(&String::from_utf8_lossy(part)),
                    None => heard.words.push(format!("body {}", String::from_utf8_lossy(part))),
                },
                Event::End => {
                    heard.words.push("end".into());
                    whole = true;
                }
                Event::Fault(fault) => {
                    heard.words.push(fault.reason.into());
                    return heard;
                }
            }
            if whole && heard.words.last().is_some_and(|last| last == "end" || last.contains("None")) {
                machine.answered(0);
                whole = false;
            }
        }
        assert!(input.is_empty(), "input was left over");
    }
    if let Some(fault) = machine.eof() {
        heard.words.push(format!("ended: {}", fault.reason));
    }
    heard
}

/// Played in every way, it comes to these words and this output.
#[track_caller]
fn check(sent: &[Vec<u8>], words: &[&str], output: &[u8]) {
    let sent = sent.concat();
    let expected = Heard { words: words.iter().map(ToString::to_string).collect(), output: output.to_vec() };
    assert_eq!(play([&sent[..]]), expected, "whole");
    assert_eq!(play(sent.chunks(1)), expected, "byte by byte");
    for at in 0..=sent.len() {
        let (first, second) = sent.split_at(at);
        assert_eq!(play([first, second]), expected, "split behind {at}");
    }
}

fn ended(id: u16, how: Ended) -> Vec<u8> {
    let mut out = Vec::new();
    end(id, how, &mut out);
    out
}

#[test]
fn a_connection_that_is_kept_has_one_request_after_the_other() {
    let one = |id: u16, keep: u8| [begin(id, 1, keep), params(id, &[]), stdin(id, b"")].concat();
    check(
        &[one(1, 1), one(1, 1), one(9, 0)],
        &["1 /a None keep true", "1 /a None keep true", "9 /a None keep false"],
        b"",
    );
    check(&[one(1, 0), one(1, 1)], &["1 /a None keep false"], b"");
}

#[test]
fn a_body_without_a_length_ends_with_its_stream() {
    let start = [begin(1, 1, 1), params(1, &[("CONTENT_LENGTH", "")])].concat();
    let (first, second, last) = (stdin(1, b"hel"), stdin(1, b"lo"), stdin(1, b""));
    check(
        &[start.clone(), first, second, last.clone()],
        &["1 /a Chunked keep true", "body hello", "end"],
        b"",
    );
    check(&[start.clone(), last], &["1 /a None keep true"], b"");
    check(
        &[start.clone(), stdin(1, b"hel")],
        &["1 /a Chunked keep true", "body hel", "ended: incomplete"],
        b"",
    );
    check(&[start.clone(), stdin(1, &[b'x'; 21])], &["body-too-large"], b"");
    let too_much = [stdin(1, &[b'x'; 20]), stdin(1, b"x")].concat();
    check(
        &[start, too_much],
        &["1 /a Chunked keep true", &format!("body {}", "x".repeat(20)), "body-too-large"],
        b"",
    );
}

#[test]
fn a_body_has_the_length_that_was_told_and_no_other() {
    let start = |length: &str| [begin(1, 1, 0), params(1, &[("CONTENT_LENGTH", length)])].concat();
    let told = "1 /a Length(5) keep false";
    check(&[start("5"), stdin(1, b"hello"), stdin(1, b"")], &[told, "body hello", "end"], b"");
    check(&[start("5"), stdin(1, b"hell"), stdin(1, b"")], &[told, "body hell", "incomplete"], b"");
    check(&[start("5"), stdin(1, b"hello!")], &["gateway-format"], b"");
    check(&[start("5"), stdin(1, b"hello"), stdin(1, b"!")], &[told, "body hello", "gateway-format"], b"");
    check(&[start("5"), stdin(1, b"")], &["incomplete"], b"");
    check(&[start("0"), stdin(1, b"x")], &["gateway-format"], b"");
}

#[test]
fn management_records_are_answered_at_any_time() {
    let asked = |name: &str| record(9, 0, &[&[name.len() as u8, 0], name.as_bytes()].concat());
    let none = [1, 10, 0, 0, 0, 0, 0, 0];
    let value = [&[1, 10, 0, 0, 0, 18, 0, 0, 15, 1][..], b"FCGI_MPXS_CONNS0"].concat();
    check(&[asked("FCGI_MPXS_CONNS")], &[], &value);
    check(&[asked("OTHER"), record(9, 0, b"")], &[], &[none, none].concat());
    let most = Limits::default().connections.to_string();
    for name in ["FCGI_MAX_CONNS", "FCGI_MAX_REQS"] {
        let size = [name.len() as u8, most.len() as u8];
        let value = [&size[..], name.as_bytes(), most.as_bytes()].concat();
        check(&[asked(name)], &[], &record_without_padding(10, 0, &value));
    }
    check(&[record(77, 0, b"abc")], &[], &[1, 11, 0, 0, 0, 8, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    let inside = [begin(1, 1, 0), asked("FCGI_MPXS_CONNS"), params(1, &[]), stdin(1, b"")].concat();
    check(&[inside], &["1 /a None keep false"], &value);
    check(&[record(9, 0, &[9, 0, b'x'])], &["gateway-format"], b"");
}

#[test]
fn a_second_request_beside_the_first_is_not_taken_and_the_first_goes_on() {
    let second = [begin(2, 1, 1), params(2, &[]), stdin(2, b"x"), stdin(2, b"")].concat();
    let first = [begin(1, 1, 1), params(1, &[("CONTENT_LENGTH", "2")]), stdin(1, b"a")].concat();
    let words = ["1 /a Length(2) keep true", "body ab", "end"];
    check(&[first, second, stdin(1, b"b"), stdin(1, b"")], &words, &ended(2, Ended::CannotMultiplex));
}

#[test]
fn other_roles_are_not_known() {
    let rest = [params(1, &[]), stdin(1, b"")].concat();
    let good = [begin(2, 1, 1), params(2, &[]), stdin(2, b"")].concat();
    let unknown = ended(1, Ended::UnknownRole);
    check(&[begin(1, 2, 1), rest.clone(), good.clone()], &["2 /a None keep true"], &unknown);
    check(&[begin(1, 3, 0), rest, good], &[], &unknown);
}

#[test]
fn what_the_web_server_gives_up_ends() {
    let good = [begin(1, 1, 1), params(1, &[]), stdin(1, b"")].concat();
    let complete = ended(1, Ended::Complete);
    let start = begin(1, 1, 1);
    check(&[start.clone(), record(2, 1, b""), good.clone()], &["1 /a None keep true"], &complete);
    check(&[start, params(1, &[]), record(2, 1, b""), good], &["1 /a None keep true"], &complete);
    let body = [begin(1, 1, 1), params(1, &[("CONTENT_LENGTH", "5")]), stdin(1, b"he")].concat();
    check(&[body, record(2, 1, b"")], &["1 /a Length(5) keep true", "body he", "gateway-aborted"], b"");
    check(&[record(2, 5, b"")], &[], b"");
}

#[test]
fn what_is_no_record_is_refused() {
    check(&[b"GET / HTTP/1.1\r\n".to_vec()], &["gateway-format"], b"");
    check(&[vec![2, 1, 0, 1, 0, 8, 0, 0]], &["gateway-format"], b"");
    for kind in [3, 6, 7, 10, 11, 12, 255] {
        check(&[record(kind, 1, b"")], &["gateway-format"], b"");
    }
    for kind in [0, 1, 2, 4, 5, 8] {
        check(&[record(kind, 0, b"")], &["gateway-format"], b"");
    }
    check(&[record(1, 1, b"1234567")], &["gateway-format"], b"");
    check(&[record(9, 1, b"")], &["gateway-format"], b"");
    check(&[begin(1, 1, 1), begin(1, 1, 1)], &["gateway-format"], b"");
    check(&[begin(1, 1, 1), stdin(1, b"")], &["gateway-format"], b"");
    check(&[begin(1, 1, 1), params(1, &[]), params(1, &[])], &["gateway-format"], b"");
    check(&[begin(1, 1, 1), record(4, 1, &[200, 0, 0]), record(4, 1, b"")], &["gateway-format"], b"");
    check(&[begin(1, 1, 1), record(4, 1, &[5, 5, b'a']), record(4, 1, b"")], &["gateway-format"], b"");
}

#[test]
fn a_reply_is_cut_into_records_that_need_no_padding() {
    let (records, mut out) = (Records::new(258, true), Vec::new());
    records.add(&[b'x'; 70_000], &mut out);
    assert_eq!(out[..8], [1, 6, 1, 2, 0xff, 0xf8, 0, 0]);
    assert_eq!(out[8 + 65_528..][..8], [1, 6, 1, 2, 0x11, 0x78, 0, 0]);
    assert_eq!((out.len(), Records::heads(70_000)), (70_000 + 16, 16));
    out.clear();
    records.add(b"", &mut out);
    assert!(out.is_empty(), "an empty record would end the stream");
}

#[test]
fn a_reply_that_is_whole_ends_its_stream_and_its_request() {
    let end = [record_without_padding(6, 1, b""), record_without_padding(3, 1, &[0; 8])].concat();
    let records = Records::new(1, false);
    assert_eq!(records.end(), end[..]);
    for length in [1, 65_527, 65_528, 65_529, 200_000] {
        let content = vec![b'x'; length];
        for whole in [true, false] {
            let (mut wrapped, mut framed) = (content.clone(), Vec::new());
            records.wrap(&mut wrapped, whole);
            content.chunks(65_528).for_each(|part| framed.extend(record_without_padding(6, 1, part)));
            framed.extend(if whole { &end[..] } else { &[] });
            assert!(wrapped == framed, "{length} {whole}");
        }
    }
    let mut refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    ReplyForm::FastCgi(records).apply(&mut refusal);
    let content = b"Status: 400 Bad Request\r\n\r\n";
    assert_eq!(refusal, [record_without_padding(6, 1, content), end].concat());
    ReplyForm::FastCgi(Records::new(0, false)).apply(&mut refusal);
    assert!(refusal.is_empty(), "nobody has asked");
}

fn record_without_padding(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let (id, length) = (id.to_be_bytes(), (content.len() as u16).to_be_bytes());
    [&[1, kind][..], &id, &length, &[0, 0], content].concat()
}

#[test]
fn what_comes_behind_a_request_that_is_answered_is_looked_through_for_its_end() {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut machine = FastCgi::new(2, 0);
    let (abort, other) = (record(2, 1, b""), [begin(7, 1, 1), stdin(7, &[2; 300])].concat());
    assert!(!machine.aborts(&abort), "nothing is answered yet");
    let request = [begin(1, 1, 1), params(1, &[]), stdin(1, b"")].concat();
    assert!(matches!(machine.advance(&mut &request[..], &mut shared, 0), Event::Request(_)));
    // Two bytes of padding follow the last record of the request.
    let padding = vec![0; 2];
    for (ahead, aborts) in [
        (vec![], false),
        (padding.clone(), false),
        ([padding.clone(), abort.clone()].concat(), true),
        ([padding.clone(), other.clone(), abort.clone()].concat(), true),
        ([padding.clone(), record(2, 2, b"")].concat(), false),
        ([padding, other].concat(), false),
    ] {
        assert_eq!(machine.aborts(&ahead), aborts, "{ahead:?}");
        let cut = ahead.len().saturating_sub(8);
        assert!(!machine.aborts(&ahead[..cut]), "{ahead:?}");
    }
    machine.answered(0);
    assert!(!machine.aborts(&abort), "it is over");
}

#[test]
fn a_request_leaves_nothing_to_the_next_one_of_its_connection() {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut machine = FastCgi::new(2, 0);
    for (more, peer) in [(&[("REMOTE_ADDR", "192.0.2.7")][..], true), (&[], false)] {
        let request = [begin(1, 1, 1), params(1, more), stdin(1, b"")].concat();
        let mut input = &request[..];
        assert!(matches!(machine.advance(&mut input, &mut shared, 0), Event::Request(_)));
        assert_eq!(machine.given().and_then(|given| given.peer()).is_some(), peer);
        machine.answered(0);
        assert!(matches!(machine.advance(&mut input, &mut shared, 0), Event::NeedMore));
        assert!(machine.given().is_none() && machine.idle());
        assert_eq!(machine.records(), Records::new(0, true), "there is nobody who could be answered");
    }
}

#[test]
fn what_is_to_be_answered_does_not_grow_without_end() {
    let limits = Limits { header_bytes: 480, ..Limits::default() };
    for (records, refused) in [(29, false), (30, false), (31, true)] {
        let mut shared = Shared::new(limits.clone(), Policy::default());
        let mut machine = FastCgi::new(2, 0);
        let sent = record(200, 0, b"").repeat(records);
        let event = machine.advance(&mut &sent[..], &mut shared, 0);
        assert_eq!(matches!(event, Event::Fault(_)), refused, "{records} answers of 16 bytes");
    }
}

#[test]
fn a_request_that_comes_again_from_another_client_is_not_judged_again_and_is_that_clients() {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut ask = |more: &[(&str, &str)], body: &[u8]| {
        let mut machine = FastCgi::new(2, 0);
        let body = if body.is_empty() { Vec::new() } else { stdin(1, body) };
        let request = [begin(1, 1, 1), params(1, more), body, stdin(1, b"")].concat();
        let Event::Request(head) = machine.advance(&mut &request[..], &mut shared, 0) else {
            panic!("no request");
        };
        let given = machine.given().expect("what was given");
        let named = |name: &str| String::from_utf8_lossy(given.get(name).unwrap_or_default()).into_owned();
        (head, named("REMOTE_ADDR"), named("REMOTE_PORT"), format!("{:?}", given.peer()))
    };
    let client = |address, port| [("A", "1"), ("REMOTE_ADDR", address), ("B", "2"), ("REMOTE_PORT", port)];
    let (first, ..) = ask(&client("192.0.2.7", "50001"), b"");
    for (address, port) in [("192.0.2.9", "50002"), ("192.0.2.7", "50001"), ("192.0.2.8", "1")] {
        let (head, seen, from, peer) = ask(&client(address, port), b"");
        assert_eq!((&*seen, &*from), (address, port));
        assert!(peer.contains(address) && peer.contains(port), "{peer}");
        assert!(std::sync::Arc::ptr_eq(&head, &first));
    }
    // What differs anywhere else is another request.
    let mut other = client("192.0.2.7", "50001");
    other[2].1 = "3";
    assert_eq!(ask(&other, b"").1, "192.0.2.7");
    // So is one of which a body is seen whose length is not told.
    let (head, ..) = ask(&client("192.0.2.7", "50001"), b"body");
    assert_eq!((head.framing, first.framing), (Framing::Chunked, Framing::None));
    assert_eq!(ask(&client("192.0.2.7", "50001"), b"").0.framing, Framing::None);
}

#[test]
fn one_that_comes_again_is_judged_by_its_client_and_by_what_follows_it() {
    let trust = Trust::parse("192.0.2.7").expect("an address");
    let limits = Limits::default();
    let mut shared = Shared::new(limits, Policy::default()).trusting(trust);
    let mut machine = FastCgi::new(2, 0);
    let mut ask = |address: &str, port: &str, length: &str, body: Option<&[u8]>| {
        let client = [("REMOTE_PORT", port), ("CONTENT_LENGTH", length), ("REMOTE_ADDR", address)];
        let body = body.map_or(Vec::new(), |body| stdin(1, body));
        let request = [begin(1, 1, 1), params(1, &client), body, stdin(1, b"")].concat();
        let mut input = &request[..];
        let found = match machine.advance(&mut input, &mut shared, 0) {
            Event::Request(head) => {
                let peer = machine.given().and_then(|given| given.peer());
                format!("{} {peer:?}", head.block.variant)
            }
            Event::Fault(fault) => fault.reason.into(),
            _ => "nothing".into(),
        };
        while let Event::Body(_) | Event::End = machine.advance(&mut input, &mut shared, 0) {}
        machine.answered(0);
        if !machine.idle() {
            machine = FastCgi::new(2, 0);
        }
        found
    };
    for _ in 0..2 {
        for (address, variant) in [("192.0.2.7", 3), ("192.0.2.8", 2), ("192.0.2.8", 2), ("192.0.2.7", 3)] {
            let seen = ask(address, "50001", "", None);
            assert_eq!(seen, format!("{variant} Some(Ip({address}, 50001))"));
        }
        for (port, seen) in [("65535", "2 Some(Ip(192.0.2.8, 65535))"), ("65536", "gateway-variable")] {
            assert_eq!(ask("192.0.2.8", port, "", None), seen);
        }
        assert_eq!(ask("192.0.2.8", "5000x", "", None), "gateway-variable");
        assert_eq!(ask("192.0.2.x", "50001", "", None), "gateway-variable");
        for (port, number) in [("", 0), ("007", 7), ("50001", 50_001)] {
            assert_eq!(ask("192.0.2.8", port, "", None), format!("2 Some(Ip(192.0.2.8, {number}))"));
        }
        // A body that was announced must come.
        assert!(ask("192.0.2.8", "50001", "5", Some(b"hello")).starts_with("2 "));
        assert_eq!(ask("192.0.2.8", "50001", "5", None), "incomplete");
        assert!(ask("192.0.2.8", "50001", "0", None).starts_with("2 "));
        assert_eq!(ask("192.0.2.8", "50001", "0", Some(b"x")), "gateway-format");
    }
}
