//! What the watchdog does with the baton: it looks whether a job takes long, calls a spare, and does what can be done without
//! the interpreter.
//!
//! Knows: who leads, and since which run. Does not know: when it is called (`pool.rs`). Runs on the watchdog's thread.

use super::{Baton, Lead, Look};
use crate::sync::{Ordering, TriedGuard, one_order, try_lock};

impl<L: Lead> Baton<L> {
    /// The watchdog looks: `seen` is what it saw the last time.
    pub fn look(&self, seen: u64) -> Look {
        let runs = self.runs.load(Ordering::SeqCst);
        if runs & 1 == 0 || runs != seen {
            return Look::Fine(runs);
        }
        if self.call_spare() { Look::Called(runs) } else { Look::NoSpare(runs) }
    }

    /// A job has blocked a short while ago, so that others are expected to.
    pub fn expects_to_block(&self, now: u64) -> bool {
        now < self.marked_until.load(Ordering::Relaxed)
    }

    /// Odd while whoever leads waits for the interpreter; another number each time.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// What waits for the thread that is stuck goes out now, without the interpreter, which
    /// that thread may be holding. Should it come back at this very moment and find the baton
    /// taken, it leaves its job in the inbox and parks; then somebody is called to lead. If its
    /// job comes into the inbox only after this has looked, it finds the baton free again.
    pub fn relieve(&self, seen: u64) {
        let Some(mut work) = try_lock(&self.held) else { return };
        if self.runs.load(Ordering::SeqCst) == seen {
            work.relieved();
        }
        self.give_up(work);
    }

    /// Every thread is in its job, and no more may be started, or none can have the interpreter: does the loop's
    /// housekeeping. The watchdog does it, for as long as that lasts.
    pub fn housekeeping(&self) {
        let Some(mut work) = try_lock(&self.held) else { return };
        // The job that is under way may be younger than the one that was relieved.
        if self.runs.load(Ordering::Relaxed) & 1 == 1 {
            work.relieved();
        }
        self.empty_inbox(&mut work);
        if work.housekeeping() {
            drop(work);
            return self.end();
        }
        self.give_up(work);
    }

    /// Lets go of the baton without having led: whoever came meanwhile, and found it taken,
    /// is called.
    fn give_up(&self, work: TriedGuard<'_, L>) {
        drop(work);
        if self.inbox.is_full() {
            self.spares.call_the_next();
        }
    }

    /// The watchdog wants to sleep until a job starts, or somebody waits for the interpreter. False: that is so, so stay
    /// awake. Of the latter it may miss what begins at this very moment: it asks again a while later, before it sleeps
    /// for long, which spares each wait a fence.
    pub fn watch_may_sleep(&self, seen: u64) -> bool {
        self.watch_sleeps.store(true, Ordering::SeqCst);
        one_order();
        let runs = self.runs.load(Ordering::SeqCst);
        if runs & 1 == 0 && runs == seen && self.waits() & 1 == 0 {
            return true;
        }
        self.watch_sleeps.store(false, Ordering::SeqCst);
        false
    }
}
