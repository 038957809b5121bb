//! Bytes on their way to a peer that is slower than we are.
//!
//! Knows: what is queued and how to send more of it. Does not know: what the bytes mean.
//! Runs on the thread that owns the connection.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use reactor::{Sent, Socket};

use crate::sync::lock;

/// Bytes that somebody else keeps alive: an application's own object, sent without a copy.
pub type Kept = Box<dyn AsRef<[u8]> + Send>;

/// One piece of what is queued.
enum Piece {
    Copied { bytes: Vec<u8>, at: usize },
    Kept { bytes: Kept, at: usize, end: usize },
    File { file: File, offset: u64, left: u64 },
}

/// What waits for the socket to take more, in order.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of our own memory that wait here.
    copied: usize,
    /// Bytes that the socket has taken, of whatever kind.
    taken: u64,
}

/// How far a flush came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing waits any more.
    All,
    /// The socket is full again.
    Full,
}

impl Output {
    /// Bytes of our own memory that wait.
    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Bytes that the socket has taken since this queue was made.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes that wait, files included.
    pub fn left(&self) -> u64 {
        let left = |piece: &Piece| match piece {
            Piece::Copied { bytes, at } => (bytes.len() - at) as u64,
            Piece::Kept { at, end, .. } => (end - at) as u64,
            Piece::File { left, .. } => *left,
        };
        self.pieces.iter().map(left).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Queues a copy.
    pub fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.copied += bytes.len();
        if let Some(Piece::Copied { bytes: last, .. }) = self.pieces.back_mut() {
            last.extend_from_slice(bytes);
            return;
        }
        self.pieces.push_back(Piece::Copied { bytes: bytes.to_vec(), at: 0 });
    }

    /// Queues part of what somebody else keeps alive.
    pub fn keep(&mut self, bytes: Kept, part: Range<usize>) {
        if !part.is_empty() {
            self.pieces.push_back(Piece::Kept { bytes, at: part.start, end: part.end });
        }
    }

    /// Copies what is left of others' memory, so that its owner can let go of all of it.
    pub fn own(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Kept { bytes, at, end } = piece {
                let left = (**bytes).as_ref().get(*at..*end).unwrap_or_default().to_vec();
                self.copied += left.len();
                *piece = Piece::Copied { bytes: left, at: 0 };
            }
        }
    }

    /// Queues part of a file.
    pub fn file(&mut self, file: File, offset: u64, left: u64) {
        if left > 0 {
            self.pieces.push_back(Piece::File { file, offset, left });
        }
    }

    /// Sends until the socket is full or nothing waits.
    ///
    /// # Errors
    /// The socket's; `UnexpectedEof` where a file is shorter than was said.
    pub fn flush(&mut self, socket: &Socket) -> io::Result<Flushed> {
        while let Some(piece) = self.pieces.front_mut() {
            let before = self.copied;
            let (sent, done) = match piece {
                Piece::Copied { bytes, at } => {
                    let sent = send_from(socket, bytes, at)?;
                    if let Sent::Some(n) = sent {
                        self.copied = before.saturating_sub(n);
                    }
                    (sent, *at == bytes.len())
                }
                Piece::Kept { bytes, at, end } => {
                    let all = (**bytes).as_ref().get(..*end).unwrap_or_default();
                    (send_from(socket, all, at)?, *at >= all.len())
                }
                Piece::File { file, offset, left } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX);
                    let sent = socket.send_file(file.as_fd(), *offset, count)?;
                    if let Sent::Some(n) = sent {
                        if n == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        *offset += n as u64;
                        *left -= n as u64;
                    }
                    (sent, *left == 0)
                }
            };
            if let Sent::Some(n) = sent {
                self.taken += n as u64;
            }
            if done {
                self.pieces.pop_front();
            } else if sent == Sent::Full {
                return Ok(Flushed::Full);
            }
        }
        Ok(Flushed::All)
    }
}

fn send_from(socket: &Socket, bytes: &[u8], at: &mut usize) -> io::Result<Sent> {
    let rest = bytes.get(*at..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(Sent::Some(0));
    }
    let sent = socket.send(rest)?;
    if let Sent::Some(n) = sent {
        *at += n;
    }
    Ok(sent)
}

/// Replies to pipelined requests that wait for one another, so that they go out in one
/// write. They wait only while a next request of the same connection is at hand; should that
/// one block its thread, whoever leads next sends what waits here.
pub struct Carry {
    socket: Arc<Socket>,
    waiting: Mutex<Vec<u8>>,
}

impl Carry {
    /// Room for replies of this connection.
    pub fn new(socket: &Arc<Socket>) -> Arc<Self> {
        Arc::new(Self { socket: Arc::clone(socket), waiting: Mutex::new(Vec::new()) })
    }

    /// Adds pieces of a reply; returns how many bytes wait now.
    pub fn add(&self, pieces: &[&[u8]]) -> usize {
        let mut waiting = lock(&self.waiting);
        for piece in pieces {
            waiting.extend_from_slice(piece);
        }
        waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// Sends what waits, as far as the socket takes it. The order is safe: the owner sends
    /// nothing of its own before it has taken what is left here, under the same lock.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self) -> io::Result<Flushed> {
        let mut waiting = lock(&self.waiting);
        while !waiting.is_empty() {
            match self.socket.send(&waiting)? {
                Sent::Some(n) => drop(waiting.drain(..n)),
                Sent::Full => return Ok(Flushed::Full),
            }
        }
        Ok(Flushed::All)
    }

    /// Takes what waits, for the owner's own queue.
    pub fn take_into(&self, output: &mut Output) {
        let mut waiting = lock(&self.waiting);
        output.copy(&waiting);
        waiting.clear();
    }
}
