//! Requests of one connection whose replies wait for those to the next requests of its pipeline: counted alike, all at once, when
//! these are sent.
//!
//! Knows: what they have in common, and their moments. Does not know: when their replies are sent
//! (`connections/pipelines.rs`), or what is counted of others (`mod.rs`). They are those that a run would take (`run.rs`), which
//! is where it is found what they are counted under. Until they are counted they have died if their worker is killed, as no client
//! has had their replies: how many there are is in one word, with how many of them are being counted, so that it is told at every
//! moment. They have no slots, of which there are a few hundred, as a pipeline may be long.

use std::sync::atomic::Ordering;

use wire::Framing;

use super::layout::{META, Meta, store};
use super::phase::{Ending, NO_SLOT, Parts, Times};
use super::routes::Routes;
use super::run::is_plain;
use super::series::Key;
use super::slots::Slots;
use super::{Block, Counted, FINAL, Statistics, series, waiting};

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
    /// Content bytes of themselves.
    received: u64,
}

/// When what began of one, or, summed up, of several, in monotonic nanoseconds; how long it waited for the interpreter's lock; content bytes of its reply.
#[derive(Default)]
struct Waiting {
    first: u64,
    complete: u64,
    begun: u64,
    left: u64,
    gil: u64,
    written: u64,
}

impl Waiting {
    /// How long its phases took, if its reply is sent then.
    #[inline]
    fn parts(&self, sent: u64) -> Parts {
        let Self { first, complete, begun, left, gil, .. } = *self;
        Parts {
            receive: complete.wrapping_sub(first),
            queue: begun.wrapping_sub(complete).wrapping_sub(gil),
            gil,
            app: left.wrapping_sub(begun),
            send: sent.wrapping_sub(left),
            total: sent.wrapping_sub(first),
        }
    }

    /// The sum of both: what lies between is a difference of sums, however often these have gone round.
    #[inline]
    fn add(&mut self, other: &Self) {
        self.first = self.first.wrapping_add(other.first);
        self.complete = self.complete.wrapping_add(other.complete);
        self.begun = self.begun.wrapping_add(other.begun);
        self.left = self.left.wrapping_add(other.left);
        self.gil = self.gil.wrapping_add(other.gil);
        self.written = self.written.wrapping_add(other.written);
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
        self.block.as_mut().is_some_and(|block| block.waits(alike, ended))
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
    #[inline]
    fn waits(&mut self, alike: &mut Alike, ended: &Counted<'_>) -> bool {
        let is_first = alike.requests.is_empty();
        if is_first {
            (alike.label, alike.status, alike.series) = self.run.is_under();
        }
        let times = ended.times;
        if ended.head.label.load(Ordering::Relaxed) != alike.label
            || ended.status != alike.status
            || !is_plain(times)
        {
            return false;
        }
        let (first, complete, begun, left) = (times.first, times.complete, times.begun, times.ended);
        let in_order = first <= complete && complete <= begun && begun <= left;
        let count = waiting::count(self.words) + 1;
        if !in_order || left - first > self.plain || left >= self.next_trace || count > waiting::WAITING {
            return false;
        }
        let gil = times.gil.min(begun - complete);
        alike.requests.push(Waiting { first, complete, begun, left, gil, written: ended.written });
        if let Framing::Length(received) = ended.head.framing {
            alike.received += received;
        }
        if is_first {
            store(&self.words[META + Meta::WaitingLabel as usize], alike.label);
        }
        // Its slot says what becomes of it: whoever is killed in between has it there, or here.
        Slots::waits(self.words, times.slot, count);
        waiting::set(self.words, count);
        self.leave(times.slot);
        true
    }

    #[inline(never)]
    fn count_alike(&mut self, alike: &mut Alike, sent: u64) {
        self.end_run();
        let (words, count) = (self.words, alike.requests.len() as u64);
        let Some(last) = alike.requests.last().map(|one| one.parts(sent)) else { return };
        let (mut all, mut oldest) = (Waiting::default(), u64::MAX);
        for one in &alike.requests {
            all.add(one);
            oldest = oldest.min(one.first);
        }
        if sent.saturating_sub(oldest) > self.plain || count > waiting::COUNTED {
            // They have waited for long, as the next request took its time: each has a bucket of its own.
            self.count_each(alike, alike.series, sent);
            return;
        }
        if count >= MANY {
            self.bursts.begin();
        }
        for one in &alike.requests {
            if self.bursts.looks_at_next() {
                self.bursts.see((self.scale, words), &one.parts(sent));
            }
        }
        let (written, all) = (all.written, all.parts(sent.wrapping_mul(count)));
        self.bursts.passed(words, (&all, &last));
        waiting::begin_count(words, count);
        series::observe_quick(words, alike.series.into(), (all.total, count));
        self.count(Meta::Ended, count);
        waiting::end_count(words, count);
        self.routes.count(words, series::route_part(alike.label), (all.app, count));
        self.count(Meta::Sent, written);
        self.count(Meta::Received, std::mem::take(&mut alike.received));
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
            self.count(Meta::Sent, one.written);
        }
        self.count(Meta::Received, std::mem::take(&mut alike.received));
    }

