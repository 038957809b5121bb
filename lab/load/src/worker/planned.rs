//! What a thread has still to begin: its part of the planned moments, or of a closed loop's count. Knows no clock.

use crate::job::Job;
use crate::pace::Pacer;
use std::iter::Peekable;

pub(super) struct Planned {
    moments: Peekable<Box<dyn Iterator<Item = u64>>>,
    /// Closed loop: requests that may still begin; None: as many as there is time for.
    left: Option<u64>,
    /// No request begins at or after this moment.
    pub(super) until: u64,
}

impl Planned {
    pub(super) fn for_thread(job: &Job, thread: usize) -> Planned {
        let count = job.count().map(|count| job.share(count, thread));
        let moments: Box<dyn Iterator<Item = u64>> = match &job.shape {
            None => Box::new(std::iter::empty()),
            Some(shape) => {
                let pacer = Pacer::new(shape.clone(), job.plan.seed, job.duration);
                let (first, every) = job.dealt(thread);
                let dealt = pacer.dealt(first, every);
                match count {
                    Some(count) => Box::new(dealt.take(count as usize)),
                    None => Box::new(dealt),
                }
            }
        };
        Planned { moments: moments.peekable(), left: count, until: job.duration }
    }

    /// The next planned moment, if there is one before the end.
    pub(super) fn next(&mut self) -> Option<u64> {
        let until = self.until;
        self.moments.peek().copied().filter(|moment| *moment < until)
    }

    /// That moment is being dealt with.
    pub(super) fn take(&mut self) {
        self.moments.next();
    }

    /// Takes one of a closed loop's requests; false when none is left.
    pub(super) fn begin_one(&mut self) -> bool {
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }

    /// Whether a closed loop may begin more.
    pub(super) fn may_begin(&self) -> bool {
        self.left != Some(0)
    }
}
