//! Calls that are inside the application: since when, on which route, and which of them count as quick.
//!
//! Knows: times and places of routes. Does not know: what follows from them. Runs under the baton.

use std::num::NonZeroU16;

use super::rule::Micros;

/// A call's place among those that are inside.
pub type Ticket = NonZeroU16;

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its route's place.
    pub route: u16,
    pub since_us: Micros,
    counts: Counts,
}

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
}

impl Inside {
    /// A call begins, as a quick one or not. None where more are inside than can be told apart.
    pub fn add(&mut self, route: u16, quick: bool, since_us: Micros) -> Option<Ticket> {
        let counts = if quick { Counts::Quick } else { Counts::Young };
        let call = Some(Call { route, since_us, counts });
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
        Some(ticket)
    }

    /// A call has ended.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Call> {
        let call = self.calls.get_mut(place(ticket))?.take()?;
        self.quick -= u32::from(call.counts == Counts::Quick);
        self.young -= u32::from(call.counts == Counts::Young);
        self.free.push(ticket);
        Some(call)
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

    /// Goes through those that are inside for `long_us` or longer, none of which counts as quick any more: its route, and
    /// for how long.
    pub fn overdue(&mut self, now_us: Micros, long_us: Micros, mut found: impl FnMut(u16, Micros)) {
        for call in self.calls.iter_mut().flatten() {
            let age = now_us.saturating_sub(call.since_us);
            if age < long_us {
                continue;
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

fn place(ticket: Ticket) -> usize {
    usize::from(ticket.get()) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_call_that_takes_long_does_not_count_as_quick() {
        let mut inside = Inside::default();
        let first = inside.add(7, true, 1_000).expect("room");
        let second = inside.add(7, true, 4_000).expect("room");
        inside.add(8, false, 0).expect("room");
        let last = inside.add(8, false, 2_000).expect("room");
        assert_eq!((inside.quick(), inside.young()), (2, 2));
        let mut found = Vec::new();
        inside.overdue(6_000, 5_000, |route, age| found.push((route, age)));
        assert_eq!(found, [(7, 5_000), (8, 6_000)]);
        assert_eq!((inside.quick(), inside.young()), (1, 1));
        assert!(inside.remove(last).is_some() && inside.young() == 0);
        assert!(inside.remove(first).is_some_and(|call| call.since_us == 1_000));
        assert!(inside.remove(second).is_some());
        assert_eq!(inside.quick(), 0);
        assert!(inside.remove(second).is_none(), "it has ended already");
    }

    #[test]
    fn a_ticket_is_given_again() {
        let mut inside = Inside::default();
        let first = inside.add(1, false, 0);
        inside.remove(first.expect("room"));
        assert_eq!(inside.add(2, false, 0), first);
    }

    #[test]
    fn more_than_can_be_told_apart_are_not() {
        let mut inside = Inside::default();
        for _ in 0..u16::MAX {
            assert!(inside.add(1, true, 0).is_some());
        }
        assert!(inside.add(1, true, 0).is_none());
        assert_eq!(inside.quick(), u32::from(u16::MAX));
    }
}
