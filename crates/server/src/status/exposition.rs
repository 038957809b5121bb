//! What is said of metrics, in whatever format: families, and the samples of each.
//!
//! Knows: which families somebody else tells of. Does not know: bytes (`text.rs`, `protobuf.rs`), or what is measured
//! (`metrics.rs`, `application.rs`).

use std::collections::HashSet;

use super::form::Form;
use super::protobuf::Messages;
use super::samples::{Distribution, Kind, Labels, Number};
use super::text::Text;

enum Writer {
    Text(Text),
    Messages(Messages),
}

/// All families, one behind the other.
pub struct Exposition {
    writer: Writer,
    /// Families that somebody else tells of, and whether this is one.
    others: HashSet<String>,
    muted: bool,
    /// Those that were left out for that.
    left_out: Vec<String>,
}

impl Exposition {
    pub fn new(form: Form) -> Self {
        let writer = match form {
            Form::Prometheus => Writer::Text(Text::new(false)),
            Form::OpenMetrics => Writer::Text(Text::new(true)),
            Form::Protobuf => Writer::Messages(Messages::default()),
        };
        Self { writer, others: HashSet::new(), muted: false, left_out: Vec::new() }
    }

    /// Leaves out families of these names from now on.
    pub fn leave_to_others(&mut self, names: HashSet<String>) {
        self.others = names;
    }

    /// The families that were left out until now.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        self.muted = self.others.contains(name.strip_suffix("_total").unwrap_or(name));
        if self.muted {
            self.left_out.push(name.into());
        }
        match &mut self.writer {
            _ if self.muted => {}
            Writer::Text(text) => text.begin(name, kind, help.trim()),
            Writer::Messages(messages) => messages.begin(name, kind, help.trim()),
        }
    }

    /// A family of numbers that only grow; `name` ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) {
        self.begin(name, Kind::Counter, help);
    }

    pub fn gauge(&mut self, name: &str, help: &str) {
        self.begin(name, Kind::Gauge, help);
    }

    pub fn histogram(&mut self, name: &str, help: &str) {
        self.begin(name, Kind::Histogram, help);
    }

    /// A family of somebody else's, whose samples have names of their own. `name`: without `_total`.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.others.clear();
        match kind {
            Kind::Counter => self.counter(&format!("{name}_total"), help),
            kind => self.begin(name, kind, help),
        }
    }

    /// One sample of it. Those of one histogram or summary come one behind the other.
    pub fn named(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        match &mut self.writer {
            Writer::Text(text) => text.sample(name, labels, Number::Any(value)),
            Writer::Messages(messages) => messages.part(name, labels, value),
        }
    }

    fn put(&mut self, labels: Labels<'_>, number: Number) {
        match &mut self.writer {
            _ if self.muted => {}
            Writer::Text(text) => text.sample("", labels, number),
            Writer::Messages(messages) => messages.sample(labels, number),
        }
    }

    /// One sample of the family that was begun last.
    pub fn sample(&mut self, labels: Labels<'_>, value: u64) {
        self.put(labels, Number::Whole(value));
    }

    /// The same for what may be less than nothing.
    pub fn signed(&mut self, labels: Labels<'_>, value: i64) {
        self.put(labels, Number::Any(value as f64));
    }

    /// The same for nanoseconds, in seconds.
    pub fn seconds(&mut self, labels: Labels<'_>, ns: u64) {
        self.put(labels, Number::Nanoseconds(ns));
    }

    pub fn distribution(&mut self, labels: Labels<'_>, told: &Distribution<'_>) {
        match &mut self.writer {
            _ if self.muted => {}
            Writer::Text(text) => text.distribution(labels, told),
            Writer::Messages(messages) => messages.distribution(labels, told),
        }
    }

    pub fn finish(self) -> Vec<u8> {
        match self.writer {
            Writer::Text(text) => text.finish(),
            Writer::Messages(messages) => messages.finish(),
        }
    }
}
