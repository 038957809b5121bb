//! Every case of `tests/data/gateway` over each protocol that it is for: whole, byte by byte, split in two at every
//! place; and ended at every place.

use crate::cases::bytes;
use wire::gateway::{FastCgi, Gateway, GatewayMachine, Given};
use wire::{Event, Fault, Framing, Limits, Millis, Policy, Shared, Tick};

/// A protocol by which a request may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Uwsgi,
    Scgi,
    FastCgi,
}

const DOORS: [Door; 3] = [Door::Uwsgi, Door::Scgi, Door::FastCgi];

/// The machine of a door.
enum Machine {
    Gateway(GatewayMachine),
    FastCgi(Box<FastCgi>),
}

macro_rules! both {
    ($machine:ident, $one:ident => $call:expr) => {
        match $machine {
            Machine::Gateway($one) => $call,
            Machine::FastCgi($one) => $call,
        }
    };
}

impl Machine {
    fn new(door: Door, now: Millis) -> Self {
        match door {
            Door::Uwsgi => Self::Gateway(GatewayMachine::new(Gateway::Uwsgi, 2, now)),
            Door::Scgi => Self::Gateway(GatewayMachine::new(Gateway::Scgi, 2, now)),
            Door::FastCgi => Self::FastCgi(Box::new(FastCgi::new(2, now))),
        }
    }

    fn advance<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, now: Millis) -> Event<'a> {
        both!(self, one => one.advance(input, shared, now))
    }

    fn eof(&mut self) -> Option<Fault> {
        both!(self, one => one.eof())
    }

    fn deadline(&self, limits: &Limits) -> Option<Millis> {
        both!(self, one => one.deadline(limits))
    }

    fn tick(&mut self, now: Millis, limits: &Limits) -> Tick {
        both!(self, one => one.tick(now, limits))
    }

    fn reader_paused(&mut self, span: Millis) {
        both!(self, one => one.reader_paused(span));
    }

    fn was_used(&self) -> bool {
        both!(self, one => one.was_used())
    }

    fn given(&self) -> Option<&Given> {
        both!(self, one => one.given())
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Default)]
struct Case {
    name: String,
    over: Vec<Door>,
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
        "over" => {
            let named = |name: &str| {
                *DOORS.iter().find(|door| format!("{door:?}").eq_ignore_ascii_case(name)).expect("a door")
            };
            case.over = value.split(' ').map(named).collect();
        }
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

fn record(kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 7], &length[..], &[padding as u8, 0], content, &vec![0xff; padding]].concat()
}

/// In two records of variables, the first of which is padded and cut inside of a pair; the body in two as well.
fn fastcgi(variables: &Pairs, body: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| match text.len() {
        short @ 0..128 => vec![short as u8],
        long => (long as u32 | 1 << 31).to_be_bytes().to_vec(),
    };
    let mut packed = Vec::new();
    for (name, value) in variables {
        packed.extend([length(name), length(value), name.clone(), value.clone()].concat());
    }
    let (first, second) = packed.split_at(packed.len().min(9));
    let mut sent = [record(1, &[0, 1, 0, 0, 0, 0, 0, 0], 0), record(4, first, 3)].concat();
    if !second.is_empty() {
        sent.extend(record(4, second, 0));
    }
    sent.extend(record(4, b"", 0));
    for part in body.chunks(body.len().div_ceil(2).max(1)) {
        sent.extend(record(5, part, 5));
    }
    [sent, record(5, b"", 0)].concat()
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

fn play<'a>(door: Door, limits: &Limits, parts: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    play_after(&mut Shared::new(limits.clone(), Policy::default()), door, parts)
}

