//! What an X.509 certificate says of itself, as far as a server has to know or tell it (RFC 5280 §4.1).
//!
//! Knows: DER (X.690), names, validity. Does not know: whether a certificate is believed: nothing here is a check. Pure, and
//! for bytes of any origin.

use crate::http_date::seconds;

/// Tags that are read.
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`: the version; `[3]`: extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `rfc822Name [1] IA5String` and `dNSName [2] IA5String` of a GeneralName.
const EMAIL: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
/// id-ce-subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A certificate, in parts that point into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// 1 to 3. Only those of version 3 have extensions, names of hosts among them.
    pub version: u8,
    /// As it stands there: big-endian, with a zero in front where it would be negative.
    pub serial: &'a [u8],
    /// Names, each the content of its sequence.
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    /// Seconds since 1970 in UTC.
    pub not_before: u64,
    pub not_after: u64,
    /// The names of hosts that it is for, and addresses of whom it is for.
    pub dns_names: Vec<&'a str>,
    pub emails: Vec<&'a str>,
}

impl<'a> Certificate<'a> {
    /// None: it is malformed, or so strange that nobody issues it.
    pub fn read(der: &'a [u8]) -> Option<Self> {
        let mut certificate = of(SEQUENCE, &mut &*der)?;
        let mut tbs = of(SEQUENCE, &mut certificate)?;
        let mut version = 1;
        if tbs.first() == Some(&VERSION) {
            // It counts from zero.
            let number = of(INTEGER, &mut of(VERSION, &mut tbs)?)?;
            version = number.last()?.saturating_add(1);
        }
        let serial = of(INTEGER, &mut tbs)?;
        of(SEQUENCE, &mut tbs)?;
        let issuer = of(SEQUENCE, &mut tbs)?;
        let mut validity = of(SEQUENCE, &mut tbs)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = of(SEQUENCE, &mut tbs)?;
        of(SEQUENCE, &mut tbs)?;
        let (mut dns_names, mut emails) = (Vec::new(), Vec::new());
        while !tbs.is_empty() {
            let (tag, content) = element(&mut tbs)?;
            if tag == EXTENSIONS {
                (dns_names, emails) = names_in(content)?;
            }
        }
        Some(Self { version, serial, issuer, subject, not_before, not_after, dns_names, emails })
    }
}

/// The next element: its tag and its content. None: the bytes are no DER, or end within it.
fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    // Tags of several bytes, and lengths that are not told, are in no certificate.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, mut rest) = rest.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x84 => {
            let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = behind;
            bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte))
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    *input = behind;
    Some((tag, content))
}

/// The content of the next element, which has to have this tag.
fn of<'a>(wanted: u8, input: &mut &'a [u8]) -> Option<&'a [u8]> {
    element(input).filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
}

/// `YYMMDDHHMMSSZ`, of which years from 50 on are of the last century, or `YYYYMMDDHHMMSSZ` (RFC 5280 §4.1.2.5).
fn time(input: &mut &[u8]) -> Option<u64> {
    let (tag, text) = element(input)?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number * 10 + u64::from(byte - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (year + if year < 50 { 2000 } else { 1900 }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| number(&rest[2 * at..2 * at + 2]);
    if !(1..=12).contains(&part(0)) {
        return None;
    }
    seconds((year, part(0), part(1)), [part(2), part(3), part(4)])
}

/// The names of hosts and the addresses of people in a certificate's extensions.
fn names_in(mut extensions: &[u8]) -> Option<(Vec<&str>, Vec<&str>)> {
    let (mut names, mut emails) = (Vec::new(), Vec::new());
    let mut all = of(SEQUENCE, &mut extensions)?;
    while !all.is_empty() {
        let mut one = of(SEQUENCE, &mut all)?;
        if of(OID, &mut one)? != SUBJECT_ALT_NAME {
            continue;
        }
        // Whether it is critical stands before it, or nothing does.
        let mut value = loop {
            let (tag, content) = element(&mut one)?;
            if tag == OCTETS {
                break content;
            }
        };
        let mut listed = of(SEQUENCE, &mut value)?;
        while !listed.is_empty() {
            let (tag, content) = element(&mut listed)?;
            let text = std::str::from_utf8(content).ok().filter(|text| text.is_ascii());
            match tag {
                DNS_NAME => names.extend(text),
                EMAIL => emails.extend(text),
                _ => {}
            }
        }
    }
    Some((names, emails))
}

/// One part of a name: the type's object identifier, and the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamePart<'a> {
    pub kind: &'a [u8],
    /// It belongs to the one before: both together are one part.
    pub joined: bool,
    /// The tag of its string, which says how it is written.
    tag: u8,
    value: &'a [u8],
}

impl NamePart<'_> {
    /// Its value as text; what is none is shown as far as it can be.
    pub fn text(&self) -> String {
        const BMP: u8 = 0x1e;
        const LATIN: u8 = 0x14;
        match self.tag {
            BMP => {
                let units = self.value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
                char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            LATIN => self.value.iter().map(|&byte| char::from(byte)).collect(),
            _ => String::from_utf8_lossy(self.value).into_owned(),
        }
    }
}

/// The parts of a name (RFC 5280 §4.1.2.4), in the order in which they stand there; those that are one together are next to
/// each other. What is malformed ends it.
pub fn name_parts(name: &[u8]) -> Vec<NamePart<'_>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(mut set) = of(SET, &mut rest) {
        let mut joined = false;
        while let Some(mut pair) = of(SEQUENCE, &mut set) {
            let Some(kind) = of(OID, &mut pair) else { return parts };
            let Some((tag, value)) = element(&mut pair) else { return parts };
            parts.push(NamePart { kind, joined, tag, value });
            joined = true;
        }
    }
    parts
}
