//! A dynamic table: the fields that one side has told the other, newest first, as many as fit (RFC 7541 §2.3.2, §4).

use std::collections::VecDeque;

/// What each field costs beyond its bytes (§4.1).
pub const OVERHEAD: usize = 32;

/// Where a field is in the text.
#[derive(Debug, Clone, Copy)]
struct Entry {
    from: usize,
    name: usize,
    value: usize,
}

impl Entry {
    fn size(self) -> usize {
        self.name + self.value + OVERHEAD
    }
}

/// The table. Its text is one buffer at whose front the oldest field stands; what is gone is cut off when it is as
/// much as may be there.
#[derive(Debug)]
pub struct Table {
    text: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    size: usize,
    most: usize,
}

impl Table {
    pub fn new(most: usize) -> Self {
        Self { text: Vec::new(), entries: VecDeque::new(), size: 0, most }
    }

    /// By its place: 0 is the newest.
    pub fn get(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(place + 1)?)?;
        let (name, rest) = self.text[entry.from..].split_at(entry.name);
        Some((name, &rest[..entry.value]))
    }

    /// What all fields cost together.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What they may cost.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Changes that; the oldest go until the rest fits (§4.3).
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.make_room(0);
    }

    /// Adds a field; the oldest make room. One that is larger than all of the room empties the table (§4.4).
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        self.make_room(size);
        if size > self.most {
            return;
        }
        let gone = self.entries.front().map_or(self.text.len(), |oldest| oldest.from);
        if gone > 0 && self.text.len() + name.len() + value.len() > self.most {
            self.text.drain(..gone);
            self.entries.iter_mut().for_each(|entry| entry.from -= gone);
        }
        let from = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.entries.push_back(Entry { from, name: name.len(), value: value.len() });
        self.size += size;
    }

    fn make_room(&mut self, size: usize) {
        while self.size + size > self.most
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_first_and_the_oldest_goes() {
        let mut table = Table::new(3 * (OVERHEAD + 2));
        for letter in b"abcd" {
            table.insert(&[*letter], b"1");
        }
        let found: Vec<_> = (0..5).map(|place| table.get(place).map(|field| field.0.to_vec())).collect();
        assert_eq!(found, [Some(b"d".to_vec()), Some(b"c".to_vec()), Some(b"b".to_vec()), None, None]);
        assert_eq!(table.size(), table.most());
    }

    #[test]
    fn a_field_that_is_too_large_empties_it() {
        let mut table = Table::new(100);
        table.insert(b"a", b"1");
        table.insert(b"name", &[b'v'; 65]);
        assert_eq!((table.size(), table.get(0)), (0, None));
        table.insert(b"name", &[b'v'; 64]);
        assert_eq!(table.size(), 100);
        table.resize(99);
        assert_eq!((table.size(), table.get(0)), (0, None));
    }

    #[test]
    fn its_text_stays_bounded_however_many_fields_come() {
        let mut table = Table::new(4096);
        let count = if cfg!(miri) { 300 } else { 10_000 };
        for number in 0..count {
            let value = u32::to_string(&number);
            table.insert(b"a-name", value.as_bytes());
            assert_eq!(table.get(0), Some((&b"a-name"[..], value.as_bytes())));
            assert!(table.text.len() <= 4096 && table.size() <= 4096);
        }
        let last = table.entries.len() - 1;
        let oldest = (count as usize - 1 - last).to_string();
        assert_eq!(table.get(last).map(|field| field.1), Some(oldest.as_bytes()));
    }
}
