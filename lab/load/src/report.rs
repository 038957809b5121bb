//! The result as JSON: FORMAT.md's second half. Pure: it opens no file and asks no clock.

use crate::collect::{Collected, Line};
use crate::job::Job;
use crate::plan::Load;
use crate::record::{TIMES, Whole};
use crate::verdict::{Evidence, judge};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde_json::{Map, Value, json};

/// Six numbers that a reader looks for first; all others are in the histogram.
const PERCENTILES: [(&str, f64); 7] =
    [("50", 0.5), ("75", 0.75), ("90", 0.9), ("95", 0.95), ("99", 0.99), ("99.9", 0.999), ("99.99", 0.9999)];

/// What the run as a whole knows, beside what was collected.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub started_at: f64,
    pub elapsed_s: f64,
    pub interrupted: bool,
    pub cpu_s: f64,
    pub memory_peak: u64,
}

/// An HDR histogram as text: V2, deflated, base64; the empty string for an empty one.
pub fn packed(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    if histogram.is_empty() || V2DeflateSerializer::new().serialize(histogram, &mut bytes).is_err() {
        return String::new();
    }
    STANDARD.encode(bytes)
}

fn distribution(histogram: &Histogram<u64>) -> Value {
    let some = |value: f64| if histogram.is_empty() { Value::Null } else { json!(value) };
    let mut percentiles = Map::new();
    for (name, quantile) in PERCENTILES {
        percentiles.insert(name.into(), some(histogram.value_at_quantile(quantile) as f64));
    }
    json!({
        "count": histogram.len(),
        "min_us": some(histogram.min() as f64),
        "mean_us": some((histogram.mean() * 10.0).round() / 10.0),
        "max_us": some(histogram.max() as f64),
        "percentiles_us": percentiles,
        "hdr": packed(histogram),
    })
}

/// How long the load that is reported on lasted: the plan's time without warm-up, or less where it ended before.
fn window(job: &Job, whole: &Whole, frame: &Frame) -> f64 {
    let seconds = job.duration as f64 / 1e9;
    let end = match (frame.interrupted, whole.exhausted && job.count().is_some()) {
        (true, _) => frame.elapsed_s.min(seconds),
        (false, true) => (whole.last_reply as f64 / 1e9).min(seconds),
        (false, false) => seconds,
    };
    (end - job.plan.warmup_s as f64).max(0.0)
}

pub fn result(job: &Job, collected: &Collected, frame: Frame) -> Value {
    let Some(whole) = &collected.whole else { return Value::Null };
    let total = &collected.total.tally;
    let window_s = window(job, whole, &frame);
    let per_second = |count: u64| if window_s > 0.0 { json!(count as f64 / window_s) } else { Value::Null };
    let counts = &total.counts;
    let offered: u64 = whole.offered.iter().skip(job.plan.warmup_s as usize).sum();
    let ended = match (frame.interrupted, whole.exhausted && job.count().is_some()) {
        (true, _) => "interrupted",
        (false, true) => "count",
        (false, false) => "planned",
    };
    let statuses: Map<String, Value> =
        total.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
    json!({
        "format": 1,
        "engine": concat!("forehand-load ", env!("CARGO_PKG_VERSION")),
        "plan": job.plan,
        "address": job.endpoint.shown,
        "ended": ended,
        "started_at": frame.started_at,
        "window_s": window_s,
        "elapsed_s": frame.elapsed_s,
        "totals": {
            "offered": offered,
            "started": counts.started,
            "replies": counts.replies,
            "failed": total.errors.failed(),
            "replies_in_window": counts.replies_in_window,
            "offered_per_s": per_second(offered),
            "replies_per_s": per_second(counts.replies_in_window),
            "bytes_sent": counts.bytes_sent,
            "bytes_received": counts.bytes_received,
            "status": statuses,
            "connections": {
                "opened": counts.opened,
                "handshakes": counts.handshakes,
                "resumed": counts.resumed,
                "closed_by_server": counts.closed_by_server,
                "closed_while_idle": counts.closed_while_idle,
                "most_open": whole.most_open,
            },
            "sessions": {
                "arrived": counts.sessions_arrived,
                "finished": counts.sessions_finished,
                "failed": counts.sessions_failed,
            },
        },
        "errors": total.errors.by_name(),
        "generator": generator(job, collected, whole, &frame),
        "times": named(collected.total.times.0.iter().map(distribution)),
        "by_request": by_request(job, whole),
        "series": series(job, collected, whole),
    })
}

