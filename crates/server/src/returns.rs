//! Connections that a worker has given away come back, once what held it up is over.
//!
//! Knows: how many are away, since when nothing has held this worker up, and whether it has asked for them. Does not
//! know: connections, or who has them (`share.rs`). Runs under the baton.
//!
//! ```text
//!   given away ──► AWAY ──calm for a second──► ASKED ──all are back, or three seconds──► nothing is away
//!                   ▲                            │
//!                   └──────held up again─────────┘  soon after: the calm is to last twice as long
//! ```
//!
//! Without it one request that burns would leave all clients with one worker, for as long as they keep their connections.
//! Where such requests follow one another nobody comes back in between, as it would only be sent away again.

use wire::Millis;

/// So long a worker has not been held up before it asks for its connections, ...
const CALM_MS: Millis = 1_000;
/// ... and no longer than this, however often that happens.
const LONGEST_CALM_MS: Millis = 64_000;
/// Held up again within so many times the calm that was waited for, it waits for twice as much.
const SOON: u64 = 10;
/// For so long it asks: who has not come back then has left, or is as well off where it is.
pub const ASK_MS: Millis = 3_000;

/// What one worker has given away.
#[derive(Debug)]
pub struct Returns {
    away: u64,
    /// When it was held up the last time.
    held_up: Millis,
    calm: Millis,
    /// Since when it asks for them.
    asks_since: Option<Millis>,
    /// When it asked the last time.
    asked: Option<Millis>,
}

impl Default for Returns {
    fn default() -> Self {
        Self { away: 0, held_up: 0, calm: CALM_MS, asks_since: None, asked: None }
    }
}

impl Returns {
    /// A connection has been given away.
    pub fn gave(&mut self, now: Millis) {
        if self.away == 0 || self.asks_since.take().is_some() {
            let soon = self.asked.is_some_and(|asked| now < asked + SOON * self.calm);
            self.calm = if soon { (self.calm * 2).min(LONGEST_CALM_MS) } else { CALM_MS };
        }
        self.away += 1;
        self.held_up = now;
    }

    /// It is held up, and has perhaps nothing left to give.
    pub fn is_held_up(&mut self, now: Millis) {
        self.held_up = now;
        self.asks_since = None;
    }

    /// A connection has come from another worker, whoever had it before.
    pub fn came(&mut self) {
        self.away = self.away.saturating_sub(1);
        if self.away == 0 {
            self.asks_since = None;
        }
    }

    /// How many it asks for by now.
    pub fn wanted(&mut self, now: Millis) -> u64 {
        if now >= self.next() {
            match self.asks_since.take() {
                None => (self.asks_since, self.asked) = (Some(now), Some(now)),
                Some(_) => self.away = 0,
            }
        }
        self.asks_since.map_or(0, |_| self.away)
    }

    /// When [`Returns::wanted`] says something else, unless something happens before; never: while nothing is away.
    pub fn next(&self) -> Millis {
        match self.asks_since {
            _ if self.away == 0 => Millis::MAX,
            None => self.held_up + self.calm,
            Some(since) => since + ASK_MS,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A worker that has just given so many away.
    fn gave(count: u64, now: Millis) -> Returns {
        let mut returns = Returns::default();
        (0..count).for_each(|_| returns.gave(now));
        returns
    }

    #[test]
    fn nothing_is_asked_for_where_nothing_was_given() {
        let mut returns = Returns::default();
        assert_eq!((returns.next(), returns.wanted(1_000_000)), (Millis::MAX, 0));
        returns.came();
        assert_eq!((returns.next(), returns.wanted(1_000_000)), (Millis::MAX, 0));
    }

    #[test]
    fn after_a_second_of_calm_all_are_asked_for_until_they_are_back() {
        for (now, wanted) in [(5_999, 0), (6_000, 3), (6_001, 3)] {
            assert_eq!(gave(3, 5_000).wanted(now), wanted, "{now}");
        }
        let mut returns = gave(3, 5_000);
        assert_eq!(returns.wanted(6_000), 3);
        returns.came();
        assert_eq!((returns.wanted(6_000), returns.next()), (2, 9_000));
        returns.came();
        returns.came();
        assert_eq!((returns.wanted(6_000), returns.next()), (0, Millis::MAX));
    }

    #[test]
    fn who_has_not_come_back_in_time_is_not_asked_for_any_more() {
        for (now, wanted) in [(8_999, 3), (9_000, 0), (9_001, 0)] {
            let mut returns = gave(3, 5_000);
            returns.wanted(6_000);
            assert_eq!(returns.wanted(now), wanted, "{now}");
        }
    }

    #[test]
    fn a_worker_that_is_held_up_still_or_again_does_not_ask() {
        let mut returns = gave(3, 5_000);
        returns.is_held_up(5_900);
        assert_eq!((returns.wanted(6_000), returns.wanted(6_899), returns.wanted(6_900)), (0, 0, 3));
        returns.is_held_up(7_000);
        assert_eq!((returns.wanted(7_000), returns.wanted(8_000)), (0, 3));
    }

    #[test]
    fn where_it_is_held_up_again_and_again_each_calm_is_to_last_twice_as_long() {
        let (mut returns, mut now, mut calms) = (Returns::default(), 1_000_000, Vec::new());
        for _ in 0..9 {
            returns.gave(now);
            calms.push(returns.next() - now);
            now = returns.next();
            assert_eq!(returns.wanted(now), 1);
            now += 500;
            returns.came();
        }
        let longest = LONGEST_CALM_MS;
        assert_eq!(calms, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, longest, longest, longest]);
        returns.gave(now + SOON * longest);
        assert_eq!(returns.next(), now + SOON * longest + CALM_MS, "that was long ago");
    }
}
