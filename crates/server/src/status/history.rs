//! The last ten minutes, a point for each second in which something happened: `/history.json`.
//!
//! Knows: what is kept of a look, what a change is, and marks of what befell the server. Does not know: who reads it. One
//! thread looks (`status/looker.rs`), those of the engine read. Nothing is kept on a disk: it begins with the process.
//!
//! A second without a point is one in which nothing came, ended or failed, and as many were inside as before: who looks
//! sleeps then.

use std::collections::VecDeque;
use std::sync::Mutex;

use reactor::sys::{monotonic_ns, wall_us};
use wire::{LimitDoc, Millis, TABLE};

use super::json::{array, object, option_of, quoted, seconds};
use crate::counters;
use crate::statistics::histogram::Histogram;
use crate::statistics::totals::Totals;
use crate::sync::lock;

/// So many points are kept, and so many seconds are told.
const KEPT: usize = 600;
const KEPT_MS: Millis = KEPT as Millis * 1000;
/// Marks that are kept, the newest.
const MARKS: usize = 128;
/// What happens again within this time is the same mark, but for reloads: somebody asked for each.
const SAME_MS: Millis = 5000;
/// Quantiles are those of so much time, as few requests are in less; a look may be late by half a second.
const WINDOW_MS: Millis = 9500;
/// Grows when a field goes, or means something else.
const SCHEMA: u32 = 1;
/// What a point has, in this order. `at` is the end of its second, on the clock of `monotonic`.
const COLUMNS: [&str; 9] = ["at", "requests", "failed", "p50", "p95", "p99", "busy", "threads", "queued"];
const SHARES: [f64; 3] = [0.5, 0.95, 0.99];
/// Limits that do not answer with a status and yet cost a client something. Most others only say how memory is used.
const HARD: [&str; 4] = ["connections", "write_timeout", "graceful_timeout", "request_timeout_grace"];

/// What one look has found.
#[derive(Debug, Clone, Default)]
pub struct Look {
    pub totals: Totals,
    /// Threads that are inside the application, those that there are, and requests that wait.
    pub busy: u64,
    pub threads: u64,
    pub queued: u64,
    /// Why workers have ended, and how often.
    pub exits: Vec<(String, u64)>,
    /// Reloads that were done, and those that were given up.
    pub reloads: (u64, u64),
}

#[derive(Debug)]
struct Point {
    at: Millis,
    /// A second.
    requests: f32,
    failed: f32,
    /// In seconds; none where nothing has ended lately.
    quantiles: [Option<f32>; 3],
    busy: u32,
    threads: u32,
    queued: u32,
}

/// Something that befell the server.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    from: Millis,
    until: Millis,
    kind: &'static str,
    what: String,
    count: u64,
}

#[derive(Debug, Default)]
struct Past {
    /// When the first look was.
    since: Millis,
    points: VecDeque<Point>,
    marks: VecDeque<Mark>,
    /// All durations as they were at the looks before, as long as quantiles need them.
    before: VecDeque<(Millis, Histogram)>,
    last: Look,
}

/// What is known of the last minutes.
#[derive(Debug)]
pub struct History {
    past: Mutex<Past>,
    /// Limits that are marked: places among counters, and the options.
    limits: Vec<(usize, String)>,
}

impl Default for History {
    fn default() -> Self {
        let names = counters::names();
        let mut limits: Vec<(usize, String)> = Vec::new();
        for limit in TABLE.iter().filter(|limit| is_hard(limit)) {
            for name in limit.counter.split(", ") {
                if let Some(place) = names.iter().position(|known| known == name)
                    && limits.iter().all(|(known, _)| *known != place)
                {
                    limits.push((place, option_of(limit)));
                }
            }
        }
        Self { past: Mutex::default(), limits }
    }
}

fn is_hard(limit: &LimitDoc) -> bool {
    limit.answer.starts_with(['4', '5']) || HARD.contains(&limit.name)
}

/// Whether a worker ended that way though nobody had asked it to.
fn is_unasked(reason: &str) -> bool {
    ["signal", "status", "oom", "never"].iter().any(|word| reason.starts_with(word))
}

impl History {
    /// Begins with the first look.
    pub fn begin(&self, now: Millis, look: Look) {
        let mut past = lock(&self.past);
        past.since = now;
        past.before.push_back((now, look.totals.total.clone()));
        past.last.clone_from(&look);
        past.put(now, now, &look);
    }

