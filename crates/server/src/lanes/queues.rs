//! Those that wait beside the front: requests of unknown routes, of slow ones of each kind, and of each route that has a limit.
//!
//! Knows: who came first in each lane. Does not know: what waits. Runs under the baton.

use wire::Millis;

use super::Lane;
use super::fair::Fair;
use super::order::{End, Order, Waits};

/// One of them, and how many in it are of quick routes.
#[derive(Debug)]
struct Queue<T> {
    fair: Fair<T>,
    quick: usize,
}

/// A queue for each lane but the front.
#[derive(Debug)]
pub struct Queues<T> {
    queues: Vec<Queue<T>>,
    waiting: usize,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self { queues: Vec::new(), waiting: 0 }
    }
}

/// So many lanes are there but the front, and those of routes that have a limit.
pub(super) const AUTOMATIC: usize = 3;

/// A lane's place among the queues.
fn place(lane: Lane) -> usize {
    match lane {
        Lane::Express | Lane::Unknown => 0,
        Lane::Slow => 1,
        Lane::Long => 2,
        Lane::Limited(limit) => AUTOMATIC + usize::from(limit),
    }
}

/// The lane of a queue's place.
pub(super) fn lane_at(place: usize) -> Lane {
    match place {
        0 => Lane::Unknown,
        1 => Lane::Slow,
        2 => Lane::Long,
        limit => Lane::Limited((limit - AUTOMATIC) as u8),
    }
}

impl<T: Waits> Queues<T> {
    fn lane(&mut self, lane: Lane) -> &mut Queue<T> {
        let place = place(lane);
        if self.queues.len() <= place {
            self.queues.resize_with(place + 1, || Queue { fair: Fair::default(), quick: 0 });
        }
        &mut self.queues[place]
    }

    fn add(&mut self, lane: Lane, share: u8, (one, taken): (T, bool)) {
        self.waiting += 1;
        let queue = self.lane(lane);
        queue.quick += usize::from(one.is_quick());
        queue.fair.push(share, one, taken);
    }

    /// One has been taken from a queue, or none.
    fn taken(&mut self, place: usize, one: Option<&T>) {
        let Some(one) = one else { return };
        self.waiting -= 1;
        self.queues[place].quick -= usize::from(one.is_quick());
    }

    /// One that has come last of its share; everybody's is zero where clients do not take turns.
    pub fn push(&mut self, lane: Lane, share: u8, one: T) {
        self.add(lane, share, (one, false));
    }

    /// One that was taken, and goes back to its place.
    pub fn put_back(&mut self, lane: Lane, share: u8, one: T) {
        self.add(lane, share, (one, true));
    }

    /// Makes room for one of a share: the last of a larger one goes.
    pub fn make_room(&mut self, lane: Lane, share: u8) -> Option<T> {
        let last = self.lane(lane).fair.pop_last_of_larger(share);
        self.taken(place(lane), last.as_ref());
        last
    }

    /// The same for one that matters more: the last of those for which something is true goes.
    pub fn make_room_where(&mut self, lane: Lane, is: impl Fn(&T) -> bool) -> Option<T> {
        let last = self.lane(lane).fair.pop_last_where(&is);
        self.taken(place(lane), last.as_ref());
        last
    }

    /// How many go before one of a share that comes now.
    pub fn before(&self, lane: Lane, share: u8, order: Order) -> usize {
        self.queues.get(place(lane)).map_or(0, |queue| queue.fair.before(share, order))
    }

    /// True: some that do not wait for others of their route have waited so long that newer ones go before others.
    pub fn is_overload(&self, order: Order) -> bool {
        self.queues.iter().take(AUTOMATIC).any(|queue| queue.fair.is_overload(order))
    }

    /// The next of a lane, and which end of its queue it was at.
    pub fn pop(&mut self, lane: Lane, order: Order) -> Option<(End, T)> {
        let next = self.lane(lane).fair.pop(order);
        self.taken(place(lane), next.as_ref().map(|(_, one)| one));
        next
    }

    /// The next of any lane for which something is true.
    pub fn pop_if(&mut self, mut is: impl FnMut(&T) -> bool) -> Option<T> {
        let queues = self.queues.iter_mut().enumerate();
        let (place, found) =
            queues.into_iter().find_map(|(place, queue)| Some((place, queue.fair.pop_if(&mut is)?)))?;
        self.taken(place, Some(&found));
        Some(found)
    }

