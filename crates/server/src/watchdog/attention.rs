//! How long an event loop has not moved, and what follows from it: a pure function of looks.
//!
//! Knows: signs of life, and the time between looks. Does not know: threads, or who is told.

use crate::heartbeat::Sleep;

/// How often it looks while replies wait: the half of what one waits behind a step that blocks.
const HOLDING_US: u64 = 1800;
/// The same once the loop has come round at so many looks in a row: under load each look costs as
/// much as two requests, and a loop that moves sends by itself.
const BUSY_US: u64 = 8000;
const BUSY_LOOKS: u32 = 8;
/// How soon it looks again after it was woken for the first of them: the step behind it begins meanwhile.
const AGAIN_US: u64 = 300;
/// So many such looks without a reply that waits, and it looks as seldom as otherwise.
const HOLDING_LOOKS: u32 = 32;
/// How often it looks for steps that take long, ...
const LOOK_US: u64 = 10_000;
/// ... while one does, so that its end is known, ...
const CLOSE_US: u64 = 2000;
/// ... and how much less often, in powers of two, where the loop looks and finds nothing to do.
const SELDOM: u32 = 2;
/// A loop that has given no sign of life for so long is called.
const CALL_US: u64 = 20_000;
/// So many answers of a loop that does nothing else, and it sleeps; ...
const QUIET: u32 = 5;
/// ... and so many while requests are in flight, whose steps it may not be told of: some seconds.
const QUIET_IN_FLIGHT: u32 = 100;
/// What a look says is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What waits is sent: the loop has not come round since the last look.
    pub send: bool,
    /// The loop is called, so that it shows whether it lives.
    pub call: bool,
    /// Nothing has moved for so long (microseconds), and that is too long.
    pub blocked: Option<u64>,
    /// Until the next look, in microseconds; none: something will wake it.
    pub rest: Option<u64>,
    pub sleep: Sleep,
}

/// How long nothing has moved, and what follows from it.
#[derive(Debug)]
pub struct Attention {
    /// What is too long; microseconds, zero: nothing is.
    slow: u64,
    seen: u64,
    done: u64,
    /// Microseconds without a sign of life, ...
    lasted: u64,
    /// ... of which each look counts no more than half of what is too long: a process that was
    /// stopped as a whole shows signs of life before the next one.
    still: u64,
    called: bool,
    answers: u32,
    not_holding: u32,
    /// Looks in a row at which the loop had moved.
    moving: u32,
    /// A first reply has begun to wait just now.
    notified: bool,
}

impl Attention {
    /// `slow`: what is told, in microseconds; zero: nothing.
    pub fn new(slow: u64) -> Self {
        Self {
            slow,
            seen: 0,
            done: 0,
            lasted: 0,
            still: 0,
            called: false,
            answers: 0,
            not_holding: HOLDING_LOOKS,
            moving: 0,
            notified: false,
        }
    }

    /// The pulse of the last look.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Nothing has moved for so long; microseconds.
    pub fn lasted(&self) -> u64 {
        self.lasted
    }

    /// Something has woken it. Was it no more than a timer of the loop's, it sleeps again.
    pub fn wake(&mut self) {
        self.answers = self.answers.saturating_sub(1);
    }

    /// Replies have begun to wait: it looks often from now on.
    pub fn hold(&mut self) {
        (self.not_holding, self.notified) = (0, true);
    }

    /// Time that the look itself has taken, which is time without a sign of life, too.
    pub fn add(&mut self, passed: u64) {
        self.lasted += passed;
    }

    /// A look at the pulse and at what is done; microseconds since the last one, whether replies
    /// wait, and whether requests are in flight.
    pub fn look(
        &mut self,
        (pulse, done): (u64, u64),
        passed: u64,
        holding: bool,
        in_flight: bool,
    ) -> Verdict {
        let moved = pulse != self.seen;
        self.moving = if moved { self.moving.saturating_add(1) } else { 0 };
        if moved {
            self.answers = if done == self.done { self.answers.saturating_add(1) } else { 0 };
            self.done = done;
            (self.seen, self.still, self.lasted, self.called) = (pulse, 0, 0, false);
        } else {
            self.still += passed.min(self.slow / 2);
            self.lasted += passed;
        }
        self.not_holding = if holding { 0 } else { self.not_holding.saturating_add(1) };
        let step = pulse & 1 == 1;
        let call = self.slow > 0 && !step && !self.called && self.still >= CALL_US;
        if call {
            (self.called, self.still, self.lasted) = (true, 0, 0);
        }
        let too_long = self.slow > 0 && (step || self.called) && self.still >= self.slow;
        let (rest, sleep) = self.rest(step, in_flight);
        Verdict { send: holding && !moved, call, blocked: too_long.then_some(self.lasted), rest, sleep }
    }

    fn rest(&mut self, step: bool, in_flight: bool) -> (Option<u64>, Sleep) {
        if std::mem::take(&mut self.notified) {
            return (Some(AGAIN_US), Sleep::Awake);
        }
        if self.not_holding < HOLDING_LOOKS {
            let busy = self.moving >= BUSY_LOOKS;
            return (Some(if busy { BUSY_US } else { HOLDING_US }), Sleep::Awake);
        }
        if self.slow == 0 {
            return (None, Sleep::Dozing);
        }
        if step || self.called || self.answers == 0 {
            let close = self.still >= self.slow;
            return (Some(if close { CLOSE_US } else { LOOK_US }), Sleep::Dozing);
        }
        let enough = if in_flight { QUIET_IN_FLIGHT } else { QUIET };
        let seldom = LOOK_US << self.answers.min(SELDOM);
        ((self.answers < enough).then_some(seldom), Sleep::Asleep)
    }
}

