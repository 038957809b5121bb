//! New connections: taken while there is room, refused in words where there is none.
//!
//! Knows: listeners, the connection limit, running out of descriptors, and that other workers
//! give connections away (`handoff.rs`), which are taken like new ones. Does not know: what a
//! connection says. Runs under the baton.

use std::sync::Arc;

use reactor::{Accepted, Address, Socket};
use wire::{DateLine, GATEWAY_PEER, Millis, OVERLOADED, PROXY_PEER};

use crate::connection::shown;
use crate::connections::Connections;
use crate::engine::{Engine, Stage};
use crate::exchange::Exchange;
use crate::handoff::Source;
use crate::listener::{Kind, is_among};
use crate::listeners::{APART, HANDOFF, Listeners};
use crate::log::Level;
use crate::poller::Poller;
use crate::preface::Awaited;
use crate::share::Sharing;
use crate::slots::NEVER;
use crate::tls::{Arrival, Encrypted, Guest};
use crate::transport::Transport;

/// For how long accepting pauses when room or descriptors have run out. A closing connection
/// ends the pause earlier.
const PAUSE_MS: Millis = 250;

/// Takes connections for one loop.
pub(crate) struct Acceptor {
    engine: Arc<Engine>,
    listeners: Listeners,
    /// What the other workers of the same listeners do.
    sharing: Sharing,
    /// What the owner has asked for that was done.
    rechecks: u64,
}

impl Acceptor {
    pub fn new(engine: Arc<Engine>, listeners: Listeners) -> Self {
        Self { sharing: Sharing::new(Arc::clone(&engine)), listeners, rechecks: 0, engine }
    }

    /// Requests are tasks of an event loop.
    pub fn serve_tasks(&mut self) {
        self.sharing.serve_tasks();
    }

    /// Accepts one connection of a listener that is ready, and looks at once whether its
    /// request is there: where it is, and is the only one, the set never hears of it.
    pub fn accept_one(
        &mut self,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        self.note_room(connections, poller);
        let listener = self.listeners.next()?;
        if self.holds_back(listener, poller) {
            return None;
        }
        if self.leaves_what_is_given(listener, connections, poller) {
            return None;
        }
        if !connections.has_room() && self.another_has_room(connections) {
            self.pause(poller);
            return None;
        }
        let mut idlest = None;
        if !connections.has_room() {
            idlest = connections.take_idlest();
            if idlest.is_none() {
                self.pause(poller);
                return None;
            }
        }
        let taken = self.listeners.take(listener);
        match idlest {
            Some(idlest) if matches!(taken, Ok((Accepted::Connection(..), _))) => connections.evict(idlest),
            Some(idlest) => connections.put_back(idlest),
            None => {}
        }
        match taken {
            Ok((Accepted::Connection(socket, peer), source)) => {
                if listener == HANDOFF {
                    self.sharing.came_back(connections);
                    if !self.listeners.are_watched() {
                        connections.handover().pause(poller.now);
                    }
                } else if listener != APART {
                    self.sharing.took_newcomer(poller.now);
                }
                let tells = self.listeners.are_watched() && self.listeners.is_open();
                // Who gives connections gives many at a time.
                let one = listener != HANDOFF && !poller.is_brisk();
                if tells && one && !connections.shutdown().has_begun() {
                    // The listener tells again if there are more.
                    self.listeners.is_empty_now();
                }
                self.admit(socket, (peer, source), connections, poller)
            }
            Ok((Accepted::Nobody, _)) => {
                self.listeners.is_empty_now();
                None
            }
            Ok((Accepted::Gone, _)) => None,
            Ok((Accepted::Exhausted, _)) => self.exhausted(listener, connections, poller),
            Err(error) => {
                if self.engine.cannot_accept(&error) {
                    self.listeners.give_up(&poller.reactor);
                } else {
                    self.pause(poller);
                }
                None
            }
        }
    }