    /// The first of a lane for which something is true, of any share.
    pub fn pop_first_where(&mut self, lane: Lane, mut is: impl FnMut(&T) -> bool) -> Option<T> {
        let first = self.lane(lane).fair.pop_first_where(&mut is);
        self.taken(place(lane), first.as_ref());
        first
    }

    /// How many wait in a lane.
    pub fn waiting(&self, lane: Lane) -> usize {
        self.queues.get(place(lane)).map_or(0, |queue| queue.fair.len())
    }

    /// Since when the one waits that has for the longest in a lane.
    pub fn oldest_in(&self, lane: Lane) -> Option<Millis> {
        self.queues.get(place(lane)).and_then(|queue| queue.fair.oldest())
    }

    /// Since when the one waits that has for the longest, in any of them.
    pub fn oldest(&self) -> Option<Millis> {
        self.queues.iter().filter_map(|queue| queue.fair.oldest()).min()
    }

    /// True: all that wait in a lane are of quick routes.
    pub fn are_quick(&self, lane: Lane) -> bool {
        self.queues.get(place(lane)).is_none_or(|queue| queue.quick == queue.fair.len())
    }

    /// How many wait in all of them.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// How many wait for others below the same path.
    #[inline]
    pub fn limited(&self) -> usize {
        match self.waiting {
            0 => 0,
            waiting => {
                waiting - self.queues.iter().take(AUTOMATIC).map(|queue| queue.fair.len()).sum::<usize>()
            }
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Order = Order { now: 0, after: 1_000 };

    fn next(queues: &mut Queues<u64>, lane: Lane) -> Option<u64> {
        queues.pop(lane, CALM).map(|(_, one)| one)
    }

    #[test]
    fn first_come_first_served_in_each_lane() {
        let mut queues = Queues::default();
        assert!(queues.is_empty());
        for (lane, one) in [(Lane::Slow, 1), (Lane::Unknown, 2), (Lane::Slow, 3)] {
            queues.push(lane, 0, one);
        }
        assert_eq!((queues.len(), queues.waiting(Lane::Slow), queues.waiting(Lane::Unknown)), (3, 2, 1));
        assert_eq!(queues.oldest(), Some(1));
        assert_eq!((next(&mut queues, Lane::Slow), queues.oldest()), (Some(1), Some(2)));
        queues.put_back(Lane::Slow, 0, 1);
        assert_eq!(queues.pop_if(|one| *one == 2), Some(2));
        assert_eq!(queues.pop_if(|one| *one == 3), None, "it is not the next");
        assert_eq!((next(&mut queues, Lane::Slow), next(&mut queues, Lane::Slow)), (Some(1), Some(3)));
        assert!(
            queues.is_empty() && next(&mut queues, Lane::Limited(3)).is_none() && queues.oldest().is_none()
        );
    }

    #[test]
    fn who_is_taken_from_the_middle_is_counted_no_more() {
        let mut queues = Queues::default();
        (1..=3).for_each(|one| queues.push(Lane::Slow, one as u8, one));
        assert_eq!(queues.pop_first_where(Lane::Slow, |one| *one == 2), Some(2));
        assert_eq!(queues.pop_first_where(Lane::Slow, |one| *one == 2), None);
        assert_eq!((queues.len(), queues.waiting(Lane::Slow)), (2, 2));
    }

    #[test]
    fn each_lane_has_a_queue_of_its_own() {
        let lanes = [Lane::Unknown, Lane::Slow, Lane::Long, Lane::Limited(0), Lane::Limited(9)];
        let mut queues = Queues::default();
        lanes.iter().zip(1..).for_each(|(&lane, one)| queues.push(lane, 0, one));
        assert_eq!(queues.limited(), 2);
        for (lane, one) in lanes.into_iter().zip(1..) {
            assert_eq!(lane_at(place(lane)), lane);
            assert_eq!((queues.waiting(lane), next(&mut queues, lane)), (1, Some(one)));
        }
    }

    #[test]
    fn who_waits_for_others_of_its_route_is_no_sign_of_overload() {
        let late = Order { now: 2_000, after: 1_000 };
        for (lane, is_overload) in
            [(Lane::Limited(0), false), (Lane::Slow, true), (Lane::Unknown, true), (Lane::Long, true)]
        {
            let mut queues = Queues::default();
            queues.push(lane, 0, 5);
            assert_eq!(queues.is_overload(late), is_overload, "{lane:?}");
        }
    }
}
