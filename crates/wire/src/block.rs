//! A header section, parsed once: where its fields are, and what they mean for framing.
//!
//! Knows: one section. Does not know: the request line in front of it, so that one block is shared by
//! all requests that send the same bytes, whatever their path. Immutable once made.

use std::any::Any;
use std::sync::OnceLock;

use crate::found_out::FoundOut;

/// Something that a layer above hangs on a head or block, to find it at the next request
/// with the same bytes.
pub type Attachment = OnceLock<Box<dyn Any + Send + Sync>>;

/// What a block means, whatever the request line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Facts {
    pub hosts: u8,
    pub host_empty: bool,
    pub length: Option<u64>,
    pub chunked: bool,
    pub close: bool,
    /// The one Connection line is exactly `keep-alive`; none where there is no such line.
    pub keep_alive: Option<bool>,
    pub expect_continue: bool,
    pub expect_unknown: bool,
    pub forwarding: bool,
    /// A proxy says when it has had the request.
    pub request_start: bool,
    /// The sender says which trace it belongs to.
    pub trace_parent: bool,
    /// Others who have had a part in that trace say something of it.
    pub trace_state: bool,
    pub content_types: u8,
    pub te_lines: u8,
    pub codings: Codings,
}

/// What Transfer-Encoding lists, over all its lines.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Codings {
    pub chunked: u8,
    pub others: u8,
    pub last_is_chunked: bool,
}

/// Where a field is in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub(crate) name: (u32, u32),
    pub(crate) value: (u32, u32),
}

/// The header section, from behind the request line through the empty line, parsed once.
pub struct Block {
    /// As received: what the next block is compared with.
    pub(crate) raw: Box<[u8]>,
    /// The same with folded lines joined; none where that is the same.
    pub(crate) unfolded: Option<Box<[u8]>>,
    pub(crate) fields: Box<[Field]>,
    pub(crate) facts: Facts,
    /// Blocks of different variants are never shared (a listener, trust in a peer).
    pub variant: u32,
    pub attachment: Attachment,
    /// What was found out about it; zero: nothing yet.
    pub(crate) found_out: FoundOut,
}

impl Block {
    /// One in which there is nothing.
    pub(crate) fn without_fields(variant: u32) -> Self {
        let (raw, fields) = (Box::default(), Box::default());
        let (facts, attachment) = (Facts::default(), Attachment::default());
        Self { raw, unfolded: None, fields, facts, variant, attachment, found_out: FoundOut::default() }
    }

    fn text(&self) -> &[u8] {
        self.unfolded.as_deref().unwrap_or(&self.raw)
    }

    fn part(&self, (from, to): (u32, u32)) -> &[u8] {
        &self.text()[from as usize..to as usize]
    }

    /// Names as sent and values without blanks around them, in order.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (self.part(field.name), self.part(field.value)))
    }

    /// The first field of a name, in whatever case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// What was found out about it the first time, by whoever asks: a number that is not zero and follows from the block.
    #[inline]
    pub fn once(&self, find_out: impl FnOnce(&Self) -> u64) -> u64 {
        self.found_out.once(|| find_out(self))
    }

    /// As received.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// A proxy says when it has had the request: X-Request-Start, or X-Queue-Start.
    #[inline]
    pub fn has_request_start(&self) -> bool {
        self.facts.request_start
    }

    /// The sender says which trace it belongs to: `traceparent`.
    #[inline]
    pub fn has_trace_parent(&self) -> bool {
        self.facts.trace_parent
    }

    /// Others who have had a part in that trace say something of it: `tracestate`.
    #[inline]
    pub fn has_trace_state(&self) -> bool {
        self.facts.trace_state
    }

    /// There is a header by which a proxy speaks of its client.
    pub fn has_forwarding(&self) -> bool {
        self.facts.forwarding
    }
}
