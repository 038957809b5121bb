//! poll(2), for a thread that waits for its wake-up and at most one thing besides.

use std::os::fd::RawFd;

/// Waits until the wake-up can be read, or the other descriptor, or for so many milliseconds; none: as long as it takes.
/// True: the wake-up was used.
pub fn wait_for(wake_up: RawFd, other: Option<RawFd>, milliseconds: Option<u64>) -> bool {
    // A descriptor below zero is passed over.
    let mut both =
        [wake_up, other.unwrap_or(-1)].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let wait = milliseconds.map_or(-1, |wait| libc::c_int::try_from(wait).unwrap_or(libc::c_int::MAX));
    // SAFETY: two valid entries, and the count says two. Whatever ends the wait, the caller
    // looks at what there is.
    unsafe { libc::poll(both.as_mut_ptr(), 2, wait) };
    both[0].revents != 0
}
