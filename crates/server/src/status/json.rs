//! `/status.json`: the same numbers for programs that read no metrics, and for people who look once.
//!
//! Knows: the fields, to which more may come. Does not know: who may see them.

use std::fmt::Write;

use crate::counters;
use crate::rows::{Field, Page, Rows};
use crate::statistics::layout::Meta;
use crate::statistics::phase::NAMES;
use crate::statistics::segment::{SERVER_NAMES, Segment, Server};
use crate::statistics::snapshot::Snapshot;

/// Grows when a field goes, or means something else.
const SCHEMA: u32 = 1;

/// A text as JSON has it.
fn quoted(text: &str) -> String {
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
fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
    format!("{{{}}}", members.join(", "))
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// The whole.
pub fn of<P: Page>(found: &Snapshot, segment: &Segment, rows: &Rows<P>) -> String {
    const SERVER: [Server; SERVER_NAMES.len()] = [
        Server::Pid,
        Server::Alive,
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
    ];
    let server =
        SERVER_NAMES.iter().zip(SERVER).map(|(name, what)| (*name, segment.server(what).to_string()));
    let phases = NAMES.iter().zip(&found.phases).map(|(name, histogram)| {
        let share = |share| histogram.quantile(share).map_or("null".into(), seconds);
        let members = [
            ("count", histogram.count().to_string()),
            ("seconds", seconds(histogram.sum)),
            ("p50", share(0.5)),
            ("p95", share(0.95)),
            ("p99", share(0.99)),
        ];
        (*name, object(members))
    });
    let routes = found.routes.iter().map(|(name, route)| {
        let members = [
            ("requests", route.requests.to_string()),
            ("errors", route.errors.to_string()),
            ("seconds", seconds(route.app)),
            ("cpu_seconds", if route.measured == 0 { "null".into() } else { seconds(route.cpu_of_all()) }),
        ];
        (name.as_str(), object(members))
    });
    let workers: Vec<String> = found
        .workers
        .iter()
        .map(|worker| {
            let row = |field| rows.of(worker.row, field).to_string();
            object([
                ("pid", worker.pid.to_string()),
                ("inside", worker.inside.to_string()),
                ("busy", row(Field::Busy)),
                ("threads", row(Field::Threads)),
                ("queued", row(Field::Queued)),
                ("connections", row(Field::Connections)),
            ])
        })
        .collect();
    let names = counters::names();
    let counted = names.iter().zip(&found.counters).filter(|(_, count)| **count > 0);
    let mut whole = object([
        ("schema", SCHEMA.to_string()),
        ("server", object(server)),
        ("requests", found.meta(Meta::Ended).to_string()),
        ("inside", found.inside().to_string()),
        ("died_inside", found.meta(Meta::DiedInside).to_string()),
        ("phases", object(phases)),
        ("routes", object(routes)),
        ("workers", format!("[{}]", workers.join(", "))),
        ("counters", object(counted.map(|(name, count)| (name.as_str(), count.to_string())))),
    ]);
    whole.push('\n');
    whole
}
