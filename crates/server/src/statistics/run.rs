//! A run: requests that have ended one after the other since the last look at the kernel and are counted alike, all at once.
//!
//! Knows: what they have in common, their sums, and their slots. Does not know: what is counted of others (`mod.rs`).
//!
//! Most of what it takes to count a request is to find where. Of a pipeline, or of a crowd that asks for the same, that is
//! found once for up to sixteen. Until they are counted they keep their slots, marked with the count that will have
//! them: whoever is killed meanwhile has counted them or was inside of them, and who looks while it lives sees that they
//! have ended. What a client has is not said to have died with its worker: who joins has a reply that was just sent, with
//! those of its batch or its pipeline, behind which the run is counted. Nothing stays here while somebody waits: it is
//! counted before the next look as well, when another thread leads because a call takes long (`Lead::relieved`), and before
//! anything else is counted. Under an event loop, where a step may block and nobody else
//! leads, there are none.

use std::sync::atomic::{Ordering, compiler_fence};

use wire::Framing;

use super::layout::{Meta, load};
use super::phase::{Ending, NO_SLOT, Parts, Times};
use super::{Block, Counted, FINAL, Known, META, Statistics, series, slots};

/// So many are counted at once.
const MOST: usize = 16;

/// What is to be counted of those that have ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Run {
    /// What their series follows from: the label of their heads, which ends with their route, and their status. Zero: there
    /// is no run.
    label: u64,
    status: u16,
    /// The place of their series.
    series: u16,
    /// How many there are, and their slots.
    requests: usize,
    slots: [u16; MOST],
    /// Their moments, summed up, and those of the last of them.
    moments: Moments,
    last: Moments,
    /// Content bytes, of their replies and of themselves.
    written: u64,
    received: u64,
}

/// When what began; or the same of several requests, summed up: what lies between is a difference of sums, however often
/// these have gone round.
#[derive(Clone, Copy, Default)]
struct Moments {
    first: u64,
    complete: u64,
    begun: u64,
    /// The end of the application's time.
    left: u64,
    sent: u64,
    /// How long it waited for the interpreter's lock.
    gil: u64,
}

impl Moments {
    /// None where they are not in order, as [`Times::parts`] sees to.
    #[inline]
    fn of(times: &Times, sent: u64) -> Option<Self> {
        let Times { first, complete, begun, gil, ended: left, .. } = *times;
        let in_order = first <= complete && complete <= begun && begun <= left && left <= sent;
        in_order.then_some(Self { first, complete, begun, left, sent, gil })
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        self.first = self.first.wrapping_add(other.first);
        self.complete = self.complete.wrapping_add(other.complete);
        self.begun = self.begun.wrapping_add(other.begun);
        self.left = self.left.wrapping_add(other.left);
        self.sent = self.sent.wrapping_add(other.sent);
        self.gil += other.gil;
    }

    fn parts(&self) -> Parts {
        let waited = self.begun.wrapping_sub(self.complete);
        let gil = self.gil.min(waited);
        Parts {
            receive: self.complete.wrapping_sub(self.first),
            queue: waited - gil,
            gil,
            app: self.left.wrapping_sub(self.begun),
            send: self.sent.wrapping_sub(self.left),
            total: self.sent.wrapping_sub(self.first),
        }
    }
}

/// Nothing is known of a request but what every one has; the application has answered it, and nothing of its reply was
/// offered to the kernel meanwhile.
#[inline]
pub(super) fn is_plain(times: &Times) -> bool {
    let is_other = times.https | times.traced | (times.ending != Ending::Answered);
    times.rare.is_none() && times.reply == 0 && !is_other
}

impl Run {
    /// What those are counted under that are like the last one: the label of their heads, their status, and the place of their
    /// series.
    #[inline]
    pub(super) fn is_under(&self) -> (u64, u16, u16) {
        (self.label, self.status, self.series)
    }
}

impl Statistics {
    /// The replies of a batch are sent: its requests are counted.
    #[inline]
    pub fn are_sent(&mut self) {
        if let Some(block) = &mut self.block {
            block.end_run();
        }
    }

