//! Which coding of a file a client is sent: Accept-Encoding (RFC 9110 §12.5.3), with its weights.
//!
//! Knows: the codings in which a file may lie beside itself. Does not know: files, or Vary, which every reply of a path
//! that has such files needs, whatever was chosen. Pure.

use crate::block::Block;
use crate::bytes::trim_ows;

/// A coding of content, the best first where a client likes several equally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    Brotli,
    Zstd,
    Gzip,
    Identity,
}

impl Encoding {
    /// All, in the order of preference.
    pub const ALL: [Self; 4] = [Self::Brotli, Self::Zstd, Self::Gzip, Self::Identity];

    /// As Content-Encoding names it; none for identity, of which nothing is said.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Zstd => Some("zstd"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }

    /// What the name of the file beside the file ends in; empty for identity.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }
}

/// A set of codings. Identity is always in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encodings(u8);

impl Encodings {
    /// Identity alone.
    pub const NONE: Self = Self(0);

    /// The set with one more.
    #[must_use]
    pub fn with(self, encoding: Encoding) -> Self {
        Self(self.0 | 1 << encoding as u8)
    }

    pub fn has(self, encoding: Encoding) -> bool {
        encoding == Encoding::Identity || self.0 & 1 << encoding as u8 != 0
    }

    /// There is something to choose.
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// The coding that a request with this block is best sent. Several lines are one list.
pub fn of(block: &Block, available: Encodings) -> Encoding {
    if !available.any() {
        return Encoding::Identity;
    }
    let lines = block.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"accept-encoding"));
    choose(lines.map(|(_, value)| value), available)
}

/// The best of those that are available: what the client gives the highest weight, and of equals the first of
/// [`Encoding::ALL`]. Without any line that is identity: who does not speak of codings may not know them.
///
/// Identity that is not mentioned is acceptable and liked least. It is also what is sent where nothing that is available
/// is acceptable: RFC 9110 §12.1 lets a server disregard the field, and a file that arrives helps more than a 406.
pub fn choose<'a>(lines: impl IntoIterator<Item = &'a [u8]>, available: Encodings) -> Encoding {
    let mut wishes = Wishes::default();
    for line in lines {
        for member in line.split(|&byte| byte == b',') {
            wishes.note(member);
        }
    }
    let mut best = (Encoding::Identity, 0);
    for encoding in Encoding::ALL {
        let weight = wishes.weight(encoding);
        if available.has(encoding) && weight > best.1 {
            best = (encoding, weight);
        }
    }
    best.0
}

/// Weights in thousandths. The first of two for the same coding counts.
#[derive(Debug, Default)]
struct Wishes {
    named: [Option<u16>; 4],
    others: Option<u16>,
}

impl Wishes {
    /// One member, `coding [OWS ";" OWS "q=" weight]`. What is malformed is passed over: it asks for nothing.
    fn note(&mut self, member: &[u8]) {
        let mut parts = member.splitn(2, |&byte| byte == b';').map(trim_ows);
        let (Some(coding), weight) = (parts.next(), parts.next()) else { return };
        let Some(weight) = weight.map_or(Some(1000), thousandths) else { return };
        let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        let place = if coding == b"*" {
            &mut self.others
        } else if is("br") {
            &mut self.named[Encoding::Brotli as usize]
        } else if is("zstd") {
            &mut self.named[Encoding::Zstd as usize]
        } else if is("gzip") || is("x-gzip") {
            // Two names of one coding (RFC 9110 §8.4.1.3).
            &mut self.named[Encoding::Gzip as usize]
        } else if is("identity") {
            &mut self.named[Encoding::Identity as usize]
        } else {
            return;
        };
        place.get_or_insert(weight);
    }

    /// 0 for what must not be sent; a thousandth of the least weight for identity that nobody has mentioned.
    fn weight(&self, encoding: Encoding) -> u32 {
        let said = self.named[encoding as usize].or(self.others).map(|weight| u32::from(weight) * 1000);
        said.unwrap_or(u32::from(encoding == Encoding::Identity))
    }
}

/// `q=0.5` into 500: at most three digits behind the dot, at most 1 (RFC 9110 §12.4.2).
fn thousandths(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), rest @ ..] = parameter else { return None };
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = *digits.get(place).unwrap_or(&b'0');
        weight = weight * 10 + char::from(digit).to_digit(10)? as u16;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::*;

    fn all() -> Encodings {
        Encodings::NONE.with(Brotli).with(Zstd).with(Gzip)
    }

    #[test]
    fn the_heaviest_is_chosen_and_of_equals_the_smallest() {
        for (accept, chosen) in [
            ("gzip, deflate, br, zstd", Brotli),
            ("gzip, deflate", Gzip),
            ("gzip, zstd", Zstd),
            ("gzip;q=1.0, br;q=0.5", Gzip),
            ("GZip;Q=0.7, BR;q=0.699", Gzip),
            ("br;q=0.001", Brotli),
            ("br;q=0.001, identity;q=0.5", Identity),
            ("identity, gzip", Gzip),
            ("gzip;q=0.5, identity", Identity),
            ("identity", Identity),
            ("deflate, compress", Identity),
            ("x-gzip", Gzip),
            ("*", Brotli),
            ("*;q=0.5, gzip", Gzip),
            ("gzip;q=0.5, *;q=1, br;q=0, zstd;q=0", Identity),
            ("br;q=0, *", Zstd),
            ("gzip;q=0", Identity),
            ("gzip;q=0.000", Identity),
            ("*;q=0", Identity),
            ("identity;q=0", Identity),
            ("identity;q=0, *;q=0.1", Brotli),
            ("*;q=0, gzip;q=0.2", Gzip),
            ("", Identity),
            (" , ,", Identity),
            (",gzip\t;\tq=1.000,", Gzip),
            // The first of two for the same coding.
            ("gzip;q=0, gzip", Identity),
        ] {
            assert_eq!(choose([accept.as_bytes()], all()), chosen, "{accept}");
        }
    }

    #[test]
    fn what_is_malformed_asks_for_nothing() {
        for accept in [
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.0001",
            "gzip;q=-1",
            "gzip;q",
            "gzip;x=1",
            "gzip;q=1;a=b",
            "gzip;q=.5",
            "gzip q=1",
            "gzipp",
            "\"gzip\"",
        ] {
            assert_eq!(choose([accept.as_bytes()], all()), Identity, "{accept}");
            let and_br = format!("{accept}, br;q=0.1");
            assert_eq!(choose([and_br.as_bytes()], all()), Brotli, "{and_br}");
        }
    }

    #[test]
    fn only_what_is_available_is_chosen() {
        let gzip = Encodings::NONE.with(Gzip);
        assert_eq!(choose([&b"br, gzip;q=0.1"[..]], gzip), Gzip);
        assert_eq!(choose([&b"br"[..]], gzip), Identity);
        assert_eq!(choose([&b"identity;q=0, gzip;q=0.1"[..]], gzip), Gzip);
        assert_eq!(choose([&b"identity;q=0, gzip"[..]], Encodings::NONE), Identity);
        assert!(gzip.has(Identity) && gzip.any() && !gzip.has(Brotli) && !Encodings::NONE.any());
    }

    #[test]
    fn several_lines_are_one_list_and_none_is_no_wish() {
        assert_eq!(choose([&b"gzip;q=0.5"[..], b"br;q=0.4"], all()), Gzip);
        assert_eq!(choose([], all()), Identity);
    }
}
