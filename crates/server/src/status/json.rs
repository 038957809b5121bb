//! `/status.json`: the same numbers for programs that read no metrics, and for people who look once.
//!
//! Knows: the fields, to which more may come, and which of them name paths. Does not know: who may see those.

use std::fmt::Write;
use std::io;

use reactor::sys::{monotonic_ns, wall_us};
use wire::{LimitDoc, Millis, TABLE};

use super::{Told, condition};
use crate::counters;
use crate::health::{Check, Health};
use crate::rows::{Field, Page, Rows};
use crate::statistics::condition::{Collected, LANE_NAMES};
use crate::statistics::layout::Meta;
use crate::statistics::phase::{ENDINGS, NAMES, NOT_MEASURED};
use crate::statistics::records::Record;
use crate::statistics::segment::{SERVER_NAMES, Segment, Server};
use crate::statistics::slots::Inside;
use crate::statistics::snapshot::{Snapshot, Worker};

/// Grows when a field goes, or means something else.
const SCHEMA: u32 = 1;
/// Of the requests that were kept so many are told, the newest: failed ones, slow ones, and of the others. Each by
/// itself, so that the slow ones are seen though many fail.
const FAILED: usize = 100;
const SLOW: usize = 60;
const OTHERS: usize = 40;

/// A text as JSON has it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            one if (one as u32) < 32 => {
                let _ = write!(out, "\\u{:04x}", one as u32);
            }
            one => out.push(one),
        }
    }
    out.push('"');
    out
}

/// An object of members that are JSON already.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
    format!("{{{}}}", members.join(", "))
}

pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

pub(super) fn array(members: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", members.into_iter().collect::<Vec<_>>().join(", "))
}

/// The option that sets a limit, as `settings.py` names it.
pub(super) fn option_of(limit: &LimitDoc) -> String {
    let timed = limit.kind == "milliseconds" || limit.name == "error_log_rate";
    format!("--{}{}", if timed { "" } else { "limit-" }, limit.name.replace('_', "-"))
}

/// What is asked about, and whether who asks may see what requests are for.
pub struct Asked<'a, P> {
    pub segment: &'a Segment,
    pub rows: &'a Rows<P>,
    pub told: &'a Told,
    pub contents: bool,
}

/// The whole.
///
/// # Errors
/// The kernel's, where memory cannot be mapped.
pub fn of<P: Page>(found: &Snapshot, health: Health, asked: &Asked<'_, P>) -> io::Result<String> {
    let names = counters::names();
    let counted = names.iter().zip(&found.counters).filter(|(_, count)| **count > 0);
    let counted: Vec<(&str, u64)> = counted.map(|(name, count)| (name.as_str(), *count)).collect();
    let exits = asked.segment.exits();
    let (errors, failed) = found.failures();
    let mut members = vec![
        ("schema", SCHEMA.to_string()),
        // Seconds since 1970, and those of a clock that never jumps: differences of two answers are per that.
        ("now", seconds(wall_us() * 1000)),
        ("monotonic", seconds(monotonic_ns())),
        ("contents", asked.contents.to_string()),
        ("build", object(asked.told.build.iter().map(|(name, value)| (name.as_str(), quoted(value))))),
        ("slow_request", seconds(asked.told.slow * 1_000_000)),
        ("health", of_health(health)),
        ("server", of_server(asked.segment)),
        ("exits", object(exits.iter().map(|(reason, count)| (reason.as_str(), count.to_string())))),
        ("requests", found.meta(Meta::Ended).to_string()),
        ("failed", failed.to_string()),
        ("errors", object(errors.iter().map(|(name, count)| (*name, count.to_string())))),
        ("inside", found.inside().to_string()),
        ("died_inside", found.meta(Meta::DiedInside).to_string()),
        ("phases", of_phases(found)),
        ("workers", of_workers(&found.workers, asked)?),
        ("queue_oldest", held(condition::oldest(&found.workers))),
        ("gc", of_collections(found)),
        ("counters", object(counted.iter().map(|(name, count)| (*name, count.to_string())))),
        ("limits", array(TABLE.iter().filter_map(|limit| of_limit(limit, &counted)))),
    ];
    if asked.contents {
        members.push(("routes", of_routes(found)));
        members.push(("ended", of_ended(&found.workers, asked.segment)?));
    }
    let mut whole = object(members);
    whole.push('\n');
    Ok(whole)
}

