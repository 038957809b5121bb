//! What a connection begins with, as far as it has come, and what stands in its place later.
//!
//! Knows: that a connection has at most one of these, behind a pointer, as idle ones are many. Does not know: what is
//! said (`preface.rs`), or what streams are. Owned by its connection.

use wire::proxy::Proxied;

use crate::preface::Awaited;
use crate::streams::Streams;

/// A preface, as far as it has come, and what follows one where that is not the machine's alone.
pub enum Stated {
    Awaited(Awaited),
    Said(Said),
    /// None while they are looked at.
    Streams(Option<Box<Streams>>),
}

impl Stated {
    /// Some of it has not come.
    pub fn awaited(&self) -> Option<&Awaited> {
        match self {
            Self::Awaited(awaited) => Some(awaited),
            Self::Said(_) | Self::Streams(_) => None,
        }
    }

    /// It has come, and nobody else knows what it said.
    pub fn said(&self) -> Option<&Said> {
        match self {
            Self::Awaited(_) | Self::Streams(_) => None,
            Self::Said(said) => Some(said),
        }
    }
}

/// A preface that has changed something.
pub struct Said {
    /// As it came: another worker judges it again.
    pub bytes: Box<[u8]>,
    pub proxied: Option<Box<Proxied>>,
}
