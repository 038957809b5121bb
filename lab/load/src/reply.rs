//! The reply as a strict machine: bytes in, a judgement out. Knows no socket, clock or load; a client's.
//!
//! ```text
//! Head ──► Counted(n) ──────────────┐
//!   │────► Chunks ──────────────────┼──► Reply, and Head again
//!   │────► UntilEnd ──(end)─────────┤
//!   └────► no body (HEAD 1xx 204 304)┘     any state ──► Bad(kind), and nothing after it
//! ```
//!
//! Between replies the machine holds no memory; a head that comes in pieces is the only thing that it keeps.

mod body;
mod chunks;
mod head;

pub use body::Body;

use crate::kinds::Wrong;
use chunks::Chunks;
use head::{Framing, Head};
use std::sync::Arc;

/// Heads and trailers may be so long: as much as browsers take, and a bound on what a client can be made to hold.
pub const LONGEST_HEAD: usize = 64 * 1024;

/// What a request expects of its reply.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// The request was HEAD: no body follows, and `length` is that of Content-Length.
    pub head: bool,
    pub statuses: Vec<u16>,
    pub length: Option<u64>,
    pub body: Option<Arc<[u8]>>,
}

/// A whole, well-formed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// Whether the connection can carry another request.
    pub keeps_alive: bool,
    /// The status, length or body was not the expected one.
    pub wrong: Option<Wrong>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Reply(Reply),
    Bad(Wrong),
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Counted {
        left: u64,
    },
    Chunks(Chunks),
    UntilEnd,
}

/// Reads the replies of one connection, one after another.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    /// A head that has not come whole.
    partial: Vec<u8>,
    status: u16,
    keeps_alive: bool,
    body: Body,
    /// HEAD: the length that the reply announced.
    announced: Option<u64>,
}

impl Reader {
    /// Whether some of a reply was read and the rest is awaited.
    pub fn is_within(&self) -> bool {
        !matches!(self.state, State::Head) || !self.partial.is_empty()
    }

    /// Takes bytes off the front of `input` until a reply is whole, something is wrong, or they are used up (None).
    pub fn step(&mut self, input: &mut &[u8], expected: &Expectation) -> Option<Step> {
        loop {
            match &mut self.state {
                State::Head => match self.take_head(input)? {
                    Err(wrong) => return Some(Step::Bad(wrong)),
                    Ok(head) if (100..200).contains(&head.status) && head.status != 101 => {}
                    Ok(head) => {
                        if let Some(step) = self.begin(&head, expected) {
                            return Some(step);
                        }
                    }
                },
                State::Counted { left } => {
                    if *left == 0 {
                        return Some(self.finish(expected));
                    }
                    if input.is_empty() {
                        return None;
                    }
                    let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                    *left -= take as u64;
                    let (body, rest) = input.split_at(take);
                    *input = rest;
                    self.body.take(body, expected);
                }
                State::Chunks(chunks) => match chunks.step(input) {
                    Ok(Some(chunks::Part::Data(data))) => self.body.take(data, expected),
                    Ok(Some(chunks::Part::End)) => return Some(self.finish(expected)),
                    Ok(None) => return None,
                    Err(wrong) => return Some(Step::Bad(wrong)),
                },
                State::UntilEnd => {
                    if input.is_empty() {
                        return None;
                    }
                    self.body.take(std::mem::take(input), expected);
                }
            }
        }
    }

    /// The connection has ended: a reply without a length is whole now, and every other is not.
    pub fn end(&mut self, expected: &Expectation) -> Option<Step> {
        matches!(self.state, State::UntilEnd).then(|| self.finish(expected))
    }

    /// A head, if it is whole; the rest stays in `input`.
    fn take_head(&mut self, input: &mut &[u8]) -> Option<Result<Head, Wrong>> {
        if self.partial.is_empty() {
            if let Some(length) = head::length(input, 0) {
                let (head, rest) = input.split_at(length);
                *input = rest;
                return Some(if length > LONGEST_HEAD { Err(Wrong::BadHeader) } else { head::parse(head) });
            }
        } else {
            let had = self.partial.len();
            self.partial.extend_from_slice(input);
            if let Some(length) = head::length(&self.partial, had) {
                let partial = std::mem::take(&mut self.partial);
                *input = &input[length - had..];
                return Some(if length > LONGEST_HEAD {
                    Err(Wrong::BadHeader)
                } else {
                    head::parse(&partial[..length])
                });
            }
            *input = &[];
        }
        self.partial.extend_from_slice(std::mem::take(input));
        // What cannot become a status line is said at once, and not when a timeout or the end has come.
        if let Err(wrong) = head::beginning(&self.partial) {
            return Some(Err(wrong));
        }
        (self.partial.len() > LONGEST_HEAD).then_some(Err(Wrong::BadHeader))
    }

    /// The head decides how the body is framed (RFC 9112 section 6.3).
    fn begin(&mut self, head: &Head, expected: &Expectation) -> Option<Step> {
        self.status = head.status;
        self.keeps_alive = head.keeps_alive;
        self.body = Body::default();
        self.announced = None;
        if expected.head || matches!(head.status, 101 | 204 | 304) {
            if let (true, Framing::Length(length)) = (expected.head, head.framing) {
                self.announced = Some(length);
            }
            return Some(self.finish(expected));
        }
        self.state = match head.framing {
            Framing::Length(left) => State::Counted { left },
            Framing::Chunks => State::Chunks(Chunks::default()),
            Framing::UntilEnd => {
                self.keeps_alive = false;
                State::UntilEnd
            }
        };
        None
    }

    fn finish(&mut self, expected: &Expectation) -> Step {
        self.state = State::Head;
        let wrong = self.body.judge(self.status, self.announced, expected);
        Step::Reply(Reply { status: self.status, keeps_alive: self.keeps_alive, wrong })
    }
}
