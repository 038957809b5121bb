//! A request, its deadline, and whoever interrupts its thread.
//!
//! What must hold: the client gets the application's reply or the deadline's refusal, and never
//! both or neither; a thread is interrupted if it is inside the request that is overdue, and neither
//! behind it nor in its next one; a thread that is overdue inside of it is told of, and once more,
//! once, when it stays through its grace; when a request is done nothing of it is left.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use server::claims::{Claim, Claims, Passed};

const DEADLINE: u64 = 10;
const GRACE: u64 = 5;
/// Deadlines by which nothing happens here.
const LATER: u64 = 1000;

/// What a request's client sees, and what its thread does.
#[derive(Default)]
struct Request {
    replies: AtomicUsize,
    refusals: AtomicUsize,
    /// The thread that was told of.
    told: AtomicUsize,
    /// How often it was told of that this thread has not come back.
    ignored: AtomicUsize,
}

/// The interpreter: who has it is in Python.
#[derive(Default)]
struct Interpreter {
    /// The serial of the request in which the thread is.
    inside: Option<u64>,
    interrupted: bool,
}

#[derive(Default)]
struct Server {
    claims: Claims<Arc<Request>>,
    found: Mutex<Vec<u64>>,
    interpreter: Mutex<Interpreter>,
}

/// The watchdog's hands.
struct Hands<'a>(&'a Server);

impl Passed<Arc<Request>> for Hands<'_> {
    fn overdue(&mut self, claim: &Claim<Arc<Request>>, thread: u64, unanswered: bool) {
        claim.request.refusals.fetch_add(usize::from(unanswered), Ordering::Relaxed);
        claim.request.told.store(thread as usize, Ordering::Relaxed);
        // No other request is overdue here, and this one is not done before the table is let go of.
        assert_eq!(self.0.claims.any_lost(), thread != 0, "lost is who is inside an overdue request");
        if thread != 0 {
            self.0.found.lock().unwrap().push(claim.serial);
        }
    }

    fn ignored(&mut self, claim: &Claim<Arc<Request>>) {
        assert!(claim.is_overdue(), "a request is ignored before it is overdue");
        let told = claim.request.told.load(Ordering::Relaxed);
        assert_ne!(told, 0, "a deadline is ignored, and no thread was inside when it passed");
        let before = claim.request.ignored.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a deadline is ignored twice");
    }
}

impl Server {
    /// A thread's way through one request. True: it was inside the application when it was overdue.
    fn play(&self, claim: &Arc<Claim<Arc<Request>>>) -> bool {
        let mut interpreter = self.interpreter.lock().unwrap();
        let begun = claim.begin(7);
        if begun {
            interpreter.inside = Some(claim.serial);
            // The application waits, or its turn is over.
            drop(interpreter);
            if claim.claim() {
                claim.request.replies.fetch_add(1, Ordering::Relaxed);
            }
            interpreter = self.interpreter.lock().unwrap();
        }
        claim.end();
        // As the bridge does: what came too late for this request is not for the next one.
        let interrupted = std::mem::take(&mut interpreter.interrupted);
        assert!(!interrupted || claim.is_overdue(), "an interruption that nobody takes back");
        interpreter.inside = None;
        drop(interpreter);
        self.claims.complete(claim);
        begun && claim.is_overdue()
    }

    /// What the thread that has Python does about those that are overdue.
    fn interrupt(&self) {
        let found = std::mem::take(&mut *self.found.lock().unwrap());
        for serial in found {
            let mut interpreter = self.interpreter.lock().unwrap();
            let is_inside = self.claims.is_inside(serial);
            // Whoever has left cannot be told from whoever is in its next request by its thread alone.
            let inside = interpreter.inside;
            assert_eq!(is_inside, inside == Some(serial), "interrupted for {serial}, inside {inside:?}");
            if is_inside {
                assert!(!interpreter.interrupted, "a thread is interrupted twice");
                interpreter.interrupted = true;
            }
        }
    }

