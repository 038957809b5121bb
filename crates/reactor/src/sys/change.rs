//! Waiting until a number in shared memory changes, whoever changes it.
//!
//! Knows: the kernel's queue of those who wait at a place in memory. Does not know: what the number means. Any thread of
//! any process that has mapped it, be it only for reading.

use std::ptr;
use std::sync::atomic::AtomicU64;

/// The half of a number that counts: the kernel compares four bytes.
fn low_half(number: &AtomicU64) -> *mut u32 {
    let start: *mut u32 = number.as_ptr().cast();
    if cfg!(target_endian = "big") { start.wrapping_add(1) } else { start }
}

/// Waits until somebody tells that the number has changed, unless it is another one already than that which was seen. It may
/// come back for nothing.
pub fn wait_for_change(number: &AtomicU64, seen: u64) {
    let forever: *const libc::timespec = ptr::null();
    // SAFETY: the place is a part of a live, aligned number, which the kernel only reads.
    unsafe { libc::syscall(libc::SYS_futex, low_half(number), libc::FUTEX_WAIT, seen as u32, forever) };
}

/// Wakes all who wait for that. Who waits is told nothing else: the number is changed before.
pub fn tell_of_change(number: &AtomicU64) {
    // SAFETY: the place is a part of a live, aligned number, of which the kernel takes the address.
    unsafe { libc::syscall(libc::SYS_futex, low_half(number), libc::FUTEX_WAKE, i32::MAX) };
}
