//! Threads become more or fewer while the server runs (`--threads auto`), or it is said that they could be more.
//!
//! Knows: where the figures are, and how much memory there is. Does not know: what follows from them (`growth.rs`), or
//! how threads begin and end. Runs on the watchdog's thread.

use reactor::sys::{container_memory, process_cpu_ns, proportional_bytes, resident_bytes};
use wire::Millis;

use crate::engine::{AutoThreads, Engine};
use crate::growth::{Advice, Change, Growth, Memory, START, Window};
use crate::log::Level;

/// How long a window is; one that lasted so much longer says nothing, as nobody has looked.
const WINDOW_MS: Millis = 500;
const TOO_LONG_MS: Millis = 1500;
/// A thread is taken to need so much memory, with what an application keeps for each.
const THREAD_BYTES: u64 = 4 << 20;

/// What the watchdog has seen, and what was made of it.
pub(super) struct Growing {
    growth: Option<Growth>,
    window: Window,
    since: Millis,
    /// What was counted when the window began.
    done: u64,
    failed: u64,
    told_apart: bool,
    came: u64,
    cpu_ns: u64,
    /// Since when there has been somebody who waits.
    waiting_since: Option<Millis>,
    advice: Advice,
}

impl Growing {
    pub fn new(engine: &Engine) -> Self {
        let begun = engine.config.threads;
        let growth = engine.config.threads_auto.map(|auto| Growth::beginning(begun, auto.most));
        engine.lined_up.expect_threads(growth.as_ref().map_or(0, |growth| growth.may_come_to(0)));
        if growth.is_some() && begun > START {
            tell(engine, &format!("{begun} from the start: another worker has come to as many"));
        }
        Self {
            growth,
            window: Window::default(),
            since: 0,
            done: 0,
            failed: 0,
            told_apart: false,
            came: 0,
            cpu_ns: 0,
            waiting_since: None,
            advice: Advice::default(),
        }
    }

    /// One look at who is inside and who waits. A new number of threads, if there is one.
    pub fn look(&mut self, engine: &Engine, now: Millis) -> Option<u32> {
        let waiting = u64::from(engine.short_of_threads());
        self.window.looks += 1;
        self.window.waits += u64::from(waiting > 0);
        self.window.waiting += waiting;
        self.window.busy += u64::from(engine.in_flight());
        self.window.burns += u64::from(engine.burns(now));
        match waiting {
            0 => self.waiting_since = None,
            _ => self.waits_since(engine.config.limits.queue_timeout, now),
        }
        let lasted = now.saturating_sub(self.since);
        if lasted < WINDOW_MS {
            return None;
        }
        let window = self.close(engine, now, lasted);
        if lasted > TOO_LONG_MS {
            self.advice.forget();
            return None;
        }
        let (Some(growth), Some(auto)) = (&mut self.growth, engine.config.threads_auto) else {
            if let Some(advice) = self.advice.look(&window, engine.threads()) {
                advise(engine, &advice);
            }
            return None;
        };
        let short_of = if window.is_pressed() { short_of(auto, growth.threads() / 2) } else { None };
        let before = growth.threads();
        let change = growth.look(&window, short_of, now);
        engine.lined_up.expect_threads(growth.may_come_to(now));
        engine.lined_up.count_early(growth.climbs_since());
        let Change { threads, why } = change?;
        let told = match threads == before {
            true => format!("{threads} stay: {why}"),
            false => format!("from {before} to {threads}: {why}"),
        };
        tell(engine, &told);
        (threads != before).then_some(threads)
    }

    /// Somebody waits, and nobody has for longer than there has been anybody who does, or than anybody may.
    fn waits_since(&mut self, patience: Millis, now: Millis) {
        let longest = now.saturating_sub(*self.waiting_since.get_or_insert(now));
        let longest = if patience > 0 { longest.min(patience) } else { longest };
        self.window.longest_ms = self.window.longest_ms.max(Some(longest));
    }

