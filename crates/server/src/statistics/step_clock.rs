//! What the steps of one request have used of a processor, and by how much they have made the worker grow.
//!
//! Knows: when a step begins and ends, and whose it is by the request's slot. Does not know: what it does, nor whether it is a
//! task's or a greenlet's. On the loop's thread, whose clock it reads, for those requests that the statistics measure. Between
//! a step's begin and its end nothing else runs on that thread. Of those without a slot a greenlet's steps are not measured.

use reactor::sys::{own_bytes_again, thread_cpu_ns};

use super::phase::NO_SLOT;

/// One request's clock.
#[derive(Default)]
pub enum StepClock {
    /// No step has begun.
    #[default]
    New,
    /// Nobody asks.
    Off,
    On {
        used: u64,
        /// The thread's clock when the step began that runs; zero: none does.
        since: u64,
        weight: Option<Box<Weight>>,
    },
}

/// How much memory its worker has, in bytes.
#[derive(Default)]
pub struct Weight {
    grown: i64,
    /// When the step began that runs.
    since: Option<u64>,
}

impl Weight {
    /// Up to now.
    fn so_far(&self) -> i64 {
        let now = self.since.and_then(|since| Some((since, own_bytes_again()?)));
        self.grown + now.map_or(0, |(since, now)| now.cast_signed() - since.cast_signed())
    }
}

impl StepClock {
    /// The first step is about to begin. `on`: its steps are measured; `weighs`: memory, too.
    pub fn start(&mut self, (on, weighs): (bool, bool)) {
        let weight = || weighs.then(Box::<Weight>::default);
        *self = if on { Self::On { used: 0, since: 0, weight: weight() } } else { Self::Off };
    }

    /// A step begins. True: its end is to be told.
    #[inline]
    pub fn step_begins(&mut self) -> bool {
        let Self::On { since, weight, .. } = self else { return false };
        if let Some(weight) = weight {
            weight.since = own_bytes_again();
        }
        *since = thread_cpu_ns();
        true
    }

    pub fn step_ends(&mut self) {
        let so_far = self.so_far();
        if let (Self::On { used, since, weight }, Some(so_far)) = (self, so_far) {
            (*used, *since) = (so_far, 0);
            if let Some(weight) = weight {
                **weight = Weight { grown: weight.so_far(), since: None };
            }
        }
    }

    /// Nanoseconds up to now, where they are measured.
    pub fn so_far(&self) -> Option<u64> {
        match *self {
            Self::On { used, since: 0, .. } => Some(used),
            Self::On { used, since, .. } => Some(used + thread_cpu_ns().saturating_sub(since)),
            _ => None,
        }
    }

    /// Bytes up to now, where they are looked at.
    pub fn grown(&self) -> Option<i64> {
        match self {
            Self::On { weight: Some(weight), .. } => Some(weight.so_far()),
            _ => None,
        }
    }
}

/// One clock for each slot that was ever measured, and for those below.
#[derive(Default)]
pub struct StepClocks(Vec<StepClock>);

impl StepClocks {
    /// A request's first step begins. `measured`: its processor's time, and memory.
    pub fn start(&mut self, slot: u16, measured: (bool, bool)) {
        let at = usize::from(slot);
        if slot == NO_SLOT || !measured.0 {
            // Its slot may have been that of another one, which did not come to its end.
            self.take(slot);
            return;
        }
        if self.0.len() <= at {
            self.0.resize_with(at + 1, StepClock::default);
        }
        if let Some(clock) = self.0.get_mut(at) {
            clock.start(measured);
            clock.step_begins();
        }
    }

    /// A step of the request in slot `before` ends, and one of that in `now` begins.
    #[inline]
    pub fn change(&mut self, before: u16, now: u16) {
        if before == now {
            return;
        }
        if let Some(clock) = self.0.get_mut(usize::from(before)) {
            clock.step_ends();
        }
        if let Some(clock) = self.0.get_mut(usize::from(now)) {
            clock.step_begins();
        }
    }

    /// The clock of a request that has ended.
    pub fn take(&mut self, slot: u16) -> StepClock {
        self.0.get_mut(usize::from(slot)).map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a processor until the clock of that slot has gone on.
    fn burn(clocks: &StepClocks, slot: u16) {
        let used = || clocks.0[usize::from(slot)].so_far();
        let before = used();
        while used() == before {}
    }

    #[test]
    fn a_request_is_charged_its_own_steps_and_nobody_elses() {
        let mut clocks = StepClocks::default();
        clocks.start(3, (true, true));
        burn(&clocks, 3);
        clocks.change(3, NO_SLOT);
        let first = clocks.0[3].so_far().expect("it is measured");
        assert!(first > 0);
        clocks.start(1, (true, false));
        burn(&clocks, 1);
        assert_eq!(clocks.0[3].so_far(), Some(first), "another one runs");
        clocks.change(1, 3);
        let other = clocks.0[1].so_far();
        burn(&clocks, 3);
        assert_eq!(clocks.0[1].so_far(), other);
        let ended = clocks.take(3);
        assert!(ended.so_far() > Some(first) && ended.grown().is_some());
        clocks.change(3, NO_SLOT);
        assert_eq!(clocks.take(3).so_far(), None, "it has ended");
        assert_eq!(clocks.take(1).grown(), None, "its memory was not asked for");
    }

    #[test]
    fn who_is_not_measured_has_no_clock() {
        let mut clocks = StepClocks::default();
        clocks.start(NO_SLOT, (true, true));
        clocks.start(2, (false, false));
        assert_eq!(clocks.0.len(), 0);
        clocks.start(2, (true, false));
        clocks.start(2, (false, false));
        clocks.change(NO_SLOT, 2);
        assert_eq!(clocks.take(2).so_far(), None, "the slot is another request's");
        clocks.change(2, 500);
        assert_eq!(clocks.take(500).so_far(), None);
    }
}
