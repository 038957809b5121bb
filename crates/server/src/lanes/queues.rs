//! Those that wait beside the front: requests of unknown routes, and of slow ones.
//!
//! Knows: who came first in each lane. Does not know: what waits. Runs under the baton.

use std::collections::VecDeque;

use super::Lane;

/// Two queues: first come, first served in each.
#[derive(Debug)]
pub struct Queues<T> {
    unknown: VecDeque<T>,
    slow: VecDeque<T>,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self { unknown: VecDeque::new(), slow: VecDeque::new() }
    }
}

impl<T> Queues<T> {
    fn lane(&mut self, lane: Lane) -> &mut VecDeque<T> {
        if lane == Lane::Slow { &mut self.slow } else { &mut self.unknown }
    }

    /// One that has come last.
    pub fn push(&mut self, lane: Lane, one: T) {
        self.lane(lane).push_back(one);
    }

    /// One that was taken, and comes next.
    pub fn put_back(&mut self, lane: Lane, one: T) {
        self.lane(lane).push_front(one);
    }

    /// The next of a lane.
    pub fn pop(&mut self, lane: Lane) -> Option<T> {
        self.lane(lane).pop_front()
    }

    /// The next of either lane for which something is true.
    pub fn pop_if(&mut self, mut is: impl FnMut(&T) -> bool) -> Option<T> {
        let lane =
            [&mut self.slow, &mut self.unknown].into_iter().find(|lane| lane.front().is_some_and(&mut is));
        lane?.pop_front()
    }

    /// How many wait in a lane.
    pub fn waiting(&self, lane: Lane) -> usize {
        if lane == Lane::Slow { self.slow.len() } else { self.unknown.len() }
    }

    /// How many wait in both.
    pub fn len(&self) -> usize {
        self.unknown.len() + self.slow.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.slow.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_in_each_lane() {
        let mut queues = Queues::default();
        assert!(queues.is_empty());
        for (lane, one) in [(Lane::Slow, 1), (Lane::Unknown, 2), (Lane::Slow, 3)] {
            queues.push(lane, one);
        }
        assert_eq!((queues.len(), queues.waiting(Lane::Slow), queues.waiting(Lane::Unknown)), (3, 2, 1));
        assert_eq!(queues.pop(Lane::Slow), Some(1));
        queues.put_back(Lane::Slow, 1);
        assert_eq!(queues.pop_if(|one| *one == 2), Some(2));
        assert_eq!(queues.pop_if(|one| *one == 3), None, "it is not the next");
        assert_eq!((queues.pop(Lane::Slow), queues.pop(Lane::Slow)), (Some(1), Some(3)));
    }
}
