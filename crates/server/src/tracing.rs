//! Tracing: which requests are recorded, and by which names they and their traces are known.
//!
//! Knows: sampling, and who is believed. Does not know: what becomes of a request that is recorded
//! (`statistics/spans.rs`). Runs under the baton, or on an event loop's thread.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::{monotonic_ns, wall_us};
use wire::TraceParent;

use crate::request_id::{STEP, mixed};

/// Which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Of those that begin here: from 0 to 1.
    pub ratio: f64,
    /// What a trusted sender says is decided by it.
    pub by_parent: bool,
}

/// What one request is in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    pub id: u128,
    pub span: u64,
    /// The sender's span; zero: the trace begins here.
    pub parent: u64,
    /// It is recorded.
    pub sampled: bool,
    /// What a sender says who is not trusted: which trace it knows of, and its span there.
    pub link: Option<(u128, u64)>,
}

impl Trace {
    /// What the application is told: its spans are children of ours.
    pub fn told(&self) -> TraceParent {
        TraceParent { trace: self.id, parent: self.span, sampled: self.sampled }
    }
}

/// A worker's tracing.
pub struct Tracing {
    /// Traces whose lower half is below are recorded, as OpenTelemetry's TraceIdRatioBased has it; `u64::MAX`: all.
    bound: u64,
    by_parent: bool,
    state: RandomState,
    /// The last number that was drawn. One thread at a time draws.
    drawn: AtomicU64,
}

impl Tracing {
    pub fn new(sampler: Sampler) -> Self {
        let state = RandomState::new();
        let drawn = AtomicU64::new(state.hash_one((std::process::id(), wall_us(), monotonic_ns())));
        Self { bound: bound(sampler.ratio), by_parent: sampler.by_parent, state, drawn }
    }

    /// What a request is that has come with `given`. None: it is not recorded, and nobody has to be told otherwise.
    #[inline]
    pub fn arrives(&self, given: Option<TraceParent>, trusted: bool) -> Option<Box<Trace>> {
        match given {
            None => {
                let low = self.draw();
                if low >= self.bound && self.bound != u64::MAX {
                    None
                } else {
                    Some(self.root(low, None, true))
                }
            }
            Some(given) => self.follows(given, trusted),
        }
    }

    #[cold]
    fn follows(&self, given: TraceParent, trusted: bool) -> Option<Box<Trace>> {
        if trusted {
            let sampled = if self.by_parent { given.sampled } else { self.takes(given.trace as u64) };
            // Who samples less than its sender says so to those behind it.
            return (sampled || given.sampled).then(|| {
                let span = self.span(given.trace as u64);
                Box::new(Trace { id: given.trace, span, parent: given.parent, sampled, link: None })
            });
        }
        // Anybody can claim to be traced: a trace of our own, which knows of the other.
        let low = self.draw();
        Some(self.root(low, Some((given.trace, given.parent)), self.takes(low)))
    }

    #[cold]
    fn root(&self, low: u64, link: Option<(u128, u64)>, sampled: bool) -> Box<Trace> {
        let high = self.state.hash_one(low);
        let id = (u128::from(high) << 64 | u128::from(low)).max(1);
        Box::new(Trace { id, span: self.span(low), parent: 0, sampled, link })
    }

    fn takes(&self, low: u64) -> bool {
        low < self.bound || self.bound == u64::MAX
    }

    fn span(&self, low: u64) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write_u64(low);
        hasher.write_u64(self.draw());
        hasher.finish().max(1)
    }

    /// A number that looks like no other.
    #[inline]
    fn draw(&self) -> u64 {
        let next = self.drawn.load(Ordering::Relaxed).wrapping_add(STEP);
        self.drawn.store(next, Ordering::Relaxed);
        mixed(next)
    }
}

/// Below which number so many of all are.
fn bound(ratio: f64) -> u64 {
    // Beyond the largest it is the largest, which stands for all.
    (ratio.clamp(0.0, 1.0) * 2_f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracing(ratio: f64, by_parent: bool) -> Tracing {
        Tracing::new(Sampler { ratio, by_parent })
    }

    fn given(sampled: bool) -> TraceParent {
        TraceParent { trace: 0xabc << 64 | 0xffff_ffff_ffff_fff0, parent: 5, sampled }
    }

    #[test]
    fn so_many_of_those_that_begin_here_are_recorded_and_no_two_have_a_name_in_common() {
        for (ratio, least, most) in [(0.0, 0, 0), (0.01, 60, 140), (0.5, 4_700, 5_300), (1.0, 10_000, 10_000)]
        {
            let tracing = tracing(ratio, true);
            let found: Vec<_> = (0..10_000).filter_map(|_| tracing.arrives(None, true)).collect();
            assert!((least..=most).contains(&found.len()), "{ratio}: {}", found.len());
            assert!(found.iter().all(|trace| trace.sampled && trace.parent == 0 && trace.link.is_none()));
            let traces: std::collections::HashSet<_> = found.iter().map(|trace| trace.id).collect();
            let spans: std::collections::HashSet<_> = found.iter().map(|trace| trace.span).collect();
            assert_eq!((traces.len(), spans.len()), (found.len(), found.len()));
        }
    }

    #[test]
    fn a_trusted_sender_decides_where_the_sampler_goes_by_it() {
        for ratio in [0.0, 1.0] {
            let tracing = tracing(ratio, true);
            let found = tracing.arrives(Some(given(true)), true).expect("recorded");
            assert_eq!((found.id, found.parent, found.sampled), (given(true).trace, 5, true));
            assert_eq!(tracing.arrives(Some(given(false)), true), None, "its header stays as it is");
        }
    }

    #[test]
    fn a_sampler_that_does_not_tells_those_behind_it() {
        let found = tracing(0.5, false).arrives(Some(given(true)), true).expect("told");
        assert!(!found.sampled, "the lower half of its number is above the bound");
        assert_eq!(tracing(0.5, false).arrives(Some(given(false)), true), None);
        assert!(tracing(1.0, false).arrives(Some(given(false)), true).is_some_and(|found| found.sampled));
    }

    #[test]
    fn a_stranger_s_trace_is_known_and_not_continued() {
        for (ratio, sampled) in [(0.0, false), (1.0, true)] {
            let found = tracing(ratio, true).arrives(Some(given(true)), false).expect("it is told otherwise");
            assert_ne!(found.id, given(true).trace);
            assert_eq!((found.parent, found.sampled), (0, sampled));
            assert_eq!(found.link, Some((given(true).trace, 5)));
        }
    }
}
