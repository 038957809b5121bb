//! The bell: a number in the header that wakes who sleeps for as long as nothing happens.
//!
//! Knows: that what a worker shows of itself has changed, and how often that may be said. Does not know: who listens (the
//! status process, `status/history.rs`). Whoever shows a worker's numbers rings, its watchdog mostly: it is awake while
//! requests run, and no request waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::{SharedNumbers, tell_of_change};
use wire::Millis;

use super::layout::{Word, header};
use super::long_calls::LongCalls;

/// A worker rings so often at most. Who was woken stays awake for longer, and sees what comes meanwhile.
pub const RING_MS: Millis = 1000;
/// Told apart well enough: a change that looks like none is seen with the next one.
const SPREAD: u64 = 1_000_003;

/// Something has happened.
pub(super) fn ring(bell: &Word) {
    // Once a second a worker: what one of two at a time adds would be lost otherwise, and their sleeper with it.
    bell.fetch_add(1, Ordering::Release);
    tell_of_change(bell);
}

/// A worker's end.
#[derive(Debug)]
pub struct Bell {
    header: SharedNumbers,
    /// What was shown when it was rung last, in one number.
    shown: AtomicU64,
    again: AtomicU64,
}

impl Bell {
    /// One that is rung in the header of statistics.
    pub(super) fn of(header: SharedNumbers) -> Self {
        Self { header, shown: AtomicU64::new(0), again: AtomicU64::new(0) }
    }

    /// What workers tell one another of routes that compute for long, in the same header.
    #[inline]
    pub fn long_calls(&self) -> LongCalls<'_> {
        LongCalls::of(self.header.numbers())
    }

    /// A worker shows these numbers. True: it has rung.
    pub fn shows(&self, numbers: &[u64], now: Millis) -> bool {
        let sum = numbers.iter().fold(0_u64, |sum, number| sum.wrapping_mul(SPREAD).wrapping_add(*number));
        if sum == self.shown.load(Ordering::Relaxed) || now < self.again.load(Ordering::Relaxed) {
            return false;
        }
        self.shown.store(sum, Ordering::Relaxed);
        self.again.store(now + RING_MS, Ordering::Relaxed);
        ring(&self.header.numbers()[header::BELL]);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, remove_file};
    use std::os::fd::AsRawFd;
    use std::thread;

    use reactor::sys::Access;

    use super::super::segment::{Segment, join_bell};
    use super::*;

    /// Statistics, and one bell at them.
    fn both() -> (Segment, Bell) {
        let path = std::env::temp_dir().join(format!(
            "forehand-bell-{}-{:?}",
            std::process::id(),
            thread::current().id()
        ));
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
        remove_file(path).expect("it was there");
        file.set_len(Segment::BYTES as u64).expect("a file with a hole");
        let segment = Segment::open(file.try_clone().expect("the same").into(), Access::Write)
            .expect("statistics begin");
        let bell = join_bell(file.as_raw_fd()).expect("they have a bell");
        (segment, bell)
    }

    #[test]
    fn a_worker_rings_when_its_numbers_change_and_once_a_second_at_most() {
        let (segment, bell) = both();
        let seen = segment.rings();
        let shown =
            [(&[0, 0], 5), (&[1, 0], 6), (&[2, 0], 7), (&[2, 0], 1006), (&[2, 0], 3000), (&[0, 2], 3001)];
        let rung: Vec<bool> = shown.iter().map(|(numbers, now)| bell.shows(*numbers, *now)).collect();
        assert_eq!(rung, [false, true, false, true, false, true]);
        assert_eq!(segment.rings(), seen + 3);
    }

    #[test]
    fn who_waits_is_woken_by_a_worker_and_by_the_supervisor_and_not_before() {
        let (segment, bell) = both();
        let happens: [&dyn Fn(); 3] =
            [&|| assert!(bell.shows(&[1], 1)), &|| assert_eq!(segment.count_exit("oom"), 0), &|| {
                segment.add(10, 1)
            }];
        for happens in happens {
            let seen = segment.rings();
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| {
                    // It may be woken for nothing.
                    while segment.rings() == seen {
                        segment.wait(seen);
                    }
                });
                happens();
                sleeper.join().expect("it is awake");
            });
            // What has happened before it waits is not waited for.
            segment.wait(seen);
        }
    }
}
