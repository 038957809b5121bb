//! Whether the server lives, is ready, and has started: what probes and load balancers ask.
//!
//! Knows: what follows from numbers. Does not know: who asks. Busy is never dead: the server is dead where starting it
//! again would help, which is where its supervisor is stuck, or every worker is, for long and with nothing that would
//! end it. Any process that may read a server's numbers.

use std::collections::HashMap;

use reactor::sys::is_stopped;

use crate::rows::{Field, Page, ROWS, Rows};
use crate::statistics::layout::{META, Meta, load};
use crate::statistics::segment::{Segment, Server};

/// A supervisor is stuck if it should have looked so many milliseconds ago: it has been busy with one thing since then, or
/// nobody lets it run. While it waits for something to happen it says nothing, and nobody wakes it to ask.
const SILENT_MS: u64 = 15_000;

/// Where that seems so it has so long to look, in milliseconds: a server that was paused as a whole goes on at any moment, and
/// its supervisor may not be the first of it.
const WAKING_MS: u64 = 2_000;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Live,
    Ready,
    Started,
}

impl Check {
    /// The check of a name, as probes of Kubernetes have them.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "livez" => Some(Self::Live),
            "readyz" => Some(Self::Ready),
            "startupz" => Some(Self::Started),
            _ => None,
        }
    }
}

/// When nothing that goes on is too long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// After so many milliseconds in which no worker has finished anything, though requests wait, a server is dead; zero:
    /// it never is.
    pub stall: u64,
    /// Requests have deadlines: what is stuck ends by itself.
    pub deadlines: bool,
}

/// Where workers answer probes, and from what.
#[derive(Default)]
pub struct HealthPaths {
    pub paths: Vec<(Vec<u8>, Check)>,
    pub patience: Patience,
    /// What the supervisor and all workers write; none: there is no supervisor.
    pub statistics: Option<Segment>,
}

/// What was seen when somebody looked before.
#[derive(Debug, Default)]
pub struct Seen {
    /// Each worker's process in which requests wait and no thread is free.
    full: HashMap<(usize, u64), Full>,
    /// By when the supervisor should have looked that has not, and since when that is seen.
    late: Option<(u64, u64)>,
    /// When that was.
    looked: u64,
}

/// A worker's process in which requests wait and no thread is free.
#[derive(Debug, Clone, Copy)]
struct Full {
    finished: u64,
    /// For how long that was seen.
    lasts: u64,
}

/// Of the time between two looks so much counts, where a stall is one after so long. Nobody can tell a time in which the
/// server was paused, as with the machine that it is on, from one in which nothing was finished: it is never all of a stall.
fn counted(between: u64, stall: u64) -> u64 {
    between.min((stall / 2).min(SILENT_MS).max(stall / 4))
}

/// How the server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// The supervisor has shown a sign of life.
    pub supervised: bool,
    /// Workers, and those of them in which nothing goes on though requests wait.
    pub workers: usize,
    pub stuck: usize,
    /// Workers of the current generation that serve.
    pub ready: u64,
    /// The first generation was up once.
    pub up: bool,
    pub stopping: bool,
}

impl Health {
    /// Looks at a server. `now` in monotonic milliseconds.
    pub fn look<P: Page>(
        segment: &Segment,
        rows: &Rows<P>,
        (patience, seen): (Patience, &mut Seen),
        now: u64,
    ) -> Self {
        let mut found = Self {
            supervised: is_supervised(segment, seen, now),
            ready: segment.server(Server::Ready),
            up: segment.server(Server::Up) == 1,
            stopping: segment.server(Server::Stopping) == 1,
            ..Self::default()
        };
        let passed = counted(now.saturating_sub(seen.looked), patience.stall);
        let mut known = HashMap::new();
        for row in 0..ROWS.min(segment.used() - 1) {
            let pid = rows.of(row, Field::Pid);
            let Ok(words) = segment.block(row + 1) else { continue };
            if pid == 0 {
                continue;
            }
            let finished = load(&words[META + Meta::Ended as usize]);
            let full = rows.of(row, Field::Busy) >= rows.of(row, Field::Threads);
            // Others of their route are what some wait for, and not a thread.
            let (waiting, limited) = rows.queued_of(row);
            let waits = waiting > limited;
            found.workers += 1;
            // While nobody waited, nothing had to go on: that time does not count.
            if full && waits {
                let before = seen.full.get(&(row, pid)).filter(|before| before.finished == finished);
                let lasts = before.map_or(0, |before| before.lasts + passed);
                known.insert((row, pid), Full { finished, lasts });
                let still = lasts >= patience.stall;
                found.stuck += usize::from(still && !patience.deadlines && patience.stall > 0);
            }
        }
        (seen.full, seen.looked) = (known, now);
        found
    }

