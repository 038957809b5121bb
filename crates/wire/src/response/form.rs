//! How a reply is written: as HTTP/1 has it, or as the protocol of a web server does.
//!
//! Knows: status lines, and what stands in their place. Does not know: headers. Pure.

use crate::gateway::fastcgi::Records;

/// How a reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    Http1,
    /// What it is sent through says itself where the content ends.
    Stream,
    /// A status line as in HTTP/1 and no framing: the end of the connection is the end of a body without a length.
    Uwsgi,
    /// The same with a `Status` header in the status line's place (RFC 3875 §6.3.3).
    Cgi,
    /// That in records, which have an end of their own.
    FastCgi(Records),
}

impl ReplyForm {
    /// Writes a whole reply that begins with a status line in this form.
    pub fn apply(self, reply: &mut Vec<u8>) {
        self.write_status(reply);
        if let Self::FastCgi(records) = self {
            records.wrap(reply, true);
        }
    }

    /// Writes the status line of a head in this form.
    pub(super) fn write_status(self, head: &mut Vec<u8>) {
        if matches!(self, Self::Cgi | Self::FastCgi(_)) && head.starts_with(VERSION) {
            head.splice(..VERSION.len(), *b"Status: ");
        }
    }

    /// One reply is all that its web server takes for a request: there are no interim ones.
    pub fn has_one_reply(self) -> bool {
        matches!(self, Self::Uwsgi | Self::Cgi | Self::FastCgi(_))
    }
}

/// What a status line begins with.
pub(super) const VERSION: &[u8] = b"HTTP/1.1 ";
