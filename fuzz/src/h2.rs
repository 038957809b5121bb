//! Frames of HTTP/2 mean the same however they are cut, and nothing gets through that HTTP/1 could not say.
//!
//! Knows: the machines' contract, and what frames look like. Does not know: what is valid; `against_h2.py` asks others.

use wire::h2::{Event, PREFACE, Receive, Send};
use wire::hpack::{self, Decoder, List};
use wire::{Framing, Shared};

use crate::mutate::Random;
use crate::{Input, shared};

/// A connection never holds more: heads, a block, its fields, the table, answers that wait.
const HELD: usize = 1024 * 1024;

/// The target.
pub fn h2(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let mut random = Random::new(u64::from(input.cuts) << 8 | u64::from(input.rules));
    let mut sent = hello();
    sent.extend(frames(input.sent, &mut random));
    // One changed byte, in three of four.
    if input.rules >> 4 & 3 != 0 {
        let at = random.below(sent.len());
        sent[at] = random.number() as u8;
    }
    agreed(input.rules, &sent, &mut random);
    agreed(input.rules, &[&hello(), input.sent].concat(), &mut random);
    block(input.sent);
}

/// A block alone: no more comes of it than there is room for, whatever it says.
fn block(bytes: &[u8]) {
    for room in [0, 100, 10_000] {
        let (mut decoder, mut list) = (Decoder::default(), List::new(room));
        let _ = decoder.decode(bytes, &mut list);
        assert!(list.len() <= room && decoder.table_size() <= 4096);
    }
    // What is written is read as it was.
    let (name, value) = bytes.split_at(bytes.len() / 3);
    let (mut out, mut list) = (Vec::new(), List::new(1 << 20));
    hpack::field(name, value, &mut out);
    Decoder::default().decode(&out, &mut list).expect("a field");
    assert_eq!(list.fields().collect::<Vec<_>>(), [(name, value)]);
}

fn hello() -> Vec<u8> {
    [&PREFACE[..], b"\0\0\0\x04\0\0\0\0\0", b"\0\0\0\x04\x01\0\0\0\0"].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Frames that are mostly right, of pieces of the input.
fn frames(mut sent: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut next = 1;
    while !sent.is_empty() && out.len() < 8192 {
        let (piece, rest) = sent.split_at((1 + random.below(40)).min(sent.len()));
        sent = rest;
        let known = if random.below(8) == 0 { random.number() as u32 % 16 } else { next };
        let number = |random: &mut Random| [0, 0, 1 << 10][random.below(3)] + random.below(3) as u32;
        out.extend(match random.below(14) {
            0..4 => {
                next += 2;
                head(next, piece, random)
            }
            4..8 => frame(0, [0, 1, 8, 9][random.below(4)], known, piece),
            8 => frame(1, 5, known, &pack(&[(b"x-trailer", piece)])),
            9 => frame(3, 0, known, &(random.below(15) as u32).to_be_bytes()),
            10 => frame(8, 0, [0, known][random.below(2)], &number(random).to_be_bytes()),
            11 => {
                let value = number(random).to_be_bytes();
                let name = [1, 2, 4, 5, 8][random.below(5)];
                frame(4, 0, 0, &[0, name, value[0], value[1], value[2], value[3]])
            }
            12 => frame(6, random.below(2) as u8, 0, b"12345678"),
            _ => frame(random.number() as u8, random.number() as u8, known, piece),
        });
    }
    out
}

fn pack(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::field(name, value, &mut block);
        // Into the table, in half of all cases.
        if value.len() % 2 == 0
            && let Some(first) = block.first_mut()
            && *first == 0
        {
            *first = 0x40;
        }
    }
    block
}

