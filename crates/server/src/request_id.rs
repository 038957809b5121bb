//! What names a request in logs, replies and the application: a trusted proxy's word, or one of our own.
//!
//! Knows: which words can be names, and how one is made that nobody else has. Does not know: where it is written. Any
//! thread.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{Head, hex_pair};

/// Odd, and its multiples are far apart: 2^64 divided by the golden ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// A proxy's word is no longer.
const LONGEST: usize = 128;

/// The header that names requests, and where our own names come from.
pub struct RequestIds {
    /// As it is sent.
    pub header: String,
    /// In small letters.
    pub name: String,
    /// What WSGI calls it.
    pub variable: String,
    /// Differs from process to process, as the system's randomness does.
    worker: u64,
    /// The last of a row of numbers that differ, and look as if they did by chance.
    last: AtomicU64,
}

impl RequestIds {
    pub fn new(header: &str) -> Self {
        let variable = format!("HTTP_{}", header.to_ascii_uppercase().replace('-', "_"));
        let worker = RandomState::new().hash_one((std::process::id(), reactor::sys::wall_us()));
        let (header, name) = (header.to_owned(), header.to_ascii_lowercase());
        let last = AtomicU64::new(RandomState::new().hash_one(worker));
        Self { header, name, variable, worker, last }
    }

    /// The name of a request. `trusted`: what its peer says is believed. `trace`: of the trace that it is recorded in.
    pub fn of(&self, head: &Head, trusted: bool, trace: Option<u128>) -> Box<str> {
        let given = if trusted { head.block.get(&self.name) } else { None };
        match given.filter(|given| is_name(given)).map(str::from_utf8) {
            Some(Ok(given)) => given.into(),
            _ => trace.map_or_else(|| self.own(), |trace| named(((trace >> 64) as u64, trace as u64))),
        }
    }

    /// How much longer a name makes the page of a refusal.
    pub fn page_bytes(id: &str) -> u64 {
        "request \n".len() as u64 + id.len() as u64
    }

    /// Names a refusal of ours, which is complete: a header, and a line of its page. `head_only`: the page is not sent.
    #[cold]
    pub fn name_refusal(&self, id: &str, head_only: bool, reply: &mut Vec<u8>) {
        let whole = String::from_utf8_lossy(reply);
        let Some((head, page)) = whole.split_once("\r\n\r\n") else { return };
        let more = format!("request {id}\n");
        let mut named = String::with_capacity(reply.len() + 2 * id.len() + 64);
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

    /// 32 hexadecimal digits, as W3C's trace ids have them.
    fn own(&self) -> Box<str> {
        named((self.worker, mixed(self.last.fetch_add(STEP, Ordering::Relaxed))))
    }
}

/// The halves of a number as a name.
fn named((high, low): (u64, u64)) -> Box<str> {
    std::str::from_utf8(&hex_pair(high, low)).unwrap_or_default().into()
}

/// Another number for each, in which no order shows (SplitMix64).
#[inline]
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
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
        let ids = RequestIds::new("X-Request-ID");
        for (head_only, page) in [(false, "too late\nrequest abc\n"), (true, "too late\n")] {
            let mut reply = refusal.to_vec();
            ids.name_refusal("abc", head_only, &mut reply);
            let head = "HTTP/1.1 504 Gateway Timeout\r\nX-Request-ID: abc\r\nContent-Length: 21\r\nConnection: close";
            assert_eq!(String::from_utf8_lossy(&reply), format!("{head}\r\n\r\n{page}"));
        }
    }

    #[test]
    fn our_own_names_are_never_the_same() {
        let (one, other) = (RequestIds::new("X-Request-ID"), RequestIds::new("X-Request-ID"));
        let mut all: Vec<_> = (0..1000).flat_map(|_| [one.own(), other.own()]).collect();
        assert!(all.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }
}
