//! A client of the machines of HTTP/2, without a socket: frames to send, and what came of them as text.

use wire::h2::{Event, PREFACE, Receive, Send};
use wire::hpack;
use wire::{Limits, Millis, Policy, Shared};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;
pub const KINDS: &[(&str, u8)] = &[
    ("DATA", DATA),
    ("HEADERS", HEADERS),
    ("PRIORITY", PRIORITY),
    ("RST_STREAM", RST_STREAM),
    ("SETTINGS", SETTINGS),
    ("PUSH_PROMISE", 5),
    ("PING", PING),
    ("GOAWAY", GOAWAY),
    ("WINDOW_UPDATE", WINDOW_UPDATE),
    ("CONTINUATION", CONTINUATION),
    ("PRIORITY_UPDATE", PRIORITY_UPDATE),
    ("UNKNOWN", 0xbe),
];

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// A whole head without content, and one with.
pub const GET: u8 = END_STREAM | END_HEADERS;
pub const POST: u8 = END_HEADERS;

pub const CODES: &[&str] = &[
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

/// A request with these fields behind its pseudo-headers.
pub fn request(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let method = if flags & END_STREAM > 0 { "GET" } else { "POST" };
    let head = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    frame(HEADERS, flags, stream, &block(&[&head[..], fields].concat()))
}

/// What each client begins with; settings are acknowledged.
pub fn hello() -> Vec<u8> {
    [&PREFACE[..], &frame(SETTINGS, 0, 0, b""), &frame(SETTINGS, 1, 0, b"")].concat()
}

/// One connection, both halves of it.
pub struct Connection {
    pub receive: Receive,
    pub send: Send,
    pub shared: Shared,
    pub now: Millis,
    /// Bodies are read as they come.
    pub reads: bool,
    /// What came, content of a stream that follows itself in one line.
    pub events: Vec<String>,
    /// What was sent.
    pub output: Vec<u8>,
}

impl Connection {
    pub fn new(shared: Shared) -> Self {
        let receive = Receive::new(0, true, &shared, 0);
        let (send, events, output) = (Send::default(), Vec::new(), Vec::new());
        Self { receive, send, shared, now: 0, reads: true, events, output }
    }

    /// One that was greeted.
    pub fn greeted() -> Self {
        Self::with(|_| {})
    }

    /// The same with other limits.
    pub fn with(change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Shared::new(Limits::default(), Policy::default());
        change(&mut shared);
        let mut connection = Self::new(shared);
        connection.hear(&hello());
        connection.take();
        connection.events.clear();
        connection
    }

    pub fn hear(&mut self, mut input: &[u8]) {
        loop {
            let event = self.receive.advance(&mut input, &mut self.shared, self.now);
            let told = self.send.hear(&event);
            let last = matches!(event, Event::NeedMore | Event::Fault(_));
            self.note(&event);
            if let Err(overflow) = told {
                let event = self.receive.overflow(overflow, &self.shared, self.now);
                self.note(&event);
            }
            if last {
                return;
            }
        }
    }

    pub fn tick(&mut self) {
        loop {
            let event = self.receive.tick(&self.shared, self.now);
            self.note(&event);
            if matches!(event, Event::NeedMore | Event::Fault(_)) {
                return;
            }
        }
    }

    fn note(&mut self, event: &Event<'_>) {
        let code = |code: &u32| CODES.get(*code as usize).copied().unwrap_or("?");
        let line = match event {
            Event::NeedMore => return,
            Event::Request(request) => {
                self.send.open(request.stream);
                let mut line =
                    format!("request: {} {}", request.stream, request.head.request_line().escape_ascii());
                for (name, value) in request.head.block.fields() {
                    line += &format!("|{}={}", name.escape_ascii(), value.escape_ascii());
                }
                if let Some(protocol) = &request.protocol {
                    line += &format!("|becomes {}", protocol.escape_ascii());
                }
                line + if request.end { "" } else { "|+" }
            }
            Event::Data { stream, data } => {
                if self.reads {
                    self.receive.read(*stream, data.len(), &self.shared, self.now);
                }
                let begin = format!("data: {stream} ");
                match self.events.last_mut() {
                    Some(last) if last.starts_with(&begin) => {
                        *last += &data.escape_ascii().to_string();
                        return;
                    }
                    _ => format!("{begin}{}", data.escape_ascii()),
                }
            }
            Event::End { stream } => format!("end: {stream}"),
            Event::Reset { stream, code: number } => format!("reset: {stream} {}", code(number)),
            Event::StreamError { stream, wrong } => format!("error: {stream} {}", wrong.reason),
            Event::Refused { stream, fault } => {
                // It may have been opened before, where its body was wrong.
                if !self.send.is_open(*stream) {
                    self.send.open(*stream);
                }
                format!("refused: {stream} {} {}", fault.status, fault.reason)
            }
            Event::Window { stream, increment } => format!("window: {stream} {increment}"),
            Event::Settings(settings) => {
                if *settings == Default::default() {
                    return;
                }
                format!("settings: {settings:?}")
            }
            Event::Priority { stream, priority } => {
                let with_others = if priority.incremental { " incremental" } else { "" };
                format!("priority: {stream} {}{with_others}", priority.urgency)
            }
            Event::Goaway { code: number } => format!("goaway: {}", code(number)),
            Event::Fault(wrong) => {
                let line = format!("fault: {}", wrong.reason);
                if self.events.last() == Some(&line) {
                    return;
                }
                line
            }
        };
        self.events.push(line);
    }

    /// What was sent since the last time, in words; what it holds of frames is taken out.
    pub fn take(&mut self) -> Vec<String> {
        self.output.append(&mut self.receive.take_output());
        described(&std::mem::take(&mut self.output))
    }

    /// Answers a stream with a head and content, as far as there is room, and releases it if that was all.
    pub fn answer(&mut self, stream: u32, content: &[u8]) -> usize {
        let mut out = self.receive.take_output();
        let mut head = Vec::new();
        hpack::indexed_status(b"200", &mut head);
        self.send.head(stream, &head, false, &mut out);
        let mut taken = 0;
        loop {
            match self.send.content(stream, &content[taken..], true, &mut out) {
                0 => break,
                more => taken += more,
            }
        }
        self.output.append(&mut out);
        if taken == content.len() {
            self.receive.release(stream, &self.shared, self.now);
        }
        taken
    }

    /// How it has ended, if it has.
    pub fn fault(&self) -> Option<&str> {
        self.events.last().and_then(|line| line.strip_prefix("fault: "))
    }
}

/// Frames in words.
pub fn described(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = rest.split_at(length);
        bytes = rest;
        let kind = KINDS.iter().find(|(_, byte)| *byte == head[3]).map_or("?", |kind| kind.0);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        let code = |at| CODES.get(number(at) as usize).copied().unwrap_or("?");
        let detail = match head[3] {
            RST_STREAM => code(0).to_string(),
            GOAWAY => format!("{} {}", number(0), code(4)),
            WINDOW_UPDATE => number(0).to_string(),
            _ => format!("{:#x} {length}", head[4]),
        };
        found.push(format!("{kind} {stream} {detail}"));
    }
    assert!(bytes.is_empty(), "the last frame is not whole");
    found
}