    /// Adds what happened since `began`, as a look at `now` has found it. False: nothing did.
    pub fn add(&self, began: Millis, now: Millis, look: Look) -> bool {
        let mut past = lock(&self.past);
        let marks = self.marks(&past.last, &look);
        let changed = !marks.is_empty() || shown(&look) != shown(&past.last);
        for (kind, what, count) in marks {
            past.mark(now, kind, what, count);
        }
        if changed {
            past.put(began, now, &look);
        }
        past.before.push_back((now, look.totals.total.clone()));
        past.last = look;
        changed
    }

    /// What befell the server between two looks.
    fn marks(&self, last: &Look, look: &Look) -> Vec<(&'static str, String, u64)> {
        let mut found = Vec::new();
        let mut note = |kind, what: &str, now: u64, before: u64| {
            if now > before {
                found.push((kind, what.to_owned(), now - before));
            }
        };
        note("reload", "", look.reloads.0, last.reloads.0);
        note("reload_given_up", "", look.reloads.1, last.reloads.1);
        for (reason, count) in look.exits.iter().filter(|(reason, _)| is_unasked(reason)) {
            let before = last.exits.iter().find(|(known, _)| known == reason).map_or(0, |(_, count)| *count);
            note("death", reason, *count, before);
        }
        for (place, option) in &self.limits {
            let of = |look: &Look| look.totals.counters.get(*place).copied().unwrap_or_default();
            note("limit", option, of(look), of(last));
        }
        found
    }

    /// The whole, for who may see it.
    pub fn json(&self) -> String {
        let now = monotonic_ns();
        let past = lock(&self.past);
        let oldest = (now / 1_000_000).saturating_sub(KEPT_MS);
        // And the one before them: as many as then were inside when the first second that is told began.
        let first = past.points.iter().rposition(|point| point.at < oldest).unwrap_or(0);
        let points = past.points.iter().skip(first).map(of_point);
        let marks = past.marks.iter().filter(|mark| mark.until >= oldest).map(of_mark);
        let mut text = object([
            ("schema", SCHEMA.to_string()),
            ("now", seconds(wall_us() * 1000)),
            ("monotonic", seconds(now)),
            // Nothing is known of the time before.
            ("since", of_ms(past.since.max(oldest))),
            ("columns", array(COLUMNS.iter().map(|name| quoted(name)))),
            ("points", array(points)),
            ("marks", array(marks)),
        ]);
        text.push('\n');
        text
    }
}

/// What of a look changes when something happens.
fn shown(look: &Look) -> [u64; 5] {
    [look.totals.requests, look.totals.failed, look.busy, look.threads, look.queued]
}

impl Past {
    fn mark(&mut self, now: Millis, kind: &'static str, what: String, count: u64) {
        let goes_on = matches!(kind, "death" | "limit");
        let same = |mark: &&mut Mark| {
            goes_on && mark.kind == kind && mark.what == what && mark.until + SAME_MS >= now
        };
        if let Some(mark) = self.marks.iter_mut().rev().find(same) {
            mark.until = now;
            mark.count += count;
            return;
        }
        if self.marks.len() >= MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { from: now, until: now, kind, what, count });
    }

    fn put(&mut self, began: Millis, now: Millis, look: &Look) {
        // The newest that is old enough, or the oldest that there is.
        while self.before.get(1).is_some_and(|(at, _)| at + WINDOW_MS <= now) {
            self.before.pop_front();
        }
        let lately = self.before.front().map(|(_, before)| look.totals.total.since(before));
        let took = now.saturating_sub(began).max(1) as f32 / 1000.0;
        let (totals, last) = (&look.totals, &self.last.totals);
        let a_second = |now: u64, before: u64| now.saturating_sub(before) as f32 / took;
        let point = Point {
            at: now,
            requests: a_second(totals.requests, last.requests),
            failed: a_second(totals.failed, last.failed),
            quantiles: SHARES.map(|share| Some(lately.as_ref()?.quantile(share)? as f32 / 1e9)),
            busy: look.busy as u32,
            threads: look.threads as u32,
            queued: look.queued as u32,
        };
        if self.points.len() >= KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }
}

