//! Files below a folder: opened so that nothing outside of it is ever reached, and read so that nobody waits for a disk
//! who must not.
//!
//! Knows: names, what kind of thing they name, what of a file is in memory. Does not know: HTTP, which names are served
//! (`wire::static_path` says that), what is sent. Any thread; who asks with [`Ask::Disk`] may wait.
//!
//! **Confinement.** The kernel resolves a whole name below the folder (`openat2` with `RESOLVE_BENEATH`): a `..` or a
//! symlink that leads out of it fails, also while others rename folders and swap symlinks. Symlinks that stay inside are
//! followed; absolute ones lead outside. Where the kernel has no such call, names are walked one by one and no symlink is
//! followed at all. Which of the two it is, is found out once in a process, by a call that nothing but its absence makes
//! fail; that a single file may not be opened changes nothing.
//!
//! **Waiting.** With [`Ask::Cached`] a name is resolved, and content read, only from memory. On file systems over a
//! network, and where the kernel cannot promise it, that is never tried.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use portable as system;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::{check, check_size};
use crate::holding::{Wait, will_wait};

/// Whether a disk may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// From memory or not at all.
    Cached,
    /// However long it takes: only on a thread that holds nothing that others need.
    Disk,
}

/// What a name below a root stands for.
#[derive(Debug)]
pub enum Found<T> {
    /// A regular file.
    File(T),
    Folder,
    NotFound,
    /// It leads out of the root, by a symlink, or by one that the fallback does not follow, or it is a loop of them.
    Outside,
    /// This process may not read it.
    Forbidden,
    /// A device, a socket, a FIFO: nothing that has an end.
    NotRegular,
    /// Only a disk can tell; [`Ask::Cached`] alone answers this.
    WouldBlock,
    /// Others rename around it all the time, or somebody holds a lease on it: it can be tried again later.
    Busy,
}

/// Which state of which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// In bytes.
    pub size: u64,
    /// Of the content's last change: seconds since 1970, and nanoseconds of that second.
    pub modified: (i64, i64),
    /// Of the last change of content, name, owner or mode, which nobody can set back.
    pub changed: (i64, i64),
    /// Device and inode.
    pub identity: (u64, u64),
}

/// How often a name is resolved anew that was renamed meanwhile.
const RACE_TRIES: usize = 4;

/// How names are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the kernel, and whether it can also do so from memory alone.
    Beneath { cached: bool },
    /// Name by name.
    Walk,
}

/// A folder below which files are opened. Stays what it is when its name comes to stand for another folder.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    way: Way,
    /// Over a network, where memory knows nothing for certain and opening a file asks its server.
    is_remote: bool,
}

impl Root {
    /// Opens a folder, whose own path may have symlinks.
    ///
    /// # Errors
    /// The system's: not there, no folder, not to be read.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let root = Self::walking(folder)?;
        let way = system::way(root.folder.as_fd());
        Ok(Self { way, ..root })
    }

    /// The same with the fallback, whatever the kernel can do: for tests of it.
    ///
    /// # Errors
    /// As [`Root::new`].
    pub fn walking(folder: &Path) -> io::Result<Self> {
        let folder =
            File::options().read(true).custom_flags(system::STEP | libc::O_DIRECTORY).open(folder)?;
        let is_remote = system::is_remote(folder.as_fd());
        Ok(Self { folder: folder.into(), way: Way::Walk, is_remote })
    }

    /// Whether the kernel itself keeps names below the folder. False: symlinks are not followed.
    pub fn is_beneath(&self) -> bool {
        self.way != Way::Walk
    }

    /// Opens a regular file for reading. `path` is relative, without a slash at its end; empty, it is the root itself.
    ///
    /// # Errors
    /// Those of this process or machine and not of the file: no descriptor or memory is left, the disk is broken.
    pub fn open(&self, path: &[u8], ask: Ask) -> io::Result<Found<(File, Facts)>> {
        // Not blocking: a FIFO would wait for whoever writes, a leased file for its holder.
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        self.find(path, flags, ask)
    }

    /// What a name stands for now, without opening it: whether what was opened earlier is still there.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn look(&self, path: &[u8], ask: Ask) -> io::Result<Found<Facts>> {
        let found = self.find(path, system::LOOK | libc::O_CLOEXEC, ask)?;
        Ok(found.map(|(_, facts)| facts))
    }

    fn find(&self, path: &[u8], flags: libc::c_int, ask: Ask) -> io::Result<Found<(File, Facts)>> {
        let path = if path.is_empty() { b"." } else { path };
        // A NUL would end the name before its end.
        let Ok(path) = CString::new(path) else { return Ok(Found::NotFound) };
        if ask == Ask::Disk {
            will_wait(Wait::For("a disk"));
        } else if self.is_remote || self.way != (Way::Beneath { cached: true }) {
            return Ok(Found::WouldBlock);
        }
        let opened = persist(ask, || match self.way {
            Way::Beneath { .. } => system::open_beneath(self.folder.as_fd(), &path, flags, ask),
            Way::Walk => walk(self.folder.as_fd(), &path, flags),
        });
        match opened {
            Ok(fd) => judge(File::from(fd)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && ask == Ask::Cached => {
                Ok(Found::WouldBlock)
            }
            Err(error) => refusal(error),
        }
    }
}

