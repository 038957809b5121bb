//! The two text formats of metrics: Prometheus' own (0.0.4) and OpenMetrics 1.0.
//!
//! Knows: how families, labels and values are written, and where the two differ. Does not know: what is measured.

use std::fmt::Write;

use super::samples::{Distribution, Kind, Labels, Number};
use crate::statistics::snapshot::Exemplar;

/// A text in the making.
pub struct Text {
    /// It is OpenMetrics'.
    open: bool,
    out: String,
    family: String,
}

impl Text {
    pub fn new(open: bool) -> Self {
        Self { open, out: String::with_capacity(64 * 1024), family: String::new() }
    }

    /// `name`: that of its samples, where all have the same.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        self.family = name.into();
        let name = match kind {
            Kind::Counter if self.open => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        // A help is one line, and so is what it says of backslashes.
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let help = if self.open { help.replace('"', "\\\"") } else { help };
        let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    fn name(&mut self, name: &str, labels: Labels<'_>) {
        self.out.push_str(name);
        let sign = self.labels('{', labels);
        self.out.push_str(if sign == ',' { "} " } else { " " });
    }

    /// Those that are not empty, the first behind that sign; what comes before the next one.
    fn labels(&mut self, mut sign: char, labels: Labels<'_>) -> char {
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            self.out.push(sign);
            sign = ',';
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.escaped(value);
            self.out.push('"');
        }
        sign
    }

    fn escaped(&mut self, mut value: &str) {
        while let Some(at) = value.find(['\\', '"', '\n']) {
            let (plain, rest) = value.split_at(at);
            self.out.push_str(plain);
            self.out.push_str(match rest.as_bytes().first() {
                Some(b'\n') => "\\n",
                Some(b'"') => "\\\"",
                _ => "\\\\",
            });
            value = &rest[1..];
        }
        self.out.push_str(value);
    }

    /// One sample of the family that was begun last, or of a name of its own.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, number: Number) {
        if name.is_empty() {
            self.out.push_str(&self.family);
        }
        self.name(name, labels);
        self.push(number);
        self.out.push('\n');
    }

    fn push(&mut self, number: Number) {
        let _ = match number {
            Number::Whole(value) => write!(self.out, "{value}"),
            Number::Nanoseconds(ns) => write!(self.out, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
            Number::Any(f64::INFINITY) => write!(self.out, "+Inf"),
            Number::Any(f64::NEG_INFINITY) => write!(self.out, "-Inf"),
            // As both formats want it: a whole one has a point, too.
            Number::Any(value) => write!(self.out, "{value:?}"),
        };
    }

    pub fn distribution(&mut self, labels: Labels<'_>, told: &Distribution<'_>) {
        let bounds = told.bounds.iter().map(|ns| *ns as f64 / 1e9);
        let buckets = bounds.zip(told.below.iter().copied()).chain([(f64::INFINITY, told.count)]);
        // All that they have in common is written once, and copied.
        let begin = self.out.len();
        self.out.push_str(&self.family);
        self.out.push_str("_bucket");
        let sign = self.labels('{', labels);
        let common = begin..self.out.len();
        for (bucket, (le, below)) in buckets.enumerate() {
            if bucket > 0 {
                self.out.extend_from_within(common.clone());
            }
            self.out.push(sign);
            self.out.push_str("le=\"");
            self.push(Number::Any(le));
            let _ = write!(self.out, "\"}} {below}");
            if let Some(Some(exemplar)) = told.exemplars.get(bucket)
                && self.open
            {
                self.push_exemplar(exemplar);
            }
            self.out.push('\n');
        }
        let family = std::mem::take(&mut self.family);
        self.sample(&format!("{family}_count"), labels, Number::Whole(told.count));
        self.sample(&format!("{family}_sum"), labels, Number::Nanoseconds(told.sum));
        self.family = family;
    }

    fn push_exemplar(&mut self, exemplar: &Exemplar) {
        let Exemplar { labels, ns, wall } = exemplar;
        let (seconds, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let (at, micros) = (wall / 1_000_000, wall % 1_000_000);
        self.out.push_str(" # {");
        for (place, (name, value)) in labels.iter().enumerate() {
            // A name has no character that would have to be escaped (`request_id.rs`).
            let _ = write!(self.out, "{}{name}=\"{value}\"", if place == 0 { "" } else { "," });
        }
        let _ = write!(self.out, "}} {seconds}.{part:09} {at}.{micros:06}");
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.open {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [u64; 3] = [100_000, 5_000_000, 10_000_000_000];

    fn written(open: bool) -> String {
        let mut text = Text::new(open);
        text.begin("a_total", Kind::Counter, "says \"what\\ever\"");
        text.sample("", &[("empty", ""), ("path", "a\"b\\c\nd")], Number::Whole(3));
        text.begin("b_seconds", Kind::Histogram, "b");
        let labels = vec![("trace_id", "0a".into()), ("request_id", "abc".into())];
        let exemplar = Exemplar { labels, ns: 2_000_000, wall: 1_700_000_000_000_007 };
        let exemplars = [Some(exemplar), None];
        let mut told = Distribution::of_buckets(&BOUNDS, &[1, 0, 0, 1], 10_500_000_000);
        told.exemplars = &exemplars;
        text.distribution(&[], &told);
        String::from_utf8(text.finish()).expect("text")
    }

    #[test]
    fn the_two_formats_differ_where_they_have_to() {
        let (old, new) = (written(false), written(true));
        assert!(old.starts_with("# HELP a_total says \"what\\\\ever\"\n# TYPE a_total counter\n"), "{old}");
        assert!(new.starts_with("# HELP a says \\\"what\\\\ever\\\"\n# TYPE a counter\n"), "{new}");
        for text in [&old, &new] {
            assert!(text.contains("a_total{path=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
            assert!(
                text.contains("b_seconds_bucket{le=\"0.005\"} 1\nb_seconds_bucket{le=\"10.0\"} 1\nb_seconds_bucket{le=\"+Inf\"} 2\n"),
                "{text}"
            );
            assert!(text.contains("b_seconds_count 2\nb_seconds_sum 10.500000000\n"), "{text}");
        }
        let exemplar = " # {trace_id=\"0a\",request_id=\"abc\"} 0.002000000 1700000000.000007";
        assert!(new.contains(&format!("b_seconds_bucket{{le=\"0.0001\"}} 1{exemplar}\n")), "{new}");
        let new = new.replacen(exemplar, "", 1);
        assert_eq!(new.strip_suffix("# EOF\n").map(str::len), Some(old.len() - 12 + 2));
    }
}