    /// What has happened in a window.
    fn close(&mut self, engine: &Engine, now: Millis, lasted: Millis) -> Window {
        let (done, failed) = engine.lined_up.counts();
        let mut window = std::mem::take(&mut self.window);
        window.ms = lasted;
        window.done = done - std::mem::replace(&mut self.done, done);
        window.failed = failed - std::mem::replace(&mut self.failed, failed);
        window.early = engine.lined_up.take_early();
        let told_apart = engine.lined_up.are_told_apart();
        window.counts_others = std::mem::replace(&mut self.told_apart, told_apart) != told_apart;
        let came = engine.counters.requests_total.get();
        window.came = came - std::mem::replace(&mut self.came, came);
        self.since = now;
        let cpu_ns = process_cpu_ns();
        window.cpu_us = (cpu_ns - std::mem::replace(&mut self.cpu_ns, cpu_ns)) / 1000;
        window
    }
}

/// Says in the log and to the supervisor how many threads there are, and why.
fn tell(engine: &Engine, told: &str) {
    engine.log.say(Level::Info, &format!("threads: {told}"));
    engine.report(&format!("threads {told}"));
}

/// Says that more threads could help, where their number is fixed: once for the server, if there is somebody who hears of
/// all of its workers.
fn advise(engine: &Engine, advice: &str) {
    match engine.config.report {
        Some(_) => engine.report(&format!("advice {advice}")),
        None => engine.log.say(Level::Info, advice),
    }
}

/// Of which memory so many more threads would not leave a fifth: of the container's, or of what a worker may hold.
fn short_of(auto: AutoThreads, threads: u32) -> Option<Memory> {
    let needs = u64::from(threads) * THREAD_BYTES;
    if container_memory().is_some_and(|(used, most)| !leaves_a_fifth(used + needs, most)) {
        return Some(Memory::Container);
    }
    let proportional = || auto.proportional.then(proportional_bytes).flatten();
    let fits =
        auto.memory_bytes == 0 || fits_worker(auto.memory_bytes, needs, resident_bytes(), proportional);
    (!fits).then_some(Memory::Worker)
}

/// True: so much more leaves a fifth of what a worker may hold. What is resident is never less than the worker's part of it,
/// and costs less to ask: the part is asked for only where it decides, if it is what the supervisor measures.
fn fits_worker(most: u64, needs: u64, resident: u64, proportional: impl FnOnce() -> Option<u64>) -> bool {
    leaves_a_fifth(resident + needs, most)
        || proportional().is_some_and(|held| leaves_a_fifth(held + needs, most))
}

fn leaves_a_fifth(used: u64, most: u64) -> bool {
    used <= most / 5 * 4
}

#[cfg(test)]
mod tests {
    use crate::engine::Config;
    use crate::log::Log;
    use crate::turn::Loop;

    use super::*;

    #[test]
    fn a_window_in_which_others_come_to_be_counted_says_so_and_the_next_one_does_not() {
        let turn =
            Loop::new(Config { threads: 8, ..Config::default() }, Log::none(), Vec::new()).expect("a loop");
        let engine = turn.engine();
        let mut growing = Growing::new(engine);
        let mut seen = |told_apart, quick: u64| {
            (0..quick).for_each(|_| engine.lined_up.count(200, 1_000, 100));
            engine.lined_up.note_told_apart(told_apart);
            let window = growing.close(engine, 0, WINDOW_MS);
            (window.done, window.counts_others)
        };
        // Quick ones are counted until it is known that they are.
        assert_eq!([seen(false, 400), seen(true, 60), seen(true, 0)], [(400, false), (60, true), (0, false)]);
        assert_eq!(
            [seen(false, 0), seen(false, 3)],
            [(0, true), (3, false)],
            "and again when nobody knows any more"
        );
    }

    #[test]
    fn a_fifth_of_the_memory_is_left() {
        assert!(leaves_a_fifth(800, 1000) && !leaves_a_fifth(801, 1000));
    }

    #[test]
    fn what_a_worker_shares_counts_as_it_does_for_the_bound() {
        for (resident, proportional, fits) in
            [(700, None, true), (701, None, false), (900, Some(700), true), (900, Some(701), false)]
        {
            assert_eq!(
                fits_worker(1000, 100, resident, || proportional),
                fits,
                "{resident} {proportional:?}"
            );
        }
        assert!(fits_worker(1000, 100, 700, || unreachable!("it does not decide")));
    }
}
