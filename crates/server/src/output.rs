//! Bytes on their way to a peer that is slower than we are.
//!
//! Knows: what is queued and how to send more of it. Does not know: what the bytes mean.
//! Runs on the thread that owns the connection.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::{io, mem};

use reactor::{PIECES, Sent};
use wire::gateway::fastcgi::Records;

use crate::budget::{Budget, Share};
use crate::sent_file::SentFile;
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
    /// What is no copy is sent in these records, whose heads are made on the way, ...
    records: Option<Records>,
    /// ... and the one that has begun takes so much more.
    open: usize,
    /// A large file is being sent, and the kernel keeps little of it.
    bounded: bool,
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

    /// What is queued behind this and is no copy is to be sent in records.
    pub fn frame_in(&mut self, records: Option<Records>) {
        self.records = records;
    }

    /// Bytes that so much content takes, whose own they are not.
    fn framing_of(&self, content: u64) -> u64 {
        self.records.map_or(0, |_| Records::heads(content))
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
            self.left += part.len() as u64 + self.framing_of(part.len() as u64);
            // All of it lives until the last of it is sent.
            let share = budget.map(|budget| budget.take((*bytes).as_ref().len()));
            self.pieces.push_back(Piece::Kept { bytes, at: part.start, end: part.end, share });
        }
    }

    /// Copies what is left of others' memory, so that its owner can let go of all of it.
    pub fn own(&mut self) {
        let mut open = self.open;
        for piece in &mut self.pieces {
            match piece {
                Piece::Copied(_) => continue,
                Piece::File(_) | Piece::Kept { share: None, .. } => {}
                Piece::Kept { bytes, at, end, share: Some(_) } => {
                    let rest = (**bytes).as_ref().get(*at..*end).unwrap_or_default();
                    let mut left = Vec::with_capacity(rest.len());
                    match self.records {
                        None => left.extend_from_slice(rest),
                        Some(records) => {
                            let (begun, more) = rest.split_at(open.min(rest.len()));
                            left.extend_from_slice(begun);
                            records.add(more, &mut left);
                            self.open -= open;
                        }
                    }
                    self.copied += left.len();
                    *piece = Piece::Copied(left.into());
                }
            }
            // Only the first that is no copy can have begun.
            open = 0;
        }
    }

    /// Queues part of a file.
    pub fn file(&mut self, file: SentFile) {
        if file.left() > 0 {
            self.left += file.left() + self.framing_of(file.left());
            self.pieces.push_back(Piece::File(file));
        }
    }

    /// False: there is more to send, and no edge will tell.
    pub fn awaits_edge(&self) -> bool {
        self.full || self.is_empty()
    }

    /// There may be room again.
    pub fn note_room(&mut self) {
        self.full = false;
    }

    /// What goes before this has filled the socket.
    pub fn note_full(&mut self) {
        self.full = true;
    }

    /// A file comes next.
    pub fn sends_file(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::File(_)))
    }

    /// Lets `take` have the bytes in order, and hear whether they are the last, until it takes less than it is shown; how
    /// many it took. What is in files is read for it, as much as there is `room` for: sendfile(2) knows nothing of frames.
    /// What of them is not in memory is waited for, and the loop hears when it is.
    ///
    /// # Errors
    /// A file's; `UnexpectedEof` where it is shorter than was said.
    pub fn pull(
        &mut self,
        room: impl Fn() -> usize,
        mut take: impl FnMut(&[u8], bool) -> usize,
    ) -> io::Result<u64> {
        let before = self.left;
        loop {
            let one = self.pieces.len() == 1;
            let Some(piece) = self.pieces.front_mut() else { break };
            let (taken, shown, done) = match piece {
                Piece::Copied(ring) => {
                    let (first, second) = ring.as_slices();
                    let shown = first.len();
                    let taken = take(first, one && second.is_empty());
                    ring.drain(..taken);
                    self.copied -= taken;
                    (taken, shown, ring.is_empty())
                }
                Piece::Kept { bytes, at, end, .. } => {
                    let rest = (**bytes).as_ref().get(*at..*end).unwrap_or_default();
                    let taken = take(rest, one);
                    let shown = rest.len();
                    *at += taken;
                    (taken, shown, at == end)
                }
                Piece::File(file) => {
                    let mut bytes = [0; FILE_BYTES];
                    let most = room().min(FILE_BYTES);
                    if most == 0 {
                        break;
                    }
                    let Some(read) = file.peek(&mut bytes[..most])? else { break };
                    let last = one && read.len() as u64 == file.left();
                    let (taken, shown) = (take(read, last), read.len());
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
        while !self.pieces.is_empty() {
            if room == 0 {
                return Ok(Flushed::More);
            }
            self.open_record();
            let sent = match self.pieces.front_mut() {
                Some(Piece::File(file)) => {
                    // A file is at hand whenever the peer has room. What the kernel keeps of it meanwhile, of all
                    // connections together, is taken from what it has for everybody.
                    if file.left() > most as u64 && !self.bounded {
                        transport.bound_unsent(most);
                        self.bounded = true;
                    }
                    let room = if self.records.is_some() { self.open.min(room) } else { room };
                    let count = usize::try_from(file.left()).unwrap_or(usize::MAX).min(room);
                    match file.is_at_hand(count) {
                        true => send_file(transport, file, count)?,
                        // The loop is told when it is.
                        false => Sent::Full,
                    }
                }
                _ => {
                    let (next, count) = self.upcoming(room);
                    match &next[..count] {
                        [one] => transport.send(one)?,
                        several => transport.send_pieces(several)?,
                    }
                }
            };
            match sent {
                Sent::Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Sent::Some(n) => {
                    self.take(n);
                    room -= n;
                }
                Sent::Full => {
                    self.full = true;
                    return Ok(Flushed::Full);
                }
            }
        }
        if mem::take(&mut self.bounded) {
            transport.bound_unsent(0);
        }
        Ok(Flushed::All)
    }

    /// Where the next piece is to be sent in records and none has begun, one does: its head goes before the piece.
    fn open_record(&mut self) {
        let Some(records) = self.records.filter(|_| self.open == 0) else { return };
        let behind = usize::from(matches!(self.pieces.front(), Some(Piece::Copied(_))));
        let content = match self.pieces.get(behind) {
            Some(Piece::Kept { at, end, .. }) => (end - at) as u64,
            Some(Piece::File(file)) => file.left(),
            _ => return,
        };
        let (head, length) = records.open(content);
        self.open = length;
        self.copied += head.len();
        match self.pieces.front_mut() {
            Some(Piece::Copied(ring)) => ring.extend(head),
            _ => self.pieces.push_front(Piece::Copied(VecDeque::from(head))),
        }
    }

    /// What comes next, in order, as far as one call sends it, and how many pieces that are.
    fn upcoming(&self, mut room: usize) -> ([&[u8]; PIECES], usize) {
        let mut next = [&[][..]; PIECES];
        let mut count = 0;
        let mut open = self.open;
        for piece in &self.pieces {
            let (parts, goes_on) = match piece {
                Piece::Copied(ring) => (ring.as_slices(), true),
                Piece::Kept { bytes, at, end, .. } => {
                    let rest = (**bytes).as_ref().get(*at..*end).unwrap_or_default();
                    let shown = if self.records.is_some() { open.min(rest.len()) } else { rest.len() };
                    open = 0;
                    ((&rest[..shown], &[][..]), shown == rest.len())
                }
                Piece::File(_) => break,
            };
            for part in [parts.0, parts.1].into_iter().filter(|part| !part.is_empty()) {
                if count == PIECES || room == 0 {
                    return (next, count);
                }
                next[count] = &part[..part.len().min(room)];
                room -= next[count].len();
                count += 1;
            }
            if !goes_on {
                break;
            }
        }
        (next, count)
    }

    /// So many bytes have been sent.
    fn take(&mut self, mut bytes: usize) {
        self.left -= bytes as u64;
        while bytes > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let (taken, done) = match piece {
                Piece::Copied(ring) => {
                    let taken = bytes.min(ring.len());
                    ring.drain(..taken);
                    self.copied -= taken;
                    (taken, ring.is_empty())
                }
                Piece::Kept { at, end, .. } => {
                    let taken = bytes.min(*end - *at);
                    *at += taken;
                    self.open = self.open.saturating_sub(taken);
                    (taken, at == end)
                }
                Piece::File(file) => {
                    file.advance(bytes);
                    self.open = self.open.saturating_sub(bytes);
                    (bytes, file.left() == 0)
                }
            };
            bytes -= taken;
            if done {
                self.pieces.pop_front();
            }
        }
    }
}

/// Sends so much of a file, as far as the socket takes it. A peer whose file turns out to be shorter, or unreadable, must
/// not take what it got for the whole.
fn send_file(transport: &Transport, file: &SentFile, count: usize) -> io::Result<Sent> {
    let sent = match transport.send_file(file.as_fd(), file.offset(), count) {
        Ok(Sent::Some(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => other,
    };
    if sent.is_err() {
        transport.reset_at_close();
    }
    sent
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

    /// What arrives of a body of so many bytes in records, of which `most` are sent at a time; as a file, or kept and
    /// made our own behind so many visits.
    fn arrives(size: usize, most: usize, own_behind: Option<usize>) -> Vec<u8> {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let transport = Transport::from(reactor::Socket::from_owned(OwnedFd::from(ours)).expect("a socket"));
        theirs.set_nonblocking(true).expect("a mode");
        let records = Records::new(7, true);
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let mut output = Output::default();
        output.copy(b"head");
        output.frame_in(Some(records));
        match own_behind {
            Some(_) => output.keep(Box::new(content), 0..size, Some(&Budget::new(u64::MAX))),
            None => {
                let mut file = tempfile::tempfile().expect("a file");
                io::Write::write_all(&mut file, &content).expect("room");
                output.file(SentFile::new(Arc::new(file.into()), (0, size as u64)));
            }
        }
        output.copy(b"end");
        let (mut found, mut room) = (Vec::new(), vec![0; 1 << 20]);
        let total = output.left();
        for visit in 0.. {
            if own_behind == Some(visit) {
                output.own();
                assert_eq!(output.left() as usize, output.copied(), "all of it is ours");
            }
            let flushed = output.flush(&transport, most).expect("a peer");
            while let Ok(read) = io::Read::read(&mut theirs, &mut room) {
                found.extend_from_slice(&room[..read]);
            }
            assert_eq!(output.left() + found.len() as u64, total, "heads of records count from the start");
            if flushed == Flushed::All {
                return found;
            }
        }
        found
    }

    #[test]
    fn a_body_in_records_is_the_same_however_it_is_sent() {
        for size in [1, 65_527, 65_528, 65_529, 200_000] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut wanted = b"head".to_vec();
            Records::new(7, true).add(&content, &mut wanted);
            wanted.extend_from_slice(b"end");
            for most in [7, 1000, 65_535, 1 << 20] {
                if size / most > 5000 {
                    continue;
                }
                for own_behind in [None, Some(usize::MAX), Some(0), Some(1), Some(2)] {
                    assert!(arrives(size, most, own_behind) == wanted, "{size} {most} {own_behind:?}");
                }
            }
        }
    }
}
