//! Requests in lanes: who waits at the front, who beside it, and who begins.
//!
//! Knows: the queues. Does not know: which routes are slow, or how many threads are kept (`lanes.rs`). Runs under the
//! baton; while lanes are asleep nothing here is reached but by a call that comes back late.

use reactor::sys::monotonic_us;
use wire::{Head, Millis};

use super::{LATE_MS, Requests};
use crate::exchange::Exchange;
use crate::lanes::{End, Lane, Lanes, Outcome, Pick};
use crate::log::Level;
use crate::mounted::Mounted;
use crate::poller::Poller;

/// While somebody waits in a lane, lanes are looked at so often at least, ...
const LOOK_MS: Millis = 200;
/// ... and so soon where it is about to be known whether those that are inside are slow.
const LOOK_SOON_MS: Millis = 3;
/// So often the supervisor is told who waits.
const TELL_MS: Millis = 2_000;
/// So often it is logged, where it is always about the same routes.
const LOG_MS: Millis = 600_000;
/// Replies that say that the client should not have asked: perhaps there is no such route (RFC 9110 §15.5).
const REFUSED: std::ops::Range<u16> = 400..500;

/// What was said of those that wait.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Millis,
    logged: Millis,
    routes: Vec<String>,
    /// When it may be logged again that the oldest has waited for too long.
    overload: Millis,
}

impl Requests {
    /// Puts the request that begins now to the front. False: none does.
    #[inline(never)]
    pub(super) fn choose(&mut self, poller: &mut Poller) -> bool {
        let now_us = monotonic_us();
        self.chosen_us = now_us;
        self.lanes.set_threads(self.engine.threads());
        self.teach_lanes(poller, now_us);
        self.hear_of_long_calls(now_us);
        self.lanes.look(now_us, !self.lined_up.is_empty());
        if !self.lined_up.is_empty() {
            self.measure_lanes(now_us / 1000);
        }
        let begins = loop {
            self.clear_front();
            match self.lanes.pick(!self.batch.is_empty(), &self.lined_up) {
                Pick::Front => {
                    self.turn_front(now_us / 1000);
                    break true;
                }
                Pick::Nobody => break false,
                Pick::Next(lane) => {
                    if self.bring_to_front(lane) {
                        break true;
                    }
                }
            }
        };
        self.note_computing();
        self.note_lined_up(poller);
        self.say_who_waits(poller.now);
        begins
    }

    /// Looks how fast those are done that others wait for in lanes.
    fn measure_lanes(&mut self, now: Millis) {
        self.slow_throughput.measure(now, self.lanes.others_inside());
        // How fast those end tells something where others wait for one of them: of one or two that are inside one may end late.
        if self.lined_up.waiting(Lane::Long) > 0 && !self.lanes.admits_long() {
            self.long_throughput.measure(now, self.lanes.longest_inside());
        }
        if self.lined_up.limited() == 0 {
            return;
        }
        let limits = self.engine.config.by_hand.limits.iter();
        for (place, (throughput, (_, most))) in self.limited_throughput.iter_mut().zip(limits).enumerate() {
            // While somebody waits there as many are inside as may be.
            if self.lined_up.waiting(Lane::Limited(place as u8)) > 0 {
                throughput.measure(now, (*most).min(self.engine.threads()));
            }
        }
    }

    /// Lanes that have just woken hear which routes were quick while they slept.
    #[inline]
    fn teach_lanes(&mut self, poller: &Poller, now_us: u64) {
        if self.lanes.have_just_woken() {
            for (name, mean_us) in poller.statistics.quick_routes() {
                self.lanes.learn(&name, mean_us, now_us);
            }
        }
    }

    /// Lanes hear what another worker has found to compute for long: when the first of such calls begins here, its worker's clients
    /// leave before.
    fn hear_of_long_calls(&mut self, now_us: u64) {
        let Some(bell) = &self.engine.config.bell else { return };
        let told = bell.long_calls().told();
        if told == self.long_calls_heard {
            return;
        }
        self.long_calls_heard = told;
        for (name, used_us) in bell.long_calls().all() {
            self.lanes.learn_used(&name, used_us, now_us);
        }
    }

    /// Whoever is not known to be quick waits beside the front.
    fn clear_front(&mut self) {
        while let Some(front) = self.batch.at(0) {
            judged(front, &self.engine.config.mounted, &mut self.lanes);
            let lane = self.lanes.place_behind(&front.lane, &self.lined_up);
            if lane == Lane::Express || front.is_for_the_server() {
                break;
            }
            if let Some(front) = self.batch.take_oldest() {
                self.line_up(lane, front);
            }
        }
    }

