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

use crate::budget::{Budget, Share};
use crate::sync::lock;

/// Bytes that somebody else keeps alive: an application's own object, sent without a copy.
pub type Kept = Box<dyn AsRef<[u8]> + Send>;

/// One piece of what is queued.
enum Piece {
    Copied(VecDeque<u8>),
    Kept { bytes: Kept, at: usize, end: usize, _share: Share },
    File { file: File, offset: u64, left: u64 },
}

/// What waits for the socket to take more, in order.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of our own memory that wait here.
    copied: usize,
    /// Bytes that wait here, of whatever kind.
    left: u64,
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

    /// Bytes that wait, files included.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Others' memory waits here.
    pub fn keeps(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Kept { .. }))
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
        self.left += bytes.len() as u64;
        if let Some(Piece::Copied(last)) = self.pieces.back_mut() {
            // A ring: its memory follows what waits, not what has passed through it.
            last.extend(bytes);
            return;
        }
        self.pieces.push_back(Piece::Copied(bytes.to_vec().into()));
    }

    /// Queues part of what somebody else keeps alive.
    pub fn keep(&mut self, bytes: Kept, part: Range<usize>, budget: &Arc<Budget>) {
        if !part.is_empty() {
            self.left += part.len() as u64;
            // All of it lives until the last of it is sent.
            let share = budget.take((*bytes).as_ref().len());
            self.pieces.push_back(Piece::Kept { bytes, at: part.start, end: part.end, _share: share });
        }
    }

    /// Copies what is left of others' memory, so that its owner can let go of all of it.
    pub fn own(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Kept { bytes, at, end, .. } = piece {
                let left = (**bytes).as_ref().get(*at..*end).unwrap_or_default().to_vec();
                self.copied += left.len();
                *piece = Piece::Copied(left.into());
            }
        }
    }

    /// Queues part of a file.
    pub fn file(&mut self, file: File, offset: u64, left: u64) {
        if left > 0 {
            self.left += left;
            self.pieces.push_back(Piece::File { file, offset, left });
        }
    }

    /// Sends until the socket is full or nothing waits.
    ///
    /// # Errors
    /// The socket's; `UnexpectedEof` where a file is shorter than was said.
    pub fn flush(&mut self, socket: &Socket) -> io::Result<Flushed> {
        while let Some(piece) = self.pieces.front_mut() {
            let (sent, done) = match piece {
                Piece::Copied(bytes) => {
                    let sent = send_from(socket, bytes)?;
                    if let Sent::Some(n) = sent {
                        self.copied -= n;
                    }
                    (sent, bytes.is_empty())
                }
                Piece::Kept { bytes, at, end, .. } => {
                    let rest = (**bytes).as_ref().get(*at..*end).unwrap_or_default();
                    let sent = socket.send(rest)?;
                    if let Sent::Some(n) = sent {
                        *at += n;
                    }
                    (sent, at == end)
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
                self.left -= n as u64;
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

/// Sends from a ring, and takes out of it what was sent.
fn send_from(socket: &Socket, ring: &mut VecDeque<u8>) -> io::Result<Sent> {
    let sent = match ring.as_slices() {
        (first, []) => socket.send(first)?,
        (first, second) => socket.send_pieces(&[first, second])?,
    };
    if let Sent::Some(n) = sent {
        ring.drain(..n);
    }
    Ok(sent)
}

/// Replies to pipelined requests that wait for one another, so that they go out in one
/// write. They wait only while a next request of the same connection is at hand; should that
/// one block its thread, whoever leads next sends what waits here.
pub struct Carry {
    socket: Arc<Socket>,
    replies: Mutex<Carried>,
}

#[derive(Default)]
struct Carried {
    waiting: VecDeque<u8>,
    /// What was sent since [`Carry::take_count`].
    taken: u64,
}

impl Carried {
    fn send(&mut self, socket: &Socket) -> io::Result<Flushed> {
        while !self.waiting.is_empty() {
            match send_from(socket, &mut self.waiting)? {
                Sent::Some(n) => self.taken += n as u64,
                Sent::Full => return Ok(Flushed::Full),
            }
        }
        Ok(Flushed::All)
    }
}

impl Carry {
    /// Room for replies of this connection.
    pub fn new(socket: &Arc<Socket>) -> Arc<Self> {
        Arc::new(Self { socket: Arc::clone(socket), replies: Mutex::default() })
    }

    /// Adds the pieces of a reply, if no more than `bound` bytes wait then. Sends what waits
    /// already where that makes room.
    pub fn add(&self, pieces: &[&[u8]], bound: usize) -> bool {
        let mut replies = lock(&self.replies);
        let room = bound.saturating_sub(pieces.iter().map(|piece| piece.len()).sum());
        if replies.waiting.len() > room {
            // An error shows again when the connection is home.
            let _ = replies.send(&self.socket);
        }
        if replies.waiting.len() > room {
            return false;
        }
        for piece in pieces {
            replies.waiting.extend(*piece);
        }
        true
    }

    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        lock(&self.replies).waiting.len()
    }

    /// Sends what waits, as far as the socket takes it. The order is safe: the owner sends
    /// nothing of its own before this is empty.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self) -> io::Result<Flushed> {
        lock(&self.replies).send(&self.socket)
    }

    /// How much was sent since the last time, by whomever.
    pub fn take_count(&self) -> u64 {
        std::mem::take(&mut lock(&self.replies).taken)
    }
}
