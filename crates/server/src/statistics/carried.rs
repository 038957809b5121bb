//! What a server has counted, as a text that another program can read, though it keeps its numbers otherwise.
//!
//! Knows: the names of numbers. Does not know: who hands the text on (`supervisor/upgrade.py`). A program says all before it
//! becomes another one; that other takes it among what dead workers have left, where it cannot go on with the memory itself.
//! What it does not know by name is left out.
//!
//! A line for each number or distribution, its parts with tabs between them. Buckets are `end:count`, with ends in nanoseconds.

use std::fmt::Write as _;
use std::io;

use super::condition::{Collected, PAUSE_BOUNDS};
use super::histogram::{BOUNDS, bucket_of};
use super::layout::{COUNTERS, HISTOGRAM, META, Meta, PHASES, RETIRED, SUMS, Word, add};
use super::phase::{ENDINGS, Ending, NAMES};
use super::routes::{self, Route};
use super::segment::{SERVER_NAMES, Segment, Server};
use super::series;
use super::series::{BUCKETS, Key, METHODS, Series, VERSIONS};
use super::snapshot::Snapshot;
use crate::counters;

/// Sums of a block that are counted for ever.
const SUMMED: [(Meta, &str); 9] = [
    (Meta::Ended, "ended"),
    (Meta::DiedInside, "died_inside"),
    (Meta::Received, "received"),
    (Meta::Sent, "sent"),
    (Meta::Overflow, "overflow"),
    (Meta::Unplaced, "unplaced"),
    (Meta::ClockSkew, "clock_skew"),
    (Meta::Spans, "spans"),
    (Meta::SpansDropped, "spans_dropped"),
];
/// The same of what the supervisor says.
const HAPPENED: [Server; 3] = [Server::Starts, Server::ReloadsDone, Server::ReloadsFailed];
/// Endings that have a name.
const ENDED: [Ending; 7] = [
    Ending::Timeout,
    Ending::QueueTimeout,
    Ending::QueueFull,
    Ending::ClientGone,
    Ending::WorkerDied,
    Ending::Refused,
    Ending::CutOff,
];
/// A bucket without an end.
const ENDLESS: &str = "inf";
/// A request without a route that was told, and series that had no place.
const NONE: &str = "-";

/// All that was counted until now.
///
/// # Errors
/// As [`Snapshot::read`].
pub fn told(segment: &Segment) -> io::Result<String> {
    let found = Snapshot::read(segment)?;
    let mut text = String::new();
    // Nothing can fail that is written to a text.
    for (name, count) in counters::names().iter().zip(&found.counters).filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "counter\t{name}\t{count}");
    }
    for (what, name) in SUMMED {
        let _ = writeln!(text, "sum\t{name}\t{}", found.meta(what));
    }
    for what in HAPPENED {
        let _ = writeln!(text, "server\t{}\t{}", SERVER_NAMES[what as usize], segment.server(what));
    }
    for (reason, count) in segment.exits() {
        let _ = writeln!(text, "exit\t{reason}\t{count}");
    }
    let Collected { generations, buckets: pauses, paused } = found.collected();
    let numbers = generations.map(|count| count.to_string()).join(",");
    let filled = pause_ends().zip(pauses).filter(|(_, count)| *count > 0);
    let _ = writeln!(text, "collections\t{numbers}\t{paused}\t{}", buckets(filled));
    for (name, phase) in NAMES.iter().zip(&found.phases) {
        let _ = writeln!(text, "phase\t{name}\t{}\t{}", phase.sum, buckets(phase.by_ends()));
    }
    for route in found.routes.values() {
        let Route { name, told, requests, errors, app, measured, measured_app, cpu, weighed, grown } = route;
        let numbers =
            [*requests, *errors, *app, *measured, *measured_app, *cpu, *weighed, grown.cast_unsigned()];
        let numbers = numbers.map(|number| number.to_string()).join(",");
        let _ = writeln!(text, "route\t{}\t{numbers}\t{}", u8::from(*told), one_line(name));
    }
    for ((_, path), (key, counted)) in &found.series {
        let route = key.and_then(|key| route_of(&found, key, path)).unwrap_or(NONE);
        let told = key.map_or_else(|| NONE.into(), key_text);
        let ends = BOUNDS.into_iter().chain([u64::MAX]);
        let filled = ends.zip(counted.buckets).filter(|(_, count)| *count > 0);
        let _ = writeln!(text, "series\t{told}\t{}\t{}\t{}", counted.sum, buckets(filled), one_line(route));
    }
    Ok(text)
}

/// Adds what another program has counted.
///
/// # Errors
/// The kernel's.
pub fn take(segment: &Segment, text: &str) -> io::Result<()> {
    let words = segment.block(RETIRED)?;
    segment.unread(|| {
        for line in text.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            // What is not known, or not whole, is left out.
            let _ = take_line(segment, words, &parts);
        }
    });
    Ok(())
}

