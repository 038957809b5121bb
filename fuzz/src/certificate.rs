//! A certificate that was written is read as it was meant, and no bytes are read as more than they are.
//!
//! Knows: how certificates are written (RFC 5280 §4.1), for those that it writes. Does not know: how the reader goes about
//! it.

use wire::der::{Certificate, name_parts};
use wire::distinguished_name::{distinguished_name, variables};

use crate::Input;
use crate::mutate::Random;

/// The target.
pub fn certificate(bytes: &[u8]) {
    let Some(input) = Input::new(bytes) else { return };
    let mut random = Random::new(u64::from(input.cuts) << 8 | u64::from(input.rules));
    looked_at(input.sent);
    let (text, rest) = input.sent.split_at(input.sent.len().min(40));
    let text = String::from_utf8_lossy(text);
    let issuer = name(&[(&[0x55, 4, 3], "authority")]);
    let subject = name(&[(&[0x55, 4, 10], "Tests"), (&[0x55, 4, 3], &text)]);
    let host: String = rest.iter().take(60).map(|byte| char::from(b'a' + byte % 26)).collect();
    let serial = [1, input.rules, input.cuts];
    let der = written(&serial, &issuer, &subject, &host);
    let read = Certificate::read(&der).unwrap_or_else(|| panic!("not read: {}", der.escape_ascii()));
    assert_eq!((read.serial, read.dns_names.as_slice()), (&serial[..], &[&*host][..]));
    assert_eq!((read.not_before, read.not_after), (0, 86_399));
    let found: Vec<String> = name_parts(read.subject).iter().map(|part| part.text()).collect();
    assert_eq!(found, ["Tests", &*text]);
    assert!(distinguished_name(read.subject).ends_with(",O=Tests"), "{}", distinguished_name(read.subject));
    // What stands behind it is not read, ...
    let behind = [&der[..], rest].concat();
    assert_eq!(Certificate::read(&behind), Some(read));
    // ... what is cut is none, and what is changed is at most another one.
    assert_eq!(Certificate::read(&der[..random.below(der.len())]), None);
    let mut changed = der;
    let at = random.below(changed.len());
    changed[at] = random.number() as u8;
    looked_at(&changed);
}

/// Everything that is made of a certificate.
fn looked_at(der: &[u8]) {
    if let Some(read) = Certificate::read(der) {
        for name in [read.subject, read.issuer] {
            let text = distinguished_name(name);
            assert!(!text.bytes().any(|byte| byte.is_ascii_control()), "it goes into headers and logs: {text:?}");
            assert!(variables(name).len() <= name_parts(name).len());
        }
    }
}

/// An element with a length of as many bytes as it needs.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = match length {
        0..=127 => vec![tag, length as u8],
        128..=255 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [&head[..], content].concat()
}

/// The content of a name.
fn name(parts: &[(&[u8], &str)]) -> Vec<u8> {
    let one = |(kind, value): &(&[u8], &str)| {
        let pair = [element(6, kind), element(0x0c, value.as_bytes())].concat();
        element(0x31, &element(0x30, &pair))
    };
    parts.iter().flat_map(one).collect()
}

fn written(serial: &[u8], issuer: &[u8], subject: &[u8], host: &str) -> Vec<u8> {
    let validity = [element(0x17, b"700101000000Z"), element(0x18, b"19700101235959Z")].concat();
    let names = element(0x30, &element(0x82, host.as_bytes()));
    let extension = element(0x30, &[element(6, &[0x55, 0x1d, 0x11]), element(4, &names)].concat());
    let tbs = [
        element(0xa0, &element(2, &[2])),
        element(2, serial),
        element(0x30, &[]),
        element(0x30, issuer),
        element(0x30, &validity),
        element(0x30, subject),
        element(0x30, &[]),
        element(0xa3, &element(0x30, &extension)),
    ]
    .concat();
    element(0x30, &[element(0x30, &tbs), element(0x30, &[]), element(3, &[0])].concat())
}
