//! Descriptors that belong to this process alone: a forked child never has them.
//!
//! fork(2) copies all descriptors, and what they stand for is shared from then on: a child that
//! polled the same set, or read from the same connection, would take from its parent what it
//! finds there, and a connection that the parent closes would stay open for as long as the child
//! lives. So, before anything else runs in the child (pthread_atfork(3)), each number that is
//! noted here stands for something else there: an eventfd of its own (without such, a socket of its own), on which sending and
//! receiving, polling and accepting fail. Nothing of the parent's is touched by that, and
//! whatever code of ours the child comes to run finds its numbers open and dead.
//!
//! A descriptor is made and noted, or closed and forgotten, under one lock, which fork takes as
//! well: no child can have one that was just being made.
//!
//! Any thread. The lock is held for one system call at a time.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::{check, check_size};

/// A bit for each number.
static OURS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// How many forks lie between the process in which this was zero and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The lock, from before a fork until after it.
static HELD: Held = Held(UnsafeCell::new(None));
/// This process has forked a child: there may be others, made past the C library's fork.
static HAS_FORKED: AtomicBool = AtomicBool::new(false);
static PREPARED: Once = Once::new();

struct Held(UnsafeCell<Option<MutexGuard<'static, Vec<u64>>>>);

// SAFETY: only whoever holds the lock reads or writes it: the thread that forks, between
// `before_fork` and the end of the fork.
unsafe impl Sync for Held {}

/// How many forks lie behind this process, of those that were made since the first descriptor was
/// noted. What was made under another number belongs to another process.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// True once this process has forked. One that never does need not shut a connection down before it closes it, which is
/// a system call.
#[inline]
pub fn has_forked() -> bool {
    HAS_FORKED.load(Ordering::Relaxed)
}

/// Notes a descriptor that somebody else closes, until [`release`].
pub fn keep_from_children(fd: RawFd) {
    note(&mut locked(), fd);
}

/// Forgets a descriptor that is about to be closed.
pub fn release(fd: RawFd) {
    forget(&mut locked(), fd);
}

/// A descriptor that no forked child has. Closing is dropping.
#[derive(Debug)]
pub struct CloseOnFork(RawFd);

impl CloseOnFork {
    /// Makes one with a system call that answers a descriptor, or less than zero.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn made(make: impl FnOnce() -> libc::c_int) -> io::Result<Self> {
        let mut ours = locked();
        let fd = check(make())?;
        note(&mut ours, fd);
        Ok(Self(fd))
    }

    /// A copy of a descriptor that somebody else has.
    ///
    /// # Errors
    /// The kernel's: not open, or none left.
    pub fn copy_of(fd: RawFd) -> io::Result<Self> {
        // SAFETY: takes no pointer; a closed descriptor is an error, not a danger.
        Self::made(|| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })
    }
}

impl From<OwnedFd> for CloseOnFork {
    fn from(fd: OwnedFd) -> Self {
        let fd = fd.into_raw_fd();
        keep_from_children(fd);
        Self(fd)
    }
}

impl Drop for CloseOnFork {
    fn drop(&mut self) {
        let mut ours = locked();
        // In a forked child it was never ours, and the number may be somebody else's by now.
        if forget(&mut ours, self.0) {
            // SAFETY: noted, and so open and owned by this value alone.
            drop(unsafe { OwnedFd::from_raw_fd(self.0) });
        }
    }
}

