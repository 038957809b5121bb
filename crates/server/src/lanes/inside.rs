//! Calls that are inside the application: since when, on which route, and which of them count as quick.
//!
//! Knows: times and places of routes. Does not know: what follows from them. Runs under the baton.

use std::num::NonZeroU16;

use super::routes::{COMPUTES_US, Computes};
use super::rule::Micros;
use super::{Lane, Lanes};

/// A call's place among those that are inside.
pub type Ticket = NonZeroU16;

/// What a call has used of a processor, and when others were last found to wait for the interpreter.
pub type Used = (Micros, Micros);

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its route's place.
    pub route: u16,
    pub since_us: Micros,
    counts: Counts,
    /// It takes as long as the longest do.
    longest: bool,
    /// It is taken to compute, for so long.
    computes: Computes,
}

/// A call is taken to compute for so many times as long as calls of its route use a processor, as others may want that, too: what takes
/// longer waits for something.
const COMPUTES_FOR: u64 = 4;

/// What a call counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// It was begun as a quick one, and has not taken longer than those do.
    Quick,
    /// It was not, and has not taken longer either.
    Young,
    Long,
}

/// All calls that are inside and were begun by the rule.
#[derive(Debug, Default)]
pub struct Inside {
    calls: Vec<Option<Call>>,
    free: Vec<Ticket>,
    quick: u32,
    young: u32,
    longest: u32,
    computing: u32,
    burning: u32,
}

impl Inside {
    /// A call begins that has waited in such a lane; `computes`: what is known of its route. None where more are inside than can be
    /// told apart.
    pub fn add(&mut self, route: u16, lane: Lane, computes: Computes, since_us: Micros) -> Option<Ticket> {
        let (quick, longest) = (lane == Lane::Express, lane == Lane::Long);
        let counts = if quick { Counts::Quick } else { Counts::Young };
        let call = Some(Call { route, since_us, counts, longest, computes });
        let ticket = match self.free.pop() {
            Some(ticket) => {
                self.calls[place(ticket)] = call;
                ticket
            }
            None => {
                let next = u16::try_from(self.calls.len() + 1).ok().and_then(NonZeroU16::new)?;
                self.calls.push(call);
                next
            }
        };
        self.quick += u32::from(quick);
        self.young += u32::from(!quick);
        self.longest += u32::from(longest);
        self.computing += u32::from(matches!(computes, Computes::For(_)));
        self.burning += u32::from(matches!(computes, Computes::Long(_)));
        Some(ticket)
    }

    /// A call has ended.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Call> {
        let call = self.calls.get_mut(place(ticket))?.take()?;
        self.quick -= u32::from(call.counts == Counts::Quick);
        self.young -= u32::from(call.counts == Counts::Young);
        self.longest -= u32::from(call.longest);
        self.forget(call.computes);
        self.free.push(ticket);
        Some(call)
    }

    fn forget(&mut self, computes: Computes) {
        match computes {
            Computes::No => {}
            Computes::For(_) => self.computing -= 1,
            Computes::Long(_) => self.burning -= 1,
        }
    }

    /// How many count as quick.
    #[inline]
    pub fn quick(&self) -> u32 {
        self.quick
    }

    /// How many do not, and were not found to take long.
    #[inline]
    pub fn young(&self) -> u32 {
        self.young
    }

    /// How many take as long as the longest do.
    #[inline]
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// How many compute for long.
    #[inline]
    pub fn burning(&self) -> u32 {
        self.burning
    }

    /// How many compute, and are over soon.
    #[inline]
    pub fn computing(&self) -> u32 {
        self.computing
    }

    /// True: one that computes is over by then, if it takes as long as others of its route.
    pub fn is_one_over_by(&self, at_us: Micros) -> bool {
        let is_over = |call: &Call| match call.computes {
            Computes::For(us) => call.since_us + u64::from(us) <= at_us,
            _ => false,
        };
        self.calls.iter().flatten().any(is_over)
    }

    /// Those that have taken much longer than they compute do not any more.
    pub fn forget_computing(&mut self, now_us: Micros) {
        if self.computing == 0 && self.burning == 0 {
            return;
        }
        let (mut computing, mut burning) = (0, 0);
        for call in self.calls.iter_mut().flatten() {
            let (us, many) = match call.computes {
                Computes::No => continue,
                Computes::For(us) => (us, &mut computing),
                Computes::Long(us) => (us, &mut burning),
            };
            if now_us >= call.since_us + COMPUTES_FOR * u64::from(us) {
                call.computes = Computes::No;
            } else {
                *many += 1;
            }
        }
        (self.computing, self.burning) = (computing, burning);
    }

    /// Goes through those that are inside for `long_us` or longer, none of which counts as quick any more: its route, and
    /// for how long. From `longest_us` on one counts among the longest.
    pub fn overdue(
        &mut self,
        now_us: Micros,
        (long_us, longest_us): (Micros, Option<Micros>),
        mut found: impl FnMut(u16, Micros),
    ) {
        for call in self.calls.iter_mut().flatten() {
            let age = now_us.saturating_sub(call.since_us);
            if age < long_us {
                continue;
            }
            if !call.longest && longest_us.is_some_and(|longest_us| age >= longest_us) {
                call.longest = true;
                self.longest += 1;
            }
            match std::mem::replace(&mut call.counts, Counts::Long) {
                Counts::Quick => self.quick -= 1,
                Counts::Young => self.young -= 1,
                Counts::Long => {}
            }
            found(call.route, age);
        }
    }
}

