//! Reads `tests/data/*.txt`, the format of which is in `tests/data/README.md`.

use std::path::PathBuf;

use wire::{Limits, Policy};

/// One case.
#[derive(Debug, Default)]
pub struct Case {
    pub name: String,
    pub send: Vec<u8>,
    pub end: bool,
    pub limits: Limits,
    pub policy: Policy,
    pub requests: Vec<Expected>,
    pub refuse: Option<(u16, String)>,
}

/// A request that must come out.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub struct Expected {
    pub line: Vec<u8>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// All cases of all files.
pub fn all() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("tests/data")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| parse(&std::fs::read_to_string(path).expect("text"))).collect()
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name: name.to_string(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a line before the first case");
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in '{line}'"));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match key {
            "why" => {}
            "send" => case.send.extend(bytes(value)),
            "end" => case.end = true,
            "relax" => case.policy.relax(value).expect("a rule"),
            "strict" => case.policy.refuse(value).expect("a rule"),
            "limit" => {
                let (name, number) = value.split_once(' ').expect("a name and a number");
                case.limits.set(name, number.parse().expect("a number")).expect("a limit");
            }
            "request" => case.requests.push(Expected { line: bytes(value), ..Expected::default() }),
            "header" => {
                let (name, value) = value.split_once(" =").expect("Name = value");
                let value = bytes(value.strip_prefix(' ').unwrap_or(value));
                case.requests.last_mut().expect("a request").headers.push((name.to_string(), value));
            }
            "body" => case.requests.last_mut().expect("a request").body = bytes(value),
            "refuse" => {
                let (status, reason) = value.split_once(' ').expect("status and reason");
                case.refuse = Some((status.parse().expect("a status"), reason.to_string()));
            }
            _ => panic!("'{key}' is no key"),
        }
    }
    cases
}

/// Undoes escapes and repetitions.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let repeated = rest[open..].find('}').and_then(|close| {
            let (inner, count) = rest[open + 1..open + close].rsplit_once('*')?;
            Some((inner, count.parse::<usize>().ok()?, open + close + 1))
        });
        let Some((inner, count, after)) = repeated else {
            out.extend(unescaped(&rest[..=open]));
            rest = &rest[open + 1..];
            continue;
        };
        out.extend(unescaped(&rest[..open]));
        out.extend(unescaped(inner).repeat(count));
        rest = &rest[after..];
    }
    out.extend(unescaped(rest));
    out
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().expect("a letter behind a backslash") {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let digits = [bytes.next().expect("a digit"), bytes.next().expect("a digit")];
                u8::from_str_radix(std::str::from_utf8(&digits).expect("ASCII"), 16).expect("two digits")
            }
            other => panic!("\\{} is no escape", char::from(other)),
        });
    }
    out
}
