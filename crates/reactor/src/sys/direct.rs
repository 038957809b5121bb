//! The three system calls of every request, without the C library's functions for them.
//!
//! Those are places where a thread may be cancelled (pthreads(7)). In a process with more than one
//! thread each of them therefore changes the thread's state atomically before the call and after it, which costs as much as
//! sixty instructions. No thread of ours, and none of CPython's, is ever cancelled.

use std::ffi::{c_int, c_long};

/// recv(2) without flags.
///
/// # Safety
/// `into` is valid for writes of `room` bytes.
#[inline]
pub unsafe fn recv(fd: c_int, into: *mut u8, room: usize) -> libc::ssize_t {
    let nobody = std::ptr::null_mut::<libc::sockaddr>();
    let no_size = std::ptr::null_mut::<libc::socklen_t>();
    // SAFETY: the contract of this function; nobody asks where it came from. Arguments are as wide as a register.
    let got = unsafe {
        libc::syscall(libc::SYS_recvfrom, c_long::from(fd), into, room, c_long::from(0), nobody, no_size)
    };
    got as libc::ssize_t
}

/// send(2).
///
/// # Safety
/// `from` is valid for reads of `length` bytes.
#[inline]
pub unsafe fn send(fd: c_int, from: *const u8, length: usize, flags: c_int) -> libc::ssize_t {
    let (fd, flags, none) = (c_long::from(fd), c_long::from(flags), c_long::from(0));
    let peer = std::ptr::null::<libc::sockaddr>();
    // SAFETY: the contract of this function; the socket is connected, so that nobody is named.
    let put = unsafe { libc::syscall(libc::SYS_sendto, fd, from, length, flags, peer, none) };
    put as libc::ssize_t
}

/// epoll_wait(2).
///
/// # Safety
/// `into` is valid for writes of `most` events.
#[inline]
pub unsafe fn epoll_wait(fd: c_int, into: *mut libc::epoll_event, most: c_int, milliseconds: c_int) -> c_int {
    let (fd, most, wait) = (c_long::from(fd), c_long::from(most), c_long::from(milliseconds));
    // SAFETY: the contract of this function.
    #[cfg(target_arch = "x86_64")]
    let found = unsafe { libc::syscall(libc::SYS_epoll_wait, fd, into, most, wait) };
    // Newer architectures have only the call with a set of signals; without a set it is the same.
    // SAFETY: the contract of this function.
    #[cfg(not(target_arch = "x86_64"))]
    let found = unsafe {
        let (signals, size) = (std::ptr::null::<libc::sigset_t>(), c_long::from(8));
        libc::syscall(libc::SYS_epoll_pwait, fd, into, most, wait, signals, size)
    };
    found as c_int
}