/// A HEADERS frame, in one piece or two.
fn head(stream: u32, piece: &[u8], random: &mut Random) -> Vec<u8> {
    let (one, other) = piece.split_at(random.below(piece.len() + 1));
    let names: [&[u8]; 8] =
        [b"accept", b"content-length", b"cookie", b"te", b"host", b"priority", b"x-a", one];
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b":method", [&b"GET"[..], b"POST", b"CONNECT", b"OPTIONS"][random.below(4).min(random.below(4))]),
        (b":scheme", b"https"),
        (b":path", [&b"/"[..], b"/a?b", b"*", other][random.below(4)]),
        (b":authority", b"h"),
    ];
    for _ in 0..random.below(4) {
        let value = [other, b"0", b"5", b"h", b"trailers", b"u=1, i"][random.below(6)];
        fields.push((names[random.below(8)], value));
    }
    if random.below(8) == 0 {
        let at = random.below(fields.len());
        fields.swap(0, at);
    }
    let block = pack(&fields);
    let end = random.below(2) as u8;
    if random.below(3) > 0 {
        return frame(1, 4 | end, stream, &block);
    }
    let (first, second) = block.split_at(random.below(block.len()));
    [frame(1, end, stream, first), frame(9, 4, stream, second)].concat()
}

/// What all ways of cutting the bytes have come to.
fn agreed(rules: u8, sent: &[u8], random: &mut Random) {
    let whole = play(&mut shared(rules), [sent]);
    assert_eq!(play(&mut shared(rules), sent.chunks(1)), whole, "byte by byte: {}", sent.escape_ascii());
    let (first, second) = sent.split_at(random.below(sent.len() + 1));
    let mut warm = shared(rules);
    for _ in 0..2 {
        let cut = play(&mut warm, [first, second]);
        assert_eq!(cut, whole, "cut behind {}: {}", first.len(), sent.escape_ascii());
    }
}

/// What one peer's bytes came to: events in words, content of a stream that follows itself in one; and our frames.
#[derive(Debug, Default, PartialEq, Eq)]
struct Played {
    events: Vec<String>,
    output: Vec<u8>,
}

/// Feeds pieces to new machines, answers what is complete, and checks the verbs' contract.
fn play<'a>(shared: &mut Shared, parts: impl IntoIterator<Item = &'a [u8]>) -> Played {
    let mut one = Connection::new(shared);
    parts.into_iter().for_each(|part| one.hear(part, shared));
    one.played.output.append(&mut one.receive.take_output());
    one.played
}

struct Connection {
    receive: Receive,
    send: Send,
    /// Of each stream whose content may come: how much has.
    bodies: Vec<(u32, usize)>,
    played: Played,
}

impl Connection {
    fn new(shared: &Shared) -> Self {
        let receive = Receive::new(0, true, shared, 0);
        Self { receive, send: Send::default(), bodies: Vec::new(), played: Played::default() }
    }

    fn hear(&mut self, part: &[u8], shared: &mut Shared) {
        let mut input = part;
        for calls in 0.. {
            assert!(calls <= 2 * part.len() + 8, "no progress");
            let event = self.receive.advance(&mut input, shared, 0);
            let told = self.send.hear(&event);
            let last = matches!(event, Event::NeedMore | Event::Fault(_));
            self.note(event, shared);
            if let Err(overflow) = told {
                let event = self.receive.overflow(overflow, shared, 0);
                self.note(event, shared);
            }
            if last {
                break;
            }
        }
        assert!(input.is_empty(), "input was left over");
        assert!(self.receive.held() <= HELD, "{} bytes are held", self.receive.held());
    }

