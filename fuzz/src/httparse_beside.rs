//! The first head beside httparse: where both take it, they must read the same.
//!
//! Knows: where we are meant to differ, and why. Does not know: bodies (httparse reads none).

use httparse::{EMPTY_HEADER, Status};
use wire::{Limits, Policy, Shared};

use crate::Input;
use crate::transcript::{Message, play};

/// Our reasons for refusing a head that httparse takes: it knows the grammar of lines, not
/// what they mean, and tolerates what RFC 9112 lets a recipient tolerate.
const STRICTER: &[&str] = &[
    // Line endings and empty lines (§2.2).
    "bare-lf",
    "empty-lines",
    // The target's form and characters (§3.2), the method's meaning.
    "target",
    "method-not-allowed",
    // What a field means.
    "no-host",
    "two-hosts",
    "bad-host",
    "two-content-types",
    "length",
    "two-lengths",
    "length-and-chunked",
    "transfer-encoding",
    "unknown-coding",
    "chunked-in-1.0",
    "unknown-expect",
    "body-too-large",
    // Limits.
    "request-line-too-long",
    "headers-too-large",
    "too-many-headers",
];

/// Reasons that come from behind the head, of which httparse sees nothing.
fn from_the_body(reason: &str) -> bool {
    matches!(
        reason,
        "chunk-size" | "chunk-extension" | "chunk-extensions-too-large" | "chunk-end" | "trailer"
    ) || reason.contains("trailers")
}

/// The target.
pub fn against_httparse(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let sent = input.sent;
    let ours = play(&mut Shared::new(Limits::default(), Policy::default()), [sent]);
    let mut room = [EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut room);
    let status = theirs.parse(sent);
    let told = || format!("{status:?}\n  ours: {ours:?}\n  sent: {}", sent.escape_ascii());
    match (ours.messages.first(), &status) {
        (Some(message), Ok(Status::Complete(length))) => {
            same(message, &theirs, *length, sent);
        }
        // Minor versions above 1 are 1.1 (RFC 9110 §2.5); httparse knows only two versions.
        (Some(message), Err(httparse::Error::Version)) if message.is_11 => {}
        (Some(_), _) => panic!("we take a head that httparse does not: {}", told()),
        (None, Ok(Status::Complete(_))) => {
            let reason = ours.fault.map_or("", |fault| fault.reason);
            assert!(
                STRICTER.contains(&reason) || from_the_body(reason),
                "httparse takes a head that we do not: {}",
                told()
            );
        }
        (None, _) => {}
    }
}

fn same(ours: &Message, theirs: &httparse::Request<'_, '_>, length: usize, sent: &[u8]) {
    let told = || format!("\n  ours: {ours:?}\n  theirs: {theirs:?}\n  sent: {}", sent.escape_ascii());
    assert_eq!(theirs.method.map(str::as_bytes), Some(ours.method.as_slice()), "{}", told());
    assert_eq!(theirs.path.map(str::as_bytes), Some(ours.target.as_slice()), "{}", told());
    assert_eq!(theirs.version, Some(u8::from(ours.is_11)), "{}", told());
    // Up to two empty lines may stand in front.
    assert!((ours.head_length..=ours.head_length + 4).contains(&length), "{}", told());
    // Names with an underscore are dropped.
    let known = theirs.headers.iter().filter(|header| !header.name.contains('_'));
    let blanks = |byte: &u8| matches!(byte, b' ' | b'\t');
    let known: Vec<(&[u8], &[u8])> = known
        .map(|header| {
            let value = header.value;
            let from = value.iter().take_while(|byte| blanks(byte)).count();
            let to = value.len() - value.iter().rev().take_while(|byte| blanks(byte)).count();
            (header.name.as_bytes(), if from < to { &value[from..to] } else { &b""[..] })
        })
        .collect();
    let ours_fields: Vec<(&[u8], &[u8])> =
        ours.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
    assert_eq!(known, ours_fields, "{}", told());
}
