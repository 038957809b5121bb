//! A connection that several streams share, as far as it sends: for all that have one of its streams, and for the loop,
//! which has the connection.
//!
//! Knows: the sending half, replies that are left behind when their exchanges are over, and who waits for room. Does not
//! know: how frames look, requests, the loop. Any thread sends; replies that are left go on with the loop, which hears of
//! windows and edges.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reactor::Address;
use wire::h2::{Event, Overflow, Priority};
use wire::proxy::Proxied;
use wire::{Limits, Millis};

use crate::news::News;
use crate::output::{Flushed, Output};
use crate::patience::Patience;
use crate::send_half::{Closed, Framing, SendHalf, Written};
use crate::sync::lock;
use crate::transport::Transport;
use crate::visits::Visits;

/// As many streams as this may each hold back as much of their replies as a connection of its own.
const FEW_STREAMS: u64 = 8;

/// What is the same for all streams of a connection.
pub struct Origin {
    /// What names the connection to the loop.
    pub token: u64,
    pub peer: Address,
    pub listener: u16,
    /// What a load balancer has said of its client, where it has.
    pub proxied: Option<Box<Proxied>>,
    /// Its peer is trusted to speak for others: its streams are different people's.
    pub is_trusted: bool,
}

/// A connection of many streams.
pub struct Multiplexed {
    transport: Arc<Transport>,
    origin: Origin,
    half: SendHalf<Box<dyn Framing>>,
    rest: Mutex<Rest>,
    news: News,
    visits: Arc<Visits>,
    /// The loop has been asked for a visit, and has not come.
    asked: AtomicBool,
    /// Its replies wait for those of a batch.
    waits: AtomicBool,
    /// The loop waits for room, of which another thread that is sending may be the only one to know.
    loop_waits: AtomicBool,
    /// Calls into the application that are under way.
    calls: AtomicU32,
    /// What streams hold back of replies whose exchanges are not over, in bytes.
    held: AtomicU64,
}

#[derive(Default)]
struct Rest {
    /// Replies that are complete but for what nobody has taken yet; their exchanges are over. The loop takes them out to
    /// work on them, as a file may have to be read.
    left: Vec<Left>,
    /// How many those are, whoever has them.
    unfinished: usize,
    /// Streams of tasks and greenlets that want more room, by their own tokens.
    starved: Vec<u64>,
    /// What the peer has said of the order in which it wants replies, of those streams of which it has.
    priorities: Vec<(u32, Priority)>,
    /// Streams whose replies were left, and never were sent to their ends.
    cut: Vec<u32>,
}

/// What is left of one reply.
pub(crate) struct Left {
    pub stream: u32,
    pub output: Output,
    /// Lines that are sent behind it; empty: none.
    pub trailers: Vec<u8>,
    pub patience: Patience,
    /// When others of the connection have their turn.
    pub priority: Priority,
}

impl Multiplexed {
    /// A connection whose streams are framed so. `visits`: how its loop is asked for a look.
    pub fn new(
        transport: Arc<Transport>,
        origin: Origin,
        framing: Box<dyn Framing>,
        visits: Arc<Visits>,
    ) -> Arc<Self> {
        Arc::new(Self {
            transport,
            origin,
            half: SendHalf::new(framing),
            rest: Mutex::default(),
            news: News::default(),
            visits,
            asked: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            loop_waits: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            held: AtomicU64::new(0),
        })
    }

    pub fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The sending half.
    pub fn half(&self) -> &SendHalf<Box<dyn Framing>> {
        &self.half
    }

