//! Dates that clients send, in the three forms that there have been (RFC 9110 §5.6.7).
//!
//! Knows: their grammar. Does not know: clocks; which century a year of two digits belongs to is asked of an argument. Pure.

use crate::bytes::decimal;
use crate::date::{MONTHS, civil};

/// Monday first; the short names are their first three letters.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The seconds after 1970-01-01 that a date stands for; 0 for one that is before. `now`, in the same measure, decides
/// what a year of two digits means: none that is more than 50 years ahead. None: it is no date.
///
/// The day's name has to be one, and is not compared with the date, of which it says nothing more. A leap second is the
/// second after it.
pub fn http_date(text: &[u8], now: u64) -> Option<u64> {
    let name = text.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    let (name, rest) = text.split_at(name);
    let is_long = DAYS.iter().any(|day| day.as_bytes() == name);
    let is_short = DAYS.iter().any(|day| &day.as_bytes()[..3] == name);
    match rest {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [b',', b' ', d @ .., b' ', b'G', b'M', b'T'] if is_short => {
            let [d0, d1, b' ', m @ .., b' ', h0, h1, b':', n0, n1, b':', s0, s1] = d else { return None };
            let [m0, m1, m2, b' ', year @ ..] = m else { return None };
            let day = (four(year)?, month([m0, m1, m2])?, two(*d0, *d1)?);
            seconds(day, [two(*h0, *h1)?, two(*n0, *n1)?, two(*s0, *s1)?])
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        [b',', b' ', d @ .., b' ', b'G', b'M', b'T'] if is_long => {
            let [d0, d1, b'-', m @ .., b' ', h0, h1, b':', n0, n1, b':', s0, s1] = d else { return None };
            let [m0, m1, m2, b'-', y0, y1] = m else { return None };
            let day = (whole_year(two(*y0, *y1)?, now), month([m0, m1, m2])?, two(*d0, *d1)?);
            seconds(day, [two(*h0, *h1)?, two(*n0, *n1)?, two(*s0, *s1)?])
        }
        // Sun Nov  6 08:49:37 1994
        [b' ', m0, m1, m2, b' ', d0, d1, b' ', h0, h1, b':', n0, n1, b':', s0, s1, b' ', year @ ..]
            if is_short =>
        {
            let day = if *d0 == b' ' { two(b'0', *d1)? } else { two(*d0, *d1)? };
            let day = (four(year)?, month([m0, m1, m2])?, day);
            seconds(day, [two(*h0, *h1)?, two(*n0, *n1)?, two(*s0, *s1)?])
        }
        _ => None,
    }
}

fn two(tens: u8, ones: u8) -> Option<u64> {
    decimal(&[tens, ones])
}

fn four(year: &[u8]) -> Option<u64> {
    if year.len() == 4 { decimal(year) } else { None }
}

/// 1 to 12. Dates are case-sensitive.
fn month(name: [&u8; 3]) -> Option<u64> {
    let known = MONTHS.iter().position(|month| month.bytes().eq(name.into_iter().copied()))?;
    Some(known as u64 + 1)
}

fn whole_year(last_two: u64, now: u64) -> u64 {
    let this = civil(now / 86_400).0;
    let year = this - this % 100 + last_two;
    if year > this + 50 { year - 100 } else { year }
}

/// None where the calendar or the clock has no such moment.
pub(crate) fn seconds((year, month, day): (u64, u64, u64), [hour, minute, second]: [u64; 3]) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let of_month = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=of_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if year < 1970 {
        return Some(0);
    }
    // As in `civil`, backwards: years begin in March, so that a leap day ends its year.
    let (year, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * months + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::DateLine;

    /// 2026-11-22.
    const NOW: u64 = 1_795_305_600;

    #[test]
    fn one_moment_has_three_forms() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(http_date(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Tue Feb 29 00:00:00 2000", 951_782_400),
            ("Wed, 31 Dec 1969 23:59:59 GMT", 0),
            ("Mon, 01 Jan 0000 00:00:00 GMT", 0),
            // A leap second, and a day's name that is not that day's.
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ] {
            assert_eq!(http_date(text.as_bytes(), NOW), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_said_of_a_moment_is_read_back() {
        // Some 40 hours apart, up to the year 2100: every month, leap years and the century without one.
        for step in (0..28_500_u64).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let seconds = step * 144_061;
            assert_eq!(http_date(DateLine::at(seconds).date(), NOW), Some(seconds));
        }
    }

    #[test]
    fn a_year_of_two_digits_is_never_more_than_fifty_years_ahead() {
        for (year, whole) in [("26", 2026), ("76", 2076), ("77", 1977), ("99", 1999), ("00", 2000)] {
            let short = format!("Monday, 01-Mar-{year} 00:00:00 GMT");
            let long = format!("Mon, 01 Mar {whole} 00:00:00 GMT");
            assert_eq!(http_date(short.as_bytes(), NOW), http_date(long.as_bytes(), NOW), "{year}");
        }
    }

    #[test]
    fn what_is_no_date_says_nothing() {
        for text in [
            "",
            "0",
            "Sun",
            "784111777",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Xun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sunday Nov  6 08:49:37 1994",
            "Sun Nov  6 08:49:37 94",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(http_date(text.as_bytes(), NOW), None, "{text}");
        }
    }
}
