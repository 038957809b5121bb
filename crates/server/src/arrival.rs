//! What a look at a body that is still arriving finds.
//!
//! Knows: words for it. Does not know: whose body it is, or how it arrives.

use std::io;

use wire::{Fault, Millis};

/// A time that has come: the reader goes on as soon as others have had their turn.
pub const AT_ONCE: Millis = 0;

/// What went wrong with a body. The application's read raises it; it never gets a body that
/// only looks complete.
#[derive(Debug)]
pub enum BodyError {
    /// The peer left, or the connection broke, before the body was complete.
    Incomplete,
    /// What arrived is not a body, or came too slowly, or is too large.
    Fault(Fault),
    /// The exchange is over.
    Over,
    Io(io::Error),
}

/// What a look at a body found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes were appended, or none because there are no more.
    Some { last: bool },
    /// Nothing has arrived, or, [`AT_ONCE`], others come first.
    None { until: Millis },
}