    /// Whether all is well, and what is said of it: a line for each thing that it rests on if somebody wants to know, or
    /// it is not, and `ok` or `not ok`.
    pub fn told(&self, check: Check, query: &[u8]) -> (bool, String) {
        let (good, lines) = self.judged(check);
        let mut text = String::new();
        if !good || query.split(|byte| *byte == b'&').any(|part| part == b"verbose") {
            for (good, line) in lines {
                text.push_str(if good { "[+] " } else { "[-] " });
                text.push_str(&line);
                text.push('\n');
            }
        }
        text.push_str(if good { "ok\n" } else { "not ok\n" });
        (good, text)
    }

    /// The answer, and what it rests on.
    pub fn judged(&self, check: Check) -> (bool, Vec<(bool, String)>) {
        let alive = (self.supervised, "the supervisor shows signs of life".into());
        let moves = self.workers == 0 || self.stuck < self.workers;
        let lines = match check {
            Check::Live => vec![
                alive,
                (moves, format!("{} of {} workers finish requests", self.workers - self.stuck, self.workers)),
            ],
            Check::Ready => vec![
                (self.up, "the server has started".into()),
                (!self.stopping, "it is not stopping".into()),
                (self.ready > 0, format!("{} workers serve", self.ready)),
            ],
            Check::Started => vec![(self.up, "the server has started".into())],
        };
        (lines.iter().all(|(good, _)| *good), lines)
    }
}

/// The supervisor looks when it said that it would, or soon after that was missed, and nobody has stopped it.
fn is_supervised(segment: &Segment, seen: &mut Seen, now: u64) -> bool {
    let looks_by = segment.server(Server::LooksBy);
    let is_late = looks_by.saturating_add(SILENT_MS) < now;
    let since = seen.late.filter(|(by, _)| *by == looks_by).map_or(now, |(_, since)| since);
    seen.late = is_late.then_some((looks_by, since));
    (!is_late || now < since + WAKING_MS) && !is_stopped(segment.server(Server::Pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::segment;

    #[test]
    fn a_supervisor_is_stuck_once_it_should_have_looked_and_never_while_it_waits() {
        let segment = segment();
        segment.set(Server::Pid as usize, std::process::id().into());
        for (looks_by, now, expected) in [
            (100_000, 100_000 + SILENT_MS - 1, true),
            (100_000, 100_000 + SILENT_MS, true),
            (100_000, 100_000 + SILENT_MS + 1, false),
            (u64::MAX, 100_000_000, true),
        ] {
            segment.set(Server::LooksBy as usize, looks_by);
            let mut seen = Seen::default();
            assert!(is_supervised(&segment, &mut seen, now), "it may have been paused, and look at once");
            assert_eq!(is_supervised(&segment, &mut seen, now + WAKING_MS), expected, "{looks_by} {now}");
        }
    }

    #[test]
    fn a_supervisor_that_looks_after_a_pause_was_never_stuck() {
        let segment = segment();
        segment.set(Server::Pid as usize, std::process::id().into());
        let mut seen = Seen::default();
        for now in [1_000_000, 1_500_000, 2_000_000] {
            segment.set(Server::LooksBy as usize, now - 400_000 + 5_000);
            assert!(is_supervised(&segment, &mut seen, now), "paused for more than six minutes");
            segment.set(Server::LooksBy as usize, now + 5_000);
            assert!(is_supervised(&segment, &mut seen, now + WAKING_MS), "it has looked");
        }
    }

    #[test]
    fn a_pause_is_never_all_of_a_stall() {
        for (between, stall, expected) in [
            (10_000, 60_000, 10_000),
            (3_600_000, 60_000, SILENT_MS),
            (3_600_000, 5_000, 2_500),
            (60_000, 300_000, 60_000),
            (3_600_000, 300_000, 75_000),
        ] {
            assert_eq!(counted(between, stall), expected, "{between} {stall}");
        }
    }

    #[test]
    fn busy_is_not_dead_and_stuck_as_a_whole_is() {
        let good = Health { supervised: true, workers: 2, stuck: 0, ready: 2, up: true, stopping: false };
        let cases = [
            (good, [true, true, true]),
            (Health { stuck: 1, ..good }, [true, true, true]),
            (Health { stuck: 2, ..good }, [false, true, true]),
            (Health { workers: 0, ready: 0, ..good }, [true, false, true]),
            (Health { supervised: false, ..good }, [false, true, true]),
            (Health { stopping: true, ..good }, [true, false, true]),
            (Health { up: false, ready: 0, ..good }, [true, false, false]),
        ];
        for (health, expected) in cases {
            let found = [Check::Live, Check::Ready, Check::Started].map(|check| health.judged(check).0);
            assert_eq!(found, expected, "{health:?}");
        }
    }
}
