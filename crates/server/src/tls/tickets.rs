//! Session tickets that all workers of a server can open, also those of earlier generations (RFC 5077, RFC 8446 §4.6.1).
//!
//! Knows: keys that the supervisor makes and changes. Does not know: what is in a ticket. Runs on the thread of handshakes.
//!
//! A ticket is the name of its key, a nonce, and what rustls wants to find again, sealed together with what it was issued
//! under: one that was made where clients are asked for nothing opens nothing where they have to show a certificate.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

/// A key's name, and the key.
pub const KEY_BYTES: usize = NAME_BYTES + 32;
const NAME_BYTES: usize = 16;

/// Makes tickets with the first of its keys, and opens those of all.
#[derive(Debug)]
pub struct Tickets {
    keys: Vec<([u8; NAME_BYTES], LessSafeKey)>,
    terms: Vec<u8>,
    /// Clients are asked to forget a ticket after so many seconds: as long as its key makes tickets. It opens them for
    /// as long again.
    lifetime: u32,
}

impl Tickets {
    /// `keys`: of [`KEY_BYTES`] each. `terms`: what clients are asked for; a ticket of others opens nothing.
    /// None: a key has another length.
    pub fn new(keys: &[&[u8]], terms: &[u8], lifetime: u32) -> Option<Self> {
        let key = |bytes: &&[u8]| {
            let (name, key) = bytes.split_first_chunk::<NAME_BYTES>()?;
            Some((*name, LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?)))
        };
        let keys = keys.iter().map(key).collect::<Option<Vec<_>>>()?;
        Some(Self { keys, terms: digest(&SHA256, terms).as_ref().to_vec(), lifetime })
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
        let (name, key) = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let aad = Aad::from(&self.terms[..]);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        Some([&name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (_, key) = self.keys.iter().find(|(known, _)| known == name)?;
        let mut sealed = sealed.to_vec();
        let aad = Aad::from(&self.terms[..]);
        let plain = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Vec<u8> {
        vec![number; KEY_BYTES]
    }

    #[test]
    fn a_ticket_is_opened_by_every_worker_that_has_its_key_and_by_nobody_else() {
        let (one, two) = (key(1), key(2));
        let issuer = Tickets::new(&[&one], b"terms", 1).expect("keys");
        let ticket = issuer.encrypt(b"state").expect("a ticket");
        let rotated = Tickets::new(&[&two, &one], b"terms", 1).expect("keys");
        assert_eq!(rotated.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        let forgotten = Tickets::new(&[&two], b"terms", 1).expect("keys");
        assert_eq!(forgotten.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_of_other_terms_opens_nothing() {
        let one = key(1);
        let ticket =
            Tickets::new(&[&one], b"nobody is asked", 1).expect("keys").encrypt(b"state").expect("a ticket");
        assert_eq!(Tickets::new(&[&one], b"everybody is asked", 1).expect("keys").decrypt(&ticket), None);
    }

    #[test]
    fn what_was_changed_or_cut_opens_nothing() {
        let one = key(1);
        let tickets = Tickets::new(&[&one], b"", 1).expect("keys");
        let ticket = tickets.encrypt(b"state").expect("a ticket");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "{at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "{at}");
        }
        assert!(Tickets::new(&[&one[1..]], b"", 1).is_none(), "a key of another length");
    }
}
