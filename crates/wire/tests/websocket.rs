//! The WebSocket machine: valid conversations in every cut, and each rule of RFC 6455 that a
//! client can break.

use wire::Limits;
use wire::ws::{Closing, Deflater, Message, WIDEST, WsEvent, WsMachine};

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it: `first` is the whole first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        n @ 0..=125 => out.push(0x80 | n as u8),
        n @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// All events of some input that arrives in these parts.
fn events(parts: &[&[u8]], deflate: bool, limits: &Limits) -> Vec<WsEvent> {
    let mut machine = WsMachine::new(deflate);
    let mut deflater = Deflater::new();
    let mut all = Vec::new();
    for part in parts {
        let mut input = *part;
        loop {
            match machine.advance(&mut input, limits, &mut deflater) {
                WsEvent::NeedMore => break,
                event => all.push(event),
            }
        }
        assert!(input.is_empty());
    }
    all
}

/// The same events, however the input is cut; those of the whole are given back.
fn in_every_cut(input: &[u8], deflate: bool) -> Vec<WsEvent> {
    let limits = Limits { ws_message_bytes: 70_000, ws_fragments: 8, ..Limits::default() };
    let whole = events(&[input], deflate, &limits);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(events(&bytes, deflate, &limits), whole, "byte by byte: {input:02x?}");
    for at in 0..input.len().min(300) {
        let (a, b) = input.split_at(at);
        assert_eq!(events(&[a, b], deflate, &limits), whole, "cut at {at}: {input:02x?}");
    }
    whole
}

fn text(data: &str) -> WsEvent {
    WsEvent::Message(Message { text: true, data: data.into() })
}

fn fault(all: &[WsEvent]) -> u16 {
    match all.last() {
        Some(WsEvent::Fault(Closing { code, .. })) => *code,
        other => panic!("no fault: {other:?}"),
    }
}

#[test]
fn messages_arrive_whole_in_every_cut() {
    let mut input = frame(0x81, "Grüße".as_bytes());
    input.extend(frame(0x82, &[0, 255, 1]));
    input.extend(frame(0x81, b""));
    let binary = WsEvent::Message(Message { text: false, data: vec![0, 255, 1] });
    assert_eq!(in_every_cut(&input, false), [text("Grüße"), binary, text("")]);
}

#[test]
fn lengths_of_every_form_are_read() {
    for size in [125, 126, 65_535, 65_536] {
        let limits = Limits::default();
        let data = vec![7; size];
        let all = events(&[&frame(0x82, &data)], false, &limits);
        assert_eq!(all, [WsEvent::Message(Message { text: false, data })], "{size}");
    }
}

#[test]
fn fragments_are_joined_around_control_frames() {
    let mut input = frame(0x01, "a€".as_bytes().split_at(2).0);
    input.extend(frame(0x89, b"are you there"));
    input.extend(frame(0x00, "a€".as_bytes().split_at(2).1));
    input.extend(frame(0x8a, b""));
    input.extend(frame(0x80, b"!"));
    let all = in_every_cut(&input, false);
    assert_eq!(all, [WsEvent::Ping(b"are you there".to_vec()), WsEvent::Pong(Vec::new()), text("a€!")]);
}

#[test]
fn a_close_ends_the_conversation() {
    let mut input = frame(0x88, &[&1000u16.to_be_bytes()[..], "adiós".as_bytes()].concat());
    input.extend(frame(0x81, b"never read"));
    let close = WsEvent::Close(Closing { code: 1000, reason: "adiós".into() });
    assert_eq!(in_every_cut(&input, false), [close]);
    let none = WsEvent::Close(Closing { code: 1005, reason: "".into() });
    assert_eq!(in_every_cut(&frame(0x88, b""), false), [none]);
}

#[test]
fn each_broken_rule_is_1002() {
    let cases: [(&str, Vec<u8>); 14] = [
        ("unmasked (§5.1)", b"\x81\x05hello".to_vec()),
        ("RSV1 without the extension (§5.2)", frame(0xc1, b"hello")),
        ("RSV2", frame(0xa1, b"hello")),
        ("RSV3", frame(0x91, b"hello")),
        ("opcode 3", frame(0x83, b"")),
        ("opcode 7", frame(0x87, b"")),
        ("opcode 11", frame(0x8b, b"")),
        ("opcode 15", frame(0x8f, b"")),
        ("a ping in fragments (§5.5)", frame(0x09, b"")),
        ("a ping of 126 bytes (§5.5)", frame(0x89, &[0; 126])),
        ("nothing to continue (§5.4)", frame(0x80, b"x")),
        ("a message inside another (§5.4)", [frame(0x01, b"a"), frame(0x81, b"b")].concat()),
        ("a close of one byte (§5.5.1)", frame(0x88, b"x")),
        ("an unmasked close", b"\x88\x00".to_vec()),
    ];
    for (name, input) in cases {
        assert_eq!(fault(&in_every_cut(&input, false)), 1002, "{name}");
    }
}