fn of_health(health: Health) -> String {
    let judged = |check| health.judged(check).0.to_string();
    object([
        ("live", judged(Check::Live)),
        ("ready", judged(Check::Ready)),
        ("started", judged(Check::Started)),
        ("supervised", health.supervised.to_string()),
        // Workers in which nothing goes on though requests wait.
        ("stuck", health.stuck.to_string()),
    ])
}

fn of_server(segment: &Segment) -> String {
    const SERVER: [Server; SERVER_NAMES.len()] = [
        Server::Pid,
        Server::LooksBy,
        Server::Started,
        Server::Generation,
        Server::Wanted,
        Server::Workers,
        Server::Ready,
        Server::Up,
        Server::Stopping,
        Server::Starts,
        Server::ReloadsDone,
        Server::ReloadsFailed,
        Server::ReloadGivenUpAt,
        Server::LogFailed,
        Server::LogLinesLost,
        Server::CertificateExpires,
        Server::CertificateLasts,
        Server::CertificateUnused,
    ];
    // A time that never comes is none, and more than what JavaScript's numbers hold.
    let told = |what| match segment.server(what) {
        u64::MAX => "null".to_string(),
        number => number.to_string(),
    };
    object(SERVER_NAMES.iter().zip(SERVER).map(|(name, what)| (*name, told(what))))
}

fn of_phases(found: &Snapshot) -> String {
    object(NAMES.iter().zip(&found.phases).map(|(name, histogram)| {
        let share = |share| histogram.quantile(share).map_or("null".into(), seconds);
        // So that whoever asks again knows the distribution of what came meanwhile.
        let buckets = histogram.filled().map(|(end, count)| format!("[{}, {count}]", seconds(end)));
        let members = [
            ("count", histogram.count().to_string()),
            ("seconds", seconds(histogram.sum)),
            ("p50", share(0.5)),
            ("p95", share(0.95)),
            ("p99", share(0.99)),
            ("buckets", array(buckets)),
        ];
        (*name, object(members))
    }))
}

fn of_routes(found: &Snapshot) -> String {
    object(found.routes.iter().map(|(name, route)| {
        let members = [
            ("requests", route.requests.to_string()),
            ("errors", route.errors.to_string()),
            ("seconds", seconds(route.app)),
            ("cpu_seconds", if route.measured == 0 { "null".into() } else { seconds(route.cpu_of_all()) }),
            ("memory_growth", if route.weighed == 0 { "null".into() } else { route.growth().to_string() }),
        ];
        (name.as_str(), object(members))
    }))
}

fn of_workers<P: Page>(workers: &[Worker], asked: &Asked<'_, P>) -> io::Result<String> {
    let now = monotonic_ns();
    let each = workers.iter().map(|worker| {
        let row = |field| asked.rows.of(worker.row, field).to_string();
        let mut inside = asked.segment.inside(worker.row, false)?;
        inside.sort_by_key(|one| one.first);
        Ok(object([
            ("pid", worker.pid.to_string()),
            ("inside", worker.inside.to_string()),
            ("busy", row(Field::Busy)),
            ("threads", row(Field::Threads)),
            ("queued", asked.rows.queued_of(worker.row).0.to_string()),
            ("limited", asked.rows.queued_of(worker.row).1.to_string()),
            ("lanes", object(LANE_NAMES.into_iter().zip(worker.lanes.map(|count| count.to_string())))),
            ("queue_oldest", held(worker.waits)),
            ("loop_longest_step", held(worker.held)),
            ("connections", row(Field::Connections)),
            ("requests", row(Field::Requests)),
            ("refused", row(Field::Refused)),
            ("timeouts", row(Field::Timeouts)),
            ("errors", row(Field::Errors)),
            ("running", array(inside.iter().map(|one| of_running(one, now, asked.contents)))),
        ]))
    });
    Ok(array(each.collect::<io::Result<Vec<_>>>()?))
}

