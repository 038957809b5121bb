//! A process whose descriptors are no longer what the engine has made: that of a forked child, and that of an application
//! which closes what is not its own.
//!
//! Knows: what the kernel has refused, the line to the supervisor. Does not know: who has closed them.

use std::io;

use reactor::sys::{exit_now, forks, is_taken_away, write_stderr};

use super::Engine;

/// What is said of it: `os.closerange` does that, and who closes a number twice that somebody else has had meanwhile.
const TAKEN_AWAY: &str = "the application has closed descriptors of its server";

impl Engine {
    /// True in a process that was forked off the one that this engine serves in: there it is a dead copy, and
    /// nothing may come of it.
    #[inline]
    pub fn is_a_copy(&self) -> bool {
        self.born != forks()
    }

    /// The kernel could not be asked what has happened. In a forked child that is so by design: what has
    /// brought it back here, in spite of everything, ends with it.
    #[cold]
    pub(crate) fn cannot_poll(&self, error: &io::Error) -> usize {
        if self.is_a_copy() {
            write_stderr("forehand: a forked child came back into its parent's loop: it ends here\n");
            exit_now(1);
        }
        if is_taken_away(error) {
            // Nobody would ever be answered again, and the next process begins with descriptors of its own.
            self.ends_here(&format!("the kernel cannot be asked what has happened ({error})"));
        }
        // It would be a bug of ours; the loop goes on looking.
        0
    }

    /// A listener cannot be asked for connections. True: it never will, and somebody else comes in this worker's place.
    #[cold]
    pub(crate) fn cannot_accept(&self, error: &io::Error) -> bool {
        let never = is_taken_away(error);
        if !never {
            self.log.warn(format!("a listener is broken: {error}; trying again"));
        } else if self.config.report.is_some() {
            self.report(&format!("stale {TAKEN_AWAY}: a listener is broken ({error})"));
        } else {
            self.ends_here(&format!("a listener is broken ({error})"));
        }
        never
    }

    /// The end of a process that cannot serve any more. The supervisor tells why, where there is one.
    fn ends_here(&self, why: &str) -> ! {
        self.report(&format!("fail 1 {TAKEN_AWAY}: {why}"));
        if self.config.report.is_none() {
            write_stderr(&format!("forehand: {TAKEN_AWAY}: {why}; it ends here\n"));
        }
        exit_now(1)
    }
}
