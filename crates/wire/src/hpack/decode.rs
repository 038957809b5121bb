//! Header blocks into fields (RFC 7541 §3 and §6).
//!
//! Knows: the peer's dynamic table. Does not know: how a block came together of frames.

use super::list::List;
use super::static_table::FIELDS;
use super::table::Table;
use super::{Wrong, huffman, integer};

/// The size of both sides' tables before anything is said (RFC 9113 §6.5.2).
const FIRST_SIZE: usize = 4096;

/// A block may begin with so many changes of the table's size: the smallest in between, and the last (§4.2).
const MOST_RESIZES: u32 = 2;

/// Reads the blocks of one connection, in order.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the peer may make of the table's size.
    most: usize,
    /// The peer knows of a smaller size than its table had: its next block has to say that it follows.
    has_to_shrink: bool,
    /// How many fields were added to the table, and changes of its size.
    changes: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: Table::new(FIRST_SIZE), most: FIRST_SIZE, has_to_shrink: false, changes: 0 }
    }
}

/// A string of a block: in the block, or decoded into the scratch.
enum Text<'a> {
    Plain(&'a [u8]),
    Decoded(std::ops::Range<usize>),
    /// Longer than the list and the table have room for: nobody asks for it again.
    TooLong,
}

impl Text<'_> {
    fn bytes<'b>(&'b self, scratch: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Decoded(range) => Some(&scratch[range.clone()]),
            Self::TooLong => None,
        }
    }
}

impl Decoder {
    /// The peer has acknowledged this SETTINGS_HEADER_TABLE_SIZE.
    pub fn allow(&mut self, most: usize) {
        self.has_to_shrink |= most < self.table.most();
        self.most = most;
    }

    /// A number that is another one when the table has changed: while it stays, equal blocks mean the same.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What the table holds now, as RFC 7541 §4.1 counts.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Decodes a whole block into a list, as far as that has room; the table follows all of the block.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn decode(&mut self, block: &[u8], list: &mut List) -> Result<(), Wrong> {
        let mut input = block;
        let mut scratch = Vec::new();
        let mut resizes = 0;
        let mut begun = false;
        while let Some(&first) = input.first() {
            if first & 0xe0 == 0x20 {
                resizes += 1;
                if begun || resizes > MOST_RESIZES {
                    return Err(Wrong::TableSize);
                }
                self.resize(&mut input)?;
                continue;
            }
            if self.has_to_shrink {
                return Err(Wrong::TableSize);
            }
            begun = true;
            if first & 0x80 != 0 {
                let number = integer::read(&mut input, 7)?;
                let (name, value) = self.get(number)?;
                list.push(name, value);
            } else {
                scratch.clear();
                self.literal(first, &mut input, &mut scratch, list)?;
            }
        }
        Ok(())
    }

    fn resize(&mut self, input: &mut &[u8]) -> Result<(), Wrong> {
        let size = integer::read(input, 5)?;
        if size > self.most {
            return Err(Wrong::TableSize);
        }
        if size != self.table.most() {
            self.changes += 1;
        }
        self.table.resize(size);
        self.has_to_shrink = false;
        Ok(())
    }

    fn get(&self, number: usize) -> Result<(&[u8], &[u8]), Wrong> {
        let place = number.checked_sub(1).ok_or(Wrong::Index)?;
        match FIELDS.get(place) {
            Some(&(name, value)) => Ok((name, value)),
            None => self.table.get(place - FIELDS.len()).ok_or(Wrong::Index),
        }
    }

    /// §6.2: with its name here or in a table, and with or without a place in the table.
    fn literal(
        &mut self,
        first: u8,
        input: &mut &[u8],
        scratch: &mut Vec<u8>,
        list: &mut List,
    ) -> Result<(), Wrong> {
        let is_added = first & 0x40 != 0;
        let number = integer::read(input, if is_added { 6 } else { 4 })?;
        // What neither the list nor the table would take need not be decoded to its end.
        let most = if is_added { list.room().max(self.table.most()) } else { list.room() };
        let name = if number == 0 {
            string(input, scratch, most)?
        } else {
            // The table may lose this very field to make room for the new one (§4.4).
            let from = scratch.len();
            scratch.extend_from_slice(self.get(number)?.0);
            Text::Decoded(from..scratch.len())
        };
        let value = string(input, scratch, most)?;
        if is_added {
            self.changes += 1;
        }
        match (name.bytes(scratch), value.bytes(scratch)) {
            (Some(name), Some(value)) => {
                list.push(name, value);
                if is_added {
                    self.table.insert(name, value);
                }
            }
            _ => {
                list.go_over();
                if is_added {
                    let most = self.table.most();
                    self.table.resize(0);
                    self.table.resize(most);
                }
            }
        }
        Ok(())
    }
}

/// §5.2: a length, and so many bytes as they are or in the code.
fn string<'a>(input: &mut &'a [u8], scratch: &mut Vec<u8>, most: usize) -> Result<Text<'a>, Wrong> {
    let is_coded = input.first().ok_or(Wrong::Short)? & 0x80 != 0;
    let length = integer::read(input, 7)?;
    if length > input.len() {
        return Err(Wrong::Short);
    }
    let (bytes, rest) = input.split_at(length);
    *input = rest;
    if !is_coded {
        return Ok(if length > most { Text::TooLong } else { Text::Plain(bytes) });
    }
    let from = scratch.len();
    Ok(if huffman::decode(bytes, scratch, most)? {
        Text::Decoded(from..scratch.len())
    } else {
        Text::TooLong
    })
}
