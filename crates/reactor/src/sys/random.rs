//! Numbers that nobody can know before: the system's randomness.
//!
//! Knows: getrandom(2). Does not know: what they are for. Any thread.

#[cfg(not(target_os = "linux"))]
use std::collections::hash_map::RandomState;
#[cfg(not(target_os = "linux"))]
use std::hash::BuildHasher;
use std::io;

/// Two numbers from the system's source, which differ in every process, those included that were forked from one another.
///
/// # Errors
/// The kernel's: a sandbox that has no such call.
pub fn random() -> io::Result<[u64; 2]> {
    #[cfg(target_os = "linux")]
    {
        let mut bytes = [0_u8; 16];
        // SAFETY: the room is as large as is said. Requests of up to 256 bytes are filled as a whole or not at all.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match super::check_size(got)? {
            Some(got) if got == bytes.len() => {
                let both = u128::from_ne_bytes(bytes);
                Ok([both as u64, (both >> 64) as u64])
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        // The standard library's, which is drawn once in a process.
        let keys = RandomState::new();
        let process = (std::process::id(), super::monotonic_ns());
        Ok([keys.hash_one((process, 0)), keys.hash_one((process, 1))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let [one, other] = [random().expect("random"), random().expect("random")];
        assert!(one[0] != one[1] && one != other && one != [0; 2]);
    }
}
