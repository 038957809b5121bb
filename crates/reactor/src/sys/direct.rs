//! The three system calls of every request, without the C library's functions for them.
//!
//! Those are places where a thread may be cancelled (pthreads(7)). In a process with more than one
//! thread each of them therefore changes the thread's state atomically before the call and after it, which costs as much as
//! sixty instructions. No thread of ours, and none of CPython's, is ever cancelled. Elsewhere than on Linux the C library is
//! the only way into the kernel that stays the same.

use std::ffi::c_int;
#[cfg(target_os = "linux")]
use std::ffi::c_long;

/// recv(2) without flags.
///
/// # Safety
/// `into` is valid for writes of `room` bytes.
#[inline]
#[cfg(target_os = "linux")]
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
#[cfg(target_os = "linux")]
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
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub unsafe fn epoll_wait(fd: c_int, into: *mut libc::epoll_event, most: c_int, milliseconds: c_int) -> c_int {
    let (fd, most, wait) = (c_long::from(fd), c_long::from(most), c_long::from(milliseconds));
    // SAFETY: the contract of this function. Arguments are as wide as a register.
    let found = unsafe { libc::syscall(libc::SYS_epoll_wait, fd, into, most, wait) };
    found as c_int
}

#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
pub use self::epoll_pwait as epoll_wait;

/// epoll_wait(2) on newer architectures, which have only the call with a set of signals. Without a set it is the
/// same. Every build has it for its tests.
///
/// # Safety
/// `into` is valid for writes of `most` events.
#[inline]
#[cfg(all(target_os = "linux", any(test, not(target_arch = "x86_64"))))]
pub unsafe fn epoll_pwait(
    fd: c_int,
    into: *mut libc::epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    let (fd, most, wait) = (c_long::from(fd), c_long::from(most), c_long::from(milliseconds));
    // What the kernel takes for the size of a set, though there is none.
    let (signals, size) = (std::ptr::null::<libc::sigset_t>(), c_long::from(8));
    // SAFETY: the contract of this function; a set that is null is not read.
    let found = unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, into, most, wait, signals, size) };
    found as c_int
}

/// recv(2) without flags.
///
/// # Safety
/// `into` is valid for writes of `room` bytes.
#[inline]
#[cfg(not(target_os = "linux"))]
pub unsafe fn recv(fd: c_int, into: *mut u8, room: usize) -> libc::ssize_t {
    // SAFETY: the contract of this function.
    unsafe { libc::recv(fd, into.cast(), room, 0) }
}

