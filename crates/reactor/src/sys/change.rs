//! Waiting until a number in shared memory changes, whoever changes it.
//!
//! Knows: the kernel's queue of those who wait at a place in memory. Does not know: what the number means. Any thread of
//! any process that has mapped it, be it only for reading. Elsewhere than on Linux there is no such queue between
//! processes that any version of the system has: whoever waits looks by and by.

use std::sync::atomic::AtomicU64;

/// The half of a number that counts: the kernel compares four bytes.
#[cfg(target_os = "linux")]
fn low_half(number: &AtomicU64) -> *mut u32 {
    let start: *mut u32 = number.as_ptr().cast();
    if cfg!(target_endian = "big") { start.wrapping_add(1) } else { start }
}

/// Waits until somebody tells that the number has changed, unless it is another one already than that which was seen. It may
/// come back for nothing.
#[cfg(target_os = "linux")]
pub fn wait_for_change(number: &AtomicU64, seen: u64) {
    let forever: *const libc::timespec = std::ptr::null();
    // SAFETY: the place is a part of a live, aligned number, which the kernel only reads.
    unsafe { libc::syscall(libc::SYS_futex, low_half(number), libc::FUTEX_WAIT, seen as u32, forever) };
}

/// Wakes all who wait for that. Who waits is told nothing else: the number is changed before.
#[cfg(target_os = "linux")]
pub fn tell_of_change(number: &AtomicU64) {
    // SAFETY: the place is a part of a live, aligned number, of which the kernel takes the address.
    unsafe { libc::syscall(libc::SYS_futex, low_half(number), libc::FUTEX_WAKE, i32::MAX) };
}

/// It comes back after some milliseconds, for nothing or not.
#[cfg(not(target_os = "linux"))]
pub fn wait_for_change(number: &AtomicU64, seen: u64) {
    const LOOK: std::time::Duration = std::time::Duration::from_millis(5);
    if number.load(std::sync::atomic::Ordering::Acquire) == seen {
        std::thread::sleep(LOOK);
    }
}

/// Whoever waits looks by itself.
#[cfg(not(target_os = "linux"))]
pub fn tell_of_change(_number: &AtomicU64) {}
