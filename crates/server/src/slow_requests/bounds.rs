//! From when on a request takes long: what is said of all of them, and of those below some paths.
//!
//! Knows: times, and beginnings of paths. Does not know: how long a request has taken.

use wire::{Head, Millis};

use crate::lanes::{Below, said_of};
use crate::mounted::{Asked, Mounted};

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
    mounted: Mounted,
}

impl SlowAfter {
    /// The same for all. Zero: none is slow.
    pub fn all(usual: Millis) -> Self {
        Self::new(usual, Vec::new())
    }

    pub fn new(usual: Millis, by_path: Vec<Below<Millis>>) -> Self {
        let times = by_path.iter().map(|(_, time)| *time).chain([usual]);
        let least = times.map(nanoseconds).min().unwrap_or(NEVER);
        Self { usual, by_path, least, mounted: Mounted::default() }
    }

    /// The same for an application that is mounted there.
    pub fn of_mounted(self, mounted: Mounted) -> Self {
        Self { mounted, ..self }
    }

    /// Whoever takes less is not slow, whatever its path is, in nanoseconds; [`NEVER`]: none is.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// From so many nanoseconds on a request for that path is slow.
    pub fn of<'a>(&self, path: impl Into<Asked<'a>>) -> u64 {
        nanoseconds(said_of(&self.by_path, path).unwrap_or(self.usual))
    }

    /// The same by the head of a request.
    pub fn of_head(&self, head: &Head) -> u64 {
        self.of(Asked::Of(head, None, &self.mounted))
    }

    /// The same by `GET /path`.
    pub fn of_line(&self, line: &str) -> u64 {
        let (_, path) = line.split_once(' ').unwrap_or_default();
        self.of(Asked::Below(path.as_bytes(), &self.mounted))
    }
}

fn nanoseconds(ms: Millis) -> u64 {
    if ms == 0 { NEVER } else { ms.saturating_mul(1_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_application_is_mounted_is_no_part_of_its_paths() {
        let slow = SlowAfter::new(5000, vec![(b"/export".to_vec(), 200)]);
        let slow = slow.of_mounted(Mounted::new(b"/shop".to_vec(), wire::Trust::none()));
        let of = ["/shop/export", "/export", "/shop", "/shop/shop/export"]
            .map(|path| slow.of_line(&format!("GET {path}")));
        assert_eq!(of.map(|time| time == 200_000_000), [true, true, false, false]);
    }

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
