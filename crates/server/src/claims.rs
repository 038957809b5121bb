//! Who answers a request that has a deadline: its thread, or whoever watches the deadline.
//!
//! Knows: states, deadlines, which thread is in which request. Does not know: clocks, sockets,
//! Python (`request_deadlines.rs` does), so that loom can check it. The watchdog looks; threads claim.
//!
//! ```text
//!   OPEN ──the application begins its reply──► ANSWERED ──deadline──► OVERDUE (the reply is cut)
//!     └───────────────deadline──► OVERDUE (a refusal is sent)
//! ```
//!
//! One step from OPEN is taken by exactly one side, so that a client never reads both replies.

use wire::Millis;

use crate::sync::{Arc, AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, Ordering, lock, one_order};

/// A thread that has not come back is told of so much later at most, where its worker is replaced at a bad moment otherwise, ...
const PATIENCE_MS: Millis = 2_000;
/// ... and so often it is looked whether that is over.
const AGAIN_MS: Millis = 20;

const OPEN: u8 = 0;
const ANSWERED: u8 = 1;
const OVERDUE: u8 = 2;

/// One request's state, beside what its deadline answers for.
pub struct Claim<R> {
    pub request: R,
    pub deadline: Millis,
    pub serial: u64,
    state: AtomicU8,
    /// The thread that works on it, as the application's interpreter names it; zero: none yet.
    thread: AtomicU64,
    /// Its thread has come back.
    over: AtomicBool,
    /// Counted in [`Claims::any_lost`].
    lost: AtomicBool,
    /// When it was found to be overdue.
    overdue_at: AtomicU64,
    escalated: AtomicBool,
}

impl<R> Claim<R> {
    /// A thread begins. False: the deadline was first, and nobody will interrupt that thread.
    pub fn begin(&self, thread: u64) -> bool {
        // One order with `expire`: it sees the thread, or this sees that it is overdue.
        self.thread.store(thread, Ordering::SeqCst);
        one_order();
        self.state.load(Ordering::SeqCst) != OVERDUE
    }

    /// The application's reply is about to go out. False: it comes too late.
    pub fn claim(&self) -> bool {
        self.state.compare_exchange(OPEN, ANSWERED, Ordering::AcqRel, Ordering::Acquire).is_ok()
            || self.state.load(Ordering::Acquire) == ANSWERED
    }

    pub fn is_overdue(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVERDUE
    }

    /// The thread has left the application. Called while it holds the interpreter, as whoever
    /// interrupts does, so that nobody interrupts what it does next.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The deadline has passed. The thread that is in it, or zero; true: nothing was answered.
    fn expire(&self) -> (u64, bool) {
        let unanswered = self.state.swap(OVERDUE, Ordering::SeqCst) == OPEN;
        one_order();
        (self.thread.load(Ordering::SeqCst), unanswered)
    }
}

/// What is done when deadlines have passed. The list of claims is locked meanwhile.
pub trait Passed<R> {
    /// Answers in the place of the application: `unanswered` true, the client has read nothing and
    /// the application will not reply. `thread` is the one that is in it; zero: none, nor will be.
    fn overdue(&mut self, claim: &Claim<R>, thread: u64, unanswered: bool);
    /// The grace has passed as well, and its thread has not come back.
    fn ignored(&mut self, claim: &Claim<R>);
}

/// All that are not done.
pub struct Claims<R> {
    open: Mutex<Vec<Arc<Claim<R>>>>,
    /// No deadline is earlier.
    next: AtomicU64,
    serial: AtomicU64,
    /// Overdue ones whose threads have not come back.
    lost: AtomicU32,
}

impl<R> Default for Claims<R> {
    fn default() -> Self {
        Self {
            open: Mutex::new(Vec::new()),
            next: AtomicU64::new(Millis::MAX),
            serial: AtomicU64::new(0),
            lost: AtomicU32::new(0),
        }
    }
}

impl<R> Claims<R> {
    /// One more.
    pub fn issue(&self, request: R, deadline: Millis) -> Arc<Claim<R>> {
        let claim = Arc::new(Claim {
            request,
            deadline,
            serial: self.serial.fetch_add(1, Ordering::Relaxed),
            state: AtomicU8::new(OPEN),
            thread: AtomicU64::new(0),
            over: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            overdue_at: AtomicU64::new(0),
            escalated: AtomicBool::new(false),
        });
        lock(&self.open).push(Arc::clone(&claim));
        self.next.fetch_min(deadline, Ordering::SeqCst);
        claim
    }

    /// A request is done.
    pub fn complete(&self, claim: &Arc<Claim<R>>) {
        let mut open = lock(&self.open);
        if let Some(at) = open.iter().position(|other| Arc::ptr_eq(other, claim)) {
            open.swap_remove(at);
        }
        drop(open);
        if claim.lost.load(Ordering::Acquire) {
            self.lost.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// True while a thread has not come back from an overdue request.
    pub fn any_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) > 0
    }

    /// When [`Claims::look`] has something to do.
    pub fn next(&self) -> Millis {
        self.next.load(Ordering::SeqCst)
    }

    /// How many are not done.
    pub fn open(&self) -> usize {
        lock(&self.open).len()
    }

