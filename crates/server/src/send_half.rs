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
use wire::h2::{Event, Overflow};

use crate::sync::{Mutex, lock};

/// So many bytes are framed before the transport has taken those before them, heads and ends not counted.
pub const AHEAD: usize = 64 * 1024;
/// Content is not framed in smaller parts for want of room.
const LEAST: usize = 1024;

/// How what streams send looks on the wire. Called with the lock held: it waits for nothing.
pub trait Framing: Send {
    /// A stream begins.
    fn open(&mut self, _stream: u32) {}

    /// A reply's head, or an interim one. `end`: nothing follows.
    fn head(&mut self, stream: u32, head: &[u8], end: bool, out: &mut Vec<u8>);

    /// Content, as much of it as one frame takes and the peer lets come now; how much that was. `end`: nothing follows,
    /// so that the stream ends when all of it was taken.
    fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize;

    /// How much content the peer lets come on a stream now.
    fn room(&self, _stream: u32) -> usize {
        usize::MAX
    }

    /// The stream's end, in order, where nothing is left that it could be said with.
    fn end(&mut self, stream: u32, out: &mut Vec<u8>);

    /// The stream's end with lines that stand behind its content.
    fn trailers(&mut self, stream: u32, _lines: &[u8], out: &mut Vec<u8>) {
        self.end(stream, out);
    }

    /// The stream is cut: what was sent of it is not all.
    fn reset(&mut self, stream: u32, out: &mut Vec<u8>);

    /// The same, as its peer takes too little of it.
    fn give_up(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.reset(stream, out);
    }

    /// Follows what the receiving half has heard.
    ///
    /// # Errors
    /// The receiving half is to be told.
    fn hear(&mut self, _event: &Event<'_>) -> Result<(), Overflow> {
        Ok(())
    }

    /// Frames of content since this was last asked.
    fn take_frames(&mut self) -> u32 {
        0
    }
}

impl Framing for Box<dyn Framing> {
    fn open(&mut self, stream: u32) {
        (**self).open(stream);
    }

    fn head(&mut self, stream: u32, head: &[u8], end: bool, out: &mut Vec<u8>) {
        (**self).head(stream, head, end, out);
    }

    fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize {
        (**self).content(stream, content, end, out)
    }

