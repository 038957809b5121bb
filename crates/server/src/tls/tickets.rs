//! Session tickets that all workers of a server can open, also those of earlier generations (RFC 5077, RFC 8446 §4.6.1), and
//! those of other hosts that have the same keys.
//!
//! Knows: keys that the supervisor hands over. Does not know: what is in a ticket. Runs on the thread of handshakes.
//!
//! A ticket is the name of its key, a nonce, and when it was made with what rustls wants to find again, sealed together with
//! what it was issued under: which listener, whose certificate, and what clients are asked for there. One that was made where
//! they are asked for nothing opens nothing where they have to show a certificate (CVE-2025-23419), and who is led to another
//! server that has the same keys gets no further there than without a ticket.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use reactor::sys::wall_seconds;
use rustls::server::ProducesTickets;

/// A key's name, and the key.
pub const KEY_BYTES: usize = NAME_BYTES + 32;
const NAME_BYTES: usize = 16;
/// What a file with a key has: a name, and 32 or 64 bytes. nginx seals tickets with AES-128 by the first and with AES-256
/// by the second.
const FILE_BYTES: [usize; 2] = [48, 80];

/// A key by its name.
#[derive(Debug)]
pub struct Key([u8; NAME_BYTES], LessSafeKey);

impl Key {
    /// None: these are not [`KEY_BYTES`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let (name, key) = bytes.split_first_chunk::<NAME_BYTES>()?;
        Some(Self(*name, LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?)))
    }

    /// Of a file as nginx has them, which uses them otherwise: ours is made of that (RFC 5869), so that no key is used in two
    /// ways. None: no such file has this length.
    pub fn of_file(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk::<NAME_BYTES>()?;
        if !FILE_BYTES.contains(&bytes.len()) {
            return None;
        }
        let derived = Salt::new(HKDF_SHA256, &[]).extract(secret);
        let key = derived.expand(&[b"forehand session tickets"], &AES_256_GCM).ok()?;
        Some(Self(*name, LessSafeKey::new(UnboundKey::from(key))))
    }
}

/// Makes tickets with the first of its keys, and opens those of all.
#[derive(Debug, Clone)]
pub struct Tickets {
    keys: Arc<[Key]>,
    terms: Vec<u8>,
    /// So many seconds a ticket is good for; clients are told.
    lifetime: u32,
}

impl Tickets {
    /// `terms`: what clients are asked for, and whom they meet; a ticket of others opens nothing. `lifetime` in seconds.
    pub fn new(keys: Vec<Key>, terms: &[u8], lifetime: u32) -> Self {
        Self { keys: keys.into(), terms: digest(&SHA256, terms).as_ref().to_vec(), lifetime }
    }

    /// Those of one listener, which open none of another's. `place`: which it is among those for TLS. Not its address:
    /// hosts that have the same keys have their own, in the same order.
    pub fn at(&self, place: u16) -> Self {
        let terms = [&self.terms[..], &place.to_be_bytes()].concat();
        Self { terms: digest(&SHA256, &terms).as_ref().to_vec(), ..self.clone() }
    }

    /// `now` in seconds since 1970.
    fn seal(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        let Key(name, key) = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = [&now.to_be_bytes()[..], plain].concat();
        let aad = Aad::from(&self.terms[..]);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        Some([&name[..], &nonce, &sealed].concat())
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let Key(_, key) = self.keys.iter().find(|Key(known, _)| known == name)?;
        let mut sealed = sealed.to_vec();
        let aad = Aad::from(&self.terms[..]);
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut sealed).ok()?;
        let (made, plain) = opened.split_first_chunk::<8>()?;
        // A key of a file may stay for long. Another host's clock may be ahead.
        let age = now.saturating_sub(u64::from_be_bytes(*made));
        (age <= u64::from(self.lifetime)).then(|| plain.to_vec())
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        !self.keys.is_empty()
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, wall_seconds())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, wall_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_305_600;

    fn tickets(numbers: &[u8], terms: &[u8]) -> Tickets {
        let key = |number: &u8| Key::new(&[*number; KEY_BYTES]).expect("its length");
        Tickets::new(numbers.iter().map(key).collect(), terms, 100)
    }

    #[test]
    fn a_ticket_is_opened_by_every_worker_that_has_its_key_and_by_nobody_else() {
        let ticket = tickets(&[1], b"terms").encrypt(b"state").expect("a ticket");
        assert_eq!(tickets(&[2, 1], b"terms").decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(tickets(&[2], b"terms").decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_of_other_terms_opens_nothing() {
        let ticket = tickets(&[1], b"nobody is asked").encrypt(b"state").expect("a ticket");
        assert_eq!(tickets(&[1], b"everybody is asked").decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_of_one_listener_opens_nothing_at_another() {
        let all = tickets(&[1], b"terms");
        let ticket = all.at(0).encrypt(b"state").expect("a ticket");
        assert_eq!(tickets(&[2, 1], b"terms").at(0).decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        for other in [all.at(1), tickets(&[1], b"others").at(0), all] {
            assert_eq!(other.decrypt(&ticket), None);
        }
    }

    #[test]
    fn a_ticket_is_good_for_its_lifetime_whatever_becomes_of_its_key() {
        let tickets = tickets(&[1], b"");
        let ticket = tickets.seal(b"state", NOW).expect("a ticket");
        for (now, good) in [(NOW - 50, true), (NOW + 99, true), (NOW + 100, true), (NOW + 101, false)] {
            assert_eq!(tickets.open(&ticket, now).is_some(), good, "{now}");
        }
    }

    #[test]
    fn what_was_changed_or_cut_opens_nothing() {
        let tickets = tickets(&[1], b"");
        let ticket = tickets.encrypt(b"state").expect("a ticket");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "{at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "{at}");
        }
    }

    #[test]
    fn a_file_has_one_of_two_lengths_and_every_byte_of_it_counts() {
        for length in [0, 16, 47, 48, 49, 79, 80, 81] {
            assert_eq!(Key::of_file(&vec![1; length]).is_some(), FILE_BYTES.contains(&length), "{length}");
        }
        for length in FILE_BYTES {
            let bytes = vec![1; length];
            let of = |bytes: &[u8]| Tickets::new(vec![Key::of_file(bytes).expect("its length")], b"", 100);
            let ticket = of(&bytes).encrypt(b"state").expect("a ticket");
            assert!(of(&bytes).decrypt(&ticket).is_some(), "{length}");
            assert_eq!(
                Tickets::new(vec![Key::new(&bytes[..48]).expect("48")], b"", 100).decrypt(&ticket),
                None
            );
            for at in 0..length {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_eq!(of(&other).decrypt(&ticket), None, "{at} of {length}");
            }
        }
    }
}
