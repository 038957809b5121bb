//! What one thread has counted: in each second, and over all. Knows no socket; collected by the main thread.

use crate::kinds::{Errors, Fault, Faults, Wrong};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Microseconds; longer times, if there are any, count as an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// A distribution of microseconds with three significant digits.
pub fn distribution() -> Histogram<u64> {
    // The bounds are constants that the library accepts; the other histogram grows by itself and is as good.
    Histogram::new_with_bounds(1, LONGEST_US, 3)
        .unwrap_or_else(|_| Histogram::new(3).expect("3 digits are allowed"))
}

/// Records nanoseconds as the nearest microsecond.
pub fn record(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    histogram.saturating_record((nanoseconds + 500) / 1000);
}

/// The distributions of a good reply and its connection.
pub const TIMES: [&str; 6] = ["response", "service", "connect", "handshake", "first_byte", "transfer"];

#[derive(Clone, Debug)]
pub struct Times(pub [Histogram<u64>; TIMES.len()]);

impl Times {
    pub fn new() -> Times {
        Times(std::array::from_fn(|_| distribution()))
    }

    pub fn response(&mut self) -> &mut Histogram<u64> {
        &mut self.0[0]
    }

    pub fn service(&mut self) -> &mut Histogram<u64> {
        &mut self.0[1]
    }

    pub fn connect(&mut self) -> &mut Histogram<u64> {
        &mut self.0[2]
    }

    /// Of TLS: from connected to agreed.
    pub fn handshake(&mut self) -> &mut Histogram<u64> {
        &mut self.0[3]
    }

    pub fn first_byte(&mut self) -> &mut Histogram<u64> {
        &mut self.0[4]
    }

    pub fn transfer(&mut self) -> &mut Histogram<u64> {
        &mut self.0[5]
    }

    pub fn add(&mut self, other: &Times) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if !theirs.is_empty() {
                mine.add(theirs).expect("the bounds are the same");
            }
        }
    }

    pub fn clear(&mut self) {
        for histogram in &mut self.0 {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

/// What only grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub offered: u64,
    pub started: u64,
    pub replies: u64,
    /// Those that came before the load was over.
    pub replies_in_window: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub opened: u64,
    /// Of TLS, whole; and those of them that went on from an earlier connection.
    pub handshakes: u64,
    pub resumed: u64,
    pub closed_by_server: u64,
    pub closed_while_idle: u64,
    pub sessions_arrived: u64,
    pub sessions_finished: u64,
    pub sessions_failed: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.offered += other.offered;
        self.started += other.started;
        self.replies += other.replies;
        self.replies_in_window += other.replies_in_window;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.opened += other.opened;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.closed_by_server += other.closed_by_server;
        self.closed_while_idle += other.closed_while_idle;
        self.sessions_arrived += other.sessions_arrived;
        self.sessions_finished += other.sessions_finished;
        self.sessions_failed += other.sessions_failed;
    }
}

/// One request kind's part.
#[derive(Clone, Debug)]
pub struct Part {
    pub replies: u64,
    pub errors: Errors,
    pub response: Histogram<u64>,
}

impl Part {
    pub fn new() -> Part {
        Part { replies: 0, errors: Errors::default(), response: distribution() }
    }

    pub fn add(&mut self, other: &Part) {
        self.replies += other.replies;
        self.errors.add(&other.errors);
        self.response.add(&other.response).expect("the bounds are the same");
    }
}

impl Default for Part {
    fn default() -> Part {
        Part::new()
    }
}

/// The numbers of a second, or of the whole.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub counts: Counts,
    pub errors: Errors,
    pub faults: Faults,
    pub statuses: BTreeMap<u16, u64>,
    /// At the end of the second.
    pub open_connections: u64,
    pub queued: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.counts.add(&other.counts);
        self.errors.add(&other.errors);
        self.faults.add(&other.faults);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.open_connections += other.open_connections;
        self.queued += other.queued;
    }
}

