//! How fast requests are done, and how long the last of those that wait will wait.
//!
//! Knows: counts and times. Does not know: requests. Runs under the baton.

use wire::Millis;

/// Over how long the speed is measured, at least.
const WINDOW_MS: Millis = 200;
/// A window in which nobody has looked for so long says nothing: there was perhaps nothing to be done, ...
const UNSEEN_MS: Millis = 2 * WINDOW_MS;
/// ... and after so long neither does what was measured before.
const FORGOTTEN_MS: Millis = 5 * WINDOW_MS;
/// Requests that take seconds are done at some a minute: the speed is kept as requests in so many milliseconds.
const UNIT_MS: u64 = 1_000_000;

/// Of requests that end together the last has ended when none has for so long.
const PAUSE_MS: Millis = 20;

/// How fast requests are done.
///
/// A window lasts until as many are done as are inside at a time, and those that end together with the last of them. Calls
/// of a second that were begun together end together: a shorter window would see all of them or none.
#[derive(Debug, Default)]
pub struct Throughput {
    since: Millis,
    looked: Millis,
    done: u64,
    /// How many of them were only refused.
    refused: u64,
    /// How many were done at the last look at which more were than before, and when that was.
    seen: u64,
    seen_at: Millis,
    /// Since when as many are done as are inside.
    enough_at: Option<Millis>,
    /// The most that were inside at a time.
    inside: u64,
    /// Requests in [`UNIT_MS`]; zero while it is not known.
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

    /// Looks, while requests wait and so many are inside; closes a window that is long enough.
    pub fn measure(&mut self, now: Millis, inside: u32) {
        // Who begins a call reads the clock, and who looks after those that wait has the time of the last poll.
        let now = now.max(self.looked);
        let unseen = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        if unseen > UNSEEN_MS {
            let rate = if unseen > FORGOTTEN_MS { 0 } else { self.rate };
            *self = Self { since: now, looked: now, rate, ..Self::default() };
        }
        self.inside = self.inside.max(u64::from(inside)).max(1);
        let done = self.done.saturating_sub(self.refused);
        if done != self.seen {
            (self.seen, self.seen_at) = (done, now);
        }
        let span = now.saturating_sub(self.since);
        if span < WINDOW_MS {
            return;
        }
        if done < self.inside {
            // So fast they are at the most, though those that are inside end now.
            let most = (done + self.inside) * UNIT_MS / span;
            self.rate = if self.rate == 0 { most } else { self.rate.min(most) };
            return;
        }
        let enough_at = *self.enough_at.get_or_insert(now);
        if now - self.seen_at >= PAUSE_MS || now - enough_at >= WINDOW_MS {
            self.close(done, now);
        }
    }

    /// The window ends where the last one was done, unless that was soon after its beginning.
    fn close(&mut self, done: u64, now: Millis) {
        let lasted = self.seen_at.saturating_sub(self.since);
        let since = if lasted >= WINDOW_MS { self.seen_at } else { now };
        let measured = done * UNIT_MS / (since - self.since).max(1);
        // Slower by and by, and faster at once: who is refused for nothing is worse off than who waits.
        let rate = measured.max((self.rate + measured) / 2);
        *self = Self { since, looked: now, rate, ..Self::default() };
    }