fn of_ms(ms: Millis) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn of_point(point: &Point) -> String {
    let mut told = vec![of_ms(point.at), format!("{:.2}", point.requests), format!("{:.2}", point.failed)];
    told.extend(point.quantiles.map(|one| one.map_or("null".into(), |seconds| format!("{seconds:.6}"))));
    told.extend([point.busy, point.threads, point.queued].map(|number| number.to_string()));
    array(told)
}

fn of_mark(mark: &Mark) -> String {
    object([
        ("from", of_ms(mark.from)),
        ("until", of_ms(mark.until)),
        ("kind", quoted(mark.kind)),
        // Why a worker has ended, or the option of a limit.
        ("what", quoted(&mark.what)),
        ("count", mark.count.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look after so many requests, of which some have failed.
    fn look(requests: u64, failed: u64) -> Look {
        let totals = Totals { requests, failed, counters: vec![0; counters::COUNT], ..Totals::default() };
        Look { totals, ..Look::default() }
    }

    fn begun() -> History {
        let history = History::default();
        history.begin(1000, look(7, 3));
        history
    }

    fn points(history: &History) -> Vec<(Millis, f32, f32)> {
        lock(&history.past).points.iter().map(|one| (one.at, one.requests, one.failed)).collect()
    }

    #[test]
    fn a_point_is_what_came_in_its_time_and_a_time_in_which_nothing_did_has_none() {
        let history = begun();
        let found = [
            history.add(1000, 2000, look(17, 3)),
            history.add(2000, 3000, look(17, 3)),
            // Nobody has looked for a minute, as nothing happened.
            history.add(63_000, 63_500, look(27, 4)),
            history.add(63_500, 64_500, Look { busy: 1, ..look(27, 4) }),
            history.add(64_500, 65_500, Look { busy: 1, ..look(27, 4) }),
        ];
        assert_eq!(found, [true, false, true, true, false]);
        assert_eq!(
            points(&history),
            [(1000, 0.0, 0.0), (2000, 10.0, 0.0), (63_500, 20.0, 2.0), (64_500, 0.0, 0.0)]
        );
    }

    #[test]
    fn it_is_bounded_whatever_happens() {
        let history = begun();
        for second in 1..2000 {
            let exits = vec![(format!("signal:{second}"), 1)];
            assert!(history.add(second * 1000, second * 1000 + 1000, Look { exits, ..look(second, 0) }));
        }
        let past = lock(&history.past);
        assert_eq!((past.points.len(), past.marks.len()), (KEPT, MARKS));
        assert!(past.before.len() <= 12, "{}", past.before.len());
        assert_eq!(past.points.back().map(|one| one.at), Some(2_000_000));
    }

    #[test]
    fn what_befell_the_server_is_marked_once_and_what_goes_on_is_one_mark() {
        let history = begun();
        let names = counters::names();
        let full = names.iter().position(|name| name == "requests_not_queued").expect("it is counted");
        let harmless = names.iter().position(|name| name == "bodies_spooled").expect("it is counted");
        let mut seen = look(7, 3);
        seen.totals.counters[harmless] = 5;
        assert!(!history.add(1000, 2000, seen.clone()), "it costs no client anything");
        seen.reloads = (1, 0);
        seen.exits = vec![("asked".into(), 2), ("signal:SIGKILL".into(), 1)];
        assert!(history.add(2000, 3000, seen.clone()));
        for second in 3..9 {
            seen.totals.counters[full] += 10;
            assert!(history.add(second * 1000, second * 1000 + 1000, seen.clone()));
        }
        seen.totals.counters[full] += 1;
        assert!(history.add(60_000, 61_000, seen.clone()));
        let told: Vec<_> = lock(&history.past)
            .marks
            .iter()
            .map(|mark| (mark.from, mark.until, mark.kind, mark.what.clone(), mark.count))
            .collect();
        let mark = |from, until, kind, what: &str, count| (from, until, kind, what.to_owned(), count);
        let expected = [
            mark(3000, 3000, "reload", "", 1),
            mark(3000, 3000, "death", "signal:SIGKILL", 1),
            mark(4000, 9000, "limit", "--limit-queue", 60),
            mark(61_000, 61_000, "limit", "--limit-queue", 1),
        ];
        assert_eq!(told, expected);
    }
}
