//! Who begins, of those that wait in lanes.
//!
//! Knows: who is inside, and how many threads are kept. Does not know: which routes are slow (`lanes/rule.rs`). Runs under the baton.

use super::early::LONE_MS;
use super::queues::{AUTOMATIC, lane_at};
use super::rule::Micros;
use super::{Lane, Lanes, Order, Pick, Queues, Waits};

/// Lanes of requests that are slow.
const SLOW_LANES: [Lane; 2] = [Lane::Slow, Lane::Long];

impl Lanes {
    /// Who begins, of those that may.
    #[inline]
    pub fn pick<T: Waits>(&mut self, any_in_front: bool, queues: &Queues<T>) -> Pick {
        match self.beside(queues) {
            None if any_in_front => Pick::Front,
            None => Pick::Nobody,
            Some(_) if any_in_front && !self.front_was_last => {
                self.front_was_last = true;
                Pick::Front
            }
            Some(place) => {
                self.front_was_last = false;
                self.last = place;
                Pick::Next(lane_at(place))
            }
        }
    }

    /// True: somebody who waits beside the front may begin.
    #[inline]
    pub fn admits_any<T: Waits>(&self, queues: &Queues<T>) -> bool {
        !queues.is_empty() && self.beside(queues).is_some()
    }

    /// The next queue that may go on: they take turns.
    fn beside<T: Waits>(&self, queues: &Queues<T>) -> Option<usize> {
        let admits_others = self.admits_others();
        if queues.is_empty() || !admits_others && !self.may_admit_last() && queues.limited() == 0 {
            return None;
        }
        // While those are inside of which it is not known yet whether they are slow, nobody unknown is tried beside them: a
        // crowd of one kind comes all at once.
        let admits_last = self.may_admit_last() && self.inside.young() == 0;
        // Whoever is slow has it where nobody else has wanted it for a while: a crowd may come one by one.
        let order = Order { now: self.looked_us / 1000, after: LONE_MS };
        let admits_lone = self.may_admit_last()
            && !self.early.knows_quick
            && queues.len() - queues.limited() == 1
            && queues.is_overload(order);
        let slow = SLOW_LANES
            .into_iter()
            .filter(|&lane| admits_others && (lane != Lane::Long || self.admits_long()) || admits_lone);
        // Of those that are slow the first to come is the next, whichever lane it is in.
        let next =
            slow.filter_map(|lane| Some((queues.oldest_in(lane)?, lane))).min_by_key(|&(since, _)| since);
        let all = AUTOMATIC + self.limits.len();
        (1..=all).map(|further| (self.last + further) % all).find(|&place| match lane_at(place) {
            lane if queues.waiting(lane) == 0 => false,
            // Whoever is quick may have a thread that is kept, here as well.
            lane @ Lane::Limited(limit) => {
                !self.limits.is_reached(limit) && (admits_others || queues.are_quick(lane))
            }
            Lane::Unknown | Lane::Express => admits_others || admits_last,
            lane => next.is_some_and(|(_, next)| next == lane),
        })
    }

    /// True: a thread is free that is kept, but not as the rule has asked for it: on it may be tried what nobody knows.
    #[inline]
    fn may_admit_last(&self) -> bool {
        self.kept_for_sure() == 0 && self.others_inside() < self.threads
    }

    /// True: it is about to be known whether those that are inside are slow, and who waits may begin then. Nothing else
    /// tells of that.
    pub fn are_watched(&self) -> bool {
        self.may_admit_last() && self.inside.young() > 0 && !self.admits_others()
    }

    /// True: there is a thread for a request that is not known to be quick, beside those that are kept.
    #[inline]
    pub fn admits_others(&self) -> bool {
        self.others_inside() + self.kept() < self.threads
    }

    /// True: beside the calls of the longest routes that are inside there are threads for those which are only slow. False: one more
    /// of the longest waits for one of them, and not for any thread.
    pub fn admits_long(&self) -> bool {
        self.room_for_long() > 0
    }

    /// So many requests of the longest routes may begin, as far as threads are kept for slow ones.
    fn room_for_long(&self) -> u32 {
        let kept = self.split.and_then(|split| split.long).map_or(0, |long| long.reserve);
        self.threads.saturating_sub(self.inside.longest() + self.kept() + kept)
    }

    /// How many are inside that take as long as the longest do.
    pub fn longest_inside(&self) -> u32 {
        self.inside.longest()
    }

