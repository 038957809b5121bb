//! What a client sends, frame by frame (RFC 6455 §5).
//!
//! Knows: one connection's place in a frame and in a message. Does not know: sockets. Memory
//! is taken as bytes arrive, never on the word of a length; between messages there is none.
//!
//! ```text
//!   HEAD ──► PAYLOAD ──► HEAD        any ──(fault, close)──► ENDED, for good
//! ```

use std::sync::Arc;

use super::code;
use super::deflate::{Deflater, Inflated};
use super::frame::Kind;
use crate::limits::Limits;

/// The longest head: two bytes, eight of length, four of mask.
const HEAD_BYTES: usize = 14;

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Text, which is valid UTF-8; otherwise binary.
    pub text: bool,
    pub data: Vec<u8>,
}

/// How a conversation ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    pub code: u16,
    pub reason: Arc<str>,
}

/// What the input meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WsEvent {
    /// All of it was consumed.
    NeedMore,
    Message(Message),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The client's close frame; 1005 where it has no code (§7.1.5).
    Close(Closing),
    /// The client broke a rule: close with this.
    Fault(Closing),
}

/// A frame that is being received.
#[derive(Debug, Clone, Copy)]
struct Frame {
    last: bool,
    opcode: u8,
    left: u64,
    mask: [u8; 4],
    /// How far the mask is rotated.
    at: usize,
}

#[derive(Debug)]
enum State {
    Head { bytes: [u8; HEAD_BYTES], have: usize },
    Payload(Frame),
    Ended,
}

/// A message of which some fragments have arrived.
#[derive(Debug)]
struct Partial {
    text: bool,
    compressed: bool,
    fragments: u64,
    /// How much of the text has been found to be UTF-8.
    valid: usize,
    data: Vec<u8>,
}

/// The machine of one connection.
#[derive(Debug)]
pub struct WsMachine {
    state: State,
    message: Option<Partial>,
    control: Vec<u8>,
    /// permessage-deflate was agreed on.
    deflate: bool,
}

impl WsMachine {
    pub fn new(deflate: bool) -> Self {
        Self { state: State::empty(), message: None, control: Vec::new(), deflate }
    }

    /// Consumes from the front of the input and says what it meant.
    pub fn advance(&mut self, input: &mut &[u8], limits: &Limits, deflater: &mut Deflater) -> WsEvent {
        match self.step(input, limits, deflater) {
            Ok(event) => {
                if matches!(event, WsEvent::Close(_)) {
                    self.end();
                }
                event
            }
            Err((code, reason)) => {
                self.end();
                WsEvent::Fault(Closing { code, reason: reason.into() })
            }
        }
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.message = None;
        self.control = Vec::new();
    }

