//! Whether somebody who has said how many threads there are is told that more of them could help.
//!
//! Knows: windows of figures. Does not know: clocks, or where it is said. Pure; the watchdog gives it a window each half
//! second (`pool/growing.rs`).

use super::Window;

/// After so many windows in a row in which requests waited for threads that wait for something, somebody is told.
const AFTER: u32 = 20;
/// With as many, or more, nobody is: what `--threads-max` is unless somebody says it.
const MOST: u32 = 128;

/// What was seen, and whether it was said.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    seen: Window,
    told: bool,
}

impl Advice {
    /// A window has passed, with so many threads: what is to be said, once.
    pub fn look(&mut self, window: &Window, threads: u32) -> Option<String> {
        if self.told || !window.is_pressed() {
            self.forget();
            return None;
        }
        self.seen.add(window);
        if self.seen.windows < AFTER {
            return None;
        }
        let seen = std::mem::take(&mut self.seen);
        if threads >= MOST || seen.computes() {
            return None;
        }
        self.told = true;
        Some(format!(
            "requests have waited {:.0} ms for one of {threads} threads, for {} s: --threads auto tries whether more finish \
             more of them (docs/workers.md)",
            seen.wait_ms(),
            seen.ms / 1000
        ))
    }

    /// Nobody has looked for a while: what was seen before says nothing.
    pub fn forget(&mut self) {
        self.seen = Window::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a second in which so many wait for calls of a second; they begin together, and end in each second window.
    fn window(at: u32, waiting: u64, inside: u64) -> Window {
        Window {
            ms: 500,
            looks: 250,
            waits: if waiting > 0 { 250 } else { 0 },
            waiting: 250 * waiting,
            busy: 250 * inside,
            done: if at % 2 == 1 { inside } else { 0 },
            longest_ms: Some(u64::from(at + 1) * 500),
            ..Window::default()
        }
    }

    /// What is said in so many windows, in which the process computes for so long each, in milliseconds.
    fn said(advice: &mut Advice, windows: u32, waiting: u64, threads: u32, cpu_ms: u64) -> Vec<String> {
        let window = |at| Window { cpu_us: cpu_ms * 1000, ..window(at, waiting, u64::from(threads) - 1) };
        (0..windows).filter_map(|at| advice.look(&window(at), threads)).collect()
    }

    #[test]
    fn where_requests_have_waited_for_ten_seconds_it_is_said_once_how_long() {
        let mut advice = Advice::default();
        assert!(said(&mut advice, AFTER - 1, 161, 100, 20).is_empty());
        assert_eq!(
            said(&mut Advice::default(), 200, 99, 100, 20),
            [
                "requests have waited 1000 ms for one of 100 threads, for 10 s: --threads auto tries whether more finish more \
              of them (docs/workers.md)"
            ]
        );
    }

    #[test]
    fn who_has_as_many_as_it_would_try_is_not_told_to_try_more() {
        for (threads, told) in [(MOST - 1, 1), (MOST, 0), (140, 0)] {
            assert_eq!(said(&mut Advice::default(), 100, 161, threads, 20).len(), told, "{threads} threads");
        }
    }

    #[test]
    fn where_the_process_computes_more_threads_are_not_advised() {
        for (cpu_ms, told) in [(374, 1), (375, 0), (500, 0), (900, 0)] {
            assert_eq!(said(&mut Advice::default(), 100, 8, 8, cpu_ms).len(), told, "{cpu_ms} ms of 500");
        }
    }

    #[test]
    fn a_moment_in_which_nobody_waits_is_the_end_of_the_ten_seconds() {
        let mut advice = Advice::default();
        for _ in 0..3 {
            assert!(said(&mut advice, AFTER - 1, 161, 100, 20).is_empty());
            assert!(said(&mut advice, 1, 0, 100, 20).is_empty());
        }
        assert!(said(&mut advice, AFTER - 1, 161, 100, 20).is_empty());
        advice.forget();
        assert!(said(&mut advice, AFTER - 1, 161, 100, 20).is_empty());
        assert_eq!(said(&mut advice, 1, 161, 100, 20).len(), 1);
    }
}
