//! Whether the server lives, is ready, and has started: what probes and load balancers ask.
//!
//! Knows: what follows from numbers. Does not know: who asks. Busy is never dead: the server is dead where starting it
//! again would help, which is where its supervisor is stuck, or every worker is, for long and with nothing that would
//! end it.

use std::collections::HashMap;

use super::Told;
use crate::rows::{Field, Page, ROWS, Rows};
use crate::statistics::layout::{META, Meta, load};
use crate::statistics::segment::{Segment, Server};

/// A supervisor that has shown no sign of life for so long is stuck, in milliseconds: it shows one every five seconds.
const SILENT_MS: u64 = 15_000;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Live,
    Ready,
    Started,
}

/// For each worker's process: how many requests it had finished when that last changed, and when.
pub type Seen = HashMap<(usize, u64), (u64, u64)>;

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
        (told, seen): (&Told, &mut Seen),
        now: u64,
    ) -> Self {
        let mut found = Self {
            supervised: segment.server(Server::Alive) + SILENT_MS >= now,
            ready: segment.server(Server::Ready),
            up: segment.server(Server::Up) == 1,
            stopping: segment.server(Server::Stopping) == 1,
            ..Self::default()
        };
        let mut known = Seen::new();
        for row in 0..ROWS.min(segment.used() - 1) {
            let pid = rows.of(row, Field::Pid);
            let Ok(words) = segment.block(row + 1) else { continue };
            if pid == 0 {
                continue;
            }
            let finished = load(&words[META + Meta::Ended as usize]);
            let before = seen.get(&(row, pid)).copied().filter(|(count, _)| *count == finished);
            let since = before.map_or(now, |(_, since)| since);
            known.insert((row, pid), (finished, since));
            let full = rows.of(row, Field::Busy) >= rows.of(row, Field::Threads);
            let waits = rows.of(row, Field::Queued) > 0;
            found.workers += 1;
            let still = now.saturating_sub(since) >= told.stall;
            found.stuck += usize::from(full && waits && still && !told.deadlines && told.stall > 0);
        }
        *seen = known;
        found
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

#[cfg(test)]
mod tests {
    use super::*;

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
