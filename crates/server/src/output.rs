//! Bytes on their way to a peer that is slower than we are.
//!
//! Knows: what is queued and how to send more of it. Does not know: what the bytes mean.
//! Runs on the thread that owns the connection.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reactor::Sent;

use crate::budget::{Budget, Share};
use crate::sent_file::SentFile;
use crate::sync::lock;
use crate::transport::Transport;

/// Bytes that somebody else keeps alive: an application's own object, sent without a copy.
pub type Kept = Box<dyn AsRef<[u8]> + Send>;

/// So much of a file is read at a time where it has to be framed.
const FILE_BYTES: usize = 16 * 1024;

/// One piece of what is queued.
enum Piece {
    Copied(VecDeque<u8>),
    /// `share`: its part of what may be kept; none where its owner counts it.
    Kept {
        bytes: Kept,
        at: usize,
        end: usize,
        share: Option<Share>,
    },
    File(SentFile),
}

/// What waits for the socket to take more, in order.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of our own memory that wait here.
    copied: usize,
    /// Bytes that wait here, of whatever kind.
    left: u64,
    /// The socket was full at the last look, so that an edge will tell when it is not.
    full: bool,
}

/// How far a flush came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing waits any more.
    All,
    /// The socket is full again; an edge will tell.
    Full,
    /// As much was sent as one visit allows: others come first, then there is more to send.
    More,
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

    /// Others' memory waits here, and counts among what may be kept.
    pub fn keeps(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Kept { share: Some(_), .. }))
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

    /// Queues part of what somebody else keeps alive; `budget`: what it counts for.
    pub fn keep(&mut self, bytes: Kept, part: Range<usize>, budget: Option<&Arc<Budget>>) {
        if !part.is_empty() {
            self.left += part.len() as u64;
            // All of it lives until the last of it is sent.
            let share = budget.map(|budget| budget.take((*bytes).as_ref().len()));
            self.pieces.push_back(Piece::Kept { bytes, at: part.start, end: part.end, share });
        }
    }

    /// Copies what is left of others' memory, so that its owner can let go of all of it.
    pub fn own(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Kept { bytes, at, end, share: Some(_) } = piece {
                let left = (**bytes).as_ref().get(*at..*end).unwrap_or_default().to_vec();
                self.copied += left.len();
                *piece = Piece::Copied(left.into());
            }
        }
    }

    /// Queues part of a file.
    pub fn file(&mut self, file: SentFile) {
        if file.left() > 0 {
            self.left += file.left();
            self.pieces.push_back(Piece::File(file));
        }
    }

    /// False: there is more to send, and no edge will tell.
    pub fn awaits_edge(&self) -> bool {
        self.full || self.is_empty()
    }

    /// What goes before this has filled the socket.
    pub fn note_full(&mut self) {
        self.full = true;
    }

    /// Lets `take` have the bytes in order, until it takes less than it is shown; how many it took. What is
    /// in files is read for it: sendfile(2) knows nothing of frames.
    ///
    /// # Errors
    /// A file's; `UnexpectedEof` where it is shorter than was said.
    pub fn pull(&mut self, mut take: impl FnMut(&[u8]) -> usize) -> io::Result<u64> {
        let before = self.left;
        while let Some(piece) = self.pieces.front_mut() {
            let (taken, shown, done) = match piece {
                Piece::Copied(ring) => {
                    let shown = ring.as_slices().0.len();
                    let taken = take(ring.as_slices().0);
                    ring.drain(..taken);
                    self.copied -= taken;
                    (taken, shown, ring.is_empty())
                }
                Piece::Kept { bytes, at, end, .. } => {
                    let rest = (**bytes).as_ref().get(*at..*end).unwrap_or_default();
                    let taken = take(rest);
                    let shown = rest.len();
                    *at += taken;
                    (taken, shown, at == end)
                }
                Piece::File(file) => {
                    let mut room = [0; FILE_BYTES];
                    let read = file.peek(&mut room)?;
                    let (taken, shown) = (take(read), read.len());
                    file.advance(taken);
                    (taken, shown, file.left() == 0)
                }
            };
            self.left -= taken as u64;
            if done {
                self.pieces.pop_front();
            } else if taken < shown {
                break;
            }
        }
        Ok(before - self.left)
    }

    /// Sends until the socket is full, nothing waits, or so many bytes are sent.
    ///
    /// # Errors
    /// The socket's; `UnexpectedEof` where a file is shorter than was said.
    pub fn flush(&mut self, transport: &Transport, most: usize) -> io::Result<Flushed> {
        let mut room = most.max(1);
        self.full = false;
        while let Some(piece) = self.pieces.front_mut() {
            if room == 0 {
                return Ok(Flushed::More);
            }
            let (sent, done) = match piece {
                Piece::Copied(bytes) => {
                    let sent = send_from(transport, bytes, room)?;
                    if let Sent::Some(n) = sent {
                        self.copied -= n;
                    }
                    (sent, bytes.is_empty())
                }
                Piece::Kept { bytes, at, end, .. } => {
                    let until = (*end).min(at.saturating_add(room));
                    let rest = (**bytes).as_ref().get(*at..until).unwrap_or_default();
                    let sent = transport.send(rest)?;
                    if let Sent::Some(n) = sent {
                        *at += n;
                    }
                    (sent, at == end)
                }
                Piece::File(file) => {
                    let count = usize::try_from(file.left()).unwrap_or(usize::MAX).min(room);
                    let sent = match file.is_at_hand(count) {
                        true => send_file(transport, file, count)?,
                        // The loop is told when it is.
                        false => Sent::Full,
                    };
                    (sent, file.left() == 0)
                }
            };
            if let Sent::Some(n) = sent {
                self.left -= n as u64;
                room -= n;
            }
            if done {
                self.pieces.pop_front();
            } else if sent == Sent::Full {
                self.full = true;
                return Ok(Flushed::Full);
            }
        }
        Ok(Flushed::All)
    }
}

