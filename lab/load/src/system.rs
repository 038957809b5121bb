//! Every system call of the engine, in safe form. Knows sockets, epoll, clocks and processors; knows nothing of HTTP or load.

use crate::job::Endpoint;
use crate::kinds::{Fault, Wrong};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{self, ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::io;
use std::net::{IpAddr, SocketAddr};

fn as_nanoseconds(moment: Timespec) -> u64 {
    moment.tv_sec as u64 * 1_000_000_000 + moment.tv_nsec as u64
}

fn as_timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as i64 }
}

/// Nanoseconds from second 0 of the load; before it, 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
}

impl Clock {
    /// Second 0 is so many nanoseconds from now.
    pub fn starting_in(delay: u64) -> Clock {
        Clock { start: monotonic() + delay }
    }

    pub fn now(&self) -> u64 {
        monotonic().saturating_sub(self.start)
    }

    /// Sleeps until second 0, and returns early where `stop` says so.
    pub fn wait_for_start(&self, stop: impl Fn() -> bool) {
        while let left @ 1.. = self.start.saturating_sub(monotonic()) {
            if stop() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_nanos(left.min(10_000_000)));
        }
    }
}

fn monotonic() -> u64 {
    as_nanoseconds(time::clock_gettime(ClockId::Monotonic))
}

/// Seconds since 1970.
pub fn unix_time() -> f64 {
    as_nanoseconds(time::clock_gettime(ClockId::Realtime)) as f64 / 1e9
}

/// Nanoseconds of processor that this thread has used.
pub fn thread_cpu() -> u64 {
    as_nanoseconds(time::clock_gettime(ClockId::ThreadCPUTime))
}

/// Nanoseconds of processor that all threads have used.
pub fn process_cpu() -> u64 {
    as_nanoseconds(time::clock_gettime(ClockId::ProcessCPUTime))
}

/// The most memory that this process has had, in bytes, as the kernel says it. 0 where it does not.
pub fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// As many descriptors as this process may have: the hard limit. Where it may not even have that, all stays as it is.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The present limit of descriptors; none: no limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Binds the calling thread to these processors.
pub fn bind_to(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL.into());
        }
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The peer has ended, or the socket has an error: reading shows which.
    pub ended: bool,
    pub failed: bool,
}

/// A token that no client has.
const TIMER: u64 = u64::MAX;
/// Events a call: enough that a busy turn needs one, few enough that replies do not grow old in the list.
pub const EVENTS: usize = 256;

/// One epoll set with a timer in it: epoll's own timeout counts milliseconds, which is too coarse for a pacer.
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed_for: u64,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), flags)?;
        Ok(Poller { epoll, timer, armed_for: 0, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a socket, at its edges, until it is closed.
    pub fn watch(&self, socket: &OwnedFd, token: u64) -> Result<(), Errno> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)
    }

    /// Waits until something is ready or the clock shows `until`; with None it only looks.
    pub fn wait(&mut self, clock: Clock, until: Option<u64>) -> io::Result<usize> {
        let at_once = as_timespec(0);
        if let Some(until) = until {
            self.arm(clock.start + until)?;
        }
        let timeout = if until.is_some() { None } else { Some(&at_once) };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout) {
            Ok(ready) => Ok(ready),
            // A signal, or a debugger.
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The timer is edge-triggered: setting it anew is all that it needs, it is never read.
    fn arm(&mut self, moment: u64) -> io::Result<()> {
        if self.armed_for == moment {
            return Ok(());
        }
        let when = Itimerspec { it_interval: as_timespec(0), it_value: as_timespec(moment) };
        time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when)?;
        self.armed_for = moment;
        Ok(())
    }

    pub fn ready(&mut self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        let (token, flags) = (event.data.u64(), event.flags);
        if token == TIMER {
            self.armed_for = 0;
            return None;
        }
        let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        let ended = failed || flags.contains(epoll::EventFlags::RDHUP);
        Some(Ready {
            token,
            readable: flags.contains(epoll::EventFlags::IN),
            writable: flags.contains(epoll::EventFlags::OUT),
            ended,
            failed,
        })
    }
}

/// Why a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoConnection {
    Generator(Fault),
    Server(Wrong),
    /// A unix socket whose queue is full: to be tried again until the time to connect is over.
    Full,
}

impl NoConnection {
    fn by(error: Errno) -> NoConnection {
        match error {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC => {
                NoConnection::Generator(Fault::DescriptorUnavailable)
            }
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN | Errno::PERM | Errno::ACCESS => {
                NoConnection::Generator(Fault::AddressUnavailable)
            }
            Errno::TIMEDOUT => NoConnection::Server(Wrong::ConnectTimeout),
            Errno::CONNRESET | Errno::PIPE => NoConnection::Server(Wrong::ResetBeforeReply),
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => {
                NoConnection::Server(Wrong::Unreachable)
            }
            // ECONNREFUSED; of a unix socket, that there is none or that nobody listens.
            _ => NoConnection::Server(Wrong::Refused),
        }
    }
}

