//! Requests between their arrival and the end of their reply: read and not begun, finished and not sent.
//!
//! Knows: whose turn it is, and which replies wait for which. Does not know: who answers, or where connections come
//! from. Runs under the baton.

mod computing;
mod express;
mod given;
mod held;
mod named_requests;
mod native_requests;
mod queue;
mod settled;
mod turns;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use reactor::sys::{monotonic_ns, unbox};
use wire::Millis;

use self::computing::Line;
use self::express::Told;
pub(crate) use self::given::LEAVES_AFTER_MS;
use self::settled::{settle, wait};
use crate::batch::Batch;
use crate::connection::{After, Phase};
use crate::connections::Connections;
use crate::engine::Engine;
use crate::exchange::{Back, Exchange};
use crate::files::Files;
use crate::heartbeat::Heartbeat;
use crate::inbox::Inbox;
use crate::lanes::{ByHand, End, Lanes, Queues};
use crate::poller::Poller;
use crate::probes::Probes;
use crate::reply::Reply;
use crate::statistics::phase::Ending;
use crate::throughput::Throughput;

/// A call is slow where somebody has looked so long after it was begun, and it had not come back. Coarse, as the loop's
/// clock is.
const LATE_MS: Millis = 5;

/// The requests of one loop.
pub(crate) struct Requests {
    engine: Arc<Engine>,
    /// Requests that nobody has begun, and replies of the same batch that have not been sent.
    batch: Batch,
    /// Finished exchanges that have not been looked at.
    finished: VecDeque<Box<Exchange>>,
    /// Requests of streams whose connections have their share of threads (`held.rs`).
    held: VecDeque<Box<Exchange>>,
    /// Those that compute and wait for one that does (`computing.rs`).
    computing: Line<Box<Exchange>>,
    throughput: Throughput,
    lanes: Lanes,
    /// Requests that are not known to be quick and wait, and how fast the slow ones are done.
    lined_up: Queues<Box<Exchange>>,
    slow_throughput: Throughput,
    /// And those that take much longer than other slow ones.
    long_throughput: Throughput,
    /// And how fast those below each limit are, by its place.
    limited_throughput: Vec<Throughput>,
    /// Which end of the front the last one was taken from that began while its oldest had waited for too long.
    front_end: End,
    /// Whose request the last one was that began at the front, where clients take turns.
    front_share: u8,
    told: Told,
    /// Up to which news it has heard of routes that compute for long with other workers.
    long_calls_heard: u64,
    /// When it was said who waits; none: that nobody does.
    said_to_wait: Option<Millis>,
    /// When somebody was chosen the last time, in microseconds, while there are lanes.
    chosen_us: u64,
    /// Files that are served before the application is asked, where there are any.
    files: Option<Box<Files>>,
    /// Probes that are answered before the application is asked, where there are any.
    probes: Option<Box<Probes>>,
    /// There are either.
    natively: bool,
    /// Among those that wait may be some for files, or probes.
    unjudged: bool,
    /// Requests that files were the answer to, or probes, since the driver's other work was thought of.
    natively_answered: u32,
    /// Exchanges that were answered with a file of the disk (`named_requests.rs`).
    named: Arc<Inbox<Box<Exchange>>>,
}

