//! How long a peer is waited for that takes little of what is sent to it, or nothing.
//!
//! Knows: a moment, and what bytes are worth. Does not know: queues or sockets. Pure.
//!
//! One notion for every kind of output: a peer begins with `write_timeout`, each byte that it
//! takes earns it the time in which `write_rate` would bring that byte, and it never has more
//! than `write_timeout` in store. Who takes nothing is given up when that has passed, who takes
//! less than the rate later, who keeps to the rate never.

use wire::{Limits, Millis};

/// Until when a peer has time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(Millis);

impl Patience {
    /// So many milliseconds from now.
    pub fn of(span: Millis, now: Millis) -> Self {
        Self(now.saturating_add(span))
    }

    /// Something begins to wait for the peer.
    pub fn to_write(limits: &Limits, now: Millis) -> Self {
        Self::of(limits.write_timeout, now)
    }

    /// The peer has taken so many bytes.
    pub fn earn(&mut self, bytes: u64, limits: &Limits, now: Millis) {
        self.extend(bytes, (limits.write_rate, limits.write_timeout), now);
    }

    /// The peer has sent so many bytes of a body that nobody reads, before it looks at the refusal.
    pub fn hear(&mut self, bytes: u64, limits: &Limits, now: Millis) {
        self.extend(bytes, (limits.body_rate, limits.linger_timeout), now);
    }

    /// By the time that so many bytes take at a rate, up to a span from now.
    fn extend(&mut self, bytes: u64, (rate, span): (u64, Millis), now: Millis) {
        if bytes == 0 {
            return;
        }
        let most = now.saturating_add(span);
        self.0 = match bytes.saturating_mul(1000).checked_div(rate) {
            Some(earned) => self.0.saturating_add(earned).min(most),
            // No rate is asked for: any byte is enough.
            None => most,
        };
    }

    pub fn until(self) -> Millis {
        self.0
    }

    pub fn is_over(self, now: Millis) -> bool {
        self.0 <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a peer is given up that takes `bytes` each second, up to a day.
    fn given_up(bytes: u64, limits: &Limits) -> Option<Millis> {
        let mut patience = Patience::to_write(limits, 0);
        (1..86_400).map(|second| second * 1000).find(|now| {
            let over = patience.is_over(*now);
            patience.earn(bytes, limits, *now);
            over
        })
    }

    #[test]
    fn who_keeps_to_the_rate_is_waited_for_and_who_takes_less_is_not() {
        let limits = Limits { write_timeout: 30_000, write_rate: 240, ..Limits::default() };
        assert_eq!(given_up(0, &limits), Some(30_000), "nothing at all");
        assert_eq!(given_up(120, &limits), Some(59_000), "half of it: the store lasts twice as long");
        assert!(given_up(239, &limits).is_some(), "one byte less");
        assert_eq!(given_up(240, &limits), None, "the limit");
        assert_eq!(given_up(241, &limits), None, "one byte more");
    }

    #[test]
    fn who_sends_what_nobody_reads_is_heard_as_long_as_it_keeps_to_the_rate_of_a_body() {
        let limits = Limits { linger_timeout: 2000, body_rate: 240, ..Limits::default() };
        for (bytes, ends) in [(0, true), (1, true), (239, true), (240, false), (241, false)] {
            let mut patience = Patience::of(limits.linger_timeout, 0);
            let ended = (1..86_400).map(|second| second * 1000).any(|now| {
                let over = patience.is_over(now);
                patience.hear(bytes, &limits, now);
                over
            });
            assert_eq!(ended, ends, "{bytes} bytes a second");
        }
        let mut patience = Patience::of(limits.linger_timeout, 0);
        assert!(
            !patience.is_over(1999) && patience.is_over(2000) && patience.is_over(2001),
            "who says nothing"
        );
        patience.hear(1_000_000, &limits, 500);
        assert_eq!(patience.until(), 2500, "silence is silence, however much was sent before");
    }

    #[test]
    fn no_store_is_larger_than_the_timeout() {
        let limits = Limits { write_timeout: 1000, write_rate: 1, ..Limits::default() };
        let mut patience = Patience::to_write(&limits, 0);
        patience.earn(1_000_000, &limits, 500);
        assert_eq!(patience.until(), 1500);
        assert!(!patience.is_over(1499) && patience.is_over(1500) && patience.is_over(1501));
    }

    #[test]
    fn without_a_rate_any_byte_is_enough() {
        let limits = Limits { write_timeout: 1000, write_rate: 0, ..Limits::default() };
        let mut patience = Patience::to_write(&limits, 0);
        patience.earn(1, &limits, 999);
        assert_eq!(patience.until(), 1999);
    }
}
