//! How many connections wait in the kernel's queues for somebody to accept them.
//!
//! Knows: how the kernel is asked about sockets of other processes, by their inodes (sock_diag(7)). Does not know: who listens.
//! To ask needs no descriptor of theirs, which would keep the address open, and no privilege. Where the kernel may not be asked
//! so, as a service manager forbids that family of sockets (`RestrictAddressFamilies=`), a table of its own has the numbers
//! of TCP, but no limits.

/// Which kind of address a socket listens at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Inet,
    Inet6,
    Unix,
}

/// A socket that listens, whoever has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    pub family: Family,
    /// fstat(2) of it tells.
    pub inode: u32,
}

/// Connections that are complete, and that nobody has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    pub waiting: u64,
    /// From one more on there is no place for another; None: it is not told.
    pub limit: Option<u64>,
}

/// The queue of each of these sockets; None where it is not told.
pub fn queues(sockets: &[Listening]) -> Vec<Option<Queue>> {
    #[cfg(target_os = "linux")]
    return linux::queues(sockets);
    #[cfg(not(target_os = "linux"))]
    vec![None; sockets.len()]
}

/// How often a connection found no place in a queue, of all sockets of TCP in this process's network namespace. None where
/// that is not told.
pub fn listen_overflows() -> Option<u64> {
    overflows(&std::fs::read_to_string("/proc/net/netstat").ok()?)
}

