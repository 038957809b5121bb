//! The status endpoint's process, from first to last: what it is told, and its engine.
//!
//! Knows: how its pieces are put together. Does not know: what it answers, or how it was begun: as a program of its own,
//! or in a process that was forked. Runs on the thread that calls it, which does not come back.

use std::ffi::OsStr;
use std::io::{self, Read, Seek};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use reactor::sys::{Access, Family, ListenerFd, Listening, duplicate_file, give_back_memory};

use super::history::History;
use super::{Status, Told, limits, looker, machine, statsd};
use crate::engine::Config;
use crate::health::Patience;
use crate::log::Log;
use crate::parent;
use crate::pool::Threads;
use crate::scoreboard::Scoreboard;
use crate::statistics::segment::Segment;
use crate::turn::Loop;

/// One answers while another looks.
const THREADS: usize = 2;
/// Requests are few and far between: who went on looking for the next one would take several times as much of a processor,
/// and of the time of workers that it wakes beside, as who is woken for it.
const QUIET_LOOKS: u32 = 1;
/// Of the thread that sends to statsd: it formats text; and of the one that looks each second.
const STACK_BYTES: usize = 256 << 10;
const LOOKER_STACK_BYTES: usize = 64 << 10;

/// A descriptor that listens, whether its address is a loopback's, and whether only processes of this machine reach it.
type Listener = (RawFd, bool, bool);

/// What it is told.
struct Given {
    listeners: Vec<Listener>,
    /// Its end is the supervisor's.
    parent: RawFd,
    statistics: RawFd,
    scoreboard: RawFd,
    /// Where people are told something.
    report: RawFd,
    told: Told,
    statsd: statsd::Settings,
}

impl Given {
    /// Reads pairs of a name and a value, each of which ends in a zero: no value can have one, as all have been words of a
    /// command line, or names of files.
    fn read(text: &[u8]) -> io::Result<Self> {
        let words: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
        let (pairs, rest) = words.as_chunks::<2>();
        if rest != [b""] {
            return Err(unreadable("a name without a value"));
        }
        let all = |name: &'static str| {
            pairs.iter().filter(move |pair| pair[0] == name.as_bytes()).map(|pair| pair[1])
        };
        let bytes = |name: &'static str| all(name).next().unwrap_or_default();
        let one = |name: &'static str| String::from_utf8_lossy(bytes(name)).into_owned();
        let number = |name: &'static str| one(name).parse::<u64>().map_err(|_| unreadable(name));
        let fd = |name: &'static str| one(name).parse::<RawFd>().map_err(|_| unreadable(name));
        let listeners = all("listener").map(listener).collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            parent: fd("parent")?,
            statistics: fd("statistics")?,
            scoreboard: fd("scoreboard")?,
            report: fd("report")?,
            told: Told {
                token: bytes("token").into(),
                loopback: listeners.iter().map(|one| one.1).collect(),
                private: listeners.iter().map(|one| one.2).collect(),
                patience: Patience { stall: number("stall_ms")?, deadlines: number("deadlines")? != 0 },
                slow: number("slow_ms")?,
                build: all("build").filter_map(pair).collect(),
                application: Some(bytes("application"))
                    .filter(|path| !path.is_empty())
                    .map(|path| OsStr::from_bytes(path).into()),
                listeners: all("accepts").map(accepts).collect::<io::Result<_>>()?,
            },
            statsd: statsd::Settings {
                address: one("statsd_host"),
                prefix: one("statsd_prefix"),
                every: number("statsd_interval_ms")?,
                tags: one("dogstatsd_tags"),
            },
            listeners,
        })
    }
}

/// `name=value`.
fn pair(text: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(text);
    text.split_once('=').map(|(name, value)| (name.into(), value.into()))
}

fn unreadable(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the status process was told no such thing: {name}"))
}

/// `FD LOOPBACK PRIVATE`, the last two as 0 or 1.
fn listener(text: &[u8]) -> io::Result<Listener> {
    let mut words = str::from_utf8(text).unwrap_or_default().split(' ');
    let fd = words.next().and_then(|fd| fd.parse().ok()).ok_or_else(|| unreadable("listener"))?;
    let mut is = || words.next() == Some("1");
    Ok((fd, is(), is()))
}

/// `FAMILY INODE ADDRESS`, of a socket that workers accept from.
fn accepts(text: &[u8]) -> io::Result<machine::Listener> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.splitn(3, ' ');
    let family = match words.next() {
        Some("inet") => Family::Inet,
        Some("inet6") => Family::Inet6,
        Some("unix") => Family::Unix,
        _ => return Err(unreadable("accepts")),
    };
    let inode = words.next().and_then(|inode| inode.parse().ok());
    let (Some(inode), Some(address)) = (inode, words.next()) else { return Err(unreadable("accepts")) };
    Ok((address.into(), Listening { family, inode }))
}