    /// Goes through all: what becomes overdue, and what has not come back `grace` milliseconds later. These begin when that is
    /// found: where the whole process has stood still meanwhile (`docker pause`), its thread has had no chance before. `bad_moment`: who
    /// has not come back is better told of later, [`PATIENCE_MS`] later at most.
    pub fn look(&self, now: Millis, grace: Millis, bad_moment: bool, passed: &mut impl Passed<R>) {
        let mut next = Millis::MAX;
        let open = lock(&self.open);
        for claim in open.iter() {
            if !claim.is_overdue() {
                if claim.deadline > now {
                    next = next.min(claim.deadline);
                    continue;
                }
                let (thread, unanswered) = claim.expire();
                claim.overdue_at.store(now, Ordering::Relaxed);
                if thread != 0 {
                    claim.lost.store(true, Ordering::Release);
                    self.lost.fetch_add(1, Ordering::SeqCst);
                }
                passed.overdue(claim, thread, unanswered);
            }
            let last = claim.overdue_at.load(Ordering::Relaxed) + grace;
            if last > now {
                next = next.min(last);
            } else if claim.lost.load(Ordering::Acquire) && !claim.escalated.load(Ordering::Acquire) {
                if bad_moment && last + PATIENCE_MS > now {
                    next = next.min((now + AGAIN_MS).min(last + PATIENCE_MS));
                // A thread that has begun since has found that it is overdue, and is on its way back.
                } else if !claim.escalated.swap(true, Ordering::AcqRel) {
                    passed.ignored(claim);
                }
            }
        }
        // Stored while the list is locked: one that is issued now lowers it again.
        self.next.store(next, Ordering::SeqCst);
    }

    /// True while the thread of that request is still inside the application.
    pub fn is_inside(&self, serial: u64) -> bool {
        lock(&self.open).iter().any(|claim| claim.serial == serial && !claim.is_over())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a look has found.
    #[derive(Default)]
    struct Found(Vec<&'static str>);

    impl Passed<()> for Found {
        fn overdue(&mut self, _: &Claim<()>, _: u64, _: bool) {
            self.0.push("overdue");
        }
        fn ignored(&mut self, _: &Claim<()>) {
            self.0.push("ignored");
        }
    }

    fn looked(claims: &Claims<()>, now: Millis) -> Vec<&'static str> {
        looked_at(claims, now, false)
    }

    fn looked_at(claims: &Claims<()>, now: Millis, bad_moment: bool) -> Vec<&'static str> {
        let mut found = Found::default();
        claims.look(now, 50, bad_moment, &mut found);
        found.0
    }

    #[test]
    fn a_request_is_overdue_at_its_timeout_and_ignored_when_its_grace_has_passed() {
        for (now, found) in [(99, vec![]), (100, vec!["overdue"]), (101, vec!["overdue"])] {
            let claims = Claims::default();
            claims.issue((), 100).begin(1);
            assert_eq!(looked(&claims, now), found, "request_timeout at {now}");
        }
        for (now, found) in [(149, vec![]), (150, vec!["ignored"]), (151, vec!["ignored"])] {
            let claims = Claims::default();
            claims.issue((), 100).begin(1);
            looked(&claims, 100);
            assert_eq!(claims.next(), 150);
            assert_eq!(looked(&claims, now), found, "request_timeout_grace at {now}");
            assert_eq!(looked(&claims, now + 100).len(), usize::from(now < 150), "told once");
        }
    }

    #[test]
    fn a_bad_moment_is_waited_for_to_pass_and_not_for_long() {
        let begun = || {
            let claims = Claims::default();
            claims.issue((), 100).begin(1);
            assert_eq!(looked_at(&claims, 100, true), ["overdue"], "its client is answered at once");
            claims
        };
        for (now, next, found) in [
            (149, 150, vec![]),
            (150, 170, vec![]),
            (2_149, 2_150, vec![]),
            (2_150, Millis::MAX, vec!["ignored"]),
        ] {
            let claims = begun();
            assert_eq!((looked_at(&claims, now, true), claims.next()), (found, next), "PATIENCE_MS at {now}");
        }
        let claims = begun();
        assert_eq!(looked_at(&claims, 150, true), [""; 0]);
        assert_eq!(looked_at(&claims, 170, false), ["ignored"], "it is over");
        assert_eq!((looked_at(&claims, 190, true), claims.next()), (vec![], Millis::MAX), "told once");
        let queued = Claims::default();
        queued.issue((), 100);
        assert_eq!(looked_at(&queued, 100, true), ["overdue"]);
        assert_eq!(
            (looked_at(&queued, 150, true), queued.next()),
            (vec![], Millis::MAX),
            "no thread is in it"
        );
    }

    #[test]
    fn who_could_not_be_interrupted_earlier_has_its_grace_from_then_on() {
        let claims = Claims::default();
        claims.issue((), 100).begin(1);
        assert_eq!(looked(&claims, 20_000), ["overdue"]);
        assert_eq!(claims.next(), 20_050);
        assert_eq!(looked(&claims, 20_049), [""; 0]);
        assert_eq!(looked(&claims, 20_050), ["ignored"]);
    }
}
