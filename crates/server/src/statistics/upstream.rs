//! How long a request was on its way before it came here, as a proxy's X-Request-Start tells.
//!
//! Knows: the forms that this header has: seconds, milliseconds or microseconds since 1970, `t=` before them or not.
//! Does not know: whether the clocks of two machines agree; what cannot be is left out and counted.

/// More than this is no wait but another clock: microseconds.
const LONGEST_US: u64 = 3600 * 1_000_000;
/// Clocks of two machines may differ by so much: what seems to come from the future took no time.
const SKEW_US: u64 = 1000;

/// Microseconds from a proxy's stamp to `now`, which are microseconds since 1970; none where that cannot be.
pub fn waited(said: &[u8], now: u64) -> Option<u64> {
    let then = micros(said)?;
    if then > now {
        return (then - now <= SKEW_US).then_some(0);
    }
    let waited = now - then;
    (waited <= LONGEST_US).then_some(waited)
}

/// `t=1763800000.123`, `1763800000123` and `1763800000123000` are the same moment: which unit it is shows in how large
/// the number is.
fn micros(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let number: f64 = text.strip_prefix("t=").unwrap_or(text).parse().ok()?;
    let scale = match number {
        1e8..1e11 => 1e6,
        1e11..1e14 => 1e3,
        1e14..1e17 => 1.0,
        _ => return None,
    };
    Some((number * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_shows_in_the_number() {
        for form in
            ["t=1763800000.123", "1763800000.123", "t=1763800000123", "1763800000123000", " 1763800000123 "]
        {
            let found = micros(form.as_bytes()).expect("a time");
            assert!(found.abs_diff(1_763_800_000_123_000) <= 1, "{form}: {found}");
        }
        for form in ["", "t=", "soon", "12", "t=-5", "1e300", "NaN"] {
            assert_eq!(micros(form.as_bytes()), None, "{form}");
        }
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let now = 1_763_800_000_000_000;
        let at = |us: u64| waited(us.to_string().as_bytes(), now);
        assert_eq!(at(now - 2500), Some(2500));
        assert_eq!(at(now + SKEW_US), Some(0), "two clocks");
        assert_eq!(at(now + SKEW_US + 1), None);
        assert_eq!(at(now - LONGEST_US), Some(LONGEST_US));
        assert_eq!(at(now - LONGEST_US - 1), None);
    }
}
