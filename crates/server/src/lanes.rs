//! Lanes: quick routes always find a thread, however many slow ones wait.
//!
//! Knows: which routes are slow (`lanes/rule.rs`), who is inside, and who may begin. Does not know: requests, queues or
//! clocks: times are arguments, in monotonic microseconds. Runs under the baton.
//!
//! ```text
//!                       ┌─ quick ──► the front: begun by whoever leads ──────────────────┐
//!   a request is read ──┼─ unknown ► a queue of their own ─┐ begun while enough threads ─┼──► inside
//!                       └─ slow ───► the slow lane ────────┘ are left for the quick      │
//! ```
//!
//! A request that is not known to be quick begins only while fewer of its kind are inside than there are threads that are
//! not kept: so the last thread leads, and plays what is quick. Nothing else changes: within a lane first come, first
//! served (but in overload: `lanes/order.rs`), and lanes that can go on take turns, so that none starves; what is unknown need
//! not wait behind what is slow.
//! A call that was begun as a quick one and takes as long as slow ones do counts as slow from then on.
//! One thread is kept before the rule can ask for it, too (`lanes/early.rs`).
//!
//! Nothing is measured while nothing is slow: lanes are asleep until a call has taken some milliseconds or half of the
//! threads are inside, and fall asleep again when there has been no slow call for a while.

mod admission;
mod by_hand;
mod early;
mod fair;
mod inside;
mod mark;
mod order;
mod pattern;
mod queues;
mod routes;
pub mod rule;
mod words;

use crate::mounted::Asked;
use by_hand::RouteLimits;
pub(crate) use by_hand::said_of;
pub use by_hand::{Below, ByHand, FairBy, Priority};
use early::Early;
pub use fair::SHARES;
use inside::Inside;
pub use inside::{Ticket, Used};
pub use mark::Mark;
pub use order::{End, Order, Waits};
pub use queues::Queues;
use routes::Routes;
pub use routes::{Computes, Outcome};
use rule::{FEWEST_THREADS, Figure, Micros, SLOW_US, Split};

/// How often those that are inside are looked at.
const LOOK_US: Micros = 2_000;
/// How often the rule is asked, ...
const DECIDE_US: Micros = 200_000;
/// ... and how soon again where what it said does not fit what is seen.
const DECIDE_AGAIN_US: Micros = 20_000;
/// Calls of one route that take long have many threads where they have one in so many.
const MANY: u32 = 8;
/// What takes less on average, its waits for the interpreter included, has not blocked.
const SHORT_US: Micros = 500;
/// After so long without a slow call lanes fall asleep.
const CALM_US: Micros = 2_000_000;

/// Where a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Its route is quick.
    Express,
    /// Nobody knows yet.
    Unknown,
    /// Its route is slow.
    Slow,
    /// Its route takes much longer than other slow ones.
    Long,
    /// As many of its route are inside as may be, by a limit of that number.
    Limited(u8),
}

/// Which request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The one at the front.
    Front,
    /// The next of a lane.
    Next(Lane),
    /// None: those that wait would take threads that are kept.
    Nobody,
}

/// The lanes of one loop.
pub struct Lanes {
    threads: u32,
    /// They never sleep, as something is said by hand.
    always: bool,
    /// Some routes are quick as somebody says so.
    quick_by_hand: bool,
    awake: bool,
    /// Requests that were begun and have not come back.
    out: u32,
    split: Option<Split>,
    routes: Routes,
    inside: Inside,
    /// Whose turn it was: the front's, and beside it that of the queue at this place.
    front_was_last: bool,
    last: usize,
    by_hand: ByHand,
    limits: RouteLimits,
    early: Early,
    /// Some routes are slow, and the rule has found that others are not so much quicker that they are told apart.
    alike: bool,
    /// What the rule has said does not fit what is seen.
    unsettled: bool,
    /// From so many that are out on somebody has a look: none while they are awake, half of the threads while they sleep.
    looked_at_from: u32,
    /// When they woke, once somebody has looked.
    woke_us: Option<Micros>,
    looked_us: Micros,
    decided_us: Micros,
    /// When a call was slow the last time.
    slow_us: Micros,
    figures: Vec<Figure>,
}

