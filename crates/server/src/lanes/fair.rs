//! A queue in which clients take turns (`--fair-by`): who asks for much waits behind himself.
//!
//! Knows: shares, of which each client has one. Does not know: clients. Runs under the baton.
//!
//! Without shares everything is in one, which is first come, first served. With them each share is served in turn (fair
//! queueing: Nagle, RFC 970), and where one has to go it is the last of the largest share.

use std::collections::VecDeque;

/// So many shares are told apart, by chance: of the others one client in so many has the share of the one that asks for most.
pub const SHARES: usize = 256;

/// Those that wait, by share.
#[derive(Debug)]
pub struct Fair<T> {
    shares: Vec<VecDeque<T>>,
    /// Whose turn it was.
    last: usize,
    len: usize,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { shares: Vec::new(), last: 0, len: 0 }
    }
}

impl<T> Fair<T> {
    fn share(&mut self, share: u8) -> &mut VecDeque<T> {
        let place = usize::from(share) % SHARES;
        if self.shares.len() <= place {
            self.shares.resize_with(place + 1, VecDeque::new);
        }
        &mut self.shares[place]
    }

    /// One that has come last of its share.
    pub fn push(&mut self, share: u8, one: T) {
        self.len += 1;
        self.share(share).push_back(one);
    }

    /// One that was taken, and comes first of its share.
    pub fn put_back(&mut self, share: u8, one: T) {
        self.len += 1;
        self.share(share).push_front(one);
    }

    /// The next, of the next share that has any.
    pub fn pop(&mut self) -> Option<T> {
        let all = self.shares.len();
        let next =
            (1..=all).map(|further| (self.last + further) % all).find(|&at| !self.shares[at].is_empty())?;
        self.last = next;
        self.len -= 1;
        self.shares[next].pop_front()
    }

    /// The first of any share for which something is true.
    pub fn pop_if(&mut self, is: &mut impl FnMut(&T) -> bool) -> Option<T> {
        let share = self.shares.iter_mut().find(|share| share.front().is_some_and(&mut *is))?;
        self.len -= 1;
        share.pop_front()
    }

    /// The last of the largest share, if that is larger than this one.
    pub fn pop_last_of_larger(&mut self, share: u8) -> Option<T> {
        let own = self.share(share).len();
        let largest =
            self.shares.iter_mut().max_by_key(|share| share.len()).filter(|largest| largest.len() > own)?;
        self.len -= 1;
        largest.pop_back()
    }

    /// How many go before one that comes now: of its own share all, and as many of each of the others.
    pub fn before(&self, share: u8) -> usize {
        let own = self.shares.get(usize::from(share) % SHARES).map_or(0, VecDeque::len);
        let others = self.shares.iter().enumerate().filter(|(at, _)| *at != usize::from(share) % SHARES);
        own + others.map(|(_, other)| other.len().min(own + 1)).sum::<usize>()
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_one_share_it_is_first_come_first_served() {
        let mut fair = Fair::default();
        (1..=3).for_each(|one| fair.push(0, one));
        assert_eq!(fair.before(0), 3);
        assert_eq!([fair.pop(), fair.pop(), fair.pop(), fair.pop()], [Some(1), Some(2), Some(3), None]);
        assert!(fair.len() == 0 && fair.pop_last_of_larger(0).is_none());
    }

    #[test]
    fn shares_take_turns() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one));
        fair.push(63, 10);
        assert_eq!((fair.before(7), fair.before(63), fair.before(5)), (5, 3, 2));
        let first_two = [fair.pop(), fair.pop()];
        assert!(first_two.contains(&Some(10)) && first_two.contains(&Some(1)), "{first_two:?}");
        assert_eq!((fair.pop(), fair.len()), (Some(2), 2));
    }

    #[test]
    fn who_has_to_go_is_the_last_of_the_largest_share() {
        let mut fair = Fair::default();
        (1..=4).for_each(|one| fair.push(7, one));
        (11..=12).for_each(|one| fair.push(8, one));
        assert_eq!(fair.pop_last_of_larger(7), None, "it is the largest itself");
        assert_eq!(fair.pop_last_of_larger(8), Some(4));
        assert_eq!(fair.pop_last_of_larger(8), Some(3));
        assert_eq!(fair.pop_last_of_larger(8), None, "they are equal");
        assert_eq!((fair.len(), fair.pop_if(&mut |one| *one == 11)), (4, Some(11)));
    }
}
