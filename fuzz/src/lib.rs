//! What fuzzing checks, as plain functions of bytes: any driver can call them.
//!
//! Knows: the machine and a second parser. Does not know: where bytes come from.

use wire::{Event, Framing, Http1, Limits, Policy, Shared};

/// What a machine made of some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Request lines and bodies.
    pub requests: Vec<(Vec<u8>, Vec<u8>)>,
    pub complete: bool,
    pub fault: Option<(u16, &'static str)>,
}

/// Small limits, so that short inputs reach them.
fn limits() -> Limits {
    let mut limits = Limits::default();
    for (name, value) in [
        ("request_line_bytes", 200),
        ("header_bytes", 600),
        ("header_lines", 12),
        ("body_bytes", 300),
        ("chunk_extension_bytes", 30),
        ("trailer_bytes", 60),
        ("trailer_lines", 3),
    ] {
        limits.set(name, value).expect("a limit");
    }
    limits
}

/// Feeds pieces to one machine.
pub fn play<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut shared = Shared::new(limits(), Policy::default());
    let mut machine = Http1::new(0, 0);
    let mut outcome = Outcome { complete: true, ..Outcome::default() };
    for piece in pieces {
        let mut input = piece;
        loop {
            match machine.advance(&mut input, &mut shared, 0) {
                Event::NeedMore => {
                    assert!(input.is_empty(), "NeedMore with input left");
                    break;
                }
                Event::Request(head) => {
                    outcome.complete = matches!(head.framing, Framing::None | Framing::Length(0));
                    assert!(head.raw_len() <= 200 + 600 + 8, "a head beyond its limits");
                    outcome.requests.push((head.request_line().to_vec(), Vec::new()));
                }
                Event::Body(bytes) => {
                    let body = &mut outcome.requests.last_mut().expect("a request before its body").1;
                    body.extend_from_slice(bytes);
                    assert!(body.len() <= 300, "a body beyond its limit");
                }
                Event::End => outcome.complete = true,
                Event::Fault(fault) => {
                    outcome.fault = Some((fault.status, fault.reason));
                    return outcome;
                }
            }
        }
    }
    outcome
}

/// The machine neither panics nor loops, and keeps its limits.
pub fn machine(bytes: &[u8]) {
    play(std::iter::once(bytes));
}

/// However the bytes are split, they mean the same.
pub fn every_split_agrees(bytes: &[u8]) {
    let whole = play(std::iter::once(bytes));
    let single = play(bytes.chunks(1));
    assert_eq!(same(&whole), same(&single), "whole and byte by byte");
    for place in 0..=bytes.len() {
        let (first, second) = bytes.split_at(place);
        assert_eq!(same(&whole), same(&play([first, second].into_iter())), "whole and split at {place}");
    }
}

/// What must agree: a body that is then refused may have been handed out in part.
fn same(outcome: &Outcome) -> (Vec<&[u8]>, Option<(u16, &'static str)>) {
    (outcome.requests.iter().map(|(line, _)| line.as_slice()).collect(), outcome.fault)
}

/// What we accept as a head, httparse accepts too, and reads alike. The other way round it does
/// not hold: httparse takes bare LF and leaves Host, lengths and codings to its caller.
pub fn against_httparse(bytes: &[u8]) {
    let mut shared = Shared::new(limits(), Policy::default());
    let mut machine = Http1::new(0, 0);
    let mut input = bytes;
    let Event::Request(head) = machine.advance(&mut input, &mut shared, 0) else { return };
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    let consumed = bytes.len() - input.len();
    // A minor version above 1 is 1.1 to us, and unknown to httparse.
    if !matches!(&head.request_line()[head.request_line().len() - 1], b'0' | b'1') {
        return;
    }
    match request.parse(&bytes[..consumed]) {
        Ok(httparse::Status::Complete(length)) => {
            assert_eq!(length, consumed, "where the head ends");
            assert_eq!(request.method.map(str::as_bytes), Some(head.method()));
            assert_eq!(request.path.map(str::as_bytes), Some(head.target()));
            let theirs: Vec<_> = request
                .headers
                .iter()
                .filter(|field| !field.name.contains('_'))
                .map(|field| (field.name.as_bytes(), field.value))
                .collect();
            let ours: Vec<_> = head.block.fields().collect();
            assert_eq!(theirs, ours, "the fields");
        }
        other => panic!("we take what httparse does not: {other:?}"),
    }
}

/// Targets by name.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("machine", machine),
    ("every_split_agrees", every_split_agrees),
    ("against_httparse", against_httparse),
];