    /// How long the last of `waiting` requests will wait.
    pub fn wait_of(&self, waiting: usize) -> Option<Millis> {
        (waiting as u64 * UNIT_MS).checked_div(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often somebody looks.
    const LOOK_MS: Millis = 2;

    /// Looks for so long, with so many inside, of which `done_at` tells how many are done at a moment.
    fn look(
        throughput: &mut Throughput,
        times: (Millis, Millis),
        inside: u32,
        done_at: impl Fn(Millis) -> u64,
    ) {
        for now in (times.0..times.1).step_by(LOOK_MS as usize) {
            (0..done_at(now)).for_each(|_| throughput.count());
            throughput.measure(now, inside);
        }
    }

    #[test]
    fn the_wait_follows_from_the_pace_of_the_last_window() {
        let mut throughput = Throughput::default();
        throughput.measure(1000, 4);
        assert_eq!(throughput.wait_of(50), None, "nothing is known yet");
        look(&mut throughput, (1000, 1402), 4, |now| u64::from(now.is_multiple_of(10)));
        let wait = throughput.wait_of(50).expect("it is known");
        assert!((450..550).contains(&wait), "100 a second: {wait} ms");
        throughput.measure(1400 + FORGOTTEN_MS, 4);
        assert!(throughput.wait_of(50).is_some_and(|wait| wait < 550), "that was a second ago");
        throughput.measure(1400 + 2 * FORGOTTEN_MS + 1, 4);
        assert_eq!(throughput.wait_of(50), None, "that was long ago");
    }

    #[test]
    fn what_is_begun_together_and_ends_together_has_the_same_pace_all_the_time() {
        // So many that end together, how many are taken to be inside, for how long each, and within how long they end.
        for (together, inside, takes, within) in [
            (31, 31, 250, 2),
            (31, 31, 1_000, 2),
            (31, 32, 1_000, 2),
            (31, 40, 2_000, 60),
            (31, 30, 2_000, 150),
            (1, 1, 1_000, 2),
            (2, 2, 30_000, 2),
        ] {
            let mut throughput = Throughput::default();
            let ends = |now: Millis| {
                let at = now % takes;
                if now < takes || at >= within {
                    0
                } else {
                    together * (at + 2) / within - together * at / within
                }
            };
            for now in (0..8 * takes).step_by(10) {
                look(&mut throughput, (now, now + 10), inside, |now| u64::from(ends(now) as u32));
                let Some(wait) = throughput.wait_of(2 * together as usize) else { continue };
                let what = format!("{together} of {inside} in {takes} ms at {now}: {wait} ms");
                assert!(wait * 10 <= 2 * takes * 13, "{what}");
                assert!(now < 3 * takes || wait * 10 >= 2 * takes * 7, "{what}");
            }
        }
    }

    #[test]
    fn where_nothing_is_done_the_wait_grows_and_is_forgotten_as_soon_as_they_are_done_again() {
        let mut throughput = Throughput::default();
        look(&mut throughput, (1_000, 2_000), 4, |now| u64::from(now.is_multiple_of(10)));
        look(&mut throughput, (2_000, 12_002), 4, |_| 0);
        let wait = throughput.wait_of(4).expect("it is known");
        assert!((9_000..11_000).contains(&wait), "none of four in ten seconds: {wait} ms");
        look(&mut throughput, (12_002, 12_802), 4, |_| 1);
        assert!(throughput.wait_of(50).is_some_and(|wait| wait <= 110), "{:?}", throughput.wait_of(50));
    }

    #[test]
    fn a_look_whose_clock_is_older_than_that_of_the_last_is_one_at_the_same_moment() {
        let mut throughput = Throughput::default();
        look(&mut throughput, (1_000, 1_198), 4, |_| 0);
        (0..4).for_each(|_| throughput.count());
        throughput.measure(1_205, 4);
        throughput.measure(1_203, 4);
        assert_eq!(throughput.wait_of(4), None, "others of them may end yet");
        throughput.measure(1_205 + PAUSE_MS, 4);
        assert_eq!(throughput.wait_of(4), Some(205));
    }

    #[test]
    fn times_in_which_nobody_waits_do_not_count() {
        let mut throughput = Throughput::default();
        look(&mut throughput, (1_000, 1_500), 4, |_| 1);
        let before = throughput.wait_of(100);
        throughput.measure(1_500 + FORGOTTEN_MS - LOOK_MS, 4);
        look(&mut throughput, (1_500 + FORGOTTEN_MS, 1_900 + FORGOTTEN_MS), 4, |_| 1);
        assert_eq!(throughput.wait_of(100), before);
    }
}
