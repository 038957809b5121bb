//! One thread of load: its turn, its clock, its pages. Joins pacer, clients, timers and sockets; knows nothing of other threads.
//!
//! ```text
//! turn:  wait ─► sockets that are ready ─► planned starts ─► the queue ─► timers ─► beat and page
//! ```
//!
//! `begin` starts requests, `secure` agrees on TLS, `exchange` moves bytes, `streams` does so with HTTP/2, `settle` says what came
//! of them.

mod begin;
mod exchange;
mod planned;
mod secure;
mod settle;
mod streams;

pub use exchange::READS_A_TURN;

use crate::client::{Client, Role};
use crate::http2::Outcome;
use crate::job::Job;
use crate::kinds::{Fault, Wrong};
use crate::pace::Draw;
use crate::plan::Load;
use crate::record::{Record, Second, Whole};
use crate::system::{Clock, EVENTS, Poller, Ports, thread_cpu};
use crate::timers::{NEVER, Slot, Timers};
use planned::Planned;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Every thread sets itself a timer for each of these, to see whether it is given its processor in time.
const BEAT: u64 = 10_000_000;
/// A thread that is so late was not running, and what it waits for gets that much longer.
const AWAY: u64 = 50_000_000;
/// Planned starts a turn: after so many, sockets are looked at, so that replies do not grow old.
const STARTS_A_TURN: usize = 64;
/// As much as one read takes.
pub const BUFFER: usize = 64 * 1024;
/// How long connections are watched after the last reply, for what comes after a reply.
const WATCHED_AFTER: u64 = 100_000_000;
/// How long replies are waited for after an interruption.
const DRAIN_OF_INTERRUPTED: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// What threads say to the main thread.
#[derive(Debug)]
pub enum News {
    Page { second: u64, page: Box<Second> },
    Done(Box<Whole>),
    Broken(io::Error),
}

/// How a thread and the main thread reach each other.
pub struct Lines<'job> {
    pub thread: usize,
    pub news: Sender<(usize, News)>,
    /// Pages that were read and are empty again.
    pub fresh: Receiver<Box<Second>>,
    pub stop: &'job AtomicBool,
}

/// Numbers of the present moment.
#[derive(Default)]
struct Present {
    in_flight: u64,
    leaving: u64,
    /// Connections that are open, being opened or left.
    sockets: u64,
    connected: u64,
    sessions: u64,
    last_reply: u64,
}

pub struct Worker<'job> {
    job: &'job Job,
    clock: Clock,
    lines: Lines<'job>,
    poller: Poller,
    timers: Timers,
    record: Record,
    clients: Vec<Client>,
    free: Vec<u32>,
    idle: Vec<Slot>,
    /// Planned starts that wait for a connection.
    queue: VecDeque<(u64, u16)>,
    /// Connections to read once more in this turn: their edge may be past.
    again: Vec<Slot>,
    planned: Planned,
    present: Present,
    draw: Draw,
    buffer: Vec<u8>,
    /// What was within TLS.
    plain: Vec<u8>,
    gathered: Vec<u8>,
    outcomes: Vec<Outcome>,
    most_connections: u64,
    opened: u64,
    ports: Ports,
    page: u64,
    next_beat: u64,
    /// How long this thread was held up, in all: the server had no chance to be heard in that time.
    away: u64,
}

