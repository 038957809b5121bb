//! A request body that is complete before anybody works on it: in memory while it is small,
//! then in a temporary file without a name, which the kernel removes with its last descriptor.
//!
//! Knows: bytes and where they are kept. Does not know: framing (the machine has undone it), or
//! how much all bodies hold together (`spool.rs`). [`BodyBuffer`] runs under the baton, but for
//! [`BodyBuffer::store`], which runs on the spool's thread; [`Body`] on the thread that owns the
//! exchange.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use reactor::holding::{Wait, will_wait};

use crate::incoming::Incoming;
use crate::spool::{Charge, Spool};

/// Of a body that has a file already, so much is collected before it is written.
const PIECE_BYTES: u64 = 256 * 1024;
/// The same where memory is short; and a smaller body is not worth a file of its own.
pub const SMALL_PIECE_BYTES: u64 = 16 * 1024;

/// A body as the application gets it.
pub enum Body {
    /// No body, or one of no bytes.
    Empty,
    /// All of it.
    Memory(Received),
    /// All of it.
    File(Spooled),
    /// It is still arriving (option `request_buffering` off).
    Stream(Arc<Incoming>),
}

/// A body in memory, and what it counts for.
#[derive(Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    charge: Charge,
}

impl Received {
    /// The bytes, and what is to be dropped with them.
    pub fn into_parts(self) -> (Vec<u8>, Charge) {
        (self.bytes, self.charge)
    }
}

/// A body in a file that is read from a place of our own: the kernel's would be shared with a
/// forked child, which then would read what is its parent's. What closes it may take long for a
/// large one, so the spool's thread does that.
pub struct Spooled {
    file: Option<File>,
    length: u64,
    at: u64,
    charge: Charge,
    spool: Arc<Spool>,
}

impl Spooled {
    /// Bytes of the whole body.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        will_wait(Wait::For("a disk"));
        file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Reads from where the last read ended. The caller has let go of whatever others need: a disk
/// may be slow.
impl io::Read for Spooled {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &self.file else { return Ok(0) };
        will_wait(Wait::For("a disk"));
        let got = file.read_at(into, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.spool.close(file, self.length);
        }
    }
}

/// A body that is being received.
#[derive(Default)]
pub struct BodyBuffer {
    /// All of it, or what is to be added to the file.
    bytes: Vec<u8>,
    charge: Charge,
    file: Option<Spooled>,
}

impl BodyBuffer {
    /// Memory is taken as bytes arrive and never on the word of the peer alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        if self.bytes.is_empty() && self.file.is_some() {
            // What is collected is seldom more than a piece and a read.
            self.bytes.reserve_exact(bytes.len().max(PIECE_BYTES as usize + 64 * 1024));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes in memory.
    pub fn held(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Counts what is in memory as held. How much all bodies hold then, in bytes.
    pub fn charge(&mut self, spool: &Arc<Spool>) -> u64 {
        let held = self.held();
        self.charge.set(&spool.memory, held)
    }

    /// True when what is in memory shall go to the file: `limit` bytes may stay where there is
    /// none, `short` says that all bodies together hold much.
    pub fn shall_be_stored(&self, limit: u64, short: bool) -> bool {
        match self.file {
            None if self.held() <= limit => short && self.held() >= SMALL_PIECE_BYTES,
            None => true,
            Some(_) => self.held() >= if short { SMALL_PIECE_BYTES } else { PIECE_BYTES },
        }
    }

    /// True when the body is complete but for what is to be added to its file. One that is
    /// small enough has none.
    pub fn has_a_rest(&self, limit: u64) -> bool {
        match self.file {
            None => self.held() > limit,
            Some(_) => !self.bytes.is_empty(),
        }
    }

    /// Counts what is in memory as on disk, before it is. How much all bodies have there then.
    pub fn charge_disk(&mut self, spool: &Arc<Spool>) -> u64 {
        let held = self.held();
        let file = self.file.get_or_insert_with(|| Spooled {
            file: None,
            length: 0,
            at: 0,
            charge: Charge::default(),
            spool: Arc::clone(spool),
        });
        let length = file.length + held;
        file.charge.set(&spool.disk, length)
    }

    /// Writes what is in memory to the file, which is made when it is first needed. True: it
    /// was made now. May take as long as the disk does.
    ///
    /// # Errors
    /// The file system's (disk full): the request cannot be served.
    pub fn store(&mut self) -> io::Result<bool> {
        let Some(spooled) = &mut self.file else { return Ok(false) };
        let first = spooled.file.is_none();
        if first {
            spooled.file = Some(tempfile::tempfile()?);
        }
        spooled.push(&self.bytes)?;
        self.bytes = Vec::new();
        self.charge = Charge::default();
        Ok(first)
    }

    /// The complete body, ready to be read from its start.
    pub fn finish(self) -> Body {
        match self.file {
            None if self.bytes.is_empty() => Body::Empty,
            None => Body::Memory(Received { bytes: self.bytes, charge: self.charge }),
            Some(spooled) => Body::File(spooled),
        }
    }

    /// What there is of a body that has no file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn spool() -> Arc<Spool> {
        Spool::new()
    }

