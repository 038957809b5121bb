//! Which certificate a client is shown.
//!
//! Knows: names, and the kinds of keys that clients understand. Does not know: where certificates come from
//! (`material.rs`). Runs on the thread of handshakes (`porch.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// What a client's first message has shown, and what it was answered with.
#[derive(Debug)]
pub struct Noticed {
    /// Shared with the table, where it is a name that we have.
    pub server_name: Option<Arc<str>>,
    /// None: there is none for that name, and no other will do.
    pub shown: Option<Shown>,
}

/// A certificate that a client was shown.
#[derive(Debug, Clone)]
pub struct Shown(Arc<CertifiedKey>);

impl Shown {
    /// The certificate itself, in DER.
    pub fn der(&self) -> &[u8] {
        self.0.cert.first().map_or(&[], |der| der)
    }

    /// Both were shown the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

thread_local! {
    /// rustls tells the name that a client asks for to the resolver alone, in the midst of a call of ours.
    static NOTICED: RefCell<Option<Noticed>> = const { RefCell::new(None) };
}

/// What the first message has shown that this thread has read since this was last asked.
pub fn take_noticed() -> Option<Noticed> {
    NOTICED.take()
}

/// Certificates by name.
#[derive(Debug, Default)]
pub struct Resolver {
    /// Names in lower case; of a wildcard (RFC 9525 §6.3) what stands behind its star.
    exact: HashMap<Arc<str>, Vec<Arc<CertifiedKey>>>,
    wildcards: HashMap<Arc<str>, Vec<Arc<CertifiedKey>>>,
    /// For clients that name nothing known: what came first, with another kind of key where there is one.
    default: Vec<Arc<CertifiedKey>>,
    /// Clients that name nothing known are shown nothing, and their handshakes fail.
    strict: bool,
}

impl Resolver {
    /// `strict`: clients that name nothing known are refused.
    pub fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Adds a certificate and its names; the first one is the default.
    pub fn add(&mut self, key: &Arc<CertifiedKey>, names: &[String]) {
        for name in names {
            let name = name.to_ascii_lowercase();
            let (table, name) = match name.strip_prefix("*.") {
                Some(rest) => (&mut self.wildcards, rest),
                None => (&mut self.exact, &*name),
            };
            insert(table.entry(name.into()).or_default(), key);
        }
        // One of the same names with another kind of key goes with the default.
        let with_default = |keys: &Vec<Arc<CertifiedKey>>| {
            let has = |wanted: &Arc<CertifiedKey>| keys.iter().any(|one| Arc::ptr_eq(one, wanted));
            has(key) && self.default.first().is_some_and(has)
        };
        if self.default.is_empty() || self.exact.values().chain(self.wildcards.values()).any(with_default) {
            insert(&mut self.default, key);
        }
    }

    /// What there is for a name, in the order in which it is offered; with the name, to be kept.
    fn keys_for(&self, name: Option<&str>) -> (&[Arc<CertifiedKey>], Option<Arc<str>>) {
        let unknown = if self.strict { &[] } else { &self.default[..] };
        let Some(name) = name.map(str::to_ascii_lowercase) else { return (unknown, None) };
        if let Some((known, keys)) = self.exact.get_key_value(&*name) {
            return (keys, Some(Arc::clone(known)));
        }
        let wildcard = name.split_once('.').and_then(|(_, rest)| self.wildcards.get(rest));
        (wildcard.map_or(unknown, |keys| keys), Some(name.into()))
    }
}

/// ECDSA and EdDSA cost a tenth of RSA, so that they come first.
fn rank(key: &CertifiedKey) -> u8 {
    u8::from(key.key.algorithm() == SignatureAlgorithm::RSA)
}

fn insert(keys: &mut Vec<Arc<CertifiedKey>>, key: &Arc<CertifiedKey>) {
    let at = keys.iter().position(|one| rank(one) > rank(key)).unwrap_or(keys.len());
    keys.insert(at, Arc::clone(key));
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (keys, server_name) = self.keys_for(hello.server_name());
        let usable = keys.iter().find(|key| key.key.choose_scheme(hello.signature_schemes()).is_some());
        // Where none is understood the client is told so by the handshake itself.
        let shown = usable.or(keys.first()).cloned();
        NOTICED.set(Some(Noticed { server_name, shown: shown.clone().map(Shown) }));
        shown
    }
}