    /// The loop has steps that may block, and nobody else leads meanwhile: each request is counted when it ends.
    pub fn count_at_once(&mut self) {
        if let Some(block) = &mut self.block {
            block.end_run();
            (block.runs, block.run) = (false, Run::default());
        }
    }
}

impl Block {
    /// A request has ended like those before it, and is counted with them. False: it is another, or remarkable.
    #[inline]
    pub(super) fn joins(&mut self, ended: &Counted<'_>, sent: u64) -> bool {
        let (times, run) = (ended.times, &mut self.run);
        if ended.head.label.load(Ordering::Relaxed) != run.label
            || ended.status != run.status
            || !is_plain(times)
            || times.slot == NO_SLOT
        {
            return false;
        }
        let Some(moments) = Moments::of(times, sent) else { return false };
        if sent - moments.first > self.plain || sent >= self.next_trace {
            return false;
        }
        run.slots[run.requests % MOST] = times.slot;
        run.requests += 1;
        run.moments.add(&moments);
        run.last = moments;
        run.written += ended.written;
        if let Framing::Length(received) = ended.head.framing {
            run.received += received;
        }
        let will_be = load(&self.words[META + Meta::Ended as usize]) + run.requests as u64;
        slots::marks(self.words, times.slot, will_be);
        if self.bursts.looks_at_next() {
            self.bursts.see((self.scale, self.words), &moments.parts());
        }
        if self.run.requests == MOST {
            self.count_run();
        }
        true
    }