/// The same after others of the loop.
fn play_after<'a>(shared: &mut Shared, door: Door, parts: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut machine = Machine::new(door, 0);
    let mut outcome = Outcome { complete: true, ..Outcome::default() };
    for part in parts {
        let mut input = part;
        loop {
            match machine.advance(&mut input, shared, 0) {
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
                    outcome.complete = matches!(head.framing, Framing::None | Framing::Length(0));
                }
                Event::Body(data) => outcome.received.extend(data),
                Event::End => outcome.complete = true,
                Event::Fault(fault) => {
                    outcome.refused = Some(fault);
                    let mut more: &[u8] = b"\0\0\0\0";
                    assert!(
                        matches!(machine.advance(&mut more, shared, 0), Event::Fault(again) if again == fault)
                    );
                    assert_eq!((machine.deadline(&shared.limits), machine.eof()), (None, Some(fault)));
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
fn sent(case: &Case) -> Vec<(Door, Vec<u8>)> {
    let pack = |door: Door| match (&case.send, door) {
        (Some(raw), _) => raw.clone(),
        (None, Door::Uwsgi) => [uwsgi(&case.variables), case.body.clone()].concat(),
        (None, Door::Scgi) => [scgi(&case.variables), case.body.clone()].concat(),
        (None, Door::FastCgi) => fastcgi(&case.variables, &case.body),
    };
    let all = DOORS.into_iter().filter(|door| case.over.is_empty() || case.over.contains(door));
    all.map(|door| (door, pack(door))).collect()
}

#[test]
fn every_case_means_the_same_however_it_is_cut_and_framed() {
    for case in all() {
        // Two lengths cannot both be first.
        for (door, sent) in sent(&case) {
            check(&case, &play(door, &case.limits, [&sent[..]]), &format!("{door:?}, whole"));
            check(&case, &play(door, &case.limits, sent.chunks(1)), &format!("{door:?}, byte by byte"));
            for at in 0..=sent.len() {
                let (first, second) = sent.split_at(at);
                let found = play(door, &case.limits, [first, second]);
                check(&case, &found, &format!("{door:?}, split behind {at}"));
            }
        }
    }
}

#[test]
fn a_request_that_ends_early_is_incomplete_and_nothing_at_all_is_no_fault() {
    for case in all().iter().filter(|case| case.expected[0].0 == "request") {
        for (door, whole) in sent(case) {
            let wanted = match door {
                Door::FastCgi => whole.len(),
                _ => whole.len() - case.body.len() + case.body.len().min(5),
            };
            for at in 0..wanted {
                let found = play(door, &case.limits, [&whole[..at]]);
                let reason = found.refused.map(|fault| fault.reason);
                assert_eq!(reason, (at > 0).then_some("incomplete"), "{} {door:?} to {at}", case.name);
                assert!(!found.complete || found.request.is_none(), "{} {door:?} to {at}", case.name);
            }
        }
    }
}

#[test]
fn the_size_of_the_variables_meets_its_limit_exactly() {
    let case = all().into_iter().next().expect("a case");
    for (door, sent) in sent(&case) {
        let size = match door {
            Door::Uwsgi => sent.len() - 4,
            // Two heads of its records before, and one and a padding between and behind.
            Door::FastCgi => sent.len() - 16 - 8 - 3 - 8 - 8 - 8,
            Door::Scgi => sent.len() - sent.iter().position(|byte| *byte == b':').expect("a colon") - 2,
        } as u64;
        for (limit, fits) in [(size - 1, false), (size, true), (size + 1, true)] {
            let limits = Limits { header_bytes: limit, ..Limits::default() };
            let found = play(door, &limits, [&sent[..]]);
            assert_eq!(found.request.is_some(), fits, "{door:?}: {limit} of {size}");
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
    let found = play(Door::Uwsgi, &Limits::default(), [&packet[..]]);
    assert!(found.given.iter().any(|(name, value)| name == b"BIG" && value.len() == room));
}

#[test]
fn a_peer_has_as_much_time_as_over_http() {
    let limits =
        Limits { first_byte_timeout: 100, header_timeout: 200, body_idle_timeout: 300, ..Limits::default() };
    let case =
        all().into_iter().find(|case| case.name == "a_body_has_the_length_that_was_told").expect("a case");
    for (door, sent) in sent(&case) {
        let mut shared = Shared::new(limits.clone(), Policy::default());
        let mut machine = Machine::new(door, 1000);
        assert_eq!(machine.deadline(&limits), Some(1100));
        assert_eq!((machine.tick(1099, &limits), machine.tick(1100, &limits)), (Tick::Nothing, Tick::Close));
        let (mut first, mut second) = sent.split_at(3);
        assert!(matches!(machine.advance(&mut first, &mut shared, 1050), Event::NeedMore));
        assert_eq!(machine.deadline(&limits), Some(1250), "all of a head, from its first byte");
        assert!(matches!(machine.advance(&mut second, &mut shared, 1200), Event::Request(_)));
        assert!(matches!(machine.advance(&mut second, &mut shared, 1200), Event::Body(_)));
        assert_eq!(machine.deadline(&limits), Some(1500));
        machine.reader_paused(50);
        assert_eq!(machine.deadline(&limits), Some(1550));
        assert!(matches!(machine.tick(1550, &limits), Tick::Fault(fault) if fault.reason == "body-stalled"));
    }
}

#[test]
fn a_request_means_the_same_after_any_other_also_one_that_was_refused() {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    // Limits do not change while a loop runs: what it remembers was judged by them.
    for case in all().iter().chain(&all()).filter(|case| case.limits == Limits::default()) {
        for (door, sent) in sent(case) {
            check(case, &play_after(&mut shared, door, [&sent[..]]), &format!("{door:?} after others"));
        }
    }
}

#[test]
fn what_repeats_is_found_in_the_cache_of_heads() {
    let case = all().into_iter().next().expect("a case");
    let mut shared = Shared::new(Limits::default(), Policy::default());
    for (door, sent) in sent(&case) {
        let heads = [1, 2].map(|_| {
            let mut input = &sent[..];
            match Machine::new(door, 0).advance(&mut input, &mut shared, 0) {
                Event::Request(head) => head,
                _ => panic!("no request"),
            }
        });
        assert!(std::sync::Arc::ptr_eq(&heads[0], &heads[1]));
    }
}