    /// The next of a lane comes to the front. False: it has to wait elsewhere, as its route has a limit.
    fn bring_to_front(&mut self, lane: Lane) -> bool {
        let order = self.order(self.chosen_us / 1000);
        let (end, next) = loop {
            let Some((end, mut next)) = self.lined_up.pop(lane, order) else { return false };
            if lane == Lane::Unknown {
                judged_again(&mut next, &self.engine.config.mounted, &mut self.lanes);
                if let Some(slow @ (Lane::Slow | Lane::Long)) = next.lane.lane {
                    let share = self.share_of(&mut next);
                    self.lined_up.push(slow, share, next);
                    continue;
                }
            }
            break (end, next);
        };
        if let limited @ Lane::Limited(_) = self.lanes.place(&next.lane) {
            let mut next = next;
            let share = self.share_of(&mut next);
            self.lined_up.push(limited, share, next);
            return false;
        }
        if end == End::Newest && self.lined_up.waiting(lane) > 0 {
            self.engine.counters.requests_newest_first.add();
        }
        self.batch.put_back(0, next);
        true
    }

    /// A request is begun.
    #[inline(never)]
    pub(super) fn enter_lane(&mut self, exchange: &mut Exchange) {
        judged(exchange, &self.engine.config.mounted, &mut self.lanes);
        let mut mark = exchange.lane;
        self.lanes.begin(&mut mark, (exchange.head.method(), exchange.head.path()), self.chosen_us);
        if mark.ticket.is_some() {
            exchange.late_from = 0;
        }
        exchange.lane = mark;
        self.note_computing();
    }

    /// A request has come back that was begun in a lane, or is late. `looked`: when the last look was. Most are neither.
    #[cold]
    pub(super) fn leave_lane(&mut self, exchange: &mut Exchange, looked: Millis) {
        let now_us = monotonic_us();
        if exchange.lane.ticket.is_none() {
            // While it was inside it did not count as quick.
            self.slow_throughput.count();
            let took_us = (looked - exchange.late_from + LATE_MS) * 1000;
            self.count_long(exchange.lane.lane, took_us);
            self.engine.lined_up.count(exchange.status(), now_us, took_us);
            let name = name_of(&exchange.head, &mut self.lanes);
            let route = (exchange.head.method(), exchange.head.path());
            return self.lanes.note_late(name, route, took_us, now_us);
        }
        let limit = exchange.lane.limit.map(usize::from);
        if let Some(throughput) = limit.and_then(|limit| self.limited_throughput.get_mut(limit)) {
            throughput.count();
        }
        let is_refused = REFUSED.contains(&exchange.status());
        let outcome = if is_refused { Outcome::Refused } else { Outcome::Answered };
        let used_us = exchange.used_cpu_us();
        let waited_us = self.engine.computing.waited_at() * 1000;
        if exchange.lane.computes() {
            self.engine.computing.ended(used_us.unwrap_or(exchange.lane.computes_us()));
        }
        let used = used_us.map(|used_us| (used_us, waited_us));
        let is_told_apart = self.lanes.split().is_some();
        self.engine.lined_up.note_told_apart(is_told_apart);
        let took_us = self.lanes.end(&mut exchange.lane, now_us, outcome, used);
        let was_long = took_us >= self.lanes.long_us();
        if exchange.lane.lane != Some(Lane::Express) || !is_told_apart {
            self.engine.lined_up.count(exchange.status(), now_us, took_us);
        }
        // Who waits in the slow lane waits for all that are long: for those as well of which nothing was known when they began.
        if was_long || exchange.lane.lane == Some(Lane::Slow) {
            self.slow_throughput.count();
        }
        self.count_long(exchange.lane.lane, took_us);
        if let Some((name, used_us)) = self.lanes.take_news()
            && let Some(bell) = &self.engine.config.bell
        {
            self.engine
                .log
                .debug(|| format!("{name} computes for {} ms: other workers know", used_us / 1000));
            bell.long_calls().tell(&name, used_us);
        }
        self.note_computing();
    }

    /// The same for those that take much longer: by their lane or, as they count inside, by what they took.
    fn count_long(&mut self, lane: Option<Lane>, took_us: u64) {
        if lane == Some(Lane::Long) || self.lanes.is_longest(took_us) {
            self.long_throughput.count();
        }
    }

    /// One that was taken is not begun now. Given back where it waits at the front, and not in a lane.
    pub(super) fn leave_unbegun(&mut self, mut exchange: Box<Exchange>) -> Option<Box<Exchange>> {
        self.lanes.end(&mut exchange.lane, monotonic_us(), Outcome::Unbegun, None);
        self.note_computing();
        match self.lanes.place(&exchange.lane) {
            Lane::Express => return Some(exchange),
            _ => self.goes_first(exchange),
        }
        None
    }

