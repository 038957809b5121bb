//! A certificate for a laboratory: of its own making, for servers that are to be measured with TLS. Writes two files, and nothing else.

use crate::plan::Stop;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What every certificate is of.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// RFC 7468 section 2: lines of a PEM file are so long.
const LINE: usize = 64;

/// A certificate that vouches for itself, in PEM, and its key in PKCS#8: an elliptic curve (P-256), as authorities give today.
pub fn made(hosts: Vec<String>) -> Result<(String, String), rcgen::Error> {
    let mut names: Vec<String> = ALWAYS.map(String::from).to_vec();
    names.extend(hosts.into_iter().filter(|host| !ALWAYS.contains(&host.as_str())));
    let mut wanted = CertificateParams::new(names)?;
    wanted.distinguished_name.push(DnType::CommonName, "a laboratory's server");
    let key = KeyPair::generate()?;
    let certificate = wanted.self_signed(&key)?;
    Ok((pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der())))
}

/// Bytes as RFC 7468 has them in files.
pub fn pem(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines: Vec<&str> =
        (0..text.len()).step_by(LINE).map(|from| &text[from..text.len().min(from + LINE)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Writes `cert.pem` and `key.pem` into a folder that is there.
pub fn write(folder: &Path, hosts: Vec<String>) -> Result<(), Stop> {
    let (certificate, key) =
        made(hosts).map_err(|error| Stop::Plan(format!("cannot make a certificate: {error}")))?;
    let told = |error| Stop::Machine(format!("cannot write a certificate to {folder:?}: {error}"));
    fs::write(folder.join("cert.pem"), certificate).map_err(told)?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(folder.join("key.pem"));
    file.and_then(|mut file| file.write_all(key.as_bytes())).map_err(told)
}