impl Requests {
    /// # Errors
    /// A folder of files that cannot be opened.
    pub fn new(engine: Arc<Engine>) -> io::Result<Self> {
        let mut lanes = Lanes::new(engine.threads(), &engine.config.by_hand);
        let (quick, used) = (&engine.config.quick_routes, &engine.config.used_by_routes);
        quick.iter().for_each(|(name, mean_us)| lanes.learn(name, *mean_us, 0));
        used.iter().for_each(|(name, used_us)| lanes.learn_used(name, *used_us, 0));
        // First: what is told meanwhile is heard once more.
        let long_calls = engine.config.bell.as_ref().map(|bell| bell.long_calls());
        let long_calls_heard = long_calls.map_or(0, |calls| calls.told());
        for (name, used_us) in long_calls.iter().flat_map(|calls| calls.all()) {
            lanes.learn_used(&name, used_us, 0);
        }
        let (files, probes) = (Files::new(&engine)?.map(Box::new), Probes::new(&engine).map(Box::new));
        Ok(Self {
            natively: files.is_some() || probes.is_some(),
            files,
            probes,
            unjudged: false,
            natively_answered: 0,
            named: Arc::default(),
            lanes,
            lined_up: Queues::default(),
            slow_throughput: Throughput::default(),
            long_throughput: Throughput::default(),
            limited_throughput: engine.config.by_hand.limits.iter().map(|_| Throughput::default()).collect(),
            front_end: End::Oldest,
            front_share: 0,
            told: Told::default(),
            long_calls_heard,
            said_to_wait: None,
            chosen_us: 0,
            engine,
            batch: Batch::default(),
            finished: VecDeque::new(),
            held: VecDeque::new(),
            computing: Line::default(),
            throughput: Throughput::default(),
        })
    }

    /// Under an event loop: replies wait where its watchdog finds them.
    pub fn wait_in(&mut self, heartbeat: Arc<Heartbeat>) {
        self.batch.wait_in(heartbeat);
        // Requests do not take threads, so that there is none to be kept.
        self.lanes = Lanes::new(0, &ByHand::default());
    }

    /// A request that was read, if there is one.
    #[inline]
    pub fn add(&mut self, exchange: Option<Box<Exchange>>) {
        if let Some(exchange) = exchange {
            self.unjudged = true;
            self.batch.add(exchange);
        }
    }

    /// The next request of a connection that has just been answered, if there is one.
    #[inline]
    pub fn add_next(&mut self, exchange: Option<Box<Exchange>>) {
        if let Some(exchange) = exchange {
            self.unjudged = true;
            self.batch.add_next(exchange);
        }
    }

    /// How many next requests of connections that have just been answered wait, and nothing else.
    pub fn next_requests(&self) -> usize {
        self.batch.next_requests()
    }

    /// Whoever has come after the `waiting` oldest goes first.
    pub fn let_others_first(&mut self, waiting: usize) {
        self.batch.let_others_first(waiting);
    }

    /// How many wait to be begun.
    pub fn len(&self) -> usize {
        self.batch.len() + self.lined_up.len()
    }

    /// Some wait to be begun, and may be.
    #[inline]
    pub fn any_wait(&self) -> bool {
        !self.batch.is_empty() || self.may_begin_others()
    }

    /// As many have been read as are answered together.
    #[inline]
    pub fn is_batch_full(&self) -> bool {
        self.batch.is_full()
    }

    /// All requests of a batch are read: when, in monotonic nanoseconds, or zero. `slow`: the last ones took long each.
    #[inline]
    pub fn begin_batch(&mut self, slow: bool, now: Millis) -> u64 {
        if self.said_to_wait.is_some() {
            // In a loop that is never at rest nobody else says that they wait no more.
            self.say_who_waits(now);
        }
        self.batch.begin(slow)
    }

    /// True: the oldest can be begun, and [`Requests::take`] gives it. False: others are looked at first, it need not be
    /// any more, or the server has answered it.
    #[inline]
    pub fn may_begin(&mut self, poller: &mut Poller) -> bool {
        poller.allowance.count_request();
        if poller.allowance.is_spent() {
            return false;
        }
        if self.natively {
            self.answer_natively(poller);
        }
        // They are awake while anybody waits in one.
        let has_lanes = self.lanes.are_awake();
        if has_lanes && !self.choose(poller) {
            return false;
        }
        if has_lanes || self.batch.is_wary() {
            poller.look_at_clock();
            if !has_lanes {
                self.turn_front(poller.now);
            }
            if !self.is_worth_beginning(poller.now) {
                return false;
            }
        }
        let Some(next) = self.batch.oldest() else { return false };
        if next.is_for_the_server() {
            self.answer_oldest();
            return false;
        }
        if next.has_stream() {
            return self.stream_may_begin(poller);
        }
        true
    }

