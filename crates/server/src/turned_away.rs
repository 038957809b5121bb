//! Says in the log that requests are refused as they wait, how many and why: once a minute at the most.
//!
//! Knows: how many were refused, and which were told of. Does not know: requests. Whoever shows the worker's numbers looks.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::Millis;

use crate::counters::Counters;
use crate::log::Log;

/// A line tells of those of so long at least: one that came with the first of a crowd would tell of one.
const COUNTED_MS: Millis = 1_000;
/// So long after a line comes no other.
const QUIET_MS: Millis = 60_000;
/// Why, by the places of [`Counters::turned_away`].
const REASONS: [&str; 3] = [
    "would have waited for too long, more than half of --queue-timeout",
    "came while as many waited as --limit-queue allows",
    "had waited for longer than --queue-timeout",
];

/// What was said of those that were refused.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    told: [AtomicU64; REASONS.len()],
    /// When the first was seen that was not told of; zero: there is none.
    since: AtomicU64,
    quiet_until: AtomicU64,
}

impl TurnedAway {
    /// Looks, and says it when it is time.
    #[inline]
    pub fn tell(&self, counters: &Counters, log: &Log, now: Millis) {
        if let Some(text) = self.look(counters.turned_away(), now) {
            log.warn(text);
        }
    }

    fn look(&self, counts: [u64; REASONS.len()], now: Millis) -> Option<String> {
        let told = self.told.each_ref().map(|one| one.load(Ordering::Relaxed));
        if counts == told {
            return None;
        }
        let since = match self.since.load(Ordering::Relaxed) {
            0 => {
                self.since.store(now, Ordering::Relaxed);
                now
            }
            since => since,
        };
        let quiet_until = self.quiet_until.load(Ordering::Relaxed);
        if now < quiet_until || now < since + COUNTED_MS {
            return None;
        }
        // The watchdog and a thread that leads may look at the same moment: one of them says it.
        let next = now + QUIET_MS;
        self.quiet_until.compare_exchange(quiet_until, next, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        self.since.store(0, Ordering::Relaxed);
        self.told.iter().zip(counts).for_each(|(told, count)| told.store(count, Ordering::Relaxed));
        let new = std::array::from_fn(|place| counts[place].saturating_sub(told[place]));
        Some(words(new, now - since))
    }
}

/// So many were refused within so long, and why.
fn words(counts: [u64; REASONS.len()], lasted: Millis) -> String {
    let why: Vec<String> = counts
        .iter()
        .zip(REASONS)
        .filter(|(count, _)| **count > 0)
        .map(|(count, reason)| format!("{count} {reason}"))
        .collect();
    let all: u64 = counts.iter().sum();
    let many = if all == 1 { "1 request was".to_string() } else { format!("{all} requests were") };
    format!("{many} refused within {} s (503): {} (docs/workers.md)", lasted.div_ceil(1000), why.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_were_refused_and_why_is_said_once_a_minute_at_the_most() {
        let turned_away = TurnedAway::default();
        let mut said = Vec::new();
        for now in (1_000..=200_000).step_by(100) {
            // Two each second until the hundredth, of which one would have waited too long.
            let seconds = now.min(100_000) / 1000;
            said.extend(turned_away.look([seconds, seconds, 0], now).map(|text| (now, text)));
        }
        let times: Vec<_> = said.iter().map(|(now, _)| *now).collect();
        assert_eq!(times, [2_000, 62_000, 122_000], "{said:?}");
        assert_eq!(
            said[1].1,
            "120 requests were refused within 59 s (503): 60 would have waited for too long, more than half of \
             --queue-timeout; 60 came while as many waited as --limit-queue allows (docs/workers.md)"
        );
        let told: u64 = said
            .iter()
            .map(|(_, text)| text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
            .sum();
        assert_eq!(told, 200, "each was told of");
    }

    #[test]
    fn one_that_had_waited_too_long_is_told_as_that() {
        assert_eq!(
            words([0, 0, 1], 1_000),
            "1 request was refused within 1 s (503): 1 had waited for longer than --queue-timeout (docs/workers.md)"
        );
    }

    #[test]
    fn where_nothing_is_refused_nothing_is_said() {
        let turned_away = TurnedAway::default();
        assert!((0..200).all(|second| turned_away.look([0; 3], second * 1000).is_none()));
    }
}