/// Sends so much of a file, as far as the socket takes it. A peer whose file turns out to be shorter, or unreadable, must
/// not take what it got for the whole.
fn send_file(transport: &Transport, file: &mut SentFile, count: usize) -> io::Result<Sent> {
    let sent = match transport.send_file(file.as_fd(), file.offset(), count) {
        Ok(Sent::Some(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => other,
    };
    match &sent {
        Ok(Sent::Some(n)) => file.advance(*n),
        Ok(Sent::Full) => {}
        Err(_) => transport.reset_at_close(),
    }
    sent
}

/// Sends at most so much from a ring, and takes out of it what was sent.
fn send_from(transport: &Transport, ring: &mut VecDeque<u8>, most: usize) -> io::Result<Sent> {
    let (first, second) = ring.as_slices();
    let first = &first[..first.len().min(most)];
    let sent = match &second[..second.len().min(most - first.len())] {
        [] => transport.send(first)?,
        second => transport.send_pieces(&[first, second])?,
    };
    if let Sent::Some(n) = sent {
        ring.drain(..n);
    }
    Ok(sent)
}

/// Replies to pipelined requests that wait for one another, so that they go out in one
/// write. They wait only while a next request of the same connection is at hand; should that
/// one block its thread, whoever leads next sends what waits here.
pub struct PipelinedReplies {
    transport: Arc<Transport>,
    replies: Mutex<Unsent>,
    /// An event loop's watchdog knows of it (`heartbeat.rs`, whose lock this belongs to).
    noted: AtomicBool,
}

#[derive(Default)]
struct Unsent {
    waiting: VecDeque<u8>,
    /// What was sent since [`PipelinedReplies::take_count`].
    taken: u64,
}

impl Unsent {
    fn send(&mut self, transport: &Transport) -> io::Result<Flushed> {
        while !self.waiting.is_empty() {
            match send_from(transport, &mut self.waiting, usize::MAX)? {
                Sent::Some(n) => self.taken += n as u64,
                Sent::Full => return Ok(Flushed::Full),
            }
        }
        Ok(Flushed::All)
    }
}

impl PipelinedReplies {
    /// Notes whether a watchdog knows of it. True: that is news.
    pub(crate) fn note(&self, known: bool) -> bool {
        self.noted.swap(known, Ordering::Relaxed) != known
    }

    /// Room for replies of this connection.
    pub fn new(transport: &Arc<Transport>) -> Arc<Self> {
        Arc::new(Self {
            transport: Arc::clone(transport),
            replies: Mutex::default(),
            noted: AtomicBool::new(false),
        })
    }

    /// Adds the pieces of a reply, if no more than `bound` bytes wait then. Sends what waits
    /// already where that makes room.
    pub fn add(&self, pieces: &[&[u8]], bound: usize) -> bool {
        let mut replies = lock(&self.replies);
        let room = bound.saturating_sub(pieces.iter().map(|piece| piece.len()).sum());
        if replies.waiting.len() > room {
            // An error shows again when the connection is back.
            let _ = replies.send(&self.transport);
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
        lock(&self.replies).send(&self.transport)
    }

    /// How much was sent since the last time, by whomever.
    pub fn take_count(&self) -> u64 {
        std::mem::take(&mut lock(&self.replies).taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_visit_sends_as_much_as_the_limit_and_no_more() {
        let budget = Budget::new(u64::MAX);
        for (size, flushed, left) in
            [(999, Flushed::All, 0), (1000, Flushed::All, 0), (1001, Flushed::More, 1)]
        {
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            let transport =
                Transport::from(reactor::Socket::from_owned(OwnedFd::from(ours)).expect("a socket"));
            let file = tempfile::tempfile().expect("a file");
            file.set_len(1500).expect("its length");
            let mut all = [Output::default(), Output::default(), Output::default(), Output::default()];
            all[0].copy(&vec![0; size]);
            all[1].keep(Box::new(vec![0; size]), 0..size, Some(&budget));
            all[2].file(SentFile::new(Arc::new(file.into()), (0, size as u64)));
            all[3].copy(&[0; 500]);
            all[3].keep(Box::new(vec![0; 2000]), 0..size - 500, Some(&budget));
            for output in &mut all {
                assert_eq!(output.flush(&transport, 1000).expect("a peer"), flushed, "{size}");
                assert_eq!((output.left(), output.awaits_edge()), (left, left == 0), "{size}");
            }
        }
    }

    #[test]
    fn who_takes_all_the_time_leaves_no_memory_behind() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let transport = Transport::from(reactor::Socket::from_owned(OwnedFd::from(ours)).expect("a socket"));
        let mut output = Output::default();
        let mut read = vec![0; 1 << 20];
        // Never empty, as a reader is that keeps up with what is written and no more.
        output.copy(&vec![0; 1 << 20]);
        for _ in 0..100 {
            output.copy(&[0; 10_000]);
            output.flush(&transport, 10_000).expect("a peer");
            let _ = std::io::Read::read(&mut theirs, &mut read).expect("bytes");
        }
        assert_eq!(output.left(), 1 << 20);
        let Some(Piece::Copied(ring)) = output.pieces.front() else { panic!("one piece") };
        assert!(ring.capacity() <= 2 << 20, "{} bytes for one megabyte", ring.capacity());
    }
}