impl Lanes {
    /// `threads`: how many may be inside at a time. With few of them there are no lanes, unless somebody wants them.
    pub fn new(threads: u32, by_hand: &ByHand) -> Self {
        let always = !by_hand.is_empty() && threads > 1;
        let mut lanes = Self {
            threads,
            always,
            quick_by_hand: by_hand.says_quick(),
            awake: false,
            limits: RouteLimits::new(&by_hand.limits),
            by_hand: by_hand.clone(),
            out: 0,
            split: None,
            routes: Routes::default(),
            inside: Inside::default(),
            front_was_last: false,
            last: 1,
            early: Early::default(),
            alike: false,
            unsettled: false,
            looked_at_from: 0,
            woke_us: None,
            looked_us: 0,
            decided_us: 0,
            slow_us: 0,
            figures: Vec::new(),
        };
        lanes.set_awake(always);
        lanes
    }

    /// So many may be inside from now on.
    #[inline]
    pub fn set_threads(&mut self, threads: u32) {
        if self.threads != threads {
            self.threads = threads;
            self.unsettled = true;
            self.set_awake(self.awake);
        }
    }

    /// False: nothing is measured and nobody waits for a lane.
    #[inline]
    pub fn are_awake(&self) -> bool {
        self.awake
    }

    /// Something is slow: from now on it is measured.
    pub fn wake(&mut self) {
        if !self.awake && self.has_lanes() {
            self.set_awake(true);
            self.woke_us = None;
            // Whoever is next looks at once.
            self.looked_us = 0;
        }
    }

    fn set_awake(&mut self, awake: bool) {
        self.awake = awake;
        self.looked_at_from = match awake {
            true => 0,
            false if !self.has_lanes() => u32::MAX,
            false => self.threads / 2,
        };
    }

    /// A request is begun. True: its call is measured ([`Lanes::begin`]). While lanes sleep this is one comparison.
    #[inline]
    pub fn goes_out(&mut self) -> bool {
        self.out = self.out.wrapping_add(1);
        self.out >= self.looked_at_from && self.is_measured()
    }

    /// Where lanes sleep, so many are out that they are needed: from the next request on.
    #[cold]
    fn is_measured(&mut self) -> bool {
        let awake = self.awake;
        self.wake();
        awake
    }

    /// One that was begun comes back.
    #[inline]
    pub fn comes_back(&mut self) {
        self.out = self.out.wrapping_sub(1);
    }

    /// What the route of a request is known by, which can be kept with it; never zero.
    pub fn name(&mut self, method: &[u8], path: &[u8]) -> u64 {
        self.routes.names(method, path)
    }

    /// Which lane a request belongs to, of a route whose name that is. `path`: as it is compared with what is said by hand.
    #[inline]
    pub fn judge(&mut self, name: u64, route: (&[u8], &[u8]), path: Asked<'_>) -> Mark {
        let found = self.routes.find(name, route);
        let known = found.1.and_then(|place| self.routes.known(place));
        let mean_us = known.and_then(routes::Route::mean_us);
        let lane = match (mean_us, self.split) {
            // With so few threads nothing is slow but what is said, and what takes a thread from those that are quick
            // because it is said.
            (None, _) if self.tells_apart() => Lane::Unknown,
            (Some(mean_us), Some(split)) if mean_us >= split.at_us => split.lane_of(mean_us),
            // The rule has not been asked since it took so long, or keeps no thread, where one is kept all the same.
            (Some(mean_us), None) if mean_us >= SLOW_US && self.tells_apart() && !self.are_alike() => {
                Lane::Slow
            }
            _ => Lane::Express,
        };
        let short = mean_us.is_some_and(|mean_us| mean_us < SHORT_US);
        let computes = known.map_or(Computes::No, routes::Route::computes);
        let mut mark = Mark { route: found, lane: Some(lane), short, computes, ..Mark::default() };
        if !self.by_hand.is_empty() {
            match self.by_hand.lane(path) {
                // What is called quick does not wait, whatever is measured.
                Some(Lane::Express) => (mark.lane, mark.computes) = (Some(Lane::Express), Computes::No),
                // What is called slow may still be told apart from what is slower.
                Some(slow) if matches!(mark.lane, Some(Lane::Express | Lane::Unknown)) => {
                    mark.lane = Some(slow);
                }
                _ => {}
            }
            mark.limit = self.limits.of(path);
        }
        mark
    }