    /// What threads wait for.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// The application is called for one of its streams, or is not called after all, or has answered.
    pub fn note_call(&self, begins: bool) {
        match begins {
            true => self.calls.fetch_add(1, Ordering::Relaxed),
            false => self.calls.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// So many more calls may be under way for it: one client leaves a thread for others. Zero: it has its share.
    pub fn room_for_calls(&self, threads: u32) -> u32 {
        match self.origin.is_trusted {
            true => u32::MAX,
            false => threads.saturating_sub(1).max(1).saturating_sub(self.calls.load(Ordering::Relaxed)),
        }
    }

    /// The peer has ended its side: whoever waits for a window hears that none will open.
    pub fn peer_has_ended(&self) {
        self.half.peer_has_ended();
        self.news.tell();
    }

    /// How many times as much counts what one stream holds back: so many share what a connection may.
    fn crowd(&self) -> u64 {
        (self.half.open_streams() as u64).div_ceil(FEW_STREAMS).max(1)
    }

    /// A stream holds back so much, which was less or more before.
    pub(crate) fn note_held(&self, before: u64, bytes: u64) {
        self.held.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// What a stream holds back, as it counts against what one may: its share is smaller where there are many, and no more
    /// than a few may hold all of them together, who came first with more than those behind them.
    pub(crate) fn counted(&self, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            _ => bytes.saturating_mul(self.crowd()).max(self.held.load(Ordering::Relaxed) / FEW_STREAMS),
        }
    }

    /// Has the loop look at the connection.
    pub fn ask_for_visit(&self) {
        if !self.asked.swap(true, Ordering::SeqCst) {
            self.visits.ask(self.origin.token);
        }
    }

    /// The loop looks at it: what is done from now on wants another visit.
    pub fn visit_begins(&self) {
        self.asked.store(false, Ordering::SeqCst);
    }

    /// The loop goes on when there is room, or does not wait for it. Said before it looks how much waits: whoever has that
    /// in hand hears of it, or is done.
    pub fn loop_waits(&self, waits: bool) {
        self.loop_waits.store(waits, Ordering::SeqCst);
    }

    /// What is framed waits for other replies of a batch. False: it does so already.
    pub fn wait_for_batch(&self) -> bool {
        !self.waits.swap(true, Ordering::Relaxed)
    }

    /// What has waited for a batch is sent.
    pub fn send_batched(&self) {
        self.waits.store(false, Ordering::Relaxed);
        self.send_framed();
    }

    /// The peer has cut a stream, or we do in its exchange's place: nothing more is sent on it but that.
    pub fn reset(&self, id: u32) {
        self.half.reset(id);
        self.send_framed();
        self.news.tell();
    }

    /// Answers a stream in its exchange's place, with a head and content that are small.
    pub fn answer(&self, id: u32, head: &[u8], content: &[u8]) {
        // Whatever is closed is answered already.
        if self.half.send(id, head, &[content], true).is_ok_and(|taken| taken < content.len()) {
            self.half.reset(id);
        }
        self.send_framed();
        self.news.tell();
    }

    /// Follows what the receiving half has heard: there may be room, or a stream that is closed.
    ///
    /// # Errors
    /// The receiving half is to be told.
    pub fn hear(&self, event: &Event<'_>) -> Result<(), Overflow> {
        let heard = self.half.hear(event);
        self.news.tell();
        heard
    }

    /// Sends what is framed, as far as the transport takes it. For whoever answers a stream.
    ///
    /// # Errors
    /// The transport's.
    pub fn send(&self) -> io::Result<Flushed> {
        match self.send_framed() {
            Written::All => Ok(Flushed::All),
            Written::Full | Written::Elsewhere => Ok(Flushed::Full),
            Written::Broken => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn send_framed(&self) -> Written {
        let (written, taken) = self.half.write(|bytes| self.transport.send(bytes));
        if taken > 0 || written == Written::Broken {
            // There is room that others may have waited for.
            self.news.tell();
            let rest = lock(&self.rest);
            let wanted = rest.unfinished > 0 || !rest.starved.is_empty();
            if wanted || written == Written::Broken || self.loop_waits.load(Ordering::SeqCst) {
                drop(rest);
                self.ask_for_visit();
            }
        }
        written
    }

    /// Goes on with replies whose exchanges are over, and sends what is framed: as much as one look allows. For the loop,
    /// which hears of windows and of room.
    ///
    /// # Errors
    /// The transport's.
    pub fn write(&self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        let mut idle_rounds = 0;
        let mut all_moved = 0;
        loop {
            let mut left = std::mem::take(&mut lock(&self.rest).left);
            let before = left.len();
            let mut moved = 0;
            in_order(&mut left);
            let mut cut = Vec::new();
            left.retain_mut(|one| {
                let goes_on = one.frame_in_turn(&self.half, limits, now, &mut moved);
                if !goes_on && !one.output.is_empty() {
                    cut.push(one.stream);
                }
                goes_on
            });
            let finished = before - left.len();
            if left.len() > 1 {
                // Another one is first the next time, among those that share.
                left.rotate_left(1);
            }
            let nothing_left = {
                let mut rest = lock(&self.rest);
                rest.left.append(&mut left);
                rest.cut.append(&mut cut);
                rest.unfinished -= finished;
                rest.left.is_empty()
            };
            let (written, taken) = self.half.write(|bytes| self.transport.send(bytes));
            if taken > 0 {
                self.news.tell();
            }
            match written {
                Written::All if moved == 0 => {
                    // Another thread may have had some in hand, and found no room before this wrote.
                    idle_rounds += 1;
                    if idle_rounds > 1 {
                        return Ok(if nothing_left { Flushed::All } else { Flushed::Full });
                    }
                }
                Written::All if all_moved + moved >= limits.send_burst_bytes => return Ok(Flushed::More),
                Written::All => (idle_rounds, all_moved) = (0, all_moved + moved),
                Written::Full | Written::Elsewhere => return Ok(Flushed::Full),
                Written::Broken => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// What somebody waited for was read from a disk: its peer was not the one that was slow.
    pub fn disk_has_read(&self, limits: &Limits, now: Millis) {
        for left in &mut lock(&self.rest).left {
            if left.output.sends_file() && self.half.room(left.stream) > 0 {
                left.patience = Patience::to_write(limits, now);
            }
        }
        self.news.tell();
    }

    /// A reply is complete but for what waits of it: that goes on without its exchange.
    pub(crate) fn leave(&self, mut left: Left) {
        let mut rest = lock(&self.rest);
        if let Some((_, priority)) = rest.priorities.iter().find(|(stream, _)| *stream == left.stream) {
            left.priority = *priority;
        }
        rest.unfinished += 1;
        rest.left.push(left);
    }

    /// The peer has said in what order it wants a stream's reply.
    pub fn prefer(&self, stream: u32, priority: Priority) {
        let mut rest = lock(&self.rest);
        rest.priorities.retain(|(known, _)| *known != stream);
        rest.priorities.push((stream, priority));
        if let Some(left) = rest.left.iter_mut().find(|left| left.stream == stream) {
            left.priority = priority;
        }
    }

    /// A stream is gone: nothing of it is remembered. True: its peer has not got all of what was left.
    pub fn forget(&self, stream: u32) -> bool {
        let mut rest = lock(&self.rest);
        if !rest.priorities.is_empty() {
            rest.priorities.retain(|(known, _)| *known != stream);
        }
        let cut = rest.cut.contains(&stream);
        if cut {
            rest.cut.retain(|known| *known != stream);
        }
        cut
    }

    /// Something of a stream's reply is left. For the loop, while it works on none of them.
    pub fn is_unfinished(&self, stream: u32) -> bool {
        lock(&self.rest).left.iter().any(|left| left.stream == stream)
    }

    /// When the first reader of what is left is given up.
    pub fn left_until(&self) -> Millis {
        lock(&self.rest).left.iter().map(|left| left.patience.until()).min().unwrap_or(Millis::MAX)
    }

    /// Cuts replies that were left and whose readers take too little; how many.
    pub fn give_up(&self, now: Millis) -> u64 {
        self.drop_left(|left| left.patience.is_over(now))
    }

    /// Large bodies are kept for its peer, of replies whose exchanges are over.
    pub fn keeps(&self) -> bool {
        lock(&self.rest).left.iter().any(|left| left.output.keeps())
    }

    /// Cuts replies for which large bodies are kept, but for the one of a stream; how many.
    pub fn drop_kept(&self, but: Option<u32>) -> u64 {
        self.drop_left(|left| left.output.keeps() && Some(left.stream) != but)
    }

    fn drop_left(&self, which: impl Fn(&Left) -> bool) -> u64 {
        let mut rest = lock(&self.rest);
        let (dropped, kept): (Vec<Left>, Vec<Left>) =
            std::mem::take(&mut rest.left).into_iter().partition(which);
        rest.left = kept;
        rest.unfinished -= dropped.len();
        rest.cut.extend(dropped.iter().map(|left| left.stream));
        drop(rest);
        dropped.iter().for_each(|left| self.half.give_up(left.stream));
        dropped.len() as u64
    }

    /// A task's or greenlet's stream waits for room; its own token is told when there may be some.
    pub fn wants_room(&self, token: u64) {
        let mut rest = lock(&self.rest);
        if !rest.starved.contains(&token) {
            rest.starved.push(token);
        }
    }

    /// Those who wait for room, if there is some.
    pub fn take_starved(&self) -> Vec<u64> {
        if self.half.has_room() { std::mem::take(&mut lock(&self.rest).starved) } else { Vec::new() }
    }

    /// The connection ends: whoever waits hears so, and nothing more is framed.
    pub fn close(&self) {
        self.half.close();
        let left = {
            let mut rest = lock(&self.rest);
            rest.unfinished = 0;
            std::mem::take(&mut rest.left)
        };
        drop(left);
        self.news.tell();
    }
}

/// The most urgent first; of those, whoever is of no use in parts before those that share (RFC 9218 §10), by number.
fn in_order(left: &mut [Left]) {
    if left.iter().any(|one| one.priority != Priority::UNSAID) {
        left.sort_by_key(|one| {
            let number = if one.priority.incremental { u32::MAX } else { one.stream };
            (one.priority.urgency, number)
        });
    }
}

impl Left {
    /// Frames more of it: a part where others share the room, or all that there is room for. False: that was all, or the
    /// stream is closed.
    fn frame_in_turn(
        &mut self,
        half: &SendHalf<Box<dyn Framing>>,
        limits: &Limits,
        now: Millis,
        moved: &mut u64,
    ) -> bool {
        loop {
            let before = *moved;
            if !self.frame(half, limits, now, moved) {
                return false;
            }
            if self.priority.incremental || *moved == before {
                return true;
            }
        }
    }

    /// Frames more of it. False: that was all, or the stream is closed.
    fn frame(
        &mut self,
        half: &SendHalf<Box<dyn Framing>>,
        limits: &Limits,
        now: Millis,
        moved: &mut u64,
    ) -> bool {
        match frame(half, self.stream, &mut self.output, self.trailers.is_empty()) {
            Ok(more) => {
                *moved += more;
                self.patience.earn(more, limits, now);
                if self.output.is_empty() && !self.trailers.is_empty() {
                    half.end_with(self.stream, &self.trailers);
                }
            }
            // A file that is shorter than was said: the peer must not take it for the whole.
            Err(_) => {
                half.reset(self.stream);
                return false;
            }
        }
        !self.output.is_empty()
    }
}

/// Frames what waits in a queue, as far as there is room; how many bytes. `end`: the stream ends with it.
///
/// # Errors
/// The stream is closed, or the file's.
pub(crate) fn frame(
    half: &SendHalf<Box<dyn Framing>>,
    stream: u32,
    output: &mut Output,
    end: bool,
) -> io::Result<u64> {
    let mut closed = false;
    let take = |bytes: &[u8], last: bool| {
        half.content(stream, bytes, end && last).unwrap_or_else(|Closed| {
            closed = true;
            0
        })
    };
    let moved = output.pull(|| half.room(stream), take)?;
    if closed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(moved) }
}