/// Each line of names is followed by one of numbers.
fn overflows(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut both = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
    both.find(|(name, _)| *name == "ListenOverflows")?.1.parse().ok()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, BufRead, BufReader, Read, Write};
    use std::os::fd::{FromRawFd, OwnedFd};

    use super::super::check;
    use super::{Family, Listening, Queue};

    /// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
    const BY_FAMILY: u16 = 20;
    /// Of a message: its length, kind, flags, number and sender (linux/netlink.h).
    const HEAD: usize = 16;
    /// The kernel writes as much at a time as is asked for, if that is more than a page.
    const PIECE: usize = 16 << 10;
    /// The state in which TCP listens (net/tcp_states.h).
    const LISTENS: u32 = 10;
    /// `UDIAG_SHOW_RQLEN`, and the attribute that answers it (linux/unix_diag.h).
    const SHOW_QUEUE: u32 = 0x10;
    const QUEUE: u16 = 4;
    /// Whatever its cookie is, which tells sockets apart that have had the same inode.
    const ANY_COOKIE: [u32; 2] = [u32::MAX; 2];

    pub fn queues(sockets: &[Listening]) -> Vec<Option<Queue>> {
        let mut found = vec![None; sockets.len()];
        let mut kernel = Kernel::reach();
        if kernel.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPROTONOSUPPORT)) {
            // Not Linux itself, but what runs its programs (gVisor): its tables say zero, whatever waits.
            return found;
        }
        for family in [Family::Inet, Family::Inet6] {
            if sockets.iter().all(|one| one.family != family) {
                continue;
            }
            let mut note = |inode, queue| {
                for (socket, found) in sockets.iter().zip(&mut found) {
                    if (socket.family, socket.inode) == (family, inode) {
                        *found = Some(queue);
                    }
                }
            };
            let asked = match &mut kernel {
                Ok(kernel) => kernel.tcp(family, &mut note),
                Err(_) => Err(io::ErrorKind::Unsupported.into()),
            };
            if asked.is_err() {
                let table = if family == Family::Inet { "/proc/net/tcp" } else { "/proc/net/tcp6" };
                if let Ok(file) = File::open(table) {
                    listed(BufReader::new(file), &mut note);
                }
            }
        }
        if let Ok(kernel) = &mut kernel {
            let unix = sockets.iter().zip(&mut found).filter(|(socket, _)| socket.family == Family::Unix);
            for (socket, found) in unix {
                *found = kernel.unix(socket.inode).ok().flatten();
            }
        }
        found
    }

    /// A line to the part of the kernel that knows of sockets.
    struct Kernel(File);

    impl Kernel {
        fn reach() -> io::Result<Self> {
            // It answers at once, before who has asked goes on: nobody waits for what does not come.
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // SAFETY: takes numbers only.
            let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) })?;
            // SAFETY: the descriptor was made above and belongs to nobody else.
            Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
        }

        /// Asks, and calls for each message of the answer, without its head.
        fn ask(&mut self, flags: libc::c_int, asked: &[u8], each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
            let mut request = Vec::with_capacity(HEAD + asked.len());
            request.extend(((HEAD + asked.len()) as u32).to_ne_bytes());
            request.extend(BY_FAMILY.to_ne_bytes());
            request.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
            request.extend([0; 8]);
            request.extend(asked);
            self.0.write_all(&request)?;
            let mut piece = vec![0; PIECE];
            loop {
                let length = self.0.read(&mut piece)?;
                let mut rest = &piece[..length];
                while let Some((kind, flags, body, next)) = message(rest) {
                    match libc::c_int::from(kind) {
                        libc::NLMSG_DONE => return Ok(()),
                        libc::NLMSG_ERROR => {
                            let code = number(body, 0).unwrap_or(0).cast_signed();
                            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                        }
                        _ => each(body),
                    }
                    if libc::c_int::from(flags) & libc::NLM_F_MULTI == 0 {
                        return Ok(());
                    }
                    rest = next;
                }
                if length == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }

        /// Inode and queue of each socket that listens (`inet_diag_req_v2` and `inet_diag_msg` of linux/inet_diag.h).
        fn tcp(&mut self, family: Family, note: &mut dyn FnMut(u32, Queue)) -> io::Result<()> {
            let family = if family == Family::Inet { libc::AF_INET } else { libc::AF_INET6 };
            let mut asked = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
            asked.extend((1_u32 << LISTENS).to_ne_bytes());
            // Whichever ports and addresses.
            asked.extend([0; 48]);
            self.ask(libc::NLM_F_DUMP, &asked, &mut |told| {
                if let (Some(waiting), Some(limit), Some(inode)) =
                    (number(told, 56), number(told, 60), number(told, 68))
                {
                    note(inode, Queue { waiting: waiting.into(), limit: Some(limit.into()) });
                }
            })
        }

        /// The queue of the socket with this inode (`unix_diag_req` and `unix_diag_msg` of linux/unix_diag.h).
        fn unix(&mut self, inode: u32) -> io::Result<Option<Queue>> {
            let mut asked = vec![libc::AF_UNIX as u8, 0, 0, 0];
            for word in [u32::MAX, inode, SHOW_QUEUE, ANY_COOKIE[0], ANY_COOKIE[1]] {
                asked.extend(word.to_ne_bytes());
            }
            let mut found = None;
            self.ask(0, &asked, &mut |told| {
                let mut rest = told.get(HEAD..).unwrap_or_default();
                while let Some((kind, body, next)) = attribute(rest) {
                    if let (QUEUE, Some(waiting), Some(limit)) = (kind, number(body, 0), number(body, 4)) {
                        found = Some(Queue { waiting: waiting.into(), limit: Some(limit.into()) });
                    }
                    rest = next;
                }
            })?;
            Ok(found)
        }
    }

    fn number(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    fn short(bytes: &[u8], at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    /// What is within a length, without a head of so many bytes, and what comes behind: at a multiple of four.
    fn cut(bytes: &[u8], length: usize, head: usize) -> Option<(&[u8], &[u8])> {
        let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((bytes.get(head..length)?, next))
    }

    /// Kind, flags and body of the first message, and what comes behind it.
    fn message(bytes: &[u8]) -> Option<(u16, u16, &[u8], &[u8])> {
        let (body, next) = cut(bytes, number(bytes, 0)? as usize, HEAD)?;
        Some((short(bytes, 4)?, short(bytes, 6)?, body, next))
    }

    /// Kind and body of the first attribute, and what comes behind it.
    fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
        let (body, next) = cut(bytes, short(bytes, 0)?.into(), 4)?;
        Some((short(bytes, 2)?, body, next))
    }

    /// Inode and queue of each socket that listens, by the kernel's table, which has those first.
    fn listed(table: impl BufRead, note: &mut dyn FnMut(u32, Queue)) {
        for line in table.lines().skip(1).map_while(Result::ok) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // Of one that listens the second of the two queues is the one that waits for accept.
            let (Some(&"0A"), Some(queues), Some(inode)) = (words.get(3), words.get(4), words.get(9)) else {
                return;
            };
            let waiting = queues.split_once(':').and_then(|(_, queue)| u64::from_str_radix(queue, 16).ok());
            if let (Some(waiting), Ok(inode)) = (waiting, inode.parse()) {
                note(inode, Queue { waiting, limit: None });
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsRawFd;
        use std::os::linux::fs::MetadataExt;
        use std::os::unix::net::{UnixListener, UnixStream};

        use super::*;
        use crate::sys::queues;

        fn listening(family: Family, socket: &impl AsRawFd) -> Listening {
            let told =
                std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("it is open");
            Listening { family, inode: told.st_ino() as u32 }
        }

        #[test]
        fn who_waits_is_seen_without_the_descriptor() {
            let folder = std::env::temp_dir().join(format!("forehand-queues-{}", std::process::id()));
            let _ = std::fs::remove_file(&folder);
            let unix = UnixListener::bind(&folder).expect("a path");
            let inet = TcpListener::bind("127.0.0.1:0").expect("a port");
            let other = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut asked = vec![
                listening(Family::Unix, &unix),
                listening(Family::Inet, &inet),
                listening(Family::Inet, &other),
                Listening { family: Family::Inet6, inode: 0 },
                Listening { family: Family::Unix, inode: 0 },
            ];
            let waiting = |asked: &[Listening]| {
                let found = queues(asked);
                found.iter().map(|one| one.map(|queue| queue.waiting)).collect::<Vec<_>>()
            };
            assert_eq!(waiting(&asked), [Some(0), Some(0), Some(0), None, None]);
            let address = inet.local_addr().expect("an address");
            let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("room")).collect();
            let locals: Vec<_> = (0..2).map(|_| UnixStream::connect(&folder).expect("room")).collect();
            assert_eq!(waiting(&asked), [Some(2), Some(3), Some(0), None, None]);
            let limits: Vec<_> = queues(&asked).iter().flatten().map(|queue| queue.limit).collect();
            assert!(limits.iter().all(|limit| limit.is_some_and(|limit| limit > 3)), "{limits:?}");
            let mut table = Vec::new();
            let file = File::open("/proc/net/tcp").expect("the kernel's table");
            listed(BufReader::new(file), &mut |inode, queue| table.push((inode, queue)));
            assert!(table.contains(&(asked[1].inode, Queue { waiting: 3, limit: None })), "{table:?}");
            inet.accept().expect("somebody waits");
            unix.accept().expect("somebody waits");
            assert_eq!(waiting(&asked), [Some(1), Some(2), Some(0), None, None]);
            if let Ok(inet6) = TcpListener::bind("[::1]:0") {
                asked[3] = listening(Family::Inet6, &inet6);
                let client = TcpStream::connect(inet6.local_addr().expect("an address")).expect("room");
                assert_eq!(waiting(&asked)[3], Some(1));
                drop(client);
            }
            drop((clients, locals));
            std::fs::remove_file(folder).expect("removed");
        }

        #[test]
        fn the_kernel_s_table_is_read_as_far_as_sockets_listen() {
            let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                \x20  0: 0100007F:9969 00000000:0000 0A 00000000:0000001F 00:00000000 00000000     0        0 77 5 0 100 0\n\
                \x20  1: 0100007F:9D37 0100007F:0016 01 00000000:00000005 00:00000000 00000000     0        0 78 1 0 20 4\n\
                \x20  2: 0100007F:9019 00000000:0000 0A 00000000:00000001 00:00000000 00000000     0        0 79 1 0 100 0\n";
            let mut found = Vec::new();
            listed(text.as_bytes(), &mut |inode, queue| found.push((inode, queue.waiting)));
            assert_eq!(found, [(77, 31)]);
        }

        #[test]
        fn an_answer_that_is_cut_off_is_no_answer() {
            let mut whole = 24_u32.to_ne_bytes().to_vec();
            whole.extend([20, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
            let flags = u16::from_ne_bytes([2, 0]);
            let kind = u16::from_ne_bytes([20, 0]);
            assert_eq!(message(&whole), Some((kind, flags, &[1, 2, 3, 4, 5, 6, 7, 8][..], &[][..])));
            for length in 0..whole.len() {
                assert_eq!(message(&whole[..length]), None, "{length}");
            }
            assert_eq!(message(&[0; 16]), None, "a message is at least its head");
            assert_eq!(attribute(&[2, 0, 0, 0]), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_are_found_by_their_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 258 260\nIpExt: InOctets\nIpExt: 7\n";
        assert_eq!(overflows(text), Some(258));
        for text in [
            "",
            "TcpExt: ListenOverflows\n",
            "TcpExt: ListenDrops\nTcpExt: 5\n",
            "IpExt: InOctets\nIpExt: 7\n",
        ] {
            assert_eq!(overflows(text), None, "{text}");
        }
    }
}
