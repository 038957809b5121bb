//! Requests of one connection whose replies wait for those to the next requests of its pipeline: counted alike, all at once, when
//! these are sent.
//!
//! Knows: what they have in common, and their moments. Does not know: when their replies are sent
//! (`connections/pipelines.rs`), or what is counted of others (`mod.rs`). They are those that a run would take (`run.rs`), which
//! is where it is found what they are counted under. Until they are counted they have died if their worker is killed, as no client
//! has had their replies: how many there are is in one word, with how many of them are being counted, so that it is told at every
//! moment. They have no slots, of which there are a few hundred, as a pipeline may be long.

use std::sync::atomic::Ordering;

use wire::{Framing, Head};

use super::layout::{META, Meta, store};
use super::phase::{Ending, NO_SLOT, Parts, Times};
use super::routes::count_failed;
use super::run::is_plain;
use super::series::Key;
use super::{Block, Counted, FINAL, Statistics, histogram, series, waiting};

/// So many together are a burst (`bursts.rs`).
const MANY: u64 = 8;

/// Those of one connection.
#[derive(Default)]
pub struct Alike {
    /// What their series follows from, and its place.
    label: u64,
    status: u16,
    series: u16,
    requests: Vec<Waiting>,
    /// Content bytes of themselves, and of their replies.
    received: u64,
    written: u64,
}

/// When its application's time ended, in monotonic nanoseconds, and how long before that it had begun to come, was complete, and
/// was begun; how long it waited for the interpreter's lock. Small: a look at the kernel brings thousands of them, between which
/// the caches are for other things. None of them has taken four seconds ([`Block::plain`]).
#[derive(Clone, Copy)]
struct Waiting {
    left: u64,
    first: u32,
    complete: u32,
    begun: u32,
    gil: u32,
}

const _: () = assert!(histogram::BOUNDS[0] <= u32::MAX as u64);

impl Waiting {
    /// How long its phases took, if its reply is sent then.
    #[inline]
    fn parts(&self, sent: u64) -> Parts {
        let mut one = Sum::default();
        one.add(self);
        one.parts(sent)
    }
}

/// The same of several, summed up. Moments may go round: what lies between two is a difference of sums.
#[derive(Default)]
struct Sum {
    left: u64,
    first: u64,
    complete: u64,
    begun: u64,
    gil: u64,
}

impl Sum {
    #[inline]
    fn add(&mut self, one: &Waiting) {
        self.left = self.left.wrapping_add(one.left);
        self.first += u64::from(one.first);
        self.complete += u64::from(one.complete);
        self.begun += u64::from(one.begun);
        self.gil += u64::from(one.gil);
    }

    /// `sent`: as often summed up.
    #[inline]
    fn parts(&self, sent: u64) -> Parts {
        let Self { left, first, complete, begun, gil } = *self;
        let send = sent.wrapping_sub(left);
        Parts {
            receive: first - complete,
            queue: complete - begun - gil,
            gil,
            app: begun,
            send,
            total: send.wrapping_add(first),
        }
    }
}

impl Alike {
    /// When the last of them has ended: they do one after the other.
    #[inline]
    fn newest(&self) -> u64 {
        self.requests.last().map_or(0, |one| one.left)
    }

    /// So many find room without more memory.
    pub fn room(&self) -> usize {
        self.requests.capacity()
    }

    /// Nobody knows for how long they wait.
    #[cold]
    pub fn rest(&mut self) {
        self.requests.shrink_to_fit();
    }
}

impl Statistics {
    /// A request has ended, and its reply waits with those of `alike`. False: it is another, or remarkable.
    #[inline]
    pub fn waits(&mut self, alike: &mut Alike, ended: &Counted<'_>) -> bool {
        let &Counted { head, times, status, written, .. } = ended;
        self.block.as_mut().is_some_and(|block| block.waits(alike, head, times, (status, written)))
    }

    /// A request waits without being named: it is inside, and gives its slot to another.
    #[cold]
    pub fn is_unnamed(&mut self, times: &mut Times) {
        if let Some(block) = &mut self.block
            && times.slot != NO_SLOT
        {
            block.count(Meta::Unnamed, 1);
            block.slots.give_back(block.words, std::mem::replace(&mut times.slot, NO_SLOT));
        }
    }