fn take_line(segment: &Segment, words: &[Word], parts: &[&str]) -> Option<()> {
    match *parts {
        ["counter", name, count] => {
            let place = counters::names().iter().position(|known| *known == name)?;
            add(&words[COUNTERS + place], count.parse().ok()?);
        }
        ["sum", name, count] => {
            let (what, _) = SUMMED.iter().find(|(_, known)| *known == name)?;
            add(&words[META + *what as usize], count.parse().ok()?);
        }
        ["server", name, count] => {
            let what = HAPPENED.into_iter().find(|what| SERVER_NAMES[*what as usize] == name)?;
            segment.add(what as usize, count.parse().ok()?);
        }
        ["exit", reason, count] => {
            segment.count_exits(reason, count.parse().ok()?);
        }
        ["phase", name, sum, filled] => {
            let phase = NAMES.iter().position(|known| *known == name)?;
            add(&words[SUMS + phase], sum.parse().ok()?);
            for (end, count) in read_buckets(filled) {
                add(&words[PHASES + phase * HISTOGRAM + bucket_of(end)], count);
            }
        }
        ["collections", numbers, sum, filled] => {
            let mut collected = Collected { paused: sum.parse().ok()?, ..Collected::default() };
            for (count, number) in collected.generations.iter_mut().zip(numbers.split(',')) {
                *count = number.parse().ok()?;
            }
            for (end, count) in read_buckets(filled) {
                collected.buckets[pause_ends().take_while(|bound| *bound < end).count()] += count;
            }
            collected.fold(words);
        }
        ["route", told, numbers, name] => {
            routes::fold(words, &route(told == "1", numbers, name)?);
        }
        ["series", key, sum, filled, route] => {
            let mut counted = Series { sum: sum.parse().ok()?, ..Series::default() };
            for (end, count) in read_buckets(filled) {
                counted.buckets[series::bucket(end).min(BUCKETS - 1)] += count;
            }
            let place = match route {
                NONE => 0,
                name => routes::fold(words, &Route { name: name.into(), told: true, ..Route::default() }),
            };
            let key = if key == NONE { None } else { Some(read_key(key)?.with_route(place as u16)) };
            series::fold(words, key, &counted);
        }
        _ => return None,
    }
    Some(())
}

fn route(told: bool, numbers: &str, name: &str) -> Option<Route> {
    let numbers: Vec<u64> = numbers.split(',').map_while(|number| number.parse().ok()).collect();
    let &[requests, errors, app, measured, measured_app, cpu, weighed, grown] = numbers.as_slice() else {
        return None;
    };
    let (name, grown) = (name.into(), grown.cast_signed());
    Some(Route { name, told, requests, errors, app, measured, measured_app, cpu, weighed, grown })
}

/// Where the buckets of pauses end.
fn pause_ends() -> impl Iterator<Item = u64> {
    PAUSE_BOUNDS.into_iter().chain([u64::MAX])
}

/// The name of the route that a series with that path is of.
fn route_of<'a>(found: &'a Snapshot, key: Key, path: &str) -> Option<&'a str> {
    let is_its = |name: &&str| {
        name.split_once(' ').is_some_and(|(method, told)| {
            told == path
                && METHODS.iter().position(|known| *known == method).unwrap_or(0) == key.method_place().into()
        })
    };
    if path.is_empty() {
        return None;
    }
    found.routes.values().filter(|route| route.told).map(|route| route.name.as_str()).find(is_its)
}

/// A name stays in its line, whatever is in it.
fn one_line(name: &str) -> String {
    name.replace(['\t', '\n', '\r'], " ")
}

fn key_text(key: Key) -> String {
    let ending = ENDINGS.get(usize::from(key.ending())).filter(|name| !name.is_empty()).unwrap_or(&NONE);
    format!("{},{},{},{},{ending}", key.method(), key.version(), key.scheme(), key.status())
}

fn read_key(text: &str) -> Option<Key> {
    let &[method, version, scheme, status, ending] = text.split(',').collect::<Vec<_>>().as_slice() else {
        return None;
    };
    let method = METHODS.iter().position(|known| *known == method)?;
    let version = VERSIONS.iter().position(|known| *known == version)?;
    let head = series::of_places(method, version, scheme == "https");
    let ending = match ending {
        NONE => Ending::Answered,
        name => ENDED.into_iter().find(|ending| ENDINGS[*ending as usize] == name)?,
    };
    Some(Key::new(head, 0, status.parse().ok()?, ending))
}

