//! What names a request in logs, replies and the application: a trusted proxy's word, or one of our own.
//!
//! Knows: which words can be names, and how one is made that nobody else has. Does not know: where it is written. Any
//! thread.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Head;

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
    count: AtomicU64,
    state: RandomState,
}

impl RequestIds {
    pub fn new(header: &str) -> Self {
        let state = RandomState::new();
        let variable = format!("HTTP_{}", header.to_ascii_uppercase().replace('-', "_"));
        let worker = RandomState::new().hash_one((std::process::id(), reactor::sys::wall_us()));
        let (header, name) = (header.to_owned(), header.to_ascii_lowercase());
        Self { header, name, variable, worker, count: AtomicU64::new(0), state }
    }

    /// The name of a request. `trusted`: what its peer says is believed.
    pub fn of(&self, head: &Head, trusted: bool) -> Box<str> {
        let given = if trusted { head.block.get(&self.name) } else { None };
        match given.filter(|given| is_name(given)).map(str::from_utf8) {
            Some(Ok(given)) => given.into(),
            _ => self.own(),
        }
    }

    /// 32 hexadecimal digits, as W3C's trace ids have them.
    fn own(&self) -> Box<str> {
        let mut hasher = self.state.build_hasher();
        hasher.write_u64(self.worker);
        hasher.write_u64(self.count.fetch_add(1, Ordering::Relaxed));
        format!("{:016x}{:016x}", self.worker, hasher.finish()).into()
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
    fn our_own_names_are_never_the_same() {
        let (one, other) = (RequestIds::new("X-Request-ID"), RequestIds::new("X-Request-ID"));
        let mut all: Vec<_> = (0..1000).flat_map(|_| [one.own(), other.own()]).collect();
        assert!(all.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }
}