    /// Takes the oldest, which is begun now, by the loop's clock.
    #[inline]
    pub fn take(&mut self, now: Millis) -> Option<Box<Exchange>> {
        let mut exchange = self.batch.take()?;
        if let Some(stream) = exchange.stream() {
            stream.note_call(true);
        }
        exchange.late_from = now + LATE_MS;
        if self.lanes.goes_out() {
            self.enter_lane(&mut exchange);
        }
        Some(exchange)
    }

    /// Answers the oldest, which asks the server and not an application.
    #[cold]
    fn answer_oldest(&mut self) {
        if let Some(mut exchange) = self.batch.take() {
            exchange.answer_options(&self.engine);
            self.finished.push_back(exchange);
        }
    }

    /// The oldest is wanted by nobody any more.
    #[cold]
    fn forget_oldest(&mut self) {
        if let Some(mut exchange) = self.batch.take_oldest() {
            self.engine.counters.requests_abandoned.add();
            exchange.times.ending = Ending::ClientGone;
            exchange.cut();
            self.finished.push_back(exchange);
        }
    }

    /// One that was begun has come back from its thread. `looked`: when the last look was.
    #[inline]
    pub fn came_back(&mut self, exchange: &mut Exchange, looked: Millis) {
        self.lanes.comes_back();
        if looked >= exchange.late_from {
            self.leave_lane(exchange, looked);
        }
    }

    /// One that was begun has been answered.
    #[inline]
    pub fn finish_later(&mut self, exchange: Box<Exchange>) {
        self.finished.push_back(exchange);
    }

    /// Finishes the next one that has been answered, or takes up the next whose body was written. False: there is none.
    #[inline]
    pub fn finish_next(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        if let Some(exchange) = self.finished.pop_front() {
            let next = self.finish(exchange, connections, poller);
            self.add_next(next);
        } else if connections.any_stored()
            && let Some(next) = connections.next_stored(poller)
        {
            self.add(next);
        } else {
            return false;
        }
        true
    }

    /// As [`Requests::finish_next`], where every thread is busy: what comes of it waits, or is refused.
    pub fn queue_next(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        let next = match self.finished.pop_front() {
            Some(exchange) => self.finish(exchange, connections, poller),
            None => match connections.next_stored(poller) {
                Some(next) => next,
                None => return false,
            },
        };
        self.enqueue(next);
        true
    }

    /// An exchange has been answered: its connection goes on, or waits until the replies of the batch are sent. With
    /// it comes the next request of the connection, if that is there.
    #[inline]
    pub fn finish(
        &mut self,
        mut exchange: Box<Exchange>,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        self.throughput.count();
        exchange.conclude(&self.engine);
        let mut waiting = None;
        if poller.statistics.is_on() && !exchange.is_probe {
            if let Some((token, replies)) = exchange.waits_with() {
                let pipeline = connections.wait_with(token, replies);
                waiting = wait(&mut exchange, pipeline, &mut poller.statistics);
            } else if exchange.is_batched() {
                waiting = Some(self.batch.ended(exchange.has_stream()));
            } else if exchange.is_unsent() {
                let ended = exchange.take_counted();
                connections.settle_later(exchange.replying(), ended, &poller.statistics);
            } else {
                settle(&exchange, connections, poller);
            }
        }
        let (exchange, empty) = unbox(exchange);
        let (back, buffer) = exchange.hand_back(&self.engine, waiting);
        connections.keep_free(empty);
        match (back, buffer) {
            (Back::Connection(mut connection), bytes) => {
                connections.take_back(&mut connection, poller.now);
                match bytes {
                    Some(bytes) => self.batch.keep(Reply::new(connection, bytes)),
                    None => return connections.progress(connection, poller),
                }
            }
            (Back::Stream(ended), buffer) => {
                if let Some(buffer) = buffer {
                    self.batch.give_back(buffer);
                }
                let (shared, id, waits) = (Arc::clone(&ended.shared), ended.id, ended.waits);
                connections.end_stream(ended, poller.now);
                self.let_some_begin(&shared);
                // What is left of a reply is with its connection, whoever drives the loop.
                connections.keep_budget((shared.origin().token, Some(id)), poller);
                match waits {
                    false => return connections.visit(shared.origin().token, poller),
                    // One write for all that wait.
                    true if shared.wait_for_batch() => self.batch.keep(Reply::Streams(shared)),
                    true => {}
                }
            }
        }
        None
    }

