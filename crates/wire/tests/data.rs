//! Every case of `tests/data`, four ways: whole, byte by byte, split in two at every place,
//! and with further bytes behind it.

use crate::cases::{Case, Expected, all};
use wire::{Event, Fault, Framing, Http1, Shared};

/// What came out of a machine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    requests: Vec<Expected>,
    /// Whether the last request's body came to its end.
    complete: bool,
    refused: Option<(u16, String)>,
}

impl Outcome {
    fn refuse(&mut self, fault: Fault) {
        self.refused = Some((fault.status, fault.reason.to_string()));
    }
}

/// Feeds pieces to a machine and notes what comes out.
fn play(case: &Case, pieces: &[&[u8]], end: bool) -> Outcome {
    let mut shared = Shared::new(case.limits.clone(), case.policy.clone());
    let mut machine = Http1::new(0, 0);
    let mut outcome = Outcome { complete: true, ..Outcome::default() };
    for piece in pieces {
        let mut input = *piece;
        loop {
            match machine.advance(&mut input, &mut shared, 0) {
                Event::NeedMore => {
                    assert!(input.is_empty(), "{}: input was left over: {input:?}", case.name);
                    break;
                }
                Event::Request(head) => {
                    outcome.complete = matches!(head.framing, Framing::None | Framing::Length(0));
                    outcome.requests.push(Expected {
                        line: head.request_line().to_vec(),
                        headers: head
                            .block
                            .fields()
                            .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
                            .collect(),
                        body: Vec::new(),
                    });
                }
                Event::Body(bytes) => {
                    outcome.requests.last_mut().expect("a request").body.extend_from_slice(bytes);
                }
                Event::End => outcome.complete = true,
                Event::Fault(fault) => {
                    outcome.refuse(fault);
                    // T10: after a fault nothing more is a request, whatever comes.
                    let mut more: &[u8] = b"GET /more HTTP/1.1\r\nHost: a\r\n\r\n";
                    assert!(
                        matches!(machine.advance(&mut more, &mut shared, 0), Event::Fault(again) if again == fault)
                    );
                    return outcome;
                }
            }
        }
    }
    if end && let Some(fault) = machine.eof() {
        outcome.refuse(fault);
    }
    outcome
}

/// Compares with what the case expects.
fn check(case: &Case, outcome: &Outcome, way: &str) {
    let shown = case.send.escape_ascii();
    let told = || format!("{} ({way})\n  sent: {shown}\n  came: {outcome:?}", case.name);
    assert_eq!(outcome.refused, case.refuse, "{}", told());
    assert_eq!(outcome.requests.len(), case.requests.len(), "{}", told());
    for (index, (found, expected)) in outcome.requests.iter().zip(&case.requests).enumerate() {
        // A relaxed line may end in LF; a request line is compared without its ending.
        assert_eq!(found.line, expected.line, "{}", told());
        for header in &expected.headers {
            assert!(found.headers.contains(header), "{header:?} is missing: {}", told());
        }
        let last = index + 1 == case.requests.len();
        if !(last && case.refuse.is_some()) {
            assert_eq!(found.body, expected.body, "{}", told());
        }
    }
}

#[test]
fn every_case_holds_whole() {
    let cases = all();
    assert!(cases.len() > 150, "only {} cases were found", cases.len());
    for case in &cases {
        check(case, &play(case, &[&case.send], case.end), "whole");
    }
}

#[test]
fn every_case_holds_byte_by_byte() {
    for case in &all() {
        let pieces: Vec<&[u8]> = case.send.chunks(1).collect();
        check(case, &play(case, &pieces, case.end), "byte by byte");
    }
}

#[test]
fn every_case_holds_split_in_two_at_every_place() {
    for case in &all() {
        // Long cases repeat one letter; their ends are where splits matter.
        let places: Vec<usize> = match case.send.len() {
            length if length <= 1500 => (0..=length).collect(),
            length => (0..200).chain(length - 200..=length).collect(),
        };
        for place in places {
            let (first, second) = case.send.split_at(place);
            check(case, &play(case, &[first, second], case.end), &format!("split at {place}"));
        }
    }
}

#[test]
fn every_case_holds_with_further_bytes_behind_it() {
    let tail = b"GET /tail HTTP/1.1\r\nHost: tail\r\n\r\n";
    for case in &all() {
        // An incomplete message would take the tail for its own.
        if case.end {
            continue;
        }
        let whole = [case.send.as_slice(), tail].concat();
        let mut outcome = play(case, &[&whole], false);
        if case.refuse.is_none() {
            let last = outcome.requests.pop().expect("the tail's request");
            assert_eq!(last.line, b"GET /tail HTTP/1.1", "{}", case.name);
        } else if outcome
            .refused
            .as_ref()
            .is_some_and(|(_, reason)| reason == "request-line" || reason == "target")
        {
            // A case that is refused for lack of more may be refused for the tail instead.
            continue;
        }
        check(case, &outcome, "with a tail");
    }
}

#[test]
fn a_million_chunks_of_one_byte_take_time_in_proportion() {
    // F23: counted, not timed: each chunk is one event, and nothing is kept.
    for count in [1_000, 10_000, 100_000] {
        let mut bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        bytes.extend(b"1\r\nx\r\n".repeat(count));
        bytes.extend(b"0\r\n\r\n");
        let mut shared = Shared::new(wire::Limits::default(), wire::Policy::default());
        let mut machine = Http1::new(0, 0);
        let mut input = bytes.as_slice();
        let mut events = 0;
        loop {
            events += 1;
            match machine.advance(&mut input, &mut shared, 0) {
                Event::End => break,
                Event::Fault(fault) => panic!("{fault:?}"),
                _ => {}
            }
        }
        assert_eq!(events, count + 2);
    }
}
