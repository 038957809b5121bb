//! A queue in which clients take turns (`--fair-by`): who asks for much waits behind himself.
//!
//! Knows: shares, of which each client has one. Does not know: clients. Runs under the baton.
//!
//! Without shares everything is in one. With them each share is served in turn (fair queueing: Nagle, RFC 970), and where
//! one has to go it is the last of the largest share. Within a share first come is first served, but in overload (`order.rs`).

use std::collections::VecDeque;

use wire::Millis;

use super::order::{End, Order, Waits};

/// So many shares are told apart, by chance: of the others one client in so many has the share of the one that asks for most.
pub const SHARES: usize = 256;

/// Those of one share that wait, in the order of their arrival.
#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    /// Which end the last one was taken from.
    last: End,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), last: End::Oldest }
    }
}

/// Those that wait, by share.
#[derive(Debug)]
pub struct Fair<T> {
    shares: Vec<Line<T>>,
    /// Whose turn it was.
    last: usize,
    len: usize,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { shares: Vec::new(), last: 0, len: 0 }
    }
}

impl<T: Waits> Fair<T> {
    fn share(&mut self, share: u8) -> &mut Line<T> {
        let place = usize::from(share) % SHARES;
        if self.shares.len() <= place {
            self.shares.resize_with(place + 1, Line::default);
        }
        &mut self.shares[place]
    }

    /// One comes to its place by its arrival: behind those that came at the same time, or, `taken` before, ahead of them.
    pub fn push(&mut self, share: u8, one: T, taken: bool) {
        self.len += 1;
        let waiting = &mut self.share(share).waiting;
        let since = one.since();
        match waiting.back() {
            Some(last) if last.since() > since || taken => {
                let place = waiting.partition_point(|other| {
                    if taken { other.since() < since } else { other.since() <= since }
                });
                waiting.insert(place, one);
            }
            _ => waiting.push_back(one),
        }
    }

    /// The next, of the next share that has any, and which end of that it was at.
    pub fn pop(&mut self, order: Order) -> Option<(End, T)> {
        let all = self.shares.len();
        let next = (1..=all)
            .map(|further| (self.last + further) % all)
            .find(|&at| !self.shares[at].waiting.is_empty())?;
        self.last = next;
        let line = &mut self.shares[next];
        line.last = order.next(line.waiting.front()?.since(), line.last);
        let one = match line.last {
            End::Oldest => line.waiting.pop_front()?,
            End::Newest => line.waiting.pop_back()?,
        };
        self.len -= 1;
        Some((line.last, one))
    }

    /// The first of any share for which something is true.
    pub fn pop_if(&mut self, is: &mut impl FnMut(&T) -> bool) -> Option<T> {
        let share = self.shares.iter_mut().find(|share| share.waiting.front().is_some_and(&mut *is))?;
        self.len -= 1;
        share.waiting.pop_front()
    }

    /// The first of those for which something is true, of any share.
    pub fn pop_first_where(&mut self, is: &mut impl FnMut(&T) -> bool) -> Option<T> {
        let mut lines = self.shares.iter_mut().map(|line| &mut line.waiting);
        let (line, place) = lines.find_map(|line| {
            let place = line.iter().position(&mut *is)?;
            Some((line, place))
        })?;
        self.len -= 1;
        line.remove(place)
    }

    /// The last of the largest share, if that is larger than this one.
    pub fn pop_last_of_larger(&mut self, share: u8) -> Option<T> {
        let own = self.share(share).waiting.len();
        let lines = self.shares.iter_mut().map(|line| &mut line.waiting);
        let largest = lines.max_by_key(|line| line.len()).filter(|largest| largest.len() > own)?;
        self.len -= 1;
        largest.pop_back()
    }

    /// The last of those for which something is true, of the largest share that has any.
    pub fn pop_last_where(&mut self, is: &impl Fn(&T) -> bool) -> Option<T> {
        let lines = self.shares.iter_mut().map(|line| &mut line.waiting);
        let found = lines.filter_map(|line| line.iter().rposition(is).map(|place| (line, place)));
        let (line, place) = found.max_by_key(|(line, _)| line.len())?;
        self.len -= 1;
        line.remove(place)
    }

    /// How many go before one that comes now: of its own share all, twice in overload, and as many of each of the others.
    pub fn before(&self, share: u8, order: Order) -> usize {
        let place = usize::from(share) % SHARES;
        let own = self
            .shares
            .get(place)
            .map_or(0, |line| order.behind(line.waiting.front().map(Waits::since), line.waiting.len()));
        let others = self.shares.iter().enumerate().filter(|(at, _)| *at != place);
        own + others.map(|(_, other)| other.waiting.len().min(own + 1)).sum::<usize>()
    }

    /// Since when the one waits that has for the longest.
    pub fn oldest(&self) -> Option<Millis> {
        self.shares.iter().filter_map(|line| line.waiting.front()).map(Waits::since).min()
    }

