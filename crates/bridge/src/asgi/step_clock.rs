//! What the steps of one request have used of a processor, and by how much they have made the worker grow.
//!
//! Knows: when a step begins and ends. Does not know: what it does. On the event loop's thread, whose clock it reads, for
//! those requests that the statistics measure. Between a step's begin and its end nothing else runs on that thread.

use reactor::sys::{own_bytes_again, thread_cpu_ns};

/// One request's clock.
pub enum StepClock {
    /// No step has begun.
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
