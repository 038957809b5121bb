//! Requests that compute, as others of their routes have: one at a time in a worker, for as long as that is no loss.
//!
//! Knows: when it is looked whether the next one begins. Does not know: who computes (`lanes/inside.rs`), who waits for that
//! (`requests/computing.rs`), or which worker is better (`share.rs`). Runs under the baton.

use super::Loop;
use crate::exchange::Exchange;
use crate::handoff::To;

impl Loop {
    /// The next request may begin. True: it computes, as one does that is inside. It has gone to a
    /// worker where none does, or that takes all of those, or it waits.
    #[inline]
    pub(super) fn waits_to_compute(&mut self) -> bool {
        self.requests.next_computes() && self.shall_wait()
    }

    #[cold]
    fn shall_wait(&mut self) -> bool {
        if self.goes_apart() {
            return true;
        }
        if self.engine.computing() == 0 {
            return false;
        }
        self.another_takes_it()
            && self.requests.give_next(To::Anybody, &mut self.connections, &mut self.poller)
            || self.requests.next_waits(&mut self.poller)
    }

    /// One worker takes all of them: it has gone there.
    fn goes_apart(&mut self) -> bool {
        let goes = self.acceptor.goes_apart(&mut self.connections, &mut self.poller)
            && self.requests.give_next(To::Apart, &mut self.connections, &mut self.poller);
        if goes {
            self.acceptor.gave_apart(self.poller.now);
        }
        goes
    }

    fn another_takes_it(&mut self) -> bool {
        self.acceptor.may_pass_on(&mut self.connections, &mut self.poller)
    }

    /// Looks whether one that waits begins, or goes.
    #[inline]
    pub(super) fn let_one_compute(&mut self) {
        if self.requests.may_let_one_compute(self.poller.now) {
            self.look_who_computes();
        }
    }

    #[cold]
    fn look_who_computes(&mut self) {
        self.poller.look_at_clock();
        let others = self.engine.computing() > 0 && self.another_takes_it();
        self.requests.let_one_compute(others, &mut self.connections, &mut self.poller);
    }

    /// That request is begun. Where it does so for long its worker's clients leave before; where it computes others hear of it before anything shows it: nobody may lead here for a while.
    #[inline]
    pub(super) fn shows_that_it_computes(&mut self, next: &Exchange) {
        if next.lane.computes() || next.lane.burns() {
            self.update_listening();
        }
    }
}