/// Serves until the process ends. `told`: a descriptor of what it is told, as pairs of a name and a value.
///
/// # Errors
/// The system's; `InvalidInput` for what it cannot read.
pub fn run(told: RawFd) -> io::Result<()> {
    let mut text = Vec::new();
    let mut file = duplicate_file(told)?;
    file.rewind()?;
    file.read_to_end(&mut text)?;
    let given = Given::read(&text)?;
    parent::watch(given.parent, 0)?;
    let segment = || Segment::open(duplicate_file(given.statistics)?.into(), Access::Read);
    let report = Arc::new(duplicate_file(given.report)?);
    let statsd = given.statsd;
    if given.listeners.is_empty() {
        statsd::run(&segment()?, &statsd, &report);
    }
    if !statsd.address.is_empty() {
        let (segment, report) = (segment()?, report.clone());
        let name = std::thread::Builder::new().name("forehand-statsd".into()).stack_size(STACK_BYTES);
        name.spawn(move || statsd::run(&segment, &statsd, &report))?;
    }
    let history = Arc::new(History::default());
    let known = (report, Arc::clone(&history));
    let status = Status::new(segment()?, Scoreboard::look(given.scoreboard)?, given.told, known);
    let (all, rows) = (segment()?, Scoreboard::look(given.scoreboard)?);
    let looks = std::thread::Builder::new().name("forehand-look".into()).stack_size(LOOKER_STACK_BYTES);
    looks.spawn(move || looker::run(&history, &all, &rows))?;
    let sockets = given.listeners.iter().map(|one| Ok(ListenerFd::new(one.0)?.into()));
    let sockets = sockets.collect::<io::Result<_>>()?;
    let config = Config {
        limits: limits(),
        shared_listeners: true,
        unfinished_make_room: true,
        quiet_looks: QUIET_LOOKS,
        threads: THREADS as u32,
        ..Config::default()
    };
    let threads = Threads::new(status, Loop::new(config, Log::none(), sockets)?, THREADS);
    give_back_memory();
    threads.start()?;
    threads.join(None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn told(more: &[(&str, &str)]) -> Vec<u8> {
        let least = [
            ("parent", "3"),
            ("statistics", "4"),
            ("scoreboard", "5"),
            ("report", "6"),
            ("stall_ms", "60000"),
            ("deadlines", "0"),
            ("slow_ms", "5000"),
            ("statsd_interval_ms", "10000"),
        ];
        least.iter().chain(more).flat_map(|(name, value)| format!("{name}\0{value}\0").into_bytes()).collect()
    }

    #[test]
    fn what_it_is_told_is_read_word_by_word() {
        let more = [
            ("listener", "7 1 1"),
            ("listener", "8 0 0"),
            ("token", "a long = secret"),
            ("build", "target=shop.wsgi:make(a=1)"),
            ("application", "/dev/shm/a b"),
            ("accepts", "inet6 4711 [::1]:8000"),
            ("accepts", "unix 12 unix:/run/a b.sock"),
        ];
        let given = Given::read(&told(&more)).expect("what it is told");
        assert_eq!((given.parent, given.statistics, given.scoreboard, given.report), (3, 4, 5, 6));
        assert_eq!(given.listeners, [(7, true, true), (8, false, false)]);
        assert_eq!((given.told.loopback, given.told.private), (vec![true, false], vec![true, false]));
        assert_eq!(
            (given.told.token.as_slice(), given.told.patience.deadlines),
            (&b"a long = secret"[..], false)
        );
        assert_eq!(given.told.build, [("target".to_owned(), "shop.wsgi:make(a=1)".to_owned())]);
        assert_eq!(given.told.application, Some(PathBuf::from("/dev/shm/a b")));
        let accepts = [
            ("[::1]:8000".to_owned(), Listening { family: Family::Inet6, inode: 4711 }),
            ("unix:/run/a b.sock".to_owned(), Listening { family: Family::Unix, inode: 12 }),
        ];
        assert_eq!(given.told.listeners, accepts);
        assert_eq!((given.told.patience.stall, given.told.slow, given.statsd.every), (60_000, 5000, 10_000));
    }

    #[test]
    fn what_is_missing_or_no_number_is_refused_and_not_guessed() {
        assert!(Given::read(&told(&[])).is_ok(), "only statsd");
        for text in [&b""[..], b"parent\x003\0", &told(&[("listener", "")]), &told(&[("listener", "x 1 1")])]
        {
            assert!(Given::read(text).is_err(), "{text:?}");
        }
        for text in ["", "inet 5", "inet x a:1", "ipx 5 a:1"] {
            assert!(Given::read(&told(&[("accepts", text)])).is_err(), "{text:?}");
        }
        assert!(Given::read(&told(&[("slow_ms", "soon")])).is_ok(), "the first word counts");
        let mut odd = told(&[]);
        odd.extend(b"alone\0");
        assert!(Given::read(&odd).is_err());
    }
}