    /// The same once more, for one that has waited as nobody knew: by now somebody may.
    pub fn judge_again(&mut self, mark: &mut Mark, name: u64, route: (&[u8], &[u8]), path: Asked<'_>) {
        *mark = Mark { share: mark.share, ..self.judge(name, route, path) };
    }

    /// The share of a client, by what it is told apart by: of a keyed hash, so that nobody can choose whose it is.
    pub fn share(&self, client: &[u8]) -> u8 {
        (self.routes.hash_of(client) % fair::SHARES as u64) as u8
    }

    /// Where a request waits that has just come: not before those of its route that have come before it.
    #[inline]
    pub fn place_behind<T: Waits>(&self, mark: &Mark, queues: &Queues<T>) -> Lane {
        match mark.limit.map(Lane::Limited) {
            Some(limited) if queues.waiting(limited) > 0 => limited,
            _ => self.place(mark),
        }
    }

    /// Where a request waits that is not begun at once.
    #[inline]
    pub fn place(&self, mark: &Mark) -> Lane {
        match mark.limit.filter(|&limit| self.limits.is_reached(limit)) {
            Some(limit) => Lane::Limited(limit),
            None => mark.lane.unwrap_or(Lane::Express),
        }
    }

    /// With few threads there are only those that somebody wants.
    #[inline]
    fn has_lanes(&self) -> bool {
        self.threads >= FEWEST_THREADS
    }

    /// Nobody has looked since they woke: whoever knows of quick routes tells of them now ([`Lanes::learn`]).
    #[inline]
    pub fn have_just_woken(&self) -> bool {
        self.awake && self.woke_us.is_none()
    }

    /// A quick route of which somebody else knows, by its method and path: its calls take so long on average.
    pub fn learn(&mut self, name: &str, mean_us: Micros, now_us: Micros) {
        if self.tells_apart() && mean_us < SLOW_US && self.routes.learn(name, mean_us, now_us) {
            self.early.knows_quick = true;
        }
    }

    /// What the rule said the last time.
    pub fn split(&self) -> Option<Split> {
        self.split
    }

    /// A request is begun. Its mark is what [`Lanes::judge`] gave.
    pub fn begin(&mut self, mark: &mut Mark, route: (&[u8], &[u8]), now_us: Micros) {
        let route = self.routes.enter(mark.route, route, now_us);
        let lane = mark.lane.unwrap_or(Lane::Unknown);
        mark.ticket = self.inside.add(route, lane, mark.computes, now_us);
        if let (Some(_), Some(limit)) = (mark.ticket, mark.limit) {
            self.limits.begins(limit);
        }
    }

    /// One that was begun has come back: how long it has taken.
    pub fn end(&mut self, mark: &mut Mark, now_us: Micros, outcome: Outcome, used: Option<Used>) -> Micros {
        let Some(call) = mark.ticket.take().and_then(|ticket| self.inside.remove(ticket)) else {
            return 0;
        };
        if let Some(limit) = mark.limit {
            self.limits.ends(limit);
        }
        let took_us = now_us.saturating_sub(call.since_us);
        if let Some((used_us, waited_us)) = used {
            self.routes.used_cpu(call.route, used_us, waited_us >= call.since_us);
        }
        let mean_us = self.routes.leave(call.route, took_us, outcome);
        self.note(took_us, mean_us, now_us);
        took_us
    }

