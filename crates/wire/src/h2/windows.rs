//! A window for what the peer sends: of a stream, or of the connection (RFC 9113 §5.2 and §6.9).
//!
//! Knows: how much may come, and how much of it was read. Does not know: frames. A window is given back as its reader
//! reads, never because bytes have arrived; what is dropped counts as read.
//!
//! ```text
//!   size = left (may come) + waiting (has come, nobody has read it) + owed (was read, not given back yet)
//! ```
//!
//! The connection's has the size of all of its streams' together, and a rest that need not be given back yet. So it is
//! used up by none of them, however little their readers read: what holds up a stream is its own reader alone.

use super::settings::LARGEST_WINDOW;
use crate::Millis;

/// A window whose half is read within this time is too small for its reader and the way there.
const GROWS_WITHIN: Millis = 200;
/// What was read is given back in parts of so many, so that one frame does for many. What is not given back yet cannot be
/// under way, on the stream's window and once more on the connection's: with halves a fast sender would have but one half of
/// the smaller in use.
const PARTS: u64 = 8;

#[derive(Debug)]
pub struct Window {
    size: u64,
    left: u64,
    owed: u64,
    /// So far the peer's is below zero (§6.9.2): nothing more may come before that is given back.
    debt: u64,
    /// So much was read ...
    passed: u64,
    /// ... since then.
    since: Millis,
}

impl Window {
    pub fn new(size: u64, now: Millis) -> Self {
        Self { size, left: size, owed: 0, debt: 0, passed: 0, since: now }
    }

    /// What it is when nothing waits.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Enlarges it, of which the peer is to be told.
    pub fn grow(&mut self, more: u64) {
        self.size += more;
        self.open(more);
    }

    /// Makes it smaller, as the peer has made its own.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.size);
        let now = less.min(self.left);
        self.left -= now;
        self.debt += less - now;
        self.size -= less;
    }

    /// So much more may come.
    fn open(&mut self, more: u64) {
        let paid = more.min(self.debt);
        self.debt -= paid;
        self.left += more - paid;
    }

    /// Gives back what was read where little is left, though it is less than a part, unless it is less than `least`; by how much
    /// the peer's is to be enlarged.
    pub fn give_back_early(&mut self, least: u64) -> Option<u32> {
        if self.owed < least || self.left >= self.size / 4 {
            return None;
        }
        let owed = std::mem::take(&mut self.owed);
        self.open(owed);
        u32::try_from(owed).ok()
    }

    /// What may come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// What has come and was not read.
    pub fn waiting(&self) -> u64 {
        (self.size + self.debt).saturating_sub(self.left + self.owed)
    }

    /// So much has come. False: more than may.
    #[must_use]
    pub fn take(&mut self, length: u64) -> bool {
        let left = self.left.checked_sub(length);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// So much of what waits was read; by how much the peer's window has to be enlarged now, if at all. `most`: what it may
    /// grow to.
    pub fn read(&mut self, length: u64, most: u64, now: Millis) -> Option<u32> {
        let length = length.min(self.waiting());
        self.owed += length;
        self.passed += length;
        if self.owed == 0 || self.owed < self.size / PARTS {
            return None;
        }
        let mut growth = 0;
        if self.passed >= self.size / 2 {
            let most = most.min(u64::from(LARGEST_WINDOW));
            if now.saturating_sub(self.since) < GROWS_WITHIN {
                growth = self.size.min(most.saturating_sub(self.size));
            }
            (self.passed, self.since) = (0, now);
        }
        let increment = self.owed + growth;
        self.size += growth;
        self.open(increment);
        self.owed = 0;
        u32::try_from(increment).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_comes_as_the_window_has() {
        for (length, good) in [(99, true), (100, true), (101, false)] {
            let mut window = Window::new(100, 0);
            assert_eq!(window.take(length), good);
            assert_eq!(window.left(), if good { 100 - length } else { 100 });
        }
    }

    #[test]
    fn it_is_given_back_as_it_is_read_and_in_eighths() {
        let mut window = Window::new(80, 0);
        assert!(window.take(80));
        assert_eq!(window.read(9, 80, 1000), None);
        assert_eq!(window.read(1, 80, 1000), Some(10));
        assert_eq!((window.left(), window.waiting()), (10, 70));
        // Nobody reads what has not come.
        assert_eq!(window.read(1_000_000, 80, 1000), Some(70));
        assert_eq!(window.left(), 80);
    }

    #[test]
    fn a_fast_sender_never_has_less_than_three_quarters_under_way() {
        // Both windows are full of what is under way, and their parts end at different times.
        let (mut stream, mut all) = (Window::new(800, 0), Window::new(800, 0));
        assert!(stream.take(800) && all.take(800));
        let mut under_way = 750;
        let _ = all.read(50, 800, 1000);
        for _ in 0..1000 {
            let _ = (stream.read(10, 800, 1000), all.read(10, 800, 1000));
            under_way -= 10;
            let more = stream.left().min(all.left());
            assert!(stream.take(more) && all.take(more));
            under_way += more;
            assert!(under_way >= 600, "{under_way}");
        }
    }

    #[test]
    fn its_reader_is_judged_by_a_half_of_it() {
        let mut window = Window::new(80, 0);
        for now in [150, 300, 450] {
            // An eighth is quick, and a half is not.
            assert!(window.take(10));
            assert_eq!(window.read(10, 800, now), Some(10));
        }
        assert!(window.take(10));
        assert_eq!(window.read(10, 800, 600), Some(10));
        assert!(window.take(40));
        assert_eq!(window.read(40, 800, 799), Some(120), "within 200 ms");
    }

    #[test]
    fn it_grows_while_its_reader_keeps_up_and_not_beyond() {
        let mut window = Window::new(100, 0);
        let mut sizes = Vec::new();
        for round in 1..=4 {
            let all = window.left();
            assert!(window.take(all));
            assert!(window.read(all, 350, round * 10).is_some());
            sizes.push(window.left());
        }
        assert_eq!(sizes, [200, 350, 350, 350]);
        let all = window.left();
        assert!(window.take(all));
        assert_eq!(window.read(all, 1000, 5000), Some(350), "a slow reader");
    }

    #[test]
    fn where_little_is_left_less_than_a_part_is_given_back() {
        const EARLY: u64 = 1000;
        let mut window = Window::new(16 * EARLY, 0);
        assert!(window.take(12 * EARLY));
        assert_eq!(window.read(EARLY, 0, 0), None);
        assert_eq!(window.give_back_early(EARLY), None, "a quarter is left");
        assert!(window.take(1));
        assert_eq!(window.give_back_early(EARLY), Some(EARLY as u32));
        assert_eq!((window.left(), window.waiting()), (5 * EARLY - 1, 11 * EARLY + 1));
        assert!(window.take(2 * EARLY));
        assert_eq!(window.read(EARLY - 1, 0, 0), None);
        assert_eq!(window.give_back_early(EARLY), None, "too little is owed");
    }

    #[test]
    fn a_window_of_nothing_is_never_enlarged() {
        assert_eq!(Window::new(0, 0).read(5, 100, 0), None);
    }
}
