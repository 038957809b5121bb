//! What an application is told of its client's TLS.
//!
//! Knows: versions, suites, clients' certificates in the forms in which they are told. Does not know: to whom. A client's
//! certificate is taken apart once, on the thread of handshakes; it was judged before.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ProtocolVersion};
use wire::der::Certificate;
use wire::distinguished_name::{distinguished_name, variables};
use wire::pem::pem;
use wire::{MONTHS, civil};

/// What there is to be known of every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    version: ProtocolVersion,
    cipher: CipherSuite,
    pub resumed: bool,
}

/// Suites as OpenSSL and mod_ssl call them, where that is not their registered name.
const CIPHERS: &[(CipherSuite, &str)] = &[
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
];

impl Facts {
    /// Of a connection whose handshake is complete.
    pub fn of(state: &rustls::CommonState, resumed: bool) -> Self {
        Self {
            version: state.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2),
            cipher: state
                .negotiated_cipher_suite()
                .map_or(CipherSuite::TLS_NULL_WITH_NULL_NULL, |suite| suite.suite()),
            resumed,
        }
    }

    /// As mod_ssl has it: `TLSv1.3`.
    pub fn protocol(&self) -> &'static str {
        if self.version == ProtocolVersion::TLSv1_3 { "TLSv1.3" } else { "TLSv1.2" }
    }

    /// As OpenSSL has it.
    pub fn cipher(&self) -> &'static str {
        CIPHERS.iter().find(|(suite, _)| *suite == self.cipher).map_or("", |(_, name)| name)
    }

    /// The version's number on the wire: 0x0304 for TLS 1.3.
    pub fn version_number(&self) -> u16 {
        self.version.into()
    }

    /// The suite's registered number.
    pub fn cipher_number(&self) -> u16 {
        self.cipher.into()
    }
}

/// A client's certificate, which was judged and is believed.
#[derive(Debug)]
pub struct ClientCertificate {
    /// The client's own, then what came with it, in PEM.
    pub chain: Vec<String>,
    /// Names by RFC 4514.
    pub subject: String,
    pub issuer: String,
    /// mod_ssl's variables without what all of them begin with: `S_DN_CN`, `M_SERIAL`, `V_END`.
    pub variables: Vec<(String, String)>,
}

impl ClientCertificate {
    /// Of a chain, its own first. None: there is none. `now`: seconds since 1970.
    pub fn of(chain: Option<&[CertificateDer<'_>]>, now: u64) -> Option<Box<Self>> {
        let chain = chain?;
        let read = Certificate::read(chain.first()?)?;
        let (subject, issuer) = (distinguished_name(read.subject), distinguished_name(read.issuer));
        let mut told = vec![
            ("S_DN".to_string(), subject.clone()),
            ("I_DN".to_string(), issuer.clone()),
            ("M_SERIAL".to_string(), serial(read.serial)),
            ("M_VERSION".to_string(), read.version.to_string()),
            ("V_START".to_string(), time(read.not_before)),
            ("V_END".to_string(), time(read.not_after)),
            ("V_REMAIN".to_string(), (read.not_after.saturating_sub(now) / 86_400).to_string()),
        ];
        for (kind, names) in [("DNS", &read.dns_names), ("Email", &read.emails)] {
            let numbered = names.iter().enumerate();
            told.extend(numbered.map(|(n, name)| (format!("SAN_{kind}_{n}"), (*name).to_string())));
        }
        for (whose, name) in [("S_DN", read.subject), ("I_DN", read.issuer)] {
            told.extend(variables(name).into_iter().map(|(part, value)| (format!("{whose}_{part}"), value)));
        }
        let chain = chain.iter().map(|der| pem("CERTIFICATE", der)).collect();
        Some(Box::new(Self { chain, subject, issuer, variables: told }))
    }
}

/// In hexadecimal digits, as OpenSSL writes it.
fn serial(bytes: &[u8]) -> String {
    let bytes = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// `Nov 22 09:00:00 2026 GMT`, as OpenSSL writes it.
fn time(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let s = seconds % 86_400;
    let month = MONTHS[month as usize - 1];
    format!("{month} {day:2} {:02}:{:02}:{:02} {year} GMT", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_and_times_look_as_openssl_writes_them() {
        assert_eq!(serial(&[0, 0xf1, 0x02]), "F102");
        assert_eq!((serial(&[0]), serial(&[0x7f])), ("00".into(), "7F".into()));
        assert_eq!(time(1_795_305_600), "Nov 22 00:00:00 2026 GMT");
        assert_eq!(time(1_793_581_323), "Nov  2 01:02:03 2026 GMT");
    }
}
