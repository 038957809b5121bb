//! What Linux can do with files beyond POSIX: names that stay beneath a folder, answers from memory alone.
//!
//! Knows: openat2 (5.6; from memory since 5.12), preadv2, readahead, cachestat (6.5), and which of them there are. Called
//! by `file.rs` alone.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use super::{Ask, Memory, Way};
use crate::sys::{check, check_size};

/// Names a file without opening it: no device is touched, no lease broken.
pub const LOOK: libc::c_int = libc::O_PATH;
/// The same for a folder on the way.
pub const STEP: libc::c_int = libc::O_PATH;

/// How this kernel resolves names, asked once in a process.
pub fn way(folder: BorrowedFd<'_>) -> Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    *WAY.get_or_init(|| {
        let open = |ask| open_beneath(folder, c".", LOOK | libc::O_CLOEXEC, ask).map(drop);
        // The folder is open, so that it can be named; what fails is the call: ENOSYS, or what a sandbox says in its place.
        if open(Ask::Disk).is_err() {
            return Way::Walk;
        }
        // EINVAL: RESOLVE_CACHED is unknown. EAGAIN: it is known, and this folder not in memory.
        let unknown = open(Ask::Cached).err().and_then(|error| error.raw_os_error()) == Some(libc::EINVAL);
        Way::Beneath { cached: !unknown }
    })
}

/// openat2(2): a name that stays below a folder, or EXDEV; EAGAIN where somebody renames around it, or a disk would
/// have to be asked.
pub fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &CStr,
    flags: libc::c_int,
    ask: Ask,
) -> io::Result<OwnedFd> {
    // SAFETY: all-zero is a valid open_how.
    let mut how: libc::open_how = unsafe { mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    if ask == Ask::Cached {
        how.resolve |= libc::RESOLVE_CACHED;
    }
    let (fd, size) = (folder.as_raw_fd(), mem::size_of::<libc::open_how>());
    // SAFETY: the name ends in a NUL, `how` has the size that is said, and both outlive the call.
    let made = unsafe { libc::syscall(libc::SYS_openat2, fd, path.as_ptr(), &raw const how, size) };
    let fd = check(made as libc::c_int)?;
    // SAFETY: just made by the kernel, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// preadv2(2) from memory. None: not there, or this file system cannot say (EOPNOTSUPP).
pub fn read_cached(file: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    match read_from_memory(file, into, offset) {
        Err(error) if is_silence(&error) => Ok(None),
        other => other,
    }
}

/// What memory has at one place, of a byte or of two.
pub fn memory(file: BorrowedFd<'_>, place: u64, bytes: usize) -> Memory {
    match read_from_memory(file, &mut [0; 2][..bytes.min(2)], place) {
        Ok(Some(0)) => Memory::End,
        Ok(Some(got)) if got == bytes => Memory::Has,
        Err(error) if is_silence(&error) => Memory::Silent,
        Ok(_) | Err(_) => Memory::Lacks,
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

fn read_from_memory(file: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    let piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let (fd, one) = (libc::c_long::from(file.as_raw_fd()), 1 as libc::c_long);
    // A place is one register wide here, and the register for an upper half is not looked at.
    let (place, upper, flags) =
        (offset as libc::c_long, 0 as libc::c_long, libc::c_long::from(libc::RWF_NOWAIT));
    // SAFETY: one piece, valid for writes of its length for the duration of the call.
    let got = unsafe { libc::syscall(libc::SYS_preadv2, fd, &raw const piece, one, place, upper, flags) };
    check_size(got as libc::ssize_t)
}

/// readahead(2): begins to read; what comes of it is seen by reading.
pub fn read_ahead(file: BorrowedFd<'_>, part: &Range<u64>) {
    let count = part.end.saturating_sub(part.start);
    // SAFETY: takes numbers only.
    unsafe { libc::readahead(file.as_raw_fd(), part.start as libc::off64_t, count as usize) };
}

/// The same number on every architecture; the C library has no name for it yet.
const SYS_CACHESTAT: libc::c_long = 451;

/// cachestat(2): whether memory has as many pages as this part. None where the kernel does not say: before 6.5, and of
/// files that this process could not write.
pub fn has_pages(file: BorrowedFd<'_>, part: &Range<u64>) -> Option<bool> {
    // Offset and length.
    let range = [part.start, part.end - part.start];
    // In the cache, dirty, written back, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    let (fd, flags) = (libc::c_long::from(file.as_raw_fd()), 0 as libc::c_long);
    // SAFETY: two numbers and room for five, as the call wants, which outlive it.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, fd, range.as_ptr(), pages.as_mut_ptr(), flags) };
    let size = page_size();
    (result == 0).then(|| pages[0] > (part.end - 1) / size - part.start / size)
}

/// Bytes that are in memory together or not at all.
pub fn page_size() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Over a network or another process, by the kind that statfs(2) tells.
pub fn is_remote(folder: BorrowedFd<'_>) -> bool {
    // 9p, AFS, Ceph, CIFS, Coda, FUSE, NCP, NFS, SMB, SMB2 (linux/magic.h).
    const KINDS: [u32; 10] = [
        0x0102_1997,
        0x5346_414f,
        0x00c3_6400,
        0xff53_4d42,
        0x7375_7245,
        0x6573_5546,
        0x0000_564c,
        0x0000_6969,
        0x0000_517b,
        0xfe53_4d42,
    ];
    // SAFETY: all-zero is a valid statfs.
    let mut known: libc::statfs = unsafe { mem::zeroed() };
    // SAFETY: room for what the call writes, which outlives it.
    let result = unsafe { libc::fstatfs(folder.as_raw_fd(), &raw mut known) };
    // What nobody can say is taken as far away.
    result < 0 || KINDS.contains(&(known.f_type as u32))
}