/// Opens again what a signal has interrupted, and a few times what somebody has renamed meanwhile.
fn persist(ask: Ask, mut open: impl FnMut() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let mut left = if ask == Ask::Disk { RACE_TRIES } else { 0 };
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && left > 0 => left -= 1,
            other => return other,
        }
    }
}

impl<T> Found<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::File(it) => Found::File(change(it)),
            Self::Folder => Found::Folder,
            Self::NotFound => Found::NotFound,
            Self::Outside => Found::Outside,
            Self::Forbidden => Found::Forbidden,
            Self::NotRegular => Found::NotRegular,
            Self::WouldBlock => Found::WouldBlock,
            Self::Busy => Found::Busy,
        }
    }
}

/// What was opened: a file, or something else that has a name.
fn judge(file: File) -> io::Result<Found<(File, Facts)>> {
    let known = file.metadata()?;
    Ok(if known.is_file() {
        let facts = facts_of(&known);
        Found::File((file, facts))
    } else if known.is_dir() {
        Found::Folder
    } else if known.is_symlink() {
        // Not followed by the fallback, and named without being opened.
        Found::Outside
    } else {
        Found::NotRegular
    })
}

/// What an error says of a name. Others are not the name's, but this process's or the machine's.
fn refusal<T>(error: io::Error) -> io::Result<Found<T>> {
    Ok(match error.raw_os_error() {
        // Some file systems take no names of certain characters (EINVAL, EILSEQ).
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::EINVAL | libc::EILSEQ) => {
            Found::NotFound
        }
        Some(libc::EXDEV | libc::ELOOP) => Found::Outside,
        // EPERM also comes from watchers and policies (fanotify, security modules), of this one file.
        Some(libc::EACCES | libc::EPERM) => Found::Forbidden,
        Some(libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP) => Found::NotRegular,
        // ESTALE: a server of files has another one of this name by now.
        Some(libc::EAGAIN | libc::ESTALE) => Found::Busy,
        _ => return Err(error),
    })
}

