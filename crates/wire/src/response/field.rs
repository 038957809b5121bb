//! Names of response headers: which are the server's business, and what makes one unfit to be sent.
//!
//! Knows: RFC 9110 §5.1 and PEP 3333, "Other HTTP Features". Does not know: values, or heads.

use std::fmt;

use crate::bytes::is_token;

/// Why a head that an application gave cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    Status,
    Interim,
    Name,
    Value,
    Length,
    TwoLengths,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => {
                "a status is three digits from 200 to 999, a blank and a phrase without control characters"
            }
            Self::Interim => "a 1xx status is interim and cannot end a request",
            Self::Name => "a header's name is a token (RFC 9110 section 5.6.2)",
            Self::Value => {
                "a header's value has no control characters, so no line of its own (RFC 9110 section 5.5)"
            }
            Self::Length => "Content-Length is a number",
            Self::TwoLengths => "Content-Length was given twice with different values",
        })
    }
}

impl std::error::Error for HeadError {}

/// What a header's name means to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Plain,
    Length,
    Date,
    Server,
    Connection,
    /// Names a file, where such names are heeded.
    File,
    /// The server's own business: left out.
    Dropped,
}

/// A header's name, judged once: applications use the same few again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldName {
    /// As it is sent, with colon and blank.
    pub(super) line: Box<[u8]>,
    pub(super) meaning: Meaning,
    pub(super) wants_status: bool,
    pub(super) mark: NameMark,
}

/// A bit that stands for a name, whatever its case: names of which the bits differ are not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameMark(u64);

impl NameMark {
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let letter = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or_default() | 0x20);
        Self(1 << ((name.len() + 7 * letter(name.first()) + 13 * letter(name.last())) % 64))
    }
}

/// Names of which some are known, by their marks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NameMarks(u64);

impl NameMarks {
    /// Any name.
    pub(super) const ALL: Self = Self(u64::MAX);

    #[inline]
    pub(super) fn add(&mut self, name: NameMark) {
        self.0 |= name.0;
    }

    #[inline]
    pub(super) fn may_have(self, name: NameMark) -> bool {
        self.0 & name.0 != 0
    }
}

impl FieldName {
    /// Judges a name.
    ///
    /// # Errors
    /// [`HeadError::Name`] for what is no token.
    pub fn new(name: &[u8]) -> Result<Self, HeadError> {
        let meaning = meaning(name)?;
        let line = [name, b": "].concat().into_boxed_slice();
        let (wants_status, mark) = (wants_status(name), NameMark::of(name));
        Ok(Self { line, meaning, wants_status, mark })
    }
}

/// True where a web server that is told no status does something of its own about a header of this name: of a place it makes
/// a redirection (RFC 3875 §6.2.3), and Apache holds validators against what the client has asked for.
#[inline]
pub(super) fn wants_status(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'l' | b'L' | b'e' | b'E'))
        && [&b"location"[..], b"etag", b"last-modified"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

pub(super) fn meaning(name: &[u8]) -> Result<Meaning, HeadError> {
    if !is_token(name) {
        return Err(HeadError::Name);
    }
    let is = |wanted: &[u8]| name.eq_ignore_ascii_case(wanted);
    Ok(match name.len() {
        14 if is(b"content-length") => Meaning::Length,
        4 if is(b"date") => Meaning::Date,
        6 if is(b"server") => Meaning::Server,
        10 if is(b"connection") => Meaning::Connection,
        2 if is(b"te") => Meaning::Dropped,
        7 if is(b"trailer") || is(b"upgrade") => Meaning::Dropped,
        10 if is(b"keep-alive") => Meaning::Dropped,
        10 if is(b"x-sendfile") => Meaning::File,
        16 if is(b"x-accel-redirect") => Meaning::File,
        16 if is(b"proxy-connection") => Meaning::Dropped,
        17 if is(b"transfer-encoding") => Meaning::Dropped,
        18 if is(b"proxy-authenticate") => Meaning::Dropped,
        19 if is(b"proxy-authorization") => Meaning::Dropped,
        _ => Meaning::Plain,
    })
}