    fn room(&self, stream: u32) -> usize {
        (**self).room(stream)
    }

    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        (**self).end(stream, out);
    }

    fn trailers(&mut self, stream: u32, lines: &[u8], out: &mut Vec<u8>) {
        (**self).trailers(stream, lines, out);
    }

    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        (**self).reset(stream, out);
    }

    fn give_up(&mut self, stream: u32, out: &mut Vec<u8>) {
        (**self).give_up(stream, out);
    }

    fn hear(&mut self, event: &Event<'_>) -> Result<(), Overflow> {
        (**self).hear(event)
    }

    fn take_frames(&mut self) -> u32 {
        (**self).take_frames()
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
    /// Bytes that the transport has taken.
    taken: u64,
    /// Streams that were cut here, until somebody has asked.
    cut: Vec<u32>,
    writer: Writer,
    /// No more streams begin.
    closed: bool,
    /// The peer has ended its side: no window opens any more.
    peer_ended: bool,
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
                taken: 0,
                cut: Vec::new(),
                writer: Writer::Nobody,
                closed: false,
                peer_ended: false,
                broken: false,
            }),
        }
    }

    /// A stream begins.
    pub fn open(&self, stream: u32) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.open.push(stream);
            state.framing.open(stream);
        }
    }

    /// True while something can be sent on a stream.
    pub fn is_open(&self, stream: u32) -> bool {
        lock(&self.state).is_open(stream)
    }

    /// Bytes that the transport has not taken, as far as is known.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting()
    }

    /// Content can be framed, as far as the peer's windows let it come.
    pub fn has_room(&self) -> bool {
        self.waiting() + LEAST <= AHEAD
    }

    /// Bytes that the transport has ever taken.
    pub fn taken(&self) -> u64 {
        lock(&self.state).taken
    }

    /// Frames a head, however much waits, as it is small and there is one to a reply; then content, as far as there is
    /// room, in order; how much of that. No stream takes more than half of the room that is left, so that there is some
    /// for the others. `end`: nothing follows, so that the stream ends when all of it was taken.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn send(&self, stream: u32, head: &[u8], content: &[&[u8]], end: bool) -> Result<usize, Closed> {
        let mut state = lock(&self.state);
        let state = state.of(stream)?;
        let total: usize = content.iter().map(|piece| piece.len()).sum();
        if !head.is_empty() {
            state.framing.head(stream, head, end && total == 0, &mut state.framed);
        }
        let mut taken = 0;
        for piece in content.iter().filter(|piece| !piece.is_empty()) {
            let framed = state.content(stream, piece, end && taken + piece.len() == total);
            taken += framed;
            if framed < piece.len() {
                break;
            }
        }
        if taken < total && state.peer_ended && state.framing.room(stream) == 0 {
            // What is left can never be sent.
            state.cut(stream, F::reset);
            return Err(Closed);
        }
        if end && taken == total {
            if head.is_empty() && total == 0 {
                state.framing.end(stream, &mut state.framed);
            }
            state.close(stream);
        }
        Ok(taken)
    }

    /// Frames content alone, as [`SendHalf::send`] does.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn content(&self, stream: u32, content: &[u8], end: bool) -> Result<usize, Closed> {
        self.send(stream, b"", &[content], end)
    }

    /// How much content would be framed on a stream now. On one that is closed any amount: who frames it hears so.
    pub fn room(&self, stream: u32) -> usize {
        let state = lock(&self.state);
        if state.is_open(stream) { state.room().min(state.framing.room(stream)) } else { usize::MAX }
    }

    /// Ends a stream in order, once.
    pub fn end(&self, stream: u32) {
        // One that is closed has ended.
        let _ = self.send(stream, b"", &[], true);
    }

    /// Ends a stream in order, with lines that stand behind its content.
    pub fn end_with(&self, stream: u32, trailers: &[u8]) {
        let mut state = lock(&self.state);
        if let Ok(state) = state.of(stream) {
            state.framing.trailers(stream, trailers, &mut state.framed);
            state.close(stream);
        }
    }

    /// Cuts a stream that has not ended; the others go on.
    pub fn reset(&self, stream: u32) {
        self.cut(stream, F::reset);
    }

    /// The same for one whose peer takes too little.
    pub fn give_up(&self, stream: u32) {
        self.cut(stream, F::give_up);
    }

    fn cut(&self, stream: u32, how: impl FnOnce(&mut F, u32, &mut Vec<u8>)) {
        let mut state = lock(&self.state);
        if let Ok(state) = state.of(stream) {
            state.cut(stream, how);
        }
    }

    /// The peer has ended its side: what its windows do not let come now is cut when it is to be framed.
    pub fn peer_has_ended(&self) {
        lock(&self.state).peer_ended = true;
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        lock(&self.state).open.len()
    }

    /// True, once, for a stream that was cut here and not by its peer.
    pub fn take_cut(&self, stream: u32) -> bool {
        let mut state = lock(&self.state);
        let before = state.cut.len();
        state.cut.retain(|&one| one != stream);
        state.cut.len() < before
    }

    /// Puts frames of the receiving half's behind what is framed.
    pub fn add(&self, frames: &[u8]) {
        lock(&self.state).framed.extend_from_slice(frames);
    }

    /// Follows what the receiving half has heard.
    ///
    /// # Errors
    /// As [`Framing::hear`] says.
    pub fn hear(&self, event: &Event<'_>) -> Result<(), Overflow> {
        let mut state = lock(&self.state);
        if let Event::Reset { stream, .. } | Event::StreamError { stream, .. } = event {
            state.close(*stream);
        }
        state.framing.hear(event)
    }

    /// Frames of content since this was last asked.
    pub fn take_frames(&self) -> u32 {
        lock(&self.state).framing.take_frames()
    }

    /// The connection ends: no stream sends anything more, and what is framed is the last.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.open = Vec::new();
    }

    /// Sends what is framed with `send`, which takes what it can of its argument and does not wait. In order: one
    /// thread at a time sends, and what it could not goes before what was framed meanwhile. With it comes how much was
    /// taken of it.
    pub fn write(&self, mut send: impl FnMut(&[u8]) -> io::Result<Sent>) -> (Written, usize) {
        let mut taken = 0;
        let mut state = lock(&self.state);
        if state.broken {
            return (Written::Broken, taken);
        }
        if state.writer != Writer::Nobody {
            state.writer = Writer::Again;
            return (Written::Elsewhere, taken);
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
            state.taken += at as u64;
            taken += at;
            let again = std::mem::replace(&mut state.writer, Writer::Nobody) == Writer::Again;
            if last.is_err() {
                (state.broken, state.closed) = (true, true);
                state.open = Vec::new();
                state.framed = Vec::new();
                return (Written::Broken, taken);
            }
            state.put_back(bytes, at);
            if !again && matches!(last, Ok(Sent::Full)) {
                return (Written::Full, taken);
            }
        }
        (Written::All, taken)
    }
}

impl<F: Framing> State<F> {
    /// Frames content, as far as there is room; how much of it.
    fn content(&mut self, stream: u32, content: &[u8], end: bool) -> usize {
        let most = self.room().min(content.len());
        let ends = end && most == content.len();
        let mut taken = 0;
        while taken < most {
            match self.framing.content(stream, &content[taken..most], ends, &mut self.framed) {
                0 => break,
                more => taken += more,
            }
        }
        taken
    }

    fn cut(&mut self, stream: u32, how: impl FnOnce(&mut F, u32, &mut Vec<u8>)) {
        how(&mut self.framing, stream, &mut self.framed);
        self.cut.push(stream);
        self.close(stream);
    }

    /// How much one stream may frame before the transport has taken more.
    fn room(&self) -> usize {
        let room = AHEAD.saturating_sub(self.waiting());
        if room < LEAST { 0 } else { room.div_ceil(2) }
    }

    fn close(&mut self, stream: u32) {
        self.open.retain(|&one| one != stream);
    }

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
