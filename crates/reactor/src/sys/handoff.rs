//! Connections that change their process: a socket pair on which descriptors travel
//! (unix(7), `SCM_RIGHTS`), one message a connection.
//!
//! All workers of a server hold both ends. What waits in between belongs to none of them, as
//! with a listener, so that it outlives each of them.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::slice;

use super::close_on_fork::CloseOnFork;
use super::socket::{Accepted, Socket, is_writable, peer_of};
use super::{check_size, duplicate_file};

/// Bytes that may travel beside a descriptor: enough for a request as browsers send it, with a small form.
pub const NOTE_BYTES: usize = 16 * 1024;
/// Room for the header of one descriptor, and more than enough.
const CONTROL: usize = 64;

/// A descriptor that arrives is closed on exec from the beginning on, ...
#[cfg(target_os = "linux")]
const CLOSED_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSED_ON_EXEC: libc::c_int = 0;

/// ... or from here on, where the system has no such flag.
fn closed_on_exec(fd: RawFd) -> RawFd {
    if cfg!(not(target_os = "linux")) && fd >= 0 {
        // SAFETY: numbers only.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    fd
}

/// Both ends: a socket pair of sequenced packets.
#[derive(Debug)]
pub struct Handoff {
    give: CloseOnFork,
    take: CloseOnFork,
}

/// Aligned as a header of control data has to be.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A message of one piece with that control data. It is used where both are, and no longer.
fn message(piece: &mut libc::iovec, control: &mut Control, length: usize) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr: no piece, no control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = length as _;
    header
}

/// The descriptor that has come with a message.
fn descriptor(header: &libc::msghdr) -> Option<RawFd> {
    // SAFETY: control data and its length are as the kernel has filled them.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let one = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS;
        one.then(|| libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned())
    }
}

impl Handoff {
    /// Copies of both ends of a socket pair of sequenced packets, the giving one first.
    ///
    /// # Errors
    /// The kernel's: not open, or none left.
    pub fn join(give: RawFd, take: RawFd) -> io::Result<Self> {
        Ok(Self { give: CloseOnFork::copy_of(give)?, take: CloseOnFork::copy_of(take)? })
    }

    /// Gives a connection to whoever takes next, with a note of 1 to [`NOTE_BYTES`] bytes. The caller's own descriptor
    /// stays open. False: so many are under way that no more fit.
    ///
    /// # Errors
    /// The kernel's, and InvalidInput for a note that is empty or too long.
    pub fn give(&self, socket: &Socket, note: &[u8]) -> io::Result<bool> {
        if note.is_empty() || note.len() > NOTE_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // The kernel only reads what it points at.
        let base = note.as_ptr().cast_mut().cast();
        let mut piece = libc::iovec { iov_base: base, iov_len: note.len() };
        let mut control = Control([0; CONTROL]);
        let size = mem::size_of::<RawFd>() as libc::c_uint;
        // SAFETY: a calculation.
        let (space, length) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        let header = message(&mut piece, &mut control, space as usize);
        // SAFETY: the header points at CONTROL zeroed bytes of the right alignment, which CMSG_SPACE of one descriptor is
        // far below.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = length as _;
            libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(socket.as_fd().as_raw_fd());
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: everything that the header points at outlives the call.
        let sent = unsafe { libc::sendmsg(self.give.as_raw_fd(), &raw const header, flags) };
        Ok(check_size(sent)?.is_some())
    }

    /// True where one more fits.
    pub fn has_room(&self) -> bool {
        is_writable(&self.give)
    }

