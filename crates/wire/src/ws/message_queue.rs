//! Messages of one connection that wait for the application, in order and bounded.
//!
//! Knows: how many wait, and how large they are. Does not know: sockets, or what a message
//! says. Once full, nothing more is read until the application has taken one: a client that
//! is faster than the application is slowed down by TCP, and is not closed for it.

use std::collections::VecDeque;

use super::machine::Message;
use crate::limits::Limits;

/// Places that are kept between messages, so that a question and its answer take no memory anew.
const KEPT: usize = 4;

/// The messages of one connection.
#[derive(Debug, Default)]
pub struct MessageQueue {
    messages: VecDeque<Message>,
    bytes: u64,
}

impl MessageQueue {
    /// True where no further message is taken. One always is, however large it may be: its own
    /// limit is `ws_message_bytes`.
    #[inline]
    pub fn is_full(&self, limits: &Limits) -> bool {
        !self.messages.is_empty()
            && (self.messages.len() as u64 >= limits.ws_queue || self.bytes >= limits.ws_queue_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn push(&mut self, message: Message) {
        self.bytes += message.data.len() as u64;
        self.messages.push_back(message);
    }

    pub fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.data.len() as u64;
        if self.messages.is_empty() && self.messages.capacity() > KEPT {
            // An idle connection keeps next to nothing.
            self.messages = VecDeque::new();
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: usize) -> Message {
        Message { text: false, data: vec![0; size] }
    }

    #[test]
    fn bytes_are_bounded_one_below_at_and_one_above_the_limit() {
        let limits = Limits { ws_queue_bytes: 1000, ..Limits::default() };
        for (size, full) in [(999, false), (1000, true), (1001, true)] {
            let mut queue = MessageQueue::default();
            queue.push(of(size - 1));
            assert!(!queue.is_full(&limits) || size > 1000, "{size}");
            queue.push(of(1));
            assert_eq!(queue.is_full(&limits), full, "{size}");
            queue.pop();
            assert!(!queue.is_full(&limits), "{size}: one byte is left");
        }
    }

    #[test]
    fn messages_are_bounded_one_below_at_and_one_above_the_limit() {
        let limits = Limits { ws_queue: 3, ..Limits::default() };
        let mut queue = MessageQueue::default();
        for full in [false, false, true, true] {
            queue.push(of(0));
            assert_eq!(queue.is_full(&limits), full);
        }
    }

    #[test]
    fn one_message_always_finds_room() {
        let limits = Limits { ws_queue: 0, ws_queue_bytes: 0, ..Limits::default() };
        let mut queue = MessageQueue::default();
        assert!(!queue.is_full(&limits));
        queue.push(of(0));
        assert!(queue.is_full(&limits));
        assert_eq!(queue.pop(), Some(of(0)));
        assert!(queue.pop().is_none() && !queue.is_full(&limits));
    }
}
