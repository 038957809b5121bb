//! Clocks: one that never jumps, for deadlines; one that people read, for the Date line; and
//! how much of a processor a thread has used.

use super::ticks;

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is a valid timespec for the call to fill. The call cannot fail for the
    // clocks used here, which every supported kernel has; were it to, zero is what is read.
    unsafe { libc::clock_gettime(clock, &mut at) };
    at
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Monotonic milliseconds. Coarse (the kernel's tick, some 4 ms): deadlines need no more,
/// and it is read without entering the kernel or the cycle counter.
#[inline]
pub fn monotonic_ms() -> u64 {
    #[cfg(target_os = "linux")]
    let at = read(libc::CLOCK_MONOTONIC_COARSE);
    #[cfg(not(target_os = "linux"))]
    let at = read(libc::CLOCK_MONOTONIC);
    unsigned(at.tv_sec) * 1000 + unsigned(at.tv_nsec) / 1_000_000
}

/// Monotonic microseconds, as exact as [`monotonic_ns`]: for durations that a log shows.
#[inline]
pub fn monotonic_us() -> u64 {
    monotonic_ns() / 1000
}

/// Monotonic nanoseconds, for the phases of a request: the kernel's, within some microseconds, read from the processor's
/// counter where that is a clock (`ticks.rs`).
#[inline]
pub fn monotonic_ns() -> u64 {
    ticks::now().unwrap_or_else(kernel_ns)
}

/// The kernel's own.
#[cold]
fn kernel_ns() -> u64 {
    let at = read(libc::CLOCK_MONOTONIC);
    unsigned(at.tv_sec) * 1_000_000_000 + unsigned(at.tv_nsec)
}

/// Keeps [`monotonic_ns`] quick and right. To be called some ten times a second while there is work.
pub fn compare_clocks() {
    ticks::compare(kernel_ns);
}

/// Nanoseconds that the calling thread has used of a processor. The kernel is entered for it: twenty times what
/// [`monotonic_ns`] costs.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    let at = read(libc::CLOCK_THREAD_CPUTIME_ID);
    unsigned(at.tv_sec) * 1_000_000_000 + unsigned(at.tv_nsec)
}

/// Nanoseconds that all threads of this process have used of processors. As dear as [`thread_cpu_ns`].
pub fn process_cpu_ns() -> u64 {
    let at = read(libc::CLOCK_PROCESS_CPUTIME_ID);
    unsigned(at.tv_sec) * 1_000_000_000 + unsigned(at.tv_nsec)
}

/// Seconds since 1970 in UTC, coarse: for the Date line (RFC 9110 §6.6.1), which has whole
/// seconds.
#[inline]
pub fn wall_seconds() -> u64 {
    #[cfg(target_os = "linux")]
    let at = read(libc::CLOCK_REALTIME_COARSE);
    #[cfg(not(target_os = "linux"))]
    let at = read(libc::CLOCK_REALTIME);
    unsigned(at.tv_sec)
}

/// Microseconds since 1970 in UTC: for log lines.
pub fn wall_us() -> u64 {
    let at = read(libc::CLOCK_REALTIME);
    unsigned(at.tv_sec) * 1_000_000 + unsigned(at.tv_nsec) / 1000
}

/// How much of a processor one thread of this process has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The calling thread's; none where the system has no such clock (pthread_getcpuclockid(3)).
    pub fn of_this_thread() -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            let mut clock = 0;
            // SAFETY: the thread is the calling one, which lives; `clock` is there to be filled.
            let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
            (failed == 0).then_some(Self(clock))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Microseconds; zero for a thread that is gone.
    pub fn micros(self) -> u64 {
        let at = read(self.0);
        unsigned(at.tv_sec) * 1_000_000 + unsigned(at.tv_nsec) / 1000
    }
}

/// How long one thread of this process has wanted to run, and has had no processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadWaits(i32);

impl ThreadWaits {
    /// The calling thread's.
    pub fn of_this_thread() -> Self {
        // SAFETY: takes nothing.
        #[cfg(target_os = "linux")]
        return Self(unsafe { libc::gettid() });
        #[cfg(not(target_os = "linux"))]
        Self(0)
    }

    /// Microseconds, from any thread of the process; none where the system does not tell, or the thread is gone. Some
    /// microseconds of work. Source: Documentation/scheduler/sched-stats.rst of the kernel, the second number.
    pub fn micros(self) -> Option<u64> {
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        let told = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0)).ok()?;
        let nanos: u64 = told.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(nanos / 1000)
    }
}
