//! A reply in FCGI_STDOUT records, and its end (specification 1.0, §5.3, §5.5).
//!
//! Knows: how content is cut into records. Does not know: what it is, or how it is sent. Pure.

use super::record::{END, HEAD, MOST, STDOUT, head_of};

/// What the records of one reply have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Records {
    id: u16,
    keep: bool,
}

/// Bytes that end a reply.
const END_BYTES: usize = HEAD + 2 * HEAD;

impl Records {
    /// Of the request of that number; `keep`: the web server wants to go on after it (FCGI_KEEP_CONN). Zero is no
    /// request's number: nobody is there who could be answered.
    pub fn new(id: u16, keep: bool) -> Self {
        Self { id, keep }
    }

    /// The connection goes on after this reply, as far as the web server is asked.
    pub fn keeps(self) -> bool {
        self.keep
    }

    /// The head of the next record of so much content, and how much of it that record takes.
    #[inline]
    pub fn open(self, content: u64) -> ([u8; HEAD], usize) {
        let length = content.min(MOST as u64) as u16;
        (head_of(STDOUT, self.id, length), usize::from(length))
    }

    /// Bytes that the heads of so much content take.
    pub fn heads(content: u64) -> u64 {
        content.div_ceil(MOST as u64) * HEAD as u64
    }

    /// The end of a reply that is whole: that of its stream, and FCGI_END_REQUEST with an appStatus of zero, which is
    /// what a program that has not failed exits with.
    pub fn end(self) -> [u8; END_BYTES] {
        let mut end = [0; END_BYTES];
        end[..HEAD].copy_from_slice(&head_of(STDOUT, self.id, 0));
        end[HEAD..2 * HEAD].copy_from_slice(&head_of(END, self.id, HEAD as u16));
        end
    }

    /// Puts what stands in a buffer into records, and their end behind them if it is `whole`.
    pub fn wrap(self, bytes: &mut Vec<u8>, whole: bool) {
        if self.id == 0 {
            return bytes.clear();
        }
        if (1..=MOST).contains(&bytes.len()) {
            let (length, (head, _)) = (bytes.len(), self.open(bytes.len() as u64));
            bytes.reserve(HEAD + END_BYTES);
            bytes.extend_from_slice(&head);
            bytes.copy_within(..length, HEAD);
            bytes[..HEAD].copy_from_slice(&head);
        } else {
            let content = std::mem::take(bytes);
            self.add(&content, bytes);
        }
        if whole {
            bytes.extend_from_slice(&self.end());
        }
    }

    /// Adds content in as many records as it needs. An empty one would end the stream, and is not made.
    pub fn add(self, content: &[u8], out: &mut Vec<u8>) {
        for part in content.chunks(MOST) {
            out.extend_from_slice(&self.open(part.len() as u64).0);
            out.extend_from_slice(part);
        }
    }
}
