//! One stream of a connection that several share: what an exchange replies through while the connection stays in its
//! slot.
//!
//! Knows: what of a reply is not framed yet, and that the sending half is shared. Does not know: how frames look, the
//! request, the loop. A stream belongs to the thread that owns its exchange; [`Multiplexed`] to all that have one of
//! its streams, and to whoever hears of its edges.

use std::io;
use std::sync::{Arc, Mutex};

use reactor::Address;
use wire::{Limits, Millis};

use crate::output::{Flushed, Output};
use crate::patience::Patience;
use crate::send_half::{Closed, Framing, SendHalf, Written};
use crate::sync::lock;
use crate::transport::Transport;

/// A connection of many streams, as far as it sends.
pub struct Multiplexed {
    transport: Arc<Transport>,
    /// What names the connection to the loop.
    token: u64,
    half: SendHalf<Box<dyn Framing>>,
    /// Replies that are complete but for what nobody has taken yet; their exchanges are over. Taken out to be worked
    /// on, as a file may have to be read.
    left: Mutex<Vec<Left>>,
}

/// What is left of one reply.
struct Left {
    stream: u32,
    output: Output,
}

impl Multiplexed {
    /// A connection whose streams are framed so.
    pub fn new(transport: Arc<Transport>, token: u64, framing: Box<dyn Framing>) -> Arc<Self> {
        Arc::new(Self { transport, token, half: SendHalf::new(framing), left: Mutex::default() })
    }

    /// A stream begins. `peer` and `listener` are the connection's.
    pub fn open(self: &Arc<Self>, id: u32, peer: Address, listener: u16) -> Stream {
        self.half.open(id);
        Stream {
            shared: Arc::clone(self),
            id,
            peer,
            listener,
            output: Output::default(),
            patience: Patience::of(0, 0),
            over: false,
        }
    }

    /// The peer has cut a stream, or we do in its exchange's place: nothing more is sent on it but that.
    pub fn reset(&self, id: u32) {
        self.half.reset(id);
        self.send_framed();
    }

    /// Answers a stream in its exchange's place, with a head and content that are small.
    pub fn answer(&self, id: u32, head: &[u8], content: &[u8]) {
        // Whatever is closed is answered already.
        if self.half.head(id, head).is_ok() && self.half.content(id, content) == Ok(content.len()) {
            self.half.end(id);
        } else {
            self.half.reset(id);
        }
        self.send_framed();
    }

