//! Who of a queue begins: the one that came first, or, in overload, the one that came last.
//!
//! Knows: for how long the first has waited. Does not know: requests, or why they wait. A pure function.
//!
//! While a queue moves, first come is first served. Where its first has waited for longer than a client does (limit
//! `newest_first_after`) that would make everybody wait for as long: the server works, and for nobody who is still there. The
//! last to come is served in time, though, at no cost to what is done in all (adaptive LIFO: Maurer, "Fail at Scale", ACM
//! Queue, 2015). Served alone the last would leave the first behind for ever, also where all could be served a little later; so
//! they take turns: half of what is done is done at once, and nobody waits for more than twice as long as in the order of arrival.

use wire::Millis;

/// One that waits.
pub trait Waits {
    /// Since when, in milliseconds.
    fn since(&self) -> Millis;

    /// True: its route is quick, so that it may have a thread that is kept.
    fn is_quick(&self) -> bool {
        false
    }
}

/// An end of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// Where the first to come is.
    #[default]
    Oldest,
    /// Where the last to come is.
    Newest,
}

/// By what it is decided.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// The time, in monotonic milliseconds.
    pub now: Millis,
    /// For longer than this nobody is expected to wait; zero: the order is always that of arrival.
    pub after: Millis,
}

impl Order {
    /// True: whose first has waited since then is in overload.
    #[inline]
    pub fn is_overload(self, since: Millis) -> bool {
        self.after > 0 && self.now.saturating_sub(since) > self.after
    }

    /// Who begins of a queue whose first has waited since then, after one of this end has begun.
    #[inline]
    pub fn next(self, since: Millis, last: End) -> End {
        match last {
            End::Oldest if self.is_overload(since) => End::Newest,
            _ => End::Oldest,
        }
    }

    /// Behind so many waits who comes now, if he is not served as the last to come: `own` that have come before him.
    #[inline]
    pub fn behind(self, since: Option<Millis>, own: usize) -> usize {
        match since {
            Some(since) if self.is_overload(since) => 2 * own,
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Order = Order { now: 5_000, after: 1_000 };

    #[test]
    fn the_newest_has_its_turn_where_the_oldest_has_waited_longer_than_the_limit() {
        for (waited, last, next) in [
            (0, End::Oldest, End::Oldest),
            (999, End::Oldest, End::Oldest),
            (1_000, End::Oldest, End::Oldest),
            (1_001, End::Oldest, End::Newest),
            (1_001, End::Newest, End::Oldest),
            (5_000, End::Oldest, End::Newest),
            (999, End::Newest, End::Oldest),
        ] {
            assert_eq!(AT_ONCE.next(AT_ONCE.now - waited, last), next, "{waited} ms, after {last:?}");
        }
    }

    #[test]
    fn without_a_limit_and_before_time_has_passed_the_order_is_that_of_arrival() {
        let never = Order { now: u64::MAX, after: 0 };
        assert_eq!((never.next(0, End::Oldest), never.behind(Some(0), 7)), (End::Oldest, 7));
        assert_eq!(
            AT_ONCE.next(AT_ONCE.now + 1, End::Oldest),
            End::Oldest,
            "it came after the clock was read"
        );
    }

    #[test]
    fn who_comes_to_a_queue_in_overload_waits_for_twice_as_many() {
        let since = |waited| Some(AT_ONCE.now - waited);
        let found = [None, since(1_000), since(1_001)].map(|since| AT_ONCE.behind(since, 40));
        assert_eq!(found, [40, 40, 80]);
    }
}