    /// Takes one connection, with its note.
    ///
    /// # Errors
    /// Those that say that the pair itself is broken.
    pub fn take(&self) -> io::Result<(Accepted, Vec<u8>)> {
        // A descriptor for which there is no room would be lost with its connection.
        if duplicate_file(self.take.as_raw_fd()).is_err() {
            return Ok((Accepted::Exhausted, Vec::new()));
        }
        // Not set to anything first: that would cost as much as the call.
        let mut room = [const { MaybeUninit::<u8>::uninit() }; NOTE_BYTES];
        let mut piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: NOTE_BYTES };
        let mut control = Control([0; CONTROL]);
        let mut header = message(&mut piece, &mut control, CONTROL);
        let flags = libc::MSG_DONTWAIT | CLOSED_ON_EXEC;
        let mut got = Ok(None);
        let made = CloseOnFork::made(|| {
            // SAFETY: everything that the header points at outlives the call.
            got = check_size(unsafe { libc::recvmsg(self.take.as_raw_fd(), &raw mut header, flags) });
            if matches!(got, Ok(Some(_))) { closed_on_exec(descriptor(&header).unwrap_or(-1)) } else { -1 }
        });
        let Some(size) = got? else {
            return Ok((Accepted::Nobody, Vec::new()));
        };
        let Ok(fd) = made else { return Ok((Accepted::Gone, Vec::new())) };
        // Whoever gave it had it set not to block, which goes with it.
        let socket = Socket::from_nonblocking(fd);
        // SAFETY: the kernel has written so many bytes there.
        let note = unsafe { slice::from_raw_parts(room.as_ptr().cast::<u8>(), size.min(NOTE_BYTES)) };
        Ok((
            peer_of(&socket).map_or(Accepted::Gone, |peer| Accepted::Connection(socket, peer)),
            note.to_vec(),
        ))
    }
}

impl AsFd for Handoff {
    /// The end that can be watched for connections.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.take.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::Address;

    /// What keeps messages apart.
    #[cfg(target_os = "linux")]
    const PACKETS: libc::c_int = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    const PACKETS: libc::c_int = libc::SOCK_DGRAM;

    fn pair() -> Handoff {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors, which are owned at once.
        let (give, take) = unsafe {
            assert_eq!(libc::socketpair(libc::AF_UNIX, PACKETS, 0, ends.as_mut_ptr()), 0);
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        Handoff { give: give.into(), take: take.into() }
    }

    #[test]
    fn a_connection_arrives_with_its_peer_its_note_and_what_is_unread() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (accepted, from) = listener.accept().expect("accepts");
        client.write_all(b"unread").expect("writes");
        let way = pair();
        let socket = Socket::from_owned(OwnedFd::from(accepted)).expect("a socket");
        assert!(way.give(&socket, b"seven").expect("gives"));
        drop(socket);
        let (Accepted::Connection(arrived, peer), note) = way.take().expect("takes") else {
            panic!("no connection")
        };
        assert_eq!(note, b"seven");
        assert_eq!(peer, Address::Ip(from.ip(), from.port()));
        let mut room = [0; 16];
        assert_eq!(arrived.recv(&mut room).expect("receives"), Some(6));
        // SAFETY: a flag call on a descriptor that is open.
        let flags = unsafe { libc::fcntl(arrived.as_fd().as_raw_fd(), libc::F_GETFL) };
        assert_ne!(flags & libc::O_NONBLOCK, 0, "it would block");
        assert!(matches!(way.take().expect("looks"), (Accepted::Nobody, _)));
    }

    #[test]
    fn a_note_is_as_long_as_its_bound_and_no_longer() {
        let way = pair();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
        for size in [1, NOTE_BYTES - 1, NOTE_BYTES] {
            assert!(way.give(&socket, &vec![7; size]).expect("gives"));
            let (Accepted::Connection(..), note) = way.take().expect("takes") else {
                panic!("no connection")
            };
            assert_eq!(note, vec![7; size]);
        }
        for size in [0, NOTE_BYTES + 1] {
            assert!(way.give(&socket, &vec![7; size]).is_err(), "{size}");
        }
    }

    #[test]
    fn when_no_more_fit_the_giver_is_told_and_keeps_it() {
        let way = pair();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
        assert!(way.has_room());
        let given = (0..100_000_u32)
            .take_while(|note| way.give(&socket, &note.to_ne_bytes()).expect("gives"))
            .count();
        assert!((10..100_000).contains(&given), "{given}");
        assert!(!way.has_room());
        for note in 0..given as u32 {
            let (Accepted::Connection(_, Address::Unix), found) = way.take().expect("takes") else {
                panic!("no connection")
            };
            assert_eq!(found, note.to_ne_bytes());
        }
        assert!(way.give(&socket, &[0]).expect("gives"));
    }
}
