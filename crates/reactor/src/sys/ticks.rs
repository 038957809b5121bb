//! The processor's counter as a clock: a third of what the kernel's costs to read, and the same time.
//!
//! Knows: how the counter and the monotonic clock went together at the last comparison. Does not know: who wants the
//! time. Any thread reads; whoever looks at what has happened compares the two, ten times a second while there is work.
//!
//! It is used where the kernel goes by the same counter (its clock source is `tsc`: it runs at one speed, and alike on all
//! processors), while two comparisons have found the same speed, and for a second after the last of them. Otherwise there
//! is no answer, and the kernel is asked. The two are apart by what the speed changes between comparisons: less than 50 µs
//! under the strongest correction that an NTP client makes (500 ppm).

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Comparisons of which both ends are closer together, in nanoseconds, say nothing of the speed.
const SHORTEST_NS: u64 = 10_000_000;
/// So long after a comparison it is not trusted any more.
const TRUSTED_NS: u64 = 1_000_000_000;
/// A comparison that took so many nanoseconds was interrupted, and says nothing.
const INTERRUPTED_NS: u64 = 2_000;
/// Two speeds that differ by more than this part are not the same.
const ALIKE: u64 = 1000;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Comparison {
    ticks: u64,
    ns: u64,
    /// Nanoseconds for each tick, in parts of 2^32; zero: not known yet.
    rate: u64,
    /// For so many ticks the rate is trusted.
    trusted: u64,
}

impl Comparison {
    /// What follows from both clocks at a later moment.
    fn then(self, ticks: u64, ns: u64) -> Self {
        let (passed, took) = (ticks.wrapping_sub(self.ticks), ns.wrapping_sub(self.ns));
        if self.ns != 0 && took < SHORTEST_NS {
            return self;
        }
        let rate = match (u128::from(took) << 32).checked_div(u128::from(passed)) {
            Some(rate) if self.ns != 0 => u64::try_from(rate).unwrap_or(0),
            _ => 0,
        };
        let alike = rate != 0 && rate.abs_diff(self.rate) <= rate / ALIKE;
        let trusted = if alike { (u128::from(TRUSTED_NS) << 32) / u128::from(rate) } else { 0 };
        Self { ticks, ns, rate, trusted: u64::try_from(trusted).unwrap_or(0) }
    }

    /// The time at which the counter stands there; none where that is not known.
    #[inline]
    fn at(self, ticks: u64) -> Option<u64> {
        // A counter that is behind is far ahead in this.
        let passed = ticks.wrapping_sub(self.ticks);
        (passed < self.trusted).then(|| self.ns + ((u128::from(passed) * u128::from(self.rate)) >> 32) as u64)
    }
}

/// The newest comparison, for all threads: what is read while the sequence is odd, or changes, is not used.
#[derive(Default)]
#[repr(align(64))]
struct Shown {
    sequence: AtomicU64,
    ticks: AtomicU64,
    ns: AtomicU64,
    rate: AtomicU64,
    trusted: AtomicU64,
}

static SHOWN: Shown = Shown {
    sequence: AtomicU64::new(0),
    ticks: AtomicU64::new(0),
    ns: AtomicU64::new(0),
    rate: AtomicU64::new(0),
    trusted: AtomicU64::new(0),
};

impl Shown {
    #[inline]
    fn load(&self) -> Comparison {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Comparison {
            ticks: load(&self.ticks),
            ns: load(&self.ns),
            rate: load(&self.rate),
            trusted: load(&self.trusted),
        }
    }

    /// Monotonic nanoseconds by the counter; none where it is not trusted now.
    #[inline]
    fn now(&self, counter: impl FnOnce() -> u64) -> Option<u64> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let found = self.load().at(counter());
        fence(Ordering::Acquire);
        found.filter(|_| sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence)
    }

    /// Compares both clocks, unless another thread just does.
    fn compare(&self, counter: impl Fn() -> u64, clock: impl Fn() -> u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let (even, odd) = (sequence & !1, sequence | 1);
        let (got, kept) = (Ordering::Acquire, Ordering::Relaxed);
        if self.sequence.compare_exchange(even, odd, got, kept).is_err() {
            return;
        }
        fence(Ordering::Release);
        let (before, ticks, after) = (clock(), counter(), clock());
        if after.saturating_sub(before) < INTERRUPTED_NS {
            let next = self.load().then(ticks, before + after.saturating_sub(before) / 2);
            self.ticks.store(next.ticks, Ordering::Relaxed);
            self.ns.store(next.ns, Ordering::Relaxed);
            self.rate.store(next.rate, Ordering::Relaxed);
            self.trusted.store(next.trusted, Ordering::Relaxed);
        }
        self.sequence.store(odd.wrapping_add(1), Ordering::Release);
    }
}