#[test]
fn close_codes_that_must_not_be_sent_are_1002() {
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
        assert_eq!(fault(&in_every_cut(&frame(0x88, &code.to_be_bytes()), false)), 1002, "{code}");
    }
    for code in [1000u16, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 4999] {
        let all = in_every_cut(&frame(0x88, &code.to_be_bytes()), false);
        assert_eq!(all, [WsEvent::Close(Closing { code, reason: "".into() })]);
    }
    assert_eq!(
        fault(&in_every_cut(&frame(0x88, b"\x03\xe8\xff"), false)),
        1007,
        "a reason that is not UTF-8"
    );
}

#[test]
fn text_that_is_not_utf_8_fails_as_soon_as_it_shows() {
    // F4 90: beyond U+10FFFF with the second byte; the rest of the frame never comes.
    let mut input = frame(0x01, b"ok");
    input.extend(&frame(0x80, b"\xf4\x90\x80\x80")[..8]);
    assert_eq!(fault(&in_every_cut(&input, false)), 1007);
    assert_eq!(fault(&in_every_cut(&frame(0x81, b"\xe2\x82"), false)), 1007, "a cut character");
    assert_eq!(fault(&in_every_cut(&frame(0x81, b"\xed\xa0\x80"), false)), 1007, "a surrogate");
    assert_eq!(fault(&in_every_cut(&frame(0x81, b"\xc0\xaf"), false)), 1007, "an overlong form");
}

#[test]
fn what_is_too_large_is_1009_before_it_is_kept() {
    let declared = |length: u64| [&[0x82, 0xff][..], &length.to_be_bytes(), &MASK].concat();
    for length in [1 << 63, u64::MAX, 10_000_000_000, 70_001] {
        assert_eq!(fault(&in_every_cut(&declared(length), false)), 1009, "{length}");
    }
    let mut machine = WsMachine::new(false);
    let input = declared(69_999);
    let (limits, mut deflater) = (Limits { ws_message_bytes: 70_000, ..Limits::default() }, Deflater::new());
    assert_eq!(machine.advance(&mut &input[..], &limits, &mut deflater), WsEvent::NeedMore);
    assert!(machine.kept() < 100, "memory was taken on the word of a length");
    let sum = [frame(0x02, &[0; 69_000]), frame(0x80, &[0; 1001])].concat();
    assert_eq!(fault(&events(&[&sum], false, &limits)), 1009);
}

#[test]
fn fragments_are_counted_even_without_content() {
    let mut input = frame(0x01, b"");
    for _ in 0..8 {
        input.extend(frame(0x00, b""));
    }
    assert_eq!(fault(&in_every_cut(&input, false)), 1009);
}

#[test]
fn deflated_messages_are_inflated_and_judged() {
    let mut deflater = Deflater::new();
    let long = "Grüße ".repeat(2000);
    let small = deflater.deflate(long.as_bytes(), WIDEST).expect("it becomes smaller");
    let all = in_every_cut(&frame(0xc1, &small), true);
    assert_eq!(all, [text(&long)]);
    let (a, b) = small.split_at(small.len() / 2);
    let fragments = [frame(0x41, a), frame(0x89, b"x"), frame(0x80, b)].concat();
    assert_eq!(in_every_cut(&fragments, true), [WsEvent::Ping(b"x".to_vec()), text(&long)]);
    assert_eq!(fault(&in_every_cut(&frame(0xc1, &[0xff; 40]), true)), 1007);
    let bomb = deflater.deflate(&vec![0; 70_001], WIDEST).expect("it becomes smaller");
    assert_eq!(fault(&in_every_cut(&frame(0xc2, &bomb), true)), 1009);
    let noise = deflater.deflate(&[0xff; 500], WIDEST).expect("it becomes smaller");
    assert_eq!(fault(&in_every_cut(&frame(0xc1, &noise), true)), 1007, "inflated text that is not UTF-8");
    assert_eq!(
        fault(&in_every_cut(&[frame(0x41, a), frame(0xc0, b)].concat(), true)),
        1002,
        "RSV1 goes first"
    );
    assert_eq!(fault(&in_every_cut(&frame(0xc9, b"x"), true)), 1002, "control frames are never deflated");
}

#[test]
fn between_messages_nothing_is_kept() {
    let (limits, mut deflater) = (Limits::default(), Deflater::new());
    let mut machine = WsMachine::new(true);
    let input = frame(0x82, &[1; 50_000]);
    assert!(matches!(machine.advance(&mut &input[..], &limits, &mut deflater), WsEvent::Message(_)));
    assert_eq!(machine.kept(), 0);
    assert!(size_of::<WsMachine>() <= 128, "{}", size_of::<WsMachine>());
}
