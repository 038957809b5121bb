//! Threads become more or fewer while the server runs (`--threads auto`), or it is said that they could be more.
//!
//! Knows: where the figures are, and how much memory there is. Does not know: what follows from them (`growth.rs`), or
//! how threads begin and end. Runs on the watchdog's thread.

use reactor::sys::{container_memory, resident_bytes};
use wire::Millis;

use crate::engine::Engine;
use crate::growth::{Change, Growth, Window};
use crate::log::Level;

/// How long a window is; one that lasted so much longer says nothing, as nobody has looked.
const WINDOW_MS: Millis = 500;
const TOO_LONG_MS: Millis = 1500;
/// A thread is taken to need so much memory, with what an application keeps for each.
const THREAD_BYTES: u64 = 4 << 20;
/// After so many windows in a row in which requests waited for threads that wait for something, somebody is told.
const ADVISED_AFTER: u32 = 20;

/// What the watchdog has seen, and what was made of it.
pub(super) struct Growing {
    growth: Option<Growth>,
    window: Window,
    since: Millis,
    /// What was counted when the window began.
    done: u64,
    failed: u64,
    /// Windows in a row in which requests waited.
    pressed: u32,
    advised: bool,
}

impl Growing {
    pub fn new(engine: &Engine) -> Self {
        Self {
            growth: engine.config.threads_auto.map(|auto| Growth::new(auto.most)),
            window: Window::default(),
            since: 0,
            done: 0,
            failed: 0,
            pressed: 0,
            advised: false,
        }
    }

    /// One look at who is inside and who waits. A new number of threads, if there is one.
    pub fn look(&mut self, engine: &Engine, now: Millis) -> Option<u32> {
        let waiting = u64::from(engine.short_of_threads());
        self.window.looks += 1;
        self.window.waits += u64::from(waiting > 0);
        self.window.waiting += waiting;
        self.window.busy += u64::from(engine.in_flight());
        let lasted = now.saturating_sub(self.since);
        if lasted < WINDOW_MS {
            return None;
        }
        let window = self.close(engine, now, lasted);
        if lasted > TOO_LONG_MS {
            self.pressed = 0;
            return None;
        }
        self.pressed = if window.is_pressed() { self.pressed + 1 } else { 0 };
        let Some(growth) = &mut self.growth else {
            self.advise(engine, &window);
            return None;
        };
        let has_room = self.pressed == 0 || has_room(engine, growth.threads() / 2);
        let before = growth.threads();
        let Change { threads, why } = growth.look(&window, has_room, now)?;
        let told = match threads == before {
            true => format!("{threads} stay: {why}"),
            false => format!("from {before} to {threads}: {why}"),
        };
        engine.log.say(Level::Info, &format!("threads: {told}"));
        engine.report(&format!("threads {told}"));
        (threads != before).then_some(threads)
    }

    fn close(&mut self, engine: &Engine, now: Millis, lasted: Millis) -> Window {
        let (done, failed) = engine.lined_up.counts();
        let mut window = std::mem::take(&mut self.window);
        window.ms = lasted;
        window.done = done - std::mem::replace(&mut self.done, done);
        window.failed = failed - std::mem::replace(&mut self.failed, failed);
        self.since = now;
        window
    }

    /// Says once that more threads could help, where their number is fixed.
    fn advise(&mut self, engine: &Engine, window: &Window) {
        if self.advised || self.pressed < ADVISED_AFTER {
            return;
        }
        self.advised = true;
        engine.log.say(
            Level::Info,
            &format!(
                "requests have waited {:.0} ms for one of {} threads, for {} s: --threads auto tries whether more finish \
                 more of them (docs/workers.md)",
                window.wait_ms(),
                engine.threads(),
                u64::from(ADVISED_AFTER) * WINDOW_MS / 1000
            ),
        );
    }
}

/// True where so many more threads leave a fifth of the memory that there is: of the container's, and of what a worker may
/// hold.
fn has_room(engine: &Engine, threads: u32) -> bool {
    let needs = u64::from(threads) * THREAD_BYTES;
    let most = engine.config.threads_auto.map_or(0, |auto| auto.memory_bytes);
    container_memory().is_none_or(|(used, most)| leaves_a_fifth(used + needs, most))
        && (most == 0 || leaves_a_fifth(resident_bytes() + needs, most))
}

fn leaves_a_fifth(used: u64, most: u64) -> bool {
    used <= most / 5 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_memory_is_left() {
        assert!(leaves_a_fifth(800, 1000) && !leaves_a_fifth(801, 1000));
    }
}
