//! What a WebSocket client sends means the same however it is cut, and the same as to a second
//! reader that has all of it at once and knows neither states nor limits of memory.
//!
//! Knows: RFC 6455 a second time, written for shortness. Does not know: permessage-deflate's
//! inside, for which both ask the same library.

use std::cell::RefCell;

use wire::Limits;
use wire::ws::{Deflater, WsEvent, WsMachine, code};

use crate::Input;
use crate::mutate::Random;

/// First bytes that conversations are made of: random ones would rarely get beyond the first.
const FIRST: [u8; 12] = [0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8a, 0x88, 0xc1, 0x41, 0xc2];

/// The target.
pub fn websocket(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let deflate = input.rules & 1 != 0;
    let sent = if input.rules & 2 != 0 { input.sent.to_vec() } else { frames(input.sent) };
    let limits = Limits { ws_message_bytes: 60, ws_fragments: 4, ..Limits::default() };
    let whole = play(deflate, &limits, [sent.as_slice()]);
    assert_eq!(play(deflate, &limits, sent.chunks(1)), whole, "byte by byte: {}", sent.escape_ascii());
    let mut random = Random::new(u64::from(input.cuts));
    for _ in 0..3 {
        let (first, second) = sent.split_at(random.below(sent.len() + 1));
        assert_eq!(play(deflate, &limits, [first, second]), whole, "cut: {}", sent.escape_ascii());
    }
    let (second, complete) = again(deflate, &limits, &sent);
    // Of a frame that never ends, the machine may know already that it is wrong.
    let known = if complete { &whole[..] } else { &whole[..second.len().min(whole.len())] };
    assert_eq!(known, second, "the second reader differs: {}", sent.escape_ascii());
}

/// Bytes as frames: each begins with a choice of its first byte and a length.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [choice, length, rest @ ..] = bytes {
        let size = usize::from(length & 0x3f).min(rest.len());
        let (data, rest) = rest.split_at(size);
        out.push(FIRST[usize::from(*choice) % FIRST.len()]);
        out.push(0x80 | size as u8);
        let mask = [*choice, *length, 3, 4];
        out.extend(mask);
        out.extend(data.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes = rest;
    }
    out
}

thread_local! {
    /// Making one takes longer than an input.
    static DEFLATER: RefCell<Deflater> = RefCell::new(Deflater::new());
}

/// What came of some input, in words that both readers have.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Message(bool, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16),
    Fault(u16),
}

fn play<'a>(deflate: bool, limits: &Limits, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<Heard> {
    let (mut machine, mut heard) = (WsMachine::new(deflate), Vec::new());
    for part in parts {
        let mut input = part;
        loop {
            heard.push(
                match DEFLATER.with_borrow_mut(|deflater| machine.advance(&mut input, limits, deflater)) {
                    WsEvent::NeedMore => break,
                    WsEvent::Message(message) => Heard::Message(message.text, message.data),
                    WsEvent::Ping(data) => Heard::Ping(data),
                    WsEvent::Pong(data) => Heard::Pong(data),
                    WsEvent::Close(closing) => Heard::Close(closing.code),
                    WsEvent::Fault(closing) => Heard::Fault(closing.code),
                },
            );
        }
        assert!(input.is_empty(), "input was left");
        assert!(machine.kept() < 4096, "more is kept than limits allow");
    }
    heard
}

