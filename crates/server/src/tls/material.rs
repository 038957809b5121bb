//! What the supervisor hands to workers for TLS, as a configuration of rustls: certificates, keys, whom clients have to be.
//!
//! Knows: the form in which it is handed over, PEM (RFC 7468), and what can be wrong with a certificate and its key. Does
//! not know: where files are read: whoever may read keys does that (`forehand/certificates.py`).
//!
//! The form is a line `NAME LENGTH LABEL` for each part, its bytes, and a line's end. `LABEL` is what messages call it, such
//! as the path of its file. `chain` and the `key` behind it belong together; `minimum` is the least version; `client-ca`,
//! `client-verify` and `client-crl` are about clients; with `strict-sni` who asks for no known name is refused; the first
//! `ticket-key` makes tickets, all of them open some, and `ticket-lifetime` says for how many seconds. In place of keys
//! that were made there may be those of files, `ticket-key-file`.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use wire::der::Certificate;

use super::encrypted::Terms;
use super::resolver::Resolver;
use super::tickets::{KEY_BYTES, Key, Tickets};

/// Seconds that tickets are good for where nobody says so.
const TICKET_LIFETIME: u32 = 6 * 3600;

/// What is wrong with a certificate, a key or a list, in a sentence that names its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMaterial(String);

impl fmt::Display for BadMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadMaterial {}

/// One part of what was handed over.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    name: &'a str,
    label: &'a str,
    bytes: &'a [u8],
}

impl Part<'_> {
    /// These words stand in it.
    fn has(&self, words: &[u8]) -> bool {
        self.bytes.windows(words.len()).any(|window| window == words)
    }
}

/// A configuration, and what people should know of it.
#[derive(Debug)]
pub struct Material {
    /// Without tickets, which each listener has its own of.
    config: ServerConfig,
    tickets: Option<Tickets>,
    asks_clients: bool,
    /// Sentences: a certificate that has expired, a chain in a strange order.
    pub warnings: Vec<String>,
    /// When the first of the certificates expires, in seconds since 1970.
    pub expires: u64,
    /// For how long that one is good in all, in seconds: one of ninety days is late where one of six is fresh.
    pub lasts: u64,
}

impl Material {
    /// Reads what was handed over. `now`: seconds since 1970.
    ///
    /// # Errors
    /// [`BadMaterial`] says what cannot be used.
    pub fn read(bytes: &[u8], now: u64) -> Result<Self, BadMaterial> {
        let parts = split(bytes).ok_or_else(|| BadMaterial("the material for TLS is malformed".into()))?;
        let provider = Arc::new(default_provider());
        let strict = parts.iter().any(|part| part.name == "strict-sni");
        let mut resolver = Resolver::new(strict);
        let (mut warnings, mut first) = (Vec::new(), None::<Validity>);
        let mut hosts = None;
        let mut chain = None;
        for part in &parts {
            match part.name {
                "chain" => chain = Some(part),
                "key" => {
                    let chain =
                        chain.take().ok_or_else(|| BadMaterial("a key without a certificate".into()))?;
                    let (key, names, validity) = certified(chain, part, &provider, now, &mut warnings)?;
                    resolver.add(&Arc::new(key), &names);
                    hosts.get_or_insert(names);
                    first = Some(first.map_or(validity, |known| known.min(validity)));
                }
                _ => {}
            }
        }
        let (expires, lasts) = first.ok_or_else(|| BadMaterial("there is no certificate".into()))?;
        let versions: &[&SupportedProtocolVersion] = match text(&parts, "minimum") {
            "1.3" => &[&TLS13],
            _ => &[&TLS13, &TLS12],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| BadMaterial(error.to_string()))?;
        let builder = match client_verifier(&parts, &provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = [&b"h2"[..], b"http/1.1", b"http/1.0"].map(<[u8]>::to_vec).to_vec();
        // Clients come again by tickets alone, which every worker can open.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let tickets = tickets(&parts, hosts.unwrap_or_default())?;
        let asks_clients = parts.iter().any(|part| part.name == "client-ca");
        Ok(Self { config, tickets, asks_clients, warnings, expires, lasts })
    }

    /// What handshakes are like at one listener. `place`: which it is among those for TLS.
    pub fn terms(&self, place: u16) -> Terms {
        let mut config = self.config.clone();
        if let Some(tickets) = &self.tickets {
            config.ticketer = Arc::new(tickets.at(place));
        }
        Terms { config: Arc::new(config), asks_clients: self.asks_clients }
    }
}

/// The parts. None: they are not as they should be.
fn split(bytes: &[u8]) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let mut words = line.splitn(3, ' ');
        let (name, length) = (words.next()?, words.next()?.parse::<usize>().ok()?);
        let (bytes, behind) = rest[end + 1..].split_at_checked(length)?;
        parts.push(Part { name, label: words.next().unwrap_or(name), bytes });
        rest = behind.strip_prefix(b"\n")?;
    }
    Some(parts)
}

