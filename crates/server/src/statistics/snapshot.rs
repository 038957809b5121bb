//! What all workers of a server have counted, the dead ones included, as it was at one moment.
//!
//! Knows: how blocks are added up. Does not know: how it is shown. Any process that may read the statistics; who reads
//! waits for nobody but a supervisor that is just adding up a dead worker, which takes microseconds.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

use reactor::sys::monotonic_ms;
use wire::Millis;

use super::condition::{self, Collected};
use super::histogram::Histogram;
use super::layout::{
    self, BLOCKS, COUNTERS, LANE_COUNT, LANES, META, Meta, PHASE_COUNT, RETIRED, Word, load,
};
use super::phase::{ENDINGS, Phase};
use super::records::Record;
use super::routes::Route;
use super::segment::Segment;
use super::series::{BUCKETS, Key, Series};
use super::{records, routes, series, slots};
use crate::counters;

/// How often a read is begun anew because a worker died meanwhile, and the pause before that.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_micros(200);
/// An exemplar's labels have 128 characters at most, their names included (OpenMetrics 1.0, "Exemplars"): a longer name stands
/// for nobody.
const LONGEST_EXEMPLAR: usize = 128;

/// Reads what belongs together, again where a worker's numbers became those of all dead meanwhile.
pub(super) fn at_rest<R>(segment: &Segment, mut read: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    for _ in 0..TRIES {
        let before = segment.sequence();
        if before & 1 == 0 {
            let found = read()?;
            if segment.sequence() == before {
                return Ok(found);
            }
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the statistics were not at rest"))
}

/// One worker that lives.
#[derive(Debug, Clone)]
pub struct Worker {
    pub row: usize,
    pub pid: u64,
    /// Requests that are inside.
    pub inside: u64,
    /// For how long the oldest waits that nobody has begun, in milliseconds; none: nobody does.
    pub waits: Option<Millis>,
    /// And how many are in each lane (`condition::LANE_NAMES`).
    pub lanes: [u64; LANE_COUNT],
    /// For how long its event loop was held up at most in the last minute, in milliseconds; none: it has no loop, or nobody
    /// watches it.
    pub held: Option<Millis>,
}

impl Worker {
    fn read((row, pid): (usize, u64), words: &[Word]) -> Self {
        let now = monotonic_ms();
        Self {
            row,
            pid,
            inside: slots::count(words),
            waits: condition::oldest(words).map(|since| now.saturating_sub(since)),
            lanes: std::array::from_fn(|lane| load(&words[LANES + lane])),
            held: condition::longest_hold(words, now),
        }
    }
}

/// A request that stands for others of its bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exemplar {
    /// By what it can be found elsewhere: its trace and its name.
    pub labels: Vec<(&'static str, String)>,
    /// How long it took.
    pub ns: u64,
    /// Microseconds since 1970 at its end.
    pub wall: u64,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By the places of `counters::names`.
    pub counters: Vec<u64>,
    pub phases: [Histogram; PHASE_COUNT],
    /// By what tells them apart, and the route that a framework has told: the key, and what was counted.
    pub series: BTreeMap<(u64, String), (Option<Key>, Series)>,
    /// By the same: of each bucket the newest request that was kept and has a trace or a name.
    pub exemplars: BTreeMap<(u64, String), [Option<Exemplar>; BUCKETS]>,
    /// By their names.
    pub routes: BTreeMap<String, Route>,
    pub workers: Vec<Worker>,
    meta: Vec<u64>,
}

impl Snapshot {
    /// Reads the whole.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` where workers died all the time.
    pub fn read(segment: &Segment) -> io::Result<Self> {
        Ok(Self::read_with(segment, || ())?.0)
    }

    /// Reads the whole together with something else that changes when a worker's numbers become those of all dead.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_with<R>(segment: &Segment, mut other: impl FnMut() -> R) -> io::Result<(Self, R)> {
        at_rest(segment, || Ok((Self::read_once(segment)?, other())))
    }

    fn read_once(segment: &Segment) -> io::Result<Self> {
        let (counters, meta) = (vec![0; counters::COUNT], vec![0; layout::META_COUNT]);
        let mut all = Self { counters, meta, ..Self::default() };
        for block in 0..segment.used().min(BLOCKS) {
            let words = segment.block(block)?;
            let pid = load(&words[META + Meta::Pid as usize]);
            // Nobody has ever written there: it is left untouched, and takes no memory.
            if block != RETIRED && pid == 0 {
                continue;
            }
            all.add(words);
            if block != RETIRED {
                all.workers.push(Worker::read((block - 1, pid), words));
            }
        }
        Ok(all)
    }

    fn add(&mut self, words: &[Word]) {
        for (sum, word) in self.meta.iter_mut().zip(&words[META..]) {
            *sum = sum.wrapping_add(load(word));
        }
        self.meta[Meta::Unplaced as usize] += routes::unplaced(words);
        for (sum, word) in self.counters.iter_mut().zip(&words[COUNTERS..]) {
            *sum += load(word);
        }
        for (phase, histogram) in self.phases.iter_mut().enumerate() {
            histogram.add(words, phase);
        }
        let named: Vec<Option<Route>> =
            (0..layout::ROUTE_COUNT).map(|place| routes::read(words, place)).collect();
        for route in named.iter().flatten() {
            let sum = self.routes.entry(route.name.clone()).or_default();
            sum.name.clone_from(&route.name);
            sum.add(route);
        }
        let place = |key: Option<Key>| {
            let route =
                key.and_then(|key| named.get(usize::from(key.route()))?.as_ref()).filter(|route| route.told);
            // `GET /orders/<n>` is told by two labels.
            let told = route.and_then(|route| route.name.split_once(' ')).map_or("", |(_, path)| path);
            (key.map_or(0, |key| key.with_route(0).number()), told.to_owned())
        };
        for (key, counted) in series::read(words) {
            let bare = key.map(|key| key.with_route(0));
            self.series.entry(place(key)).or_insert((bare, Series::default())).1.add(&counted);
        }
        for record in records::read(words) {
            let labels = labels(&record);
            if !labels.is_empty() && record.series != 0 {
                let found = self.exemplars.entry(place(Key::of_number(record.series))).or_default();
                stand_for(found, &record, labels);
            }
        }
    }

    pub fn meta(&self, what: Meta) -> u64 {
        self.meta[what as usize]
    }

    /// What the collectors of all workers have done.
    pub fn collected(&self) -> Collected {
        Collected::read(|at| self.meta[at - META])
    }

    /// Requests that did not end as their application wanted, by what `error_type` says of them where that is not the
    /// status; and how many have failed: those but for clients that left, and all with a status from 500 on.
    pub fn failures(&self) -> (Vec<(&'static str, u64)>, u64) {
        let mut errors = ENDINGS.map(|name| (name, 0));
        let mut failed = 0;
        for (key, counted) in self.series.values() {
            let Some(key) = key else { continue };
            let count = counted.count();
            errors[usize::from(key.ending()).min(ENDINGS.len() - 1)].1 += count;
            if key.failed() {
                failed += count;
            }
        }
        let named = errors.into_iter().filter(|(name, count)| !name.is_empty() && *count > 0);
        (named.collect(), failed)
    }

    /// Requests that are inside all workers.
    pub fn inside(&self) -> u64 {
        self.workers.iter().map(|worker| worker.inside).sum::<u64>() + self.meta(Meta::Unnamed)
    }
}

/// By what a request can be found elsewhere, as far as there is room: its trace comes first.
fn labels(record: &Record) -> Vec<(&'static str, String)> {
    let traced = record.trace.map_or_else(Vec::new, |(trace, span)| {
        vec![("trace_id", format!("{trace:032x}")), ("span_id", format!("{span:016x}"))]
    });
    let named = ("request_id", record.id.clone());
    let (mut labels, mut room) = (Vec::new(), LONGEST_EXEMPLAR);
    for (name, value) in traced.into_iter().chain([named]).filter(|(_, value)| !value.is_empty()) {
        let Some(left) = room.checked_sub(name.len() + value.len()) else { break };
        room = left;
        labels.push((name, value));
    }
    labels
}

/// Of two requests of a bucket the newer one stands for it.
fn stand_for(found: &mut [Option<Exemplar>; BUCKETS], record: &Record, labels: Vec<(&'static str, String)>) {
    let ns = record.spans[Phase::Total as usize];
    let place = &mut found[series::bucket(ns)];
    if place.as_ref().is_none_or(|known| known.wall < record.wall) {
        *place = Some(Exemplar { labels, ns, wall: record.wall });
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::add;
    use super::super::played::{Worker, head, segment};
    use super::*;

    #[test]
    fn an_exemplar_has_its_trace_first_and_no_more_than_there_is_room_for() {
        let of = |id: usize, trace: Option<(u128, u64)>| {
            let worker = Worker::default();
            let spans = [0; PHASE_COUNT];
            let (id, line) = ("x".repeat(id), String::new());
            let record = Record {
                number: 1,
                wall: 1,
                status: 500,
                ending: 0,
                thread: 1,
                sent: 0,
                series: 1,
                spans,
                id,
                trace,
                line,
                remarkable: true,
                died: None,
                stood: String::new(),
            };
            records::put(worker.words, &record, b"GET /");
            labels(&records::read(worker.words).pop().expect("a record"))
        };
        let names = |id, trace| of(id, trace).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let trace = Some((10 << 64 | 11, 12));
        assert_eq!(of(0, trace)[0], ("trace_id", "000000000000000a000000000000000b".to_owned()));
        assert_eq!(of(0, trace)[1], ("span_id", "000000000000000c".to_owned()));
        assert_eq!(names(55, trace), ["trace_id", "span_id", "request_id"]);
        assert_eq!(names(56, trace), ["trace_id", "span_id"]);
        assert_eq!(names(118, None), ["request_id"]);
        assert!(names(119, None).is_empty() && names(0, None).is_empty());
    }

    #[test]
    fn requests_without_a_place_for_their_route_are_counted_while_their_worker_lives_and_when_it_is_dead() {
        let (segment, mut worker) = (segment(), Worker::default());
        let mut serves = |path: &str, status: u16| {
            let head = head(&format!("GET {path}"));
            let times = worker.answers(&head, 1000);
            worker.counts(&head, &times, status);
        };
        let word =
            |number: usize| "x".repeat(number / 26) + &char::from(b'a' + (number % 26) as u8).to_string();
        for number in 0..routes::LEARNED {
            let path = format!("/{0}/{0}", word(number));
            [500, 200].into_iter().for_each(|status| serves(&path, status));
        }
        serves("/more", 200);
        serves("/more", 301);
        [400, 401, 403, 404, 405, 429, 499].into_iter().for_each(|status| serves("/refused", status));
        worker.statistics.looks();
        segment.take(0);
        let block = segment.block(1).expect("a block");
        block.iter().zip(worker.words).for_each(|(to, from)| add(to, load(from)));
        add(&block[META + Meta::Pid as usize], 1);
        for happens in ["it lives", "it has died"] {
            let found = Snapshot::read(&segment).expect("numbers");
            assert_eq!(found.meta(Meta::Unplaced), 2, "{happens}");
            assert_eq!(found.routes.len(), routes::LEARNED, "{happens}");
            assert!(found.routes.values().all(|route| route.requests == 1), "{happens}");
            if happens == "it lives" {
                segment.fold(0, (1, 0), || ()).expect("it is added");
            }
        }
    }
}
