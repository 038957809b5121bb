//! How long a slice of a processor a thread has, beside others that want the same processor.
//!
//! Linux from 6.12 on lets a thread of the usual kind say so (sched_setattr(2), `sched_runtime`, 0.1 to 100 ms; no rights
//! are needed among threads of one user). Shares stay as they are. Whoever wakes up and wants a shorter slice than the one
//! that runs need not wait for the end of that one's.
//!
//! Knows: threads by their numbers in the kernel. Does not know: what they do. Any thread.

use std::io;

/// One thread of this machine, as the scheduler knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelThread(u32);

impl KernelThread {
    /// The calling one.
    pub fn current() -> Self {
        #[cfg(target_os = "linux")]
        // SAFETY: takes nothing, and cannot fail.
        return Self(unsafe { libc::gettid() }.unsigned_abs());
        #[cfg(not(target_os = "linux"))]
        Self(0)
    }

    /// Its slice in nanoseconds.
    ///
    /// # Errors
    /// `Unsupported` where threads have no slices of their own, or this one is of another kind (real time, idle); and the kernel's:
    /// the thread is gone, a sandbox has no such call.
    pub fn slice(self) -> io::Result<u64> {
        attributes(self.0).map(|found| found.runtime)
    }

    /// Has it have slices of so many nanoseconds; zero: the usual. So have threads and processes that it starts from then on.
    ///
    /// # Errors
    /// As [`KernelThread::slice`].
    pub fn set_slice(self, ns: u64) -> io::Result<()> {
        let found = attributes(self.0)?;
        set_attributes(self.0, Attributes { runtime: ns, ..found })
    }

    /// The same, and what it starts has the usual ones, unless it has a priority that would be lost with them.
    ///
    /// # Errors
    /// As [`KernelThread::slice`].
    pub fn set_own_slice(self, ns: u64) -> io::Result<()> {
        let found = attributes(self.0)?;
        let flags = if found.nice < 0 { found.flags } else { found.flags | RESET_ON_FORK };
        set_attributes(self.0, Attributes { runtime: ns, flags, ..found })
    }
}

/// SCHED_FLAG_RESET_ON_FORK. Once it is set, only who has more rights takes it away.
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` as its first edition had it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

#[cfg(target_os = "linux")]
fn attributes(thread: u32) -> io::Result<Attributes> {
    let mut found = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: `found` is as large as is said, and any bits are numbers.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut found, size, 0_u32) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let usual =
        found.policy == libc::SCHED_OTHER.unsigned_abs() || found.policy == libc::SCHED_BATCH.unsigned_abs();
    // Kernels before 6.12 tell a slice of zero, take another one without a word, and do nothing with it.
    if usual && found.runtime > 0 { Ok(found) } else { Err(io::ErrorKind::Unsupported.into()) }
}

#[cfg(target_os = "linux")]
fn set_attributes(thread: u32, given: Attributes) -> io::Result<()> {
    // SAFETY: `given` is read for the duration of the call, and is as large as it says.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const given, 0_u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
fn attributes(_: u32) -> io::Result<Attributes> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn set_attributes(_: u32, _: Attributes) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn another_thread_has_the_slice_that_is_asked_for_within_bounds_and_the_usual_one_again() {
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(KernelThread::current()).expect("somebody listens");
            let _ = ends.recv();
        });
        let thread = told.recv().expect("it lives");
        match thread.slice() {
            Ok(usual) => {
                for (asked, had) in
                    [(7_000_000, 7_000_000), (1, 100_000), (1_000_000_000, 100_000_000), (0, usual)]
                {
                    thread.set_slice(asked).expect("it is ours");
                    assert_eq!(thread.slice().expect("it lives"), had, "{asked}");
                }
                thread.set_own_slice(300_000).expect("it is ours");
                assert_eq!(thread.slice().expect("it lives"), 300_000);
                assert_eq!(KernelThread::current().slice().expect("this one lives"), usual);
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
                assert!(thread.set_slice(7_000_000).is_err());
            }
        }
        drop(end);
        other.join().expect("it ends");
        while thread.slice().is_ok() {
            std::thread::yield_now();
        }
        assert!(thread.set_slice(0).is_err(), "it is gone");
    }
}
