//! Tracing: which requests are recorded, and by which names they and their traces are known.
//!
//! Knows: sampling, and who is believed. Does not know: what becomes of a request that is recorded
//! (`statistics/spans.rs`). Any thread: nothing in it changes.

use wire::TraceParent;

use crate::unique::{Unique, mixed};

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
    /// The halves of its number, its span, and its sender's.
    #[inline]
    pub fn ids(&self) -> [u64; 4] {
        [(self.id >> 64) as u64, self.id as u64, self.span, self.parent]
    }

    /// What the application is told: its spans are children of ours.
    #[inline]
    pub fn told(&self) -> TraceParent {
        TraceParent { trace: self.id, parent: self.span, sampled: self.sampled }
    }
}

/// A worker's tracing. What a request is in a trace that begins here follows from its number, so that nothing has to be kept
/// with it.
#[derive(Debug, Clone, Copy)]
pub struct Tracing {
    /// Traces whose lower half is below are recorded, as OpenTelemetry's TraceIdRatioBased has it; `u64::MAX`: all.
    bound: u64,
    by_parent: bool,
    unique: Unique,
}

impl Tracing {
    /// `unique`: the worker's, as requests have names of it, which are those of their traces.
    pub fn new(sampler: Sampler, unique: Unique) -> Self {
        Self { bound: bound(sampler.ratio), by_parent: sampler.by_parent, unique }
    }

    /// All requests are recorded for which nobody else decides.
    pub fn takes_all(&self) -> bool {
        self.bound == u64::MAX
    }

    /// A request of that number, which has come without a trace, begins one that is recorded.
    #[inline]
    pub fn begins(&self, number: u64) -> bool {
        self.takes(self.unique.lower(number))
    }

    /// What such a request is in its trace.
    #[inline]
    pub fn root(&self, number: u64) -> Trace {
        let lower = self.unique.lower(number);
        let id = (u128::from(self.unique.upper()) << 64 | u128::from(lower)).max(1);
        Trace { id, span: self.span(lower), parent: 0, sampled: true, link: None }
    }

    /// What a request is that has come with `given`. None: it is not recorded, and nobody has to be told otherwise.
    #[cold]
    pub fn follows(&self, given: TraceParent, trusted: bool, number: u64) -> Option<Box<Trace>> {
        if trusted {
            let sampled = if self.by_parent { given.sampled } else { self.takes(given.trace as u64) };
            // Who samples less than its sender says so to those behind it.
            return (sampled || given.sampled).then(|| {
                let span = self.span(self.unique.lower(number));
                Box::new(Trace { id: given.trace, span, parent: given.parent, sampled, link: None })
            });
        }
        // Anybody can claim to be traced: a trace of our own, which knows of the other.
        let sampled = self.begins(number);
        Some(Box::new(Trace { sampled, link: Some((given.trace, given.parent)), ..self.root(number) }))
    }

    #[inline]
    fn takes(&self, lower: u64) -> bool {
        lower < self.bound || self.bound == u64::MAX
    }

    /// Another span for each request, which looks like no part of its trace's name.
    #[inline]
    fn span(&self, lower: u64) -> u64 {
        mixed(lower ^ self.unique.upper()).max(1)
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
        Tracing::new(Sampler { ratio, by_parent }, Unique::new())
    }

    fn given(sampled: bool) -> TraceParent {
        TraceParent { trace: 0xabc << 64 | 0xffff_ffff_ffff_fff0, parent: 5, sampled }
    }

    #[test]
    fn so_many_of_those_that_begin_here_are_recorded_and_no_two_have_a_name_in_common() {
        for (ratio, least, most) in [(0.0, 0, 0), (0.01, 60, 140), (0.5, 4_700, 5_300), (1.0, 10_000, 10_000)]
        {
            let tracing = tracing(ratio, true);
            let found: Vec<_> =
                (0..10_000).filter(|at| tracing.begins(*at)).map(|at| tracing.root(at)).collect();
            assert!((least..=most).contains(&found.len()), "{ratio}: {}", found.len());
            assert!(found.iter().all(|trace| trace.sampled && trace.parent == 0 && trace.link.is_none()));
            let traces: std::collections::HashSet<_> = found.iter().map(|trace| trace.id).collect();
            let spans: std::collections::HashSet<_> = found.iter().map(|trace| trace.span).collect();
            assert_eq!((traces.len(), spans.len()), (found.len(), found.len()));
            assert!(found.iter().all(|trace| trace.span != trace.id as u64));
        }
    }

    #[test]
    fn a_trusted_sender_decides_where_the_sampler_goes_by_it() {
        for ratio in [0.0, 1.0] {
            let tracing = tracing(ratio, true);
            let found = tracing.follows(given(true), true, 1).expect("recorded");
            assert_eq!((found.id, found.parent, found.sampled), (given(true).trace, 5, true));
            let other = tracing.follows(given(true), true, 2).expect("recorded");
            assert_ne!(found.span, other.span, "two requests of one trace");
            assert_eq!(tracing.follows(given(false), true, 3), None, "its header stays as it is");
        }
    }

    #[test]
    fn a_sampler_that_does_not_tells_those_behind_it() {
        let found = tracing(0.5, false).follows(given(true), true, 1).expect("told");
        assert!(!found.sampled, "the lower half of its number is above the bound");
        assert_eq!(tracing(0.5, false).follows(given(false), true, 1), None);
        let all = tracing(1.0, false).follows(given(false), true, 1);
        assert!(all.is_some_and(|found| found.sampled));
    }

    #[test]
    fn a_stranger_s_trace_is_known_and_not_continued() {
        for (ratio, sampled) in [(0.0, false), (1.0, true)] {
            let found = tracing(ratio, true).follows(given(true), false, 1).expect("it is told otherwise");
            assert_ne!(found.id, given(true).trace);
            assert_eq!((found.parent, found.sampled), (0, sampled));
            assert_eq!(found.link, Some((given(true).trace, 5)));
        }
    }
}
