//! What the user says of routes: which are slow or quick, how many requests of some may be inside at a time, and which are
//! refused first; and of clients, that they take turns.
//!
//! Knows: prefixes of paths. Does not know: what is measured. It goes before what is.

use std::borrow::Cow;

use super::{Lane, Lanes};
use crate::mounted::Asked;

/// A prefix of a path, decoded, and what is said of the routes below it.
pub type Below<T> = (Vec<u8>, T);

/// At which place the first prefix stands that a path begins with, as an application sees it: whoever writes one in
/// another way (`/%65xport`) gets around nothing that is said of it, and where the application is mounted is no part of it.
#[inline]
pub fn place_of<'a, T>(below: &[Below<T>], path: impl Into<Asked<'a>>) -> Option<usize> {
    if below.is_empty() {
        return None;
    }
    let path = path.into().path();
    below.iter().position(|(prefix, _)| path.starts_with(prefix))
}

/// What is said of a path.
#[inline]
pub fn said_of<'a, T: Copy>(below: &[Below<T>], path: impl Into<Asked<'a>>) -> Option<T> {
    place_of(below, path).map(|place| below[place].1)
}

/// How much a request matters when not all can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Low,
    Normal,
    High,
}

impl Priority {
    /// A request is refused if it would wait longer than patience allows, divided by this. For a usual one that is half
    /// of it: the estimate is one, and a refusal should come at once.
    pub fn part_of_patience(self) -> u64 {
        match self {
            Priority::Low => 4,
            Priority::Normal => 2,
            Priority::High => 1,
        }
    }
}

/// What clients are told apart by that take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FairBy {
    /// Their address, as trusted proxies tell it.
    Client,
    /// The value of a header.
    Header(String),
}

/// The first prefix that fits decides: longer ones come first.
#[derive(Debug, Clone, Default)]
pub struct ByHand {
    pub lanes: Vec<Below<Lane>>,
    /// Requests that may be inside at a time, in a worker.
    pub limits: Vec<Below<u32>>,
    pub priorities: Vec<Below<Priority>>,
    pub fair_by: Option<FairBy>,
}

impl ByHand {
    /// Nothing is said of routes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.limits.is_empty()
    }

    /// Some routes are said to be quick: a thread is kept for them, of as few as there are.
    pub fn says_quick(&self) -> bool {
        self.lanes.iter().any(|(_, lane)| *lane == Lane::Express)
    }

    /// What of this is said, by the names of its options.
    pub fn said(&self) -> Vec<&'static str> {
        let said = [
            (!self.lanes.is_empty(), "lanes"),
            (!self.limits.is_empty(), "route_limits"),
            (!self.priorities.is_empty(), "priorities"),
            (self.fair_by.is_some(), "fair_by"),
        ];
        said.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
    }

    /// The lane of a path, if it is said.
    pub fn lane<'a>(&self, path: impl Into<Asked<'a>>) -> Option<Lane> {
        said_of(&self.lanes, path)
    }

    /// Which priorities are lower than that of a path and may wait where it does, the lowest first.
    pub fn lower(&self, path: Asked<'_>) -> impl Iterator<Item = Priority> + use<> {
        let own = match self.priorities.is_empty() {
            true => Priority::Low,
            false => self.priority(path),
        };
        [Priority::Low, Priority::Normal].into_iter().filter(move |&lower| lower < own)
    }

    /// How much a path matters.
    pub fn priority<'a>(&self, path: impl Into<Asked<'a>>) -> Priority {
        said_of(&self.priorities, path).unwrap_or(Priority::Normal)
    }
}

/// What of it changes who is told apart.
impl Lanes {
    /// True: some routes are said to be quick, and there is a thread that can be kept for them.
    #[inline]
    pub(super) fn keeps_by_hand(&self) -> bool {
        self.always && self.quick_by_hand
    }

    /// Whoever is not known to be quick waits beside the front.
    #[inline]
    pub(super) fn tells_apart(&self) -> bool {
        self.has_lanes() || self.keeps_by_hand()
    }

    /// True: nobody is told apart, as the rule has found that all take about as long. Who is quick by hand is, whatever it has found.
    #[inline]
    pub(super) fn are_alike(&self) -> bool {
        self.alike && !self.keeps_by_hand()
    }
}

/// How many of those with a limit are inside.
#[derive(Debug, Default)]
pub struct RouteLimits {
    limits: Vec<Below<RouteLimit>>,
}

