//! What calls of a route use of a processor, and what follows: they compute, or burn, or neither.
//!
//! Knows: figures of some calls, whose threads' clocks were read. Does not know: routes. Runs under the baton.

use super::super::rule::Micros;
use super::{CALLS, Route};

/// Calls that use so much of a processor on average compute: whoever else wants the interpreter meanwhile waits for turns of it.
pub const COMPUTES_US: Micros = 5_000;
/// What uses more than this is not waited for, and whoever wants the interpreter is better off elsewhere from its beginning on, where it
/// was found to hold up others.
pub const COMPUTES_LONG_US: Micros = 250_000;
/// Few of its calls are light where one in so many is.
const FEW: u32 = 8;

/// What is known of the calls of a route, with microseconds of a processor that they use on average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Computes {
    /// They do not, or nobody knows.
    #[default]
    No,
    /// They do, and are over soon: others of such routes wait for them.
    For(u32),
    /// They do for long: others are better off elsewhere.
    Long(u32),
}

impl Route {
    /// Whether its calls compute, and for how long.
    #[inline]
    pub fn computes(&self) -> Computes {
        self.used.computes()
    }
}

/// What some calls have used.
#[derive(Debug, Default)]
pub struct Used {
    total_us: Micros,
    /// How many those are, ...
    measured: u32,
    /// ... and of these, who has used little.
    light: u32,
    /// One that was long has held up others. In a library of C that lets go of the interpreter none does.
    holds_up: bool,
    /// All of this is what other workers have found, and is forgotten once a call was measured here.
    told: bool,
}

impl Used {
    /// Other workers have found that calls use so much on average. Whether those hold up others is not known: the first one is
    /// taken to.
    pub fn told(mean_us: Micros) -> Self {
        Self { total_us: mean_us, measured: 1, light: 0, holds_up: true, told: true }
    }

    /// Nobody has measured a call here, or told of any.
    pub fn is_unknown(&self) -> bool {
        self.measured == 0
    }

    /// A call has used so much of a processor; others were found to wait for the interpreter meanwhile.
    pub fn add(&mut self, used_us: Micros, held_up: bool) {
        if self.told {
            *self = Self::default();
        }
        self.measured += 1;
        self.total_us += used_us;
        self.light += u32::from(used_us < COMPUTES_US / 2);
        self.holds_up |= held_up && used_us > COMPUTES_LONG_US;
        if self.measured > CALLS {
            // Half of what is known makes room for newer ones.
            (self.measured, self.light) = (self.measured.div_ceil(2), self.light / 2);
            self.total_us = self.total_us * u64::from(self.measured) / u64::from(CALLS + 1);
        }
    }

    /// For how long its calls use a processor, on average, where nearly all of them compute. What nobody has measured does not, and what
    /// is quick by a parameter shall not wait for what is slow by it.
    #[inline]
    pub fn computes(&self) -> Computes {
        let mean_us = self.total_us.checked_div(u64::from(self.measured)).unwrap_or(0);
        let told_us = u32::try_from(mean_us).unwrap_or(u32::MAX);
        match mean_us {
            _ if self.light * FEW > self.measured => Computes::No,
            COMPUTES_US..=COMPUTES_LONG_US => Computes::For(told_us),
            _ if mean_us > COMPUTES_LONG_US && self.holds_up => Computes::Long(told_us),
            _ => Computes::No,
        }
    }
}
