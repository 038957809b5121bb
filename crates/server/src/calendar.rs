//! Days and months from seconds since 1970, in UTC, for log lines.
//!
//! Knows: the Gregorian calendar. Pure; any thread.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month (1..=12) and day (1..=31) of so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last of its year; 400 years
    // have 146,097 days, and 1970-01-01 is day 719,468 of that count.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// `2026-11-21` and `04:12:33`.
pub fn iso(seconds: u64) -> (String, String) {
    let (year, month, day) = date(seconds / 86_400);
    let s = seconds % 86_400;
    (format!("{year:04}-{month:02}-{day:02}"), format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60))
}

/// `21/Nov/2026:04:12:33 +0000`, as the common log format has it.
pub fn common(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    // A month is 1..=12 by construction.
    let name = MONTHS[(month as usize + 11) % 12];
    let (_, time) = iso(seconds);
    format!("{day:02}/{name}/{year:04}:{time} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_are_known_come_out_right() {
        assert_eq!(iso(0), ("1970-01-01".into(), "00:00:00".into()));
        assert_eq!(iso(951_782_400).0, "2000-02-29");
        assert_eq!(iso(951_868_800).0, "2000-03-01");
        assert_eq!(iso(4_107_542_400).0, "2100-03-01");
        assert_eq!(common(1_795_234_353), "21/Nov/2026:04:12:33 +0000");
    }
}