    /// The replies of these are sent, at that stamp; none is left in `alike`.
    #[inline]
    pub fn settle_alike(&mut self, alike: &mut Alike, sent: u64) {
        self.note(sent);
        if let Some(block) = &mut self.block
            && !alike.requests.is_empty()
        {
            // All of them have ended before, by the same clock.
            block.count_alike(alike, sent.max(alike.newest()));
        }
    }

    /// The client of these is gone, and has not got their replies; none is left in `alike`.
    #[cold]
    pub fn lose_alike(&mut self, alike: &mut Alike, now: u64) {
        self.note(now);
        if let Some(block) = &mut self.block {
            block.lose_alike(alike, now.max(alike.newest()));
        }
    }
}

impl Block {
    // A part of what ends a request: to call it, with its arguments, took 22 instructions more for each.
    #[inline(always)]
    fn waits(
        &mut self,
        alike: &mut Alike,
        head: &Head,
        times: &Times,
        (status, written): (u16, u64),
    ) -> bool {
        let is_first = alike.requests.is_empty();
        if is_first {
            (alike.label, alike.status, alike.series) = self.run.is_under();
        }
        if head.label.load(Ordering::Relaxed) != alike.label || status != alike.status || !is_plain(times) {
            return false;
        }
        let left = times.ended;
        let before = |moment: u64| left.wrapping_sub(moment);
        let (first, complete, begun) = (before(times.first), before(times.complete), before(times.begun));
        // What lies behind its end is before it by more than anything can be.
        let in_order = begun <= complete && complete <= first;
        let count = waiting::count(self.words) + 1;
        if !in_order || first > self.plain || left >= self.next_trace || count > waiting::WAITING {
            return false;
        }
        let gil = times.gil.min(complete - begun) as u32;
        // All of that is shorter than `plain`.
        let (first, complete, begun) = (first as u32, complete as u32, begun as u32);
        alike.requests.push(Waiting { left, first, complete, begun, gil });
        alike.written += written;
        if let Framing::Length(received) = head.framing {
            alike.received += received;
        }
        if is_first {
            store(&self.words[META + Meta::WaitingLabel as usize], alike.label);
        }
        // Its slot says what becomes of it: whoever is killed in between has it there, or here.
        let words = self.words;
        match times.slot {
            NO_SLOT => {
                waiting::set(words, count);
                self.count(Meta::Unnamed, 1_u64.wrapping_neg());
            }
            slot => self.slots.changes_to(words, (slot, count), || waiting::set(words, count)),
        }
        true
    }

    #[inline(never)]
    fn count_alike(&mut self, alike: &mut Alike, sent: u64) {
        self.end_run();
        let (words, count) = (self.words, alike.requests.len() as u64);
        let (Some(first), Some(last)) = (alike.requests.first(), alike.requests.last()) else { return };
        // They came one after the other.
        let (longest, last) = (first.parts(sent).total, last.parts(sent));
        let mut all = Sum::default();
        alike.requests.iter().for_each(|one| all.add(one));
        if longest > self.plain || count > waiting::COUNTED {
            // They have waited for long, as the next request took its time: each has a bucket of its own.
            self.count_each(alike, alike.series, sent);
            return;
        }
        if count >= MANY {
            self.bursts.begin();
        }
        self.bursts.see_some((self.scale, words), &alike.requests, |one| one.parts(sent));
        let all = all.parts(sent.wrapping_mul(count));
        self.bursts.passed(words, (&all, &last));
        waiting::begin_count(words, count);
        series::observe_quick(words, alike.series.into(), (all.total, count));
        self.count(Meta::Ended, count);
        waiting::end_count(words, count);
        self.routes.count(words, series::route_part(alike.label), (all.app, count));
        self.count_content(alike);
        alike.requests.clear();
    }

    #[cold]
    fn count_each(&mut self, alike: &mut Alike, series: u16, sent: u64) {
        let words = self.words;
        for one in alike.requests.drain(..) {
            let parts = one.parts(sent);
            waiting::begin_count(words, 1);
            series::observe(words, series.into(), parts.total);
            self.count(Meta::Ended, 1);
            waiting::end_count(words, 1);
            self.bursts.add((self.scale, words), &parts);
            self.routes.count(words, series::route_part(alike.label), (parts.app, 1));
        }
        self.count_content(alike);
    }