/// Whether this is an architecture whose counter is read here.
const IS_READ: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Monotonic nanoseconds by the processor's counter; none where that is not to be had or not trusted now.
#[inline]
pub fn now() -> Option<u64> {
    if IS_READ { SHOWN.now(counter) } else { None }
}

/// Compares the counter with a clock of monotonic nanoseconds, where the kernel itself goes by it. Without this now and then
/// [`now`] has no answer.
pub fn compare(clock: impl Fn() -> u64) {
    if IS_READ && is_the_kernel_s() {
        SHOWN.compare(counter, clock);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    // SAFETY: every processor of this architecture has the instruction. Where the system forbids it (prctl(2),
    // PR_SET_TSC) it could not read its own clock without it either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nobody asks.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn counter() -> u64 {
    0
}

/// The kernel's clock is made of the counter: it has seen that this runs at one speed on all processors, and watches it.
fn is_the_kernel_s() -> bool {
    use std::sync::OnceLock;
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let told = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        told.is_ok_and(|name| name.trim_ascii() == b"tsc")
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A counter of 3 GHz and a clock, at a time in nanoseconds.
    fn at(ns: u64) -> (u64, u64) {
        (7_000_000 + ns * 3, ns)
    }

    fn compared(moments: &[u64]) -> Comparison {
        moments.iter().fold(Comparison::default(), |last, ns| {
            let (ticks, ns) = at(*ns);
            last.then(ticks, ns)
        })
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn two_comparisons_that_agree_are_needed_before_the_counter_is_trusted() {
        for moments in [&[][..], &[MS], &[MS, 200 * MS]] {
            assert_eq!(compared(moments).at(at(201 * MS).0), None, "{moments:?}");
        }
        let found = compared(&[MS, 200 * MS, 300 * MS]);
        let told = found.at(at(400 * MS).0).expect("the counter is trusted");
        assert!(told.abs_diff(400 * MS) <= 1, "{told}");
    }

    #[test]
    fn it_is_trusted_for_a_second_and_not_before_it_was_compared() {
        let found = compared(&[MS, 200 * MS, 300 * MS]);
        assert!(found.at(at(300 * MS + TRUSTED_NS - 10).0).is_some());
        assert_eq!(found.at(at(300 * MS + TRUSTED_NS + 10).0), None);
        assert_eq!(found.at(at(300 * MS).0 - 1), None, "another processor's counter is behind");
    }

    #[test]
    fn a_counter_that_changes_its_speed_is_not_trusted_until_it_keeps_it() {
        let found = compared(&[MS, 200 * MS, 300 * MS]);
        let (ticks, ns) = at(300 * MS);
        let mut slower = found;
        for (times, trusted) in [(1, false), (2, true)] {
            slower = slower.then(ticks + 100 * MS * times, ns + 100 * MS * times);
            assert_eq!(slower.at(slower.ticks + 1).is_some(), trusted, "{times}");
        }
        let stopped = found.then(ticks, ns + 100 * MS);
        assert_eq!(stopped.at(ticks), None, "it stands still");
    }

    #[test]
    fn comparisons_that_are_close_together_change_nothing() {
        let found = compared(&[MS, 200 * MS, 300 * MS]);
        let (ticks, ns) = at(300 * MS + SHORTEST_NS - 1);
        assert_eq!(found.then(ticks, ns), found);
        let (ticks, ns) = at(300 * MS + SHORTEST_NS);
        assert_ne!(found.then(ticks, ns), found);
    }

    #[test]
    fn an_interrupted_comparison_says_nothing() {
        let shown = Shown::default();
        let time = Cell::new(MS);
        let clock = |step: u64| {
            time.set(time.get() + step);
            time.get()
        };
        shown.compare(|| at(time.get()).0, || clock(INTERRUPTED_NS));
        assert_eq!(shown.load(), Comparison::default());
        shown.compare(|| at(time.get()).0, || clock(INTERRUPTED_NS / 2));
        assert_ne!(shown.load(), Comparison::default());
        assert_eq!(shown.sequence.load(Ordering::Relaxed), 4, "nobody is comparing any more");
    }

    #[test]
    fn what_is_read_while_it_changes_is_never_half_of_it() {
        let shown = Shown::default();
        let (time, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let now = || time.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let before = now();
                    let told = shown.now(|| at(now()).0);
                    if let Some(told) = told {
                        assert!((before.saturating_sub(2)..=now() + 2).contains(&told), "{before} {told}");
                    }
                }
            });
            for _ in 0..20_000 {
                time.fetch_add(SHORTEST_NS, Ordering::SeqCst);
                shown.compare(|| at(now()).0, now);
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(shown.now(|| at(now()).0).is_some());
    }
}