    /// True: the oldest of some share has waited so long that the newest has its turn.
    pub fn is_overload(&self, order: Order) -> bool {
        self.shares
            .iter()
            .any(|line| line.waiting.front().is_some_and(|first| order.is_overload(first.since())))
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers wait since the moment that they are.
    impl Waits for u64 {
        fn since(&self) -> u64 {
            *self
        }
    }

    const CALM: Order = Order { now: 0, after: 1_000 };

    fn next(fair: &mut Fair<u64>, order: Order) -> Option<u64> {
        fair.pop(order).map(|(_, one)| one)
    }

    #[test]
    fn in_one_share_it_is_first_come_first_served() {
        let mut fair = Fair::default();
        (1..=3).for_each(|one| fair.push(0, one, false));
        assert_eq!(fair.before(0, CALM), 3);
        assert_eq!([(); 4].map(|()| next(&mut fair, CALM)), [Some(1), Some(2), Some(3), None]);
        assert!(fair.len() == 0 && fair.pop_last_of_larger(0).is_none());
    }

    #[test]
    fn shares_take_turns() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one, false));
        fair.push(63, 10, false);
        assert_eq!([7, 63, 5].map(|share| fair.before(share, CALM)), [5, 3, 2]);
        let first_two = [(); 2].map(|()| next(&mut fair, CALM));
        assert!(first_two.contains(&Some(10)) && first_two.contains(&Some(1)), "{first_two:?}");
        assert_eq!((next(&mut fair, CALM), fair.len()), (Some(2), 2));
    }

    #[test]
    fn in_overload_the_newest_and_the_oldest_of_a_share_take_turns() {
        let mut fair = Fair::default();
        (1..=5).for_each(|one| fair.push(0, one, false));
        let (at_limit, over) = (Order { now: 1_001, after: 1_000 }, Order { now: 1_002, after: 1_000 });
        assert!(!fair.is_overload(at_limit) && fair.is_overload(over));
        assert_eq!([fair.before(0, at_limit), fair.before(0, over), fair.before(1, over)], [5, 10, 1]);
        assert_eq!(fair.pop(at_limit), Some((End::Oldest, 1)));
        let late = Order { now: 1_010, after: 1_000 };
        let found = [(); 4].map(|()| fair.pop(late));
        let (old, new) = (End::Oldest, End::Newest);
        assert_eq!(found, [(new, 5), (old, 2), (new, 4), (old, 3)].map(Some));
    }

    #[test]
    fn one_share_in_overload_leaves_the_order_of_another_alone() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one, false));
        (2_001..=2_004).for_each(|one| fair.push(8, one, false));
        let order = Order { now: 2_500, after: 1_000 };
        let found: Vec<u64> = std::iter::from_fn(|| next(&mut fair, order)).collect();
        let of =
            |is_late: bool| found.iter().copied().filter(|&one| (one > 2_000) == is_late).collect::<Vec<_>>();
        assert_eq!((of(false), of(true)), (vec![4, 1, 3, 2], vec![2_001, 2_002, 2_003, 2_004]));
    }

    #[test]
    fn one_that_was_taken_from_either_end_goes_back_to_its_place() {
        let mut fair = Fair::default();
        (1..=3).for_each(|one| fair.push(0, one, false));
        for order in [CALM, Order { now: 2_000, after: 1_000 }] {
            let (_, one) = fair.pop(order).expect("three wait");
            fair.push(0, one, true);
        }
        fair.push(0, 2, false);
        let found: Vec<u64> = std::iter::from_fn(|| next(&mut fair, CALM)).collect();
        assert_eq!(found, [1, 2, 2, 3]);
    }

    #[test]
    fn who_matters_less_and_has_to_go_is_the_last_of_them_in_the_largest_share() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one, false));
        (11..=12).for_each(|one| fair.push(8, one, false));
        let is_odd = |one: &u64| one % 2 == 1;
        let found = [(); 4].map(|()| fair.pop_last_where(&is_odd));
        assert_eq!(found, [Some(3), Some(1), Some(11), None]);
        assert_eq!((fair.len(), fair.pop_last_of_larger(8)), (3, Some(4)));
    }

    #[test]
    fn who_has_to_go_is_the_last_of_the_largest_share() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one, false));
        (11..=12).for_each(|one| fair.push(8, one, false));
        assert_eq!(fair.pop_last_of_larger(7), None, "it is the largest itself");
        assert_eq!(fair.pop_last_of_larger(8), Some(4));
        assert_eq!(fair.pop_last_of_larger(8), Some(3));
        assert_eq!(fair.pop_last_of_larger(8), None, "they are equal");
        assert_eq!((fair.len(), fair.pop_if(&mut |one| *one == 11)), (4, Some(11)));
    }
}