/// Milliseconds as seconds.
fn held(ms: Option<Millis>) -> String {
    ms.map_or("null".into(), |ms| seconds(ms.saturating_mul(1_000_000)))
}

fn of_collections(found: &Snapshot) -> String {
    let Collected { generations, buckets, paused } = found.collected();
    object([
        ("collections", array(generations.map(|count| count.to_string()))),
        ("pauses", buckets.iter().sum::<u64>().to_string()),
        ("seconds", seconds(paused)),
    ])
}

fn of_running(one: &Inside, now: u64, contents: bool) -> String {
    let mut members = vec![
        ("number", one.number.to_string()),
        ("seconds", seconds(now.saturating_sub(one.first))),
        ("inside", seconds(now.saturating_sub(one.begun))),
        // More than what JavaScript's numbers hold.
        ("thread", quoted(&one.thread.to_string())),
        // Its thread is done with it, and is told as zero: the reply waits for its client.
        ("sending", one.sending.is_some().to_string()),
    ];
    if contents {
        members.extend([("request", quoted(&one.line)), ("id", quoted(&one.id))]);
    }
    object(members)
}

/// The newest of those that have ended and were kept, the oldest first.
fn of_ended(workers: &[Worker], segment: &Segment) -> io::Result<String> {
    let mut all: Vec<(u64, Record)> = segment.records(None)?.into_iter().map(|record| (0, record)).collect();
    for worker in workers {
        all.extend(segment.records(Some(worker.row))?.into_iter().map(|record| (worker.pid, record)));
    }
    all.sort_by_key(|(_, record)| record.wall);
    let (mut failed, mut slow, mut others) = (0, 0, 0);
    all.reverse();
    all.retain(|(_, record)| {
        let (count, most) = match (record.failed(), record.remarkable) {
            (true, _) => (&mut failed, FAILED),
            (false, true) => (&mut slow, SLOW),
            (false, false) => (&mut others, OTHERS),
        };
        *count += 1;
        *count <= most
    });
    Ok(array(all.iter().rev().map(|(pid, record)| of_record(*pid, record, segment))))
}

fn of_record(pid: u64, record: &Record, segment: &Segment) -> String {
    let died = record.died.map(|died| segment.exit(died.exit)).unwrap_or_default();
    let spans = NAMES.iter().zip(record.spans).filter(|(_, span)| *span != NOT_MEASURED);
    object([
        // Zero: its worker is no more, unless it has ended with it.
        ("pid", record.died.map_or(pid, |died| died.pid).to_string()),
        ("died", quoted(&died)),
        ("number", record.number.to_string()),
        ("ended", seconds(record.wall * 1000)),
        ("status", record.status.to_string()),
        ("error", quoted(ENDINGS.get(usize::from(record.ending)).copied().unwrap_or_default())),
        ("request", quoted(&record.line)),
        ("id", quoted(&record.id)),
        ("bytes", record.sent.to_string()),
        // Where it was found while it took long.
        ("where", quoted(&record.stood)),
        ("remarkable", record.remarkable.to_string()),
        ("phases", object(spans.map(|(name, span)| (*name, seconds(span))))),
    ])
}

/// A limit that was reached since the start, under the name of its option.
fn of_limit(limit: &LimitDoc, counted: &[(&str, u64)]) -> Option<String> {
    let reached: Vec<(&str, u64)> = limit
        .counter
        .split(", ")
        .filter_map(|name| counted.iter().find(|(known, _)| *known == name))
        .copied()
        .collect();
    if reached.is_empty() {
        return None;
    }
    Some(object([
        ("option", quoted(&option_of(limit))),
        ("counters", object(reached.iter().map(|(name, count)| (*name, count.to_string())))),
        ("answer", quoted(limit.answer)),
        ("reason", quoted(limit.reason)),
    ]))
}
