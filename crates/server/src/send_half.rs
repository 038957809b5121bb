//! The sending half of a connection that several streams share.
//!
//! Knows: which streams are open, what they have framed, and that one thread at a time writes it. Does not know: how
//! frames look ([`Framing`] does), the transport, or who waits, so that loom can check it. Any thread calls it. Its
//! lock is held while bytes are framed and never while they are sent: whoever writes takes them out, and who comes
//! meanwhile leaves its own to that one.
//!
//! ```text
//!   NOBODY ──write──► WRITING ──all is sent, or the transport is full──► NOBODY
//!                      │   ▲
//!        another write ▼   │ the writer tries once more: what it was told meanwhile may be
//!                      AGAIN  that there is room, and that is not told twice
//! ```

use std::io;

use reactor::Sent;

use crate::sync::{Mutex, lock};

/// So many bytes are framed before the transport has taken those before them, heads and ends not counted.
pub const AHEAD: usize = 64 * 1024;
/// Content is not framed in smaller parts for want of room.
const LEAST: usize = 1024;

/// How what streams send looks on the wire. Called with the lock held: it waits for nothing.
pub trait Framing: Send {
    /// A reply's head, or an interim one.
    fn head(&mut self, stream: u32, head: &[u8], out: &mut Vec<u8>);

    /// Content, as much of it as one frame takes and the peer lets come now; how much that was.
    fn content(&mut self, stream: u32, content: &[u8], out: &mut Vec<u8>) -> usize;

    /// The stream's end, in order.
    fn end(&mut self, stream: u32, out: &mut Vec<u8>);

    /// The stream is cut: what was sent of it is not all.
    fn reset(&mut self, stream: u32, out: &mut Vec<u8>);
}

impl Framing for Box<dyn Framing> {
    fn head(&mut self, stream: u32, head: &[u8], out: &mut Vec<u8>) {
        (**self).head(stream, head, out);
    }

    fn content(&mut self, stream: u32, content: &[u8], out: &mut Vec<u8>) -> usize {
        (**self).content(stream, content, out)
    }

    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        (**self).end(stream, out);
    }

    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        (**self).reset(stream, out);
    }
}

/// The stream has ended, was cut, or its connection broke: nothing more can be sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// What became of framed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// None wait any more.
    All,
    /// The transport is full; an edge will tell.
    Full,
    /// Another thread is writing, and goes on with them.
    Elsewhere,
    /// The connection is gone.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    Writing,
    /// Somebody else wanted to write meanwhile.
    Again,
}

struct State<F> {
    framing: F,
    open: Vec<u32>,
    framed: Vec<u8>,
    /// Bytes that a writer has in hand.
    in_hand: usize,
    writer: Writer,
    broken: bool,
}

/// The sending half.
pub struct SendHalf<F> {
    state: Mutex<State<F>>,
}

impl<F: Framing> SendHalf<F> {
    pub fn new(framing: F) -> Self {
        let (open, framed) = (Vec::new(), Vec::new());
        Self {
            state: Mutex::new(State {
                framing,
                open,
                framed,
                in_hand: 0,
                writer: Writer::Nobody,
                broken: false,
            }),
        }
    }

    /// A stream begins.
    pub fn open(&self, stream: u32) {
        lock(&self.state).open.push(stream);
    }

    /// True while something can be sent on a stream.
    pub fn is_open(&self, stream: u32) -> bool {
        lock(&self.state).is_open(stream)
    }

    /// Bytes that the transport has not taken, as far as is known.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting()
    }

    /// Frames a head, however much waits: it is small, and there is one to a reply.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn head(&self, stream: u32, head: &[u8]) -> Result<(), Closed> {
        let mut state = lock(&self.state);
        let State { framing, framed, .. } = state.of(stream)?;
        framing.head(stream, head, framed);
        Ok(())
    }

    /// Frames content, as far as there is room; how much of it. No stream takes more than half of the room that is
    /// left, so that there is some for the others.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn content(&self, stream: u32, content: &[u8]) -> Result<usize, Closed> {
        let mut state = lock(&self.state);
        let room = AHEAD.saturating_sub(state.waiting());
        let most = if room < LEAST { 0 } else { room.div_ceil(2).min(content.len()) };
        let State { framing, framed, .. } = state.of(stream)?;
        let mut taken = 0;
        while taken < most {
            match framing.content(stream, &content[taken..most], framed) {
                0 => break,
                more => taken += more,
            }
        }
        Ok(taken)
    }

    /// Ends a stream in order, once.
    pub fn end(&self, stream: u32) {
        let mut state = lock(&self.state);
        if let Ok(State { framing, framed, .. }) = state.of(stream) {
            framing.end(stream, framed);
            state.open.retain(|&one| one != stream);
        }
    }

    /// Cuts a stream that has not ended; the others go on.
    pub fn reset(&self, stream: u32) {
        let mut state = lock(&self.state);
        if let Ok(State { framing, framed, .. }) = state.of(stream) {
            framing.reset(stream, framed);
            state.open.retain(|&one| one != stream);
        }
    }

    /// Sends what is framed with `send`, which takes what it can of its argument and does not wait. In order: one
    /// thread at a time sends, and what it could not goes before what was framed meanwhile.
    pub fn write(&self, mut send: impl FnMut(&[u8]) -> io::Result<Sent>) -> Written {
        let mut state = lock(&self.state);
        if state.broken {
            return Written::Broken;
        }
        if state.writer != Writer::Nobody {
            state.writer = Writer::Again;
            return Written::Elsewhere;
        }
        while !state.framed.is_empty() {
            let bytes = std::mem::take(&mut state.framed);
            state.in_hand = bytes.len();
            state.writer = Writer::Writing;
            drop(state);
            let mut at = 0;
            let mut last = Ok(Sent::Some(0));
            while at < bytes.len() && matches!(last, Ok(Sent::Some(_))) {
                last = send(&bytes[at..]);
                if let Ok(Sent::Some(sent)) = last {
                    at += sent;
                }
            }
            state = lock(&self.state);
            state.in_hand = 0;
            let again = std::mem::replace(&mut state.writer, Writer::Nobody) == Writer::Again;
            if last.is_err() {
                state.broken = true;
                state.open.clear();
                state.framed = Vec::new();
                return Written::Broken;
            }
            state.put_back(bytes, at);
            if !again && matches!(last, Ok(Sent::Full)) {
                return Written::Full;
            }
        }
        Written::All
    }
}

impl<F> State<F> {
    fn is_open(&self, stream: u32) -> bool {
        self.open.contains(&stream)
    }

    fn waiting(&self) -> usize {
        self.framed.len() + self.in_hand
    }

    fn of(&mut self, stream: u32) -> Result<&mut Self, Closed> {
        if self.is_open(stream) { Ok(self) } else { Err(Closed) }
    }

    /// Of `bytes` the first `sent` are gone; the rest goes before what was framed since.
    fn put_back(&mut self, mut bytes: Vec<u8>, sent: usize) {
        bytes.drain(..sent);
        bytes.append(&mut self.framed);
        // Memory is used again, but none is kept for long by a connection that has nothing to say.
        if !bytes.is_empty() || bytes.capacity() <= LEAST {
            self.framed = bytes;
        }
    }
}
