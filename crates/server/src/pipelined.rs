//! Replies to pipelined requests, which leave together.
//!
//! Knows: their bytes and their transport. Does not know: which requests they answer, or when they are due. Whoever owns
//! the connection adds; any thread sends.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reactor::Sent;

use crate::output::Flushed;
use crate::sync::lock;
use crate::transport::Transport;

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
    /// How many bytes wait, for who only looks, which several do for each request: a lock costs more than the rest of a
    /// look. Written by who has the lock, so that nothing waits where it says so: the kernel has had all.
    left: AtomicUsize,
    /// Where what is counted of its requests was found last (`connections/pipelines.rs`).
    place: AtomicUsize,
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

    /// Where what is counted of its requests may be: a hint, for who owns the list.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    /// It was found there.
    pub(crate) fn is_found_at(&self, place: usize) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Room for replies of this connection.
    pub fn new(transport: &Arc<Transport>) -> Arc<Self> {
        Arc::new(Self {
            transport: Arc::clone(transport),
            replies: Mutex::default(),
            left: AtomicUsize::new(0),
            place: AtomicUsize::new(0),
            noted: AtomicBool::new(false),
        })
    }

    /// Adds the pieces of a reply, if no more than `bound` bytes wait then. Sends what waits
    /// already where that makes room.
    pub fn add(&self, pieces: &[&[u8]], bound: usize) -> bool {
        self.change(|replies| {
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
        })
    }

    /// Works on what waits, and shows how much that is then.
    #[inline]
    fn change<R>(&self, work: impl FnOnce(&mut Unsent) -> R) -> R {
        let mut replies = lock(&self.replies);
        let result = work(&mut replies);
        self.left.store(replies.waiting.len(), Ordering::Release);
        result
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Bytes that wait: no fewer than those of whoever owns the connection, and looks.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Sends what waits, as far as the socket takes it. The order is safe: the owner sends
    /// nothing of its own before this is empty.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self) -> io::Result<Flushed> {
        self.change(|replies| replies.send(&self.transport))
    }

    /// How much was sent since the last time, by whomever.
    pub fn take_count(&self) -> u64 {
        std::mem::take(&mut lock(&self.replies).taken)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use reactor::Socket;

    use super::*;

    #[test]
    fn who_only_looks_sees_that_something_waits_until_the_kernel_has_all() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
        let replies = PipelinedReplies::new(&Arc::new(socket.into()));
        assert!(replies.is_empty());
        // More than a socket takes at once.
        let large = vec![b'x'; 4 << 20];
        assert!(replies.add(&[b"one", b"two"], usize::MAX) && replies.add(&[&large], usize::MAX));
        assert_eq!(replies.waiting(), 6 + large.len());
        let (mut read, mut room) = (0, vec![0; 1 << 20]);
        while replies.send().expect("a peer") == Flushed::Full {
            assert!(!replies.is_empty());
            read += theirs.read(&mut room).expect("some of it");
        }
        assert!(replies.is_empty() && read < 6 + large.len());
        assert_eq!(replies.take_count(), 6 + large.len() as u64);
        while read < 6 + large.len() {
            read += theirs.read(&mut room).expect("the rest of it");
        }
    }
}