    /// Replies wait to be sent together.
    #[inline]
    pub fn any_replies(&self) -> bool {
        self.batch.has_replies()
    }

    /// Under an event loop: replies that wait shall be sent.
    #[inline]
    pub fn are_replies_due(&mut self) -> bool {
        self.batch.is_due()
    }

    /// Sends the replies of a batch, then goes on with their connections.
    pub fn send_replies(&mut self, connections: &mut Connections, poller: &mut Poller) {
        self.batch.judge();
        let mut replies = self.batch.sent();
        if self.batch.any_ended() {
            self.count_sent(&replies, connections, poller);
        }
        for reply in replies.drain(..) {
            let (mut connection, bytes, sent, failed) = match reply {
                Reply::Connection { connection, bytes, sent, failed, .. } => {
                    (connection, bytes, sent, failed)
                }
                Reply::Streams(shared) => {
                    let next = connections.visit(shared.origin().token, poller);
                    self.add_next(next);
                    continue;
                }
            };
            if failed {
                self.engine.counters.replies_incomplete.add();
                connection.phase = Phase::Flushing(After::Close);
            } else if sent < bytes.len() {
                connection.queue(&self.engine.config.limits, poller.now).copy(&bytes[sent..]);
                if connection.phase == Phase::Reading {
                    connection.phase = Phase::Flushing(After::Continue);
                }
            }
            self.batch.give_back(bytes);
            let next = connections.progress(connection, poller);
            self.add_next(next);
        }
        self.batch.reuse(replies);
    }

    /// Counts the requests whose replies were just sent; of which something is left, that is done later.
    fn count_sent(&mut self, replies: &[Reply], connections: &mut Connections, poller: &mut Poller) {
        let now = monotonic_ns();
        let mut all = std::mem::take(self.batch.ended(false));
        let mut each = all.iter_mut();
        for reply in replies {
            let Reply::Connection { connection, bytes, sent, failed, sent_at } = reply else { continue };
            if bytes.is_empty() {
                continue; // What was lent for it was not used.
            }
            let Some(ended) = each.next() else { break };
            if *failed {
                ended.times.client_is_gone();
            } else if *sent < bytes.len() {
                connections.settle_later((connection.token, 0), ended.take(), &poller.statistics);
                continue;
            }
            let sent = if *sent_at == 0 { now } else { *sent_at };
            poller.statistics.settle(&ended.counted(), sent);
        }
        all.clear();
        *self.batch.ended(false) = all;
        for ended in self.batch.ended(true).drain(..) {
            poller.statistics.settle(&ended.counted(), now);
        }
        poller.statistics.are_sent();
    }

    /// A call takes long: what waits for it is sent, and nothing waits for those after it for a while.
    pub fn relieve(&mut self) {
        self.batch.relieve();
    }

    /// Calls take long: nothing of this batch waits for them.
    pub fn relieve_batch(&mut self) {
        self.batch.relieve();
    }

    /// Measures how fast requests are done.
    pub fn measure(&mut self, now: Millis) {
        self.throughput.measure(now, self.engine.in_flight());
    }
}
