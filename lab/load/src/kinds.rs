//! Names of what can go wrong, and whose fault it is. Knows no socket; FORMAT.md says when each kind is given.

use std::collections::BTreeMap;

/// What the server, or the way to it, did wrong. One for each request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Refused,
    Unreachable,
    ConnectTimeout,
    TlsFailed,
    NotHttp2,
    ResetBeforeReply,
    ResetInReply,
    ResetAfterReply,
    EndBeforeReply,
    KeepAliveRace,
    StreamRefused,
    StreamReset,
    GoAway,
    FirstByteTimeout,
    BodyTimeout,
    Truncated,
    ExtraBytes,
    BadStatusLine,
    BadHeader,
    BadChunk,
    BadHttp2,
    TlsBroken,
    WrongBody,
    InFlightAtEnd,
    WrongStatus(u16),
}

/// In the order of the enum, which is that of a request's life.
const NAMES: [&str; 24] = [
    "refused",
    "unreachable",
    "connect_timeout",
    "tls_failed",
    "not_http2",
    "reset_before_reply",
    "reset_in_reply",
    "reset_after_reply",
    "end_before_reply",
    "keep_alive_race",
    "stream_refused",
    "stream_reset",
    "goaway",
    "first_byte_timeout",
    "body_timeout",
    "truncated",
    "extra_bytes",
    "bad_status_line",
    "bad_header",
    "bad_chunk",
    "bad_http2",
    "tls_broken",
    "wrong_body",
    "in_flight_at_end",
];

impl Wrong {
    fn place(self) -> Option<usize> {
        Some(match self {
            Wrong::Refused => 0,
            Wrong::Unreachable => 1,
            Wrong::ConnectTimeout => 2,
            Wrong::TlsFailed => 3,
            Wrong::NotHttp2 => 4,
            Wrong::ResetBeforeReply => 5,
            Wrong::ResetInReply => 6,
            Wrong::ResetAfterReply => 7,
            Wrong::EndBeforeReply => 8,
            Wrong::KeepAliveRace => 9,
            Wrong::StreamRefused => 10,
            Wrong::StreamReset => 11,
            Wrong::GoAway => 12,
            Wrong::FirstByteTimeout => 13,
            Wrong::BodyTimeout => 14,
            Wrong::Truncated => 15,
            Wrong::ExtraBytes => 16,
            Wrong::BadStatusLine => 17,
            Wrong::BadHeader => 18,
            Wrong::BadChunk => 19,
            Wrong::BadHttp2 => 20,
            Wrong::TlsBroken => 21,
            Wrong::WrongBody => 22,
            Wrong::InFlightAtEnd => 23,
            Wrong::WrongStatus(_) => return None,
        })
    }

    /// As in the result.
    pub fn name(self) -> String {
        match (self.place(), self) {
            (None, Wrong::WrongStatus(status)) => format!("wrong_status_{status:03}"),
            (place, _) => NAMES[place.unwrap_or(0)].to_string(),
        }
    }
}

/// Counts of errors by kind.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    named: [u64; NAMES.len()],
    statuses: BTreeMap<u16, u64>,
}

impl Errors {
    pub fn count(&mut self, wrong: Wrong) {
        match (wrong.place(), wrong) {
            (Some(place), _) => self.named[place] += 1,
            (None, Wrong::WrongStatus(status)) => *self.statuses.entry(status).or_default() += 1,
            (None, _) => unreachable!("every other kind has a place"),
        }
    }

    pub fn add(&mut self, other: &Errors) {
        for (mine, theirs) in self.named.iter_mut().zip(other.named) {
            *mine += theirs;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
    }

    /// Those that happened, by the names of the result.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let named = NAMES.iter().zip(self.named).filter(|(_, count)| *count > 0);
        let statuses = self.statuses.iter();
        named
            .map(|(name, count)| ((*name).to_string(), count))
            .chain(statuses.map(|(status, count)| (Wrong::WrongStatus(*status).name(), *count)))
            .collect()
    }

    /// Requests that failed; errors that stand beside a good reply are not among them.
    pub fn failed(&self) -> u64 {
        let beside = [Wrong::ResetAfterReply, Wrong::ExtraBytes];
        let beside: u64 =
            beside.iter().filter_map(|wrong| wrong.place()).map(|place| self.named[place]).sum();
        self.total() - beside
    }

    pub fn total(&self) -> u64 {
        self.named.iter().sum::<u64>() + self.statuses.values().sum::<u64>()
    }
}

/// What the generator, or its machine, could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    DescriptorUnavailable,
    AddressUnavailable,
    LateStart,
    NotStarted,
}

const FAULT_NAMES: [&str; 4] = ["descriptor_unavailable", "address_unavailable", "late_start", "not_started"];

/// Counts of the generator's own faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults([u64; FAULT_NAMES.len()]);

impl Faults {
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    pub fn add(&mut self, other: &Faults) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counted = FAULT_NAMES.iter().zip(self.0).filter(|(_, count)| *count > 0);
        counted.map(|(name, count)| ((*name).to_string(), count)).collect()
    }
}
