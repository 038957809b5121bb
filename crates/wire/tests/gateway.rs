//! Every case of `tests/data/gateway` over each protocol that it is for: whole, byte by byte, split in two at every
//! place; and ended at every place.

#[allow(dead_code)]
mod cases;

use cases::bytes;
use wire::gateway::{Gateway, GatewayMachine};
use wire::{Event, Fault, Limits, Policy, Shared, Tick};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Default)]
struct Case {
    name: String,
    over: Option<Gateway>,
    limits: Limits,
    /// Bytes as they are, in place of variables.
    send: Option<Vec<u8>>,
    variables: Pairs,
    body: Vec<u8>,
    expected: Vec<(String, String)>,
}

/// `NAME=value` or `NAME = value`.
fn pair(text: &str, between: &str) -> (Vec<u8>, Vec<u8>) {
    let (name, value) = text.split_once(between).unwrap_or_else(|| panic!("no '{between}' in '{text}'"));
    (bytes(name), bytes(value))
}

fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for file in ["requests.txt", "framing.txt"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/gateway/");
        let text = std::fs::read_to_string(format!("{folder}{file}")).expect("the cases");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("== ") {
                Some(name) => cases.push(Case { name: name.into(), ..Case::default() }),
                None => key(cases.last_mut().expect("a case"), line),
            }
        }
    }
    assert!(cases.len() > 60);
    cases
}

fn key(case: &mut Case, line: &str) {
    let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("no colon in '{line}'"));
    match key {
        "why" => {}
        "over" => case.over = Some(if value == "uwsgi" { Gateway::Uwsgi } else { Gateway::Scgi }),
        "limit" => {
            let (name, number) = value.split_once(' ').expect("a name and a number");
            case.limits.set(name, number.parse().expect("a number")).expect("a limit");
        }
        "send" => case.send = Some(bytes(value)),
        "vars" => {
            for text in [
                "REQUEST_METHOD=GET",
                "REQUEST_URI=/a?b",
                "QUERY_STRING=b",
                "PATH_INFO=/a",
                "SERVER_PROTOCOL=HTTP/1.1",
                "HTTP_HOST=h",
            ] {
                case.variables.push(pair(text, "="));
            }
        }
        "var" => {
            let (name, value) = pair(value, "=");
            match case.variables.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => case.variables.push((name, value)),
            }
        }
        "again" => case.variables.push(pair(value, "=")),
        "without" => case.variables.retain(|(known, _)| *known != value.as_bytes()),
        "body" => case.body = bytes(value),
        _ => case.expected.push((key.into(), value.into())),
    }
}

fn uwsgi(variables: &Pairs) -> Vec<u8> {
    let mut packed = Vec::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        packed.extend((text.len() as u16).to_le_bytes());
        packed.extend(text);
    }
    let size = (packed.len() as u16).to_le_bytes();
    [&[0], &size[..], &[0], &packed].concat()
}

/// The length goes first, and there is one.
fn scgi(variables: &Pairs) -> Vec<u8> {
    let is_length = |pair: &&(Vec<u8>, Vec<u8>)| pair.0 == b"CONTENT_LENGTH";
    let mut ordered: Pairs = variables.iter().filter(is_length).cloned().collect();
    if ordered.is_empty() {
        ordered.push(pair("CONTENT_LENGTH=0", "="));
    }
    ordered.push(pair("SCGI=1", "="));
    ordered.extend(variables.iter().filter(|pair| !is_length(pair)).cloned());
    let texts = ordered.iter().flat_map(|(name, value)| [name, value]);
    let packed: Vec<u8> = texts.flat_map(|text| text.iter().copied().chain([0])).collect();
    [format!("{}:", packed.len()).as_bytes(), &packed, b","].concat()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    request: Option<Vec<u8>>,
    headers: Pairs,
    given: Pairs,
    https: bool,
    paths: Vec<(Vec<u8>, Vec<u8>)>,
    received: Vec<u8>,
    complete: bool,
    refused: Option<Fault>,
}

const PREFIXES: [&[u8]; 2] = [b"", b"/app"];

