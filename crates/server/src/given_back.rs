//! When a worker gives back code that only some requests have needed: what each runs comes back with the next one.
//!
//! Knows: how many requests were answered, and when. Does not know: what is given back (`reactor::sys`), nor who asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After so many requests, and after four times as many each time: threads begin, connections come, and first requests make
/// what others find.
const SETTLED_REQUESTS: u64 = 1000;
const SETTLED_NEXT: u64 = 4;
/// Where nothing happens any more, after so many since the last time, or any where that is so long ago, or was done while
/// requests came: a request that comes behind it takes 0.1 ms longer.
const REST_REQUESTS: u64 = 1000;
const REST_MS: u64 = 10_000;
/// Where nobody is connected any more, at once after as many; but not more often, as it takes 0.3 ms, and who opens a
/// connection for each request is gone each time.
const DESERTED_MS: u64 = 250;

/// How many requests there were when it was done the last time, when that was, whether nothing happened then, and at how
/// many it is done next.
#[derive(Debug)]
pub struct GivenBack {
    requests: AtomicU64,
    at: AtomicU64,
    at_rest: AtomicBool,
    next: AtomicU64,
}

impl GivenBack {
    pub fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            at: AtomicU64::new(0),
            at_rest: AtomicBool::new(true),
            next: AtomicU64::new(SETTLED_REQUESTS),
        }
    }

    /// Whether it is time while requests come. `requests`: how many were answered; `now` in monotonic milliseconds.
    pub fn is_due(&self, requests: u64, now: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let is_due = requests >= next;
        if is_due {
            self.next.store(next.saturating_mul(SETTLED_NEXT), Ordering::Relaxed);
            self.note(requests, now, false);
        }
        is_due
    }

    /// Whether it is time where nothing happens any more.
    pub fn is_due_at_rest(&self, requests: u64, now: u64) -> bool {
        let new = requests.saturating_sub(self.requests.load(Ordering::Relaxed));
        let is_long_ago = now.saturating_sub(self.at.load(Ordering::Relaxed)) >= REST_MS;
        // What the last requests of a crowd have mapped after that would stay else, maybe for hours.
        let was_among_requests = !self.at_rest.load(Ordering::Relaxed);
        let is_due = new >= REST_REQUESTS || new > 0 && (is_long_ago || was_among_requests);
        if is_due {
            self.note(requests, now, true);
        }
        is_due
    }

    /// Whether it is time where nobody is connected any more.
    pub fn is_due_when_deserted(&self, requests: u64, now: u64) -> bool {
        let new = requests.saturating_sub(self.requests.load(Ordering::Relaxed));
        let is_due =
            new >= REST_REQUESTS && now.saturating_sub(self.at.load(Ordering::Relaxed)) >= DESERTED_MS;
        if is_due {
            self.note(requests, now, false);
        }
        is_due
    }

    fn note(&self, requests: u64, now: u64, at_rest: bool) {
        self.requests.store(requests, Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
        self.at_rest.store(at_rest, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_requests_come_it_is_after_a_thousand_and_four_times_as_many_each_time() {
        let given = GivenBack::new();
        let due: Vec<u64> = (0..=70_000).filter(|&requests| given.is_due(requests, requests)).collect();
        assert_eq!(due, [1000, 4000, 16_000, 64_000]);
    }

    #[test]
    fn where_nothing_happens_it_is_after_many_requests_or_after_a_while() {
        let given = GivenBack::new();
        assert!(!given.is_due_at_rest(0, 50_000), "nothing has been needed");
        assert!(given.is_due_at_rest(1, 50_000));
        for (requests, now, expected) in [
            (1, 99_000, false),
            (1 + REST_REQUESTS - 1, 50_000 + REST_MS - 1, false),
            (1 + REST_REQUESTS, 50_000 + REST_MS - 1, true),
            (1 + REST_REQUESTS, 200_000, false),
            (2 + REST_REQUESTS, 50_000 + 2 * REST_MS - 2, false),
            (2 + REST_REQUESTS, 50_000 + 2 * REST_MS - 1, true),
        ] {
            assert_eq!(given.is_due_at_rest(requests, now), expected, "{requests} at {now}");
        }
    }

    #[test]
    fn where_nobody_is_connected_it_is_after_many_requests_and_not_all_the_time() {
        let given = GivenBack::new();
        for (requests, now, expected) in [
            (REST_REQUESTS - 1, 90_000, false),
            (REST_REQUESTS, 90_000, true),
            (2 * REST_REQUESTS, 90_000 + DESERTED_MS - 1, false),
            (2 * REST_REQUESTS, 90_000 + DESERTED_MS, true),
            (3 * REST_REQUESTS - 1, 200_000, false),
        ] {
            assert_eq!(given.is_due_when_deserted(requests, now), expected, "{requests} at {now}");
        }
    }

    #[test]
    fn what_was_given_back_while_requests_came_is_given_back_once_more_at_rest() {
        for among_requests in [GivenBack::is_due, GivenBack::is_due_when_deserted] {
            let given = GivenBack::new();
            assert!(among_requests(&given, 1000, 5000));
            assert!(!given.is_due_at_rest(1000, 5001), "nothing has come since");
            assert!(given.is_due_at_rest(1001, 5002));
            for (requests, expected) in [(1002, false), (2000, false), (2001, true)] {
                assert_eq!(
                    given.is_due_at_rest(requests, 5003),
                    expected,
                    "{requests}: once, and then as always"
                );
            }
        }
    }
}
