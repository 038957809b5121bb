//! More threads before it is known what they finish: where calls take long, whoever waits would be refused before any has ended.
//!
//! Knows: windows of figures. Does not know: how it is judged whether more finish more (`growth.rs`). Calls that were inside
//! before the first step say what the threads before could finish: so many in as long as these take, once nearly all of them
//! have ended (of the first ones to end it would be the short ones). That is compared with what all threads finish later.

use wire::Millis;

use super::window::ROUNDS;
use super::{
    Change, Early, FAILURES, Growth, LONGEST_REST_MS, LONGEST_TRIAL_MS, Memory, REST_MS, Trial, Window,
};

/// Calls of which so few end that each would take as long as that, in milliseconds, are not waited for.
const LONG_MS: f64 = 7_000.0;
/// A next step is made when requests have waited for so many windows more.
const STEP_WINDOWS: u32 = 2;
/// So many of those that were inside before have ended, or fewer where the others have been inside for so many times as long: they
/// were quick ones, which are not counted.
const NEARLY_ALL: f64 = 0.9;
const MANY: f64 = 0.25;
const LONGER_THAN_OTHERS: f64 = 30.0;

/// More threads must finish more: so much of the share that is more of them inside. Of some thirty calls the average is known
/// by a fifth.
pub(super) const GAIN: f64 = 0.25;
/// So much more is not finished by chance.
const MORE: f64 = 0.15;

/// More than before, step by step.
#[derive(Debug, Default)]
pub(super) struct Climb {
    begun: Millis,
    /// Since requests wait.
    seen: Window,
    /// Windows in a row in which they have, since the last step, and how long ago that was.
    pressed: u32,
    since_ms: Millis,
    /// Of those that were inside at the first step.
    early: Early,
    /// It is known what the threads before could finish.
    compared: bool,
}

impl Climb {
    /// What so many calls that were inside before say of the threads there were, if enough of them have ended.
    fn before(&self, inside: f64, now: Millis) -> Option<Window> {
        let inside = inside.round().max(1.0) as u64;
        let Early { done, failed, took_ms } = self.early;
        let age_ms = now.saturating_sub(self.begun);
        let mean_ms = took_ms.checked_div(done)?;
        let are_left_out =
            done as f64 >= MANY * inside as f64 && age_ms as f64 >= LONGER_THAN_OTHERS * mean_ms as f64;
        let (calls, ms) = if done as f64 >= NEARLY_ALL * inside as f64 {
            // Whoever is still there takes as long again as others have, going by calls of which some take several times as long.
            let rest = inside.saturating_sub(done);
            (done + rest, (took_ms + rest * (age_ms + mean_ms)) / (done + rest))
        } else if are_left_out {
            (done, mean_ms)
        } else {
            return None;
        };
        Some(Window { ms: ms.max(1), done: calls, failed, looks: 1, busy: calls, ..Window::default() })
    }
}

impl Growth {
    /// Calls that were begun before are counted apart ([`Window::early`]).
    pub fn climbs_since(&self) -> Option<Millis> {
        self.trial.as_ref()?.climb.as_ref().map(|climb| climb.begun)
    }

    /// Requests wait, and there may be more threads though hardly any call has ended since they do (`seen`): they are inside, and
    /// do not compute. That quick requests beside take a whole processor says nothing of them.
    pub(super) fn may_climb(&self, seen: &Window, window: &Window, short_of: Option<Memory>) -> bool {
        let are_inside = window.inside() >= f64::from(self.threads) / 2.0;
        let may_be_more = self.threads < self.most && short_of.is_none() && !window.is_burning();
        may_be_more && are_inside && seen.call_ms() >= LONG_MS
    }

    pub(super) fn begin_climb(&mut self, window: &Window, now: Millis) -> Change {
        let seen = std::mem::take(&mut self.seen);
        let from = self.threads;
        let why = self.step_up(&seen);
        self.told = None;
        self.trial = Some(Trial {
            from,
            // Until it is known: how many were inside.
            before: *window,
            after: Window::default(),
            begun: true,
            closer: false,
            climb: Some(Climb { begun: now, seen, ..Climb::default() }),
        });
        Change { threads: self.threads, why }
    }

