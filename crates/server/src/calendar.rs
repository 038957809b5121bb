//! Moments as log lines have them, from seconds since 1970 in UTC.
//!
//! Knows: how logs write a moment. Pure; any thread.

use wire::{MONTHS, civil};

/// `2026-11-21` and `04:12:33`.
pub fn iso(seconds: u64) -> (String, String) {
    let (year, month, day) = civil(seconds / 86_400);
    let s = seconds % 86_400;
    (format!("{year:04}-{month:02}-{day:02}"), format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60))
}

/// `21/Nov/2026:04:12:33 +0000`, as the common log format has it.
pub fn common(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let name = MONTHS[month as usize - 1];
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
