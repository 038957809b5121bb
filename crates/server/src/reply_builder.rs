//! What a thread needs to write a reply: the head under construction and the Date line.
//!
//! Knows: the current second. Does not know: connections. One per worker thread, reused.

use reactor::sys::wall_seconds;
use wire::{DateLine, ResponseHead};

/// A thread's writing tools.
pub struct ReplyBuilder {
    pub head: ResponseHead,
    date: DateLine,
    second: u64,
    /// Small pieces that go out together are put together here.
    pub scratch: Vec<u8>,
}

impl ReplyBuilder {
    pub fn new() -> Self {
        let second = wall_seconds();
        Self { head: ResponseHead::new(), date: DateLine::at(second), second, scratch: Vec::new() }
    }

    /// The Date line of this second; built once a second (RFC 9110 §6.6.1).
    #[inline]
    pub fn date(&mut self) -> &DateLine {
        let second = wall_seconds();
        if second != self.second {
            self.second = second;
            self.date = DateLine::at(second);
        }
        &self.date
    }

    /// The head and the line of this second, to be joined.
    #[inline]
    pub fn head_and_date(&mut self) -> (&mut ResponseHead, &DateLine) {
        self.date();
        (&mut self.head, &self.date)
    }
}

impl Default for ReplyBuilder {
    fn default() -> Self {
        Self::new()
    }
}
