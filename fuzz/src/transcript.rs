//! What came out of a machine, in a form that can be compared and told.
//!
//! Knows: the events' order. Does not know: what should have come out. Panics where the
//! machine breaks its own contract.

use std::fmt::Write;

use wire::{BodyLeft, Event, Fault, Framing, Head, Http1, Shared, Version};

/// One message.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Message {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub host: Option<Vec<u8>>,
    pub is_11: bool,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub framing: Framing,
    pub persistent: bool,
    pub expects_continue: bool,
    pub body: Vec<u8>,
    /// Its body has come to its end.
    pub complete: bool,
    /// Bytes from the first of the line to the last of the empty line.
    pub head_length: usize,
}

/// Everything that one peer's bytes meant.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub struct Transcript {
    pub messages: Vec<Message>,
    pub fault: Option<Fault>,
    /// What the end of the peer's bytes would mean.
    pub at_end: Option<Fault>,
}

impl Message {
    fn new(head: &Head) -> Self {
        Self {
            method: head.method().to_vec(),
            target: head.target().to_vec(),
            path: head.path().to_vec(),
            query: head.query().to_vec(),
            host: head.host().map(<[u8]>::to_vec),
            is_11: head.version == Version::Http11,
            fields: head.block.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            framing: head.framing,
            persistent: head.persistent,
            expects_continue: head.expects_continue,
            body: Vec::new(),
            complete: matches!(head.framing, Framing::None | Framing::Length(0)),
            head_length: head.raw_len(),
        }
    }
}

/// Feeds pieces to a new machine; notes what comes out; checks the verbs' contract.
pub fn play<'a>(shared: &mut Shared, pieces: impl IntoIterator<Item = &'a [u8]>) -> Transcript {
    let mut machine = Http1::new(0, 0);
    let mut found = Transcript::default();
    for piece in pieces {
        let mut input = piece;
        // Each call but the last of a piece tells something new; at most three of them
        // (a request, its body, its end) without a byte between.
        for calls in 0.. {
            assert!(calls <= 3 * piece.len() + 3, "no progress");
            let before = input.len();
            let event = machine.advance(&mut input, shared, 0);
            assert!(input.len() <= before && piece.ends_with(input), "input must shrink from its front");
            match event {
                Event::NeedMore => {
                    assert!(input.is_empty(), "input was left over");
                    break;
                }
                Event::Request(head) => found.messages.push(Message::new(&head)),
                Event::Body(bytes) => {
                    assert!(!bytes.is_empty() && bytes.len() <= before - input.len());
                    let message = found.messages.last_mut().expect("a body has a request");
                    assert!(!message.complete, "a body after its end");
                    message.body.extend_from_slice(bytes);
                }
                Event::End => {
                    let message = found.messages.last_mut().expect("an end has a request");
                    assert!(!std::mem::replace(&mut message.complete, true), "two ends");
                }
                Event::Fault(fault) => {
                    found.fault = Some(fault);
                    found.at_end = machine.eof();
                    refused_for_good(&mut machine, shared, fault);
                    return found;
                }
            }
        }
    }
    place(&machine, &found, shared);
    found.at_end = machine.eof();
    found
}

/// After a fault nothing is a request any more.
fn refused_for_good(machine: &mut Http1, shared: &mut Shared, fault: Fault) {
    let mut more: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(matches!(machine.advance(&mut more, shared, 0), Event::Fault(again) if again == fault));
    assert_eq!(machine.deadline(&shared.limits), None);
}

/// What the machine says of its place agrees with what it has told.
fn place(machine: &Http1, found: &Transcript, shared: &Shared) {
    let complete = found.messages.last().is_none_or(|message| message.complete);
    assert!(!machine.idle() || complete, "idle in the middle of a message");
    let left = machine.body_left();
    match found.messages.last().map(|message| (message.framing, message.body.len() as u64)) {
        Some((Framing::Length(length), got)) if !complete => {
            assert_eq!(left, BodyLeft::Length(length - got));
        }
        Some((Framing::Chunked, _)) if !complete => assert_eq!(left, BodyLeft::Unknown),
        _ => assert_eq!(left, BodyLeft::None),
    }
    assert!(machine.deadline(&shared.limits).is_some());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Transcript {
    /// One line of JSON for `against_h11.py`; bytes are hexadecimal.
    pub fn json(&self, sent: &[u8]) -> String {
        let mut line = format!("{{\"sent\":\"{}\",\"messages\":[", hex(sent));
        for (index, message) in self.messages.iter().enumerate() {
            let fields: Vec<String> = message
                .fields
                .iter()
                .map(|(name, value)| format!("[\"{}\",\"{}\"]", hex(name), hex(value)))
                .collect();
            let _ = write!(
                line,
                "{}{{\"method\":\"{}\",\"target\":\"{}\",\"is_11\":{},\"persistent\":{},\"complete\":{},\
                 \"body\":\"{}\",\"fields\":[{}]}}",
                if index == 0 { "" } else { "," },
                hex(&message.method),
                hex(&message.target),
                message.is_11,
                message.persistent,
                message.complete,
                hex(&message.body),
                fields.join(",")
            );
        }
        let fault = self.fault.map_or("null".to_string(), |fault| format!("\"{}\"", fault.reason));
        let _ = write!(line, "],\"fault\":{fault}}}");
        line
    }
}