impl<'job> Worker<'job> {
    pub fn new(job: &'job Job, clock: Clock, lines: Lines<'job>) -> io::Result<Worker<'job>> {
        let thread = lines.thread;
        let most_connections = match &job.plan.load {
            Load::Open(open) => open.max_connections.map_or(u64::MAX, |most| job.share(most as u64, thread)),
            _ => u64::MAX,
        };
        Ok(Worker {
            job,
            clock,
            lines,
            poller: Poller::new()?,
            timers: Timers::default(),
            record: Record::new(job.templates.len(), job.plan.warmup_s),
            clients: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            queue: VecDeque::new(),
            again: Vec::new(),
            planned: Planned::for_thread(job, thread),
            present: Present::default(),
            // Each thread of each part draws its own requests; the moments come from the seed alone.
            draw: Draw::new(job.plan.seed ^ (job.dealt(thread).0 as u64 + 1).wrapping_mul(0x9e37_79b9)),
            buffer: vec![0; BUFFER],
            plain: Vec::new(),
            gathered: Vec::new(),
            outcomes: Vec::new(),
            most_connections,
            opened: 0,
            ports: Ports::for_thread(thread, job.threads),
            page: 0,
            next_beat: BEAT,
            away: 0,
        })
    }

    /// Runs the load to its end. `connections` is this thread's share of a closed loop.
    pub fn run(mut self, connections: u64) {
        let ended = self.run_to_end(connections);
        let news = match ended {
            Ok(cpu_share) => {
                self.record.whole.cpu_share = cpu_share;
                self.record.whole.last_reply = self.present.last_reply;
                self.send_page(self.page + 1);
                News::Done(Box::new(self.record.whole))
            }
            Err(error) => News::Broken(error),
        };
        // Nobody listens any more only where the main thread has failed, which it says itself.
        let _ = self.lines.news.send((self.lines.thread, news));
    }

    fn run_to_end(&mut self, connections: u64) -> io::Result<f64> {
        let (began, cpu) = (self.clock.now(), thread_cpu());
        let mut share = None;
        let mut drained_at = self.job.duration + self.job.drain;
        let mut begun = 0;
        loop {
            // Connections of a closed loop begin some in each turn, so that the first replies do not wait for the last.
            let some = (connections - begun).min(STARTS_A_TURN as u64);
            for _ in 0..some {
                self.begin_loop();
            }
            begun += some;
            let turned = self.turn(begun < connections)?;
            if self.lines.stop.load(Ordering::Relaxed) && drained_at > turned + DRAIN_OF_INTERRUPTED {
                self.planned.until = self.planned.until.min(turned);
                drained_at = turned + DRAIN_OF_INTERRUPTED;
                begun = connections;
            }
            // The moment up to which time away is counted: one that begins after it is no reason to end before what was planned is made.
            let now = turned;
            if share.is_none() && now >= self.planned.until {
                share = Some(Self::share_of_processor(began, cpu, now));
            }
            if now >= drained_at + self.away || (begun == connections && self.is_done(now)) {
                self.record.whole.exhausted = now < self.planned.until;
                self.give_up();
                return Ok(share.unwrap_or_else(|| Self::share_of_processor(began, cpu, now)));
            }
        }
    }

    fn share_of_processor(began: u64, cpu: u64, now: u64) -> f64 {
        (thread_cpu() - cpu) as f64 / (now - began).max(1) as f64
    }

    /// One turn; gives the moment after its wait.
    fn turn(&mut self, hurry: bool) -> io::Result<u64> {
        let next_start = self.planned.next().unwrap_or(NEVER);
        let until = next_start.min(self.timers.next()).min(self.next_beat);
        let wait = !hurry && self.again.is_empty() && until > self.clock.now();
        let ready = self.poller.wait(self.clock, wait.then_some(until))?;
        for index in 0..ready {
            if let Some(ready) = self.poller.ready(index) {
                self.ready(ready);
            }
        }
        for slot in std::mem::take(&mut self.again) {
            if self.is_present(slot) {
                self.readable(slot.index, true);
            }
        }
        let (now, away) = (self.clock.now(), self.away);
        self.beat(now);
        for _ in 0..STARTS_A_TURN {
            match self.planned.next() {
                Some(planned) if planned <= now => {
                    self.planned.take();
                    self.arrive(planned);
                }
                _ => break,
            }
        }
        self.serve_queue();
        // After a time away there may be more news than one turn takes, and it is looked at before anything is too late.
        if ready == EVENTS && away < self.away {
            return Ok(now);
        }
        while let Some((entered, slot)) = self.timers.due(now) {
            if self.is_present(slot) && self.clients[slot.index as usize].deadlines.entered == entered {
                self.fire(slot.index, now);
            }
        }
        Ok(now)
    }

    /// The timers of this thread itself: was it there in time, and has a second passed?
    fn beat(&mut self, now: u64) {
        let late = now.saturating_sub(self.next_beat);
        if late >= AWAY {
            self.away += late;
        }
        while self.next_beat <= now {
            self.record.beat(now - self.next_beat, self.job.late_after);
            self.next_beat += BEAT;
        }
        if now / SECOND > self.page {
            self.send_page(now / SECOND);
        }
    }

    fn send_page(&mut self, next: u64) {
        self.record.second.tally.open_connections = self.present.connected;
        self.record.second.tally.queued = self.queue.len() as u64;
        let fresh = self.lines.fresh.try_recv().unwrap_or_default();
        let page = self.record.turn_page(next, fresh);
        let _ = self.lines.news.send((self.lines.thread, News::Page { second: self.page, page }));
        self.page = next;
    }

    fn is_done(&mut self, now: u64) -> bool {
        let may_begin = match self.job.shape {
            Some(_) => {
                self.planned.next().is_some() || (self.present.sessions > 0 && now < self.planned.until)
            }
            None => now < self.planned.until && self.planned.may_begin(),
        };
        if may_begin || self.present.in_flight > 0 || self.present.leaving > 0 || !self.queue.is_empty() {
            return false;
        }
        self.present.sockets == 0 || now >= self.present.last_reply + WATCHED_AFTER
    }

    /// The end, whatever is still on its way.
    fn give_up(&mut self) {
        for index in 0..self.clients.len() as u32 {
            for flight in self.clients[index as usize].take_flights() {
                self.record.error(Some(flight.template), Wrong::InFlightAtEnd);
                self.trace(index, &flight, self.clock.now(), Err(Wrong::InFlightAtEnd));
            }
        }
        for _ in 0..self.queue.len() {
            self.record.fault(Fault::NotStarted);
        }
        // A thread that was held up until now still owes these: they were planned, and nobody came to them.
        while let Some(planned) = self.planned.next() {
            self.planned.take();
            self.record.offered(planned);
            self.record.fault(Fault::NotStarted);
        }
    }

    fn is_present(&self, slot: Slot) -> bool {
        self.clients[slot.index as usize].generation == slot.generation
    }

    fn slot(&self, index: u32) -> Slot {
        Slot { index, generation: self.clients[index as usize].generation }
    }

    fn new_client(&mut self, role: Role) -> u32 {
        if let Some(index) = self.free.pop() {
            self.clients[index as usize].role = role;
            return index;
        }
        self.clients.push(Client::new(role));
        (self.clients.len() - 1) as u32
    }

    /// Takes a client's connection away, if it has one.
    fn part(&mut self, index: u32) {
        let client = &mut self.clients[index as usize];
        let was_connected = client.connected;
        if let (Some(socket), Some(tls)) = (&client.socket, &mut client.tls) {
            tls.close(socket);
        }
        if client.part().is_some() {
            self.present.sockets -= 1;
            self.present.connected -= u64::from(was_connected);
        }
    }

    /// The client is no more; its place is free for another.
    fn release(&mut self, index: u32) {
        self.part(index);
        let client = &mut self.clients[index as usize];
        match client.role {
            Role::Leaving => self.present.leaving -= 1,
            Role::Session { .. } => self.present.sessions -= 1,
            Role::Loop | Role::Pooled => {}
        }
        debug_assert!(client.in_flight() == 0);
        let generation = client.generation.wrapping_add(1);
        *client = Client { generation, ..Client::new(Role::Pooled) };
        self.free.push(index);
    }

    /// Enters a client's next deadline, where no earlier entry will come up anyway.
    fn schedule(&mut self, index: u32) {
        let slot = self.slot(index);
        let deadlines = &mut self.clients[index as usize].deadlines;
        let at = deadlines.limit.min(deadlines.wake);
        if at < deadlines.entered {
            deadlines.entered = at;
            self.timers.enter(at, slot);
        }
    }
}
