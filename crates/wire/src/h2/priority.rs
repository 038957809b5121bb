//! What a client says about the order in which it wants replies (RFC 9218).
//!
//! Knows: the signal, in a `priority` field or a PRIORITY_UPDATE. Does not know: who is served when.

/// How urgent a reply is. What is not said, or not understood, is as the RFC begins (§4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0, the most urgent, to 7.
    pub urgency: u8,
    /// Parts of it are of use: it may share the way with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Of a client that says nothing of it: its replies share the way, for they may be those of many people behind a proxy.
    pub const UNSAID: Self = Self { urgency: 3, incremental: true };

    /// Reads `u=2, i`: a dictionary of RFC 8941, of which two keys are known; of a key that is there twice the last
    /// counts. A member that cannot be read is passed over: nothing here is worth an error (§4).
    pub fn read(value: &[u8]) -> Self {
        let mut found = Self::default();
        for member in value.split(|&byte| byte == b',').map(crate::bytes::trim_ows) {
            // Parameters of a member mean nothing here.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => found.urgency = digit - b'0',
                b"i" | b"i=?1" => found.incremental = true,
                b"i=?0" => found.incremental = false,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_and_what_is_not() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,\tu=5", 5, true),
            ("i;x=1, u=5;y", 5, true),
            ("i=?1, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, i", 3, true),
            ("u=2.5, U=1, incremental", 3, false),
        ] {
            assert_eq!(Priority::read(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        }
    }
}
