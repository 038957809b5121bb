//! What tells one state of a file from another: entity tag and Last-Modified (RFC 9110 §8.8), made from what the file
//! system knows, so that all hosts that were given the same files say the same.
//!
//! Knows: times, sizes, codings. Does not know: files, clocks. Pure.

use crate::encodings::Encoding;

/// The validators of one representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// As it is sent: `"5f3a-1c"`, or `W/"…"` for a weak one. A weak one says that the date is weak, too (§8.8.2.2).
    pub etag: &'a [u8],
    /// What Last-Modified says, in seconds since 1970. None: there is no such line.
    pub modified: Option<u64>,
}

/// 1981-01-01. What is said to be older has had its time set by a tool that makes all times the same (Nix, zip files,
/// builds that can be repeated): two releases of it would not differ.
pub const BELIEVED_FROM: i64 = 347_155_200;

/// A file that changed so few seconds ago may change again within the same second.
pub const WEAK_SECONDS: i64 = 2;

/// Which state of a file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Changed at this second after 1970.
    Time(u64),
    /// Its content, as [`ContentHash`] has it, where the time cannot be believed.
    Content(u64),
}

impl Stamp {
    /// From the file's time. None: that cannot be believed, and its content is to be hashed.
    pub fn of_time(modified: i64) -> Option<Self> {
        if modified < BELIEVED_FROM { None } else { u64::try_from(modified).ok().map(Self::Time) }
    }

    /// The entity tag of a representation of `size` bytes. `now`, in seconds since 1970, makes it weak where the file
    /// may change again without its time showing it, or has a time that is still to come.
    pub fn etag(self, size: u64, encoding: Encoding, now: u64) -> String {
        let coding = match encoding {
            Encoding::Identity => "",
            Encoding::Brotli => "-br",
            Encoding::Zstd => "-zst",
            Encoding::Gzip => "-gz",
        };
        match self {
            Self::Time(at) if at.saturating_add(WEAK_SECONDS as u64) > now => {
                format!("W/\"{at:x}-{size:x}{coding}\"")
            }
            Self::Time(at) => format!("\"{at:x}-{size:x}{coding}\""),
            Self::Content(hash) => format!("\"{hash:016x}-{size:x}{coding}\""),
        }
    }

    /// What Last-Modified says. None: there shall be no such line, as for a time that is still to come (§8.8.2.1).
    pub fn last_modified(self, now: u64) -> Option<u64> {
        match self {
            Self::Time(at) if at <= now => Some(at),
            _ => None,
        }
    }
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo 1991): tells releases apart, and keeps no secret.
#[derive(Debug, Clone)]
pub struct ContentHash(u64);

impl Default for ContentHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl ContentHash {
    /// The next bytes of the content.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn stamp(&self) -> Stamp {
        Stamp::Content(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_305_600;

    #[test]
    fn a_tag_says_when_how_much_and_how_coded() {
        let stamp = Stamp::of_time(0x6000_0000).expect("a time to believe");
        for (encoding, tag) in [
            (Encoding::Identity, "\"60000000-1c\""),
            (Encoding::Brotli, "\"60000000-1c-br\""),
            (Encoding::Zstd, "\"60000000-1c-zst\""),
            (Encoding::Gzip, "\"60000000-1c-gz\""),
        ] {
            assert_eq!(stamp.etag(28, encoding, NOW), tag);
        }
        assert_eq!(stamp.last_modified(NOW), Some(0x6000_0000));
    }

    #[test]
    fn what_may_change_again_within_its_second_has_a_weak_tag() {
        for (age, is_weak, has_date) in [
            (3, false, true),
            (2, false, true),
            (1, true, true),
            (0, true, true),
            (-1, true, false),
            (-1000, true, false),
        ] {
            let stamp = Stamp::of_time(NOW as i64 - age).expect("a time to believe");
            assert_eq!(stamp.etag(1, Encoding::Identity, NOW).starts_with("W/\""), is_weak, "{age}");
            assert_eq!(stamp.last_modified(NOW).is_some(), has_date, "{age}");
        }
    }

    #[test]
    fn times_before_1981_are_not_believed_and_content_takes_their_place() {
        for (modified, believed) in [
            (i64::MIN, false),
            (-1, false),
            (0, false),
            (1, false),
            (BELIEVED_FROM - 1, false),
            (BELIEVED_FROM, true),
        ] {
            assert_eq!(Stamp::of_time(modified).is_some(), believed, "{modified}");
        }
        let stamp = |pieces: &[&[u8]]| {
            let mut hash = ContentHash::default();
            pieces.iter().for_each(|piece| hash.update(piece));
            hash.stamp()
        };
        // The vectors of the hash's authors.
        assert_eq!(stamp(&[]), Stamp::Content(0xcbf2_9ce4_8422_2325));
        assert_eq!(stamp(&[b"foobar"]), Stamp::Content(0x8594_4171_f739_67e8));
        assert_eq!(stamp(&[b"foo", b"", b"bar"]), stamp(&[b"foobar"]));
        assert_eq!(stamp(&[b"foobar"]).etag(6, Encoding::Gzip, NOW), "\"85944171f73967e8-6-gz\"");
        assert_eq!(stamp(&[b"foobar"]).last_modified(NOW), None);
    }
}
