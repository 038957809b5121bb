//! What families of metrics and their samples are made of, whatever the format.
//!
//! Knows: kinds, labels, numbers, distributions. Does not know: bytes, or what is measured.

use crate::statistics::histogram::{BOUNDS, Histogram};
use crate::statistics::snapshot::Exemplar;

/// Names and values of labels; one whose value is empty is left out, which is the same.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Summary,
    Histogram,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Summary, Self::Histogram]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A sample's value.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    Whole(u64),
    /// To be told in seconds.
    Nanoseconds(u64),
    Any(f64),
}

/// How long something took.
pub struct Distribution<'a> {
    /// The bounds of its buckets, in nanoseconds, and how many took at most as long as each.
    pub bounds: &'static [u64],
    pub below: Vec<u64>,
    pub count: u64,
    /// Of all times, in nanoseconds.
    pub sum: u64,
    /// Requests that stand for those of each bucket; Prometheus' text has no place for them. Empty: there are none.
    pub exemplars: &'a [Option<Exemplar>],
    /// The same by finer buckets, where those are known. Only messages have a place for them.
    pub fine: Option<&'a Histogram>,
}

impl<'a> Distribution<'a> {
    /// One of few buckets; those behind the bounds have no end.
    pub fn of_buckets(bounds: &'static [u64], buckets: &[u64], sum: u64) -> Self {
        let mut count = 0;
        let mut so_far = |bucket: &u64| {
            count += bucket;
            count
        };
        let below: Vec<u64> = buckets.iter().take(bounds.len()).map(&mut so_far).collect();
        buckets.iter().skip(bounds.len()).for_each(|bucket| _ = so_far(bucket));
        Self { bounds, below, count, sum, exemplars: &[], fine: None }
    }

    pub fn of(histogram: &'a Histogram) -> Self {
        let (below, count, sum) = (histogram.below().to_vec(), histogram.count(), histogram.sum);
        Self { bounds: &BOUNDS, below, count, sum, exemplars: &[], fine: Some(histogram) }
    }
}