/// send(2).
///
/// # Safety
/// `from` is valid for reads of `length` bytes.
#[inline]
#[cfg(not(target_os = "linux"))]
pub unsafe fn send(fd: c_int, from: *const u8, length: usize, flags: c_int) -> libc::ssize_t {
    // SAFETY: the contract of this function.
    unsafe { libc::send(fd, from.cast(), length, flags) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// What a call that is never interrupted comes back with, much later: a failure and not a hang.
    const LONG_MS: c_int = 60_000;

    type Wait = unsafe fn(c_int, *mut libc::epoll_event, c_int, c_int) -> c_int;
    const WAITS: [Wait; 2] = [epoll_wait, epoll_pwait];

    fn received(fd: c_int, room: &mut [u8]) -> libc::ssize_t {
        // SAFETY: as much room as is said.
        unsafe { recv(fd, room.as_mut_ptr(), room.len()) }
    }

    fn sent(fd: c_int, bytes: &[u8], flags: c_int) -> libc::ssize_t {
        // SAFETY: as many bytes as are said.
        unsafe { send(fd, bytes.as_ptr(), bytes.len(), flags) }
    }

    fn found(wait: Wait, fd: c_int, room: &mut [libc::epoll_event], milliseconds: c_int) -> c_int {
        // SAFETY: as much room as is said.
        unsafe { wait(fd, room.as_mut_ptr(), room.len() as c_int, milliseconds) }
    }

    /// The error of a call that has failed.
    fn error(result: impl Into<i64>) -> i32 {
        let errno = io::Error::last_os_error().raw_os_error().expect("the kernel's");
        assert_eq!(result.into(), -1, "errno {errno}");
        errno
    }

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(Duration::from_millis(LONG_MS as u64))).expect("an option");
        ours.set_write_timeout(Some(Duration::from_millis(LONG_MS as u64))).expect("an option");
        (ours, theirs)
    }

    /// An epoll set over these, each with its place plus a number that fills the token.
    fn set(all: &[&UnixStream]) -> crate::sys::Poll {
        use std::os::fd::AsFd;
        let set = crate::sys::Poll::new().expect("a set");
        for (place, one) in all.iter().enumerate() {
            set.watch_level(one.as_fd(), (7 << 60) + place as u64).expect("watches");
        }
        set
    }

    const NOTHING: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

    extern "C" fn noticed(_signal: c_int) {}

    /// Makes a call on a thread of its own that gets signals until the call has come back with an error; which.
    fn interrupted(call: impl FnOnce() -> i32 + Send) -> i32 {
        // SAFETY: all-zero is a valid sigaction (no flags: calls are not begun again); the function does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = noticed as extern "C" fn(c_int) as libc::sighandler_t;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let (tell, told) = mpsc::channel();
        let (stay, stays) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let caller = scope.spawn(move || {
                // SAFETY: takes no pointer.
                tell.send(Err(unsafe { libc::pthread_self() })).expect("somebody listens");
                tell.send(Ok(call())).expect("somebody listens");
                // Until nobody sends a signal any more.
                let _ = stays.recv();
            });
            let thread = told.recv().expect("begins").expect_err("its name first");
            let errno = loop {
                // SAFETY: the thread lives until `stay` is dropped.
                assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR2) }, 0);
                if let Ok(done) = told.recv_timeout(Duration::from_millis(1)) {
                    break done.expect("an end");
                }
            };
            drop(stay);
            caller.join().expect("ends");
            errno
        })
    }

    #[test]
    fn bytes_go_through_as_many_as_there_is_room_for() {
        let (ours, mut theirs) = pair();
        assert_eq!(sent(ours.as_raw_fd(), b"three", 0), 5);
        let mut room = [0; 5];
        theirs.read_exact(&mut room).expect("reads");
        assert_eq!(&room, b"three");
        theirs.write_all(b"abcd").expect("writes");
        assert_eq!(received(ours.as_raw_fd(), &mut room[..3]), 3);
        assert_eq!(&room, b"abcee");
        drop(theirs);
        assert_eq!((received(ours.as_raw_fd(), &mut room), room[0]), (1, b'd'));
        assert_eq!(received(ours.as_raw_fd(), &mut room), 0);
    }

    #[test]
    fn what_would_have_to_wait_is_told_so() {
        let (ours, _theirs) = pair();
        ours.set_nonblocking(true).expect("an option");
        assert_eq!(error(received(ours.as_raw_fd(), &mut [0; 8]) as i64), libc::EAGAIN);
        while sent(ours.as_raw_fd(), &[0; 4096], 0) > 0 {}
        assert_eq!(error(sent(ours.as_raw_fd(), b"more", 0) as i64), libc::EAGAIN);
        // The flag does the same where the socket waits.
        ours.set_nonblocking(false).expect("an option");
        assert_eq!(error(sent(ours.as_raw_fd(), b"more", libc::MSG_DONTWAIT) as i64), libc::EAGAIN);
    }

    #[test]
    fn the_kernel_s_errors_are_errno() {
        assert_eq!(error(received(-1, &mut [0; 8]) as i64), libc::EBADF);
        assert_eq!(error(sent(-1, b"x", 0) as i64), libc::EBADF);
        let (ours, theirs) = pair();
        for wait in WAITS {
            assert_eq!(error(found(wait, -1, &mut [NOTHING], 0)), libc::EBADF);
            assert_eq!(error(found(wait, ours.as_raw_fd(), &mut [NOTHING], 0)), libc::EINVAL);
        }
        let set = set(&[]);
        assert_eq!(error(received(set.as_raw_fd(), &mut [0; 8]) as i64), libc::ENOTSOCK);
        // Not closed: a process that another test forks has a copy for a moment.
        theirs.shutdown(std::net::Shutdown::Both).expect("ends");
        assert_eq!(error(sent(ours.as_raw_fd(), b"x", libc::MSG_NOSIGNAL) as i64), libc::EPIPE);
    }

    #[test]
    fn events_are_found_as_many_as_there_is_room_for() {
        let ((a, _x), (b, _y), (c, mut z)) = (pair(), pair(), pair());
        // `a` and `b` have nothing to read, `c` has.
        z.write_all(b"1").expect("writes");
        let only = set(&[&a, &b, &c]);
        for wait in WAITS {
            let mut room = [NOTHING; 3];
            assert_eq!(found(wait, only.as_raw_fd(), &mut room, LONG_MS), 1);
            let libc::epoll_event { events, u64: token } = room[0];
            assert_eq!((events, token), (libc::EPOLLIN as u32, (7 << 60) + 2));
            assert_eq!({ room[1].u64 }, 0);
            assert_eq!(found(wait, set(&[&a, &b]).as_raw_fd(), &mut room, 0), 0);
            assert_eq!(
                found(wait, set(&[&c, &c.try_clone().expect("a copy")]).as_raw_fd(), &mut room[..1], 0),
                1
            );
        }
    }

    #[test]
    fn a_signal_interrupts() {
        let (ours, _theirs) = pair();
        let fd = ours.as_raw_fd();
        assert_eq!(interrupted(|| error(received(fd, &mut [0; 8]) as i64)), libc::EINTR);
        while sent(fd, &[0; 4096], libc::MSG_DONTWAIT) > 0 {}
        assert_eq!(interrupted(|| error(sent(fd, &[0; 4096], 0) as i64)), libc::EINTR);
        let (quiet, _theirs) = pair();
        let set = set(&[&quiet]);
        for wait in WAITS {
            let errno = interrupted(|| error(found(wait, set.as_raw_fd(), &mut [NOTHING], LONG_MS)));
            assert_eq!(errno, libc::EINTR);
        }
        // Whoever asks for events is told that there are none.
        let mut room = crate::sys::PollEvents::new();
        let polled = interrupted(|| set.wait(&mut room, LONG_MS).expect("no error") as i32);
        assert_eq!(polled, 0);
    }
}
