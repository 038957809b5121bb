//! What a request carries of its lane.
//!
//! Knows: where it waits, and whether its call is likely to block. Does not know: other requests. Goes with its request.

use super::{Computes, Lane, Ticket};

/// What a request carries of its lane; nothing while lanes are asleep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    /// Its route's key, and place if it is known.
    pub(super) route: (u64, Option<u16>),
    /// The limit that it is below.
    pub limit: Option<u8>,
    /// Where it waits, once somebody has looked.
    pub lane: Option<Lane>,
    /// Its place among those that are inside.
    pub ticket: Option<Ticket>,
    /// Its client's share of a lane or of the front, once somebody has asked.
    pub share: Option<u8>,
    /// Calls of its route are known to be short.
    pub(super) short: bool,
    /// Calls of its route are known to compute.
    pub(super) computes: Computes,
}

impl Mark {
    /// True: its call does not block, as far as anybody knows.
    pub fn is_short(&self) -> bool {
        // While lanes are asleep nothing is slow.
        self.lane.is_none() || self.short
    }

    /// True: its call computes, as far as anybody knows, and is over soon.
    #[inline]
    pub fn computes(&self) -> bool {
        matches!(self.computes, Computes::For(_))
    }

    /// True: its call computes for long, as far as anybody knows.
    #[inline]
    pub fn burns(&self) -> bool {
        matches!(self.computes, Computes::Long(_))
    }

    /// For how many microseconds it computes, if that is known; zero: it does not.
    pub fn computes_us(&self) -> u64 {
        match self.computes {
            Computes::No => 0,
            Computes::For(us) | Computes::Long(us) => u64::from(us),
        }
    }
}
