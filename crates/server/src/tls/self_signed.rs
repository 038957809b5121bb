//! A certificate that vouches for itself, for development (`--tls-self-signed`).
//!
//! Knows: what browsers want of a certificate. Does not know: who will trust it.

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{
    CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use wire::civil;

/// Browsers take a certificate of an own authority for no longer than this (825 days); it is for a project's weeks.
const DAYS: u64 = 365;

/// A certificate and its key, in DER.
pub struct SelfSigned {
    pub certificate: Vec<u8>,
    /// PKCS#8.
    pub key: Vec<u8>,
    /// SHA-256 of the certificate, as browsers show it.
    pub fingerprint: String,
}

/// Makes one for these names and addresses, with a P-256 key. `now`: seconds since 1970.
///
/// # Errors
/// rcgen's, where a name is none.
pub fn self_signed(names: &[String], now: u64) -> Result<SelfSigned, Error> {
    let mut params = CertificateParams::new(names)?;
    let day = |days: u64| {
        let (year, month, day) = civil(days);
        date_time_ymd(year as i32, month as u8, day as u8)
    };
    // A day earlier, for clocks that are behind.
    params.not_before = day((now / 86_400).saturating_sub(1));
    params.not_after = day(now / 86_400 + DAYS);
    params.distinguished_name.push(DnType::CommonName, "Forehand, for development");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().to_vec();
    let sum = digest(&SHA256, &certificate);
    let fingerprint = sum.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
    Ok(SelfSigned { certificate, key: key.serialize_der(), fingerprint })
}