    /// What other workers give is left to others.
    #[inline]
    fn leaves_what_is_given(
        &mut self,
        listener: u16,
        connections: &Connections,
        poller: &mut Poller,
    ) -> bool {
        match listener {
            HANDOFF if !connections.has_room() => self.leave_handed_over(poller),
            APART if !connections.has_room() => self.leave_apart(poller),
            HANDOFF => return self.sharing.leaves_gifts(&mut self.listeners, poller),
            _ => return false,
        }
        true
    }

    fn admit(
        &mut self,
        socket: Socket,
        (peer, source): (Address, Source),
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        let kind = self.listeners.kind(source.listener);
        if kind.preface.is_some() && !source.handed_over && !is_among(&peer, &self.engine.config.proxy_from) {
            self.refuse_stranger(&peer);
            return None;
        }
        // Behind a PROXY header it is the one whom that names who is judged.
        let speaks_for_others =
            kind.preface.is_none() && kind.protocol.speaks_for_others() && !source.handed_over;
        if speaks_for_others && !is_among(&peer, &self.engine.config.gateway_from) {
            self.refuse_web_server(&peer);
            return None;
        }
        self.engine.counters.connections_accepted.add_alone();
        if source.handed_over {
            self.engine.counters.connections_taken_over.add();
        }
        if kind.tls {
            self.begin_handshake(socket, (peer, kind), source.listener, connections);
            return None;
        }
        connections.admit(socket.into(), (peer, kind), source, poller)
    }

    /// Leaves a listener for TLS to others, or waiting, where as many handshakes are under way as may be.
    #[inline]
    fn holds_back(&mut self, listener: u16, poller: &Poller) -> bool {
        let Some(porch) = &self.engine.porch else { return false };
        let full = porch.is_full() && self.listeners.kind(listener).tls;
        if full {
            self.engine.counters.handshake_waits.add();
            porch.want_place();
            self.listeners.hold_tls(&poller.reactor);
        }
        full
    }

    #[cold]
    fn begin_handshake(
        &self,
        socket: Socket,
        (peer, kind): (Address, Kind),
        listener: u16,
        connections: &mut Connections,
    ) {
        let porch = self.engine.porch.as_ref();
        let Some((porch, terms)) = porch.and_then(|porch| Some((porch, porch.terms(listener)?))) else {
            return connections.note_closed();
        };
        let preface = kind.preface.map(|new| Awaited::new(new, &self.engine.config.limits, 0));
        match Encrypted::new(socket, &terms) {
            Ok(transport) => porch.take_in(Guest::new(transport, peer, listener, preface)),
            Err(error) => {
                self.engine.log.complain(Level::Error, || format!("no TLS handshake can begin: {error}"));
                connections.note_closed();
            }
        }
    }

    /// Connections whose handshakes are over; others may come in their place.
    pub fn arrivals(&mut self, poller: &Poller) -> Vec<Arrival> {
        let Some(porch) = &self.engine.porch else { return Vec::new() };
        let arrivals = porch.take_back();
        if !porch.is_full() {
            self.listeners.release_tls(&poller.reactor);
        }
        arrivals
    }

    /// Handshakes are under way.
    pub fn expects_arrivals(&self) -> bool {
        self.engine.porch.as_ref().is_some_and(|porch| porch.under_way() > 0)
    }

    /// What is spoken on the connections of a listener.
    pub fn kind(&self, listener: u16) -> Kind {
        self.listeners.kind(listener)
    }

    /// Somebody who may not say for whom a connection speaks: what comes next would have to be guessed, so that
    /// nothing of it is read.
    #[cold]
    fn refuse_stranger(&self, peer: &Address) {
        self.engine.counters.connections_refused.add();
        self.engine.counters.refused(&PROXY_PEER);
        self.engine.log.complain(Level::Warning, || {
            let peer = shown(peer);
            format!("refused a connection from {peer}: {} (--proxy-protocol-from)", PROXY_PEER.text)
        });
    }