    /// One that was taken and has not been begun is the next of its lane, or of all.
    pub(super) fn goes_first(&mut self, mut exchange: Box<Exchange>) {
        match self.lanes.place(&exchange.lane) {
            Lane::Express => self.batch.put_back(0, exchange),
            lane => {
                self.lanes.wake();
                let share = self.share_of(&mut exchange);
                self.lined_up.put_back(lane, share, exchange);
            }
        }
    }

    /// Somebody waits in a lane and may begin.
    #[inline]
    pub fn may_begin_others(&self) -> bool {
        self.lanes.admits_any(&self.lined_up)
    }

    /// So many in lanes do not wait for a thread, but for others of their route.
    #[inline]
    pub fn limited(&self) -> usize {
        self.lined_up.limited()
    }

    /// Every thread is inside, or only those are left that are kept: from now on lengths are measured.
    pub fn wake_lanes(&mut self) {
        self.lanes.wake();
    }

    /// Looks at those that wait in lanes: some have waited too long, and some may begin though nothing has happened.
    pub fn look_at_lanes(&mut self, poller: &mut Poller) {
        if !self.lanes.are_awake() {
            return;
        }
        self.lanes.set_threads(self.engine.threads());
        self.teach_lanes(poller, monotonic_us());
        self.lanes.look(monotonic_us(), !self.lined_up.is_empty());
        self.note_computing();
        if !self.lined_up.is_empty() {
            self.measure_lanes(poller.now);
            self.refuse_those_that_waited(poller.now);
            self.note_lined_up(poller);
            self.tell_of_lanes(poller.now);
        }
    }

    /// Says why requests wait: to the supervisor now and then, to the log when it is about other routes than before.
    fn tell_of_lanes(&mut self, now: Millis) {
        let order = self.order(now);
        let overload = self.lined_up.is_overload(order);
        let is_news = overload && now >= self.told.overload;
        if now < self.told.at && !is_news {
            return;
        }
        self.told.at = now + TELL_MS;
        let Some((mut words, routes)) = self.lanes.words(&self.lined_up) else { return };
        if overload {
            let after = order.after as f64 / 1000.0;
            words.push_str(&format!(
                "; the oldest has waited for more than {after} s (--newest-first-after): the newest and the oldest begin in turn"
            ));
        }
        self.engine.report(&format!("lanes {words}"));
        let is_other = routes.iter().any(|route| !self.told.routes.contains(route));
        if is_other || is_news || now >= self.told.logged + LOG_MS {
            self.engine.log.say(Level::Info, &format!("lanes: {words} (docs/workers.md)"));
            self.told.routes = routes;
            self.told.logged = now;
            if overload {
                self.told.overload = now + LOG_MS;
            }
        }
    }

    /// How many compute is shown.
    #[inline]
    fn note_computing(&self) {
        self.engine.note_computing(self.lanes.computing(), self.lanes.burning());
    }

    /// Their number may have changed: it is shown, and somebody looks at them in time.
    #[inline]
    fn note_lined_up(&mut self, poller: &mut Poller) {
        let (waiting, limited) = self.beside_the_front();
        self.engine.note_queued(waiting, limited);
        if !self.lined_up.is_empty() {
            poller.wake_by(poller.now + LOOK_MS);
            if self.lanes.are_watched() {
                poller.wake_soon(LOOK_SOON_MS);
            }
        }
    }
}

/// Which lane a request belongs to is judged once, if there are any.
pub(super) fn judged(exchange: &mut Exchange, mounted: &Mounted, lanes: &mut Lanes) {
    if exchange.lane.lane.is_none() && lanes.are_awake() {
        let name = name_of(&exchange.head, lanes);
        let route = (exchange.head.method(), exchange.head.path());
        exchange.lane = lanes.judge(name, route, exchange.asked(mounted));
    }
}

/// The same once more, for one that has waited as nobody knew.
fn judged_again(exchange: &mut Exchange, mounted: &Mounted, lanes: &mut Lanes) {
    let name = name_of(&exchange.head, lanes);
    let route = (exchange.head.method(), exchange.head.path());
    let mut mark = exchange.lane;
    lanes.judge_again(&mut mark, name, route, exchange.asked(mounted));
    exchange.lane = mark;
}

/// What its route is known by: found out once for all requests with these bytes.
fn name_of(head: &Head, lanes: &mut Lanes) -> u64 {
    head.once(|head| lanes.name(head.method(), head.path()))
}
