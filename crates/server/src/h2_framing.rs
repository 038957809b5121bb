//! What streams of HTTP/2 send, as frames.
//!
//! Knows: that a head is a block of fields, and remembers the last one, as replies repeat themselves. Does not know: frames
//! and windows (`wire::h2::Send` does), or whose turn it is. Called under the lock of `send_half.rs`.

use wire::h2::{Code, Event, Overflow, Send, reply};

use crate::send_half::Framing;

/// Heads of more bytes are rarely repeated.
const KEPT_BYTES: usize = 1024;

/// The sending half of one connection.
#[derive(Default)]
pub struct H2Framing {
    send: Send,
    /// The last head, ...
    head: Vec<u8>,
    /// ... and its block.
    block: Vec<u8>,
}

impl H2Framing {
    fn encode(&mut self, head: &[u8]) {
        if self.head == head {
            return;
        }
        self.block.clear();
        reply::encode(head, &mut self.block);
        self.head.clear();
        if head.len() <= KEPT_BYTES {
            self.head.extend_from_slice(head);
        } else {
            self.head.shrink_to(KEPT_BYTES);
        }
    }
}

impl Framing for H2Framing {
    fn open(&mut self, stream: u32) {
        self.send.open(stream);
    }

    fn head(&mut self, stream: u32, head: &[u8], end: bool, out: &mut Vec<u8>) {
        self.encode(head);
        self.send.head(stream, &self.block, end, out);
        if self.head.is_empty() {
            self.block = Vec::new();
        }
    }

    fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize {
        self.send.content(stream, content, end, out)
    }

    fn room(&self, stream: u32) -> usize {
        self.send.room(stream)
    }

    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.send.end(stream, out);
    }

    fn trailers(&mut self, stream: u32, lines: &[u8], out: &mut Vec<u8>) {
        let mut block = Vec::new();
        reply::encode_trailers(lines, &mut block);
        self.send.head(stream, &block, true, out);
    }

    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.send.reset(stream, Code::InternalError, out);
    }

    fn give_up(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.send.reset(stream, Code::Cancel, out);
    }

    fn hear(&mut self, event: &Event<'_>) -> Result<(), Overflow> {
        self.send.hear(event)
    }

    fn take_frames(&mut self) -> u32 {
        self.send.take_frames()
    }
}
