//! What certificates say of themselves, read from some that openssl has made, and from what is none.

use wire::der::{Certificate, name_parts};

/// Of `openssl req -x509 -newkey ec … -subj "/C=DE/O=Tests & Söhne/CN=a.example/emailAddress=a@b.example" -days 10
/// -set_serial 0xF1E2D3C4B5A69788 -addext "subjectAltName=DNS:a.example,IP:127.0.0.1,DNS:*.b.example"`.
const MADE: &str = include_str!("cases/certificate.hex");

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn names_serial_and_validity_are_read() {
    let der = bytes(MADE);
    let read = Certificate::read(&der).expect("a certificate");
    assert_eq!(
        read.serial,
        [0, 0xf1, 0xe2, 0xd3, 0xc4, 0xb5, 0xa6, 0x97, 0x88],
        "a zero in front: it is positive"
    );
    assert_eq!(read.not_after - read.not_before, 10 * 86_400);
    assert_eq!(read.dns_names, ["a.example", "*.b.example"]);
    assert!(read.emails.is_empty());
    assert_eq!(read.issuer, read.subject, "it has signed itself");
    let parts = name_parts(read.subject);
    let texts: Vec<String> = parts.iter().map(|part| part.text()).collect();
    assert_eq!(texts, ["DE", "Tests & Söhne", "a.example", "a@b.example"]);
    assert_eq!(parts[2].kind, [0x55, 4, 3], "id-at-commonName");
}

#[test]
fn what_is_cut_or_changed_is_never_more_than_wrong() {
    let der = bytes(MADE);
    for at in 0..der.len() {
        assert_eq!(Certificate::read(&der[..at]), None, "cut at {at}");
        for change in [0x01, 0x80, 0xff] {
            let mut changed = der.clone();
            changed[at] ^= change;
            if let Some(read) = Certificate::read(&changed) {
                name_parts(read.subject).iter().for_each(|part| drop(part.text()));
            }
        }
    }
}

#[test]
fn times_of_both_forms_are_read() {
    let with = |not_before: &[u8], not_after: &[u8]| {
        let mut validity = not_before.to_vec();
        validity.extend_from_slice(not_after);
        let wrap = |tag: u8, content: &[u8]| [&[tag, content.len() as u8][..], content].concat();
        let tbs = [
            wrap(2, &[1]),
            wrap(0x30, &[]),
            wrap(0x30, &[]),
            wrap(0x30, &validity),
            wrap(0x30, &[]),
            wrap(0x30, &[]),
        ]
        .concat();
        wrap(0x30, &wrap(0x30, &tbs))
    };
    let utc = |text: &str| [&[0x17, text.len() as u8][..], text.as_bytes()].concat();
    let general = |text: &str| [&[0x18, text.len() as u8][..], text.as_bytes()].concat();
    let read = |one: &[u8], other: &[u8]| {
        let der = with(one, other);
        Certificate::read(&der).map(|read| (read.not_before, read.not_after))
    };
    assert_eq!(read(&utc("700101000001Z"), &general("21000301000000Z")), Some((1, 4_107_542_400)));
    assert_eq!(
        read(&utc("491231235959Z"), &utc("500101000000Z")),
        Some((2_524_607_999, 0)),
        "of the last century"
    );
    for strange in ["700101000001", "7001010000Z", "701301000001Z", "70010100000xZ", "700101000001+0100"] {
        assert_eq!(read(&utc(strange), &utc("700101000001Z")), None, "{strange}");
    }
}
