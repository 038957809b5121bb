//! Why requests wait, in words for people.
//!
//! Knows: who waits in lanes, and which routes are slow. Does not know: who is told. Runs under the baton.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::pattern::{self, Keep};
use super::queues::Queues;
use super::rule::{Long, Micros, SLOW_US};
use super::{Lane, Lanes, Waits, routes};

/// So many slow routes are named in messages.
const NAMED: usize = 3;
/// So many that differ only in the middle of their paths are one, where more are slow than are named.
const ALIKE: usize = 3;

impl Lanes {
    /// Why requests wait, in words; and the routes that it tells of. None: nothing is told apart.
    pub fn words<T: Waits>(&self, queues: &Queues<T>) -> Option<(String, Vec<String>)> {
        let waiting = queues.len() - queues.limited();
        let for_threads = if waiting > 0 { self.slow_words(waiting) } else { None };
        let told: Vec<_> = for_threads.into_iter().chain(self.limited_words(queues)).collect();
        let (words, routes): (Vec<String>, Vec<Vec<String>>) = told.into_iter().unzip();
        (!words.is_empty()).then(|| (words.join("; "), routes.concat()))
    }

    /// Why requests do not begin, though there may be threads: as many of their routes are inside as may be.
    fn limited_words<T: Waits>(&self, queues: &Queues<T>) -> Option<(String, Vec<String>)> {
        let reached = (0..self.limits.len() as u8).filter_map(|limit| {
            let waiting = queues.waiting(Lane::Limited(limit));
            let (prefix, most) = self.limits.told(limit)?;
            (waiting > 0).then(|| (waiting, format!("{prefix}={most} ({waiting})"), prefix.into_owned()))
        });
        let mut reached: Vec<_> = reached.collect();
        reached.sort_by_key(|&(waiting, ..)| std::cmp::Reverse(waiting));
        let some: Vec<&str> = reached.iter().take(NAMED).map(|(_, words, _)| &words[..]).collect();
        let more = more_than(reached.len());
        let waits = waits(queues.limited());
        let words = format!(
            "{waits} for others below the same path to end (--route-limits): {}{more}",
            some.join(", ")
        );
        let routes = reached.iter().take(NAMED).map(|(_, _, prefix)| prefix.clone()).collect();
        (!reached.is_empty()).then_some((words, routes))
    }

    /// Why so many requests do not get a thread, and the slow routes.
    fn slow_words(&self, waiting: usize) -> Option<(String, Vec<String>)> {
        let at_us = match self.split {
            Some(split) => split.at_us,
            None if self.keeps_by_hand() => SLOW_US,
            None => return None,
        };
        let is_slow = |route: &&routes::Route| route.mean_us().is_some_and(|mean_us| mean_us >= at_us);
        let slow = self.routes.all().filter(is_slow).map(|route| {
            let (took_us, is_age) = route.told_us();
            Slow { name: route.name().into(), several: None, took_us: took_us.unwrap_or(0), is_age }
        });
        let slow = told_together(slow.collect());
        let some: Vec<String> = slow.iter().take(NAMED).map(Slow::words).collect();
        let named = match slow.len() {
            0 => String::new(),
            all => format!("; slow: {}{}", some.join(", "), more_than(all)),
        };
        let kept = match self.kept() {
            0 => "no quick route is known for which a thread would be kept".to_string(),
            1 => format!("1 of {} threads is kept for quick ones", self.threads),
            kept => format!("{kept} of {} threads are kept for quick ones", self.threads),
        };
        let kept = match self.split.and_then(|split| split.long) {
            Some(Long { at_us, reserve }) => {
                format!("{kept}, and {reserve} for those that take less than {} ms", at_us / 1000)
            }
            None => kept,
        };
        let waits = waits(waiting);
        let routes = slow.into_iter().take(NAMED).map(|slow| slow.name).collect();
        Some((format!("{waits} for a thread{named}; {kept}"), routes))
    }
}

/// A slow route, or several of which the same is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slow {
    name: String,
    /// How many they are, and which the slowest is, where they are several.
    several: Option<(usize, String)>,
    /// What the slowest of them takes.
    took_us: Micros,
    /// It is how old those are that are inside.
    is_age: bool,
}

