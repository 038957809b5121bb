//! Which of three formats of metrics a scraper is given: what it says in Accept, with its weights (RFC 9110 §12.5.1).
//!
//! Knows: the names of formats. Does not know: how they are written (`text.rs`, `protobuf.rs`). Pure.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prometheus' own text, 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own messages, one behind the other, each with its length: the one format that has native histograms.
    Protobuf,
}

impl Form {
    pub fn content_type(self) -> &'static [u8] {
        match self {
            Self::Prometheus => b"text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => b"application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                b"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// What is liked best of what an Accept names, of equals the first; Prometheus' text where that is none of them.
    pub fn asked(accept: &[u8]) -> Self {
        let accept = String::from_utf8_lossy(accept);
        let mut best = (Self::Prometheus, 0.0);
        for member in accept.split(',') {
            if let Some((form, weight)) = Self::of_member(member)
                && weight > best.1
            {
                best = (form, weight);
            }
        }
        best.0
    }

    /// One member, `type/subtype;name=value;q=0.5`. None for what is not written here, or not understood.
    fn of_member(member: &str) -> Option<(Self, f32)> {
        let mut parts = member.split(';').map(str::trim);
        let media = parts.next()?.to_ascii_lowercase();
        let parameters: Vec<(String, &str)> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
            .collect();
        let said = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let weight = said("q").map_or(Some(1.0), |weight| weight.parse::<f32>().ok())?;
        let form = match media.as_str() {
            "application/vnd.google.protobuf" => {
                // There are other messages, and texts of these.
                let ours =
                    said("proto")? == "io.prometheus.client.MetricFamily" && said("encoding")? == "delimited";
                ours.then_some(Self::Protobuf)?
            }
            "application/openmetrics-text" => Self::OpenMetrics,
            "text/plain" | "text/*" | "*/*" => Self::Prometheus,
            _ => return None,
        };
        Some((form, weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    const OPEN: &str = "application/openmetrics-text;version=1.0.0";

    #[test]
    fn a_scraper_is_given_what_it_likes_best() {
        for (accept, wanted) in [
            (String::new(), Form::Prometheus),
            ("*/*".into(), Form::Prometheus),
            ("text/html,application/json".into(), Form::Prometheus),
            (OPEN.into(), Form::OpenMetrics),
            // Prometheus 2.42 without and with --enable-feature=native-histograms, and 3.
            (
                format!(
                    "{OPEN},application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5"
                ),
                Form::OpenMetrics,
            ),
            (format!("{MESSAGES},{OPEN};q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Form::Protobuf),
            (
                format!("{OPEN};escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"),
                Form::OpenMetrics,
            ),
            // Others that name all of them.
            (format!("{MESSAGES};q=0.3,text/plain;version=0.0.4;q=0.7"), Form::Prometheus),
            (format!("text/plain ; q=0.2 , {OPEN} ; Q=\"0.3\""), Form::OpenMetrics),
            (format!("{OPEN};q=0,text/plain;q=0.1"), Form::Prometheus),
            (format!("{OPEN};q=much,text/plain"), Form::Prometheus),
            // Messages that are not written here.
            (MESSAGES.replace("delimited", "compact-text"), Form::Prometheus),
            (format!("{},{OPEN};q=0.1", MESSAGES.replace("MetricFamily", "Other")), Form::OpenMetrics),
        ] {
            assert_eq!(Form::asked(accept.as_bytes()), wanted, "{accept}");
        }
    }
}
