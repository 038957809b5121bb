//! For how long a loop was held up in the last ten seconds, all in all.
//!
//! Knows: spells, each of which is told again while it lasts. Does not know: clocks, or who is told. Times in milliseconds. Pure.

use wire::Millis;

/// How far back it goes.
const SECONDS: usize = 10;

/// How long of each of the last seconds.
#[derive(Debug, Default)]
pub struct Lately {
    /// Which second, and how much of it.
    seconds: [(u64, Millis); SECONDS],
    /// What was counted of the spell that is under way.
    counted: Millis,
}

impl Lately {
    /// The spell that is under way lasts for so long by now, or did.
    pub fn lasts(&mut self, lasted: Millis, now: Millis) {
        let more = lasted.saturating_sub(self.counted);
        self.counted += more;
        let oldest = (now / 1000).saturating_sub(SECONDS as u64 - 1) * 1000;
        let (first, mut to) = (now.saturating_sub(more).max(oldest), now);
        while to > first {
            let second = (to - 1) / 1000;
            let from = first.max(second * 1000);
            let place = &mut self.seconds[second as usize % SECONDS];
            if place.0 != second {
                *place = (second, 0);
            }
            // Looks are not as exact as the clock: no second is longer than it is.
            place.1 = (place.1 + to - from).min(1000);
            to = from;
        }
    }

    /// The loop goes on: what is told next is another spell.
    pub fn ends(&mut self) {
        self.counted = 0;
    }

    /// So long in the last ten seconds, or somewhat less: of the first of them nothing counts that is over.
    pub fn sum(&self, now: Millis) -> Millis {
        let lately = self.seconds.iter().filter(|(second, _)| second + SECONDS as u64 > now / 1000);
        lately.map(|(_, held)| held).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_that_is_told_again_counts_once() {
        let mut lately = Lately::default();
        lately.lasts(100, 60_100);
        lately.lasts(300, 60_300);
        assert_eq!(lately.sum(60_300), 300);
        lately.ends();
        lately.lasts(150, 60_600);
        assert_eq!(lately.sum(60_600), 450);
        lately.ends();
        assert_eq!((lately.sum(69_999), lately.sum(70_000)), (450, 0), "it is forgotten");
    }

    #[test]
    fn no_more_than_the_last_ten_seconds_count_of_one_that_lasts_for_minutes() {
        let mut lately = Lately::default();
        for lasted in (100..=90_000).step_by(100) {
            lately.lasts(lasted, 1_000_000 + lasted);
            assert_eq!(lately.sum(1_000_000 + lasted), lasted.min(9_000 + lasted % 1000), "{lasted}");
        }
        let mut lately = Lately::default();
        lately.lasts(90_000, 1_090_500);
        assert_eq!(lately.sum(1_090_500), 9_500, "told once");
    }
}
