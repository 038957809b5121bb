//! What the steps of one request have used of a processor.
//!
//! Knows: when a step begins and ends. Does not know: what it does. On the event loop's thread, whose clock it reads, for
//! those requests that the statistics measure.

use reactor::sys::thread_cpu_ns;

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
    },
}

impl StepClock {
    /// The first step is about to begin. `on`: its steps are measured.
    pub fn start(&mut self, on: bool) {
        *self = if on { Self::On { used: 0, since: 0 } } else { Self::Off };
    }

    /// A step begins. True: its end is to be told.
    #[inline]
    pub fn step_begins(&mut self) -> bool {
        let Self::On { since, .. } = self else { return false };
        *since = thread_cpu_ns();
        true
    }

    pub fn step_ends(&mut self) {
        let so_far = self.so_far();
        if let (Self::On { used, since }, Some(so_far)) = (self, so_far) {
            (*used, *since) = (so_far, 0);
        }
    }

    /// Nanoseconds up to now, where they are measured.
    pub fn so_far(&self) -> Option<u64> {
        match *self {
            Self::On { used, since: 0 } => Some(used),
            Self::On { used, since } => Some(used + thread_cpu_ns().saturating_sub(since)),
            _ => None,
        }
    }
}