    /// Somebody whose variables are not believed: not one of them is read.
    #[cold]
    fn refuse_web_server(&self, peer: &Address) {
        self.engine.counters.connections_refused.add();
        self.engine.counters.refused(&GATEWAY_PEER);
        self.engine.log.complain(Level::Warning, || {
            format!("refused a connection from {}: {} (--gateway-allow)", shown(peer), GATEWAY_PEER.text)
        });
    }

    /// No descriptor is left. Where somebody waits for one, the idlest gives up its own, or else the
    /// peer is told.
    fn exhausted(
        &mut self,
        listener: u16,
        connections: &mut Connections,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        poller.wake_by(self.engine.is_crowded_for_a_while(poller.now));
        if listener == HANDOFF {
            self.leave_handed_over(poller);
            return None;
        }
        if listener == APART {
            self.leave_apart(poller);
            return None;
        }
        if self.another_has_room(connections) {
            self.pause(poller);
            return None;
        }
        let (socket, peer) = match self.listeners.take_with_reserve(listener) {
            Ok(Accepted::Connection(socket, peer)) => (socket, peer),
            Ok(Accepted::Nobody) => {
                self.listeners.is_empty_now();
                return None;
            }
            _ => {
                self.pause(poller);
                return None;
            }
        };
        if let Some(idlest) = connections.take_idlest() {
            connections.evict(idlest);
            self.listeners.renew_reserve();
            return self.admit(socket, (peer, Source::accepted(listener)), connections, poller);
        }
        let mut reply = Vec::new();
        let date = DateLine::at(reactor::sys::wall_seconds());
        OVERLOADED.reply(&date, &self.engine.config.server_header, false, &mut reply);
        let transport = Transport::from(socket);
        if !self.listeners.kind(listener).tls {
            // A peer that is gone already needs no answer.
            let _ = transport.send(&reply);
        }
        drop(transport);
        self.listeners.renew_reserve();
        self.engine.counters.connections_refused.add();
        self.engine.log.complain(Level::Error, || {
            "no file descriptor is left for another connection; accepting pauses (raise `ulimit -n`, or \
             lower --limit-connections)"
                .into()
        });
        self.pause(poller);
        None
    }

    /// There is no room for what other workers give: it waits where it is, for one that has room or for
    /// its giver. Nobody loses a connection for it, as nobody would gain by that.
    fn leave_handed_over(&mut self, poller: &mut Poller) {
        self.engine.counters.connections_left.add();
        self.listeners.leave_handed_over(&poller.reactor, poller.now + PAUSE_MS);
        poller.wake_by(poller.now + PAUSE_MS);
        if let Some(scoreboard) = &self.engine.config.scoreboard {
            // The kernel has woken this worker for it, and nobody else.
            scoreboard.notify_all();
        }
    }

    /// The same of requests that compute: their givers take them back.
    fn leave_apart(&mut self, poller: &mut Poller) {
        self.engine.counters.connections_left.add();
        self.sharing.stays_with_others(&mut self.listeners, poller);
    }

    fn pause(&mut self, poller: &mut Poller) {
        let until = poller.now + PAUSE_MS;
        if self.listeners.pause(&poller.reactor, until) {
            self.engine.counters.accept_pauses.add();
            self.engine.log.debug(|| format!("accepts nothing for {PAUSE_MS} ms: there is no room"));
            poller.wake_by(until);
        }
    }

    /// A connection that has been closed made room for others: the pause ends.
    #[inline]
    pub fn note_room(&mut self, connections: &mut Connections, poller: &Poller) {
        if connections.take_closed() && self.listeners.paused_until().is_some() {
            self.listeners.resume(&poller.reactor);
        }
    }

    /// This worker has no room for a new connection. True: another one has, and hears of it.
    fn another_has_room(&self, connections: &Connections) -> bool {
        !connections.shutdown().has_begun() && self.engine.another_has_room()
    }

    /// Ends a pause that is over. When the next one will be.
    pub fn expire(&mut self, connections: &mut Connections, poller: &Poller) -> Millis {
        self.note_room(connections, poller);
        self.sharing.look_after_offers(&self.listeners, connections, poller);
        match self.listeners.paused_until() {
            Some(until) if until <= poller.now => {
                self.listeners.resume(&poller.reactor);
                NEVER
            }
            until => until.unwrap_or(NEVER),
        }
    }