    /// True: a call that took so long counted among those, in the end.
    pub fn is_longest(&self, took_us: Micros) -> bool {
        self.split.and_then(|split| split.long).is_some_and(|long| took_us >= long.at_us)
    }

    /// How many are inside that do not count as quick.
    #[inline]
    pub fn others_inside(&self) -> u32 {
        self.out.saturating_sub(self.inside.quick())
    }

    /// So many requests of a lane may begin at once, or soon.
    pub fn room_for(&self, lane: Lane) -> u32 {
        let room = self.threads.saturating_sub(self.others_inside() + self.kept_for_sure());
        match lane {
            Lane::Long => room.min(self.room_for_long()),
            _ => room,
        }
    }

    /// Threads that are kept for quick routes.
    #[inline]
    pub fn kept(&self) -> u32 {
        self.kept_for_sure().max(u32::from(self.has_lanes() && self.early.keeps()))
    }

    /// The same, as the rule says, and one where lanes are said by hand.
    #[inline]
    fn kept_for_sure(&self) -> u32 {
        let by_rule = self.split.map_or(0, |split| split.reserve);
        by_rule.max(u32::from(self.always && !self.by_hand.lanes.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ByHand;
    use super::super::rule::{Long, Split};
    use super::*;

    const MS: Micros = 1_000;
    const REPORT: (&[u8], &[u8]) = (b"GET", b"/report");

    /// Of 32 threads one is kept for what is quick, and eight for what is only slow.
    fn lanes() -> Lanes {
        let mut lanes = Lanes::new(32, &ByHand::default());
        lanes.wake();
        lanes.split =
            Some(Split { at_us: 5 * MS, reserve: 1, long: Some(Long { at_us: 500 * MS, reserve: 8 }) });
        lanes
    }

    /// So many reports begin.
    fn begin(lanes: &mut Lanes, many: u32) {
        for _ in 0..many {
            let name = lanes.name(REPORT.0, REPORT.1);
            let mut mark = lanes.judge(name, REPORT, REPORT.1.into());
            mark.lane = Some(Lane::Long);
            lanes.goes_out();
            lanes.begin(&mut mark, REPORT, 1_000 * MS);
        }
    }

    #[test]
    fn what_takes_much_longer_leaves_threads_to_what_is_only_slow() {
        for (inside, long, slow, next) in
            [(0, 23, 31, Lane::Long), (22, 1, 9, Lane::Long), (23, 0, 8, Lane::Slow), (30, 0, 1, Lane::Slow)]
        {
            let mut lanes = lanes();
            begin(&mut lanes, inside);
            assert_eq!((lanes.room_for(Lane::Long), lanes.room_for(Lane::Slow)), (long, slow), "{inside}");
            assert_eq!(lanes.admits_long(), inside < 23, "{inside}");
            let mut queues = Queues::default();
            queues.push(Lane::Long, 0, 1);
            queues.push(Lane::Slow, 0, 2);
            assert_eq!(lanes.pick(false, &queues), Pick::Next(next), "{inside}");
        }
        let mut lanes = lanes();
        begin(&mut lanes, 31);
        let mut queues = Queues::default();
        queues.push(Lane::Slow, 0, 1);
        assert_eq!(lanes.pick(false, &queues), Pick::Nobody, "one is kept for what is quick");
    }

    #[test]
    fn of_slow_requests_whoever_came_first_is_next() {
        for (long_since, slow_since, next) in [(1, 2, Lane::Long), (2, 1, Lane::Slow), (1, 1, Lane::Slow)] {
            for last in 0..4 {
                let mut lanes = lanes();
                lanes.last = last;
                let mut queues = Queues::default();
                queues.push(Lane::Long, 0, long_since);
                queues.push(Lane::Slow, 0, slow_since);
                assert_eq!(lanes.pick(false, &queues), Pick::Next(next), "{long_since} {slow_since}");
            }
        }
    }

    #[test]
    fn a_call_was_one_of_the_longest_by_what_it_took() {
        let mut lanes = lanes();
        for (took_us, is_longest) in [(500 * MS - 1, false), (500 * MS, true)] {
            assert_eq!(lanes.is_longest(took_us), is_longest, "{took_us}");
        }
        lanes.split = None;
        assert!(!lanes.is_longest(Micros::MAX), "nothing is told apart");
    }
}
