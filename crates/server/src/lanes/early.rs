//! The thread that is kept before the rule can ask for it.
//!
//! Knows: whether any route is known to be quick, and for how long nobody has. Does not know: which. Runs under the baton.
//!
//! The first crowd of slow requests in a worker's life is there before anybody knows what is slow, and while nothing was
//! slow nothing was measured: were all threads its own, whoever is quick would wait for the end of one of its calls. So a
//! thread is kept from it. Where quick routes are known, from before or from elsewhere, that is so until the rule says
//! how many; where none is, for some seconds: work of one kind shall have all threads.

use super::Micros;

/// For so long a thread is kept from those that wait for it, though no quick route is known.
pub const TRIAL_US: Micros = 10_000_000;

/// A slow request that has waited so long, in milliseconds, and alone, has it all the same.
pub const LONE_MS: u64 = 50;

/// Whether a thread is kept before the rule asks for one.
#[derive(Debug, Default)]
pub struct Early {
    /// Some route is known to be quick.
    pub knows_quick: bool,
    /// Since when one has been kept from somebody, though none was known.
    since_us: Option<Micros>,
    is_over: bool,
}

impl Early {
    /// True: one thread is kept.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.knows_quick || !self.is_over
    }

    /// Somebody looks. `withheld`: somebody would have the thread that is kept.
    pub fn look(&mut self, now_us: Micros, withheld: bool) {
        if withheld && !self.knows_quick {
            self.since_us.get_or_insert(now_us);
        }
        self.is_over |= self.since_us.is_some_and(|since_us| now_us.saturating_sub(since_us) >= TRIAL_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_for_a_while_though_no_quick_route_is_known() {
        let mut early = Early::default();
        early.look(60 * TRIAL_US, false);
        assert!(early.keeps(), "nobody has wanted it");
        early.look(61 * TRIAL_US, true);
        early.look(62 * TRIAL_US - 1, false);
        assert!(early.keeps());
        early.look(62 * TRIAL_US, false);
        assert!(!early.keeps());
        early.knows_quick = true;
        assert!(early.keeps(), "by now one is known");
    }

    #[test]
    fn the_while_does_not_begin_where_a_quick_route_is_known() {
        let mut early = Early { knows_quick: true, ..Early::default() };
        early.look(0, true);
        early.knows_quick = false;
        early.look(TRIAL_US, false);
        assert!(early.keeps());
    }
}