    /// The kernel has told of connections that wait.
    pub fn ready(&mut self, token: u64) {
        self.listeners.ready(token);
    }

    /// Connections wait to be taken.
    #[inline]
    pub fn any_ready(&self) -> bool {
        self.listeners.any_ready()
    }

    /// What is next may be taken by a worker without a free thread: it comes from another worker, or nobody has one.
    pub fn is_for_whoever_comes(&self) -> bool {
        let is_given = self.listeners.next_is_handed_over() || self.listeners.next_is_apart();
        self.listeners.any_ready() && (is_given || self.engine.nobody_is_free())
    }

    /// The owner has asked for a look at the listeners, whether or not the kernel has told of them.
    pub fn recheck(&mut self) {
        let rechecks = self.engine.rechecks();
        if self.rechecks != rechecks && self.takes() {
            self.rechecks = rechecks;
            self.listeners.all_ready();
        }
    }

    /// Another worker is too busy for what it would have to do, or would have its connections back.
    pub fn look_again(&mut self) {
        self.sharing.is_called();
        if self.takes() {
            self.listeners.all_ready();
        }
    }

    /// This worker takes new connections.
    fn takes(&self) -> bool {
        self.listeners.are_watched() && self.listeners.is_open()
    }

    /// Watches the listeners, or leaves them to others. Called before every wait.
    #[inline]
    pub fn update_listening(&mut self, connections: &mut Connections, poller: &mut Poller) {
        self.note_room(connections, poller);
        if self.engine.config.scoreboard.is_some() && self.listeners.is_open() {
            self.sharing.update_listening(&mut self.listeners, connections, poller);
        }
    }

    /// How many requests that wait here are better off with other workers.
    pub fn may_give_requests(&mut self, connections: &mut Connections, now: Millis) -> u64 {
        match self.listeners.is_open() {
            true => self.sharing.may_give_requests(connections, now),
            false => 0,
        }
    }

    /// A request that computes is better off with another worker, where none does.
    pub fn may_pass_on(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        self.listeners.is_open() && self.sharing.may_pass_on(&mut self.listeners, connections, poller)
    }

    /// A request that computes goes to the worker that takes those of all. False: there is none, or it has enough of them.
    pub fn goes_apart(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        self.listeners.is_open() && self.sharing.goes_apart(connections, poller)
    }

    /// One has gone there.
    pub fn gave_apart(&mut self, now: Millis) {
        self.sharing.gave_apart(now);
    }

    /// A connection is there. True: another worker is less busy by now; this one steps back, and that one is told.
    #[inline]
    pub fn leaves_it_to_another(&mut self, connections: &mut Connections, poller: &mut Poller) -> bool {
        self.sharing.leaves_it_to_another(&mut self.listeners, connections, poller)
    }

    /// The word to stop has come: takes what has been accepted by the kernel already, then nothing new. Where others
    /// go on, what the kernel holds is theirs.
    pub fn begin_stop(&mut self, stage: Stage, poller: &Poller) {
        self.sharing.stays_with_others(&mut self.listeners, poller);
        self.engine.leave_scoreboard();
        if let Some(porch) = &self.engine.porch {
            porch.stop();
        }
        if stage == Stage::Retiring {
            self.listeners.close(&poller.reactor);
            self.engine.report("closed it takes no new connections");
        } else if self.listeners.is_open() {
            self.listeners.all_ready();
        }
    }

    /// Takes nothing more.
    pub fn close(&mut self, poller: &Poller) {
        if self.listeners.is_open() {
            self.listeners.close(&poller.reactor);
        }
    }
}

impl Drop for Acceptor {
    /// The loop is no more: nobody waits for a handshake.
    fn drop(&mut self) {
        if let Some(porch) = &self.engine.porch {
            porch.end();
        }
    }
}