    /// What becomes of a body that arrives in these pieces, each of them a read; and how often
    /// it was written.
    fn kept(limit: u64, pieces: &[&[u8]], spool: &Arc<Spool>) -> (Body, usize) {
        let mut buffer = BodyBuffer::new();
        let mut writes = 0;
        let mut store = |buffer: &mut BodyBuffer| {
            buffer.charge_disk(spool);
            buffer.store().expect("a temporary file");
            writes += 1;
        };
        for piece in pieces {
            buffer.add(piece);
            buffer.charge(spool);
            if buffer.shall_be_stored(limit, false) {
                store(&mut buffer);
            }
        }
        if buffer.has_a_rest(limit) {
            store(&mut buffer);
        }
        (buffer.finish(), writes)
    }

    #[test]
    fn up_to_the_limit_a_body_stays_in_memory_and_counts_until_it_is_dropped() {
        let spool = spool();
        for pieces in [[b"ab".as_slice(), b"c"], [b"ab", b"cd"]] {
            let (body, writes) = kept(4, &pieces, &spool);
            let Body::Memory(received) = &body else { panic!("not in memory") };
            assert_eq!((received.bytes.as_slice(), writes), (pieces.concat().as_slice(), 0));
            assert_eq!(spool.memory.used(), received.bytes.len() as u64);
            drop(body);
            assert_eq!(spool.memory.used(), 0);
        }
    }

    #[test]
    fn one_byte_beyond_it_goes_to_a_file_whole() {
        let spool = spool();
        let (body, _) = kept(4, &[b"ab", b"cde", b"f"], &spool);
        let Body::File(mut file) = body else { panic!("not a file") };
        let mut all = Vec::new();
        file.read_to_end(&mut all).expect("reads");
        assert_eq!((all.as_slice(), file.length()), (&b"abcdef"[..], 6));
        assert_eq!((spool.memory.used(), spool.disk.used()), (0, 6));
        drop(file);
        assert_eq!(spool.disk.used(), 0);
    }

    #[test]
    fn small_reads_are_collected_before_they_are_written() {
        let spool = spool();
        let reads = vec![[b'x'; 1000].as_slice(); 3000];
        let (body, writes) = kept(256 * 1024, &reads, &spool);
        let Body::File(file) = body else { panic!("not a file") };
        assert_eq!(file.length(), 3_000_000);
        assert!(writes <= 12, "{writes} writes of three megabytes");
    }

    #[test]
    fn where_memory_is_short_less_is_collected_and_what_is_tiny_stays() {
        let spool = spool();
        let mut buffer = BodyBuffer::new();
        buffer.add(&[b'x'; SMALL_PIECE_BYTES as usize - 1]);
        assert!(!buffer.shall_be_stored(1 << 20, true));
        buffer.add(b"x");
        assert!(buffer.shall_be_stored(1 << 20, true) && !buffer.shall_be_stored(1 << 20, false));
        buffer.charge_disk(&spool);
        assert!(buffer.store().expect("a temporary file") && buffer.held() == 0);
        buffer.add(&[b'x'; SMALL_PIECE_BYTES as usize]);
        assert!(buffer.shall_be_stored(1 << 20, true) && !buffer.shall_be_stored(1 << 20, false));
    }

    #[test]
    fn no_bytes_are_no_body() {
        assert!(matches!(kept(4, &[], &spool()).0, Body::Empty));
    }
}
