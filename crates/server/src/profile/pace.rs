//! How often somebody looks who shall cost little.
//!
//! Knows: what looking has cost so far. Does not know: clocks, or what is looked at.

/// Of a processor the looks take one part in so many, at most: the rate falls until that is so.
const SHARE: u64 = 60;
const SECOND: u64 = 1_000_000_000;

/// How long to wait before the next look: as long as was asked for, or until looking costs no more than it may.
pub struct Pace {
    period: u64,
    /// What a look costs, on average, in nanoseconds of a processor.
    cost: u64,
    /// The thread's clock at the last look.
    clock: u64,
    /// Changes with each pause, so that no rhythm of the application's is met.
    jitter: u64,
}

impl Pace {
    /// So many looks a second at most. `clock`: what the thread has used of a processor by now, in nanoseconds; `seed`: any
    /// number.
    pub fn new(rate: u32, (clock, seed): (u64, u64)) -> Self {
        Self { period: SECOND / u64::from(rate.clamp(1, 1000)), cost: 0, clock, jitter: seed | 1 }
    }

    /// A look is over; the thread's clock.
    pub fn took(&mut self, clock: u64) {
        let cost = clock.saturating_sub(self.clock);
        self.clock = clock;
        self.cost = if self.cost == 0 { cost } else { self.cost - self.cost / 8 + cost / 8 };
    }

    /// Nanoseconds to wait now.
    pub fn pause(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let period = self.period.max(self.cost * SHARE);
        period * 3 / 4 + self.jitter % (period / 2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_pause(pace: &mut Pace) -> u64 {
        (0..1000).map(|_| pace.pause()).sum::<u64>() / 1000
    }

    #[test]
    fn the_rate_falls_until_looking_costs_little_enough() {
        let mut pace = Pace::new(100, (0, 7));
        let asked = mean_pause(&mut pace);
        assert!((9_000_000..11_000_000).contains(&asked), "{asked}");
        for _ in 0..100 {
            let clock = pace.clock + 1_000_000;
            pace.took(clock);
        }
        let slower = mean_pause(&mut pace);
        assert!(slower >= 1_000_000 * 50, "a look of a millisecond in {slower} ns is more than 2 %");
    }
}