    /// One that was begun while lanes were asleep has come back late.
    pub fn note_late(&mut self, name: u64, route: (&[u8], &[u8]), took_us: Micros, now_us: Micros) {
        self.wake();
        if !self.awake {
            return;
        }
        let found = self.routes.find(name, route);
        let route = self.routes.enter(found, route, now_us);
        let mean_us = self.routes.leave(route, took_us, Outcome::Answered);
        self.note(took_us, mean_us, now_us);
    }

    /// A call has taken so long, and those of its route do so on average.
    fn note(&mut self, took_us: Micros, mean_us: Option<Micros>, now_us: Micros) {
        if took_us >= SLOW_US {
            self.slow_us = now_us;
        }
        // Whoever begins next finds a thread less, though the rule is asked later.
        self.early.knows_quick |= mean_us.is_some_and(|mean_us| mean_us < SLOW_US);
        self.unsettled |= mean_us.is_some_and(|mean_us| match self.split {
            None => mean_us >= SLOW_US,
            Some(split) => split.reserve == 0 && mean_us < split.at_us,
        });
    }

    /// From when on a call takes as long as slow ones do.
    pub fn long_us(&self) -> Micros {
        self.split.map_or(SLOW_US, |split| split.at_us)
    }

    /// Looks at those that are inside, and asks the rule, when it is time. `any_wait`: somebody is in the slow lane.
    #[inline]
    pub fn look(&mut self, now_us: Micros, any_wait: bool) {
        if now_us >= self.looked_us + LOOK_US {
            self.look_now(now_us, any_wait);
        }
    }

    fn look_now(&mut self, now_us: Micros, any_wait: bool) {
        self.looked_us = now_us;
        if self.woke_us.is_none() {
            self.woke_us = Some(now_us);
            self.slow_us = now_us;
            // What was decided before is old, and is asked for again.
            self.decided_us = now_us.saturating_sub(DECIDE_AGAIN_US);
            self.unsettled = true;
        }
        self.early.look(now_us, any_wait && self.others_inside() + 1 >= self.threads);
        self.routes.forget_long();
        self.inside.forget_computing(now_us);
        let (long_us, is_split) = (self.long_us(), self.split.is_some());
        let longest_us = self.split.and_then(|split| split.long).map(|long| long.at_us);
        let many = (self.threads / MANY).max(2);
        let (routes, unsettled) = (&mut self.routes, &mut self.unsettled);
        self.inside.overdue(now_us, (long_us, longest_us), |route, age_us| {
            let mean_us = routes.add_long(route, age_us, many);
            *unsettled |= !is_split && mean_us.is_some_and(|mean_us| mean_us >= SLOW_US);
        });
        let since_us = now_us.saturating_sub(self.decided_us);
        if since_us >= DECIDE_US || self.unsettled && since_us >= DECIDE_AGAIN_US {
            self.decide(since_us, now_us);
            let calm = now_us.saturating_sub(self.slow_us) >= CALM_US;
            self.set_awake(self.always || any_wait || self.inside.quick() < self.out || !calm);
        }
    }

    fn decide(&mut self, since_us: Micros, now_us: Micros) {
        self.figures.clear();
        self.routes.close_window(since_us, now_us, &mut self.figures);
        self.split = rule::split(&mut self.figures, self.threads, self.split);
        self.early.knows_quick = self.figures.iter().any(|figure| figure.mean_us < SLOW_US);
        self.alike = self.split.is_none() && self.figures.iter().any(|figure| figure.mean_us >= SLOW_US);
        self.decided_us = now_us;
        self.unsettled = false;
    }

    /// What is known of routes, for messages and tests: name, and how long calls take on average.
    pub fn known(&self) -> impl Iterator<Item = (&str, Micros)> {
        self.routes.all().filter_map(|route| Some((route.name(), route.mean_us()?)))
    }
}

#[cfg(test)]
mod tests;