    /// Half as many more, and why.
    fn step_up(&mut self, seen: &Window) -> String {
        self.threads = (self.threads + (self.threads / 2).max(1)).min(self.most);
        let (wait_ms, seconds) = (seen.wait_ms(), seen.ms / 1000);
        let ended = match seen.done {
            0 => "none has".to_owned(),
            1 => "one has".to_owned(),
            done => format!("{done} have"),
        };
        format!(
            "requests wait {wait_ms:.0} ms for one, and in {seconds} s {ended} ended: what more finish is seen later"
        )
    }

    /// A window has passed since there are more.
    pub(super) fn climb(
        &mut self,
        mut trial: Trial,
        window: &Window,
        short_of: Option<Memory>,
        now: Millis,
    ) -> Option<Change> {
        let climb = trial.climb.as_mut()?;
        let is_pressed = window.is_pressed();
        if !is_pressed && window.inside() <= f64::from(trial.from) / 2.0 {
            return Some(self.back(&trial, "nobody waits any more".into()));
        }
        climb.seen.add(window);
        climb.early = climb.early.and(window.early);
        climb.since_ms += window.ms;
        climb.pressed = if is_pressed { climb.pressed + 1 } else { 0 };
        if climb.pressed >= STEP_WINDOWS {
            let change = if self.may_climb(&climb.seen, window, short_of) {
                (climb.pressed, climb.since_ms) = (0, 0);
                trial.after = Window::default();
                let why = self.step_up(&climb.seen);
                Some(Change { threads: self.threads, why })
            } else {
                self.stay(short_of, climb.seen.wait_ms())
            };
            if change.is_some() {
                self.trial = Some(trial);
                return change;
            }
        }
        if !climb.compared {
            if let Some(before) = climb.before(trial.before.inside(), now) {
                (climb.compared, trial.before) = (true, before);
            }
        } else if climb.since_ms as f64 >= (trial.before.ms as f64).min(LONGEST_TRIAL_MS) {
            trial.after.add(window);
        }
        let after = &trial.after;
        let rounds = |of: f64| ROUNDS * of;
        let is_enough = after.is_enough_for_half()
            || after.ms as f64 >= rounds(trial.before.ms as f64)
                && after.done as f64 >= rounds(trial.before.inside());
        if !is_enough {
            self.trial = Some(trial);
            return None;
        }
        Some(self.judge_climb(&trial, now))
    }

