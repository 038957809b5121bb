//! The fields of one block, as many as a budget allows.

use super::table::OVERHEAD;

/// Decoded fields, in order.
#[derive(Debug, Default)]
pub struct List {
    text: Vec<u8>,
    /// Lengths of name and value.
    fields: Vec<(u32, u32)>,
    room: usize,
    over: bool,
}

impl List {
    /// For fields that cost so much in all: name, value and 32 bytes each, as SETTINGS_MAX_HEADER_LIST_SIZE counts
    /// (RFC 9113 §6.5.2). With 0 nothing is kept, whatever comes.
    pub fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// More came than there was room for. What is here is the beginning.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// So long a name or value still fits.
    pub(super) fn room(&self) -> usize {
        if self.over { 0 } else { self.room.saturating_sub(OVERHEAD) }
    }

    /// Adds a field while there is room.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        if self.over || size > self.room {
            self.go_over();
            return;
        }
        self.room -= size;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.fields.push((name.len() as u32, value.len() as u32));
    }

    /// There was a field that does not fit.
    pub(super) fn go_over(&mut self) {
        self.over = true;
    }

    /// Names and values.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut at = 0;
        self.fields.iter().map(move |&(name, value)| {
            let (name, value) = (name as usize, value as usize);
            let field = (&self.text[at..at + name], &self.text[at + name..at + name + value]);
            at += name + value;
            field
        })
    }

    /// Bytes of all names and values.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}