fn play<'a>(gateway: Gateway, limits: &Limits, parts: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut shared = Shared::new(limits.clone(), Policy::default());
    let mut machine = GatewayMachine::new(gateway, 2, 0);
    let mut outcome = Outcome { complete: true, ..Outcome::default() };
    for part in parts {
        let mut input = part;
        loop {
            match machine.advance(&mut input, &mut shared, 0) {
                Event::NeedMore => {
                    assert!(input.is_empty(), "input was left over");
                    break;
                }
                Event::Request(head) => {
                    assert!(outcome.request.is_none() && !head.persistent && machine.was_used());
                    let given = machine.given().expect("what was given");
                    outcome.request = Some(head.request_line().to_vec());
                    let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                    outcome.headers = head.block.fields().map(owned).collect();
                    outcome.given = given.variables().map(owned).collect();
                    outcome.https = given.is_https();
                    let paths = PREFIXES.map(|prefix| given.paths(prefix, head.path()));
                    outcome.paths = paths.map(|paths| (paths.script_name, paths.path_info)).into();
                    outcome.complete = machine.idle();
                }
                Event::Body(data) => outcome.received.extend(data),
                Event::End => outcome.complete = true,
                Event::Fault(fault) => {
                    outcome.refused = Some(fault);
                    let mut more: &[u8] = b"\0\0\0\0";
                    assert!(
                        matches!(machine.advance(&mut more, &mut shared, 0), Event::Fault(again) if again == fault)
                    );
                    assert_eq!((machine.deadline(limits), machine.eof()), (None, Some(fault)));
                    return outcome;
                }
            }
        }
    }
    if !outcome.complete || outcome.request.is_none() {
        outcome.refused = machine.eof();
    }
    outcome
}

fn check(case: &Case, outcome: &Outcome, way: &str) {
    let about = || format!("{} ({way}): {outcome:?}", case.name);
    let all = |key: &str| -> Vec<&str> {
        case.expected.iter().filter(|(known, _)| known == key).map(|(_, value)| value.as_str()).collect()
    };
    let one = |key: &str| all(key).first().copied();
    let refused = outcome.refused.map(|fault| format!("{} {}", fault.status, fault.reason));
    assert_eq!(refused.as_deref(), one("refuse"), "{}", about());
    if refused.is_some() {
        return;
    }
    assert_eq!(outcome.request.as_deref(), one("request").map(str::as_bytes), "{}", about());
    // SCGI always tells a length; a request without a body has none of its own then.
    let mut headers = outcome.headers.clone();
    let wanted: Pairs = all("header").iter().map(|text| pair(text, " = ")).collect();
    if !wanted.iter().any(|(name, _)| name == b"content-length") {
        headers.retain(|header| *header != pair("content-length=0", "="));
    }
    let sorted = |mut pairs: Pairs| {
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(headers), sorted(wanted), "{}", about());
    for text in all("given") {
        assert!(outcome.given.contains(&pair(text, " = ")), "{text}: {}", about());
    }
    for name in all("nothing") {
        assert!(!outcome.given.iter().any(|(known, _)| known == name.as_bytes()), "{name}: {}", about());
    }
    assert_eq!(outcome.received, one("received").map(bytes).unwrap_or_default(), "{}", about());
    assert!(outcome.complete, "{}", about());
    if let Some(scheme) = one("scheme") {
        assert_eq!(outcome.https, scheme == "https", "{}", about());
    }
    if let Some(text) = one("paths") {
        let words: Vec<Vec<u8>> =
            text.splitn(3, ' ').map(|word| bytes(if word == "-" { "" } else { word })).collect();
        let at = PREFIXES.iter().position(|prefix| *prefix == words[0]).expect("a prefix that is tried");
        assert_eq!(outcome.paths[at], (words[1].clone(), words[2].clone()), "{}", about());
    }
}

/// What a case sends over each of its protocols.
fn sent(case: &Case) -> Vec<(Gateway, Vec<u8>)> {
    let over = |gateway: Gateway| case.over.is_none_or(|only| only == gateway);
    let pack = |gateway: Gateway| match (&case.send, gateway) {
        (Some(raw), _) => raw.clone(),
        (None, Gateway::Uwsgi) => [uwsgi(&case.variables), case.body.clone()].concat(),
        (None, Gateway::Scgi) => [scgi(&case.variables), case.body.clone()].concat(),
    };
    let all = [Gateway::Uwsgi, Gateway::Scgi].into_iter();
    all.filter(|gateway| over(*gateway)).map(|gateway| (gateway, pack(gateway))).collect()
}

#[test]
fn every_case_means_the_same_however_it_is_cut_and_framed() {
    for case in all() {
        // Two lengths cannot both be first.
        for (gateway, sent) in sent(&case) {
            check(&case, &play(gateway, &case.limits, [&sent[..]]), &format!("{gateway:?}, whole"));
            check(&case, &play(gateway, &case.limits, sent.chunks(1)), &format!("{gateway:?}, byte by byte"));
            for at in 0..=sent.len() {
                let (first, second) = sent.split_at(at);
                let found = play(gateway, &case.limits, [first, second]);
                check(&case, &found, &format!("{gateway:?}, split behind {at}"));
            }
        }
    }
}

