//! The body of a reply beside the expected one, and what is said of the reply at its end. Pure; HTTP/1's and HTTP/2's readers call it.

use super::Expectation;
use crate::kinds::Wrong;

/// Bytes of a body so far, and whether all of them were the expected ones.
#[derive(Debug, Default)]
pub struct Body {
    received: u64,
    differs: bool,
}

impl Body {
    pub fn take(&mut self, part: &[u8], expected: &Expectation) {
        if let Some(body) = &expected.body {
            let from = usize::try_from(self.received).unwrap_or(usize::MAX);
            self.differs |= body.get(from..).and_then(|rest| rest.get(..part.len())) != Some(part);
        }
        self.received += part.len() as u64;
    }

    /// What is wrong with a whole reply of this status. `announced` is the length that a reply to HEAD gives.
    pub fn judge(&self, status: u16, announced: Option<u64>, expected: &Expectation) -> Option<Wrong> {
        let length = if expected.head { announced } else { Some(self.received) };
        let length_differs = expected.length.is_some() && expected.length != length;
        let body_differs = match &expected.body {
            Some(body) if !expected.head => self.differs || body.len() as u64 != self.received,
            _ => false,
        };
        if expected.statuses.contains(&status) {
            (length_differs || body_differs).then_some(Wrong::WrongBody)
        } else {
            Some(Wrong::WrongStatus(status))
        }
    }
}
