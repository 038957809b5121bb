//! Conditions of requests as RFC 9110 §13 has them, each as a client would send it.

use std::sync::Arc;

use wire::conditional::{Outcome, asked, evaluate, if_range_holds};
use wire::encodings::{self, Encoding, Encodings};
use wire::etag::Validators;
use wire::{Event, Head, Http1, Limits, Policy, Shared, ranges};

/// Sun, 06 Nov 1994 08:49:37 GMT.
const MODIFIED: u64 = 784_111_777;
/// 2026-11-22.
const NOW: u64 = 1_795_305_600;
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

const STRONG: Validators<'_> = Validators { etag: b"\"a-1\"", modified: Some(MODIFIED) };
const WEAK: Validators<'_> = Validators { etag: b"W/\"a-1\"", modified: Some(MODIFIED) };
const TAG_ONLY: Validators<'_> = Validators { etag: b"\"a-1\"", modified: None };

fn head(method: &str, lines: &[&str]) -> Arc<Head> {
    let bytes = format!(
        "{method} /a HTTP/1.1\r\nHost: a\r\n{}\r\n",
        lines.iter().map(|it| format!("{it}\r\n")).collect::<String>()
    );
    let mut shared = Shared::new(Limits::default(), Policy::default());
    match Http1::new(0, 0).advance(&mut bytes.as_bytes(), &mut shared, 0) {
        Event::Request(head) => head,
        _ => panic!("no request: {bytes:?}"),
    }
}

fn get(lines: &[&str], current: &Validators<'_>) -> Outcome {
    let head = head("GET", lines);
    assert_eq!(asked(&head.block), !lines.is_empty(), "{lines:?}");
    evaluate(&head, current, NOW)
}

use Outcome::{NotModified, PreconditionFailed, Send};

#[test]
fn a_request_without_conditions_is_sent_its_answer() {
    assert_eq!(get(&[], &STRONG), Send);
    let head = head("GET", &["Ifx: 1", "I: 2", "Ranges: bytes=0-1", "Accept: */*"]);
    assert!(!asked(&head.block));
}

#[test]
fn if_none_match_compares_weakly_and_reads_lists() {
    for (value, outcome) in [
        ("\"a-1\"", NotModified),
        ("W/\"a-1\"", NotModified),
        ("*", NotModified),
        ("\"b\", \"a-1\"", NotModified),
        ("\"b\",W/\"a-1\"\t,\"c\"", NotModified),
        (",, \"a-1\",", NotModified),
        ("\"b\"", Send),
        ("\"A-1\"", Send),
        ("a-1", Send),
        ("\"a-1", Send),
        ("w/\"a-1\"", Send),
        ("W/ \"a-1\"", Send),
        ("W/a-1", Send),
        ("\"a-1\"x", Send),
        ("\"a-1\" \"a-1\"", Send),
        ("\"*\"", Send),
        ("\"b\", *", Send),
        ("", Send),
        // A comma inside of a tag ends nothing.
        ("\"b,\"a-1\",c\"", Send),
        ("\"b,c\", \"a-1\"", NotModified),
        // What is malformed matches nothing, and what follows it is read.
        ("b, \"a-1\"", NotModified),
        ("\"b, \"a-1\"", NotModified),
    ] {
        let line = format!("If-None-Match: {value}");
        assert_eq!(get(&[&line], &STRONG), outcome, "{value}");
        assert_eq!(get(&[&line], &WEAK), outcome, "{value} of a weak one");
    }
    assert_eq!(get(&["If-None-Match: \"b\"", "if-none-match: \"a-1\""], &STRONG), NotModified);
    assert_eq!(evaluate(&head("HEAD", &["If-None-Match: *"]), &STRONG, NOW), NotModified);
    for method in ["POST", "PUT", "OPTIONS"] {
        assert_eq!(evaluate(&head(method, &["If-None-Match: *"]), &STRONG, NOW), PreconditionFailed);
        assert_eq!(evaluate(&head(method, &["If-None-Match: \"b\""]), &STRONG, NOW), Send);
    }
}

#[test]
fn if_match_compares_strongly() {
    for (value, outcome) in [
        ("\"a-1\"", Send),
        ("*", Send),
        ("\"b\", \"a-1\"", Send),
        ("W/\"a-1\"", PreconditionFailed),
        ("\"b\"", PreconditionFailed),
        ("a-1", PreconditionFailed),
        ("", PreconditionFailed),
    ] {
        let line = format!("If-Match: {value}");
        assert_eq!(get(&[&line], &STRONG), outcome, "{value}");
        let weak = if value == "*" { Send } else { PreconditionFailed };
        assert_eq!(get(&[&line], &WEAK), weak, "{value} of a weak one");
    }
    assert_eq!(get(&["If-Match: \"b\"", "If-Match: \"a-1\""], &STRONG), Send);
}

