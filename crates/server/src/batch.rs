//! A batch: requests that were read together are answered together, and their replies sent
//! together.
//!
//! Knows: what is waiting, and whether waiting is right. Does not know: what the requests ask
//! for. Runs under the baton.
//!
//! The kernel's network code, the engine and the interpreter each fill a processor's first
//! level of cache. Going through them once for each request loads all three each time; going
//! through each of them for a batch of requests does so once a batch (docs/performance.md).
//! Nothing is lost by it: requests that nobody has begun belong to the loop, so that whoever
//! leads goes on with them, and replies wait only while calls are quick. Should one of them
//! not be, the watchdog sends what waits: that of `pool.rs` under the baton, that of
//! `watchdog.rs` beside an event loop, where replies wait in [`Heartbeat`].

use std::collections::VecDeque;
use std::sync::Arc;

use reactor::sys::{monotonic_ns, monotonic_us};

use crate::exchange::Exchange;
use crate::heartbeat::Heartbeat;
use crate::reply::Reply;
use crate::statistics::Ended;

/// How many requests are read before the first is answered.
const MOST: usize = 16;
/// Replies wait for one another only while a call takes no longer than this on average.
const QUICK_NS: u64 = 30_000;
/// Under an event loop or a hub, so many replies wait for one another, ...
const HELD: usize = 8;
/// ... for no longer than this, ...
const HELD_US: u64 = 500;
/// ... and none for a while once one had to wait so long, because a task blocked the loop.
const TOO_LONG_US: u64 = 2000;
/// After a batch that was not quick, so many go by without waiting.
const PATIENCE: u32 = 64;

/// What one loop has read and not sent.
#[derive(Default)]
pub struct Batch {
    requests: VecDeque<Box<Exchange>>,
    replies: Vec<Reply>,
    /// Under an event loop replies wait there, and the other place stays empty.
    heartbeat: Option<Arc<Heartbeat>>,
    /// How many replies wait.
    kept: usize,
    /// What is counted of their requests when they are sent, where statistics are kept: of those that have a connection of
    /// their own, in the same order, and of those that have a stream of one.
    ended: Vec<Ended>,
    ended_streams: Vec<Ended>,
    /// Buffers that were used before.
    buffers: Vec<Vec<u8>>,
    began: u64,
    /// When the first of the replies began to wait, under an event loop.
    held_since: u64,
    size: u32,
    /// Batches that go by before replies may wait again.
    wary: u32,
    /// All that wait are next requests of connections that have just been answered, and nobody has overtaken them.
    all_are_next: bool,
    /// The first has come later than others.
    is_newest_first: bool,
}

impl Batch {
    /// Under an event loop: replies wait where its watchdog finds them.
    pub fn wait_in(&mut self, heartbeat: Arc<Heartbeat>) {
        self.heartbeat = Some(heartbeat);
    }

    /// A request that was read.
    #[inline]
    pub fn add(&mut self, exchange: Box<Exchange>) {
        self.all_are_next = false;
        self.requests.push_back(exchange);
    }

    /// The next request of a connection that has just been answered.
    #[inline]
    pub fn add_next(&mut self, exchange: Box<Exchange>) {
        self.all_are_next |= self.requests.is_empty();
        // It is answered with this batch: how long its calls take is judged by all of them.
        self.size += u32::from(self.size > 1);
        self.requests.push_back(exchange);
    }

    /// The `waiting` oldest are next requests: whoever has come after them goes first. That happens to none of them
    /// twice (`add` sees to it), so that a pipeline goes on beside whatever comes.
    pub fn let_others_first(&mut self, waiting: usize) {
        self.requests.rotate_left(waiting);
    }

    /// How many wait, if all of them are next requests of connections that have just been answered.
    pub fn next_requests(&self) -> usize {
        if self.all_are_next { self.requests.len() } else { 0 }
    }

    /// The next request to be answered.
    #[inline]
    pub fn take(&mut self) -> Option<Box<Exchange>> {
        let mut exchange = self.take_oldest()?;
        self.lend(&mut exchange);
        Some(exchange)
    }

    /// The request at a place, to be looked at.
    pub fn get(&self, place: usize) -> Option<&Exchange> {
        self.requests.get(place).map(|exchange| &**exchange)
    }

    /// The request at a place.
    pub fn at(&mut self, place: usize) -> Option<&mut Exchange> {
        self.requests.get_mut(place).map(|exchange| &mut **exchange)
    }

    /// Takes the request at a place, to be answered now.
    pub fn take_at(&mut self, place: usize) -> Option<Box<Exchange>> {
        let mut exchange = self.requests.remove(place)?;
        self.lend(&mut exchange);
        Some(exchange)
    }

    /// Takes the request at a place, which is not answered here.
    pub fn take_away(&mut self, place: usize) -> Option<Box<Exchange>> {
        self.requests.remove(place)
    }

    /// Puts one back at its place.
    pub fn put_back(&mut self, place: usize, exchange: Box<Exchange>) {
        self.is_newest_first |=
            place == 0 && self.oldest().is_some_and(|next| next.arrived() < exchange.arrived());
        self.requests.insert(place.min(self.requests.len()), exchange);
    }