/// Local ports, one after another, for sockets whose port the kernel does not choose.
///
/// The kernel looks for a port by walking through half of the range before it tries the other half: as soon as that half is
/// taken, each connection costs it a walk of 14,000 steps. A cursor of our own finds the port that has been free the longest.
#[derive(Debug)]
pub struct Ports {
    low: u16,
    high: u16,
    next: u16,
}

/// Ports in use that are passed over for one connection. More, and the search would make the generator late.
const PORTS_TRIED: usize = 4096;

impl Ports {
    /// The machine's range for outgoing connections; each of several threads begins elsewhere in it.
    pub fn for_thread(thread: usize, threads: usize) -> Ports {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut bounds = range.split_whitespace().map(str::parse);
        let (low, high) = match (bounds.next(), bounds.next()) {
            (Some(Ok(low)), Some(Ok(high))) if low <= high => (low, high),
            // What Linux begins with.
            _ => (32768, 60999),
        };
        let offset = usize::from(high - low) * thread / threads.max(1);
        Ports { low, high, next: low + offset as u16 }
    }

    fn bind(&mut self, socket: &OwnedFd, source: IpAddr) -> Result<(), NoConnection> {
        // Ports of connections that are over may be taken again; a port that is in use fails either here or in `connect`.
        sockopt::set_socket_reuseaddr(socket, true).map_err(NoConnection::by)?;
        let all = usize::from(self.high - self.low) + 1;
        for _ in 0..all.min(PORTS_TRIED) {
            let port = self.next;
            self.next = if port == self.high { self.low } else { port + 1 };
            match net::bind(socket, &SocketAddr::new(source, port)) {
                Err(Errno::ADDRINUSE) => {}
                other => return other.map_err(NoConnection::by),
            }
        }
        Err(NoConnection::Generator(Fault::AddressUnavailable))
    }
}

/// Where a connection comes from, beside its endpoint.
pub struct Origin<'a> {
    /// None: the kernel chooses address and port.
    pub from: Option<(IpAddr, &'a mut Ports)>,
    /// For slow readers.
    pub receive_buffer: Option<usize>,
}

/// A new socket, not yet connected.
pub fn new_socket(endpoint: &Endpoint, origin: Origin<'_>) -> Result<OwnedFd, NoConnection> {
    let family = match &endpoint.address.address_family() {
        _ if endpoint.is_unix => AddressFamily::UNIX,
        family => *family,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None).map_err(NoConnection::by)?;
    // Both are wishes: a socket without them still measures.
    if let Some(bytes) = origin.receive_buffer {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, bytes);
    }
    if !endpoint.is_unix {
        let _ = sockopt::set_tcp_nodelay(&socket, true);
    }
    if let Some((source, ports)) = origin.from {
        ports.bind(&socket, source)?;
    }
    Ok(socket)
}

/// Begins to connect; true if that is done at once.
pub fn connect(socket: &OwnedFd, endpoint: &Endpoint) -> Result<bool, NoConnection> {
    match net::connect(socket, &endpoint.address) {
        Ok(()) => Ok(true),
        Err(Errno::INPROGRESS) => Ok(false),
        Err(Errno::AGAIN) if endpoint.is_unix => Err(NoConnection::Full),
        Err(Errno::ACCESS) if endpoint.is_unix => Err(NoConnection::Server(Wrong::Refused)),
        Err(error) => Err(NoConnection::by(error)),
    }
}

/// The error for which a connection could not be made, after its descriptor said that it failed.
pub fn connect_error(socket: &OwnedFd) -> Option<NoConnection> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(NoConnection::by(error)),
    }
}

/// What came of reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(usize),
    /// Nothing now; an edge will tell.
    Later,
    End,
    Reset,
    /// The end of a connection whose TLS was not ended before.
    Cut,
    /// What came is no TLS, or not from whom it should be.
    Bad,
}

pub fn read(socket: impl AsFd, into: &mut [u8]) -> Moved {
    match net::recv(socket, into, RecvFlags::empty()) {
        Ok((0, _)) => Moved::End,
        Ok((count, _)) => Moved::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Later,
        Err(_) => Moved::Reset,
    }
}

pub fn write(socket: impl AsFd, bytes: &[u8]) -> Moved {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(count) => Moved::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Later,
        Err(_) => Moved::Reset,
    }
}
