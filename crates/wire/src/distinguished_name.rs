//! Names in certificates as text (RFC 4514).
//!
//! Knows: attributes' short names, and what has to be escaped. Does not know: whose name it is. Pure.

use crate::der::{NamePart, name_parts};

/// Attributes with names: object identifier, name in text, and what mod_ssl appends to `SSL_CLIENT_S_DN_`.
const ATTRIBUTES: &[(&[u8], &str, &str)] = &[
    (&[0x55, 4, 3], "CN", "CN"),
    (&[0x55, 4, 4], "SN", "S"),
    (&[0x55, 4, 6], "C", "C"),
    (&[0x55, 4, 7], "L", "L"),
    (&[0x55, 4, 8], "ST", "ST"),
    (&[0x55, 4, 9], "STREET", ""),
    (&[0x55, 4, 10], "O", "O"),
    (&[0x55, 4, 11], "OU", "OU"),
    (&[0x55, 4, 12], "title", "T"),
    (&[0x55, 4, 13], "description", "D"),
    (&[0x55, 4, 42], "GN", "G"),
    (&[0x55, 4, 43], "initials", "I"),
    (&[0x55, 4, 5], "serialNumber", ""),
    // 1.2.840.113549.1.9.1
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress", "Email"),
    // 0.9.2342.19200300.100.1: its members 1 and 25
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID", "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC", "DC"),
];

fn known(part: &NamePart<'_>) -> Option<&'static (&'static [u8], &'static str, &'static str)> {
    ATTRIBUTES.iter().find(|(kind, ..)| *kind == part.kind)
}

/// A name as text, its last part first: `CN=a.example,O=Tests`.
pub fn distinguished_name(name: &[u8]) -> String {
    let mut sets: Vec<String> = Vec::new();
    for part in name_parts(name) {
        let kind = known(&part).map_or_else(|| dotted(part.kind), |(_, name, _)| (*name).to_string());
        let text = format!("{kind}={}", escaped(&part.text()));
        match sets.last_mut().filter(|_| part.joined) {
            Some(set) => set.extend(["+", &text]),
            None => sets.push(text),
        }
    }
    sets.reverse();
    sets.join(",")
}

/// The parts that mod_ssl has variables for: what it appends, and the value; the first of several with one name.
pub fn variables(name: &[u8]) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for part in name_parts(name) {
        if let Some((.., suffix)) = known(&part)
            && !suffix.is_empty()
            && !found.iter().any(|(other, _)| other == suffix)
        {
            found.push((suffix, part.text()));
        }
    }
    found
}

/// An object identifier in digits (X.690 §8.19).
fn dotted(kind: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for &byte in kind {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.extend([first, number - 40 * first]);
            } else {
                numbers.push(number);
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// RFC 4514 §2.4; control characters as their bytes.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, one) in value.chars().enumerate() {
        match one {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => text.extend(['\\', one]),
            '#' if at == 0 => text.push_str("\\#"),
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            one if one.is_ascii_control() => text.push_str(&format!("\\{:02X}", u32::from(one))),
            one => text.push(one),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, content.len() as u8][..], content].concat()
    }

    fn pair(kind: &[u8], value: &str) -> Vec<u8> {
        wrap(0x30, &[wrap(6, kind), wrap(0x0c, value.as_bytes())].concat())
    }

    #[test]
    fn the_last_part_comes_first_and_what_means_something_is_escaped() {
        let name = [
            wrap(0x31, &pair(&[0x55, 4, 6], "DE")),
            wrap(0x31, &pair(&[0x55, 4, 10], "#1, \"One\" + <Two>; ")),
            wrap(0x31, &[pair(&[0x55, 4, 3], " a\n"), pair(&[0x55, 4, 5], "17")].concat()),
            wrap(0x31, &pair(&[0x2a, 0x86, 0x48, 1], "x")),
        ]
        .concat();
        assert_eq!(
            distinguished_name(&name),
            "1.2.840.1=x,CN=\\ a\\0A+serialNumber=17,O=\\#1\\, \\\"One\\\" \\+ \\<Two\\>\\;\\ ,C=DE"
        );
        let told = variables(&name);
        assert_eq!(
            told,
            [("C", "DE".into()), ("O", "#1, \"One\" + <Two>; ".into()), ("CN", " a\n".to_string())]
        );
    }

    #[test]
    fn what_is_no_name_is_as_much_of_one_as_can_be_read() {
        assert_eq!(distinguished_name(&[]), "");
        assert_eq!(distinguished_name(&[0x31, 5, 1]), "");
        let name = wrap(0x31, &pair(&[0x55, 4, 3], "a"));
        assert_eq!(distinguished_name(&[&name[..], &[0xff, 0xff]].concat()), "CN=a");
    }
}