fn text<'a>(parts: &[Part<'a>], name: &str) -> &'a str {
    let found = parts.iter().find(|part| part.name == name);
    found.and_then(|part| std::str::from_utf8(part.bytes).ok()).unwrap_or_default()
}

/// When a certificate expires, in seconds since 1970, and for how many it is good in all.
type Validity = (u64, u64);

/// A certificate with its chain and key, the hosts that it is for, when it expires, and how long it lasts in all.
fn certified(
    chain: &Part<'_>,
    key: &Part<'_>,
    provider: &CryptoProvider,
    now: u64,
    warnings: &mut Vec<String>,
) -> Result<(CertifiedKey, Vec<String>, Validity), BadMaterial> {
    let label = chain.label;
    let ders = certificates(chain)?;
    let signing = provider
        .key_provider
        .load_private_key(private_key(key, label)?)
        .map_err(|error| BadMaterial(format!("{}: this private key cannot be used: {error}", key.label)))?;
    let whole = CertifiedKey::new(ders, signing);
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) = whole.keys_match() {
        return Err(mismatch(&whole, label, key.label));
    }
    let parsed: Option<Vec<Certificate<'_>>> = whole.cert.iter().map(|der| Certificate::read(der)).collect();
    if parsed.as_ref().is_some_and(|all| all[0].version < 3) {
        return Err(BadMaterial(format!(
            "{label}: the certificate is of version {}, which says of no host that it is for it: have one of version 3 made, \
             such as by `openssl req -x509 -addext subjectAltName=DNS:localhost`",
            parsed.map_or(1, |all| all[0].version)
        )));
    }
    let Some(all) = parsed.filter(|_| whole.keys_match().is_ok()) else {
        return Err(BadMaterial(format!("{label}: what is between its lines of PEM is no certificate")));
    };
    let own = &all[0];
    if own.not_after < now {
        warnings.push(format!("{label}: the certificate has expired: clients will refuse it"));
    } else if own.not_before > now {
        warnings.push(format!("{label}: the certificate is not valid yet: clients will refuse it"));
    }
    if all.windows(2).any(|pair| pair[0].issuer != pair[1].subject) {
        warnings.push(format!(
            "{label}: its certificates are not in order, each behind the one that it has signed: some clients will \
             refuse them"
        ));
    }
    let names = own.dns_names.iter().map(|name| (*name).to_string()).collect();
    let validity = (own.not_after, own.not_after.saturating_sub(own.not_before));
    Ok((whole, names, validity))
}

/// Says which of the two is the wrong one, as far as that can be known.
fn mismatch(whole: &CertifiedKey, chain: &str, key: &str) -> BadMaterial {
    let belongs = |der: &CertificateDer<'static>| {
        CertifiedKey::new(vec![der.clone()], Arc::clone(&whole.key)).keys_match().is_ok()
    };
    BadMaterial(match whole.cert.iter().any(belongs) {
        true => format!(
            "{chain}: the certificate that belongs to the key in {key} has to come first, those of its issuers behind it"
        ),
        false => format!(
            "{key}: this private key does not belong to the certificate in {chain}: take the key that the certificate \
             was asked for with"
        ),
    })
}

fn certificates(part: &Part<'_>) -> Result<Vec<CertificateDer<'static>>, BadMaterial> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(part.bytes).collect();
    let all = read.map_err(|error| BadMaterial(format!("{}: {error}", part.label)))?;
    if all.is_empty() {
        let instead = match part.has(b"PRIVATE KEY-----") {
            true => "it has a private key, which is to be named by tls_key",
            false => "it should have lines from -----BEGIN CERTIFICATE----- on",
        };
        return Err(BadMaterial(format!("{}: there is no certificate in it: {instead}", part.label)));
    }
    Ok(all)
}

