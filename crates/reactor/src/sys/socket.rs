//! Stream sockets that never block: accept, receive, send, sendfile, shut down.

use std::fs::File;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
#[cfg(not(target_os = "linux"))]
use std::ptr;

use super::close_on_fork::CloseOnFork;
use super::{check, check_size, direct};
use crate::MayWait;
use crate::holding::{Wait, will_wait};

/// Where a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    Ip(IpAddr, u16),
    Unix,
}

/// What a listener had for us.
#[derive(Debug)]
pub enum Accepted {
    Connection(Socket, Address),
    /// Nobody waits.
    Nobody,
    /// No descriptor or memory is left for another connection (EMFILE, ENFILE, ENOBUFS, ENOMEM).
    Exhausted,
    /// The peer left before it was accepted: the next one may be there.
    Gone,
}

/// What became of bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// So many; the socket may take more.
    Some(usize),
    /// The socket is full; an edge will tell.
    Full,
}

/// What to wait for on a single socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFor {
    Readable,
    Writable,
}

/// A listening descriptor that somebody else opened and keeps open.
#[derive(Debug)]
pub struct ListenerFd(RawFd);

impl ListenerFd {
    /// Names a descriptor that the caller keeps open for as long as this value is used.
    pub fn new(fd: RawFd) -> io::Result<Self> {
        // SAFETY: asks for flags only; a closed descriptor is an error, not a danger.
        check(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
        Ok(Self(fd))
    }

    /// This process listens no more: the descriptor stays its owner's, and stands for a socket that is connected to nobody
    /// from now on. Where every process that had it has done so, the kernel refuses connections.
    ///
    /// # Errors
    /// The kernel's; then nothing has changed.
    pub fn let_go(&self) -> io::Result<()> {
        // SAFETY: numbers only.
        let harmless = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
        check(harmless)?;
        // SAFETY: both are open descriptors; the new one is closed, as the other stands for it.
        unsafe {
            let done = check(libc::dup2(harmless, self.0)).map(drop);
            libc::close(harmless);
            done?;
            check(libc::fcntl(self.0, libc::F_SETFD, libc::FD_CLOEXEC)).map(drop)
        }
    }
}

impl AsFd for ListenerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the contract of `new`: the owner keeps it open.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// True when something can be read, or accepted, without waiting.
pub fn is_readable(fd: impl AsFd) -> bool {
    is_ready(fd.as_fd(), libc::POLLIN)
}

/// True when something can be written without waiting.
pub fn is_writable(fd: impl AsFd) -> bool {
    is_ready(fd.as_fd(), libc::POLLOUT)
}

fn is_ready(fd: BorrowedFd<'_>, events: libc::c_short) -> bool {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid pollfd, and the count says one.
    unsafe { libc::poll(&raw mut one, 1, 0) > 0 }
}

/// The same name and meaning on Linux (3.12) and macOS, with numbers of their own.
const TCP_NOTSENT_LOWAT: libc::c_int = if cfg!(target_os = "linux") { 25 } else { 0x201 };

/// That the peer has ended its side is told as such, or as something that can be read.
#[cfg(target_os = "linux")]
const PEER_ENDED: libc::c_short = libc::POLLRDHUP;
#[cfg(not(target_os = "linux"))]
const PEER_ENDED: libc::c_short = 0;

/// How many pieces [`Socket::send_pieces`] takes.
pub const PIECES: usize = 4;

/// One connection's socket. Closing is dropping.
#[derive(Debug)]
pub struct Socket {
    fd: CloseOnFork,
}

/// Accepts one connection, non-blocking and closed on exec, in one system call.
///
/// # Errors
/// Those that say the listener itself is broken.
pub fn accept(listener: &ListenerFd) -> io::Result<Accepted> {
    // SAFETY: all-zero is a valid sockaddr_storage.
    let mut room: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut size = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `room` has `size` bytes and both outlive the call.
    let made = CloseOnFork::made(|| unsafe {
        accept_nonblocking(listener.0, (&raw mut room).cast(), &raw mut size)
    });
    let error = match made {
        Ok(fd) => return Ok(Accepted::Connection(Socket { fd }, address(&room))),
        Err(error) => error,
    };
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(Accepted::Nobody),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Ok(Accepted::Exhausted),
        // accept(2): errors of the new connection itself come out here; they are not ours.
        Some(
            libc::ECONNABORTED
            | libc::EINTR
            | libc::EPROTO
            | libc::EPERM
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EOPNOTSUPP,
        ) => Ok(Accepted::Gone),
        _ => Err(error),
    }
}

