//! Fields into header blocks (RFC 7541 §6), without a table of our own: what a block looks like depends on its fields
//! alone, so that it can be made by any thread and kept.

use super::static_table::{FIELDS, STATUS, number_of};
use super::{huffman, integer};

/// Appends `:status` with a value that has a number of its own; false: it has none.
pub fn indexed_status(status: &[u8], out: &mut Vec<u8>) -> bool {
    let place = FIELDS[STATUS - 1..STATUS + 6].iter().position(|field| field.1 == status);
    if let Some(place) = place {
        integer::write(STATUS + place, 7, 0x80, out);
    }
    place.is_some()
}

/// Appends a field, whose name is in lower case. It enters no table; where it is a secret, none of a proxy either
/// (§7.1.3).
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let kind = if is_secret(name) { 0x10 } else { 0x00 };
    match number_of(name) {
        Some(number) => integer::write(number, 4, kind, out),
        None => {
            out.push(kind);
            string(name, out);
        }
    }
    string(value, out);
}

/// Appends that our table has no room, which it never had: for the first block behind a SETTINGS_HEADER_TABLE_SIZE
/// below the usual (§4.2).
pub fn table_emptied(out: &mut Vec<u8>) {
    out.push(0x20);
}

fn is_secret(name: &[u8]) -> bool {
    matches!(name, b"set-cookie" | b"authorization" | b"proxy-authorization" | b"cookie")
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::length(text);
    if coded < text.len() {
        integer::write(coded, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::write(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
