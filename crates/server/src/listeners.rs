//! Where connections come from: listeners, and other workers that give connections away.
//!
//! Knows: which have something, which are watched, and until when nothing is taken. Does not know: whether there is
//! room (`accept.rs`), or who else takes them (`share.rs`). Runs under the baton.

use std::io;
use std::sync::Arc;

use reactor::sys::{Handoff, Reserve, accept, is_readable};
use reactor::{Accepted, Reactor};
use wire::Millis;

use crate::handoff::Source;
use crate::handover::Arrivals;
use crate::listener::{Kind, Listener};
use crate::slots::LISTENER;

/// Stands for the handoff among the numbers of listeners.
pub const HANDOFF: u16 = u16::MAX;

/// Stands for the way on which requests that compute come.
pub const APART: u16 = u16::MAX - 1;
/// The listeners of one loop.
pub struct Listeners {
    all: Vec<Listener>,
    /// Connections that other workers give away: watched and left like a listener.
    handoff: Option<Arc<Handoff>>,
    /// Requests that compute, which other workers give to the one that takes them: watched by that one, whatever it does about the rest.
    apart: Option<Arc<Handoff>>,
    takes_apart: bool,
    /// Which of them have connections waiting.
    ready: Vec<u16>,
    /// Which of them had connections that others shall take, when that was last looked at.
    waiting: Vec<u16>,
    reserve: Reserve,
    /// Until when nothing is accepted.
    paused_until: Option<Millis>,
    /// Connections of other workers, as far as this one takes them.
    arrivals: Arrivals,
    open: bool,
    /// Other processes watch them too.
    shared: bool,
    /// False: left to the other processes for the time being.
    watched: bool,
    /// Those for TLS wait, as enough handshakes are under way.
    tls_held: bool,
}

impl Listeners {
    pub fn new(
        all: Vec<Listener>,
        handoff: Option<Arc<Handoff>>,
        apart: Option<Arc<Handoff>>,
        shared: bool,
    ) -> Self {
        let reserve = Reserve::new();
        Self {
            all,
            handoff,
            apart,
            takes_apart: false,
            ready: Vec::new(),
            waiting: Vec::new(),
            reserve,
            paused_until: None,
            arrivals: Arrivals::default(),
            open: true,
            shared,
            watched: true,
            tls_held: false,
        }
    }

    pub fn are_watched(&self) -> bool {
        self.watched
    }

    /// Leaves new connections to other processes.
    pub fn step_back(&mut self, reactor: &Reactor) {
        self.watched = false;
        self.forget_ready();
        self.waiting.clear();
        self.arrivals.step_back();
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
        for (index, one) in self.all.iter().enumerate() {
            if one.kind.tls && self.tls_held {
                continue;
            }
            reactor.watch_listener(&one.fd, LISTENER | index as u64, self.shared)?;
        }
        if let Some(handoff) = &self.handoff
            && self.arrivals.left_until().is_none()
        {
            reactor.watch_listener(&**handoff, LISTENER | u64::from(HANDOFF), true)?;
        }
        Ok(())
    }

