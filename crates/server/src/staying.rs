//! Connections whose requests have held up the event loop: they stay where others leave.
//!
//! Knows: which those are, by their tokens, and until when. Does not know: connections, loops, or where others go
//! (`share.rs`). Runs on the event loop's thread.
//!
//! A client whose requests block the loop would block that of any worker that took it, and there are the clients that
//! have just gone there to be out of its way. So it stays with the loop that it has blocked.

use wire::Millis;

use crate::rows::LATELY_MS;

/// So many are remembered; of more, those that have held up the loop last.
const MOST: usize = 64;

/// Who stays.
#[derive(Debug, Default)]
pub struct Staying(Vec<(u64, Millis)>);

impl Staying {
    /// A request of that connection has held up the loop.
    pub fn held_up(&mut self, token: u64, now: Millis) {
        self.0.retain(|&(known, until)| known != token && until > now);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((token, now + LATELY_MS));
    }

    /// True while that connection is not given to another worker.
    #[inline]
    pub fn stays(&self, token: u64, now: Millis) -> bool {
        self.0.iter().any(|&(known, until)| known == token && until > now)
    }

    /// True where there may be some.
    #[inline]
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// That connection has ended. True: it was one of those that stay, and who had it may come again with another.
    pub fn ended(&mut self, token: u64, now: Millis) -> bool {
        let stayed = self.stays(token, now);
        self.0.retain(|&(known, until)| known != token && until > now);
        stayed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_held_up_the_loop_stays_for_five_seconds_after_the_last_time() {
        let mut staying = Staying::default();
        assert!(!staying.any() && !staying.stays(7, 1_000));
        staying.held_up(7, 1_000);
        staying.held_up(7, 3_000);
        assert!(staying.any() && staying.stays(7, 3_000) && staying.stays(7, 7_999));
        assert!(!staying.stays(7, 8_000) && !staying.stays(8, 3_000));
    }

    #[test]
    fn one_that_ends_is_told_once_and_only_while_it_stays() {
        for (now, told) in [(5_999, true), (6_000, false)] {
            let mut staying = Staying::default();
            staying.held_up(7, 1_000);
            assert!(!staying.ended(8, now));
            assert_eq!(staying.ended(7, now), told, "{now}");
            assert!(!staying.ended(7, now) && !staying.any());
        }
    }

    #[test]
    fn with_one_that_ends_those_are_forgotten_that_may_leave_by_now() {
        let mut staying = Staying::default();
        staying.held_up(7, 1_000);
        assert!(!staying.ended(8, 5_999) && staying.any());
        assert!(!staying.ended(8, 6_000) && !staying.any(), "ends cost nothing any more");
    }

    #[test]
    fn of_more_than_are_remembered_the_first_may_leave() {
        let mut staying = Staying::default();
        (0..=MOST as u64).for_each(|token| staying.held_up(token, 1_000));
        assert!(!staying.stays(0, 1_000) && staying.stays(1, 1_000) && staying.stays(MOST as u64, 1_000));
        staying.held_up(1, 1_001);
        staying.held_up(99, 1_002);
        assert!(staying.stays(1, 1_002) && !staying.stays(2, 1_002), "the one that was longest ago");
        staying.held_up(100, 7_000);
        assert_eq!(staying.0.len(), 1, "all others may leave by now");
    }
}
