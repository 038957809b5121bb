//! What a request carries of its lane.
//!
//! Knows: where it waits, and whether its call is likely to block. Does not know: other requests. Goes with its request.

use super::{Lane, Ticket};

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
    /// For how many microseconds calls of its route use a processor, where that is long; zero: they do not compute.
    pub(super) computes_us: u32,
}

impl Mark {
    /// True: its call does not block, as far as anybody knows.
    pub fn is_short(&self) -> bool {
        // While lanes are asleep nothing is slow.
        self.lane.is_none() || self.short
    }

    /// True: its call computes, as far as anybody knows.
    #[inline]
    pub fn computes(&self) -> bool {
        self.computes_us > 0
    }

    /// For how many microseconds it does.
    pub fn computes_us(&self) -> u64 {
        u64::from(self.computes_us)
    }
}