#[derive(Debug)]
struct RouteLimit {
    most: u32,
    inside: u32,
}

impl RouteLimits {
    pub fn new(limits: &[Below<u32>]) -> Self {
        let limits = limits.iter();
        Self {
            limits: limits
                .map(|(prefix, most)| (prefix.clone(), RouteLimit { most: *most, inside: 0 }))
                .collect(),
        }
    }

    /// Which limit a path is below.
    pub fn of<'a>(&self, path: impl Into<Asked<'a>>) -> Option<u8> {
        u8::try_from(place_of(&self.limits, path)?).ok()
    }

    /// How many limits there are.
    pub fn len(&self) -> usize {
        self.limits.len()
    }

    /// Below which path one is, and how many may be inside.
    pub fn told(&self, place: u8) -> Option<(Cow<'_, str>, u32)> {
        let (prefix, limit) = self.limits.get(usize::from(place))?;
        Some((String::from_utf8_lossy(prefix), limit.most))
    }

    /// As many are inside as may be.
    pub fn is_reached(&self, place: u8) -> bool {
        self.limits.get(usize::from(place)).is_some_and(|(_, limit)| limit.inside >= limit.most)
    }

    /// One begins.
    pub fn begins(&mut self, place: u8) {
        if let Some((_, limit)) = self.limits.get_mut(usize::from(place)) {
            limit.inside += 1;
        }
    }

    /// One has ended.
    pub fn ends(&mut self, place: u8) {
        if let Some((_, limit)) = self.limits.get_mut(usize::from(place)) {
            limit.inside = limit.inside.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn the_first_prefix_that_fits_decides() {
        let lanes = vec![(b"/export/tiny".to_vec(), Lane::Express), (b"/export".to_vec(), Lane::Slow)];
        let priorities = vec![(b"/feed".to_vec(), Priority::Low)];
        let by_hand = ByHand { lanes, priorities, ..ByHand::default() };
        assert_eq!(by_hand.lane(b"/export/tiny/1"), Some(Lane::Express));
        assert_eq!(by_hand.lane(b"/export/all"), Some(Lane::Slow));
        assert_eq!(by_hand.lane(b"/"), None);
        assert_eq!((by_hand.priority(b"/feed/1"), by_hand.priority(b"/")), (Priority::Low, Priority::Normal));
        assert_eq!(by_hand.lane(b"/%65xport%2Ftiny"), Some(Lane::Express), "as the application sees it");
    }

    #[test]
    fn a_limit_is_reached_by_as_many_as_it_says() {
        let mut limits = RouteLimits::new(&[(b"/export".to_vec(), 2)]);
        let place = limits.of(b"/export/all").expect("it is below it");
        assert_eq!((limits.of(b"/"), limits.of(b"/%2565xport")), (None, None), "it is decoded once");
        assert_eq!(limits.of(b"/e%78po%72t"), Some(place));
        for reached in [false, false, true] {
            assert_eq!(limits.is_reached(place), reached);
            if !reached {
                limits.begins(place);
            }
        }
        limits.ends(place);
        assert!(!limits.is_reached(place));
    }

    #[test]
    fn what_computes_is_known_by_its_calls_and_does_not_wait_where_it_is_said_to_be_quick() {
        let route: (&[u8], &[u8]) = (b"GET", b"/report");
        for (said, computes) in [(None, true), (Some(Lane::Slow), true), (Some(Lane::Express), false)] {
            let below = said.map(|lane| (b"/report".to_vec(), lane)).into_iter().collect();
            let mut lanes = Lanes::new(8, &ByHand { lanes: below, ..ByHand::default() });
            lanes.wake();
            let name = lanes.name(route.0, route.1);
            let mut first = lanes.judge(name, route, route.1.into());
            assert!(!first.computes(), "nobody has measured it");
            lanes.begin(&mut first, route, 1_000_000);
            lanes.end(&mut first, 1_060_000, Outcome::Answered, Some((40_000, 0)));
            let mut next = lanes.judge(name, route, route.1.into());
            lanes.begin(&mut next, route, 1_060_000);
            assert_eq!((next.computes(), lanes.computing()), (computes, u32::from(computes)), "{said:?}");
            assert_eq!(next.computes_us(), if computes { 40_000 } else { 0 });
        }
    }
}
