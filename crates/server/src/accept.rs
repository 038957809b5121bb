//! New connections: taken while there is room, refused in words where there is none.
//!
//! Knows: listeners, the connection limit, running out of descriptors, and that other workers
//! give connections away (`handoff.rs`), which are taken like new ones. Does not know: what a
//! connection says. Runs under the baton.

use std::io;
use std::sync::Arc;

use reactor::sys::{Handoff, ListenerFd, Reserve, accept};
use reactor::{Accepted, Address, Reactor, Socket};
use wire::{DateLine, Http1, Millis, OVERLOADED, Peer};

use crate::connection::{Connection, Phase};
use crate::exchange::Exchange;
use crate::handoff::Origin;
use crate::slots::LISTENER;
use crate::turn::Loop;

/// For how long accepting pauses when room or descriptors have run out. A closing connection
/// ends the pause earlier.
const PAUSE_MS: Millis = 250;

/// Stands for the handoff among the numbers of listeners.
const HANDOFF: u16 = u16::MAX;

/// The listeners of one loop.
pub struct Listeners {
    fds: Vec<ListenerFd>,
    /// Connections that other workers give away: watched and left like a listener.
    pub handoff: Option<Arc<Handoff>>,
    /// Which of them have connections waiting.
    ready: Vec<u16>,
    reserve: Reserve,
    /// Until when nothing is accepted.
    paused_until: Option<Millis>,
    open: bool,
    /// Other processes watch them too.
    shared: bool,
    /// False: left to the other processes for the time being.
    watched: bool,
}

impl Listeners {
    pub fn new(fds: Vec<ListenerFd>, handoff: Option<Arc<Handoff>>, shared: bool) -> Self {
        let reserve = Reserve::new();
        Self {
            fds,
            handoff,
            ready: Vec::new(),
            reserve,
            paused_until: None,
            open: true,
            shared,
            watched: true,
        }
    }

    pub fn are_watched(&self) -> bool {
        self.watched
    }

    /// Leaves new connections to other processes.
    pub fn step_back(&mut self, reactor: &Reactor) {
        self.watched = false;
        self.ready.clear();
        self.unwatch(reactor);
    }

    /// Takes new connections again.
    pub fn step_forward(&mut self, reactor: &Reactor) {
        self.watched = true;
        if self.paused_until.is_none() && self.open {
            // It fails only where memory has run out; the next pause tries again.
            let _ = self.watch(reactor);
        }
    }

    /// Watches all of them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&self, reactor: &Reactor) -> io::Result<()> {
        for (index, fd) in self.fds.iter().enumerate() {
            reactor.watch_listener(fd, LISTENER | index as u64, self.shared)?;
        }
        if let Some(handoff) = &self.handoff {
            reactor.watch_listener(&**handoff, LISTENER | u64::from(HANDOFF), true)?;
        }
        Ok(())
    }

    fn unwatch(&self, reactor: &Reactor) {
        for fd in &self.fds {
            // It fails only where it is not watched, which is what is wanted.
            let _ = reactor.unwatch(fd);
        }
        if let Some(handoff) = &self.handoff {
            let _ = reactor.unwatch(&**handoff);
        }
    }

    /// Notes that a listener has connections waiting.
    pub fn ready(&mut self, token: u64) {
        let index = (token & 0xffff) as u16;
        if self.open && self.watched && !self.ready.contains(&index) {
            self.ready.push(index);
        }
    }

    #[inline]
    pub fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the pause ends, if there is one.
    pub fn paused_until(&self) -> Option<Millis> {
        self.paused_until
    }

    /// Ends a pause.
    pub fn resume(&mut self, reactor: &Reactor) {
        if self.paused_until.take().is_some() && self.open && self.watched {
            // It fails only where memory has run out; the next pause tries again.
            let _ = self.watch(reactor);
        }
    }

    /// Marks every listener as having new connections.
    pub fn new_ready(&mut self) {
        self.ready = (0..self.fds.len()).map(|index| index as u16).collect();
    }

    /// Marks all that can bring connections, for the last look before the end.
    pub fn all_ready(&mut self) {
        self.new_ready();
        self.ready.extend(self.handoff.as_ref().map(|_| HANDOFF));
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Takes nothing more.
    pub fn close(&mut self, reactor: &Reactor) {
        self.unwatch(reactor);
        self.open = false;
        self.paused_until = None;
        self.ready.clear();
    }
}

