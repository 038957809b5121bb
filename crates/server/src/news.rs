//! What threads wait for that answer streams of one connection: that something has happened on it.
//!
//! Knows: how often something has. Does not know: what, or whose. A thread asks for the number, looks at what it needs, and
//! waits until the number is another one: what happens between its look and its wait is not missed.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use reactor::MayWait;

use crate::sync::{lock, wait_for};

#[derive(Default)]
struct State {
    told: u64,
    waiting: u32,
}

/// One connection's.
#[derive(Default)]
pub struct News {
    state: Mutex<State>,
    told: Condvar,
}

impl News {
    /// How often something has happened.
    pub fn count(&self) -> u64 {
        lock(&self.state).told
    }

    /// Something has.
    pub fn tell(&self) {
        let mut state = lock(&self.state);
        state.told += 1;
        let anybody = state.waiting > 0;
        drop(state);
        if anybody {
            self.told.notify_all();
        }
    }

    /// Waits until more has happened than `seen`, at most so many milliseconds.
    pub fn wait(&self, seen: u64, milliseconds: u64, _: &MayWait) {
        self.wait_for_more(seen, milliseconds);
    }

    fn wait_for_more(&self, seen: u64, milliseconds: u64) {
        let mut state = lock(&self.state);
        if state.told == seen {
            state.waiting += 1;
            (state, _) = wait_for(&self.told, state, Duration::from_millis(milliseconds));
            state.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_happens_before_the_wait_is_not_waited_for() {
        let news = News::default();
        let seen = news.count();
        news.tell();
        let begun = Instant::now();
        news.wait_for_more(seen, 60_000);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn everybody_hears_of_it() {
        let news = Arc::new(News::default());
        let seen = news.count();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let news = Arc::clone(&news);
                std::thread::spawn(move || news.wait_for_more(seen, 60_000))
            })
            .collect();
        news.tell();
        waiters.into_iter().for_each(|waiter| waiter.join().expect("no fault"));
    }
}
