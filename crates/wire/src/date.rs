//! The Date line (RFC 9110 §6.6.1), and the calendar behind it.
//!
//! Knows: the Gregorian calendar. Does not know: clocks.

/// As RFC 9110 §5.6.7 and the common log format have them.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Date: Sat, 21 Nov 2026 00:00:00 GMT` with its line ending (RFC 9110 §5.6.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateLine([u8; 37]);

impl DateLine {
    /// The line for so many seconds after 1970-01-01, UTC.
    pub fn at(seconds: u64) -> Self {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        let days = seconds / 86_400;
        let (year, month, day) = civil(days);
        let line = format!(
            "Date: {}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT\r\n",
            DAYS[(days % 7) as usize],
            MONTHS[month as usize - 1],
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60,
        );
        let mut bytes = [b' '; 37];
        // Years beyond 9999 would be longer; the line is then cut, which nobody will read.
        let length = line.len().min(37);
        bytes[..length].copy_from_slice(&line.as_bytes()[..length]);
        Self(bytes)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The date alone, as other fields have it (Last-Modified).
    pub fn date(&self) -> &[u8] {
        &self.0[6..35]
    }
}

/// Year, month (1..=12), day (1..=31) of so many days after 1970-01-01 in the Gregorian calendar.
pub fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from a March, so that the leap day ends its year; 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_are_known_come_out_right() {
        for (seconds, text) in [
            (0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            (784_111_777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (951_782_400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"),
            (1_795_234_353, "Date: Sat, 21 Nov 2026 04:12:33 GMT\r\n"),
        ] {
            assert_eq!(DateLine::at(seconds).bytes(), text.as_bytes());
            assert_eq!(DateLine::at(seconds).date(), &text.as_bytes()[6..text.len() - 2]);
        }
    }
}