impl AsFd for CloseOnFork {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open for as long as this value lives.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl AsRawFd for CloseOnFork {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl io::Write for &CloseOnFork {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: `bytes` is valid for its length for the duration of the call.
        let put = check_size(unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) })?;
        put.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn locked() -> MutexGuard<'static, Vec<u64>> {
    PREPARED.call_once(|| {
        // SAFETY: three functions of the type that the call wants, which live as long as the
        // program. It fails only where there is no memory; then children keep what they get.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_in_parent), Some(after_in_child)) };
    });
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(fd: RawFd) -> (usize, u64) {
    let fd = usize::try_from(fd).unwrap_or(0);
    (fd / 64, 1 << (fd % 64))
}

fn note(ours: &mut Vec<u64>, fd: RawFd) {
    let (word, bit) = place(fd);
    if word >= ours.len() {
        ours.resize(word + 1, 0);
    }
    ours[word] |= bit;
}

/// False: it was not noted.
fn forget(ours: &mut [u64], fd: RawFd) -> bool {
    let (word, bit) = place(fd);
    let noted = ours.get(word).is_some_and(|bits| bits & bit != 0);
    if noted {
        ours[word] &= !bit;
    }
    noted
}

/// Runs in the thread that forks, whatever it holds: nothing that is done under the lock waits
/// for anything.
unsafe extern "C" fn before_fork() {
    let held = locked();
    // SAFETY: this thread has the lock, see `Held`.
    unsafe { *HELD.0.get() = Some(held) };
}

unsafe extern "C" fn after_in_parent() {
    HAS_FORKED.store(true, Ordering::Relaxed);
    // SAFETY: this thread has had the lock since `before_fork`. It is let go of only when the
    // place is empty, for the next one to fork.
    let held = unsafe { (*HELD.0.get()).take() };
    drop(held);
}

/// Only this thread is here, and other threads' locks may be held for ever: no memory is asked for.
unsafe extern "C" fn after_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    HAS_FORKED.store(false, Ordering::Relaxed);
    // SAFETY: the lock was copied as this thread's, see `Held`.
    let mut held = unsafe { (*HELD.0.get()).take() };
    if let Some(ours) = &mut held {
        let_go(ours);
    }
}

/// Something of which nobody else has the other end; less than zero: there is nothing to be had.
#[cfg(target_os = "linux")]
fn harmless() -> RawFd {
    // SAFETY: numbers only.
    unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }
}

#[cfg(not(target_os = "linux"))]
fn harmless() -> RawFd {
    // SAFETY: numbers only.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
        fd
    }
}

/// Has a number stand for what another one stands for.
fn put(harmless: RawFd, fd: RawFd) {
    // SAFETY: numbers only; what `fd` stood for is closed by it in this process alone.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::dup3(harmless, fd, libc::O_CLOEXEC);
    }
    // SAFETY: as above.
    #[cfg(not(target_os = "linux"))]
    unsafe {
        libc::dup2(harmless, fd);
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}

/// Puts something harmless in the place of each descriptor that is noted, and forgets them.
fn let_go(ours: &mut [u64]) {
    let mut nothing = -1;
    for (index, bits) in ours.iter_mut().enumerate() {
        while *bits != 0 {
            let fd = (index * 64) as RawFd + bits.trailing_zeros() as RawFd;
            *bits &= *bits - 1;
            if nothing < 0 {
                // SAFETY: noted, and so open in the parent at the fork; no pointers. Where nothing
                // can be put in its place, it is closed at least.
                unsafe { libc::close(fd) };
                nothing = harmless();
            }
            if nothing >= 0 && fd != nothing {
                put(nothing, fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Forks, runs `work` in the child, and gives what it answered.
    fn in_child(work: impl FnOnce() -> u8) -> u8 {
        // SAFETY: the child makes system calls and ends.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(work().into()),
                child => {
                    assert!(child > 0, "{}", io::Error::last_os_error());
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    assert!(libc::WIFEXITED(status), "{status}");
                    u8::try_from(libc::WEXITSTATUS(status)).expect("a byte")
                }
            }
        }
    }

    #[test]
    fn a_child_has_none_of_them_and_the_parent_all() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let own = CloseOnFork::from(OwnedFd::from(ours));
        let before = forks();
        let answer = in_child(|| {
            let wrote = (&own).write(b"from the child").is_ok();
            u8::from(wrote) | u8::from(forks() != before + 1) << 1
        });
        assert_eq!(answer, 0);
        (&own).write_all(b"from the parent").expect("still open here");
        drop(own);
        let mut told = String::new();
        theirs.read_to_string(&mut told).expect("reads to the end");
        assert_eq!(told, "from the parent");
    }

    #[test]
    fn dropping_one_in_a_child_closes_nothing_that_is_the_childs() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let own = CloseOnFork::from(OwnedFd::from(ours));
        let number = own.as_raw_fd();
        let answer = in_child(|| {
            drop(own);
            // SAFETY: asks for flags only.
            u8::from(unsafe { libc::fcntl(number, libc::F_GETFD) } < 0)
        });
        assert_eq!(answer, 0);
    }

    #[test]
    fn what_was_released_is_left_alone() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        keep_from_children(ours.as_raw_fd());
        release(ours.as_raw_fd());
        assert_eq!(in_child(|| u8::from((&ours).write_all(b"child").is_err())), 0);
        drop(ours);
        let mut told = String::new();
        theirs.read_to_string(&mut told).expect("reads to the end");
        assert_eq!(told, "child");
    }
}