/// Who computes, as the rest of the loop asks.
impl Lanes {
    /// A route of which other workers know that its calls use so much of a processor on average: it is known where they compute.
    pub fn learn_used(&mut self, name: &str, used_us: Micros, now_us: Micros) {
        if used_us < COMPUTES_US {
            return;
        }
        // Its first call would wake them: it is to be known by then.
        self.wake();
        if self.tells_apart() {
            self.routes.learn_used(name, used_us, now_us);
        }
    }

    /// What other workers should know, once: the name of a route that was found to compute for long, and for how long.
    pub fn take_news(&mut self) -> Option<(Box<str>, Micros)> {
        self.routes.take_news()
    }

    /// How many calls are inside that are taken to compute.
    #[inline]
    pub fn computing(&self) -> u32 {
        self.inside.computing()
    }

    /// How many are that are taken to do so for long.
    #[inline]
    pub fn burning(&self) -> u32 {
        self.inside.burning()
    }

    /// One that computes has gone to another worker: here it would have been slow, and others of its route are to be known as well.
    pub fn has_given(&mut self, now_us: Micros) {
        self.slow_us = now_us;
    }

    /// True: one of them is over by then, if it takes as long as others of its route.
    pub fn is_one_over_by(&self, at_us: Micros) -> bool {
        self.inside.is_one_over_by(at_us)
    }
}

fn place(ticket: Ticket) -> usize {
    usize::from(ticket.get()) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_call_that_takes_long_does_not_count_as_quick() {
        let mut inside = Inside::default();
        let first = inside.add(7, Lane::Express, Computes::No, 1_000).expect("room");
        let second = inside.add(7, Lane::Express, Computes::No, 4_000).expect("room");
        inside.add(8, Lane::Slow, Computes::No, 0).expect("room");
        let last = inside.add(8, Lane::Slow, Computes::No, 2_000).expect("room");
        assert_eq!((inside.quick(), inside.young()), (2, 2));
        let mut found = Vec::new();
        inside.overdue(6_000, (5_000, None), |route, age| found.push((route, age)));
        assert_eq!(found, [(7, 5_000), (8, 6_000)]);
        assert_eq!((inside.quick(), inside.young()), (1, 1));
        assert!(inside.remove(last).is_some() && inside.young() == 0);
        assert!(inside.remove(first).is_some_and(|call| call.since_us == 1_000));
        assert!(inside.remove(second).is_some());
        assert_eq!(inside.quick(), 0);
        assert!(inside.remove(second).is_none(), "it has ended already");
    }

    #[test]
    fn a_call_computes_for_four_times_as_long_as_others_of_its_route_and_is_expected_to_be_over_before() {
        let mut inside = Inside::default();
        inside.add(1, Lane::Slow, Computes::No, 1_000);
        assert!(inside.computing() == 0 && !inside.is_one_over_by(u64::MAX));
        let first = inside.add(2, Lane::Slow, Computes::For(40_000), 1_000).expect("room");
        let second = inside.add(2, Lane::Express, Computes::For(10_000), 1_000).expect("room");
        assert_eq!(inside.computing(), 2);
        assert!(!inside.is_one_over_by(10_999) && inside.is_one_over_by(11_000));
        for (now_us, computing) in [(40_999, 2), (41_000, 1), (160_999, 1), (161_000, 0)] {
            inside.forget_computing(now_us);
            assert_eq!(inside.computing(), computing, "{now_us}");
        }
        inside.remove(first);
        inside.remove(second);
        let long = inside.add(3, Lane::Slow, Computes::Long(300_000), 1_000).expect("room");
        assert_eq!((inside.computing(), inside.burning()), (0, 1));
        assert!(!inside.is_one_over_by(u64::MAX), "nobody waits for that");
        for (now_us, burning) in [(1_200_999, 1), (1_201_000, 0)] {
            inside.forget_computing(now_us);
            assert_eq!(inside.burning(), burning, "{now_us}");
        }
        inside.remove(long);
        let third = inside.add(2, Lane::Slow, Computes::For(40_000), 1_000).expect("room");
        assert_eq!(inside.computing(), 1);
        inside.remove(third);
        assert_eq!(inside.computing(), 0);
    }

    #[test]
    fn a_ticket_is_given_again() {
        let mut inside = Inside::default();
        let first = inside.add(1, Lane::Slow, Computes::No, 0);
        inside.remove(first.expect("room"));
        assert_eq!(inside.add(2, Lane::Slow, Computes::No, 0), first);
    }

    #[test]
    fn more_than_can_be_told_apart_are_not() {
        let mut inside = Inside::default();
        for _ in 0..u16::MAX {
            assert!(inside.add(1, Lane::Express, Computes::No, 0).is_some());
        }
        assert!(inside.add(1, Lane::Express, Computes::No, 0).is_none());
        assert_eq!(inside.quick(), u32::from(u16::MAX));
    }

    #[test]
    fn a_call_counts_among_the_longest_by_its_lane_or_by_its_age() {
        let mut inside = Inside::default();
        let long = inside.add(1, Lane::Long, Computes::No, 1_000).expect("room");
        let slow = inside.add(2, Lane::Slow, Computes::No, 1_000).expect("room");
        for (now_us, longest_us, longest) in [
            (100_999, Some(100_000), 1),
            (900_000, None, 1),
            (101_000, Some(100_000), 2),
            (102_000, Some(100_000), 2),
        ] {
            inside.overdue(now_us, (5_000, longest_us), |_, _| {});
            assert_eq!(inside.longest(), longest, "{now_us} {longest_us:?}");
        }
        inside.remove(long);
        inside.remove(slow);
        assert_eq!(inside.longest(), 0);
    }
}
