//! Bodies whose length is known: their next part, and how fast it has to come.
//!
//! Knows: lengths and rates. Does not know: what the length was told by. Pure.

use crate::Millis;
use crate::fault::{self, Fault};
use crate::limits::Limits;

/// The next part of a body of which so much is left; none: nothing of it has arrived.
#[inline]
pub fn next_part<'a>(input: &mut &'a [u8], left: &mut u64) -> Option<&'a [u8]> {
    if input.is_empty() {
        return None;
    }
    let size = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (part, rest) = input.split_at(size);
    *input = rest;
    *left -= size as u64;
    Some(part)
}

/// How long a body may go on that began at `since`, by what has come of it so far and the rate that is asked for.
pub fn rate_deadline(since: Millis, received: u64, limits: &Limits) -> Millis {
    let paid = received.saturating_mul(1000).checked_div(limits.body_rate);
    since.saturating_add(limits.body_grace.max(paid.unwrap_or(Millis::MAX)))
}

/// Until when more of a body has to come: it is neither to be slow on the whole nor to stop.
pub fn patience(since: Millis, received: u64, heard: Millis, limits: &Limits) -> Millis {
    heard.saturating_add(limits.body_idle_timeout).min(rate_deadline(since, received, limits))
}

/// What it is refused with when it has not.
pub fn too_late(since: Millis, received: u64, now: Millis, limits: &Limits) -> Fault {
    if now >= rate_deadline(since, received, limits) { fault::BODY_TOO_SLOW } else { fault::BODY_STALLED }
}
