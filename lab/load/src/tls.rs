//! TLS of one connection, by rustls: bytes of a socket in, what they hold out, and the other way. Knows no HTTP and no load.
//!
//! The ciphers are ring's, where the server has AWS-LC's: the two ends share the library's rules, and not its arithmetic. Keys are
//! agreed on by X25519 or a curve of NIST's, which every server knows; hybrids with ML-KEM are not offered.

use crate::plan::{Plan, Stop, Tls};
use crate::system::{self, Moved};
use rustix::fd::OwnedFd;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use std::io::{self, BufRead as _, Write as _};
use std::sync::Arc;

/// What every connection of a load begins its TLS with.
#[derive(Clone, Debug)]
pub struct Terms {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Terms {
    /// `host` is the URL's: the certificate has to be its.
    pub fn of(plan: &Plan, host: &str) -> Result<Terms, Stop> {
        let tls = plan.tls.clone().unwrap_or_default();
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| Stop::Plan(format!("a certificate cannot be of the host {host:?}")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(&tls)?)
            .map_err(|error| Stop::Machine(format!("TLS cannot be set up: {error}")))?;
        let verifier = verifier(&tls, &provider)?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![if plan.is_http2() { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        config.resumption = if tls.resume { Resumption::default() } else { Resumption::disabled() };
        Ok(Terms { config: Arc::new(config), name })
    }
}

static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

fn versions(tls: &Tls) -> Result<&'static [&'static SupportedProtocolVersion], Stop> {
    match tls.version.as_deref() {
        None => Ok(&VERSIONS),
        Some("1.3") => Ok(&VERSIONS[..1]),
        Some("1.2") => Ok(&VERSIONS[1..]),
        Some(other) => Err(Stop::Plan(format!("tls.version is {other:?}: \"1.2\" or \"1.3\""))),
    }
}

/// Who may vouch for the server: the certificates of the plan, or, where it says so, anybody.
fn verifier(tls: &Tls, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Stop> {
    let text = match (&tls.ca, &tls.ca_file, tls.insecure) {
        (None, None, true) => return Ok(Verifier::shared(Believed::Anybody, provider)),
        (Some(text), None, false) => text.clone().into_bytes(),
        (None, Some(path), false) => std::fs::read(path)
            .map_err(|error| Stop::Plan(format!("cannot read the certificates {path:?}: {error}")))?,
        _ => {
            return Err(Stop::Plan(
                "https:// needs exactly one of tls.ca, tls.ca_file (--ca FILE) and tls.insecure (--insecure)"
                    .into(),
            ));
        }
    };
    let bad = |error: String| Stop::Plan(format!("tls.ca holds no certificate that can vouch: {error}"));
    let (mut roots, mut known) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| bad(error.to_string()))?;
        known.push(certificate);
    }
    let others = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    let others = others.map_err(|error| bad(error.to_string()))?;
    Ok(Verifier::shared(Believed::Known { known, others }, provider))
}

/// Who is believed to be the server.
#[derive(Debug)]
enum Believed {
    /// Whoever shows a certificate.
    Anybody,
    /// Certificates of the plan, and whom they vouch for.
    ///
    /// The server's own certificate, where it is among them, is believed as it is: its signature of itself would prove
    /// nothing, and to verify it costs the engine tens of microseconds in each handshake.
    Known { known: Vec<CertificateDer<'static>>, others: Arc<WebPkiServerVerifier> },
}

/// Looks at what a server shows. Whether it has its certificate's key is looked at in any case.
#[derive(Debug)]
struct Verifier {
    believed: Believed,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn shared(believed: Believed, provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { believed, algorithms: provider.signature_verification_algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.believed {
            Believed::Anybody => Ok(ServerCertVerified::assertion()),
            Believed::Known { known, .. } if known.contains(shown) => {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Believed::Known { others, .. } => others.verify_server_cert(shown, chain, name, stapled, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The TLS of one connection.
pub struct Session {
    connection: ClientConnection,
    /// The server has said that nothing follows.
    closed: bool,
}

impl Session {
    /// Its first words are ready to be sent; None only where the library refuses its own configuration.
    pub fn begin(terms: &Terms) -> Option<Session> {
        let connection = ClientConnection::new(Arc::clone(&terms.config), terms.name.clone()).ok()?;
        Some(Session { connection, closed: false })
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the server took a ticket of an earlier connection for its certificate.
    pub fn was_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub fn speaks_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(b"h2")
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// Reads once from the socket, through `cipher`; what it holds is added to `plain`. The count is the socket's.
    pub fn read(&mut self, socket: &OwnedFd, cipher: &mut [u8], plain: &mut Vec<u8>) -> Moved {
        if self.closed {
            return Moved::End;
        }
        let count = match system::read(socket, cipher) {
            Moved::Bytes(count) => count,
            // RFC 8446 section 6.1: an end that was not announced may be somebody else's.
            Moved::End => return Moved::Cut,
            other => return other,
        };
        let mut left = &cipher[..count];
        while !left.is_empty() && !self.closed {
            let taken = self.connection.read_tls(&mut left);
            let Ok(state) = self.connection.process_new_packets() else {
                // The alert says to the server what was wrong.
                let _ = self.flush(socket);
                return Moved::Bad;
            };
            let mut reader = self.connection.reader();
            while let Ok(part) = reader.fill_buf()
                && !part.is_empty()
            {
                plain.extend_from_slice(part);
                let length = part.len();
                reader.consume(length);
            }
            self.closed = state.peer_has_closed();
            if !matches!(taken, Ok(1..)) {
                break;
            }
        }
        // What the library has to say by itself, such as a change of keys.
        let _ = self.flush(socket);
        Moved::Bytes(count)
    }

    /// Takes bytes to be sent, as many as there is room for. What is encrypted and finds no room in the socket is kept.
    pub fn write(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Moved {
        match self.flush(socket) {
            Moved::Bytes(_) => {}
            other => return other,
        }
        let Ok(count) = self.connection.writer().write(bytes) else { return Moved::Reset };
        match self.flush(socket) {
            Moved::Bytes(_) | Moved::Later => Moved::Bytes(count),
            other => other,
        }
    }

    /// Sends what is encrypted: Bytes when nothing of it is left, Later when the socket is full.
    pub fn flush(&mut self, socket: &OwnedFd) -> Moved {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Moved::Later,
                Err(_) => return Moved::Reset,
            }
        }
        Moved::Bytes(0)
    }

    /// Says that nothing follows, where the server has not said so before; whether it hears that is its own affair.
    pub fn close(&mut self, socket: &OwnedFd) {
        if !self.closed && !self.is_handshaking() {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }
}

/// A socket as the library wants to write to it.
struct Socket<'a>(&'a OwnedFd);

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match system::write(self.0, bytes) {
            Moved::Bytes(count) => Ok(count),
            Moved::Later => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("closed", &self.closed).finish_non_exhaustive()
    }
}