    fn step(
        &mut self,
        input: &mut &[u8],
        limits: &Limits,
        deflater: &mut Deflater,
    ) -> Result<WsEvent, Wrong> {
        loop {
            match &mut self.state {
                State::Ended => {
                    *input = &[];
                    return Ok(WsEvent::NeedMore);
                }
                State::Head { bytes, have } => {
                    let wanted = head_length(&bytes[..*have]);
                    let more = (wanted - *have).min(input.len());
                    bytes[*have..*have + more].copy_from_slice(&input[..more]);
                    *input = &input[more..];
                    *have += more;
                    if *have < 2 {
                        return Ok(WsEvent::NeedMore);
                    }
                    // What two bytes show is judged by two bytes, however they are cut.
                    let (first, second) = (bytes[0], bytes[1]);
                    let have_all = *have == head_length(&bytes[..*have]);
                    let frame = have_all.then(|| Frame::read(&bytes[..*have]));
                    self.judge(first, second)?;
                    if let Some(frame) = frame {
                        let frame = frame?;
                        self.begin(frame, first, limits)?;
                        self.state = State::Payload(frame);
                    } else if input.is_empty() {
                        return Ok(WsEvent::NeedMore);
                    }
                }
                State::Payload(frame) => {
                    let mut frame = *frame;
                    let size = usize::try_from(frame.left).unwrap_or(usize::MAX).min(input.len());
                    let (part, rest) = input.split_at(size);
                    *input = rest;
                    self.add(&mut frame, part)?;
                    frame.left -= size as u64;
                    if frame.left > 0 {
                        self.state = State::Payload(frame);
                        return Ok(WsEvent::NeedMore);
                    }
                    self.state = State::empty();
                    if let Some(event) = self.finish(frame, limits, deflater)? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The first two bytes (§5.2, §5.4, §5.5).
    fn judge(&self, first: u8, second: u8) -> Result<(), Wrong> {
        let (last, opcode) = (first & 0x80 != 0, first & 0x0f);
        let control = opcode & 0x08 != 0;
        let rsv1_allowed = self.deflate && matches!(opcode, 1 | 2);
        if first & 0x30 != 0 || (first & 0x40 != 0 && !rsv1_allowed) {
            return Err(protocol("a reserved bit is set"));
        }
        if !matches!(opcode, 0..=2 | 8..=10) {
            return Err(protocol("the opcode is reserved"));
        }
        if second & 0x80 == 0 {
            return Err(protocol("a client's frames are masked"));
        }
        if control && !last {
            return Err(protocol("a control frame is fragmented"));
        }
        if control && second & 0x7f > 125 {
            return Err(protocol("a control frame is too long"));
        }
        match (opcode, &self.message) {
            (0, None) => Err(protocol("there is no message to continue")),
            (1 | 2, Some(_)) => Err(protocol("a message begins inside another")),
            _ => Ok(()),
        }
    }

    /// The head is complete: its length is judged before anything is kept.
    fn begin(&mut self, frame: Frame, first: u8, limits: &Limits) -> Result<(), Wrong> {
        if frame.is_control() {
            return Ok(());
        }
        let message = self.message.get_or_insert_with(|| Partial {
            text: frame.opcode == 1,
            compressed: first & 0x40 != 0,
            fragments: 0,
            valid: 0,
            data: Vec::new(),
        });
        message.fragments += 1;
        if message.fragments > limits.ws_fragments {
            return Err((code::TOO_BIG, "the message has too many fragments"));
        }
        if frame.left > limits.ws_message_bytes.saturating_sub(message.data.len() as u64) {
            return Err((code::TOO_BIG, "the message is too large"));
        }
        Ok(())
    }

    /// Part of a frame's payload.
    fn add(&mut self, frame: &mut Frame, part: &[u8]) -> Result<(), Wrong> {
        let control = frame.is_control();
        let into = match &mut self.message {
            Some(message) if !control => &mut message.data,
            _ => &mut self.control,
        };
        let from = into.len();
        into.extend_from_slice(part);
        unmask(&mut into[from..], frame);
        match &mut self.message {
            Some(message) if !control => message.judge_text(false),
            _ => Ok(()),
        }
    }

    /// A frame is complete; what is it that is, too?
    fn finish(
        &mut self,
        frame: Frame,
        limits: &Limits,
        deflater: &mut Deflater,
    ) -> Result<Option<WsEvent>, Wrong> {
        if frame.is_control() {
            let data = std::mem::take(&mut self.control);
            return Ok(Some(match frame.opcode {
                8 => WsEvent::Close(closing(&data)?),
                9 => WsEvent::Ping(data),
                _ => WsEvent::Pong(data),
            }));
        }
        if !frame.last {
            return Ok(None);
        }
        let Some(mut message) = self.message.take() else { return Ok(None) };
        if message.compressed {
            let most = usize::try_from(limits.ws_message_bytes).unwrap_or(usize::MAX);
            message.data = match deflater.inflate(&message.data, most) {
                Inflated::All(data) => data,
                Inflated::TooBig => return Err((code::TOO_BIG, "the message is too large")),
                Inflated::Broken => return Err((code::BAD_DATA, "the message is no deflated data")),
            };
            message.compressed = false;
        }
        message.judge_text(true)?;
        Ok(Some(WsEvent::Message(Message { text: message.text, data: message.data })))
    }

    /// Bytes that are kept of what is incomplete.
    pub fn kept(&self) -> usize {
        self.control.capacity() + self.message.as_ref().map_or(0, |message| message.data.capacity())
    }
}

/// What is wrong, and the code to close with.
type Wrong = (u16, &'static str);

fn protocol(reason: &'static str) -> Wrong {
    (code::PROTOCOL_ERROR, reason)
}

impl State {
    fn empty() -> Self {
        Self::Head { bytes: [0; HEAD_BYTES], have: 0 }
    }
}

impl Partial {
    /// Text is UTF-8, which is found out as it comes (§8.1); deflated text at its end.
    fn judge_text(&mut self, complete: bool) -> Result<(), Wrong> {
        if !self.text || self.compressed {
            return Ok(());
        }
        match std::str::from_utf8(&self.data[self.valid..]) {
            Ok(_) => self.valid = self.data.len(),
            // The last character may go on in the next bytes.
            Err(error) if error.error_len().is_none() && !complete => self.valid += error.valid_up_to(),
            Err(_) => return Err((code::BAD_DATA, "the text is not UTF-8")),
        }
        Ok(())
    }
}

/// How long a head is, as far as its first bytes tell.
fn head_length(bytes: &[u8]) -> usize {
    match bytes.get(1).map(|second| second & 0x7f) {
        None => 2,
        Some(126) => 8,
        Some(127) => 14,
        Some(_) => 6,
    }
}

impl Frame {
    /// A complete head, masked.
    fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
        let left = match bytes[1] & 0x7f {
            // §5.2: the shortest form, and the highest bit is zero.
            126 => number(&bytes[2..4]),
            127 => number(&bytes[2..10]),
            short => u64::from(short),
        };
        if left >> 63 != 0 {
            return Err((code::TOO_BIG, "the message is too large"));
        }
        let mut mask = [0; 4];
        mask.copy_from_slice(&bytes[bytes.len() - 4..]);
        Ok(Self { last: bytes[0] & 0x80 != 0, opcode: bytes[0] & 0x0f, left, mask, at: 0 })
    }

    fn is_control(&self) -> bool {
        self.opcode & 0x08 != 0
    }
}

/// Undoes the mask (§5.3).
fn unmask(bytes: &mut [u8], frame: &mut Frame) {
    let mut mask = frame.mask;
    mask.rotate_left(frame.at & 3);
    let wide = u64::from_ne_bytes([mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3]]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    frame.at = frame.at.wrapping_add(bytes.len());
}

/// What a close frame says (§5.5.1, §7.4).
fn closing(data: &[u8]) -> Result<Closing, Wrong> {
    let (code, reason) = match data {
        [] => return Ok(Closing { code: code::NO_STATUS, reason: "".into() }),
        [_] => return Err(protocol("a close frame of one byte")),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    if !code::may_be_sent(code) {
        return Err(protocol("a close code that must not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| (code::BAD_DATA, "the reason is not UTF-8"))?;
    Ok(Closing { code, reason: reason.into() })
}

/// Opcodes of frames, for those who write them.
impl From<Kind> for u8 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}