/// A request that is over, and its moments: nanoseconds from second 0, 0 where it did not come so far.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub template: u16,
    pub planned: u64,
    /// Those of its connection, which may have been opened for an earlier request.
    pub connect: u64,
    pub connected: u64,
    pub sent: u64,
    pub first_byte: u64,
    pub ended: u64,
    pub outcome: Result<u16, Wrong>,
}

/// One second of one thread, or, added up, of all threads.
#[derive(Clone, Debug, Default)]
pub struct Second {
    pub tally: Tally,
    pub times: Times,
    /// Only where the plan wants them.
    pub traces: Vec<Trace>,
}

impl Second {
    pub fn add(&mut self, other: &Second) {
        self.tally.add(&other.tally);
        self.times.add(&other.times);
    }

    pub fn clear(&mut self) {
        self.tally = Tally::default();
        self.times.clear();
        self.traces.clear();
    }
}

/// What a thread says when it is done.
#[derive(Debug)]
pub struct Whole {
    /// Planned starts by the second for which they were planned.
    pub offered: Vec<u64>,
    pub lateness: Histogram<u64>,
    pub heartbeat: Histogram<u64>,
    pub beats_late: u64,
    pub parts: Vec<Part>,
    pub most_open: u64,
    pub most_queued: u64,
    pub cpu_share: f64,
    /// Nanoseconds from second 0.
    pub last_reply: u64,
    /// Whether nothing was left to do before the time was over.
    pub exhausted: bool,
}

/// The record that a thread writes; the seconds leave it as they pass.
#[derive(Debug)]
pub struct Record {
    pub second: Box<Second>,
    pub whole: Whole,
    warmup: u64,
    /// Whether what happens now is past the warm-up.
    measured: bool,
}

impl Record {
    pub fn new(parts: usize, warmup_s: u64) -> Record {
        Record {
            second: Box::default(),
            whole: Whole {
                offered: Vec::new(),
                lateness: distribution(),
                heartbeat: distribution(),
                beats_late: 0,
                parts: (0..parts).map(|_| Part::new()).collect(),
                most_open: 0,
                most_queued: 0,
                cpu_share: 0.0,
                last_reply: 0,
                exhausted: false,
            },
            warmup: warmup_s,
            measured: warmup_s == 0,
        }
    }

    /// Begins second `index` with an empty page, and gives the one before away.
    pub fn turn_page(&mut self, index: u64, fresh: Box<Second>) -> Box<Second> {
        self.measured = index >= self.warmup;
        std::mem::replace(&mut self.second, fresh)
    }

    pub fn offered(&mut self, planned: u64) {
        let second = (planned / 1_000_000_000) as usize;
        if self.whole.offered.len() <= second {
            self.whole.offered.resize(second + 1, 0);
        }
        self.whole.offered[second] += 1;
        self.second.tally.counts.offered += 1;
    }

    /// How long after its planned moment a start was come to.
    pub fn lateness(&mut self, late: u64, late_after: u64) {
        if late > late_after {
            self.second.tally.faults.count(Fault::LateStart);
        }
        if self.measured {
            record(&mut self.whole.lateness, late);
        }
    }

    pub fn beat(&mut self, late: u64, late_after: u64) {
        if self.measured {
            record(&mut self.whole.heartbeat, late);
            self.whole.beats_late += u64::from(late > late_after);
        }
    }

    pub fn error(&mut self, part: Option<u16>, wrong: Wrong) {
        self.second.tally.errors.count(wrong);
        if let (Some(part), true) = (part, self.measured) {
            self.whole.parts[part as usize].errors.count(wrong);
        }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.second.tally.faults.count(fault);
    }

    pub fn reply(&mut self, part: u16, response: u64, in_window: bool) {
        self.second.tally.counts.replies += 1;
        self.second.tally.counts.replies_in_window += u64::from(in_window);
        record(self.second.times.response(), response);
        if self.measured {
            let part = &mut self.whole.parts[part as usize];
            part.replies += 1;
            record(&mut part.response, response);
        }
    }
}