/// Opens a name component by component, none of which may be a symlink: where the kernel cannot resolve beneath.
fn walk(root: BorrowedFd<'_>, path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let mut names = path.to_bytes().split(|&byte| byte == b'/').peekable();
    let mut folder: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        // `.` is the root itself, which nobody else may be named by.
        let is_root = name == b"." && folder.is_none() && names.peek().is_none();
        if !is_root && matches!(name, b"" | b"." | b"..") {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let flags = match names.peek() {
            None => flags,
            Some(_) => system::STEP | libc::O_DIRECTORY | libc::O_CLOEXEC,
        };
        let name = CString::new(name)?;
        let from = folder.as_ref().map_or(root, AsFd::as_fd).as_raw_fd();
        // SAFETY: the name ends in a NUL and outlives the call; the folder is open.
        let fd = check(unsafe { libc::openat(from, name.as_ptr(), flags | libc::O_NOFOLLOW) })?;
        // SAFETY: just made by the kernel, and nobody else owns it.
        folder = Some(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    folder.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn facts_of(known: &std::fs::Metadata) -> Facts {
    Facts {
        size: known.len(),
        modified: (known.mtime(), known.mtime_nsec()),
        changed: (known.ctime(), known.ctime_nsec()),
        identity: (known.dev(), known.ino()),
    }
}

/// The state of an open file, which may have grown, shrunk or been written since.
///
/// # Errors
/// The system's.
pub fn facts(file: &File) -> io::Result<Facts> {
    Ok(facts_of(&file.metadata()?))
}

/// Opens whatever a path names, for reading: nobody waits for one who would write to a FIFO, and no terminal becomes ours.
///
/// # Errors
/// The system's.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Reads from a place, as much as there is and fits; 0 at the end. From memory alone it may be less than there is in the
/// file; None: nothing at this place is in memory, or this file system does not say.
///
/// # Errors
/// The system's.
pub fn read_at(file: &File, into: &mut [u8], offset: u64, ask: Ask) -> io::Result<Option<usize>> {
    if ask == Ask::Disk {
        will_wait(Wait::For("a disk"));
    }
    loop {
        let got = match ask {
            Ask::Cached => system::read_cached(file.as_fd(), into, offset),
            Ask::Disk => file.read_at(into, offset).map(Some),
        };
        match got {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Reads from a place of what is known to be in memory, as much as there is and fits; 0 at the end.
///
/// # Errors
/// The system's.
pub fn read_some(file: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: `into` is valid for its length for the duration of the call.
        let got = unsafe { libc::pread(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), at) };
        match check_size(got) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Files are never told to come back later.
            other => return other.map(Option::unwrap_or_default),
        }
    }
}

/// Whether the byte at a place can be read at once.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no system but Linux says so much"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Has,
    Lacks,
    /// There is no such place: the file ends before.
    End,
    /// This file system does not say.
    Silent,
}

/// Whether a part of a file can be sent without waiting for a disk: all its pages are there, and none is still being
/// read. The kernel is first asked how many there are, where it tells: to ask for one that is not would begin to read it. Then
/// every page is asked for: those that are being read count as there, and what is read at a time may be a single one. None:
/// it cannot be known. What lies behind the file's end is never waited for.
pub fn is_in_memory(file: &File, part: &Range<u64>) -> Option<bool> {
    let mut part = part.clone();
    let mut counted = None;
    while !part.is_empty() {
        counted = system::has_pages(file.as_fd(), &part);
        let size =
            if counted == Some(false) { facts(file).map_or(part.end, |facts| facts.size) } else { part.end };
        if size < part.end {
            // It has shrunk: whoever sends it finds that out.
            part.end = size;
        } else if counted == Some(false) {
            return counted;
        } else {
            break;
        }
    }
    let page = system::page_size();
    let mut place = part.start - part.start % page;
    while !part.is_empty() && place < part.end {
        // The last byte of a page and the first of the next are one question.
        let (at, bytes) = if place + page < part.end { (place + page - 1, 2) } else { (place, 1) };
        match system::memory(file.as_fd(), at, bytes) {
            Memory::Has => place += page * bytes as u64,
            Memory::Lacks => return Some(false),
            Memory::End => break,
            Memory::Silent => return counted,
        }
    }
    Some(true)
}

/// How much is read at a time to bring it into memory.
const PIECE: u64 = 16 * 1024;

/// Waits until a part of a file is in memory. What lies behind its end does not matter.
///
/// # Errors
/// The disk's.
pub fn fetch(file: &File, part: &Range<u64>) -> io::Result<()> {
    will_wait(Wait::For("a disk"));
    system::read_ahead(file.as_fd(), part);
    let mut scratch = [0; PIECE as usize];
    let mut at = part.start;
    while at < part.end {
        let most = (part.end - at).min(PIECE) as usize;
        match read_at(file, &mut scratch[..most], at, Ask::Disk)? {
            Some(0) | None => break,
            Some(got) => at += got as u64,
        }
    }
    Ok(())
}