fn named(values: impl Iterator<Item = Value>) -> Value {
    TIMES.iter().map(|name| (*name).to_string()).zip(values).collect::<Map<_, _>>().into()
}

fn generator(job: &Job, collected: &Collected, whole: &Whole, frame: &Frame) -> Value {
    let evidence = Evidence {
        faults: collected.total.tally.faults,
        planned_starts: whole.lateness.len(),
        beats: whole.heartbeat.len(),
        beats_late: whole.beats_late,
        busiest_share: whole.cpu_share,
        is_closed: matches!(job.plan.load, Load::Closed(_)),
        late_after_ms: job.plan.late_after_ms,
    };
    let (verdict, reasons) = judge(&evidence);
    json!({
        "verdict": verdict.name(),
        "reasons": reasons,
        "faults": evidence.faults.by_name(),
        "lateness": distribution(&whole.lateness),
        "heartbeat": distribution(&whole.heartbeat),
        "most_queued": whole.most_queued,
        "cpu_s": frame.cpu_s,
        "threads": collected.threads,
        "busiest_thread_share": whole.cpu_share,
        "memory_peak_bytes": frame.memory_peak,
    })
}

fn by_request(job: &Job, whole: &Whole) -> Value {
    let parts = job.templates.iter().zip(&whole.parts);
    let values = parts.map(|(template, part)| {
        let value = json!({"replies": part.replies, "errors": part.errors.by_name(), "response": distribution(&part.response)});
        (template.name.clone(), value)
    });
    values.collect::<Map<_, _>>().into()
}

fn series(job: &Job, collected: &Collected, whole: &Whole) -> Vec<Value> {
    let line = |(second, line): (usize, &Line)| {
        let offered = whole.offered.get(second).copied().unwrap_or(0);
        let mut value = second_of(second as u64, offered, line, job.plan.warmup_s);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("times".into(), named(line.packed.iter().map(|text| json!(text))));
        }
        value
    };
    collected.seconds.iter().enumerate().map(line).collect()
}

fn second_of(second: u64, offered: u64, line: &Line, warmup_s: u64) -> Value {
    let tally = &line.tally;
    json!({
        "second": second,
        "warmup": second < warmup_s,
        "offered": offered,
        "started": tally.counts.started,
        "replies": tally.counts.replies,
        "errors": tally.errors.by_name(),
        "faults": tally.faults.by_name(),
        "open_connections": tally.open_connections,
        "queued": tally.queued,
        "bytes_received": tally.counts.bytes_received,
    })
}

/// A second for `--live-json`. What was offered is as seen so far: a late start may still be added to it.
pub fn live_json(second: u64, line: &Line, warmup_s: u64) -> Value {
    let mut value = second_of(second, line.tally.counts.offered, line, warmup_s);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("p50_us".into(), json!(line.p50_us));
        fields.insert("p99_us".into(), json!(line.p99_us));
    }
    value
}

/// A second for people.
pub fn live_line(second: u64, line: &Line) -> String {
    let tally = &line.tally;
    let milliseconds = |us: Option<u64>| us.map_or("-".to_string(), |us| format!("{:.2}", us as f64 / 1e3));
    let errors: Vec<String> =
        tally.errors.by_name().iter().map(|(name, count)| format!("{name} {count}")).collect();
    let faults: Vec<String> =
        tally.faults.by_name().iter().map(|(name, count)| format!("generator: {name} {count}")).collect();
    let troubles = [errors, faults].concat();
    format!(
        "{second:>4} s  offered {:>7}  replies {:>7}  p50 {:>8} ms  p99 {:>8} ms  open {:>6}  {}",
        tally.counts.offered,
        tally.counts.replies,
        milliseconds(line.p50_us),
        milliseconds(line.p99_us),
        tally.open_connections,
        if troubles.is_empty() { "no errors".to_string() } else { troubles.join(", ") }
    )
}
