//! What a web server has said of a request: its variables, as they came.
//!
//! Knows: names and values. Does not know: how they were framed, or who judges them (`variables.rs`). Pure.

use std::sync::Arc;

use crate::block::Attachment;
use crate::trust::Peer;

/// A place in the bytes of a head.
pub(crate) type Span = (u32, u32);

/// One name and one value.
pub(crate) type Pair = (Span, Span);

/// What a web server has said beside method, target, headers and length.
#[derive(Debug)]
pub struct Given {
    pub(super) bytes: Vec<u8>,
    pub(super) known: Arc<Known>,
    pub(super) peer: Option<Peer>,
}

/// What is the same for requests that differ in nothing but their client.
#[derive(Debug)]
pub struct Known {
    /// Where in the bytes of each the names and values are.
    pub(super) pairs: Vec<Pair>,
    /// A SCRIPT_NAME that is also the PATH_INFO is the path, and no place (`paths.rs`).
    pub(super) script_is_path: bool,
    pub(super) attachment: Attachment,
}

impl Given {
    /// Names and values in the order in which they were sent; each name once.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.known.pairs.iter().map(|&(name, value)| (self.part(name), self.part(value)))
    }

    /// What hangs on it and on all that are the same but for their client.
    pub fn attachment(&self) -> &Attachment {
        &self.known.attachment
    }

    fn part(&self, (from, to): Span) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    /// The value of a name; an empty one is none, as web servers send empty ones for what they do not know.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.variables().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value);
        found.filter(|value| !value.is_empty())
    }

    /// The web server's own client, where it names one: an address that is none, and so cannot be a client's, has been
    /// refused before.
    #[inline]
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// The client has come over TLS.
    pub fn is_https(&self) -> bool {
        let on = |value: &[u8]| value.eq_ignore_ascii_case(b"on") || value == b"1";
        match self.get("HTTPS") {
            Some(value) => on(value),
            None => self.get("REQUEST_SCHEME").is_some_and(|value| value.eq_ignore_ascii_case(b"https")),
        }
    }
}