    /// It is known what all of them finish.
    fn judge_climb(&mut self, trial: &Trial, now: Millis) -> Change {
        let Trial { before, after, .. } = trial;
        if !after.is_pressed() && after.inside() <= before.inside() {
            return self.back(trial, "nobody waits any more".into());
        }
        let change = after.rate() / before.rate() - 1.0;
        let climbed = self.threads;
        let mut judged = self.judge_more(trial, change);
        if !self.downward {
            self.climb_rest_ms = REST_MS;
            return judged;
        }
        self.climb_after = now + self.climb_rest_ms;
        self.climb_rest_ms = (self.climb_rest_ms * 2).min(LONGEST_REST_MS);
        self.drains_until = now + (after.call_ms().min(LONGEST_TRIAL_MS) as Millis);
        self.seen = *after;
        if after.failing() < FAILURES && change >= MORE {
            // So many finish as much as all did, where each call takes as long as before (Little's law), and one is kept.
            let enough = (before.inside() * (1.0 + change)).ceil() as u32 + 1;
            self.threads = enough.clamp(trial.from, climbed);
            self.downward = false;
            judged.threads = self.threads;
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::START;

    const WINDOW_MS: Millis = 500;

    /// So many clients, of calls none of which ends.
    struct Hanging {
        clients: u32,
        burns: u64,
        came: u64,
        cpu_ms: u64,
        short_of: Option<Memory>,
    }

    const HUNDRED: Hanging = Hanging { clients: 100, burns: 20, came: 0, cpu_ms: 20, short_of: None };

    impl Hanging {
        fn window(&self, threads: u32) -> Window {
            let inside = self.clients.min(threads - 1);
            let waiting = self.clients - inside;
            Window {
                ms: WINDOW_MS,
                looks: 250,
                waits: if waiting > 0 { 250 } else { 0 },
                waiting: u64::from(waiting) * 250,
                busy: u64::from(inside) * 250,
                longest_ms: Some(3_000),
                burns: self.burns,
                came: self.came,
                cpu_us: self.cpu_ms * 1000,
                ..Window::default()
            }
        }

        /// What is told of so many windows.
        fn play(&self, growth: &mut Growth, windows: std::ops::Range<u64>) -> Vec<Change> {
            let play = windows.filter_map(|at| {
                let window = self.window(growth.threads());
                growth.look(&window, self.short_of, at * WINDOW_MS)
            });
            play.collect()
        }
    }

    fn threads(changes: &[Change]) -> Vec<u32> {
        changes.iter().map(|change| change.threads).collect()
    }

    #[test]
    fn while_none_ends_there_are_half_as_many_more_each_second_until_nobody_waits() {
        let mut growth = Growth::new(128);
        assert_eq!(HUNDRED.play(&mut growth, 0..5), [], "for three seconds it is waited for calls that end");
        assert_eq!((growth.climbs_since(), growth.may_come_to(0)), (None, 128));
        let changes = HUNDRED.play(&mut growth, 5..40);
        assert_eq!(threads(&changes), [48, 72, 108]);
        assert_eq!(
            changes[0].why,
            "requests wait 3000 ms for one, and in 3 s none has ended: what more finish is seen later"
        );
        assert_eq!(growth.climbs_since(), Some(5 * WINDOW_MS), "calls that were begun before count apart");
        assert_eq!(growth.may_come_to(20_000), 128, "nobody is refused by what fewer finish");
        let more = Hanging { clients: 120, ..HUNDRED };
        assert_eq!(threads(&more.play(&mut growth, 40..60)), [128], "and more where more come");
    }

    #[test]
    fn there_are_no_more_than_may_be_or_than_there_is_memory_for_or_where_threads_compute() {
        for (most, expected) in [(47, vec![47, 47]), (48, vec![48, 48]), (49, vec![48, 49, 49])] {
            let changes = HUNDRED.play(&mut Growth::new(most), 0..15);
            assert_eq!(threads(&changes), expected);
        }
        let poor = Hanging { short_of: Some(Memory::Container), ..HUNDRED };
        assert_eq!(threads(&poor.play(&mut Growth::new(128), 0..10)), []);
        let burning = [
            (124, 0, 374, true),
            (125, 0, 374, false),
            (0, 99, 375, false),
            (0, 100, 500, true),
            (125, 100, 500, false),
        ];
        for (burns, came, cpu_ms, climbs) in burning {
            let changes = Hanging { burns, came, cpu_ms, ..HUNDRED }.play(&mut Growth::new(128), 0..10);
            assert_eq!(!changes.is_empty(), climbs, "{burns} of 250 looks, {cpu_ms} ms, {came} requests");
        }
        for (inside, climbs) in [(15, false), (16, true), (17, true)] {
            let mut growth = Growth::new(128);
            let window = Window { busy: inside * 250, ..HUNDRED.window(START) };
            let any = (0..10).any(|at| growth.look(&window, None, at * WINDOW_MS).is_some());
            assert_eq!(any, climbs, "{inside} of {START} are inside");
        }
    }

    #[test]
    fn that_there_may_be_no_more_of_them_is_told_once_though_nothing_is_known_yet() {
        let mut growth = Growth::new(40);
        let changes = HUNDRED.play(&mut growth, 0..50);
        assert_eq!(threads(&changes), [40, 40]);
        assert_eq!(changes[1].why, "requests wait 3000 ms for one, and --threads-max allows no more");
        assert_eq!(growth.climbs_since(), Some(5 * WINDOW_MS), "what they finish is judged as ever");
        let poor = Hanging { short_of: Some(Memory::Worker), ..HUNDRED };
        let mut growth = Growth::new(128);
        HUNDRED.play(&mut growth, 0..6);
        let [told] = &*poor.play(&mut growth, 6..50) else { panic!("once") };
        assert!(told.threads == 48 && told.why.contains("there is no memory"), "{told:?}");
    }

    #[test]
    fn where_fewer_are_inside_than_before_and_nobody_waits_nothing_is_compared() {
        let mut growth = Growth::new(128);
        HUNDRED.play(&mut growth, 0..20);
        let left = Hanging { clients: 20, ..HUNDRED };
        let mut window = left.window(growth.threads());
        window.early = Early { done: 31, failed: 0, took_ms: 310_000 };
        assert_eq!(growth.look(&window, None, 10_000), None);
        (window.early, window.done) = (Early::default(), 1);
        let change =
            (21..500).find_map(|at| growth.look(&window, None, at * WINDOW_MS)).expect("it is judged");
        assert_eq!((change.threads, &*change.why), (START, "nobody waits any more"));
        assert_eq!(
            threads(&HUNDRED.play(&mut growth, 501..520)),
            [48, 72, 108],
            "and more are tried at once"
        );
    }

    #[test]
    fn they_stay_while_all_hang_and_go_when_nobody_is_there_any_more() {
        let mut growth = Growth::new(128);
        HUNDRED.play(&mut growth, 0..20);
        assert_eq!(HUNDRED.play(&mut growth, 20..2_000), [], "for a quarter of an hour");
        for (clients, threads) in [(START / 2 + 1, 108), (START / 2, START)] {
            Hanging { clients, ..HUNDRED }.play(&mut growth, 2_000..2_001);
            assert_eq!(growth.threads(), threads, "{clients} are left");
        }
        assert_eq!(growth.climbs_since(), None);
    }

    /// Windows in which those that were there before end after ten seconds, of whom so many have failed, and all others are
    /// done at such a rate: what is told at last.
    fn judged(rate: u64, failed: u64) -> (u32, String) {
        let mut growth = Growth::new(128);
        HUNDRED.play(&mut growth, 0..20);
        let mut window = HUNDRED.window(growth.threads());
        window.early = Early { done: 31, failed: 0, took_ms: 310_000 };
        assert_eq!(growth.look(&window, None, 10_000), None);
        window.early = Early::default();
        (window.done, window.failed) = (rate / 2, rate / 2 * failed / 100);
        let change = (21..500).find_map(|at| growth.look(&window, None, at * WINDOW_MS));
        let change = change.expect("it is judged");
        (change.threads, change.why)
    }

    #[test]
    fn whether_more_finish_more_is_seen_by_those_that_were_inside_before() {
        // 31 in ten seconds; a hundred are 223 % more.
        let (threads, why) = judged(10, 0);
        assert_eq!((threads, &*why), (108, "223 % more requests inside, 223 % more finished"));
        let (threads, why) = judged(4, 0);
        assert_eq!(
            (threads, &*why),
            (41, "223 % more requests inside, 29 % more finished"),
            "as many as that takes"
        );
        let (threads, why) = judged(2, 0);
        assert_eq!((threads, &*why), (START, "223 % more requests inside, 35 % fewer finished"));
        let (threads, why) = judged(10, 50);
        assert_eq!(threads, START, "{why}");
    }

    #[test]
    fn of_those_that_were_inside_nearly_all_have_to_end_or_a_quarter_where_the_rest_is_there_for_far_longer()
    {
        let climb = |done, took_ms| Climb { early: Early { done, failed: 0, took_ms }, ..Climb::default() };
        let rate = |climb: Climb, now| climb.before(30.0, now).map(|window| (window.done, window.ms));
        assert_eq!(rate(climb(26, 26_000), 2_999), None);
        assert_eq!(rate(climb(27, 27_000), 1_500), Some((30, 1_150)), "the others take as long again");
        assert_eq!(rate(climb(8, 8_000), 29_999), None);
        assert_eq!(rate(climb(8, 8_000), 30_000), Some((8, 1_000)), "the others do not count");
        assert_eq!(rate(climb(7, 7_000), 60_000), None);
        assert_eq!(rate(climb(0, 0), 60_000), None);
    }
}
