//! Room for what rustls writes: records and messages behind those that wait to be sent.
//!
//! Knows: how large they get. Does not know: whose they are (`session.rs`). Pure.

use rustls::Error;
use rustls::unbuffered::{EncodeError, EncodeTlsData, EncryptError};

/// As much plaintext as one record has.
pub const RECORD: usize = 16 * 1024;
/// An alert that rustls sends where no certificate is found, in a record of its own that is not sealed yet: access_denied.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
/// What RFC 6066 §3 has for a name that is not known here: unrecognized_name.
const UNRECOGNIZED_NAME: u8 = 112;
/// What sealing adds to a record: its head, a nonce in TLS 1.2, the type in 1.3, the tag.
pub const SEAL: usize = 5 + 8 + 1 + 16;

/// How much room so much plaintext needs when it is sealed.
pub fn sealed_size(plain: usize) -> usize {
    plain + plain.div_ceil(RECORD).max(1) * SEAL
}

/// Appends what `write` makes in as much room as it is first thought to need, or then says.
pub fn append(
    out: &mut Vec<u8>,
    size: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), Error> {
    let start = out.len();
    out.resize(start + size, 0);
    let mut written = write(&mut out[start..]);
    if let Err(EncryptError::InsufficientSize(needed)) = &written {
        out.resize(start + needed.required_size, 0);
        written = write(&mut out[start..]);
    }
    out.truncate(start + *written.as_ref().unwrap_or(&0));
    written.map(|_| ()).map_err(|error| Error::General(error.to_string()))
}

/// Appends a message that rustls has ready.
pub fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        out.resize(start + needed.required_size, 0);
        data.encode(&mut out[start..]).map_err(|error| Error::General(error.to_string()))?;
    }
    Ok(())
}

/// Where the last message is that there is no certificate, says that it is the name for which there is none.
pub fn blame_the_name(sealed: &mut [u8]) {
    if sealed.ends_with(&ACCESS_DENIED)
        && let Some(code) = sealed.last_mut()
    {
        *code = UNRECOGNIZED_NAME;
    }
}