    /// Sends what is framed, and goes on with replies whose exchanges are over. For whoever hears that the transport
    /// has room.
    ///
    /// # Errors
    /// The transport's.
    pub fn write(&self) -> io::Result<Flushed> {
        let mut idle_rounds = 0;
        loop {
            let mut left = std::mem::take(&mut *lock(&self.left));
            let mut moved = 0;
            left.retain_mut(|one| one.frame(&self.half, &mut moved));
            let nothing_left = left.is_empty();
            if left.len() > 1 {
                // Another one is first the next time.
                left.rotate_left(1);
            }
            lock(&self.left).append(&mut left);
            match self.send_framed() {
                Written::All if moved == 0 => {
                    // Another thread may have had some in hand, and found no room before this wrote.
                    idle_rounds += 1;
                    if idle_rounds > 1 {
                        return Ok(if nothing_left { Flushed::All } else { Flushed::Full });
                    }
                }
                Written::All => idle_rounds = 0,
                Written::Full | Written::Elsewhere => return Ok(Flushed::Full),
                Written::Broken => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    fn send_framed(&self) -> Written {
        self.half.write(|bytes| self.transport.send(bytes))
    }
}

impl Left {
    /// Frames more of it. False: that was all, or the stream is closed.
    fn frame(&mut self, half: &SendHalf<Box<dyn Framing>>, moved: &mut u64) -> bool {
        match frame(half, self.stream, &mut self.output) {
            Ok(more) => *moved += more,
            // A file that is shorter than was said: the peer must not take it for the whole.
            Err(_) => {
                half.reset(self.stream);
                return false;
            }
        }
        if self.output.is_empty() {
            half.end(self.stream);
        }
        !self.output.is_empty()
    }
}

/// Frames what waits in a queue, as far as there is room; how many bytes.
fn frame(half: &SendHalf<Box<dyn Framing>>, stream: u32, output: &mut Output) -> io::Result<u64> {
    let mut closed = false;
    let moved = output.pull(|bytes| {
        half.content(stream, bytes).unwrap_or_else(|Closed| {
            closed = true;
            0
        })
    })?;
    if closed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(moved) }
}

/// One stream, as far as it sends.
pub struct Stream {
    shared: Arc<Multiplexed>,
    id: u32,
    peer: Address,
    listener: u16,
    /// Content that is not framed.
    output: Output,
    /// Until when the peer has time to take of it.
    patience: Patience,
    /// It was ended or cut here: nothing is owed any more.
    over: bool,
}

impl Drop for Stream {
    /// Whoever drops a stream in the middle of its reply cuts it.
    fn drop(&mut self) {
        if !self.over {
            self.reset();
        }
    }
}

impl Stream {
    pub fn peer(&self) -> Address {
        self.peer
    }

    pub fn listener(&self) -> u16 {
        self.listener
    }

    /// What names its connection to the loop.
    pub fn token(&self) -> u64 {
        self.shared.token
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn shared(&self) -> &Arc<Multiplexed> {
        &self.shared
    }

    pub fn transport(&self) -> &Arc<Transport> {
        &self.shared.transport
    }

    /// The peer has not cut it, and it has not ended.
    pub fn is_open(&self) -> bool {
        self.shared.half.is_open(self.id)
    }

    /// Content that is not framed.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The same, to be changed.
    pub fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// The queue. With the first that waits in it the peer's patience begins.
    pub fn queue(&mut self, limits: &Limits, now: Millis) -> &mut Output {
        if self.output.is_empty() {
            self.patience = Patience::to_write(limits, now);
        }
        &mut self.output
    }

    /// Sends the first `head` bytes of all pieces as a head and the rest as content, as far as there is room for that;
    /// how many bytes of both were taken. Nothing waits in the queue.
    ///
    /// # Errors
    /// The stream is closed, or the transport's.
    pub fn send(&mut self, pieces: &[&[u8]], head: usize) -> io::Result<usize> {
        let gone = |Closed| io::Error::from(io::ErrorKind::BrokenPipe);
        let mut left = head;
        if head > 0 {
            let mut joined = Vec::with_capacity(head);
            pieces
                .iter()
                .for_each(|piece| joined.extend_from_slice(&piece[..piece.len().min(head - joined.len())]));
            self.shared.half.head(self.id, &joined).map_err(gone)?;
        }
        let mut taken = head;
        for piece in pieces {
            let content = piece.get(left..).unwrap_or_default();
            left = left.saturating_sub(piece.len());
            let framed = self.shared.half.content(self.id, content).map_err(gone)?;
            taken += framed;
            if framed < content.len() {
                break;
            }
        }
        self.shared.write()?;
        Ok(taken)
    }

    /// Sends more of what waits. What is taken of it, and nothing else, renews the peer's patience.
    ///
    /// # Errors
    /// As [`Stream::send`], and the file's.
    pub fn flush(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        loop {
            let moved = frame(&self.shared.half, self.id, &mut self.output)?;
            self.patience.earn(moved, limits, now);
            let written = self.shared.write()?;
            if self.output.is_empty() {
                return Ok(Flushed::All);
            }
            if moved == 0 || written == Flushed::Full {
                self.output.note_full();
                return Ok(Flushed::Full);
            }
        }
    }

    /// The reply is cut: the peer is told, and the other streams go on.
    pub fn reset(&mut self) {
        self.over = true;
        self.output = Output::default();
        self.shared.reset(self.id);
    }

    /// The reply is complete: what waits of it goes on without its exchange, then the stream ends.
    pub fn end(&mut self) {
        self.over = true;
        let output = std::mem::take(&mut self.output);
        if output.is_empty() {
            self.shared.half.end(self.id);
        } else {
            lock(&self.shared.left).push(Left { stream: self.id, output });
        }
        // A peer that is gone needs no further word.
        let _ = self.shared.write();
    }
}
