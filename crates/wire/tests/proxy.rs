//! Every case of `tests/data/proxy`: whole, byte by byte, split in two at every place, ended at every place; and
//! every header that is valid with each of its bytes changed.

use std::net::SocketAddr;

use crate::cases::bytes;
use wire::Fault;
use wire::proxy::{Found, Proxied, Versions, read};

/// The bound on headers of version 2 that the cases are written for.
const MOST: usize = 4096;

#[derive(Debug, Default)]
struct Case {
    name: String,
    versions: Option<Versions>,
    send: Vec<u8>,
    rest: Vec<u8>,
    expected: Vec<(String, String)>,
}

fn all() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/proxy/proxy.txt");
    let text = std::fs::read_to_string(path).expect("the cases");
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name: name.into(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a case");
        let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("no colon in '{line}'"));
        match key {
            "why" => {}
            "accept" => case.versions = Versions::parse(value),
            "send" => case.send = bytes(value),
            "rest" => case.rest = bytes(value),
            _ => {
                let value = String::from_utf8(bytes(value)).expect("text");
                case.expected.push((key.into(), value));
            }
        }
    }
    assert!(cases.len() > 100);
    cases
}

fn told(proxied: &Proxied) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let mut tell = |key: &str, value: String| told.push((key.to_string(), value));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let address = |address: &SocketAddr| address.to_string();
    match &proxied.addresses {
        Some((client, server)) => {
            tell("client", address(client));
            tell("server", address(server));
        }
        None => tell("client", "none".into()),
    }
    for (key, value) in [
        ("unique-id", &proxied.unique_id),
        ("authority", &proxied.authority),
        ("vpc-endpoint", &proxied.vpc_endpoint),
    ] {
        if let Some(value) = value {
            tell(key, text(value));
        }
    }
    if let Some(tls) = &proxied.tls {
        let mut words = vec![if tls.used { "used" } else { "unused" }.to_string()];
        if tls.certificate_on_connection || tls.certificate_in_session {
            words.push("certificate".into());
        }
        if tls.verified {
            words.push("verified".into());
        }
        words.extend([&tls.version, &tls.cipher, &tls.common_name].into_iter().flatten().map(|it| text(it)));
        tell("tls", words.join(" "));
    }
    told
}

/// What comes of bytes that arrive in pieces, and what of them is behind the header: the first piece that shows
/// something decides.
fn play<'a>(
    versions: Versions,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Found, Fault>, Vec<u8>) {
    let mut held = Vec::new();
    let mut found = Ok(Found::Incomplete);
    for piece in pieces {
        held.extend_from_slice(piece);
        if found == Ok(Found::Incomplete) {
            found = read(&held, versions, MOST);
        }
    }
    let rest = match found {
        Ok(Found::Complete(length, _)) => held[length..].to_vec(),
        _ => Vec::new(),
    };
    (found, rest)
}

fn check(case: &Case, (found, rest): &(Result<Found, Fault>, Vec<u8>), way: &str) {
    let about = || format!("{} ({way}): {found:?}\n  sent: {}", case.name, case.send.escape_ascii());
    match found {
        Ok(Found::Incomplete) => panic!("it wants more: {}", about()),
        Err(fault) => {
            assert_eq!(case.expected, [("refuse".to_string(), fault.reason.to_string())], "{}", about());
        }
        Ok(Found::Complete(_, proxied)) => {
            assert_eq!(case.expected, told(proxied), "{}", about());
            assert_eq!(rest, &case.rest, "{}", about());
        }
    }
}

#[test]
fn every_case_means_the_same_however_it_is_cut() {
    for case in all() {
        let versions = case.versions.expect("accept");
        let sent = [&case.send[..], &case.rest].concat();
        check(&case, &play(versions, [&sent[..]]), "whole");
        check(&case, &play(versions, sent.chunks(1)), "byte by byte");
        for at in 0..=sent.len() {
            let (first, second) = sent.split_at(at);
            check(&case, &play(versions, [first, second]), &format!("split behind {at}"));
        }
    }
}

#[test]
fn a_header_that_ends_early_is_incomplete() {
    for case in all().iter().filter(|case| case.expected[0].0 == "client") {
        for at in 0..case.send.len() {
            assert_eq!(
                read(&case.send[..at], Versions::Any, MOST),
                Ok(Found::Incomplete),
                "{} to {at}",
                case.name
            );
        }
    }
}

#[test]
fn a_bound_is_met_exactly() {
    let header = all().into_iter().find(|case| case.name == "a_unique_id_of_128_bytes").expect("a case").send;
    for (most, fits) in [(header.len() - 1, false), (header.len(), true), (header.len() + 1, true)] {
        let found = read(&header, Versions::Any, most);
        assert_eq!(matches!(found, Ok(Found::Complete(..))), fits, "{most}");
        assert!(fits || found.is_err_and(|fault| fault.reason == "proxy-too-long"));
    }
}

/// Under a checksum no change of one byte goes unseen, whatever that byte means.
#[test]
fn no_changed_byte_gets_past_a_checksum() {
    for case in all().iter().filter(|case| case.name.starts_with("the_checksum_is_right")) {
        for at in 0..case.send.len() {
            for change in 1..=255u8 {
                let mut sent = case.send.clone();
                sent[at] ^= change;
                let (found, _) = play(Versions::Any, [&sent[..]]);
                let believed = match &found {
                    Ok(Found::Complete(_, proxied)) => proxied.addresses.is_some(),
                    _ => false,
                };
                // Its length, its type or that of what stands in front of it may have become another: then there is no
                // checksum any more, which a header need not have.
                assert!(!believed || !has_sum(&sent), "{} byte {at} ^ {change}", case.name);
            }
        }
    }
}

/// One of the facts of an IPv4 header is a checksum.
fn has_sum(header: &[u8]) -> bool {
    let end = 16 + usize::from(u16::from_be_bytes([header[14], header[15]]));
    let mut facts = header.get(28..end).unwrap_or(&[]);
    while let [kind, high, low, rest @ ..] = facts {
        if *kind == 3 {
            return true;
        }
        facts = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..).unwrap_or(&[]);
    }
    false
}