    /// Counts those that have ended.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if self.run.requests > 0 {
            self.count_run();
        }
    }

    #[inline(never)]
    fn count_run(&mut self) {
        let Run { label, status, series, requests, slots, moments, last, written, received } = self.run;
        self.run = Run { label, status, series, ..Run::default() };
        let (all, count) = (moments.parts(), requests as u64);
        self.bursts.passed(self.words, (&all, &last.parts()));
        // A killed thread has marked their slots before this, and counts none of them before.
        compiler_fence(Ordering::SeqCst);
        series::observe_quick(self.words, series.into(), (all.total, count));
        self.routes.count(self.words, series::route_part(label), (all.app, count));
        self.count(Meta::Ended, count);
        self.count(Meta::Sent, written);
        self.count(Meta::Received, received);
        for slot in slots[..requests.min(MOST)].iter().rev() {
            self.slots.give_back(self.words, *slot);
        }
    }

    /// A request was counted in that series, and the next ones like it are counted together.
    #[inline]
    pub(super) fn begin_run(&mut self, ended: &Counted<'_>, known: Known, parts: &Parts) {
        let label = ended.head.label.load(Ordering::Relaxed);
        if self.runs
            && label & FINAL != 0
            && is_plain(ended.times)
            && !known.failed
            && parts.total <= self.plain
            && known.series != 0
        {
            (self.run.label, self.run.status, self.run.series) = (label, ended.status, known.series);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::Head;

    use super::super::layout::SLOTS;
    use super::super::played::{Worker, head};
    use super::*;

    impl Worker {
        fn serves(&mut self, head: &Head, status: u16, took: u64) {
            self.serves_and_sends(head, status, (took, false));
        }

        /// `sends`: what it has sent before its call has ended.
        fn serves_and_sends(&mut self, head: &Head, status: u16, (took, sends): (u64, bool)) {
            let mut times = self.answers(head, took);
            times.reply = if sends { times.ended } else { 0 };
            assert_eq!(slots::count(self.words), 1, "what has ended is not inside");
            self.counts(head, &times, status);
            let (counted, inside) = self.at_a_kill();
            assert_eq!(counted + inside, self.requests, "counted, or inside");
            assert_eq!(slots::count(self.words), 0);
        }

        fn ended(&self) -> u64 {
            self.of(Meta::Ended)
        }

        /// One that has answered the first two requests of a route, of which the second has made it known.
        fn that_knows() -> (Self, Arc<Head>) {
            let (mut worker, head) = (Self::default(), head("GET /"));
            worker.serves(&head, 200, 1000);
            worker.serves(&head, 200, 1000);
            (worker, head)
        }
    }

    #[test]
    fn so_many_are_counted_at_once_and_fewer_before_the_next_look() {
        for (more, counted) in [(1, 2), (MOST - 1, 2), (MOST, 2 + MOST), (MOST + 1, 2 + MOST)] {
            let (mut worker, head) = Worker::that_knows();
            (0..more).for_each(|_| worker.serves(&head, 200, 1000));
            assert_eq!(worker.ended(), counted as u64, "{more}");
            worker.statistics.looks();
            assert_eq!(worker.ended(), 2 + more as u64, "{more}");
        }
    }

    #[test]
    fn they_are_counted_before_anything_else_is_and_when_another_thread_leads() {
        type Happens<'a> = &'a dyn Fn(&mut Worker, &Head);
        let cases: [(Happens<'_>, u64); 6] = [
            (&|worker, _| worker.statistics.refresh(), 3),
            (&|worker, head| worker.serves(head, 404, 1000), 4),
            (&|worker, head| worker.serves(head, 200, 6_000_000), 4),
            (&|worker, _| worker.serves(&head("GET /other"), 200, 1000), 4),
            (&|worker, _| worker.statistics.refused(None, (false, wire::Version::Http11), 400), 4),
            (&|worker, _| worker.statistics.looks(), 3),
        ];
        for (place, (happens, expected)) in cases.into_iter().enumerate() {
            let (mut worker, head) = Worker::that_knows();
            worker.serves(&head, 200, 1000);
            assert_eq!(worker.ended(), 2, "it waits");
            happens(&mut worker, &head);
            assert_eq!(worker.ended(), expected, "case {place}");
        }
    }

    #[test]
    fn whose_reply_its_client_has_is_counted_at_once() {
        let (mut worker, head) = Worker::that_knows();
        worker.serves(&head, 200, 1000);
        assert_eq!(worker.ended(), 2, "it waits, and so does its reply");
        worker.serves_and_sends(&head, 200, (1000, true));
        assert_eq!(worker.ended(), 4);
        worker.serves_and_sends(&head, 200, (1000, true));
        assert_eq!(worker.ended(), 5);
        worker.serves(&head, 200, 1000);
        worker.statistics.are_sent();
        assert_eq!(worker.ended(), 6, "those of a batch are behind their sends");
    }

    #[test]
    fn where_nobody_else_leads_each_is_counted_when_it_ends() {
        let (mut worker, head) = Worker::that_knows();
        worker.statistics.count_at_once();
        for before in 2..10 {
            assert_eq!(worker.ended(), before);
            worker.serves(&head, 200, 1000);
        }
    }

    #[test]
    fn runs_count_what_is_counted_one_by_one() {
        let mut seed = 7_u64;
        let mut dice = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        for _ in 0..30 {
            let heads = || ["GET /", "POST /orders/7", "GET /orders/8"].map(head);
            let (mut run, mut single) = ((Worker::default(), heads()), (Worker::default(), heads()));
            single.0.statistics.count_at_once();
            let mut which = 0;
            for _ in 0..300 {
                if dice(5) == 0 {
                    which = dice(3) as usize;
                }
                let status = if dice(30) == 0 { 500 } else { 200 };
                let took = if dice(30) == 0 { 7_000_000 } else { dice(100_000) };
                let (looks, sends) = (dice(20) == 0, dice(10) == 0);
                for (worker, heads) in [&mut run, &mut single] {
                    worker.serves_and_sends(&heads[which], status, (took, sends));
                    if looks {
                        worker.statistics.looks();
                    }
                }
            }
            run.0.statistics.looks();
            single.0.statistics.looks();
            // Where they differ: more slots were taken meanwhile.
            let (run, single) = (run.0, single.0);
            let differs = |word: &usize| load(&run.words[*word]) != load(&single.words[*word]);
            assert_eq!(slots::read(run.words, true), [], "all have left their slots");
            let different: Vec<usize> = (0..SLOTS).filter(differs).collect();
            assert_eq!(different, [META + Meta::SlotsUsed as usize]);
            assert_eq!(run.ended(), 300);
        }
    }
}
