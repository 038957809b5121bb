//! Statistics: what a worker counts and times of its requests, in memory that it shares with whoever looks.
//!
//! Knows: the worker's own block, the time of the loop's last stamp, and what is written when. Does not know: who reads
//! (`snapshot.rs`), or HTTP. Runs under the baton, on an event loop's thread: there is one writer, so that no instruction
//! is locked, and what is written is there though the worker dies the next moment.
//!
//! Stamps are few: one for each look at the kernel, each end of a call, where the next one begins, and each parcel of replies.

pub mod alike;
pub mod bell;
mod bursts;
pub mod carried;
pub mod condition;
pub mod histogram;
mod kept;
pub mod known_routes;
pub mod layout;
pub mod long_calls;
mod patterns;
pub mod phase;
mod places;
#[cfg(test)]
pub mod played;
pub mod records;
pub mod routes;
mod run;
mod sampling;
pub mod segment;
pub mod series;
pub mod slots;
pub mod snapshot;
pub mod spans;
pub mod step_clock;
pub mod stood;
pub mod totals;
mod upstream;
pub mod waiting;

use std::sync::{Arc, atomic::Ordering};

use reactor::sys::{monotonic_ns, wall_us};
use wire::{Framing, Head, Version};

use self::bursts::Bursts;
use self::histogram::Scale;
use self::layout::{META, Meta, Word, add, store};
use self::phase::{Ending, Parts, Phase, Rare, Times};
use self::places::{Routes, is_refusal};
use self::run::Run;
use self::sampling::Sampling;
use self::series::Key;
use self::slots::Slots;
use crate::engine::Config;
use crate::log::Log;
use crate::request_id::{RequestId, RequestIds};
use crate::slow_requests::{SlowRequests, Whose};
use crate::tracing::Tracing;

/// A label in which the route is the last word: it is not looked for again.
const FINAL: u64 = 1 << 47;
const ROUTE: u32 = 48;
/// Series whose places are remembered: a worker has few at a time.
const KNOWN: usize = 16;

/// What is counted of an exchange that is over.
pub struct Counted<'a> {
    pub head: &'a Head,
    pub times: &'a Times,
    /// Which request of its worker it was.
    pub number: u64,
    /// Content bytes of the reply.
    pub written: u64,
    pub status: u16,
}

/// The same, where the reply waits to be sent.
pub struct Ended {
    pub head: Arc<Head>,
    pub times: Times,
    pub number: u64,
    pub written: u64,
    pub status: u16,
}

impl Ended {
    #[inline]
    pub fn counted(&self) -> Counted<'_> {
        let Self { head, times, number, written, status } = self;
        Counted { head, times, number: *number, written: *written, status: *status }
    }

    /// It is counted elsewhere: nothing is left of it here.
    #[cold]
    pub fn take(&mut self) -> Self {
        Self { head: Arc::clone(&self.head), times: std::mem::take(&mut self.times), ..*self }
    }
}

/// A loop's statistics, and its stamps.
pub struct Statistics {
    block: Option<Box<Block>>,
    /// The newest stamp, in monotonic nanoseconds.
    stamp: u64,
    /// That of the last look at the kernel.
    looked: u64,
    /// How long the thread that looked then waited for the interpreter.
    gil: u64,
    slow: Arc<SlowRequests>,
}

/// Where a worker writes.
struct Block {
    words: &'static layout::Block,
    scale: &'static Scale,
    slots: Slots,
    routes: Routes,
    sampling: Sampling,
    bursts: Bursts,
    /// Those that are counted together, where any are.
    run: Run,
    runs: bool,
    /// Up to so many nanoseconds a request is like any other, and from so many on it may be remarkable, by its path.
    plain: u64,
    slow: u64,
    requests: Arc<SlowRequests>,
    log: Log,
    next_trace: u64,
    /// How requests are named, which of them are recorded, and where their spans are left.
    ids: Option<RequestIds>,
    tracing: Option<(Tracing, Arc<spans::Writer>)>,
    /// Series that were counted lately.
    known: [Known; KNOWN],
}

/// A series that was counted lately.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Its key's number, zero: none yet; and its place.
    key: u64,
    series: u16,
    /// Its requests are remarkable.
    failed: bool,
}