impl Slow {
    fn words(&self) -> String {
        let least = if self.is_age { "at least " } else { "" };
        let (name, took_ms) = (&self.name, self.took_us / 1000);
        match &self.several {
            None => format!("{name} ({least}{took_ms} ms)"),
            Some((paths, slowest)) => format!("{name} ({paths} paths; {slowest} {least}{took_ms} ms)"),
        }
    }
}

/// The slowest first. Where they are more than are named, those that differ only in the middle of their paths, as by people's
/// names, are one: who reads of three of them would take it for a fault of these.
fn told_together(slow: Vec<Slow>) -> Vec<Slow> {
    let mut told = if slow.len() > NAMED { by_ends(slow) } else { slow };
    told.sort_unstable_by(|one, other| {
        (Reverse(one.took_us), &one.name).cmp(&(Reverse(other.took_us), &other.name))
    });
    told
}

fn by_ends(slow: Vec<Slow>) -> Vec<Slow> {
    let mut alike: BTreeMap<Vec<u8>, Vec<Slow>> = BTreeMap::new();
    let mut ends = Vec::new();
    for one in slow {
        let (method, path) = one.name.split_once(' ').unwrap_or(("", &one.name));
        pattern::write(method.as_bytes(), path.as_bytes(), Keep::Ends, &mut ends);
        alike.entry(ends.clone()).or_default().push(one);
    }
    let mut told = Vec::new();
    for (ends, routes) in alike {
        match routes.iter().max_by_key(|one| one.took_us) {
            Some(slowest) if routes.len() >= ALIKE => told.push(Slow {
                name: String::from_utf8_lossy(&ends).into_owned(),
                several: Some((routes.len(), slowest.name.clone())),
                ..*slowest
            }),
            _ => told.extend(routes),
        }
    }
    told
}

/// So many requests wait, in words.
fn waits(waiting: usize) -> String {
    match waiting {
        1 => "1 request waits".into(),
        _ => format!("{waiting} requests wait"),
    }
}

/// How many of so many routes are not named, in words.
fn more_than(all: usize) -> String {
    match all.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slow: &[(&str, Micros, bool)]) -> Vec<String> {
        let slow = slow.iter().map(|&(name, took_us, is_age)| Slow {
            name: name.into(),
            several: None,
            took_us,
            is_age,
        });
        told_together(slow.collect()).iter().map(Slow::words).collect()
    }

    #[test]
    fn as_many_as_are_named_have_their_own_names() {
        let [ann, bob] = ["GET /u/ann/export", "GET /u/bob/export"];
        assert_eq!(
            told(&[(bob, 9_000, false), ("GET /report", 800_000, true), (ann, 9_000, false)]),
            ["GET /report (at least 800 ms)", "GET /u/ann/export (9 ms)", "GET /u/bob/export (9 ms)"]
        );
    }

    #[test]
    fn more_are_told_together_where_three_differ_in_the_middle_only() {
        let people =
            ["GET /u/ann/export", "GET /u/bob/export", "GET /u/cat/export"].map(|name| (name, 20_000, true));
        let others = [("POST /u/ann/export", 7_000, false), ("GET /u/ann/print", 6_000, false)];
        let slow = [&people[..1], &[(people[1].0, 300_000, false)], &people[2..], &others[..]].concat();
        assert_eq!(
            told(&slow),
            [
                "GET /u/*/export (3 paths; GET /u/bob/export 300 ms)",
                "POST /u/ann/export (7 ms)",
                "GET /u/ann/print (6 ms)"
            ]
        );
        let two = told(&[&people[1..], &others[..]].concat());
        assert_eq!(two[..2], ["GET /u/bob/export (at least 20 ms)", "GET /u/cat/export (at least 20 ms)"]);
    }

    #[test]
    fn what_is_told_together_already_keeps_its_name() {
        let names = ["GET /orders/*/items", "GET /orders/*/bills", "(other) /*/*", "GET /a/b"];
        let slow: Vec<_> = names.iter().map(|&name| (name, 5_000, false)).collect();
        let mut expected: Vec<String> = names.iter().map(|name| format!("{name} (5 ms)")).collect();
        expected.sort();
        assert_eq!(told(&slow), expected);
    }
}