/// The second reader. False: the input ends in the middle of a frame.
fn again(deflate: bool, limits: &Limits, mut bytes: &[u8]) -> (Vec<Heard>, bool) {
    let mut heard = Vec::new();
    let mut message: Option<(u8, bool, u64, Vec<u8>)> = None;
    loop {
        let Some((frame, rest)) = frame(bytes) else { return (heard, bytes.is_empty()) };
        let (first, masked, declared, data) = frame;
        let (last, rsv, opcode) = (first & 0x80 != 0, first & 0x70, first & 0x0f);
        let control = opcode >= 8;
        let bad = !(rsv == 0 || rsv == 0x40 && deflate && (opcode == 1 || opcode == 2))
            || ![0, 1, 2, 8, 9, 10].contains(&opcode)
            || !masked
            || control && (!last || declared > 125)
            || opcode == 0 && message.is_none()
            || (opcode == 1 || opcode == 2) && message.is_some();
        if bad {
            heard.push(Heard::Fault(code::PROTOCOL_ERROR));
            return (heard, true);
        }
        if control {
            let Some(data) = data else { return (heard, false) };
            match (opcode, data.as_slice()) {
                (9, _) => heard.push(Heard::Ping(data)),
                (10, _) => heard.push(Heard::Pong(data)),
                (_, []) => heard.push(Heard::Close(code::NO_STATUS)),
                (_, [high, low, reason @ ..]) if code::may_be_sent(u16::from_be_bytes([*high, *low])) => {
                    heard.push(match std::str::from_utf8(reason) {
                        Ok(_) => Heard::Close(u16::from_be_bytes([*high, *low])),
                        Err(_) => Heard::Fault(code::BAD_DATA),
                    });
                }
                _ => heard.push(Heard::Fault(code::PROTOCOL_ERROR)),
            }
            if opcode == 8 || matches!(heard.last(), Some(Heard::Fault(_))) {
                return (heard, true);
            }
        } else {
            let (kind, compressed, fragments, mut all) =
                message.take().unwrap_or((opcode, rsv == 0x40, 0, Vec::new()));
            if fragments + 1 > limits.ws_fragments || declared > limits.ws_message_bytes - all.len() as u64 {
                heard.push(Heard::Fault(code::TOO_BIG));
                return (heard, true);
            }
            let Some(data) = data else { return (heard, false) };
            all.extend(data);
            // A fault that shows in a fragment ends the conversation there.
            let broken = kind == 1
                && !compressed
                && std::str::from_utf8(&all).is_err_and(|error| last || error.error_len().is_some());
            if broken {
                heard.push(Heard::Fault(code::BAD_DATA));
                return (heard, true);
            }
            if last {
                heard.push(whole(kind == 1, compressed, all, limits));
                if matches!(heard.last(), Some(Heard::Fault(_))) {
                    return (heard, true);
                }
            } else {
                message = Some((kind, compressed, fragments + 1, all));
            }
        }
        bytes = rest;
    }
}

fn whole(text: bool, compressed: bool, data: Vec<u8>, limits: &Limits) -> Heard {
    let data = if compressed {
        match DEFLATER.with_borrow_mut(|one| one.inflate(&data, limits.ws_message_bytes as usize)) {
            wire::ws::Inflated::All(data) => data,
            wire::ws::Inflated::TooBig => return Heard::Fault(code::TOO_BIG),
            wire::ws::Inflated::Broken => return Heard::Fault(code::BAD_DATA),
        }
    } else {
        data
    };
    if text && std::str::from_utf8(&data).is_err() {
        Heard::Fault(code::BAD_DATA)
    } else {
        Heard::Message(text, data)
    }
}

/// First byte, whether it is masked, the declared length, and the data if all of it is there.
type Frame = (u8, bool, u64, Option<Vec<u8>>);

/// A frame and what is behind it. None: its head is not complete.
fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let [first, second, rest @ ..] = bytes else { return None };
    let masked = second & 0x80 != 0;
    let length = second & 0x7f;
    // What two bytes show is enough for these.
    if !masked || first & 0x08 != 0 && length > 125 {
        return Some(((*first, masked, u64::from(length), None), &[]));
    }
    let more = match length {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let number = rest.get(..more)?.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    let declared = if more == 0 { u64::from(length) } else { number };
    let mask = rest.get(more..more + 4)?;
    let rest = &rest[more + 4..];
    match usize::try_from(declared).ok().and_then(|size| rest.split_at_checked(size)) {
        Some((data, rest)) => {
            let data = data.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            Some(((*first, masked, declared, Some(data)), rest))
        }
        None => Some(((*first, masked, declared, None), &[])),
    }
}
