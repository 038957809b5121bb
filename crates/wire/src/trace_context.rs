//! `traceparent`: which trace a request belongs to, and `tracestate`: what others say of it (W3C Trace Context, level 1, §3.2 and
//! §3.3).
//!
//! Knows: the header's grammar. Does not know: who is believed, or who samples. Pure.

use crate::block::Block;
use crate::field_text::members;
use crate::hex::{hex, put_digits};

/// Letters of a header of version 00.
const LENGTH: usize = 55;

/// What a traceparent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Never zero, as is the next.
    pub trace: u128,
    /// The span of whoever has sent the request.
    pub parent: u64,
    /// The sender has recorded it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a value. None: it is no traceparent, and the request begins a trace of its own (§3.2.2.3: a version that
    /// is not known is read as far as this one goes).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(LENGTH)?;
        let version = u8::try_from(number(&head[..2])?).ok()?;
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !fits || [head[2], head[35], head[52]] != [b'-'; 3] {
            return None;
        }
        let trace = number(&head[3..35])?;
        let parent = u64::try_from(number(&head[36..52])?).ok()?;
        let flags = number(&head[53..])?;
        (trace != 0 && parent != 0).then_some(Self { trace, parent, sampled: flags & 1 == 1 })
    }

    /// What a header section says. Two headers contradict each other, and count for none.
    pub fn of(block: &Block) -> Option<Self> {
        let mut given = block.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"traceparent"));
        let (_, value) = given.next()?;
        if given.next().is_some() { None } else { Self::parse(value) }
    }
}

impl TraceParent {
    /// The value of a header of version 00.
    #[inline]
    pub fn text(&self) -> [u8; LENGTH] {
        let mut text = *b"00-................................-................-00";
        put_digits(&mut text, 3, hex((self.trace >> 64) as u64));
        put_digits(&mut text, 19, hex(self.trace as u64));
        put_digits(&mut text, 36, hex(self.parent));
        text[LENGTH - 1] = b'0' + u8::from(self.sampled);
        text
    }
}

/// More members than that nobody need pass on (§3.3.1.1).
const MEMBERS: usize = 32;

/// What all `tracestate` headers say together, as far as whole members fit into so many bytes: the newest come first. A member
/// that is too long by itself is left out (§3.3.1.5). What a member means, and whether it is one, is for whoever reads it.
pub fn trace_state(block: &Block, most: usize) -> Vec<u8> {
    let given = block.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"tracestate"));
    let mut state = Vec::new();
    for member in given.flat_map(|(_, value)| members(value)).take(MEMBERS) {
        let comma = usize::from(!state.is_empty());
        if state.len() + comma + member.len() > most {
            continue;
        }
        if comma > 0 {
            state.push(b',');
        }
        state.extend_from_slice(member);
    }
    state
}

/// Digits and small letters only (§3.2.2.3 has no others).
fn number(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0_u128, |sum, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written_again() {
        let found = TraceParent::parse(GOOD.as_bytes()).expect("good");
        assert_eq!(found.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((found.parent, found.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(found.text(), GOOD.as_bytes());
        let small = TraceParent { trace: 1, parent: 2, sampled: false };
        assert_eq!(TraceParent::parse(&small.text()), Some(small));
    }

    #[test]
    fn later_versions_are_read_as_far_as_this_one_goes() {
        for (text, sampled) in [
            (GOOD.replace("00-", "cc-"), true),
            (GOOD.replace("00-", "01-") + "-what-comes-later", true),
            (GOOD.replace("-01", "-fe"), false),
            (GOOD.replace("-01", "-ff"), true),
        ] {
            let found = TraceParent::parse(text.as_bytes());
            assert_eq!(found.map(|found| found.sampled), Some(sampled), "{text}");
        }
    }

    #[test]
    fn as_many_members_of_a_state_are_kept_as_fit_and_no_part_of_one() {
        let state = |lines: &[String], most| {
            let raw: String = lines.iter().map(|line| format!("TraceState: {line}\r\n")).collect();
            let block = crate::fields::parse(format!("{raw}\r\n").as_bytes(), 0, &Policy::default());
            String::from_utf8(trace_state(&block.expect("good fields"), most)).expect("text")
        };
        let lines = ["shop=1, b=2".to_owned(), " , ".to_owned(), "c=3".to_owned()];
        for (most, kept) in [
            (14, "shop=1,b=2,c=3"),
            (13, "shop=1,b=2"),
            (10, "shop=1,b=2"),
            (9, "shop=1"),
            (6, "shop=1"),
            (5, "b=2"),
            (2, ""),
        ] {
            assert_eq!(state(&lines, most), kept, "{most}");
        }
        for (given, kept) in [(31, 31), (32, 32), (33, 32)] {
            let many: Vec<String> = (0..given).map(|at| format!("m{at}=x")).collect();
            assert_eq!(state(&[many.join(",")], 512).split(',').count(), kept);
            assert_eq!(state(&many, 512).split(',').count(), kept, "each in a line of its own");
        }
        assert_eq!(state(&[], 512), "");
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let wrong = [
            String::new(),
            GOOD.to_uppercase(),
            GOOD.replace("00-", "ff-"),
            GOOD.replace("00-", "0g-"),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            GOOD.replace("00-", "01-") + "x",
            GOOD[..LENGTH - 1].to_owned(),
        ];
        for text in wrong {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }
}