    /// The request that came last begins next.
    #[cold]
    pub fn put_newest_first(&mut self) {
        if let Some(newest) = self.requests.pop_back() {
            self.put_back(0, newest);
        }
    }

    /// None begins now: the first is the one that came first.
    pub fn put_in_order(&mut self) {
        if std::mem::take(&mut self.is_newest_first) {
            self.requests.make_contiguous().sort_by_key(|exchange| exchange.arrived());
        }
    }

    #[inline]
    fn lend(&mut self, exchange: &mut Exchange) {
        if self.wary == 0 && self.size > 1 {
            exchange.lend_buffer(self.buffers.pop().unwrap_or_default());
        }
    }

    /// The oldest request, which is not begun.
    #[inline]
    pub fn take_oldest(&mut self) -> Option<Box<Exchange>> {
        self.is_newest_first = false;
        self.requests.pop_front()
    }

    /// The request that came last.
    pub fn take_newest(&mut self) -> Option<Box<Exchange>> {
        self.requests.pop_back()
    }

    /// The last request for which something is true.
    pub fn take_last_where(&mut self, is: impl Fn(&Exchange) -> bool) -> Option<Box<Exchange>> {
        let place = self.requests.iter().rposition(|exchange| is(exchange))?;
        self.requests.remove(place)
    }

    /// The oldest request.
    #[inline]
    pub fn oldest(&self) -> Option<&Exchange> {
        self.requests.front().map(|oldest| &**oldest)
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Calls have not been quick: what is taken may have waited.
    #[inline]
    pub fn is_wary(&self) -> bool {
        self.wary > 0
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.requests.len() >= MOST
    }

    pub fn has_replies(&self) -> bool {
        self.kept > 0
    }

    /// All requests of a batch are read: when, in monotonic nanoseconds; zero for a batch of one, which is not timed.
    /// `slow`: the last ones took long each, and these are expected to be alike: nothing waits for them.
    #[inline]
    pub fn begin(&mut self, slow: bool) -> u64 {
        if slow {
            self.wary = PATIENCE;
        }
        self.size = self.requests.len() as u32;
        self.wary = self.wary.saturating_sub(1);
        if self.size <= 1 {
            return 0;
        }
        self.began = monotonic_ns();
        self.began
    }

    /// A finished reply waits.
    #[inline]
    pub fn keep(&mut self, reply: Reply) {
        self.kept += 1;
        match &self.heartbeat {
            Some(heartbeat) => heartbeat.keep(reply),
            None => self.replies.push(reply),
        }
    }

    /// What is counted of requests when their replies are sent.
    #[inline]
    pub fn ended(&mut self, streams: bool) -> &mut Vec<Ended> {
        if streams { &mut self.ended_streams } else { &mut self.ended }
    }

    /// Something is.
    #[inline]
    pub fn any_ended(&self) -> bool {
        !self.ended.is_empty() || !self.ended_streams.is_empty()
    }

    /// Works on the replies that wait.
    fn with_replies<R>(&mut self, work: impl FnOnce(&mut Vec<Reply>) -> R) -> R {
        match &self.heartbeat {
            Some(heartbeat) => heartbeat.replies(work),
            None => work(&mut self.replies),
        }
    }

    /// Sends what waits, as far as the sockets take it, before its time.
    fn send(&mut self) {
        self.with_replies(|replies| replies.iter_mut().for_each(Reply::send_early));
    }

    /// Sends what waits, and takes it out: what becomes of the connections comes next.
    pub fn sent(&mut self) -> Vec<Reply> {
        self.kept = 0;
        self.with_replies(|replies| {
            replies.iter_mut().for_each(Reply::send);
            std::mem::take(replies)
        })
    }

    /// A call takes long: nothing waits for it, nor for those after it for a while.
    pub fn relieve(&mut self) {
        self.wary = PATIENCE;
        self.send();
        for exchange in &self.requests {
            exchange.send_pipelined();
        }
    }

    /// Under an event loop: a reply was kept, or none was. True: those that wait shall be sent.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        match self.kept {
            0 => return false,
            HELD.. => return true,
            _ if self.held_since == 0 => self.held_since = monotonic_us(),
            _ => {}
        }
        monotonic_us() - self.held_since > HELD_US
    }

    /// Judges how quick the calls of the batch were, before its replies are sent.
    pub fn judge(&mut self) {
        if self.heartbeat.is_some() {
            return self.judge_held();
        }
        if self.size > 1 && (monotonic_ns() - self.began) / u64::from(self.size) > QUICK_NS {
            self.wary = PATIENCE;
        }
        self.size = 0;
    }

    /// Under an event loop: replies are about to be sent that have waited since they were held.
    #[inline]
    fn judge_held(&mut self) {
        if self.kept > 0 && monotonic_us() - self.held_since > TOO_LONG_US {
            self.wary = PATIENCE;
        }
        self.held_since = 0;
        self.size = 0;
    }

    /// A buffer can be used again.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.buffers.len() < MOST {
            self.buffers.push(buffer);
        }
    }

    /// The room of replies that were sent is used again.
    pub fn reuse(&mut self, mut replies: Vec<Reply>) {
        self.with_replies(|room| {
            if room.is_empty() {
                std::mem::swap(room, &mut replies);
            }
        });
    }
}