    fn check(&self, request: &Request, overdue_inside: bool) {
        let both = (request.replies.load(Ordering::Relaxed), request.refusals.load(Ordering::Relaxed));
        assert_eq!(both.0 + both.1, 1, "a client reads one reply: {both:?}");
        if overdue_inside {
            assert_eq!(request.told.load(Ordering::Relaxed), 7, "a thread is late, and nobody is told");
        }
        assert_eq!(self.claims.open(), 0, "a request is left in the table");
        assert!(!self.claims.any_lost(), "a thread that has come back counts as lost");
    }
}

#[test]
fn a_client_reads_the_reply_or_the_refusal() {
    loom::model(|| {
        let server = Arc::new(Server::default());
        let request = Arc::new(Request::default());
        let claim = server.claims.issue(Arc::clone(&request), DEADLINE);
        let theirs = Arc::clone(&server);
        let worker = thread::spawn(move || theirs.play(&claim));
        server.claims.look(DEADLINE, GRACE, false, &mut Hands(&server));
        let overdue_inside = worker.join().unwrap();
        server.check(&request, overdue_inside);
    });
}

#[test]
fn a_thread_is_interrupted_inside_its_request_and_not_in_its_next_one() {
    loom::model(|| {
        let server = Arc::new(Server::default());
        let request = Arc::new(Request::default());
        let next = Arc::new(Request::default());
        let claim = server.claims.issue(Arc::clone(&request), DEADLINE);
        // It waits for the same thread, and has time.
        let next_claim = server.claims.issue(Arc::clone(&next), LATER);
        let (theirs, others) = (Arc::clone(&server), Arc::clone(&server));
        let worker = thread::spawn(move || {
            let overdue_inside = theirs.play(&claim);
            assert!(!theirs.play(&next_claim), "a request that has time is overdue");
            overdue_inside
        });
        let watchdog = thread::spawn(move || others.claims.look(DEADLINE, GRACE, false, &mut Hands(&others)));
        server.interrupt();
        let overdue_inside = worker.join().unwrap();
        watchdog.join().unwrap();
        server.interrupt();
        server.check(&request, overdue_inside);
        server.check(&next, false);
    });
}

#[test]
fn one_that_stays_through_its_grace_is_told_of_once() {
    loom::model(|| {
        let server = Arc::new(Server::default());
        let request = Arc::new(Request::default());
        let claim = server.claims.issue(Arc::clone(&request), DEADLINE);
        let (theirs, played) = (Arc::clone(&server), Arc::clone(&claim));
        let worker = thread::spawn(move || theirs.play(&played));
        server.claims.look(DEADLINE, GRACE, false, &mut Hands(&server));
        if claim.is_overdue() {
            assert_eq!(server.claims.next(), DEADLINE + GRACE, "nobody looks when the grace has passed");
        }
        // Others' deadlines have the table looked at again and again.
        for _ in 0..2 {
            server.claims.look(DEADLINE + GRACE, GRACE, false, &mut Hands(&server));
        }
        let stays = server.interpreter.lock().unwrap().inside == Some(claim.serial);
        if stays && request.told.load(Ordering::Relaxed) != 0 {
            assert_eq!(request.ignored.load(Ordering::Relaxed), 1, "a thread stays, and nobody is told");
        }
        let overdue_inside = worker.join().unwrap();
        server.check(&request, overdue_inside);
    });
}

#[test]
fn the_watchdog_knows_of_each_deadline_that_is_issued_while_it_looks() {
    loom::model(|| {
        let server = Arc::new(Server::default());
        let earlier = server.claims.issue(Arc::default(), LATER + 1);
        let theirs = Arc::clone(&server);
        let loops = thread::spawn(move || theirs.claims.issue(Arc::default(), LATER));
        server.claims.look(DEADLINE, GRACE, false, &mut Hands(&server));
        let claim = loops.join().unwrap();
        assert!(server.claims.next() <= LATER, "a deadline is forgotten");
        server.claims.look(LATER + 1, GRACE, false, &mut Hands(&server));
        assert!(earlier.is_overdue() && claim.is_overdue(), "a request is lost from the table");
        for (done, left) in [(claim, 1), (earlier, 0)] {
            server.claims.complete(&done);
            assert_eq!(server.claims.open(), left, "who is done is taken out of the table, and nobody else");
        }
    });
}
