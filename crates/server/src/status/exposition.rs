//! The two text formats of metrics: Prometheus' own (0.0.4) and OpenMetrics 1.0.
//!
//! Knows: how families, labels and values are written, and where the two differ. Does not know: what is measured.

use std::collections::HashSet;
use std::fmt::Write;

use crate::statistics::histogram::BOUNDS;
use crate::statistics::snapshot::Exemplar;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    pub fn content_type(self) -> &'static [u8] {
        match self {
            Self::Prometheus => b"text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => b"application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Names and values of labels; one whose value is empty is left out, which is the same.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The bounds of a histogram's buckets, as both formats want numbers.
const LE: [&str; BOUNDS.len()] = [
    "0.005", "0.01", "0.025", "0.05", "0.075", "0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5",
    "10.0",
];

/// A text in the making.
pub struct Text {
    form: Form,
    out: String,
    family: String,
    /// Families that somebody else tells of, and whether this is one.
    others: HashSet<String>,
    muted: bool,
}

impl Text {
    pub fn new(form: Form) -> Self {
        let (out, family) = (String::with_capacity(64 * 1024), String::new());
        Self { form, out, family, others: HashSet::new(), muted: false }
    }

    /// Leaves out families of these names from now on.
    pub fn leave_to_others(&mut self, names: HashSet<String>) {
        self.others = names;
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.family = name.into();
        self.muted = self.others.contains(name.strip_suffix("_total").unwrap_or(name));
        if self.muted {
            return;
        }
        // A help is one line, and so is what it says of backslashes.
        let help = help.trim().replace('\\', "\\\\").replace('\n', "\\n");
        let help = if self.form == Form::OpenMetrics { help.replace('"', "\\\"") } else { help };
        let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A family of numbers that only grow; `name` ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) {
        let bare = match self.form {
            Form::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Form::Prometheus => name,
        };
        self.begin(bare, "counter", help);
        self.family = name.into();
    }

    /// A family of that kind, whose samples have names of their own. `name`: without `_total`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.others.clear();
        match kind {
            "counter" => self.counter(&format!("{name}_total"), help),
            kind => self.begin(name, kind, help),
        }
    }

    /// One sample of it.
    pub fn named(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.family = name.into();
        self.name("", labels, None);
        let _ = match value {
            f64::INFINITY => writeln!(self.out, "+Inf"),
            f64::NEG_INFINITY => writeln!(self.out, "-Inf"),
            value => writeln!(self.out, "{value:?}"),
        };
    }

    pub fn gauge(&mut self, name: &str, help: &str) {
        self.begin(name, "gauge", help);
    }

    pub fn histogram(&mut self, name: &str, help: &str) {
        self.begin(name, "histogram", help);
    }

    fn name(&mut self, suffix: &str, labels: Labels<'_>, more: Option<(&str, &str)>) {
        self.out.push_str(&self.family);
        self.out.push_str(suffix);
        let mut sign = '{';
        for (name, value) in labels.iter().copied().chain(more).filter(|(_, value)| !value.is_empty()) {
            self.out.push(sign);
            sign = ',';
            self.out.push_str(name);
            self.out.push_str("=\"");
            for one in value.chars() {
                match one {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    one => self.out.push(one),
                }
            }
            self.out.push('"');
        }
        self.out.push_str(if sign == ',' { "} " } else { " " });
    }

    /// One sample of the family that was begun last.
    pub fn sample(&mut self, labels: Labels<'_>, value: u64) {
        if self.muted {
            return;
        }
        self.name("", labels, None);
        let _ = writeln!(self.out, "{value}");
    }

    /// The same for nanoseconds, in seconds.
    pub fn seconds(&mut self, labels: Labels<'_>, ns: u64) {
        if self.muted {
            return;
        }
        self.name("", labels, None);
        self.push_seconds(ns);
    }

    fn push_seconds(&mut self, ns: u64) {
        let _ = writeln!(self.out, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    }

    /// A distribution: how many were at most each bound, how many there were, and their sum in nanoseconds; and requests
    /// that stand for those of each bucket, which only OpenMetrics tells. Empty: there are none.
    pub fn distribution(
        &mut self,
        labels: Labels<'_>,
        below: &[u64; BOUNDS.len()],
        (count, sum): (u64, u64),
        exemplars: &[Option<Exemplar>],
    ) {
        if self.muted {
            return;
        }
        let buckets = LE.iter().copied().zip(below.iter().copied()).chain([("+Inf", count)]);
        for (bucket, (le, below)) in buckets.enumerate() {
            self.name("_bucket", labels, Some(("le", le)));
            let _ = write!(self.out, "{below}");
            if let Some(Some(exemplar)) = exemplars.get(bucket)
                && self.form == Form::OpenMetrics
            {
                self.push_exemplar(exemplar);
            }
            self.out.push('\n');
        }
        self.name("_count", labels, None);
        let _ = writeln!(self.out, "{count}");
        self.name("_sum", labels, None);
        self.push_seconds(sum);
    }

    fn push_exemplar(&mut self, exemplar: &Exemplar) {
        // A name has no character that would have to be escaped (`request_id.rs`).
        let Exemplar { id, ns, wall } = exemplar;
        let (seconds, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let (at, micros) = (wall / 1_000_000, wall % 1_000_000);
        let _ = write!(self.out, " # {{request_id=\"{id}\"}} {seconds}.{part:09} {at}.{micros:06}");
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.form == Form::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form) -> String {
        let mut text = Text::new(form);
        text.counter("a_total", " says \"what\\ever\"\n");
        text.sample(&[("empty", ""), ("path", "a\"b\\c\nd")], 3);
        text.histogram("b_seconds", "b");
        let exemplar = Exemplar { id: "abc".into(), ns: 2_000_000, wall: 1_700_000_000_000_007 };
        text.distribution(&[], &[1; BOUNDS.len()], (2, 10_500_000_000), &[Some(exemplar), None]);
        String::from_utf8(text.finish()).expect("text")
    }

    #[test]
    fn the_two_formats_differ_where_they_have_to() {
        let (old, new) = (written(Form::Prometheus), written(Form::OpenMetrics));
        assert!(old.starts_with("# HELP a_total says \"what\\\\ever\"\n# TYPE a_total counter\n"), "{old}");
        assert!(new.starts_with("# HELP a says \\\"what\\\\ever\\\"\n# TYPE a counter\n"), "{new}");
        for text in [&old, &new] {
            assert!(text.contains("a_total{path=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
            assert!(
                text.contains("b_seconds_bucket{le=\"10.0\"} 1\nb_seconds_bucket{le=\"+Inf\"} 2\n"),
                "{text}"
            );
            assert!(text.contains("b_seconds_count 2\nb_seconds_sum 10.500000000\n"), "{text}");
        }
        let exemplar = " # {request_id=\"abc\"} 0.002000000 1700000000.000007";
        assert!(new.contains(&format!("b_seconds_bucket{{le=\"0.005\"}} 1{exemplar}\n")), "{new}");
        let new = new.replacen(exemplar, "", 1);
        assert_eq!(new.strip_suffix("# EOF\n").map(str::len), Some(old.len() - 12 + 2));
    }
}