/// accept4(2), or accept(2) and what is set afterwards.
///
/// # Safety
/// As for accept(2): `room` has `size` bytes, and both outlive the call.
unsafe fn accept_nonblocking(
    listener: RawFd,
    room: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the contract of this function.
    #[cfg(target_os = "linux")]
    return unsafe { libc::accept4(listener, room, size, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) };
    // SAFETY: the contract of this function; then numbers only, of a descriptor that was just made.
    #[cfg(not(target_os = "linux"))]
    unsafe {
        let fd = libc::accept(listener, room, size);
        if fd >= 0 {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
        }
        fd
    }
}

/// Where the peer of a connection is. None: it is gone.
pub(super) fn peer_of(socket: &Socket) -> Option<Address> {
    // SAFETY: all-zero is a valid sockaddr_storage.
    let mut room: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut size = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `room` has `size` bytes and both outlive the call.
    let result = unsafe { libc::getpeername(socket.fd.as_raw_fd(), (&raw mut room).cast(), &raw mut size) };
    (result == 0).then(|| address(&room))
}

fn address(room: &libc::sockaddr_storage) -> Address {
    match i32::from(room.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which shape the kernel has written.
            let v4 = unsafe { &*(&raw const *room).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Address::Ip(ip.into(), u16::from_be(v4.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which shape the kernel has written.
            let v6 = unsafe { &*(&raw const *room).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            // A v4 peer on a v6 listener is shown as the v4 address that it has.
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            Address::Ip(ip, u16::from_be(v6.sin6_port))
        }
        _ => Address::Unix,
    }
}

impl Socket {
    /// Takes over a descriptor that nobody else will close: one from another process, or a test's socket pair.
    pub fn from_owned(fd: impl Into<CloseOnFork>) -> io::Result<Self> {
        let socket = Self { fd: fd.into() };
        let raw = socket.fd.as_raw_fd();
        // SAFETY: flag calls on a descriptor that is owned here.
        unsafe {
            let flags = check(libc::fcntl(raw, libc::F_GETFL))?;
            check(libc::fcntl(raw, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        }
        Ok(socket)
    }

    /// A socket that does not block already: that belongs to what it stands for and not to the descriptor, so that each
    /// process that is given one has it so.
    pub(super) fn from_nonblocking(fd: CloseOnFork) -> Self {
        Self { fd }
    }

    /// Receives; `None`: nothing is there now, `Some(0)`: the peer has ended.
    #[inline]
    pub fn recv(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            // SAFETY: `into` is valid for its length for the duration of the call.
            let got = unsafe { direct::recv(self.fd.as_raw_fd(), into.as_mut_ptr(), into.len()) };
            match check_size(got) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Sends what fits.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        loop {
            // SAFETY: `bytes` is valid for its length for the duration of the call.
            let put =
                unsafe { direct::send(self.fd.as_raw_fd(), bytes.as_ptr(), bytes.len(), libc::MSG_NOSIGNAL) };
            match check_size(put) {
                Ok(Some(n)) => return Ok(Sent::Some(n)),
                Ok(None) => return Ok(Sent::Full),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends up to [`PIECES`] pieces in one system call, what fits of them.
    pub fn send_pieces(&self, pieces: &[&[u8]]) -> io::Result<Sent> {
        const NONE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vector = [NONE; PIECES];
        for (slot, piece) in vector.iter_mut().zip(pieces) {
            *slot = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
        }
        // SAFETY: all-zero is a valid msghdr (no address, no control data).
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = vector.as_mut_ptr();
        message.msg_iovlen = pieces.len().min(PIECES) as _;
        loop {
            // SAFETY: the pieces point at slices that outlive the call and are only read.
            let put = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
            match check_size(put) {
                Ok(Some(n)) => return Ok(Sent::Some(n)),
                Ok(None) => return Ok(Sent::Full),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends from a file without copying through this process (sendfile(2)). `Some(0)`: the
    /// file ended before `count`.
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Sent> {
        // The kernel moves at most this many bytes a call.
        const MOST: usize = 0x7fff_f000;
        let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        loop {
            match check_size(sendfile(self.fd.as_raw_fd(), file.as_raw_fd(), at, count.min(MOST))) {
                Ok(Some(n)) => return Ok(Sent::Some(n)),
                Ok(None) => return Ok(Sent::Full),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for this one socket, at most so many milliseconds. False: the time is over.
    /// This is for a thread that owns the connection, never for the loop; `_let_go`: it holds
    /// nothing that others need.
    pub fn wait(&self, what: PollFor, milliseconds: u64, _may_wait: &MayWait) -> io::Result<bool> {
        will_wait(Wait::For("a peer"));
        let events = match what {
            PollFor::Readable => libc::POLLIN | PEER_ENDED,
            PollFor::Writable => libc::POLLOUT,
        };
        let mut one = libc::pollfd { fd: self.fd.as_raw_fd(), events, revents: 0 };
        let wait = libc::c_int::try_from(milliseconds).unwrap_or(libc::c_int::MAX);
        // SAFETY: one valid pollfd, and the count says one.
        match check(unsafe { libc::poll(&raw mut one, 1, wait) }) {
            Ok(found) => Ok(found > 0),
            // The caller looks at the clock and asks again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Ends our side: the peer reads what is under way, then the end.
    pub fn shut_write(&self) {
        // SAFETY: takes no pointer. It fails only on a connection that is gone already.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_WR) };
    }

    /// Ends both sides at once: the peer, and whoever here reads or writes, see the end.
    pub fn shut_both(&self) {
        // SAFETY: takes no pointer. It fails only on a connection that is gone already.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// What has arrived, as much as fits, without taking it; none where there is nothing, or nobody.
    pub fn peek<'a>(&self, into: &'a mut [u8]) -> Option<&'a [u8]> {
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: `into` is valid for its length for the duration of the call.
        let seen = unsafe { libc::recv(self.fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
        into.get(..usize::try_from(seen).ok()?)
    }

    /// True when the peer has ended its side and nothing of what it sent is unread. Looks
    /// without taking anything.
    pub fn peer_has_left(&self) -> bool {
        let mut one = 0_u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: room for the one byte that is asked for.
        let seen = unsafe { libc::recv(self.fd.as_raw_fd(), (&raw mut one).cast(), 1, flags) };
        match check_size(seen) {
            Ok(Some(bytes)) => bytes == 0,
            Ok(None) => false,
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        }
    }

    /// Bounds what the kernel takes beyond what is on its way to the peer (TCP_NOTSENT_LOWAT); zero bounds it no more. Without
    /// it, a connection over loopback takes megabytes of a file for a peer that reads nothing, and a thousand such peers have the
    /// kernel drop what others send. A socket that is not TCP has no such bound.
    pub fn bound_unsent(&self, bytes: u32) {
        // SAFETY: the option's value is valid for its size. It fails only on another kind of socket.
        unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                TCP_NOTSENT_LOWAT,
                (&raw const bytes).cast(),
                mem::size_of::<u32>() as libc::socklen_t,
            )
        };
    }

    /// Makes the close that follows a reset: what is queued is thrown away, and the peer
    /// cannot take a cut reply for a whole one.
    pub fn reset_at_close(&self) {
        let now = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the option's value is valid for its size. It fails only on a dead socket.
        unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const now).cast(),
                mem::size_of::<libc::linger>() as libc::socklen_t,
            )
        };
    }
}

/// sendfile(2): so many bytes of what is at that place of the file, as many as the socket takes; less than zero: errno says why.
#[cfg(target_os = "linux")]
fn sendfile(socket: RawFd, file: RawFd, mut at: libc::off_t, count: usize) -> libc::ssize_t {
    // SAFETY: both are numbers of descriptors; `at` outlives the call.
    unsafe { libc::sendfile(socket, file, &raw mut at, count) }
}

/// Here the call says that the socket is full, or that it was interrupted, also where it has sent a part.
#[cfg(not(target_os = "linux"))]
fn sendfile(socket: RawFd, file: RawFd, at: libc::off_t, count: usize) -> libc::ssize_t {
    let mut sent = libc::off_t::try_from(count).unwrap_or(libc::off_t::MAX);
    // SAFETY: both are numbers of descriptors; `sent` outlives the call, and there are no headers.
    let result = unsafe { libc::sendfile(file, socket, at, &raw mut sent, ptr::null_mut(), 0) };
    if result < 0 && sent == 0 { -1 } else { libc::ssize_t::try_from(sent).unwrap_or(0) }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A second descriptor of an open file, so that its owner may close the first.
///
/// # Errors
/// The kernel's: not open, or none left.
pub fn duplicate_file(fd: RawFd) -> io::Result<File> {
    // SAFETY: takes no pointer; a closed descriptor is an error, not a danger.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` was just made by the kernel and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(copy) })
}

/// One descriptor kept back for the moment when none is left: given up, it lets one
/// connection be accepted and told so, where otherwise it would wait without an answer.
#[derive(Debug)]
pub struct Reserve(Option<OwnedFd>);

impl Reserve {
    pub fn new() -> Self {
        Self(File::open("/dev/null").ok().map(OwnedFd::from))
    }

    /// Gives the descriptor up while `use_it` runs, then takes one back.
    pub fn lend<T>(&mut self, use_it: impl FnOnce() -> T) -> T {
        self.0 = None;
        let result = use_it();
        self.renew();
        result
    }

    /// Takes one back where there was none to be had before.
    pub fn renew(&mut self) {
        if self.0.is_none() {
            *self = Self::new();
        }
    }
}

impl Default for Reserve {
    fn default() -> Self {
        Self::new()
    }
}
