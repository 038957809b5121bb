//! Prometheus' messages: `MetricFamily` of its client_model, each with its length before it, and histograms in them that are
//! classic and native at once.
//!
//! Knows: numbers of fields, and how protobuf writes them (<https://protobuf.dev/programming-guides/encoding/>). Does not know: what
//! is measured. Writing takes a page; a library of protobuf would bring a compiler of its own for five kinds of messages.
//!
//! A native histogram of schema 4 has a bucket for each sixteenth of a doubling, which is what `histogram.rs` counts by. What
//! took at most 2^-20 seconds is in its zero bucket, and what took more than 2^9 in the bucket behind that.

use super::samples::{Distribution, Kind, Labels, Number};
use crate::statistics::histogram::{Exponential, Histogram, SCALE, ZERO_SECONDS};
use crate::statistics::snapshot::Exemplar;

/// A message in the making.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// One that may be negative, as small ones of both signs take few bytes.
    fn signed(&mut self, field: u64, value: i64) {
        self.number(field, (value << 1 ^ value >> 63) as u64);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// `MetricFamily`
mod family {
    pub const NAME: u64 = 1;
    pub const HELP: u64 = 2;
    pub const TYPE: u64 = 3;
    pub const METRIC: u64 = 4;
}

/// `Metric`, and `LabelPair`
mod metric {
    pub const LABEL: u64 = 1;
    pub const GAUGE: u64 = 2;
    pub const COUNTER: u64 = 3;
    pub const SUMMARY: u64 = 4;
    pub const HISTOGRAM: u64 = 7;
    pub const LABEL_NAME: u64 = 1;
    pub const LABEL_VALUE: u64 = 2;
    /// Of a counter or gauge.
    pub const VALUE: u64 = 1;
}

/// `Histogram`, whose first two fields `Summary` has, too; `Bucket`; `BucketSpan`; `Exemplar`
mod histogram {
    pub const COUNT: u64 = 1;
    pub const SUM: u64 = 2;
    pub const BUCKET: u64 = 3;
    pub const SCHEMA: u64 = 5;
    pub const ZERO_THRESHOLD: u64 = 6;
    pub const ZERO_COUNT: u64 = 7;
    pub const POSITIVE_SPAN: u64 = 12;
    pub const POSITIVE_DELTA: u64 = 13;
    pub const CUMULATIVE_COUNT: u64 = 1;
    pub const UPPER_BOUND: u64 = 2;
    pub const EXEMPLAR: u64 = 3;
    pub const OFFSET: u64 = 1;
    pub const LENGTH: u64 = 2;
    pub const EXEMPLAR_LABEL: u64 = 1;
    pub const EXEMPLAR_VALUE: u64 = 2;
    pub const EXEMPLAR_TIME: u64 = 3;
    /// `google.protobuf.Timestamp`
    pub const SECONDS: u64 = 1;
    pub const NANOS: u64 = 2;
}

/// A histogram or summary of which parts have come.
#[derive(Debug)]
struct Parts {
    /// Without the bound of a bucket.
    labels: Vec<(String, String)>,
    message: Message,
}

/// All families.
#[derive(Debug, Default)]
pub struct Messages {
    out: Message,
    family: Message,
    kind: Option<Kind>,
    /// The family has a metric: one without is left out.
    filled: bool,
    parts: Option<Parts>,
}

impl Messages {
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        self.end();
        self.family.0.clear();
        self.family.bytes(family::NAME, name.as_bytes());
        self.family.bytes(family::HELP, help.as_bytes());
        let number = match kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Summary => 2,
            Kind::Histogram => 4,
        };
        self.family.number(family::TYPE, number);
        (self.kind, self.filled) = (Some(kind), false);
    }

    fn end(&mut self) {
        self.end_parts();
        if self.filled {
            self.out.varint(self.family.0.len() as u64);
            self.out.0.extend_from_slice(&self.family.0);
        }
        self.filled = false;
    }

    fn metric<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>, field: u64, value: &Message) {
        self.filled = true;
        self.family.message(family::METRIC, |metric| {
            for (name, value) in labels.filter(|(_, value)| !value.is_empty()) {
                metric.message(metric::LABEL, |label| pair(label, name, value));
            }
            metric.bytes(field, &value.0);
        });
    }

    fn field(&self) -> u64 {
        match self.kind {
            Some(Kind::Counter) => metric::COUNTER,
            Some(Kind::Summary) => metric::SUMMARY,
            Some(Kind::Histogram) => metric::HISTOGRAM,
            Some(Kind::Gauge) | None => metric::GAUGE,
        }
    }

    /// One sample of a counter or gauge.
    pub fn sample(&mut self, labels: Labels<'_>, number: Number) {
        let mut value = Message::default();
        value.double(
            metric::VALUE,
            match number {
                Number::Whole(value) => value as f64,
                Number::Nanoseconds(ns) => seconds(ns),
                Number::Any(value) => value,
            },
        );
        self.metric(labels.iter().copied(), self.field(), &value);
    }

    /// One sample of any family, by its name: several of them are one histogram or summary.
    pub fn part(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        if !matches!(self.kind, Some(Kind::Histogram | Kind::Summary)) {
            return self.sample(labels, Number::Any(value));
        }
        let bare: Vec<(String, String)> = labels
            .iter()
            .filter(|(name, _)| *name != "le")
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        if self.parts.as_ref().is_none_or(|parts| parts.labels != bare) {
            self.end_parts();
        }
        let parts = self.parts.get_or_insert_with(|| Parts { labels: bare, message: Message::default() });
        if name.ends_with("_count") {
            parts.message.number(histogram::COUNT, value as u64);
        } else if name.ends_with("_sum") {
            parts.message.double(histogram::SUM, value);
        } else if let Some((_, le)) = labels.iter().find(|(name, _)| *name == "le") {
            // Rust reads `+Inf` as Prometheus writes it.
            let le = le.parse().unwrap_or(f64::INFINITY);
            parts.message.message(histogram::BUCKET, |message| bucket(message, value as u64, le, None));
        }
    }

    fn end_parts(&mut self) {
        if let Some(Parts { labels, message }) = self.parts.take() {
            let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            self.metric(labels, self.field(), &message);
        }
    }

    pub fn distribution(&mut self, labels: Labels<'_>, told: &Distribution<'_>) {
        let mut value = Message::default();
        value.number(histogram::COUNT, told.count);
        value.double(histogram::SUM, seconds(told.sum));
        let bounds = told.bounds.iter().map(|ns| seconds(*ns)).zip(told.below.iter().copied());
        let bounds = bounds.chain([(f64::INFINITY, told.count)]);
        for (place, (bound, below)) in bounds.enumerate() {
            let exemplar = told.exemplars.get(place).and_then(Option::as_ref);
            value.message(histogram::BUCKET, |message| bucket(message, below, bound, exemplar));
        }
        if let Some(fine) = told.fine.map(Histogram::exponential) {
            native(&mut value, &fine);
        }
        self.metric(labels.iter().copied(), self.field(), &value);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        self.out.0
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn pair(message: &mut Message, name: &str, value: &str) {
    message.bytes(metric::LABEL_NAME, name.as_bytes());
    message.bytes(metric::LABEL_VALUE, value.as_bytes());
}

fn bucket(message: &mut Message, below: u64, bound: f64, exemplar: Option<&Exemplar>) {
    message.number(histogram::CUMULATIVE_COUNT, below);
    message.double(histogram::UPPER_BOUND, bound);
    if let Some(Exemplar { labels, ns, wall }) = exemplar {
        message.message(histogram::EXEMPLAR, |message| {
            for (name, value) in labels {
                message.message(histogram::EXEMPLAR_LABEL, |label| pair(label, name, value));
            }
            message.double(histogram::EXEMPLAR_VALUE, seconds(*ns));
            message.message(histogram::EXEMPLAR_TIME, |time| {
                time.number(histogram::SECONDS, wall / 1_000_000);
                time.number(histogram::NANOS, wall % 1_000_000 * 1000);
            });
        });
    }
}

/// The fields of a native histogram: spans of buckets that follow one another, and of each bucket how many more it has than
/// the one before it. Also one in which nothing was counted yet has its zero bucket's breadth, by which it is known as one.
fn native(message: &mut Message, fine: &Exponential) {
    message.signed(histogram::SCHEMA, SCALE.into());
    message.double(histogram::ZERO_THRESHOLD, ZERO_SECONDS);
    message.number(histogram::ZERO_COUNT, fine.zero);
    let mut spans: Vec<(i64, u64)> = Vec::new();
    let mut next = 0;
    for (place, _) in &fine.buckets {
        let gap = i64::from(*place) - next;
        match spans.last_mut() {
            Some((_, length)) if gap == 0 => *length += 1,
            _ => spans.push((gap, 1)),
        }
        next = i64::from(*place) + 1;
    }
    for (offset, length) in spans {
        message.message(histogram::POSITIVE_SPAN, |span| {
            span.signed(histogram::OFFSET, offset);
            span.number(histogram::LENGTH, length);
        });
    }
    let mut before = 0;
    for (_, count) in &fine.buckets {
        message.signed(histogram::POSITIVE_DELTA, *count as i64 - before);
        before = *count as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_protobuf_has_them() {
        let mut message = Message::default();
        message.number(1, 300);
        message.signed(13, -2);
        message.double(2, 1.0);
        message.bytes(4, b"ab");
        let wanted = [0x08, 0xac, 0x02, 0x68, 3, 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x22, 2, b'a', b'b'];
        assert_eq!(message.0, wanted);
    }

    #[test]
    fn a_family_has_its_length_before_it_and_none_is_empty() {
        let mut messages = Messages::default();
        messages.begin("empty", Kind::Gauge, "nothing");
        messages.begin("a_total", Kind::Counter, "h");
        messages.sample(&[("x", "y"), ("gone", "")], Number::Nanoseconds(1_000_000_000));
        let counter = [0x1a, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        let label = [0x0a, 6, 0x0a, 1, b'x', 0x12, 1, b'y'];
        let metric = [&[0x22, 19][..], &label, &counter].concat();
        let family = [&b"\x0a\x07a_total\x12\x01h\x18\x00"[..], &metric].concat();
        assert_eq!(messages.finish(), [&[family.len() as u8][..], &family].concat());
    }

    #[test]
    fn an_exemplar_has_a_pair_for_each_of_its_names() {
        let labels = vec![("trace_id", "0a".into()), ("request_id", "abc".into())];
        let mut message = Message::default();
        bucket(&mut message, 1, 0.5, Some(&Exemplar { labels, ns: 1_000_000_000, wall: 2_000_003 }));
        let first = [&b"\x0a\x0e\x0a\x08trace_id\x12\x02"[..], b"0a"].concat();
        let second = [&b"\x0a\x11\x0a\x0arequest_id\x12\x03"[..], b"abc"].concat();
        let rest = b"\x11\0\0\0\0\0\0\xf0\x3f\x1a\x05\x08\x02\x10\xb8\x17";
        let exemplar = [&first[..], &second, rest].concat();
        assert!(
            message.0.ends_with(&[&[0x1a, exemplar.len() as u8][..], &exemplar].concat()),
            "{:?}",
            message.0
        );
    }

    #[test]
    fn buckets_that_follow_one_another_are_one_span() {
        let mut message = Message::default();
        native(&mut message, &Exponential { zero: 5, buckets: vec![(-3, 7), (-2, 4), (1, 4)] });
        // Schema and breadth of the zero bucket.
        let head = 2 + 9;
        assert_eq!((&message.0[..3], message.0[head - 1]), (&[0x28, 8, 0x31][..], 0x3e));
        let spans = [0x62, 4, 0x08, 5, 0x10, 2, 0x62, 4, 0x08, 4, 0x10, 1];
        let deltas = [0x68, 14, 0x68, 5, 0x68, 0];
        assert_eq!(message.0[head..], [&[0x38, 5][..], &spans, &deltas].concat());
    }
}