    fn note(&mut self, event: Event<'_>, shared: &Shared) {
        let place = |bodies: &[(u32, usize)], id| bodies.iter().position(|(known, _)| *known == id);
        let line = match event {
            Event::NeedMore => return,
            Event::Request(request) => {
                let head = &request.head;
                let mut line = format!("request {} {}", request.stream, hex(head.request_line()));
                for (name, value) in head.block.fields() {
                    let plain = |byte: &u8| *byte >= 0x20 || *byte == b'\t';
                    assert!(name.iter().chain(value).all(plain), "a control character got through");
                    line += &format!(" {}={}", hex(name), hex(value));
                }
                assert!(head.host().is_some() && head.persistent);
                assert!(!request.end || matches!(head.framing, Framing::None | Framing::Length(0)));
                self.send.open(request.stream);
                if request.end {
                    self.answer(request.stream, shared);
                } else {
                    self.bodies.push((request.stream, 0));
                }
                line
            }
            Event::Data { stream, data } => {
                assert!(!data.is_empty());
                let at = place(&self.bodies, stream).expect("content of a stream that is open");
                self.bodies[at].1 += data.len();
                let begin = format!("data {stream} ");
                match self.played.events.last_mut() {
                    Some(last) if last.starts_with(&begin) => {
                        *last += &hex(data);
                        return;
                    }
                    _ => begin + &hex(data),
                }
            }
            Event::End { stream } => {
                let at = place(&self.bodies, stream).expect("the end of a stream that is open");
                let (_, length) = self.bodies.swap_remove(at);
                self.receive.read(stream, length, shared, 0);
                self.answer(stream, shared);
                format!("end {stream}")
            }
            Event::Reset { stream, .. } | Event::StreamError { stream, .. } => {
                self.bodies.retain(|(known, _)| *known != stream);
                self.receive.release(stream, shared, 0);
                match event {
                    Event::StreamError { wrong, .. } => format!("error {stream} {}", wrong.reason),
                    _ => format!("reset {stream}"),
                }
            }
            Event::Refused { stream, fault } => {
                self.bodies.retain(|(known, _)| *known != stream);
                if !self.send.is_open(stream) {
                    self.send.open(stream);
                }
                self.answer(stream, shared);
                format!("refused {stream} {}", fault.reason)
            }
            Event::Window { stream, increment } => format!("window {stream} {increment}"),
            Event::Settings(settings) => format!("settings {settings:?}"),
            Event::Priority { stream, priority } => format!("priority {stream} {priority:?}"),
            Event::Goaway { code } => format!("goaway {code}"),
            Event::Fault(wrong) => format!("fault {}", wrong.reason),
        };
        // A fault is told again as often as somebody asks.
        if !(line.starts_with("fault") && self.played.events.last() == Some(&line)) {
            self.played.events.push(line);
        }
    }

    /// A short reply, as much of it as goes at once; a window that lets less come keeps the stream open.
    fn answer(&mut self, stream: u32, shared: &Shared) {
        let out = &mut self.played.output;
        out.append(&mut self.receive.take_output());
        let before = self.send.room(stream);
        self.send.head(stream, b"\x88", false, out);
        let taken = self.send.content(stream, b"0123456789", true, out);
        assert!(taken <= before);
        if taken == 10 {
            self.receive.release(stream, shared, 0);
        }
    }
}

/// Blocks of one connection, each in hexadecimal: what each says, in JSON.
pub fn tell_blocks(line: &str, unhex: impl Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    let mut decoder = Decoder::default();
    let mut told = Vec::new();
    for word in line.split_whitespace() {
        let mut list = List::new(1 << 20);
        match decoder.decode(&unhex(word)?, &mut list) {
            Ok(()) => {
                let fields: Vec<String> = list
                    .fields()
                    .map(|(name, value)| format!("[\"{}\",\"{}\"]", hex(name), hex(value)))
                    .collect();
                told.push(format!("[{}]", fields.join(",")));
            }
            Err(wrong) => {
                told.push(format!("\"{wrong:?}\""));
                break;
            }
        }
    }
    Some(format!("[{}]", told.join(",")))
}

/// Frames of one connection behind its greeting, each in hexadecimal: the events of each, in JSON.
pub fn tell_frames(line: &str, unhex: impl Fn(&str) -> Option<Vec<u8>>) -> Option<String> {
    let mut shared = shared(0);
    let mut one = Connection::new(&shared);
    one.hear(&hello(), &mut shared);
    let mut told = Vec::new();
    for word in line.split_whitespace() {
        one.played.events.clear();
        one.hear(&unhex(word)?, &mut shared);
        let events: Vec<String> = one.played.events.iter().map(|event| format!("\"{event}\"")).collect();
        told.push(format!("[{}]", events.join(",")));
    }
    Some(format!("[{}]", told.join(",")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
