//! Why requests wait, in words for people.
//!
//! Knows: who waits in lanes, and which routes are slow. Does not know: who is told. Runs under the baton.

use super::queues::Queues;
use super::rule::SLOW_US;
use super::{Lane, Lanes, Waits, routes};

/// So many slow routes are named in messages.
const NAMED: usize = 3;

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
        let mut slow: Vec<_> =
            self.routes.all().filter(is_slow).map(|route| (route.name(), route.told_us())).collect();
        slow.sort_unstable_by_key(|&(name, took_us)| (std::cmp::Reverse(took_us), name));
        let some: Vec<String> = slow
            .iter()
            .take(NAMED)
            .map(|(name, (took_us, is_age))| {
                let least = if *is_age { "at least " } else { "" };
                format!("{name} ({least}{} ms)", took_us.unwrap_or(0) / 1000)
            })
            .collect();
        let named = match slow.len() {
            0 => String::new(),
            all => format!("; slow: {}{}", some.join(", "), more_than(all)),
        };
        let kept = match self.kept() {
            0 => "no quick route is known for which a thread would be kept".to_string(),
            1 => format!("1 of {} threads is kept for quick ones", self.threads),
            kept => format!("{kept} of {} threads are kept for quick ones", self.threads),
        };
        let waits = waits(waiting);
        let routes = slow.into_iter().take(NAMED).map(|(name, _)| name.to_string()).collect();
        Some((format!("{waits} for a thread{named}; {kept}"), routes))
    }
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
