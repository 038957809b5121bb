//! What names a request in logs, replies and the application: a trusted proxy's word, or one of our own.
//!
//! Knows: which words can be names, and how one is made that nobody else has. Does not know: where it is written. Any
//! thread.

use std::borrow::Cow;
use std::fmt;

use wire::{Block, NameMark, hex, hex_pair, put_digits};

use crate::unique::Unique;

/// A proxy's word is no longer.
pub const LONGEST: usize = 128;
/// What is known of a header block: a client names no request, or not so that it can be used, or it does.
const NOTHING: u64 = 1;
const UNFIT: u64 = 2;
const FIT: u64 = 3;

/// The header that names requests, and where our own names come from.
#[derive(Debug, Clone)]
pub struct RequestIds {
    /// As it is sent.
    pub header: String,
    /// In small letters.
    pub name: String,
    pub mark: NameMark,
    /// What WSGI calls it.
    pub variable: String,
    /// What a reply's line with a name of our own begins with.
    pub(crate) line: Box<[u8]>,
    unique: Unique,
}

/// What names a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId<'a> {
    /// A trusted proxy's word.
    Given(Cow<'a, str>),
    /// Our own: 32 hexadecimal digits, as W3C's trace ids have them.
    Own([u8; 32]),
}

impl RequestId<'_> {
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Given(word) => word.as_bytes(),
            Self::Own(digits) => digits,
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// A worker's own name of its request of that number.
    #[inline]
    pub fn own(unique: &Unique, number: u64) -> Self {
        let mut digits = [0; 32];
        put_digits(&mut digits, 0, *unique.digits());
        put_digits(&mut digits, 16, hex(unique.lower(number)));
        Self::Own(digits)
    }

    /// For longer than its request.
    pub fn into_owned(self) -> RequestId<'static> {
        match self {
            Self::Given(word) => RequestId::Given(word.into_owned().into()),
            Self::Own(digits) => RequestId::Own(digits),
        }
    }

    /// That of a trace.
    #[inline]
    pub fn of_trace(trace: u128) -> Self {
        Self::Own(hex_pair((trace >> 64) as u64, trace as u64))
    }
}

impl fmt::Display for RequestId<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl RequestIds {
    /// `unique`: the worker's.
    pub fn new(header: &str, unique: Unique) -> Self {
        let (header, name) = (header.to_owned(), header.to_ascii_lowercase());
        Self {
            variable: format!("HTTP_{}", header.to_ascii_uppercase().replace('-', "_")),
            line: [header.as_bytes(), b": ", unique.digits()].concat().into(),
            mark: NameMark::of(name.as_bytes()),
            header,
            name,
            unique,
        }
    }

    /// The name that a proxy who is trusted has given, if it is one.
    #[inline]
    pub fn given<'a>(&self, block: &'a Block) -> Option<&'a str> {
        if self.found(block) != FIT {
            return None;
        }
        block.get(&self.name).and_then(|given| std::str::from_utf8(given).ok())
    }

    /// The client has sent such a header, whether or not it can be used.
    #[inline]
    pub fn is_in(&self, block: &Block) -> bool {
        self.found(block) != NOTHING
    }

    #[inline]
    fn found(&self, block: &Block) -> u64 {
        block.once(|block| match block.get(&self.name) {
            None => NOTHING,
            Some(given) if is_name(given) => FIT,
            Some(_) => UNFIT,
        })
    }

    /// Our own name of a request.
    #[inline]
    pub fn own(&self, number: u64) -> RequestId<'static> {
        RequestId::own(&self.unique, number)
    }

    /// What our own names follow from.
    pub fn unique(&self) -> &Unique {
        &self.unique
    }

    /// The end of the line of a reply that has it: what no other of this worker has, and the line's end.
    #[inline]
    pub(crate) fn own_end(&self, number: u64) -> [u8; 18] {
        let mut end = *b"................\r\n";
        put_digits(&mut end, 0, hex(self.unique.lower(number)));
        end
    }

    /// How much longer a name makes the page of a refusal.
    pub fn page_bytes(id: &RequestId<'_>) -> u64 {
        ("request \n".len() + id.as_bytes().len()) as u64
    }

    /// Names a refusal of ours, which is complete: a header, and a line of its page. `head_only`: the page is not sent.
    #[cold]
    pub fn name_refusal(&self, id: &RequestId<'_>, head_only: bool, reply: &mut Vec<u8>) {
        let whole = String::from_utf8_lossy(reply);
        let Some((head, page)) = whole.split_once("\r\n\r\n") else { return };
        let more = format!("request {id}\n");
        let mut named = String::with_capacity(reply.len() + 2 * id.as_bytes().len() + 64);
        for (at, line) in head.split("\r\n").enumerate() {
            match line.strip_prefix("Content-Length: ").and_then(|length| length.parse::<usize>().ok()) {
                Some(length) => named.push_str(&format!("Content-Length: {}\r\n", length + more.len())),
                None => named.push_str(&format!("{line}\r\n")),
            }
            if at == 0 {
                named.push_str(&format!("{}: {id}\r\n", self.header));
            }
        }
        named.push_str("\r\n");
        named.push_str(page);
        if !head_only {
            named.push_str(&more);
        }
        *reply = named.into_bytes();
    }
}

/// Letters, digits and what needs no quotes: it stands in logs and headers as it is.
fn is_name(word: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(byte);
    (1..=LONGEST).contains(&word.len()) && word.iter().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_as_long_as_it_may_be_and_has_nothing_that_needs_quotes() {
        for good in [&b"a"[..], b"0f8fad5b-d9cb-469f-a165-70867728950e", b"A._~+/=-9", &[b'x'; LONGEST]] {
            assert!(is_name(good));
        }
        for bad in [&b""[..], b"a b", b"a\"", b"a\n", "\u{e4}".as_bytes(), b"a,b", &[b'x'; LONGEST + 1]] {
            assert!(!is_name(bad));
        }
    }

    #[test]
    fn a_refusal_says_its_name_in_its_head_and_on_its_page() {
        let refusal =
            b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo late\n";
        let ids = RequestIds::new("X-Request-ID", Unique::new());
        for (head_only, page) in [(false, "too late\nrequest abc\n"), (true, "too late\n")] {
            let mut reply = refusal.to_vec();
            ids.name_refusal(&RequestId::Given("abc".into()), head_only, &mut reply);
            let head = "HTTP/1.1 504 Gateway Timeout\r\nX-Request-ID: abc\r\nContent-Length: 21\r\nConnection: close";
            assert_eq!(String::from_utf8_lossy(&reply), format!("{head}\r\n\r\n{page}"));
        }
    }

    #[test]
    fn our_own_names_are_never_the_same_and_a_reply_s_line_has_the_whole() {
        let new = || RequestIds::new("X-Request-ID", Unique::new());
        let (one, other) = (new(), new());
        let all: Vec<_> = (0..1000).flat_map(|number| [one.own(number), other.own(number)]).collect();
        let mut all: Vec<_> = all.iter().map(RequestId::as_str).collect();
        assert!(all.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2000);
        let line = [&one.line[..], &one.own_end(7)].concat();
        assert_eq!(String::from_utf8_lossy(&line), format!("X-Request-ID: {}\r\n", one.own(7)));
    }
}
