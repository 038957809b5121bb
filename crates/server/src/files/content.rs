//! What is sent of a file: its bytes in memory, or the open file.
//!
//! Knows: how large it is, and what it counts for as long as anybody has it. Does not know: whose file it is.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::sent_file::OpenFile;
use crate::spool::Charge;

/// A small file's bytes, and what they count for as long as anybody has them.
pub struct Stored {
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl Stored {
    pub fn new(bytes: Vec<u8>, charge: Charge) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into(), _charge: charge })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Part of a small file, to be kept for a reader.
pub(super) struct StoredPart(pub Arc<Stored>, pub Range<usize>);

impl AsRef<[u8]> for StoredPart {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes.get(self.1.clone()).unwrap_or_default()
    }
}

/// What is sent: bytes in memory, or an open file and its size.
#[derive(Clone)]
pub enum Content {
    Memory(Arc<Stored>),
    File(Arc<OpenFile>, u64),
}

impl Content {
    /// Bytes of all of it.
    pub fn size(&self) -> u64 {
        match self {
            Self::Memory(stored) => stored.bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if let Self::Memory(_) = self { "memory" } else { "file" };
        write!(to, "{} bytes, {kind}", self.size())
    }
}