/// The first key: PKCS#8, PKCS#1 or SEC1. `chain`: where its certificate is.
fn private_key(part: &Part<'_>, chain: &str) -> Result<PrivateKeyDer<'static>, BadMaterial> {
    let label = part.label;
    // PKCS#8 says so in its first line, the older forms behind it (RFC 1421 §4.6.1.1).
    if part.has(b"BEGIN ENCRYPTED PRIVATE KEY") || part.has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(BadMaterial(format!(
            "{label}: the private key is encrypted, and nobody is there to ask for its password: `openssl pkey -in \
             {label} -out FILE` writes it without one"
        )));
    }
    PrivateKeyDer::from_pem_slice(part.bytes).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound if label == chain => BadMaterial(format!(
            "{label}: there is a certificate in it and no private key: name the file of its key with tls_key"
        )),
        rustls::pki_types::pem::Error::NoItemsFound => {
            BadMaterial(format!("{label}: there is no private key in it (PKCS#8, PKCS#1 or SEC1, in PEM)"))
        }
        other => BadMaterial(format!("{label}: {other}")),
    })
}

/// Who judges clients' certificates; none: they are not asked for any.
fn client_verifier(
    parts: &[Part<'_>],
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, BadMaterial> {
    let mut roots = RootCertStore::empty();
    for part in parts.iter().filter(|part| part.name == "client-ca") {
        for der in certificates(part)? {
            roots.add(der).map_err(|error| BadMaterial(format!("{}: {error}", part.label)))?;
        }
    }
    if roots.is_empty() {
        return Ok(None);
    }
    let roots = Arc::new(roots);
    let build = |revoked| {
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
            .with_crls(revoked)
            .only_check_end_entity_revocation();
        match text(parts, "client-verify") {
            "optional" => builder.allow_unauthenticated().build(),
            _ => builder.build(),
        }
    };
    let mut all = Vec::new();
    for part in parts.iter().filter(|part| part.name == "client-crl") {
        let revoked = revoked(part)?;
        build(revoked.clone()).map_err(|error| {
            BadMaterial(format!("{}: {error} (lists of version 2 with a number are read)", part.label))
        })?;
        all.extend(revoked);
    }
    let built = build(all).map_err(|error| BadMaterial(format!("clients' certificates: {error}")))?;
    Ok(Some(built))
}

/// Lists of certificates that were revoked.
fn revoked(part: &Part<'_>) -> Result<Vec<CertificateRevocationListDer<'static>>, BadMaterial> {
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(part.bytes).collect();
    let all = all.map_err(|error| BadMaterial(format!("{}: {error}", part.label)))?;
    match all.is_empty() {
        true => Err(BadMaterial(format!("{}: there is no list of revoked certificates in it", part.label))),
        false => Ok(all),
    }
}

/// Who makes tickets; nobody where clients have to show a certificate each time. `hosts`: whom the first certificate is
/// for, which stays so when it is renewed.
fn tickets(parts: &[Part<'_>], mut hosts: Vec<String>) -> Result<Option<Tickets>, BadMaterial> {
    let of = |name: &'static str| parts.iter().filter(move |part| part.name == name);
    let mut keys: Vec<Key> = Vec::new();
    for part in of("ticket-key-file") {
        keys.push(Key::of_file(part.bytes).ok_or_else(|| {
            let (label, length) = (part.label, part.bytes.len());
            BadMaterial(format!(
                "{label}: a key for tickets has 48 or 80 bytes, and this file has {length}: `openssl rand 80 > {label}` \
                 makes one"
            ))
        })?);
    }
    for part in of("ticket-key") {
        let key = Key::new(part.bytes);
        keys.push(key.ok_or_else(|| BadMaterial(format!("a key for tickets has not {KEY_BYTES} bytes")))?);
    }
    let asks = of("client-ca").next().is_some();
    if keys.is_empty() || asks && text(parts, "client-verify") != "optional" {
        return Ok(None);
    }
    hosts.sort_unstable();
    let asked = of("client-ca").chain(of("client-crl")).chain(of("client-verify")).map(|part| part.bytes);
    // Each with its length: what one of them has cannot be taken for part of another.
    let mut terms = Vec::new();
    for bytes in hosts.iter().map(String::as_bytes).chain([&[][..]]).chain(asked) {
        terms.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        terms.extend_from_slice(bytes);
    }
    let lifetime = text(parts, "ticket-lifetime").parse().unwrap_or(TICKET_LIFETIME);
    Ok(Some(Tickets::new(keys, &terms, lifetime)))
}