impl Statistics {
    pub fn new(config: &Config, log: &Log) -> Self {
        let whose = match (config.stepwise, config.evented) {
            (false, _) => Whose::Thread,
            (true, false) => Whose::Greenlet,
            (true, true) => Whose::Task,
        };
        let slow = Arc::new(SlowRequests::new(config.slow_after.clone(), config.statistics, whose));
        let block = config.statistics.and_then(|words| words.first_chunk()).map(|words| {
            if let Some(ids) = &config.request_id {
                let [upper, seed] = ids.unique().parts();
                store(&words[META + Meta::NamesUpper as usize], upper);
                store(&words[META + Meta::NamesSeed as usize], seed);
            }
            let remarkable = config.slow_after.least();
            Box::new(Block {
                words,
                scale: histogram::scale(),
                slots: Slots::default(),
                routes: Routes::default(),
                sampling: Sampling::default(),
                bursts: Bursts::default(),
                log: log.clone(),
                requests: Arc::clone(&slow),
                run: Run::default(),
                runs: true,
                plain: histogram::BOUNDS[0].min(remarkable - 1),
                slow: remarkable,
                next_trace: 0,
                ids: config.request_id.clone(),
                tracing: config.tracing.zip(config.spans.clone()),
                known: [Known::default(); KNOWN],
            })
        });
        Self { block, stamp: 0, looked: 0, gil: 0, slow }
    }

    /// What is known of requests that take long.
    pub fn slow(&self) -> Arc<SlowRequests> {
        Arc::clone(&self.slow)
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.block.is_some()
    }

    /// The newest stamp.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The kernel is about to be asked what has happened.
    #[inline]
    pub fn looks(&mut self) {
        if let Some(block) = &mut self.block {
            block.end_run();
            block.bursts.end((block.scale, block.words));
        }
    }

    /// The kernel has just been asked what has happened.
    #[inline]
    pub fn looked(&mut self) {
        if self.is_on() {
            self.stamp = monotonic_ns();
            self.looked = self.stamp;
            self.gil = 0;
        }
    }

    /// Time has passed of which no stamp tells, as a call takes long: another thread leads now.
    pub fn refresh(&mut self) {
        if let Some(block) = &mut self.block {
            self.stamp = self.stamp.max(monotonic_ns());
            block.end_run();
        }
    }

    /// A stamp that somebody else has taken.
    #[inline]
    pub fn note(&mut self, stamp: u64) {
        self.stamp = self.stamp.max(stamp);
    }

    /// The thread that leads has had the interpreter since then.
    #[inline]
    fn back(&mut self, at: u64) {
        if at > self.looked && self.gil == 0 {
            self.gil = at - self.looked;
            self.note(at);
        }
    }

    /// A request is complete. `first`: the stamp of its first byte; zero: it came with an earlier one.
    #[inline]
    pub fn arrived(&self, times: &mut Times, first: u64) {
        times.complete = self.stamp;
        times.first = if first == 0 { self.stamp } else { first };
    }

    /// A trusted proxy says when it has had a request.
    #[cold]
    pub fn came_by(&self, times: &mut Times, said: &[u8]) {
        let since = monotonic_ns().saturating_sub(times.first) / 1000;
        match upstream::waited(said, wall_us().saturating_sub(since)) {
            Some(us) => times.rare_mut().upstream = us * 1000,
            None => self.block.iter().for_each(|block| block.count(Meta::ClockSkew, 1)),
        }
    }

    /// A request is begun now, on this thread, which has had the interpreter since `back`. `number`: which of its worker's
    /// it is.
    #[inline]
    pub fn begin(&mut self, head: &Head, times: &mut Times, (number, back): (u64, u64)) {
        if !self.is_on() {
            return;
        }
        self.back(back);
        let Some(block) = &mut self.block else { return };
        let label = head.label.load(Ordering::Relaxed);
        if times.begun != 0 {
            // It was given out before, and put back.
            block.leave(times.slot);
        }
        times.begun = self.stamp;
        if times.complete == self.looked {
            times.gil = self.gil;
        }
        let is_long = || block.routes.is_long(series::route_part(label));
        times.measures = block.sampling.takes(self.stamp, is_long);
        times.weighs = times.measures && block.sampling.weighs(self.stamp);
        times.slot = block.slots.take(block.words, head, times, (number, label));
        if times.slot == phase::NO_SLOT {
            block.count(Meta::Unnamed, 1);
        }
        if let Some(id) = block.given_id(times, number) {
            Slots::is_named(block.words, times.slot, &id);
        }
    }