/// Whether nothing would have been too slow, had its thread had a processor whenever it wanted to run. `waited`: how long
/// it had had none before, and has had now. All in microseconds.
pub fn is_starved(lasted: u64, waited: (u64, u64), slow: u64) -> bool {
    lasted.saturating_sub(waited.1.saturating_sub(waited.0)) < slow
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the same pulse for so long; the last verdict.
    fn stay(attention: &mut Attention, pulse: u64, micros: u64, in_flight: bool) -> Verdict {
        let mut passed = 0;
        loop {
            let verdict = attention.look((pulse, 0), LOOK_US, false, in_flight);
            passed += LOOK_US;
            if passed >= micros {
                return verdict;
            }
        }
    }

    #[test]
    fn replies_are_sent_at_the_second_look_that_finds_nothing_moved() {
        let mut attention = Attention::new(0);
        let first = attention.look((2, 0), 0, true, false);
        assert!(!first.send && first.rest == Some(HOLDING_US) && first.sleep == Sleep::Awake);
        assert!(attention.look((2, 0), HOLDING_US, true, false).send);
        assert!(!attention.look((4, 0), HOLDING_US, true, false).send);
    }

    #[test]
    fn without_a_bound_it_dozes_until_a_reply_waits() {
        let mut attention = Attention::new(0);
        attention.look((3, 0), 0, true, true);
        let mut verdict = attention.look((3, 0), HOLDING_US, false, true);
        for _ in 0..HOLDING_LOOKS {
            verdict = attention.look((3, 0), 1_000_000, false, true);
        }
        assert_eq!(
            (verdict.rest, verdict.sleep, verdict.blocked, verdict.call),
            (None, Sleep::Dozing, None, false)
        );
    }

    #[test]
    fn a_step_is_too_long_at_the_bound_and_not_before() {
        let mut attention = Attention::new(100_000);
        attention.look((1, 0), 0, false, true);
        assert_eq!(attention.look((1, 0), LOOK_US, false, true).blocked, None);
        assert_eq!(stay(&mut attention, 1, 80_000, true).blocked, None);
        assert_eq!(attention.look((1, 0), LOOK_US, false, true).blocked, Some(100_000));
        assert_eq!(attention.look((2, 0), LOOK_US, false, true).blocked, None);
    }

    #[test]
    fn what_waited_for_a_processor_is_not_slow_by_itself() {
        let slow = 100_000;
        assert!(is_starved(150_000, (7, 50_008), slow));
        assert!(!is_starved(150_000, (7, 50_007), slow));
        assert!(!is_starved(150_000, (7, 7), slow));
        // What the kernel tells of a thread that has the number of one that is gone.
        assert!(!is_starved(150_000, (50_008, 7), slow));
    }

    #[test]
    fn a_process_that_was_stopped_is_looked_at_again_first() {
        let mut attention = Attention::new(100_000);
        attention.look((1, 0), 0, false, true);
        assert_eq!(attention.look((1, 0), 60_000_000, false, true).blocked, None);
        assert_eq!(attention.look((1, 0), LOOK_US, false, true).blocked, None);
        assert_eq!(attention.look((2, 0), LOOK_US, false, true).blocked, None);
        assert_eq!(attention.lasted(), 0);
    }

    #[test]
    fn a_loop_that_says_nothing_is_called_and_is_blocked_when_it_does_not_answer() {
        let mut attention = Attention::new(100_000);
        attention.look((2, 0), 0, false, false);
        assert!(stay(&mut attention, 2, CALL_US, false).call);
        assert_eq!(stay(&mut attention, 2, 90_000, false).blocked, None);
        assert!(stay(&mut attention, 2, 20_000, false).blocked.is_some());
    }

    #[test]
    fn it_sleeps_once_the_loop_does_nothing_but_answer() {
        for (in_flight, enough) in [(false, QUIET), (true, QUIET_IN_FLIGHT)] {
            let mut attention = Attention::new(100_000);
            let (mut pulse, done) = (2, 7);
            attention.look((pulse, done), 0, false, in_flight);
            for answers in 0..enough {
                assert!((0..10).any(|_| attention.look((pulse, done), LOOK_US, false, in_flight).call));
                pulse += 2;
                let verdict = attention.look((pulse, done), LOOK_US, false, in_flight);
                assert_eq!(verdict.rest.is_none(), answers + 1 == enough, "after {answers}");
            }
            // A timer of the loop's, and it goes on to sleep.
            attention.wake();
            assert_eq!(attention.look((pulse + 2, done), LOOK_US, false, in_flight).rest, None);
            // Nobody answers: it stays awake, and calls.
            attention.wake();
            assert!((0..10).any(|_| attention.look((pulse + 2, done), LOOK_US, false, in_flight).call));
            // Anything that is done has it look again.
            let verdict = attention.look((pulse + 5, done + 1), LOOK_US, false, in_flight);
            assert_eq!((verdict.rest, verdict.sleep), (Some(LOOK_US), Sleep::Dozing));
        }
    }
}
