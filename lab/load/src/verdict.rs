//! Whether the generator itself can be believed: a pure function of what it counted about itself.

use crate::kinds::{Fault, Faults};

/// More late starts, or late beats, than this share and the point is not to be ranked.
const LATE_SHARE: f64 = 0.01;
/// A thread that used so much of its processor did not wait for the server.
const CEILING: f64 = 0.95;

/// What the generator counted about itself.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    pub faults: Faults,
    pub planned_starts: u64,
    pub beats: u64,
    pub beats_late: u64,
    pub busiest_share: f64,
    pub is_closed: bool,
    pub late_after_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fit,
    AtCeiling,
    AtFault,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Fit => "fit",
            Verdict::AtCeiling => "at_ceiling",
            Verdict::AtFault => "at_fault",
        }
    }
}

/// The verdict, and the reasons for it in sentences.
pub fn judge(evidence: &Evidence) -> (Verdict, Vec<String>) {
    let mut reasons = Vec::new();
    let descriptors = evidence.faults.of(Fault::DescriptorUnavailable);
    if descriptors > 0 {
        reasons.push(format!(
            "{descriptors} starts had no file descriptor: raise the limit (ulimit -n) or offer less"
        ));
    }
    let addresses = evidence.faults.of(Fault::AddressUnavailable);
    if addresses > 0 {
        reasons.push(format!(
            "{addresses} starts had no free local address and port: give more sources, or widen net.ipv4.ip_local_port_range"
        ));
    }
    let not_started = evidence.faults.of(Fault::NotStarted);
    if not_started > 0 {
        reasons.push(format!(
            "{not_started} planned requests never started: max_connections, or this machine, is too small for this rate"
        ));
    }
    let late = evidence.faults.of(Fault::LateStart);
    if late as f64 > LATE_SHARE * evidence.planned_starts as f64 {
        reasons.push(format!(
            "{late} of {} starts were more than {} ms late",
            evidence.planned_starts, evidence.late_after_ms
        ));
    }
    if evidence.beats_late as f64 > LATE_SHARE * evidence.beats as f64 {
        reasons.push(format!(
            "the generator was held up: {} of {} timers were more than {} ms late; give it a processor of its own",
            evidence.beats_late, evidence.beats, evidence.late_after_ms
        ));
    }
    if !reasons.is_empty() {
        return (Verdict::AtFault, reasons);
    }
    if evidence.is_closed && evidence.busiest_share >= CEILING {
        let share = (evidence.busiest_share * 100.0).round();
        return (
            Verdict::AtCeiling,
            vec![format!("a thread used {share} % of its processor: the rate is a lower bound")],
        );
    }
    (Verdict::Fit, reasons)
}