impl Listeners {
    /// Takes one connection of what is ready.
    fn take(&self, which: u16) -> io::Result<(Accepted, Origin)> {
        if which == HANDOFF
            && let Some(handoff) = &self.handoff
        {
            let (accepted, note) = handoff.take()?;
            let origin = Origin::noted(note);
            let known = usize::from(origin.listener) < self.fds.len();
            return Ok((accepted, if known { origin } else { Origin { listener: 0, ..origin } }));
        }
        let accepted = accept(&self.fds[usize::from(which)])?;
        Ok((accepted, Origin::accepted(which)))
    }
}

impl Loop {
    /// Accepts one connection of a listener that is ready, and looks at once whether its
    /// request is there: where it is, and is the only one, the set never hears of it.
    pub(crate) fn accept_one(&mut self) -> Option<Exchange> {
        let listener = *self.listeners.ready.last()?;
        if !self.make_room() {
            self.pause();
            return None;
        }
        match self.listeners.take(listener) {
            Ok((Accepted::Connection(socket, peer), origin)) => {
                let tells = self.listeners.are_watched() && self.listeners.is_open();
                if tells && !self.brisk && self.stop_at.is_none() {
                    // The listener tells again if there are more.
                    self.listeners.ready.pop();
                }
                self.welcome(socket, peer, origin)
            }
            Ok((Accepted::Nobody, _)) => {
                self.listeners.ready.pop();
                None
            }
            Ok((Accepted::Gone, _)) => None,
            Ok((Accepted::Exhausted, _)) => {
                self.exhausted(listener);
                None
            }
            Err(error) => {
                self.engine.log.warn(format!("a listener is broken: {error}; trying again"));
                self.pause();
                None
            }
        }
    }

    fn welcome(&mut self, socket: Socket, peer: Address, origin: Origin) -> Option<Exchange> {
        self.engine.counters.connections_accepted.add_alone();
        let trusted = self.engine.config.trust.trusts(&match peer {
            Address::Ip(ip, port) => Peer::Ip(ip, port),
            Address::Unix => Peer::Unix,
        });
        let variant = u32::from(origin.listener) << 1 | u32::from(trusted);
        let token = self.slots.take();
        let mut connection = Connection::new(socket, token, (peer, origin.listener), variant, self.now);
        if origin.used {
            connection.machine = Http1::kept(variant, self.now);
        }
        if origin.handed_over {
            self.engine.counters.connections_taken_over.add();
        }
        self.progress(Box::new(connection))
    }

    /// Sees to it that one more connection is within the limit: the idlest makes room.
    fn make_room(&mut self) -> bool {
        (self.slots.len() as u64) < self.engine.config.limits.connections || self.evict_idlest()
    }

    /// Closes the connection that has been idle longest; its deadline is the earliest, as
    /// all idle ones have the same patience.
    fn evict_idlest(&mut self) -> bool {
        let idlest = self
            .slots
            .home()
            .filter(|(_, connection, _)| {
                connection.is_idle() || matches!(connection.phase, Phase::Lingering { .. })
            })
            .min_by_key(|&(_, _, deadline)| deadline)
            .map(|(token, _, _)| token);
        let Some(connection) = idlest.and_then(|token| self.slots.lift(token)) else { return false };
        self.engine.counters.connections_evicted.add();
        self.close(connection);
        true
    }

    /// No descriptor is left: the idlest gives up its own, or else one peer is told.
    fn exhausted(&mut self, listener: u16) {
        if self.evict_idlest() {
            return;
        }
        if listener == HANDOFF {
            // It waits where it is, for this worker or another.
            self.pause();
            return;
        }
        let counters = &self.engine.counters;
        let fd = &self.listeners.fds[usize::from(listener)];
        self.listeners.reserve.lend(|| {
            if let Ok(Accepted::Connection(socket, _)) = accept(fd) {
                let mut reply = Vec::new();
                let date = DateLine::at(reactor::sys::wall_seconds());
                OVERLOADED.reply(&date, &self.engine.config.server_header, false, &mut reply);
                // A peer that is gone already needs no answer.
                let _ = socket.send(&reply);
                counters.connections_refused.add();
            }
        });
        self.engine.log.complain(crate::log::Level::Error, || {
            "no file descriptor is left for another connection; accepting pauses (raise `ulimit -n`, or \
             lower --limit-connections)"
                .into()
        });
        self.pause();
    }

    fn pause(&mut self) {
        if self.listeners.paused_until.is_some() {
            return;
        }
        self.engine.counters.accept_pauses.add();
        self.listeners.unwatch(&self.reactor);
        self.listeners.ready.clear();
        self.listeners.paused_until = Some(self.now + PAUSE_MS);
        self.wake_by(self.now + PAUSE_MS);
    }
}
