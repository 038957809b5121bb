//! A request body that is complete before anybody works on it: in memory while it is small,
//! then in a temporary file without a name, which the kernel removes with its last descriptor.
//!
//! Knows: bytes and where they are kept. Does not know: framing (the machine has undone it).
//! [`BodyBuffer`] runs under the baton, [`Body`] on the thread that owns the exchange.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::incoming::Incoming;

/// A body as the application gets it.
pub enum Body {
    /// No body, or one of no bytes.
    Empty,
    /// All of it.
    Memory(Vec<u8>),
    /// All of it, `length` bytes from the start of the file.
    File { file: Spooled, length: u64 },
    /// It is still arriving (option `request_buffering` off).
    Stream(Arc<Incoming>),
}

/// A file that is read from a place of our own: the kernel's would be shared with a forked child, which then would
/// read what is its parent's.
pub struct Spooled {
    file: File,
    at: u64,
}

impl Read for Spooled {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(into, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// A body that is being received.
pub enum BodyBuffer {
    Memory(Vec<u8>),
    File { file: File, length: u64 },
}

impl BodyBuffer {
    /// Room for a body of so many bytes, if its length is known. Memory is taken as bytes
    /// arrive and never on the word of the peer alone.
    pub fn new() -> Self {
        Self::Memory(Vec::new())
    }

    /// Adds bytes. True: this made it move to a file.
    ///
    /// # Errors
    /// The file system's (disk full): the request cannot be served.
    pub fn add(&mut self, bytes: &[u8], memory_limit: u64) -> io::Result<bool> {
        match self {
            Self::Memory(memory) => {
                if (memory.len() + bytes.len()) as u64 <= memory_limit {
                    memory.extend_from_slice(bytes);
                    return Ok(false);
                }
                let mut file = tempfile::tempfile()?;
                file.write_all(memory)?;
                file.write_all(bytes)?;
                let length = (memory.len() + bytes.len()) as u64;
                *self = Self::File { file, length };
                Ok(true)
            }
            Self::File { file, length } => {
                file.write_all(bytes)?;
                *length += bytes.len() as u64;
                Ok(false)
            }
        }
    }

    /// The complete body, ready to be read from its start.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(self) -> io::Result<Body> {
        Ok(match self {
            Self::Memory(memory) if memory.is_empty() => Body::Empty,
            Self::Memory(memory) => Body::Memory(memory),
            Self::File { file, length } => Body::File { file: Spooled { file, at: 0 }, length },
        })
    }
}

impl Default for BodyBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn kept(limit: u64, pieces: &[&[u8]]) -> Body {
        let mut buffer = BodyBuffer::new();
        for piece in pieces {
            buffer.add(piece, limit).expect("a temporary file");
        }
        buffer.finish().expect("a temporary file")
    }

    #[test]
    fn up_to_the_limit_a_body_stays_in_memory() {
        assert!(matches!(kept(4, &[b"ab", b"c"]), Body::Memory(m) if m == b"abc"));
        assert!(matches!(kept(4, &[b"ab", b"cd"]), Body::Memory(m) if m == b"abcd"));
    }

    #[test]
    fn one_byte_beyond_it_goes_to_a_file_whole() {
        let Body::File { mut file, length } = kept(4, &[b"ab", b"cde", b"f"]) else { panic!("not a file") };
        let mut all = Vec::new();
        file.read_to_end(&mut all).expect("reads");
        assert_eq!((all.as_slice(), length), (&b"abcdef"[..], 6));
    }

    #[test]
    fn no_bytes_are_no_body() {
        assert!(matches!(kept(4, &[]), Body::Empty));
    }
}