#[test]
fn a_request_that_ends_early_is_incomplete_and_nothing_at_all_is_no_fault() {
    for case in all().iter().filter(|case| case.expected[0].0 == "request") {
        for (gateway, whole) in sent(case) {
            let wanted = whole.len() - case.body.len() + case.body.len().min(5);
            for at in 0..wanted {
                let found = play(gateway, &case.limits, [&whole[..at]]);
                let reason = found.refused.map(|fault| fault.reason);
                assert_eq!(reason, (at > 0).then_some("incomplete"), "{} {gateway:?} to {at}", case.name);
                assert!(!found.complete || found.request.is_none(), "{} {gateway:?} to {at}", case.name);
            }
        }
    }
}

#[test]
fn the_size_of_the_variables_meets_its_limit_exactly() {
    let case = all().into_iter().next().expect("a case");
    for (gateway, sent) in sent(&case) {
        let size = match gateway {
            Gateway::Uwsgi => sent.len() - 4,
            Gateway::Scgi => sent.len() - sent.iter().position(|byte| *byte == b':').expect("a colon") - 2,
        } as u64;
        for (limit, fits) in [(size - 1, false), (size, true), (size + 1, true)] {
            let limits = Limits { header_bytes: limit, ..Limits::default() };
            let found = play(gateway, &limits, [&sent[..]]);
            assert_eq!(found.request.is_some(), fits, "{gateway:?}: {limit} of {size}");
            assert!(fits || found.refused.is_some_and(|fault| fault.reason == "headers-too-large"));
        }
    }
}

#[test]
fn a_packet_of_the_largest_size_that_its_format_has_is_taken() {
    let mut variables: Pairs = all()[0].variables.clone();
    let room = 65_535 - (uwsgi(&variables).len() - 4) - 4 - "BIG".len();
    variables.push((b"BIG".to_vec(), vec![b'x'; room]));
    let packet = uwsgi(&variables);
    assert_eq!(packet.len(), 65_539);
    let found = play(Gateway::Uwsgi, &Limits::default(), [&packet[..]]);
    assert!(found.given.iter().any(|(name, value)| name == b"BIG" && value.len() == room));
}

#[test]
fn a_peer_has_as_much_time_as_over_http() {
    let limits =
        Limits { first_byte_timeout: 100, header_timeout: 200, body_idle_timeout: 300, ..Limits::default() };
    let case =
        all().into_iter().find(|case| case.name == "a_body_has_the_length_that_was_told").expect("a case");
    for (gateway, sent) in sent(&case) {
        let mut shared = Shared::new(limits.clone(), Policy::default());
        let mut machine = GatewayMachine::new(gateway, 2, 1000);
        assert_eq!(machine.deadline(&limits), Some(1100));
        assert_eq!((machine.tick(1099, &limits), machine.tick(1100, &limits)), (Tick::Nothing, Tick::Close));
        let (mut first, mut second) = sent.split_at(3);
        assert!(matches!(machine.advance(&mut first, &mut shared, 1050), Event::NeedMore));
        assert_eq!(machine.deadline(&limits), Some(1250), "all of a head, from its first byte");
        assert!(matches!(machine.advance(&mut second, &mut shared, 1200), Event::Request(_)));
        assert!(matches!(machine.advance(&mut second, &mut shared, 1200), Event::Body(b"hello")));
        assert_eq!(machine.deadline(&limits), Some(1500));
        machine.reader_paused(50);
        assert_eq!(machine.deadline(&limits), Some(1550));
        assert!(matches!(machine.tick(1550, &limits), Tick::Fault(fault) if fault.reason == "body-stalled"));
    }
}

#[test]
fn what_repeats_is_found_in_the_cache_of_heads() {
    let case = all().into_iter().next().expect("a case");
    let mut shared = Shared::new(Limits::default(), Policy::default());
    for (gateway, sent) in sent(&case).into_iter().take(1) {
        let heads = [1, 2].map(|_| {
            let mut input = &sent[..];
            match GatewayMachine::new(gateway, 2, 0).advance(&mut input, &mut shared, 0) {
                Event::Request(head) => head,
                _ => panic!("no request"),
            }
        });
        assert!(std::sync::Arc::ptr_eq(&heads[0], &heads[1]));
    }
}
