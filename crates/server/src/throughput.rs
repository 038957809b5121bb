//! How fast requests are done, and how long the last of those that wait will wait.
//!
//! Knows: counts and times. Does not know: requests. Runs under the baton.

use wire::Millis;

/// Over how long the speed is measured.
const WINDOW_MS: Millis = 200;

/// How fast requests are done.
#[derive(Debug, Default)]
pub struct Throughput {
    since: Millis,
    done: u64,
    /// How many of them were only refused.
    refused: u64,
    /// Requests a second; zero while it is not known.
    rate: u64,
}

impl Throughput {
    /// One request is done.
    #[inline]
    pub fn count(&mut self) {
        self.done += 1;
    }

    /// One of those that count was only refused.
    pub fn count_refused(&mut self) {
        self.refused += 1;
    }

    /// Closes a window that is long enough. A window from idler times is thrown away.
    pub fn measure(&mut self, now: Millis) {
        let span = now.saturating_sub(self.since);
        if span > 5 * WINDOW_MS {
            *self = Self { since: now, ..Self::default() };
        } else if span >= WINDOW_MS {
            let measured = self.done.saturating_sub(self.refused) * 1000 / span;
            self.rate = if self.rate == 0 { measured } else { (self.rate + measured) / 2 };
            self.since = now;
            self.done = 0;
            self.refused = 0;
        }
    }

    /// How long the last of `waiting` requests will wait.
    pub fn wait_of(&self, waiting: usize) -> Option<Millis> {
        (waiting as u64 * 1000).checked_div(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_from_the_pace_of_the_last_window() {
        let mut throughput = Throughput::default();
        throughput.measure(1000);
        assert_eq!(throughput.wait_of(50), None, "nothing is known yet");
        for _ in 0..20 {
            throughput.count();
        }
        throughput.measure(1000 + WINDOW_MS);
        assert_eq!(throughput.wait_of(50), Some(500), "100 a second");
        throughput.measure(1000 + 20 * WINDOW_MS);
        assert_eq!(throughput.wait_of(50), None, "that was long ago");
    }
}