#[test]
fn dates_are_compared_and_what_is_none_is_ignored() {
    for (date, since, unmodified) in [
        (DATE, NotModified, Send),
        (AFTER, NotModified, Send),
        (BEFORE, Send, PreconditionFailed),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NotModified, Send),
        ("Sunday, 06-Nov-94 08:49:36 GMT", Send, PreconditionFailed),
        ("Sun Nov  6 08:49:37 1994", NotModified, Send),
        ("Sun Nov  6 08:49:36 1994", Send, PreconditionFailed),
        ("yesterday", Send, Send),
        ("", Send, Send),
        ("784111777", Send, Send),
    ] {
        let (modified_since, unmodified_since) =
            (format!("If-Modified-Since: {date}"), format!("If-Unmodified-Since: {date}"));
        assert_eq!(get(&[&modified_since], &STRONG), since, "{date}");
        assert_eq!(get(&[&unmodified_since], &STRONG), unmodified, "{date}");
        assert_eq!(get(&[&modified_since], &TAG_ONLY), Send, "{date} of what has no date");
        assert_eq!(get(&[&unmodified_since], &TAG_ONLY), Send, "{date} of what has no date");
        assert_eq!(evaluate(&head("POST", &[&modified_since]), &STRONG, NOW), Send, "of another method");
    }
    let twice = format!("If-Modified-Since: {DATE}");
    assert_eq!(get(&[&twice, &twice], &STRONG), Send, "two dates are none");
}

#[test]
fn conditions_are_evaluated_in_their_order() {
    let since = |name: &str, date: &str| format!("{name}: {date}");
    for (lines, outcome) in [
        // Tags are more exact than dates, which are then not looked at (§13.1.3, §13.1.4).
        (vec!["If-None-Match: \"b\"".into(), since("If-Modified-Since", DATE)], Send),
        (vec!["If-None-Match: \"a-1\"".into(), since("If-Modified-Since", BEFORE)], NotModified),
        (vec!["If-Match: \"a-1\"".into(), since("If-Unmodified-Since", BEFORE)], Send),
        (vec!["If-Match: \"b\"".into(), since("If-Unmodified-Since", DATE)], PreconditionFailed),
        // What protects from changes comes before what saves a transfer.
        (vec!["If-None-Match: \"a-1\"".into(), "If-Match: \"b\"".into()], PreconditionFailed),
        (vec!["If-None-Match: \"a-1\"".into(), "If-Match: \"a-1\"".into()], NotModified),
        (vec!["If-None-Match: \"a-1\"".into(), since("If-Unmodified-Since", BEFORE)], PreconditionFailed),
        (vec![since("If-Modified-Since", DATE), since("If-Unmodified-Since", DATE)], NotModified),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(get(&lines, &STRONG), outcome, "{lines:?}");
    }
}

#[test]
fn if_range_wants_the_very_same() {
    for (value, strong, weak, tag_only) in [
        ("\"a-1\"", true, false, true),
        ("W/\"a-1\"", false, false, false),
        ("\"b\"", false, false, false),
        ("\"a-1\", \"b\"", false, false, false),
        ("*", false, false, false),
        ("a-1", false, false, false),
        ("\"a-1", false, false, false),
        ("", false, false, false),
        (DATE, true, false, false),
        ("Sunday, 06-Nov-94 08:49:37 GMT", true, false, false),
        ("Sun Nov  6 08:49:37 1994", true, false, false),
        (BEFORE, false, false, false),
        (AFTER, false, false, false),
    ] {
        let head = head("GET", &["Range: bytes=0-1", &format!("If-Range: {value}")]);
        for (current, holds) in [(STRONG, strong), (WEAK, weak), (TAG_ONLY, tag_only)] {
            assert_eq!(if_range_holds(&head, &current, NOW), holds, "{value} of {current:?}");
        }
    }
    assert!(if_range_holds(&head("GET", &["Range: bytes=0-1"]), &WEAK, NOW), "there is none");
    let twice = head("GET", &["If-Range: \"a-1\"", "If-Range: \"a-1\""]);
    assert!(!if_range_holds(&twice, &STRONG, NOW), "two are not one");
}

#[test]
fn a_range_is_one_line_of_a_get() {
    for (method, lines, found) in [
        ("GET", &["Range: bytes=0-1"][..], Some(&b"bytes=0-1"[..])),
        ("GET", &["rANGE:\tbytes=0-1 "], Some(b"bytes=0-1")),
        ("GET", &["Range: bytes=0-1", "Range: bytes=5-6"], None),
        ("GET", &[], None),
        ("HEAD", &["Range: bytes=0-1"], None),
        ("POST", &["Range: bytes=0-1"], None),
    ] {
        assert_eq!(ranges::requested(&head(method, lines)), found, "{method} {lines:?}");
    }
}

#[test]
fn codings_are_read_from_all_lines() {
    let available = Encodings::NONE.with(Encoding::Gzip).with(Encoding::Brotli);
    for (lines, chosen) in [
        (&["Accept-Encoding: gzip"][..], Encoding::Gzip),
        (&["Accept-Encoding: gzip", "ACCEPT-ENCODING: br"], Encoding::Brotli),
        (&["Accept-Encoding: gzip", "Accept-Encoding: *;q=0"], Encoding::Gzip),
        (&["Accept: gzip"], Encoding::Identity),
    ] {
        assert_eq!(encodings::of(&head("GET", lines).block, available), chosen, "{lines:?}");
        assert_eq!(encodings::of(&head("GET", lines).block, Encodings::NONE), Encoding::Identity);
    }
}
