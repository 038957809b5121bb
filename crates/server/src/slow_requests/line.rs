//! The line that the log gets of a request that took long: how it has ended, and where its time went.
//!
//! Knows: how long each phase took, and whether its client was the reason. Does not know: where its thread stood. Runs where
//! requests are settled.

use std::fmt::Write;

use crate::statistics::phase::{Ending, NOT_MEASURED, Phase, Spans};

/// Of a path no more is written.
const LONGEST: usize = 400;

/// How a request that took long has ended.
pub struct Outcome<'a> {
    /// Zero: there was no reply.
    pub status: u16,
    pub ending: Ending,
    /// Nanoseconds until its client has had something.
    pub reached: u64,
    pub spans: &'a Spans,
    /// The reply, or a part of it, has waited until its client took more.
    pub waited_for_client: bool,
}

impl Outcome<'_> {
    /// `slow request: GET /path, 200 after 12.10 s (…): 7 of 8 looks found its thread at …`. `stood`: what is behind the colon; empty: nothing.
    pub fn told(&self, request: &str, stood: &str) -> String {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let of = |phase: Phase| seconds(self.spans[phase as usize]);
        let mut text = String::from("slow request: ");
        text.extend(request.chars().take(LONGEST));
        let _ = match (self.status, self.ending) {
            (0, Ending::ClientGone) => write!(text, ", its client had left"),
            (0, _) => write!(text, ", no reply"),
            (status, _) => write!(text, ", {status}"),
        };
        let _ = write!(text, " after {:.2} s (", seconds(self.reached));
        for (phase, name) in
            [(Phase::Receive, "received"), (Phase::Queue, "queued"), (Phase::Gil, "interpreter")]
        {
            if of(phase) >= 0.005 {
                let _ = write!(text, "{name} {:.2}, ", of(phase));
            }
        }
        let _ = write!(text, "application {:.2}", of(Phase::App));
        if self.spans[Phase::Cpu as usize] != NOT_MEASURED {
            let _ = write!(text, ", {:.2} of it on a processor", of(Phase::Cpu));
        }
        if of(Phase::Send) >= 0.005 {
            let _ = write!(text, ", sent {:.2}", of(Phase::Send));
            // Where most of its time went elsewhere nobody has to ask for the reason.
            if self.waited_for_client && of(Phase::Send) * 2.0 >= of(Phase::Total) {
                text.push_str(" to a client that reads slowly");
            }
        }
        text.push(')');
        if !stood.is_empty() {
            let _ = write!(text, ": {stood}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whose_client_reads_slowly_or_had_left() {
        let line = |app: u64, send: u64, waited_for_client, (status, ending)| {
            let mut spans = [0; 9];
            spans[Phase::Cpu as usize] = NOT_MEASURED;
            spans[Phase::App as usize] = app * 1_000_000_000;
            spans[Phase::Send as usize] = send * 1_000_000_000;
            spans[Phase::Total as usize] = (app + send) * 1_000_000_000;
            let reached = spans[Phase::Total as usize];
            Outcome { status, ending, reached, spans: &spans, waited_for_client }.told("GET /", "")
        };
        let well = (200, Ending::Answered);
        for (told, expected) in [
            (
                line(0, 6, true, well),
                "200 after 6.00 s (application 0.00, sent 6.00 to a client that reads slowly)",
            ),
            (line(0, 6, false, well), "200 after 6.00 s (application 0.00, sent 6.00)"),
            (line(5, 1, true, well), "200 after 6.00 s (application 5.00, sent 1.00)"),
            (
                line(0, 0, false, (0, Ending::ClientGone)),
                "its client had left after 0.00 s (application 0.00)",
            ),
            (line(0, 0, false, (200, Ending::ClientGone)), "200 after 0.00 s (application 0.00)"),
            (line(0, 0, false, (0, Ending::CutOff)), "no reply after 0.00 s (application 0.00)"),
        ] {
            assert_eq!(told, format!("slow request: GET /, {expected}"));
        }
    }
}
