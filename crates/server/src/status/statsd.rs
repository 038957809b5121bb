//! statsd: differences of what was counted, every ten seconds, for those who have a collector and no Prometheus.
//!
//! Knows: lines of the protocol, with DogStatsD's tags where there are any. Does not know: who collects; a datagram that
//! gets lost is lost. One thread of the process that answers `--status-bind`, or its only one.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use crate::counters;
use crate::report;
use crate::statistics::histogram::Histogram;
use crate::statistics::phase::{ENDINGS, Phase};
use crate::statistics::segment::{Segment, Server};
use crate::statistics::snapshot::Snapshot;

/// A datagram is no longer than fits into one packet of every network.
const LONGEST: usize = 1432;
/// What is told of each interval's durations, and its share.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

/// Where it goes, and how lines look.
pub struct Settings {
    /// `HOST:PORT`, or `unix://PATH`.
    pub address: String,
    /// In front of every name; it ends in a dot, or is empty.
    pub prefix: String,
    /// `name:value` with commas between.
    pub tags: String,
    /// How often it is sent, in milliseconds: collectors add up over ten seconds by default.
    pub every: u64,
}

enum Way {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

/// What was sent last.
#[derive(Clone, Default)]
pub struct Sent {
    counters: Vec<u64>,
    statuses: Vec<(String, u64)>,
    total: Histogram,
}

/// Sends for ever; a look that fails is left out. Collectors come late, and are replaced: while there is no way to one,
/// what is counted is left for the next interval, and where one has gone another one is looked for. `supervisor` is told when
/// nobody can be reached, and when that is over: a name that does not exist is found by nobody otherwise.
pub fn run(segment: &Segment, settings: &Settings, supervisor: &File) -> ! {
    let mut way = None;
    let mut fails = false;
    let mut sent = Sent::default();
    // What was counted before this process began was sent by the one before it, or is old.
    if let Ok(found) = Snapshot::read(segment) {
        sent.differences(&found);
    }
    loop {
        thread::sleep(Duration::from_millis(settings.every.max(1)));
        let Ok(found) = Snapshot::read(segment) else { continue };
        let before = sent.clone();
        let mut lines = sent.differences(&found);
        let gauges = [("workers", segment.server(Server::Ready)), ("requests.active", found.inside())];
        lines.extend(gauges.map(|(name, value)| (name.into(), format!("{value}|g"))));
        let (went, outcome) = deliver(&mut way, &datagrams(&lines, settings), &settings.address);
        if went == 0 {
            sent = before;
        }
        if outcome.is_err() != fails {
            fails = !fails;
            let why = outcome.err().map_or(String::new(), |error| error.to_string());
            report::tell(supervisor, &format!("statsd {why}"));
        }
    }
}

/// Sends datagrams; how many have gone, and what was wrong, be it that it was found with the next one.
fn deliver(way: &mut Option<Way>, datagrams: &[String], address: &str) -> (usize, io::Result<()>) {
    let mut outcome = Ok(());
    for (at, datagram) in datagrams.iter().enumerate() {
        let Err(error) =
            way.as_ref().map_or(Err(io::ErrorKind::NotConnected.into()), |way| way.send(datagram))
        else {
            continue;
        };
        // Somebody may have taken the place of one that has gone.
        match open(address).and_then(|way| way.send(datagram).map(|()| way)) {
            // What the kernel takes for UDP may reach nobody again: the next one says so.
            Ok(Way::Udp(socket)) => {
                outcome = if way.is_some() { Err(error) } else { outcome };
                *way = Some(Way::Udp(socket));
            }
            Ok(unix) => *way = Some(unix),
            Err(error) => {
                *way = None;
                return (at, Err(error));
            }
        }
    }
    (datagrams.len(), outcome)
}

impl Way {
    /// Sends a datagram. One for whom there is no room is lost.
    fn send(&self, datagram: &str) -> io::Result<()> {
        let sent = match self {
            Self::Udp(socket) => socket.send(datagram.as_bytes()),
            Self::Unix(socket) => socket.send(datagram.as_bytes()),
        };
        match sent {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

fn open(address: &str) -> io::Result<Way> {
    if let Some(path) = address.strip_prefix("unix://") {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        return Ok(Way::Unix(socket));
    }
    let target = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let socket = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(target)?;
    Ok(Way::Udp(socket))
}

impl Sent {
    /// Names with what has come since the last time.
    pub fn differences(&mut self, found: &Snapshot) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut count = |name: String, now: u64, before: u64| {
            if now > before {
                lines.push((name, format!("{}|c", now - before)));
            }
        };
        let statuses = statuses(found);
        for (name, now) in &statuses {
            let before = self.statuses.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
            count(name.clone(), *now, before);
        }
        self.counters.resize(found.counters.len(), 0);
        for ((name, _), (now, before)) in
            counters::TABLE.iter().zip(found.counters.iter().zip(&self.counters))
        {
            count((*name).into(), *now, *before);
        }
        let total = found.phases[Phase::Total as usize].clone();
        let since = total.since(&self.total);
        for (name, share) in QUANTILES {
            if let Some(ns) = since.quantile(share) {
                // Milliseconds, as statsd has times.
                lines.push((format!("request.duration.{name}"), format!("{:.3}|g", ns as f64 / 1e6)));
            }
        }
        *self = Self { counters: found.counters.clone(), statuses, total };
        lines
    }
}

/// All requests, and those by status or by what became of them.
fn statuses(found: &Snapshot) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = vec![("requests".into(), 0)];
    for (key, series) in found.series.values() {
        let word = key.map_or("", |key| ENDINGS.get(usize::from(key.ending())).copied().unwrap_or_default());
        let name = match key.map_or(0, |key| key.status()) {
            0 => format!("request.error.{word}"),
            status => format!("request.status.{status}"),
        };
        all[0].1 += series.count();
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += series.count(),
            None => all.push((name, series.count())),
        }
    }
    all
}

/// Lines in as few datagrams as they fit into.
fn datagrams(lines: &[(String, String)], settings: &Settings) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (name, value) in lines {
        let mut line = format!("{}forehand.{name}:{value}", settings.prefix);
        if !settings.tags.is_empty() {
            let _ = write!(line, "|#{}", settings.tags);
        }
        match all.last_mut() {
            Some(last) if last.len() + 1 + line.len() <= LONGEST => {
                last.push('\n');
                last.push_str(&line);
            }
            _ => all.push(line),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_of_udp_that_is_gone_is_found_with_the_next_datagram_until_another_one_is_there() {
        let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = collector.local_addr().expect("an address");
        let mut way = None;
        let mut fails = || deliver(&mut way, &["a:1|c".into()], &address.to_string()).1.is_err();
        assert!(!fails() && !fails());
        drop(collector);
        assert!(!fails(), "the kernel has taken it");
        assert!(fails() && fails() && fails());
        let _another = UdpSocket::bind(address).expect("the same address");
        assert!(fails(), "that of the one before");
        assert!(!fails() && !fails());
    }

    #[test]
    fn where_nobody_can_be_reached_nothing_has_gone() {
        let (went, outcome) = deliver(&mut None, &["a:1|c".into()], "unix:///nowhere/statsd.sock");
        assert!(went == 0 && outcome.is_err());
    }

    #[test]
    fn a_datagram_is_as_long_as_it_may_be_and_no_longer() {
        let settings =
            Settings { address: String::new(), prefix: "shop.".into(), tags: "env:test".into(), every: 1 };
        let lines: Vec<_> = (0..200).map(|number| (format!("name{number}"), "1|c".to_string())).collect();
        let all = datagrams(&lines, &settings);
        assert!(all.iter().all(|one| one.len() <= LONGEST) && all.len() > 1);
        assert_eq!(all[0].lines().next(), Some("shop.forehand.name0:1|c|#env:test"));
        assert_eq!(all.iter().flat_map(|one| one.lines()).count(), lines.len());
        for pair in all.windows(2) {
            let next = pair[1].lines().next().expect("a line");
            assert!(pair[0].len() + 1 + next.len() > LONGEST, "it would have fitted");
        }
    }

    #[test]
    fn what_was_sent_is_not_sent_again() {
        let mut sent = Sent::default();
        let mut found = Snapshot::default();
        found.counters = vec![3, 0, 5];
        let names: Vec<String> = counters::TABLE.iter().map(|(name, _)| (*name).to_string()).collect();
        assert_eq!(
            sent.differences(&found),
            [(names[0].clone(), "3|c".to_string()), (names[2].clone(), "5|c".to_string())]
        );
        assert_eq!(sent.differences(&found), []);
        found.counters = vec![4, 0, 5];
        assert_eq!(sent.differences(&found), [(names[0].clone(), "1|c".to_string())]);
    }
}
