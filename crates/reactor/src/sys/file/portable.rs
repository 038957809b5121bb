//! Files on a system that cannot tell what is in memory: whatever is asked of it may wait for a disk.
//!
//! Knows: POSIX, and the names of `linux.rs`. Called by `file.rs` alone.

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Ask, Memory, Way};

/// Opened for reading, as there is no other way to name a file.
pub const LOOK: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
/// The same for a folder on the way.
pub const STEP: libc::c_int = libc::O_RDONLY;

/// Name by name.
pub fn way(_folder: BorrowedFd<'_>) -> Way {
    Way::Walk
}

/// Not on this system; [`way`] says so.
pub fn open_beneath(
    _folder: BorrowedFd<'_>,
    _path: &CStr,
    _flags: libc::c_int,
    _ask: Ask,
) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never from memory for certain.
pub fn read_cached(_file: BorrowedFd<'_>, _into: &mut [u8], _offset: u64) -> io::Result<Option<usize>> {
    Ok(None)
}

/// Reading does it.
pub fn read_ahead(_file: BorrowedFd<'_>, _part: &Range<u64>) {}

/// Nobody says.
pub fn memory(_file: BorrowedFd<'_>, _place: u64, _bytes: usize) -> Memory {
    Memory::Silent
}

/// It does not matter where nobody says what memory has.
pub fn page_size() -> u64 {
    4096
}

/// Nobody says.
pub fn has_pages(_file: BorrowedFd<'_>, _part: &Range<u64>) -> Option<bool> {
    None
}

/// It does not matter where nothing is answered from memory.
pub fn is_remote(_folder: BorrowedFd<'_>) -> bool {
    true
}
