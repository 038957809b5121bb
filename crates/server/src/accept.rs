//! New connections: taken while there is room, refused in words where there is none.
//!
//! Knows: listeners, the connection limit, running out of descriptors, and that other workers
//! give connections away (`handoff.rs`), which are taken like new ones. Does not know: what a
//! connection says. Runs under the baton.

use std::io;
use std::sync::Arc;

use reactor::sys::{Handoff, ListenerFd, Reserve, accept, is_readable};
use reactor::{Accepted, Address, Reactor, Socket};
use wire::{DateLine, Http1, Millis, OVERLOADED, Peer};

use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::handoff::Origin;
use crate::slots::LISTENER;
use crate::transport::Transport;
use crate::turn::Loop;

/// For how long accepting pauses when room or descriptors have run out. A closing connection
/// ends the pause earlier.
const PAUSE_MS: Millis = 250;

/// Stands for the handoff among the numbers of listeners.
pub(crate) const HANDOFF: u16 = u16::MAX;

/// The listeners of one loop.
pub struct Listeners {
    fds: Vec<ListenerFd>,
    /// Connections that other workers give away: watched and left like a listener.
    pub handoff: Option<Arc<Handoff>>,
    /// Which of them have connections waiting.
    ready: Vec<u16>,
    /// Which of them had connections that others shall take, when that was last looked at.
    waiting: Vec<u16>,
    reserve: Reserve,
    /// Until when nothing is accepted.
    paused_until: Option<Millis>,
    /// Until when connections of other workers are left to those that have room.
    left_until: Option<Millis>,
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
            waiting: Vec::new(),
            reserve,
            paused_until: None,
            left_until: None,
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
        self.waiting.clear();
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
        if let Some(handoff) = &self.handoff
            && self.left_until.is_none()
        {
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

    /// True when what is next comes from another worker.
    pub fn next_is_handed_over(&self) -> bool {
        self.ready.last() == Some(&HANDOFF)
    }

    /// When the next pause ends, if there is one.
    pub fn paused_until(&self) -> Option<Millis> {
        self.paused_until.into_iter().chain(self.left_until).min()
    }

    /// Leaves connections of other workers to those that have room, until then.
    pub fn leave_handed_over(&mut self, reactor: &Reactor, until: Millis) {
        self.ready.retain(|&which| which != HANDOFF);
        if self.left_until.replace(until).is_none()
            && let Some(handoff) = &self.handoff
        {
            // It fails only where it is not watched, which is what is wanted.
            let _ = reactor.unwatch(&**handoff);
        }
    }

    /// Ends the pauses.
    pub fn resume(&mut self, reactor: &Reactor) {
        let (paused, left) = (self.paused_until.take(), self.left_until.take());
        if !(self.open && self.watched) {
            return;
        }
        // It fails only where memory has run out; the next pause tries again.
        if paused.is_some() {
            let _ = self.watch(reactor);
        } else if let (Some(_), Some(handoff)) = (left, &self.handoff) {
            let _ = reactor.watch_listener(&**handoff, LISTENER | u64::from(HANDOFF), true);
        }
    }

    /// Marks what was left to other workers and has waited since the last call, which was long enough
    /// ago for whoever runs: `new` connections, and those that were given away, which come first.
    pub fn take_neglected(&mut self, new: bool) {
        let listeners = if new { self.fds.len() } else { 0 };
        let mut waiting: Vec<u16> =
            (0..listeners).filter(|&index| is_readable(&self.fds[index])).map(|index| index as u16).collect();
        if self.handoff.as_ref().is_some_and(|handoff| is_readable(&**handoff)) {
            waiting.push(HANDOFF);
        }
        self.ready = waiting.iter().copied().filter(|which| self.waiting.contains(which)).collect();
        self.waiting = waiting;
    }

    /// Marks all that can bring connections, for the last look before the end.
    pub fn all_ready(&mut self) {
        self.ready = (0..self.fds.len()).map(|index| index as u16).collect();
        if self.left_until.is_none() {
            self.ready.extend(self.handoff.as_ref().map(|_| HANDOFF));
        }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Takes nothing more.
    pub fn close(&mut self, reactor: &Reactor) {
        self.unwatch(reactor);
        self.open = false;
        self.paused_until = None;
        self.left_until = None;
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
        if listener == HANDOFF && !self.has_room() {
            self.leave_handed_over();
            return None;
        }
        if !self.has_room() && self.another_has_room() {
            self.pause();
            return None;
        }
        let mut idlest = None;
        if !self.has_room() {
            idlest = self.lift_idlest();
            if idlest.is_none() {
                self.pause();
                return None;
            }
        }
        let taken = self.listeners.take(listener);
        match idlest {
            Some(idlest) if matches!(taken, Ok((Accepted::Connection(..), _))) => self.evict(idlest),
            Some(idlest) => self.spare(idlest),
            None => {}
        }
        match taken {
            Ok((Accepted::Connection(socket, peer), origin)) => {
                if listener == HANDOFF && !self.listeners.are_watched() {
                    self.stop_giving();
                }
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
            Ok((Accepted::Exhausted, _)) => self.exhausted(listener),
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
        let mut connection =
            Connection::new(socket.into(), token, (peer, origin.listener), variant, self.now);
        if origin.used {
            connection.machine = Http1::kept(variant, self.now);
        }
        if origin.handed_over {
            self.engine.counters.connections_taken_over.add();
        }
        self.progress(Box::new(connection))
    }

    /// No descriptor is left. Where somebody waits for one, the idlest gives up its own, or else the
    /// peer is told.
    fn exhausted(&mut self, listener: u16) -> Option<Exchange> {
        self.is_crowded_for_a_while();
        if listener == HANDOFF {
            self.leave_handed_over();
            return None;
        }
        if self.another_has_room() {
            self.pause();
            return None;
        }
        let fd = &self.listeners.fds[usize::from(listener)];
        // The kernel asks for a descriptor before it looks whether there is a connection.
        let (socket, peer) = match self.listeners.reserve.lend(|| accept(fd)) {
            Ok(Accepted::Connection(socket, peer)) => (socket, peer),
            Ok(Accepted::Nobody) => {
                self.listeners.ready.pop();
                return None;
            }
            _ => {
                self.pause();
                return None;
            }
        };
        if let Some(idlest) = self.lift_idlest() {
            self.evict(idlest);
            self.listeners.reserve.renew();
            return self.welcome(socket, peer, Origin::accepted(listener));
        }
        let mut reply = Vec::new();
        let date = DateLine::at(reactor::sys::wall_seconds());
        OVERLOADED.reply(&date, &self.engine.config.server_header, false, &mut reply);
        // A peer that is gone already needs no answer.
        let transport = Transport::from(socket);
        let _ = transport.send(&reply);
        drop(transport);
        self.listeners.reserve.renew();
        self.engine.counters.connections_refused.add();
        self.engine.log.complain(crate::log::Level::Error, || {
            "no file descriptor is left for another connection; accepting pauses (raise `ulimit -n`, or \
             lower --limit-connections)"
                .into()
        });
        self.pause();
        None
    }

    /// There is no room for what other workers give: it waits where it is, for one that has room or for
    /// its giver. Nobody loses a connection for it, as nobody would gain by that.
    fn leave_handed_over(&mut self) {
        self.engine.counters.connections_left.add();
        self.listeners.leave_handed_over(&self.reactor, self.now + PAUSE_MS);
        self.wake_by(self.now + PAUSE_MS);
        if let Some(board) = &self.engine.config.board {
            // The kernel has woken this worker for it, and nobody else.
            board.ring();
        }
    }

    fn pause(&mut self) {
        if self.listeners.paused_until.is_some() {
            return;
        }
        self.engine.counters.accept_pauses.add();
        self.engine.log.debug(|| format!("accepts nothing for {PAUSE_MS} ms: there is no room"));
        self.listeners.unwatch(&self.reactor);
        self.listeners.ready.clear();
        self.listeners.paused_until = Some(self.now + PAUSE_MS);
        self.wake_by(self.now + PAUSE_MS);
    }
}