    /// A request that was given out, and put back, goes to another worker: it is inside no more.
    #[cold]
    pub fn forget(&mut self, times: &mut Times) {
        if let (Some(block), true) = (&mut self.block, times.begun != 0) {
            block.leave(times.slot);
            (times.begun, times.slot) = (0, phase::NO_SLOT);
        }
    }

    /// A request has ended, and the kernel has had the last of its reply at that stamp.
    #[inline]
    pub fn settle(&mut self, ended: &Counted<'_>, sent: u64) {
        self.note(sent);
        if let Some(block) = &mut self.block
            && !block.joins(ended, sent)
        {
            block.settle(ended, sent);
        }
    }

    /// The same for a request whose reply the kernel had when its call ended.
    #[inline]
    pub fn settle_now(&mut self, ended: &Counted<'_>) {
        let sent = if ended.times.ended == 0 { monotonic_ns() } else { ended.times.ended };
        self.settle(ended, sent);
    }

    /// Something was refused that was no request, or of which nothing is known but its head. Where that is not known
    /// either, it is what is spoken there.
    #[cold]
    pub fn refused(&mut self, head: Option<&Head>, (https, version): (bool, Version), status: u16) {
        let Some(block) = &mut self.block else { return };
        block.end_run();
        let said =
            head.map_or_else(|| series::of_nobody(version, https), |head| series::of_head(head, https));
        let key = Key::new(said, 0, status, Ending::Refused);
        let known = block.known(key);
        series::observe(block.words, known.series.into(), 0);
        block.count(Meta::Ended, 1);
    }
}

impl Block {
    #[inline]
    fn count(&self, what: Meta, count: u64) {
        add(&self.words[META + what as usize], count);
    }

    fn observe(&self, phase: Phase, ns: u64) {
        histogram::sum(self.words, phase, ns);
        histogram::count(self.scale, self.words, phase, (ns, 1));
    }

