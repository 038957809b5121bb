//! Part of a file that is to be sent, and whether the kernel has it in memory.
//!
//! Knows: which pages are at hand, and who reads the others. Does not know: sockets, or what is in the file. Belongs to
//! the thread that owns the connection; what is not at hand is read by `disk.rs`.
//!
//! sendfile(2) waits for the disk where pages are missing or still being read, and whoever calls it here has the baton or an
//! event loop. So the kernel is asked before each call whether it has them, as it may have dropped them while the
//! peer took what went before; if it does not, a thread reads them, and the connection goes on when they are there.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reactor::Waker;
use reactor::file::Ask;

use crate::disk::DiskThreads;
use crate::inbox::Inbox;
use crate::spool::Charge;

/// How much is brought into memory at a time, at least.
const WINDOW: u64 = 1024 * 1024;

/// An open file, and what it counts for.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    _charge: Charge,
}

impl OpenFile {
    /// One that counts for something for as long as anybody has it.
    pub fn charged(file: File, charge: Charge) -> Self {
        Self { file, _charge: charge }
    }
}

impl From<File> for OpenFile {
    /// One that nobody counts.
    fn from(file: File) -> Self {
        Self { file, _charge: Charge::default() }
    }
}

/// Reads what the kernel does not have in memory, and tells the loop whose connection goes on.
pub struct ColdReads {
    threads: Arc<DiskThreads>,
    done: Inbox<u64>,
    waker: Arc<Waker>,
}

impl ColdReads {
    pub fn new(threads: Arc<DiskThreads>, waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { threads, done: Inbox::default(), waker })
    }

    /// The connections whose files can be sent on, by their tokens.
    pub fn take(&self) -> Vec<u64> {
        if self.done.is_full() { self.done.take() } else { Vec::new() }
    }
}

/// Who reads for a connection, and how far it has come.
struct Ahead {
    cold: Arc<ColdReads>,
    token: u64,
    /// It was read up to there.
    read_to: u64,
    /// That was a moment ago, and nothing has been sent since.
    is_fresh: bool,
    /// A thread reads it now.
    reads: Arc<AtomicBool>,
}

/// Part of a file that is to be sent.
pub struct SentFile {
    file: Arc<OpenFile>,
    offset: u64,
    left: u64,
    ahead: Option<Ahead>,
}

impl SentFile {
    /// `range`: where it begins, and how long it is.
    pub fn new(file: Arc<OpenFile>, (offset, left): (u64, u64)) -> Self {
        Self { file, offset, left, ahead: None }
    }

    /// Has what is not in memory read by a thread, which tells of the connection when it is there.
    pub fn reading_ahead(mut self, cold: &Arc<ColdReads>, token: u64) -> Self {
        let reads = Arc::default();
        let (cold, read_to) = (Arc::clone(cold), self.offset);
        self.ahead = Some(Ahead { cold, token, read_to, is_fresh: false, reads });
        self
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Where the next of them is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }

    /// Reads the next bytes, and takes none of them. None: they are not in memory but are being read, and the loop is told
    /// when they are.
    ///
    /// # Errors
    /// The file's; `UnexpectedEof` where it is shorter than was said.
    pub fn peek<'a>(&mut self, room: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(room.len());
        let room = &mut room[..most];
        let read = match reactor::file::read_at(&self.file.file, room, self.offset, Ask::Cached)? {
            Some(read) => read,
            None if !self.was_fetched(most as u64) => return Ok(None),
            // A file system that does not say what it has in memory: a thread has just read this.
            None => self.file.file.read_at(room, self.offset)?,
        };
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Some(&room[..read])) }
    }

    /// True: a thread has read the next `count` bytes. False: one does so now.
    fn was_fetched(&mut self, count: u64) -> bool {
        let Some(ahead) = &mut self.ahead else { return true };
        if ahead.reads.load(Ordering::Acquire) {
            return false;
        }
        let part = self.offset..self.offset.saturating_add(count);
        let fetched = part.end <= ahead.read_to;
        if !fetched {
            ahead.read(&self.file, part, self.offset + self.left);
        }
        fetched
    }

    /// So many bytes have gone.
    pub fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        self.left -= bytes as u64;
    }

    /// True: the next `count` bytes are in memory. False: they are being read, and the loop is told when they are.
    pub fn is_at_hand(&mut self, count: usize) -> bool {
        let Some(ahead) = &mut self.ahead else { return true };
        if ahead.reads.load(Ordering::Acquire) {
            return false;
        }
        let part = self.offset..self.offset.saturating_add(count as u64);
        // What has just been read for this is not asked for: it goes on, however short of memory the kernel is. Where the
        // kernel cannot tell, all that was read is taken to be there.
        let was_read = part.end <= ahead.read_to;
        let is_there = std::mem::take(&mut ahead.is_fresh) && was_read
            || reactor::file::is_in_memory(&self.file.file, &part).unwrap_or(was_read);
        if !is_there {
            ahead.read(&self.file, part, self.offset + self.left);
        }
        is_there
    }
}

impl Ahead {
    /// Has a part read, and what follows it up to a window's size; nothing behind `end` is wanted.
    fn read(&mut self, file: &Arc<OpenFile>, part: Range<u64>, end: u64) {
        let (at, to) = (part.start, end.min(part.end.max(part.start.saturating_add(WINDOW))));
        (self.read_to, self.is_fresh) = (to, true);
        self.reads.store(true, Ordering::Relaxed);
        let (file, cold, reads, token) =
            (Arc::clone(file), Arc::clone(&self.cold), Arc::clone(&self.reads), self.token);
        self.cold.threads.run(move || {
            // What cannot be read, whoever sends it will be told.
            let _ = reactor::file::fetch(&file.file, &(at..to));
            reads.store(false, Ordering::Release);
            if cold.done.put(token) {
                cold.waker.wake();
            }
        });
    }
}