    #[inline]
    fn count_content(&self, alike: &mut Alike) {
        self.count(Meta::Sent, std::mem::take(&mut alike.written));
        self.count(Meta::Received, std::mem::take(&mut alike.received));
    }

    /// They have failed, and nothing is kept of each: their application has answered them.
    #[cold]
    fn lose_alike(&mut self, alike: &mut Alike, now: u64) {
        self.end_run();
        let route = series::route_part(alike.label);
        alike.requests.iter().for_each(|_| count_failed(self.words, route));
        let known = self.known(Key::new(alike.label & !FINAL, 0, alike.status, Ending::ClientGone));
        self.count_each(alike, known.series, now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::Head;

    use super::super::layout::{PHASES, Word, add, load};
    use super::super::played::{Worker, head};
    use super::super::slots;
    use super::*;

    const MS: u64 = 1_000_000;

    /// How many wait that have died, if the worker is killed now.
    fn died(words: &[Word]) -> u64 {
        waiting::died(words, slots::counted(words))
    }

    /// A worker that knows a route by now, and a pipeline for it.
    struct Pipeline {
        worker: Worker,
        head: Arc<Head>,
        alike: Alike,
    }

    impl Pipeline {
        fn new() -> Self {
            let mut pipeline =
                Self { worker: Worker::default(), head: head("GET /"), alike: Alike::default() };
            for _ in 0..2 {
                let times = pipeline.answers();
                pipeline.worker.counts(&pipeline.head, &times, 200);
            }
            pipeline.worker.statistics.looks();
            pipeline
        }

        fn answers(&mut self) -> Times {
            self.worker.answers(&self.head, 1000)
        }

        fn waits(&mut self, times: &Times) -> bool {
            let counted = self.worker.counted(&self.head, times, 200);
            self.worker.statistics.waits(&mut self.alike, &counted)
        }

        /// So many are answered, and their replies wait.
        fn has_waiting(&mut self, requests: u64) {
            for _ in 0..requests {
                let times = self.answers();
                assert!(self.waits(&times));
            }
        }

        /// Their replies are sent so much later.
        fn sends(&mut self, later: u64) {
            let sent = self.worker.now + later;
            self.worker.statistics.settle_alike(&mut self.alike, sent);
        }

        fn words(&self) -> &'static [Word] {
            self.worker.words
        }

        /// How many are counted, and how many have died with it, if it is killed now.
        fn at_a_kill(&self) -> (u64, u64) {
            let (counted, inside) = self.worker.at_a_kill();
            (counted, inside + died(self.words()))
        }

        /// By the ending: how many are counted in series, and for how long they took in all.
        fn in_series(&self, ending: Ending) -> (u64, u64) {
            let of_it = series::read(self.words())
                .filter(|(key, _)| key.is_some_and(|key| key.ending() == ending as u8))
                .map(|(_, series)| (series.count(), series.sum));
            of_it.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
        }
    }

    #[test]
    fn they_have_died_with_their_worker_until_they_are_counted_and_then_not() {
        let mut pipeline = Pipeline::new();
        for waiting in 1..=20 {
            let times = pipeline.answers();
            assert_eq!(pipeline.at_a_kill(), (2, waiting), "it is inside");
            assert_eq!(slots::count(pipeline.words()), 1, "the only one");
            assert!(pipeline.waits(&times));
            assert_eq!(pipeline.at_a_kill(), (2, waiting));
            assert_eq!(slots::count(pipeline.words()), 0, "its application has it no more");
        }
        pipeline.sends(500);
        assert_eq!((pipeline.at_a_kill(), pipeline.worker.of(Meta::Waiting)), ((22, 0), 0));
        let took: u64 = (0..20).map(|before| 1500 + before * 1000).sum();
        assert_eq!(pipeline.in_series(Ending::Answered), (22, took + 2 * 1000), "until they were sent");
        assert_eq!((pipeline.worker.of(Meta::Sent), pipeline.worker.of(Meta::Received)), (22 * 7, 22 * 5));
        assert!(pipeline.alike.requests.is_empty());
    }

    #[test]
    fn a_kill_in_the_midst_of_it_has_counted_them_or_has_not() {
        let mut pipeline = Pipeline::new();
        pipeline.has_waiting(3);
        let block = pipeline.worker.statistics.block.as_mut().expect("statistics");
        let (words, series) = (block.words, usize::from(pipeline.alike.series));
        let kill = || (slots::counted(words), died(words));
        waiting::begin_count(words, 2);
        assert_eq!(kill(), (2, 3));
        series::observe_quick(words, series, (1000, 2));
        assert_eq!(kill(), (4, 1), "in their series");
        block.count(Meta::Ended, 2);
        assert_eq!(kill(), (4, 1));
        waiting::end_count(words, 2);
        assert_eq!(kill(), (4, 1));
        // And as a request is about to wait.
        let slot = block.slots.take(words, &pipeline.head, &Times::default(), (9, 0));
        let inside = || slots::read(words, true).len() as u64 + died(words);
        assert_eq!(inside(), 2);
        block.slots.changes_to(words, (slot, 2), || {
            assert_eq!(inside(), 2);
            waiting::set(words, 2);
            assert_eq!(inside(), 2);
        });
        assert_eq!(inside(), 2);
    }

    #[test]
    fn who_is_another_or_remarkable_does_not_wait_with_them() {
        let mut pipeline = Pipeline::new();
        let times = pipeline.answers();
        assert!(pipeline.waits(&times));
        let others: [&dyn Fn(&mut Times); 5] = [
            &|times| times.https = true,
            &|times| times.reply = times.ended,
            &|times| times.ending = Ending::CutOff,
            &|times| times.rare_mut().cpu = 1,
            &|times| times.ended = times.first + 6 * MS,
        ];
        for (place, changes) in others.into_iter().enumerate() {
            let mut times = pipeline.answers();
            changes(&mut times);
            assert!(!pipeline.waits(&times), "case {place}");
            assert_eq!(slots::count(pipeline.words()), 1, "it is as it was");
            pipeline.worker.counts(&pipeline.head, &times, 200);
        }
        pipeline.head = head("GET /other");
        let times = pipeline.answers();
        assert!(!pipeline.waits(&times), "another route");
        pipeline.worker.now += 1000 * MS;
        let times = pipeline.answers();
        assert!(!pipeline.waits(&times), "it is time for one to be kept");
    }

    #[test]
    fn those_that_have_waited_for_long_have_buckets_of_their_own() {
        for (waited, quick) in [(4, true), (6, false)] {
            let mut pipeline = Pipeline::new();
            pipeline.has_waiting(3);
            pipeline.sends(waited * MS);
            pipeline.worker.statistics.looks();
            assert_eq!(pipeline.at_a_kill(), (5, 0));
            let found = series::read(pipeline.words()).map(|(_, series)| series.buckets[0]).sum::<u64>();
            assert_eq!(found, if quick { 5 } else { 2 }, "{waited} ms");
            let mut send = histogram::Histogram::default();
            send.add(pipeline.words(), super::super::phase::Phase::Send as usize);
            assert_eq!(send.count(), 5);
            let longest = send.quantile(1.0).expect("some");
            assert!(longest.abs_diff(waited * MS) < waited * MS / 8, "{longest}");
            assert!(load(&pipeline.words()[PHASES]) == 0, "nobody came from elsewhere");
        }
    }

    #[test]
    fn those_whose_client_leaves_are_counted_as_that() {
        let mut pipeline = Pipeline::new();
        pipeline.has_waiting(3);
        let now = pipeline.worker.now + MS;
        pipeline.worker.statistics.lose_alike(&mut pipeline.alike, now);
        assert_eq!(pipeline.at_a_kill(), (5, 0));
        assert_eq!(
            (pipeline.in_series(Ending::Answered).0, pipeline.in_series(Ending::ClientGone).0),
            (2, 3)
        );
        assert!(pipeline.alike.requests.is_empty());
    }

    #[test]
    fn whoever_goes_round_is_told_from_whoever_has_not_been_counted() {
        let mut pipeline = Pipeline::new();
        let ended = &pipeline.words()[META + Meta::Ended as usize];
        store(ended, waiting::WILL_BE - 1);
        pipeline.has_waiting(4);
        waiting::begin_count(pipeline.words(), 4);
        assert_eq!(died(pipeline.words()), 4);
        add(ended, 4);
        assert_eq!(died(pipeline.words()), 0);
    }
}