    /// What names a request, where that does not follow from its number.
    #[inline]
    fn given_id<'a>(&self, times: &'a Times, number: u64) -> Option<RequestId<'a>> {
        let ids = self.ids.as_ref().filter(|_| times.rare.is_some())?;
        Some(times.id(ids, self.tracing.as_ref().map(|(tracing, _)| tracing), number))
    }

    #[inline(never)]
    fn settle(&mut self, ended: &Counted<'_>, sent: u64) {
        self.end_run();
        let times = ended.times;
        if times.begun != 0 {
            Slots::settles(self.words, times.slot);
        }
        let parts = times.parts(sent);
        let label = self.label(ended);
        let label = if times.https { series::by_https(label) } else { label };
        let key = Key::new(label, 0, ended.status, times.ending);
        let known = self.known(key);
        series::observe(self.words, known.series.into(), parts.total);
        let route = series::route_part(label);
        if times.begun != 0 {
            self.bursts.add((self.scale, self.words), &parts);
            self.routes.count(self.words, route, (parts.app, 1));
        } else {
            self.settle_unbegun(&parts, times.ending);
        }
        let mut reached = parts.total;
        if let Some(rare) = &times.rare {
            reached = self.settle_rare(times, rare, (&parts, route));
        }
        if times.has_trace() {
            self.trace(ended, &parts, (route, series::is_https(label)));
        }
        self.count(Meta::Ended, 1);
        self.count(Meta::Sent, ended.written);
        if let Framing::Length(received) = ended.head.framing {
            self.count(Meta::Received, received);
        }
        if known.failed || sent >= self.next_trace || self.is_slow(ended.head, reached) {
            self.keep(ended, (sent, reached), (known, route));
        }
        // The last word: until then it was inside, also when the worker dies meanwhile.
        if times.begun != 0 {
            self.leave(times.slot);
            self.begin_run(ended, known, &parts);
        }
    }

    /// A request that no application has seen: it was refused, or the server has answered it.
    #[cold]
    fn settle_unbegun(&self, parts: &Parts, ending: Ending) {
        self.observe(Phase::Receive, parts.receive);
        self.observe(Phase::Send, parts.send);
        self.observe(Phase::Total, parts.total);
        if ending != Ending::Answered {
            self.observe(Phase::Queue, parts.queue);
        }
    }

    /// What few requests have. Nanoseconds until its client has had something: a reply that goes on for long has been
    /// there since its first part.
    fn settle_rare(&mut self, times: &Times, rare: &Rare, (parts, route): (&Parts, u16)) -> u64 {
        if rare.upstream > 0 {
            self.observe(Phase::Upstream, rare.upstream);
        }
        if let Some((cpu, off)) = parts.processor(rare.cpu) {
            self.observe(Phase::Cpu, cpu);
            self.observe(Phase::Off, off);
            routes::count_measured(self.words, route, (parts.app, cpu));
        }
        routes::count_weighed(self.words, route, rare.weighed);
        if rare.started == 0 { parts.total } else { rare.started.saturating_sub(times.first) }
    }

    /// Where the series of a key is.
    #[inline]
    fn known(&mut self, key: Key) -> Known {
        let known = self.known[key.spread() % KNOWN];
        if known.key == key.number() { known } else { self.find(key) }
    }

    /// The same, for one that was not counted lately.
    #[inline(never)]
    fn find(&mut self, key: Key) -> Known {
        let place = series::place(self.words, key);
        if place == 0 {
            self.count(Meta::Overflow, 1);
        }
        let failed = key.status() >= 500 || key.ending() != Ending::Answered as u8;
        let known = Known { key: key.number(), series: place as u16, failed };
        if place != 0 {
            self.known[key.spread() % KNOWN] = known;
        }
        known
    }

    /// A request is inside no more.
    #[inline]
    fn leave(&mut self, slot: u16) {
        if slot == phase::NO_SLOT {
            self.count(Meta::Unnamed, 1_u64.wrapping_neg());
        }
        self.slots.give_back(self.words, slot);
    }

    /// What a series is told apart by, as far as it follows from the head: the route, once it is known.
    #[inline]
    fn label(&mut self, ended: &Counted<'_>) -> u64 {
        let known = ended.head.label.load(Ordering::Relaxed);
        if known & FINAL != 0 { known & !FINAL } else { self.find_label(ended) }
    }

    /// Looks for it, where it is not known for this head: heads that differ may have a route in common.
    #[inline(never)]
    fn find_label(&mut self, ended: &Counted<'_>) -> u64 {
        let known = ended.head.label.load(Ordering::Relaxed);
        let head = series::of_head(ended.head, series::is_https(known));
        let key = Key::new(head, 0, 0, Ending::Answered);
        let method = (key.method_place(), key.method());
        let place = match &ended.times.rare().route {
            Some(told) => Some(self.routes.told(self.words, method, told)),
            // No application has seen it.
            None if ended.times.begun == 0 => None,
            None => self.routes.of_path(self.words, method, (ended.head.path(), is_refusal(ended.status))),
        };
        let label = head | u64::from(place.unwrap_or(0)) << ROUTE;
        ended.head.label.store(if place.is_some() { label | FINAL } else { label }, Ordering::Relaxed);
        label
    }
}

/// How a head came, which is kept with it: heads from connections that differ in that are never shared.
#[cold]
pub fn comes_by(head: &Head, https: bool) {
    head.label.store(series::of_head(head, https), Ordering::Relaxed);
}

/// Nothing is known of how a head came.
#[inline]
pub fn is_new(head: &Head) -> bool {
    head.label.load(Ordering::Relaxed) == 0
}

/// The route that a request is counted for, or will be; none for what was refused. `words`: of its worker.
pub fn route_of(words: Option<&[Word]>, head: &Head, told: Option<&str>, status: u16) -> Option<String> {
    let place = (head.label.load(Ordering::Relaxed) >> ROUTE) as u16 & 0x7fff;
    let known = || routes::read(words?, usize::from(place)).filter(|_| place != 0).map(|route| route.name);
    match told {
        Some(told) => Some(format!("{} {told}", String::from_utf8_lossy(head.method()))),
        None => {
            known().or_else(|| (!is_refusal(status)).then(|| routes::template(head.method(), head.path())))
        }
    }
}

/// Whether a framework is asked for the route of a head: it is not known for good.
#[inline]
pub fn wants_route(head: &Head) -> bool {
    head.label.load(Ordering::Relaxed) & FINAL == 0
}
