//! This process among others: memory that processes share, and ends that cannot be put off.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::check;
use super::memory::PAGE_BYTES;

/// Memory behind a descriptor, shared by all who map it, seen as numbers.
#[derive(Debug)]
pub struct SharedNumbers {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: it is memory of atomic numbers, which any thread may use, and nothing else.
unsafe impl Send for SharedNumbers {}
// SAFETY: as above.
unsafe impl Sync for SharedNumbers {}

/// What may be done with shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Numbers are only loaded: a store would end the process.
    Read,
    Write,
}

impl SharedNumbers {
    /// Maps the first `count` numbers behind a descriptor.
    ///
    /// # Errors
    /// The kernel's; or `InvalidInput`, when there are fewer numbers behind it.
    pub fn map(fd: RawFd, count: usize) -> io::Result<Self> {
        Self::map_part(fd, (0, count), Access::Write)
    }

    /// Maps `count` numbers from a place on, which is where a page begins: a multiple of 8192 numbers is, on every
    /// system.
    ///
    /// # Errors
    /// The kernel's; or `InvalidInput`, when there are fewer numbers behind the descriptor.
    pub fn map_part(fd: RawFd, (first, count): (usize, usize), access: Access) -> io::Result<Self> {
        let (skip, size) = (first * size_of::<AtomicU64>(), count * size_of::<AtomicU64>());
        // SAFETY: `stat` is plain data that the call fills; its result is checked.
        let held = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            check(libc::fstat(fd, &raw mut stat))?;
            usize::try_from(stat.st_size).unwrap_or(0)
        };
        if count == 0 || held < skip + size {
            // Reading beyond the end of the file would be a bus error.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too few numbers behind the descriptor"));
        }
        let access = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let skip = libc::off_t::try_from(skip).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at a place of the kernel's choice; the result is checked.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, fd, skip) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, count })
    }

    /// All of them.
    pub fn numbers(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is as long as `count` numbers, aligned to a page, and lives as
        // long as `self`; any bits are a number, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// What this process has looked at counts as its memory no more, until it looks again: the numbers stay where they are.
    pub fn let_go(&self) {
        let size = self.count * size_of::<AtomicU64>();
        // SAFETY: the mapping is shared and as long as this, so that its pages stay as they are, and come back when they are
        // touched. Where the kernel does not do it nothing has changed.
        unsafe { libc::madvise(self.start.as_ptr().cast(), size, libc::MADV_DONTNEED) };
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` has mapped, once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

/// Gives back the memory of numbers behind a descriptor: they read as zeros from now on.
///
/// # Errors
/// The kernel's.
pub fn forget_numbers(fd: RawFd, first: usize, count: usize) -> io::Result<()> {
    let (skip, size) = (first * size_of::<AtomicU64>(), count * size_of::<AtomicU64>());
    let (skip, size) = match (libc::off_t::try_from(skip), libc::off_t::try_from(size)) {
        (Ok(skip), Ok(size)) => (skip, size),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    #[cfg(target_os = "linux")]
    {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: takes numbers only.
        check(unsafe { libc::fallocate(fd, mode, skip, size) })?;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let zeros = vec![0_u8; size as usize];
        // SAFETY: the bytes are valid for their length.
        let put = unsafe { libc::pwrite(fd, zeros.as_ptr().cast(), zeros.len(), skip) };
        super::check_size(put).map(|_| ())
    }
}

/// What names the calling thread, in C and in Python (`threading.get_ident()`).
#[inline]
pub fn thread_id() -> u64 {
    // Asked for with each request, and to call the C library takes two lines of the cache for instructions.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let id;
        // SAFETY: the first word at the thread's pointer is that pointer (System V ABI for x86-64, thread-local storage), which
        // is what both glibc and musl name a thread by.
        unsafe {
            core::arch::asm!("mov {}, qword ptr fs:0", out(reg) id, options(nostack, preserves_flags, readonly, pure));
        }
        id
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        as_libc_names_it()
    }
}

/// The same, by the C library.
#[cfg(any(test, not(all(target_os = "linux", target_arch = "x86_64"))))]
fn as_libc_names_it() -> u64 {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() as u64 }
}

/// Makes this process the parent of its descendants whose own parents have ended.
///
/// # Errors
/// The kernel's; `Unsupported` where there is no such thing.
pub fn become_subreaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes numbers only.
        check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a process has been stopped (SIGSTOP, a debugger), or has ended and nobody has noticed. False where that is not told,
/// as for processes of others on a system that hides them, or where there is no such process.
pub fn is_stopped(pid: u64) -> bool {
    stat(pid).is_some_and(|(_, rest)| matches!(rest.as_bytes().first(), Some(b'T' | b't' | b'Z' | b'X')))
}

/// The name of a process, and what is told of it behind that, from its state on (proc_pid_stat(5)). None where it is not told.
fn stat(pid: u64) -> Option<(String, String)> {
    let told = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may have any byte.
    let begin = told.iter().position(|byte| *byte == b'(')?;
    let end = told.iter().rposition(|byte| *byte == b')')?;
    let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    Some((text(told.get(begin + 1..end)?), text(told.get(end + 2..)?)))
}

/// What a process has of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its short name, which it may change.
    pub name: String,
    /// Bytes that are in memory.
    pub resident: u64,
    /// Of processors, by its threads, those that have ended included, in nanoseconds: the kernel counts in hundredths of a
    /// second.
    pub processor: u64,
}

/// What a process has of the machine now. None where that is not told, as for processes of others on a system that hides them,
/// or where there is no such process.
pub fn taken(pid: u64) -> Option<Taken> {
    let (name, rest) = stat(pid)?;
    // proc_pid_stat(5) counts from one, and the state is the third.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (user, system, resident) = (field(14)?, field(15)?, field(24)?);
    // SAFETY: takes a number.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
    Some(Taken {
        name,
        resident: resident * PAGE_BYTES,
        processor: (user + system) * (1_000_000_000 / ticks),
    })
}

/// Whether there is a process of that number, be it that nobody has noticed its end yet.
pub fn is_there(pid: u64) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: takes numbers only, and a signal of zero is never sent.
    let found = unsafe { libc::kill(pid, 0) } == 0;
    // That of somebody else is there as well.
    found || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// A descriptor no longer is what it was made as: somebody else in the process has closed it, and another may have its number.
pub fn is_taken_away(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP))
}

/// Ends the process on the spot: no handler runs, nothing is flushed, nobody is waited for.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(status) }
}

/// Writes to standard error as it is, for a process whose locks may be held for ever.
pub fn write_stderr(text: &str) {
    // SAFETY: the text is valid for its length for the duration of the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// The signal on which a process shows its stacks: a real-time one, which nobody else uses.
pub fn stacks_signal() -> i32 {
    #[cfg(target_os = "linux")]
    return libc::SIGRTMIN() + 5;
    #[cfg(not(target_os = "linux"))]
    libc::SIGINFO
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_is_stopped_is_told_from_who_runs_and_who_is_not_there() {
        assert!(!is_stopped(std::process::id().into()));
        assert!(!is_stopped(u64::MAX));
        let mut stops = Command::new("sh").args(["-c", "kill -STOP $$"]).spawn().expect("a shell");
        let pid = stops.id().into();
        while !is_stopped(pid) {
            std::thread::yield_now();
        }
        stops.kill().expect("it is there");
        stops.wait().expect("it has ended");
        assert!(!is_stopped(pid));
    }

    #[test]
    fn what_a_process_has_of_the_machine_is_seen_by_others() {
        let mut burns = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        let pid = burns.id().into();
        let burnt = loop {
            match taken(pid) {
                Some(seen) if seen.processor > 0 => break seen,
                _ => std::thread::yield_now(),
            }
        };
        burns.kill().expect("it is there");
        burns.wait().expect("it has ended");
        assert!(burnt.name == "sh" && burnt.processor < 60_000_000_000, "{burnt:?}");
        assert!(burnt.resident >= 64 << 10 && burnt.resident < 1 << 30, "{burnt:?}");
        assert_eq!((taken(pid), taken(u64::MAX)), (None, None));
    }

    #[test]
    fn a_thread_has_the_name_that_the_c_library_has_for_it() {
        let both = || (thread_id(), as_libc_names_it());
        let mut named: Vec<_> = (0..3).map(|_| std::thread::spawn(both)).collect();
        let mut all: Vec<_> = named.drain(..).map(|thread| thread.join().expect("a thread")).collect();
        all.push(both());
        assert!(all.iter().all(|(id, libc)| id == libc && *id != 0), "{all:?}");
    }
}
