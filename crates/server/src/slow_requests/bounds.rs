//! From when on a request takes long: what is said of all of them, and of those below some paths.
//!
//! Knows: times, and beginnings of paths. Does not know: how long a request has taken.

use wire::Millis;

use crate::lanes::{Below, said_of};

/// What no request ever takes, in nanoseconds.
pub const NEVER: u64 = u64::MAX;

/// From when on requests are slow.
#[derive(Debug, Clone)]
pub struct SlowAfter {
    /// Milliseconds; zero: none is.
    usual: Millis,
    /// By the beginning of a path; the first that fits decides.
    by_path: Vec<Below<Millis>>,
    /// What none takes for less, in nanoseconds.
    least: u64,
}

impl SlowAfter {
    /// The same for all. Zero: none is slow.
    pub fn all(usual: Millis) -> Self {
        Self::new(usual, Vec::new())
    }

    pub fn new(usual: Millis, by_path: Vec<Below<Millis>>) -> Self {
        let times = by_path.iter().map(|(_, time)| *time).chain([usual]);
        let least = times.map(nanoseconds).min().unwrap_or(NEVER);
        Self { usual, by_path, least }
    }

    /// Whoever takes less is not slow, whatever its path is, in nanoseconds; [`NEVER`]: none is.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// From so many nanoseconds on a request for that path is slow.
    pub fn of(&self, path: &[u8]) -> u64 {
        nanoseconds(said_of(&self.by_path, path).unwrap_or(self.usual))
    }

    /// The same by `GET /path`.
    pub fn of_line(&self, line: &str) -> u64 {
        let (_, path) = line.split_once(' ').unwrap_or_default();
        self.of(path.as_bytes())
    }
}

fn nanoseconds(ms: Millis) -> u64 {
    if ms == 0 { NEVER } else { ms.saturating_mul(1_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_path_goes_before_what_is_said_of_all() {
        let by_path =
            vec![(b"/export/tiny".to_vec(), 200), (b"/export".to_vec(), 60_000), (b"/events".to_vec(), 0)];
        let slow = SlowAfter::new(5000, by_path.clone());
        assert_eq!(slow.of_line("GET /export/tiny"), 200_000_000);
        assert_eq!(slow.of_line("GET /%65xport/all"), 60_000_000_000, "as the application sees it");
        assert_eq!(slow.of_line("GET /events"), NEVER);
        assert_eq!((slow.of_line("GET /"), slow.of_line("")), (5_000_000_000, 5_000_000_000));
        assert_eq!(slow.least(), 200_000_000);
        assert_eq!(SlowAfter::new(0, by_path).least(), 200_000_000, "none but those");
        assert_eq!((SlowAfter::all(0).least(), SlowAfter::all(7).least()), (NEVER, 7_000_000));
    }
}
