//! Every case of `tests/data/h2/frames.txt`: whole, byte by byte, split in two at every place, and with further bytes
//! behind it.

use crate::cases::bytes;
use crate::h2_client::{Connection, HEADERS, KINDS, block, frame, hello};
use wire::{Limits, Policy, Shared};

#[derive(Debug, Default)]
struct Case {
    name: String,
    send: Vec<u8>,
    limits: Vec<(String, u64)>,
    /// Streams that are released when all has come.
    events: Vec<String>,
    sends: Vec<String>,
}

fn all() -> Vec<Case> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/h2/frames.txt");
    let text = std::fs::read_to_string(file).expect("the cases");
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("== ") {
            Some(name) => cases.push(Case { name: name.into(), send: hello(), ..Case::default() }),
            None => key(cases.last_mut().expect("a case"), line),
        }
    }
    assert!(cases.len() > 70);
    cases
}

fn key(case: &mut Case, line: &str) {
    let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in '{line}'"));
    let value = value.strip_prefix(' ').unwrap_or(value);
    let mut words = value.splitn(4, ' ');
    let mut word = || words.next().unwrap_or("");
    match key {
        "why" => {}
        "bare" => case.send = bytes(value),
        "limit" => {
            let (name, number) = (word(), word());
            case.limits.push((name.into(), number.parse().expect("a number")));
        }
        "frame" => {
            let kind = word();
            let kind = KINDS.iter().find(|known| known.0 == kind).unwrap_or_else(|| panic!("{kind}")).1;
            let stream = word().parse().expect("a stream");
            let flags = u8::from_str_radix(word(), 16).expect("flags");
            let rest = value.splitn(4, ' ').nth(3).unwrap_or("");
            case.send.extend(frame(kind, flags, stream, &bytes(rest)));
        }
        "head" => {
            let stream = word().parse().expect("a stream");
            let flags = u8::from_str_radix(word(), 16).expect("flags");
            let rest = value.splitn(3, ' ').nth(2).unwrap_or("");
            let mut packed = Vec::new();
            for field in rest.split('|').filter(|field| !field.is_empty()) {
                match field {
                    "GET" => packed.extend(start("GET")),
                    "POST" => packed.extend(start("POST")),
                    field => {
                        let at = field.find('=').unwrap_or_else(|| panic!("no = in '{field}'"));
                        let (name, value) = (bytes(&field[..at]), bytes(&field[at + 1..]));
                        wire::hpack::field(&name, &value, &mut packed);
                    }
                }
            }
            case.send.extend(frame(HEADERS, flags, stream, &packed));
        }
        "sends" => case.sends.push(value.into()),
        _ => case.events.push(line.into()),
    }
}

fn start(method: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "a")])
}

fn shared(case: &Case) -> Shared {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    for (name, value) in &case.limits {
        let known = shared.limits.set(name, *value).is_ok();
        assert!(known, "there is no limit {name}");
    }
    shared
}

/// Events, and what is sent but for acknowledgements and windows, whose number depends on how the bytes come.
fn play<'a>(case: &Case, parts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Vec<String>) {
    let mut connection = Connection::new(shared(case));
    for part in parts {
        connection.hear(part);
    }
    let mut sends = connection.take();
    sends.retain(|line| !line.starts_with("SETTINGS") && !line.starts_with("WINDOW_UPDATE"));
    // What is long is told by its length.
    for line in connection.events.iter_mut().filter(|line| line.starts_with("data: ") && line.len() > 100) {
        *line = format!("{} and so on, {} letters", &line[..10], line.len() - 8);
    }
    (connection.events, sends)
}

#[test]
fn every_case_holds_however_it_comes() {
    for case in all() {
        let expected = (case.events.clone(), case.sends.clone());
        assert_eq!(play(&case, [&case.send[..]]), expected, "{}", case.name);
        assert_eq!(play(&case, case.send.chunks(1)), expected, "{}, byte by byte", case.name);
        for at in 0..=case.send.len().min(2000) {
            let (first, second) = case.send.split_at(at);
            assert_eq!(play(&case, [first, second]), expected, "{}, split at {at}", case.name);
        }
    }
}

#[test]
fn after_a_fault_nothing_is_heard() {
    for case in all().iter().filter(|case| case.events.last().is_some_and(|line| line.starts_with("fault"))) {
        let behind = crate::h2_client::request(99, crate::h2_client::GET, &[]);
        let expected = (case.events.clone(), case.sends.clone());
        assert_eq!(play(case, [&case.send[..], &behind]), expected, "{}", case.name);
    }
}

#[test]
fn each_prefix_of_a_case_means_no_more_than_the_case() {
    for case in all() {
        for at in (0..case.send.len()).rev().take(300) {
            let (events, _) = play(&case, [&case.send[..at]]);
            let mut whole = case.events.iter();
            for event in events.iter().filter(|event| !event.contains("and so on")) {
                let found = whole.any(|expected| expected.starts_with(event.trim_end_matches("|+")));
                assert!(found, "{}, ended at {at}: {event}", case.name);
            }
        }
    }
}