    fn unwatch(&self, reactor: &Reactor) {
        for Listener { fd, .. } in &self.all {
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
        let looks = self.watched || index == APART;
        if self.open && looks && !self.ready.contains(&index) {
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
        self.paused_until.into_iter().chain(self.arrivals.left_until()).min()
    }

    /// Leaves connections of other workers to those that have room, until then.
    pub fn leave_handed_over(&mut self, reactor: &Reactor, until: Millis) {
        self.ready.retain(|&which| which != HANDOFF);
        if self.arrivals.leave(until)
            && let Some(handoff) = &self.handoff
        {
            // It fails only where it is not watched, which is what is wanted.
            let _ = reactor.unwatch(&**handoff);
        }
    }

    /// Ends the pauses.
    pub fn resume(&mut self, reactor: &Reactor) {
        let (paused, left) = (self.paused_until.take(), self.arrivals.resume());
        if !(self.open && self.watched) {
            return;
        }
        // It fails only where memory has run out; the next pause tries again.
        if paused.is_some() {
            let _ = self.watch(reactor);
        } else if let (true, Some(handoff)) = (left, &self.handoff) {
            let _ = reactor.watch_listener(&**handoff, LISTENER | u64::from(HANDOFF), true);
        }
    }

    /// Marks what was left to other workers and has waited since the last call, which was long enough
    /// ago for whoever runs: `new` connections, and those that were given away, which come first.
    pub fn take_neglected(&mut self, new: bool) {
        let listeners = if new { self.all.len() } else { 0 };
        let waiting: Vec<u16> = (0..listeners)
            .filter(|&index| is_readable(&self.all[index].fd))
            .map(|index| index as u16)
            .collect();
        self.forget_ready();
        self.ready.extend(waiting.iter().copied().filter(|which| self.waiting.contains(which)));
        self.waiting = waiting;
        if self.arrivals.are_neglected(self.any_handed_over()) {
            self.ready.push(HANDOFF);
        }
    }

    /// True where connections wait that were given away.
    pub fn any_handed_over(&self) -> bool {
        self.open && self.handoff.as_ref().is_some_and(|handoff| is_readable(&**handoff))
    }

    /// True where new connections wait.
    pub fn any_wait(&self) -> bool {
        self.open && self.all.iter().any(|one| is_readable(&one.fd))
    }

    /// Marks all that can bring connections, for the last look before the end.
    pub fn all_ready(&mut self) {
        self.forget_ready();
        self.ready.extend((0..self.all.len()).map(|index| index as u16));
        if self.arrivals.left_until().is_none() {
            self.ready.extend(self.handoff.as_ref().map(|_| HANDOFF));
        }
        if self.any_apart() {
            self.take_neglected_apart();
        }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Takes nothing more, and touches no descriptor: what has their numbers now is somebody else's.
    pub fn give_up(&mut self, reactor: &Reactor) {
        self.open = false;
        self.close(reactor);
    }

    /// Takes nothing more, and keeps nobody from being refused: who waited in a queue that nobody empties would find out
    /// when this process ends.
    pub fn close(&mut self, reactor: &Reactor) {
        self.unwatch(reactor);
        self.take_apart(false, reactor);
        if self.open {
            for Listener { fd, .. } in &self.all {
                // It fails only where there are no descriptors left.
                let _ = fd.let_go();
            }
        }
        self.open = false;
        self.paused_until = None;
        self.arrivals = Arrivals::default();
        self.ready.clear();
    }
}

impl Listeners {
    /// What is ready, and is looked at next.
    #[inline]
    pub fn next(&self) -> Option<u16> {
        self.ready.last().copied()
    }

    /// What is looked at has no more connections waiting, as far as is known: the kernel tells again if it has.
    pub fn is_empty_now(&mut self) {
        self.ready.pop();
    }

    /// Accepts nothing until then. False: that is so already.
    pub fn pause(&mut self, reactor: &Reactor, until: Millis) -> bool {
        if self.paused_until.is_some() {
            return false;
        }
        self.unwatch(reactor);
        self.forget_ready();
        self.paused_until = Some(until);
        true
    }

    /// Takes one connection with the descriptor that is kept for it, where no other is left.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_with_reserve(&mut self, which: u16) -> io::Result<Accepted> {
        let fd = &self.all[usize::from(which)].fd;
        // The kernel asks for a descriptor before it looks whether there is a connection.
        self.reserve.lend(|| accept(fd))
    }

    /// What is spoken on the connections of one of them.
    pub fn kind(&self, which: u16) -> Kind {
        self.all.get(usize::from(which)).map_or(Kind::HTTP, |one| one.kind)
    }

    /// Has connections to listeners for TLS wait where they are, until [`Listeners::release_tls`].
    pub fn hold_tls(&mut self, reactor: &Reactor) {
        self.tls_held = true;
        for (index, one) in self.all.iter().enumerate().filter(|(_, one)| one.kind.tls) {
            // It fails only where it is not watched, which is what is wanted.
            let _ = reactor.unwatch(&one.fd);
            self.ready.retain(|&which| usize::from(which) != index);
        }
    }

    /// Connections for TLS are taken again.
    pub fn release_tls(&mut self, reactor: &Reactor) {
        let held = std::mem::take(&mut self.tls_held);
        if !held || !self.open || !self.watched || self.paused_until.is_some() {
            return;
        }
        for (index, one) in self.all.iter().enumerate().filter(|(_, one)| one.kind.tls) {
            // It fails only where memory has run out; the next pause tries again.
            let _ = reactor.watch_listener(&one.fd, LISTENER | index as u64, self.shared);
        }
    }

    /// A descriptor is kept again.
    pub fn renew_reserve(&mut self) {
        self.reserve.renew();
    }

    /// Takes one connection of what is ready.
    ///
    /// # Errors
    /// The kernel's: the listener is broken.
    pub fn take(&self, which: u16) -> io::Result<(Accepted, Source)> {
        if which == HANDOFF
            && let Some(handoff) = &self.handoff
        {
            return self.take_given(handoff);
        }
        if which == APART
            && let Some(apart) = &self.apart
        {
            return self.take_given(apart);
        }
        let accepted = accept(&self.all[usize::from(which)].fd)?;
        Ok((accepted, Source::accepted(which)))
    }

    fn take_given(&self, way: &Handoff) -> io::Result<(Accepted, Source)> {
        let (accepted, note) = way.take()?;
        let source = Source::noted(&note);
        let known = usize::from(source.listener) < self.all.len();
        Ok((accepted, if known { source } else { Source { listener: 0, ..source } }))
    }
}

/// Requests that compute, which other workers give.
impl Listeners {
    /// They are taken here from now on, or not any more.
    pub fn take_apart(&mut self, takes: bool, reactor: &Reactor) {
        let Some(apart) = self.apart.as_ref().filter(|_| self.takes_apart != takes) else { return };
        self.takes_apart = takes;
        // It fails only where memory has run out, or where it is not watched, which is what is wanted.
        let _ = match takes {
            true => reactor.watch_listener(&**apart, LISTENER | u64::from(APART), true),
            false => reactor.unwatch(&**apart),
        };
        if !takes {
            self.ready.retain(|&which| which != APART);
        }
    }

    /// True where more of them can be given.
    pub fn apart_has_room(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.has_room())
    }

    /// True where some wait.
    pub fn any_apart(&self) -> bool {
        self.open && self.apart.as_ref().is_some_and(|apart| is_readable(&**apart))
    }

    /// Takes some that wait, whoever should.
    pub fn take_neglected_apart(&mut self) {
        if self.open && !self.ready.contains(&APART) {
            self.ready.push(APART);
        }
    }

    /// Gives some that wait to whoever takes new connections, as far as they fit there.
    pub fn pass_on_apart(&self) {
        let (Some(apart), Some(handoff)) = (&self.apart, &self.handoff) else { return };
        while handoff.has_room()
            && let Ok((Accepted::Connection(socket, _), note)) = apart.take()
        {
            if !handoff.give(&socket, &note).is_ok_and(|given| given) {
                // Others have filled it meanwhile: there is room where it was.
                let _ = apart.give(&socket, &note);
                break;
            }
        }
    }

    /// What is next is one of them.
    pub fn next_is_apart(&self) -> bool {
        self.ready.last() == Some(&APART)
    }

    /// Nothing is ready that is left to other workers.
    fn forget_ready(&mut self) {
        self.ready.retain(|&which| which == APART);
    }
}
