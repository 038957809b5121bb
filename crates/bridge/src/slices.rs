//! Short slices of a processor for threads that serve, which wait far more than they work.
//!
//! The kernel gives turns, too. Beside a thread that computes, in this worker, another one, or a program of somebody else's, one
//! that wakes up waits in one of a hundred cases for the end of a slice, up to the next tick, where both have slices of
//! one length. Whoever wants a shorter one need not. It holds for a thread that serves whatever it does: it leads now and computes
//! then, and one that computes loses nothing by it but some switches where others want its processor.
//!
//! The other way round, longer slices for whoever computes, makes it worse: one that wakes up and has just had its share waits
//! for the end of the longer one (docs/performance.md).
//!
//! Knows: the calling thread. Does not know: what it does.

use reactor::sys::KernelThread;
use server::log::Log;

/// A fifth of what is usual with two processors, a ninth with eight.
const SHORT_NS: u64 = 300_000;

/// The calling thread has short slices from now on, unless somebody has chosen others for it (`chrt --sched-runtime`). False: the
/// system has no such thing.
pub fn shorten() -> bool {
    let thread = KernelThread::current();
    let Ok(before) = thread.slice() else { return false };
    // What is usual shows when nothing is asked for.
    let usual = thread.set_slice(0).and_then(|()| thread.slice());
    if usual.is_ok_and(|usual| usual == before) {
        return thread.set_own_slice(SHORT_NS).is_ok();
    }
    thread.set_slice(before).is_ok()
}

/// The calling thread serves no more.
pub fn give_back() {
    let thread = KernelThread::current();
    if thread.slice().is_ok_and(|slice| slice == SHORT_NS) {
        // It has had them before.
        let _ = thread.set_slice(0);
    }
}

/// Says it where there is no such thing.
pub fn tell(log: &Log) {
    if KernelThread::current().slice().is_err() {
        log.debug(|| {
            "threads have no slices of a processor of their own here: others wait longer beside one that computes".into()
        });
    }
}
