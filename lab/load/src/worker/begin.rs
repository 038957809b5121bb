//! Starts: a planned moment, a loop's next request, a session's next, and the connections that they need.

use super::Worker;
use crate::client::{Flight, Role};
use crate::http2::Http2;
use crate::kinds::{Fault, Wrong};
use crate::plan::Load;
use crate::record;
use crate::system::{self, NoConnection, Origin};
use crate::timers::{NEVER, Slot};
use rustix::fd::OwnedFd;

/// A closed loop that cannot connect tries again after this: it should find the server when it is back, not hammer the machine.
const RETRY: u64 = 10_000_000;
/// A unix socket whose queue is full is tried again after this.
const RETRY_FULL: u64 = 1_000_000;
/// Ports that are tried for one connection, where the kernel remembers their last ones.
const PORT_TRIES: u32 = 8;
/// Connections whose port the kernel chooses: fewer than half of its range, even with several threads.
const PORTS_BY_KERNEL: u64 = 4096;

impl Worker<'_> {
    /// A planned moment has come: nothing that the server does may keep it from being counted.
    pub(super) fn arrive(&mut self, planned: u64) {
        let now = self.clock.now();
        self.record.offered(planned);
        self.record.lateness(now - planned, self.job.late_after);
        let template = self.draw_template();
        if let Load::Sessions(sessions) = &self.job.plan.load {
            let index = self.new_client(Role::Session { left: sessions.requests });
            self.present.sessions += 1;
            self.record.second.tally.counts.sessions_arrived += 1;
            self.put(index, planned, template);
            self.go(index, now);
        } else if let Some(slot) = self.take_idle() {
            self.put(slot.index, planned, template);
            self.go(slot.index, now);
            self.offer(slot);
        } else {
            self.queue.push_back((planned, template));
            self.serve_queue();
            self.record.whole.most_queued = self.record.whole.most_queued.max(self.queue.len() as u64);
        }
    }

    /// Opens connections for what waits, as long as there may be more.
    pub(super) fn serve_queue(&mut self) {
        while !self.queue.is_empty() && self.present.sockets - self.present.leaving < self.most_connections {
            let Some((planned, template)) = self.queue.pop_front() else { return };
            let index = self.new_client(Role::Pooled);
            let slot = self.slot(index);
            self.put(index, planned, template);
            self.go(index, self.clock.now());
            self.offer(slot);
        }
    }

    /// A connection of a closed loop, for the first time.
    pub(super) fn begin_loop(&mut self) {
        let index = self.new_client(Role::Loop);
        let now = self.clock.now();
        self.refill(index, now);
        self.go(index, now);
    }

    /// As many requests as a loop keeps on their way, while the load lasts.
    pub(super) fn refill(&mut self, index: u32, now: u64) {
        while self.clients[index as usize].in_flight() < self.job.depth && now < self.planned.until {
            if !self.planned.begin_one() {
                return;
            }
            self.record.offered(now);
            let template = self.draw_template();
            self.put(index, now, template);
        }
    }

    /// A session has thought long enough.
    pub(super) fn think_no_more(&mut self, index: u32, planned: u64, now: u64) {
        if planned >= self.planned.until {
            return;
        }
        self.record.offered(planned);
        self.record.lateness(now.saturating_sub(planned), self.job.late_after);
        let template = self.draw_template();
        self.put(index, planned, template);
        self.go(index, now);
    }

    fn draw_template(&mut self) -> u16 {
        let templates = &self.job.templates;
        if templates.len() == 1 {
            return 0;
        }
        let total: u64 = templates.iter().map(|template| u64::from(template.weight)).sum();
        let mut drawn = (self.draw.unit() * total as f64) as u64;
        for (number, template) in templates.iter().enumerate() {
            match drawn.checked_sub(u64::from(template.weight)) {
                Some(rest) => drawn = rest,
                None => return number as u16,
            }
        }
        0
    }

    /// The connection that was used last: it is the least likely to have been ended, and the others may grow old.
    fn take_idle(&mut self) -> Option<Slot> {
        while let Some(slot) = self.idle.pop() {
            if self.is_present(slot) {
                self.clients[slot.index as usize].offered = false;
                return Some(slot);
            }
        }
        None
    }

    /// Puts a connection that has room among the idle ones.
    pub(super) fn offer(&mut self, slot: Slot) {
        let depth = self.job.depth;
        if !self.is_present(slot) {
            return;
        }
        let client = &mut self.clients[slot.index as usize];
        if client.role == Role::Pooled && !client.offered && client.in_flight() < depth {
            client.offered = true;
            self.idle.push(slot);
        }
    }

    pub(super) fn put(&mut self, index: u32, planned: u64, template: u16) {
        let client = &mut self.clients[index as usize];
        let last = matches!(client.role, Role::Session { left: 1 });
        client.flights.push_back(Flight {
            planned,
            began: 0,
            sent: 0,
            first_byte: 0,
            template,
            last,
            unseen: 0,
        });
        self.present.in_flight += 1;
    }

    /// Does what a client's requests need: sends on the connection that it has, or opens one.
    pub(super) fn go(&mut self, index: u32, now: u64) {
        let client = &self.clients[index as usize];
        if client.flights.is_empty() {
            return;
        }
        match (&client.socket, client.connected) {
            (None, _) => self.open(index, now),
            (Some(_), true) => {
                if !self.job.is_http2 {
                    self.mark_started(index, now);
                }
                self.flush(index, now);
            }
            (Some(_), false) => {}
        }
    }

    pub(super) fn mark_started(&mut self, index: u32, now: u64) {
        for flight in self.clients[index as usize].flights.iter_mut().rev() {
            if flight.began > 0 {
                break;
            }
            // Second 0 has a first nanosecond too, but 0 stands for not yet.
            flight.began = now.max(1);
            self.record.second.tally.counts.started += 1;
        }
    }

    fn open(&mut self, index: u32, now: u64) {
        let mut tries = PORT_TRIES;
        let (socket, result) = loop {
            let socket = match self.new_socket() {
                Ok(socket) => socket,
                Err(why) => return self.no_connection(index, why, now),
            };
            let result = system::connect(&socket, &self.job.endpoint);
            tries -= 1;
            // The port is free, but its last connection to this server is not forgotten: another may do.
            if tries == 0 || result != Err(NoConnection::Generator(Fault::AddressUnavailable)) {
                break (socket, result);
            }
        };
        let client = &mut self.clients[index as usize];
        client.socket = Some(socket);
        client.connect_began = now;
        client.connected_at = 0;
        client.deadlines.limit = now + self.job.connect_limit;
        self.present.sockets += 1;
        self.connecting(index, result, now);
    }

    /// The kernel chooses the port while that is cheap for it, and the address where no source is given.
    fn new_socket(&mut self) -> Result<OwnedFd, NoConnection> {
        let endpoint = &self.job.endpoint;
        self.opened += 1;
        let source = match endpoint.sources.len() as u64 {
            0 if endpoint.is_unix || self.present.sockets < PORTS_BY_KERNEL => None,
            0 => Some(endpoint.any_source),
            count => Some(endpoint.sources[(self.opened % count) as usize]),
        };
        let receive_buffer = self.job.slow_read().map(|slow| slow.bytes);
        let from = source.map(|source| (source, &mut self.ports));
        system::new_socket(endpoint, Origin { from, receive_buffer })
    }

    /// A unix socket whose queue was full, once more.
    pub(super) fn connect(&mut self, index: u32, now: u64) {
        let Some(socket) = &self.clients[index as usize].socket else { return };
        let result = system::connect(socket, &self.job.endpoint);
        self.connecting(index, result, now);
    }

    fn connecting(&mut self, index: u32, result: Result<bool, NoConnection>, now: u64) {
        let token = self.slot(index).token();
        let Some(socket) = &self.clients[index as usize].socket else { return };
        // After connecting: a socket that is watched before it has a peer says that it hung up.
        let watched = if result.is_ok() { self.poller.watch(socket, token) } else { Ok(()) };
        if watched.is_err() {
            return self.no_connection(index, NoConnection::Generator(Fault::DescriptorUnavailable), now);
        }
        match result {
            Ok(at_once) => {
                self.mark_started(index, now);
                if at_once { self.connected(index, now) } else { self.schedule(index) }
            }
            Err(NoConnection::Full) => {
                self.mark_started(index, now);
                self.clients[index as usize].deadlines.wake = now + RETRY_FULL;
                self.schedule(index);
            }
            Err(why) => self.no_connection(index, why, now),
        }
    }

    pub(super) fn connected(&mut self, index: u32, now: u64) {
        let client = &mut self.clients[index as usize];
        client.connected_at = now.max(1);
        record::record(self.record.second.times.connect(), now - client.connect_began);
        if self.job.tls.is_some() { self.secure(index, now) } else { self.established(index, now) }
    }

    /// Requests can be sent.
    pub(super) fn established(&mut self, index: u32, now: u64) {
        let client = &mut self.clients[index as usize];
        client.connected = true;
        client.deadlines.limit = NEVER;
        if self.job.is_http2 {
            client.http2 = Http2::begin().map(Box::new);
        }
        self.present.connected += 1;
        self.record.second.tally.counts.opened += 1;
        self.record.whole.most_open = self.record.whole.most_open.max(self.present.connected);
        self.flush(index, now);
    }

    pub(super) fn no_connection(&mut self, index: u32, why: NoConnection, now: u64) {
        match why {
            NoConnection::Server(wrong) => {
                self.mark_started(index, now);
                self.fail_all(index, wrong);
            }
            NoConnection::Generator(fault) => self.fault_all(index, fault),
            NoConnection::Full => self.fail_all(index, Wrong::ConnectTimeout),
        }
        self.part(index);
        if self.clients[index as usize].role == Role::Loop {
            self.clients[index as usize].deadlines.wake = now + RETRY;
            self.schedule(index);
        } else {
            self.after_failure(index, now);
        }
    }

    /// The generator could not start these. Those that had been started, on a connection that the server then ended, did fail.
    fn fault_all(&mut self, index: u32, fault: Fault) {
        let flights = std::mem::take(&mut self.clients[index as usize].flights);
        self.present.in_flight -= flights.len() as u64;
        for flight in flights {
            if flight.began > 0 {
                self.record.error(Some(flight.template), Wrong::EndBeforeReply);
                self.trace(index, &flight, self.clock.now(), Err(Wrong::EndBeforeReply));
            } else {
                self.record.fault(fault);
            }
        }
    }
}
