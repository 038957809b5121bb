//! Whether a client still answers: pings, and for how long their answers and its close frame are waited for.
//!
//! Knows: when something was heard, and what is waited for (RFC 6455 §5.5.1 to §5.5.3). Does not know: clocks, frames,
//! sockets: whoever owns it asks at the moments that it names.

use crate::{Limits, Millis};

/// What there is to do, and when to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before that moment.
    Nothing(Millis),
    /// A ping is to be sent; whether it was answered is asked at that moment.
    Ping(Millis),
    /// The last ping was not answered in time (`ws_ping_timeout`).
    NoPong,
    /// Our close frame was not answered in time (`ws_close_timeout`).
    NoClose,
}

/// One client's.
#[derive(Debug, Clone, Copy)]
pub struct Liveness {
    heard: Millis,
    pinged: Option<Millis>,
    /// We have sent a close frame; the client's is waited for until then.
    closes_by: Option<Millis>,
}

impl Liveness {
    /// Of a client that has just been heard.
    pub fn new(now: Millis) -> Self {
        Self { heard: now, pinged: None, closes_by: None }
    }

    /// Something has come: it is alive, whatever that was.
    #[inline]
    pub fn hear(&mut self, now: Millis) {
        self.heard = now;
        self.pinged = None;
    }

    /// We have sent a close frame.
    pub fn close(&mut self, limits: &Limits, now: Millis) {
        self.closes_by = Some(now.saturating_add(limits.ws_close_timeout));
    }

    /// What is due. A ping that is due counts as sent. `stalled`: nothing is read, so that an answer may be there
    /// behind messages that the application has not taken.
    pub fn due(&mut self, limits: &Limits, stalled: bool, now: Millis) -> Due {
        if let Some(until) = self.closes_by {
            return if now >= until { Due::NoClose } else { Due::Nothing(until) };
        }
        if limits.ws_ping_interval == 0 {
            return Due::Nothing(Millis::MAX);
        }
        let Some(pinged) = self.pinged else {
            let at = self.heard.saturating_add(limits.ws_ping_interval);
            if now < at {
                return Due::Nothing(at);
            }
            self.pinged = Some(now);
            return Due::Ping(now.saturating_add(limits.ws_ping_timeout));
        };
        let until = pinged.saturating_add(limits.ws_ping_timeout);
        if now < until {
            return Due::Nothing(until);
        }
        if !stalled {
            return Due::NoPong;
        }
        self.hear(now);
        Due::Nothing(now.saturating_add(limits.ws_ping_interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = || Limits {
        ws_ping_interval: 20_000,
        ws_ping_timeout: 5_000,
        ws_close_timeout: 10_000,
        ..Limits::default()
    };

    #[test]
    fn a_silent_client_is_pinged_at_the_interval_and_not_before() {
        for (now, due) in
            [(20_999, Due::Nothing(21_000)), (21_000, Due::Ping(26_000)), (21_001, Due::Ping(26_001))]
        {
            assert_eq!(Liveness::new(1000).due(&LIMITS(), false, now), due, "{now}");
        }
        let mut liveness = Liveness::new(1000);
        liveness.hear(2000);
        assert_eq!(
            liveness.due(&LIMITS(), false, 21_001),
            Due::Nothing(22_000),
            "whatever it has said counts"
        );
    }

    #[test]
    fn an_answer_is_waited_for_until_its_timeout_and_no_longer() {
        for (now, due) in [(25_999, Due::Nothing(26_000)), (26_000, Due::NoPong), (26_001, Due::NoPong)] {
            let mut liveness = Liveness::new(1000);
            liveness.due(&LIMITS(), false, 21_000);
            assert_eq!(liveness.due(&LIMITS(), false, now), due, "{now}");
        }
        let mut liveness = Liveness::new(1000);
        liveness.due(&LIMITS(), false, 21_000);
        liveness.hear(25_999);
        assert_eq!(liveness.due(&LIMITS(), false, 26_000), Due::Nothing(45_999));
    }

    #[test]
    fn who_is_not_read_is_not_given_up_for_silence() {
        let mut liveness = Liveness::new(1000);
        liveness.due(&LIMITS(), true, 21_000);
        assert_eq!(liveness.due(&LIMITS(), true, 26_000), Due::Nothing(46_000));
        assert_eq!(liveness.due(&LIMITS(), false, 46_000), Due::Ping(51_000), "and is asked again");
    }

    #[test]
    fn a_close_frame_is_waited_for_until_its_timeout_whatever_else_comes() {
        for (now, due) in [(10_999, Due::Nothing(11_000)), (11_000, Due::NoClose), (11_001, Due::NoClose)] {
            let mut liveness = Liveness::new(0);
            liveness.close(&LIMITS(), 1000);
            liveness.hear(10_000);
            assert_eq!(liveness.due(&LIMITS(), false, now), due, "{now}");
        }
    }

    #[test]
    fn without_an_interval_nobody_is_pinged() {
        let limits = Limits { ws_ping_interval: 0, ..LIMITS() };
        assert_eq!(Liveness::new(0).due(&limits, false, Millis::MAX - 1), Due::Nothing(Millis::MAX));
    }
}