    /// They have failed, and nothing is kept of each: their application has answered them.
    #[cold]
    fn lose_alike(&mut self, alike: &mut Alike, now: u64) {
        self.end_run();
        let route = series::route_part(alike.label);
        alike.requests.iter().for_each(|_| Routes::count_failed(self.words, route));
        let known = self.known(Key::new(alike.label & !FINAL, 0, alike.status, Ending::ClientGone));
        self.count_each(alike, known.series, now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::{Event, Head, Http1, Limits, Policy, Shared};

    use super::super::layout::{PHASES, STRIDE, Word, add, load};
    use super::super::{histogram, slots};
    use super::*;
    use crate::engine::Config;
    use crate::log::Log;

    const MS: u64 = 1_000_000;

    /// How many wait that have died, if the worker is killed now.
    fn died(words: &[Word]) -> u64 {
        waiting::died(words, slots::counted(words))
    }

    fn head(request: &str) -> Arc<Head> {
        let mut shared = Shared::new(Limits::default(), Policy::default());
        let text = format!("{request} HTTP/1.1\r\nHost: a\r\nX-Large: abc\r\nContent-Length: 5\r\n\r\n");
        match Http1::new(0, 0).advance(&mut text.as_bytes(), &mut shared, 0) {
            Event::Request(head) => head,
            _ => panic!("no request: {request}"),
        }
    }

    /// A worker that knows a route by now.
    struct Worker {
        statistics: Statistics,
        words: &'static [Word],
        head: Arc<Head>,
        alike: Alike,
        requests: u64,
        now: u64,
    }

    impl Worker {
        fn new() -> Self {
            let words: Vec<Word> = (0..STRIDE).map(|_| Word::new(0)).collect();
            let words: &'static [Word] = words.leak();
            let config = Config { statistics: Some(words), ..Config::default() };
            let statistics = Statistics::new(&config, &Log::none());
            let (head, alike) = (head("GET /"), Alike::default());
            let mut worker = Self { statistics, words, head, alike, requests: 0, now: 1 };
            for _ in 0..2 {
                let times = worker.answers();
                worker.counts(&times);
            }
            worker.statistics.looks();
            worker
        }

        fn answers(&mut self) -> Times {
            let mut times = Times::default();
            self.statistics.note(self.now);
            self.statistics.arrived(&mut times, 0);
            self.requests += 1;
            self.statistics.begin(&self.head, &mut times, (self.requests, 0));
            self.now += 1000;
            times.ended = self.now;
            times
        }

        fn counted<'a>(&self, head: &'a Head, times: &'a Times) -> Counted<'a> {
            Counted { head, times, number: self.requests, written: 7, status: 200 }
        }

        fn counts(&mut self, times: &Times) {
            let head = Arc::clone(&self.head);
            let counted = self.counted(&head, times);
            self.statistics.settle_now(&counted);
        }

        fn waits(&mut self, times: &Times) -> bool {
            let head = Arc::clone(&self.head);
            let counted = self.counted(&head, times);
            self.statistics.waits(&mut self.alike, &counted)
        }

        /// How many are counted, and how many have died with it, if it is killed now.
        fn at_a_kill(&self) -> (u64, u64) {
            (slots::counted(self.words), slots::read(self.words, true).len() as u64 + died(self.words))
        }

        fn of(&self, what: Meta) -> u64 {
            load(&self.words[META + what as usize])
        }

        /// By the ending: how many are counted in series, and for how long they took in all.
        fn in_series(&self, ending: Ending) -> (u64, u64) {
            let of_it = series::read(self.words)
                .filter(|(key, _)| key.is_some_and(|key| key.ending() == ending as u8))
                .map(|(_, series)| (series.count(), series.sum));
            of_it.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
        }
    }

    #[test]
    fn they_have_died_with_their_worker_until_they_are_counted_and_then_not() {
        let mut worker = Worker::new();
        for waiting in 1..=20 {
            let times = worker.answers();
            assert_eq!(worker.at_a_kill(), (2, waiting), "it is inside");
            assert_eq!(slots::count(worker.words), 1, "the only one");
            assert!(worker.waits(&times));
            assert_eq!(worker.at_a_kill(), (2, waiting));
            assert_eq!(slots::count(worker.words), 0, "its application has it no more");
        }
        let sent = worker.now + 500;
        worker.statistics.settle_alike(&mut worker.alike, sent);
        assert_eq!((worker.at_a_kill(), worker.of(Meta::Waiting)), ((22, 0), 0));
        let took: u64 = (0..20).map(|before| 1500 + before * 1000).sum();
        assert_eq!(worker.in_series(Ending::Answered), (22, took + 2 * 1000), "until they were sent");
        assert_eq!((worker.of(Meta::Sent), worker.of(Meta::Received)), (22 * 7, 22 * 5));
        assert!(worker.alike.requests.is_empty());
    }

    #[test]
    fn a_kill_in_the_midst_of_it_has_counted_them_or_has_not() {
        let mut worker = Worker::new();
        for _ in 0..3 {
            let times = worker.answers();
            assert!(worker.waits(&times));
        }
        let block = worker.statistics.block.as_mut().expect("statistics");
        let (words, series) = (block.words, usize::from(worker.alike.series));
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
        let slot = block.slots.take(words, &worker.head, &Times::default(), (9, 0));
        let inside = || slots::read(words, true).len() as u64 + died(words);
        assert_eq!(inside(), 2);
        Slots::waits(words, slot, 2);
        assert_eq!(inside(), 2);
        store(&words[META + Meta::Waiting as usize], 2);
        assert_eq!(inside(), 2);
        block.leave(slot);
        assert_eq!(inside(), 2);
    }

    #[test]
    fn who_is_another_or_remarkable_does_not_wait_with_them() {
        let mut worker = Worker::new();
        let times = worker.answers();
        assert!(worker.waits(&times));
        let others: [&dyn Fn(&mut Times); 5] = [
            &|times| times.https = true,
            &|times| times.reply = times.ended,
            &|times| times.ending = Ending::CutOff,
            &|times| times.rare_mut().cpu = 1,
            &|times| times.ended = times.first + 6 * MS,
        ];
        for (place, changes) in others.into_iter().enumerate() {
            let mut times = worker.answers();
            changes(&mut times);
            assert!(!worker.waits(&times), "case {place}");
            assert_eq!(slots::count(worker.words), 1, "it is as it was");
            worker.counts(&times);
        }
        worker.head = head("GET /other");
        let times = worker.answers();
        assert!(!worker.waits(&times), "another route");
        worker.now += 1000 * MS;
        let times = worker.answers();
        assert!(!worker.waits(&times), "it is time for one to be kept");
    }

    #[test]
    fn those_that_have_waited_for_long_have_buckets_of_their_own() {
        for (waited, quick) in [(4, true), (6, false)] {
            let mut worker = Worker::new();
            for _ in 0..3 {
                let times = worker.answers();
                assert!(worker.waits(&times));
            }
            let sent = worker.now + waited * MS;
            worker.statistics.settle_alike(&mut worker.alike, sent);
            worker.statistics.looks();
            assert_eq!(worker.at_a_kill(), (5, 0));
            let found = series::read(worker.words).map(|(_, series)| series.buckets[0]).sum::<u64>();
            assert_eq!(found, if quick { 5 } else { 2 }, "{waited} ms");
            let mut send = histogram::Histogram::default();
            send.add(worker.words, super::super::phase::Phase::Send as usize);
            assert_eq!(send.count(), 5);
            let longest = send.quantile(1.0).expect("some");
            assert!(longest.abs_diff(waited * MS) < waited * MS / 8, "{longest}");
            assert!(load(&worker.words[PHASES]) == 0, "nobody came from elsewhere");
        }
    }

    #[test]
    fn those_whose_client_leaves_are_counted_as_that() {
        let mut worker = Worker::new();
        for _ in 0..3 {
            let times = worker.answers();
            assert!(worker.waits(&times));
        }
        let now = worker.now + MS;
        worker.statistics.lose_alike(&mut worker.alike, now);
        assert_eq!(worker.at_a_kill(), (5, 0));
        assert_eq!((worker.in_series(Ending::Answered).0, worker.in_series(Ending::ClientGone).0), (2, 3));
        assert!(worker.alike.requests.is_empty());
    }

    #[test]
    fn whoever_goes_round_is_told_from_whoever_has_not_been_counted() {
        let mut worker = Worker::new();
        let ended = &worker.words[META + Meta::Ended as usize];
        store(ended, waiting::WILL_BE - 1);
        for _ in 0..4 {
            let times = worker.answers();
            assert!(worker.waits(&times));
        }
        waiting::begin_count(worker.words, 4);
        assert_eq!(died(worker.words), 4);
        add(ended, 4);
        assert_eq!(died(worker.words), 0);
    }
}