fn buckets(filled: impl Iterator<Item = (u64, u64)>) -> String {
    let shown = filled.map(|(end, count)| match end {
        u64::MAX => format!("{ENDLESS}:{count}"),
        end => format!("{end}:{count}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn read_buckets(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.split(' ').filter_map(|one| {
        let (end, count) = one.split_once(':')?;
        let end = if end == ENDLESS { u64::MAX } else { end.parse().ok()? };
        Some((end, count.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::histogram;
    use super::super::layout::{STRIDE, block_at};
    use super::super::phase::{Parts, Phase};
    use super::super::played::{Worker, segment};
    use super::*;

    /// What has happened in a server, of every kind.
    fn happened() -> Segment {
        let segment = segment();
        let words = segment.block(RETIRED).expect("a block");
        for (place, word) in words[COUNTERS..COUNTERS + counters::COUNT].iter().enumerate() {
            add(word, place as u64 % 7);
        }
        for (place, (what, _)) in SUMMED.iter().enumerate() {
            add(&words[META + *what as usize], 100 + place as u64);
        }
        HAPPENED.into_iter().for_each(|what| segment.add(what as usize, 3 + what as u64));
        for reason in ["signal:SIGKILL", "asked", "asked"] {
            segment.count_exit(reason);
        }
        let block = words.first_chunk().expect("a block");
        let parts = Parts { app: 3_000, total: 7_000_000, ..Parts::default() };
        for (phase, ns) in parts.phases() {
            histogram::sum(block, phase, ns);
            histogram::count(histogram::scale(), block, phase, (ns, 2));
        }
        Collected { generations: [9, 3, 1], buckets: [8, 0, 3, 0, 0, 0, 0, 0, 1, 1], paused: 7 }.fold(words);
        // One that is longer than any bucket.
        histogram::count(histogram::scale(), block, Phase::Send, (u64::MAX / 2, 1));
        let grown = Route { name: "GET /grows".into(), told: false, grown: -5, ..Route::default() };
        routes::fold(words, &grown);
        let told = Route {
            name: "PROPFIND /orders/{n}".into(),
            told: true,
            requests: 4,
            app: 9,
            ..Route::default()
        };
        let place = routes::fold(words, &told) as u16;
        let counted = |bucket: usize| {
            let mut series = Series { sum: 1_000, ..Series::default() };
            series.buckets[bucket] = 3;
            series
        };
        let key = Key::new(series::of_places(0, 2, true), place, 207, Ending::Answered);
        series::fold(words, Some(key), &counted(0));
        for ending in ENDED {
            let key = Key::new(series::of_places(3, 0, false), 0, 0, ending);
            series::fold(words, Some(key), &counted(BUCKETS - 1));
        }
        series::fold(words, None, &counted(2));
        segment
    }

    #[test]
    fn another_program_goes_on_from_all_that_was_counted() {
        let before = happened();
        let text = told(&before).expect("a text");
        let after = segment();
        take(&after, &text).expect("it is taken");
        let (was, is) = (Snapshot::read(&before).expect("numbers"), Snapshot::read(&after).expect("numbers"));
        assert_eq!(is.counters, was.counters);
        for (what, name) in SUMMED {
            assert_eq!(is.meta(what), was.meta(what), "{name}");
        }
        assert_eq!(is.collected(), was.collected());
        assert_eq!((is.phases, is.series, is.routes), (was.phases, was.series, was.routes));
        assert_eq!(after.exits(), before.exits());
        for what in HAPPENED {
            assert_eq!(after.server(what), before.server(what));
        }
        assert_eq!(told(&after).expect("a text"), text, "and so does the next one");
    }

    #[test]
    fn what_a_program_does_not_know_is_left_out_and_the_rest_is_taken() {
        let after = segment();
        let lines = [
            "counter\tno_such\t7",
            "counter\trequests_total\tmany",
            "counter\trequests_total",
            "phase\tno_such\t7\t1:1",
            "series\tGET,9,http,200,-\t7\t1:1\t-",
            "route\t1\t1,2\tGET /",
            "collections\t1,many\t7\t1:1",
            "another kind\t7",
            "",
            "counter\trequests_total\t5",
        ];
        take(&after, &lines.join("\n")).expect("it is taken");
        let is = Snapshot::read(&after).expect("numbers");
        assert_eq!(is.counters.iter().sum::<u64>(), 5);
        assert!(is.series.is_empty() && is.routes.is_empty() && is.collected() == Collected::default());
    }

    #[test]
    fn what_workers_that_live_have_counted_is_told_too() {
        let segment = segment();
        segment.take(0);
        let (mut worker, head) = (Worker::default(), super::super::played::head("GET /"));
        for _ in 0..3 {
            let times = worker.answers(&head, 1000);
            worker.counts(&head, &times, 200);
        }
        worker.statistics.looks();
        let block = segment.block(1).expect("a block");
        block.iter().zip(worker.words).for_each(|(to, from)| add(to, super::super::layout::load(from)));
        add(&block[META + Meta::Pid as usize], 1);
        assert_eq!(block_at(2) - block_at(1), STRIDE);
        let text = told(&segment).expect("a text");
        assert!(text.contains("sum\tended\t3\n") && text.contains("series\tGET,1.1,http,200,-\t"), "{text}");
    }
}
