//! Where TLS handshakes take place, on a thread that does nothing else.
//!
//! Knows: connections whose handshake is under way, what some say before it (a PROXY header), and until when each may take.
//! Does not know: listeners, requests, the interpreter. A handshake costs as much as ten requests, which nobody else waits for: neither the loop nor whoever has the
//! baton or drives an event loop.
//!
//! ```text
//!   loop ── take_in ──► arriving ──► shaking hands ──► done ──► loop: a connection like any other,
//!                                        │                       or what became of it
//!                                        └─ the time is over, it left, it broke a rule
//! ```

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use reactor::sys::monotonic_ms;
use reactor::{Address, Event, Reactor, Waker};
use wire::{Fault, Limits, Millis};

use super::encrypted::{Encrypted, Handshake, Terms};
use super::material::Material;
use crate::inbox::Inbox;
use crate::listener::Kind;
use crate::preface::{Awaited, Verdict};
use crate::sync::lock;

/// How long those whose handshake is under way have left when the server stops, or has stood still.
const MOMENT_MS: Millis = 1000;
/// Somebody whose time has been over for so long was not looked at when it ended: this process had no processor.
const STOOD_STILL_MS: Millis = 100;
/// Room for the mathematics of handshakes, of which those with ML-KEM need most.
const STACK_BYTES: usize = 512 << 10;

/// A connection that has been accepted.
pub struct Guest {
    pub transport: Box<Encrypted>,
    /// Who has made it or, once its preface is over, for whom that says it speaks.
    pub peer: Address,
    pub listener: u16,
    /// What has to be said before the handshake, as long as that has not come. It has the time of the handshake.
    pub preface: Option<Box<Awaited>>,
    /// What it was, where it has changed something.
    pub said: Box<[u8]>,
    /// It was given more time, as this process had stood still.
    pub has_waited: bool,
    /// Since when its client is the one that is waited for, in monotonic milliseconds.
    since: Millis,
}

/// What became of a handshake.
pub enum Outcome {
    Done,
    /// What came before the handshake is not what has to be said there.
    Refused(Fault),
    /// What arrived is no TLS.
    Other(Box<[u8]>),
    /// The peer has left, or nothing could be read from it.
    Left,
    TimedOut,
    /// Others wanted its place, and its client took long.
    Displaced,
    /// Why it cannot be completed.
    Failed(String),
}

/// A connection that comes back to the loop.
pub struct Arrival {
    pub guest: Guest,
    pub outcome: Outcome,
}

impl Guest {
    /// One that has said nothing. `preface`: what it has to say before the handshake.
    pub fn new(transport: Encrypted, peer: Address, listener: u16, preface: Option<Awaited>) -> Self {
        let (transport, preface) = (Box::new(transport), preface.map(Box::new));
        Self { transport, peer, listener, preface, said: Box::default(), has_waited: false, since: 0 }
    }

    /// Hears what has to be said before the handshake. So many bytes behind it have come, and begin `room`; none: an edge
    /// will tell.
    fn hear_preface(&mut self, room: &mut [u8]) -> Result<Option<usize>, Outcome> {
        let Some(preface) = &mut self.preface else { return Ok(Some(0)) };
        loop {
            let count = match self.transport.socket().recv(room) {
                Ok(Some(0)) | Err(_) => return Err(Outcome::Left),
                Ok(None) => return Ok(None),
                Ok(Some(count)) => count,
            };
            let mut rest = &room[..count];
            match preface.advance(&mut rest) {
                Verdict::More => {}
                Verdict::Refused(fault) => return Err(Outcome::Refused(fault)),
                Verdict::Over { length, peer, proxied } => {
                    let begun = rest.len();
                    if peer.is_some() || proxied.is_some() {
                        self.said = preface.take_said(length);
                    }
                    self.peer = peer.unwrap_or(self.peer);
                    self.preface = None;
                    room.copy_within(count - begun..count, 0);
                    return Ok(Some(begun));
                }
            }
        }
    }
}

/// The place.
pub struct Porch {
    /// Of each listener, by its number.
    terms: Mutex<Vec<Terms>>,
    /// Which each listener is among those for TLS; what stands for others is never asked for.
    places: Vec<u16>,
    arriving: Inbox<Guest>,
    done: Inbox<Arrival>,
    /// Connections between the two.
    under_way: AtomicU64,
    most: u64,
    timeout: Millis,
    hold: Millis,
    /// Others wait for a place.
    wanted: AtomicBool,
    /// Waits for the first guest; the thread has it from then on.
    reactor: Mutex<Option<Reactor>>,
    waker: Arc<Waker>,
    /// Wakes the loop.
    loop_waker: Arc<Waker>,
    stopping: AtomicBool,
    ended: AtomicBool,
}

impl Porch {
    /// `listeners`: which of them are for TLS.
    ///
    /// # Errors
    /// The kernel's, when a descriptor cannot be had.
    pub fn new(
        material: &Material,
        listeners: &[Kind],
        limits: &Limits,
        loop_waker: Arc<Waker>,
    ) -> io::Result<Arc<Self>> {
        let reactor = Reactor::new()?;
        let place = |index| listeners[..index].iter().filter(|kind| kind.tls).count() as u16;
        let places: Vec<u16> = (0..listeners.len()).map(place).collect();
        Ok(Arc::new(Self {
            terms: Mutex::new(terms(material, &places)),
            places,
            arriving: Inbox::default(),
            done: Inbox::default(),
            under_way: AtomicU64::new(0),
            most: limits.handshakes,
            timeout: limits.handshake_timeout,
            hold: limits.handshake_hold,
            wanted: AtomicBool::new(false),
            waker: reactor.waker(),
            reactor: Mutex::new(Some(reactor)),
            loop_waker,
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }))
    }

    /// Handshakes that begin from now on have other certificates.
    pub fn renew(&self, material: &Material) {
        *lock(&self.terms) = terms(material, &self.places);
    }

    /// What a handshake that begins now is to be like at this listener.
    pub fn terms(&self, listener: u16) -> Option<Terms> {
        lock(&self.terms).get(usize::from(listener)).cloned()
    }

    /// Handshakes under way, those included that are over and were not taken back.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// As many are under way as may be.
    pub fn is_full(&self) -> bool {
        self.under_way() >= self.most
    }

    /// Somebody waits for a place. For the loop.
    pub fn want_place(&self) {
        if !self.wanted.swap(true, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Takes in a connection. For the loop.
    pub fn take_in(self: &Arc<Self>, guest: Guest) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let wakes = self.arriving.put(guest);
        let first = lock(&self.reactor).take();
        if let Some(reactor) = first {
            let this = Arc::clone(self);
            let started = thread::Builder::new().name("forehand-tls".into()).stack_size(STACK_BYTES);
            if started.spawn(move || Hall::new(&this, reactor).run()).is_err() {
                // Without a thread there are no handshakes: who waits for one is told that it is over.
                self.refuse_all();
            }
        } else if wakes {
            self.waker.wake();
        }
    }

    fn refuse_all(&self) {
        for guest in self.arriving.take() {
            self.give_back(guest, Outcome::Failed("no thread can be started".into()));
        }
        if let Ok(reactor) = Reactor::new() {
            *lock(&self.reactor) = Some(reactor);
        }
    }

    fn give_back(&self, guest: Guest, outcome: Outcome) {
        if self.done.put(Arrival { guest, outcome }) {
            self.loop_waker.wake();
        }
    }

    /// Those whose handshakes are over. For the loop.
    pub fn take_back(&self) -> Vec<Arrival> {
        if !self.done.is_full() {
            return Vec::new();
        }
        let done = self.done.take();
        self.under_way.fetch_sub(done.len() as u64, Ordering::Relaxed);
        done
    }

    /// The server stops: who is in the midst of a handshake has a moment more, who has said nothing has not.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Nobody waits for a handshake any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.arriving.close();
        self.done.close();
        self.waker.wake();
    }
}

fn terms(material: &Material, places: &[u16]) -> Vec<Terms> {
    places.iter().map(|&place| material.terms(place)).collect()
}

/// What the thread has.
struct Hall<'a> {
    porch: &'a Porch,
    reactor: Reactor,
    guests: HashMap<u64, Guest>,
    /// In the order in which their time ends, also of guests that have gone.
    deadlines: VecDeque<(Millis, u64)>,
    next: u64,
    stopping: bool,
    /// When somebody may have to give a place to others.
    displaces_at: Option<Millis>,
}

impl<'a> Hall<'a> {
    fn new(porch: &'a Porch, reactor: Reactor) -> Self {
        let (guests, deadlines) = (HashMap::new(), VecDeque::new());
        Self { porch, reactor, guests, deadlines, next: 0, stopping: false, displaces_at: None }
    }

    fn run(mut self) {
        let mut room = self.reactor.take_lent();
        while !self.porch.ended.load(Ordering::Relaxed) {
            for guest in self.porch.arriving.take() {
                self.admit(guest, &mut room);
            }
            if !self.stopping && self.porch.stopping.load(Ordering::Relaxed) {
                self.stop();
            }
            self.expire();
            self.make_place(&mut room);
            if self.reactor.poll_for(self.patience()).is_err() {
                // It would be a bug of ours, or a forked child, in which this thread does not exist.
                return;
            }
            while let Some(event) = self.reactor.take_next() {
                if let Event::Edge { token, .. } = event
                    && let Some(guest) = self.guests.remove(&token)
                {
                    self.go_on(token, guest, &mut room);
                }
            }
        }
    }

    /// Milliseconds until somebody's time is over; -1: nobody waits.
    fn patience(&self) -> i32 {
        let first = self.deadlines.front().map(|(deadline, _)| *deadline);
        let Some(next) = first.into_iter().chain(self.displaces_at).min() else { return -1 };
        i32::try_from(next.saturating_sub(monotonic_ms())).unwrap_or(i32::MAX)
    }

    fn admit(&mut self, mut guest: Guest, room: &mut [u8]) {
        let token = self.next;
        self.next += 1;
        if let Err(error) = guest.transport.watch(&self.reactor, token) {
            return self.porch.give_back(guest, Outcome::Failed(error.to_string()));
        }
        let patience = if self.stopping { MOMENT_MS } else { self.porch.timeout };
        guest.since = monotonic_ms();
        self.give_time(guest.since + patience, token);
        self.go_on(token, guest, room);
    }

    fn go_on(&mut self, token: u64, mut guest: Guest, room: &mut [u8]) {
        let begun = match guest.hear_preface(room) {
            Ok(Some(begun)) => begun,
            Ok(None) => {
                self.guests.insert(token, guest);
                return;
            }
            Err(outcome) => return self.give_back(guest, outcome),
        };
        let was_silent = guest.transport.is_unanswered();
        let outcome = match guest.transport.shake_hands(room, begun) {
            Handshake::Waits => {
                if was_silent && !guest.transport.is_unanswered() {
                    // It has just been answered, and could not be quicker.
                    guest.since = monotonic_ms();
                }
                self.guests.insert(token, guest);
                return;
            }
            Handshake::Done => {
                guest.transport.learn();
                Outcome::Done
            }
            Handshake::Left => Outcome::Left,
            Handshake::Other(bytes) => Outcome::Other(bytes),
            Handshake::Failed(why) => Outcome::Failed(why),
        };
        self.give_back(guest, outcome);
    }

    fn give_back(&mut self, guest: Guest, outcome: Outcome) {
        // The loop watches it from now on. It fails only where it is not watched, which is what is wanted.
        let _ = self.reactor.unwatch(&*guest.transport);
        self.porch.give_back(guest, outcome);
        if self.guests.is_empty() {
            self.deadlines.clear();
        }
    }

    fn expire(&mut self) {
        let now = monotonic_ms();
        while let Some(&(deadline, token)) = self.deadlines.front()
            && (deadline <= now || !self.guests.contains_key(&token))
        {
            self.deadlines.pop_front();
            let Some(guest) = self.guests.get_mut(&token) else { continue };
            // What it had sent is read by now, and our answer has only just gone: it could not be quicker. Once.
            if now - deadline >= STOOD_STILL_MS && !mem::replace(&mut guest.has_waited, true) {
                self.give_time(now + MOMENT_MS, token);
            } else if let Some(guest) = self.guests.remove(&token) {
                self.give_back(guest, Outcome::TimedOut);
            }
        }
    }

    /// Where others wait for a place, the guest that has kept us waiting longest gives up its own, if that is long. What
    /// it has sent meanwhile is looked at first: it may be through.
    fn make_place(&mut self, room: &mut [u8]) {
        let now = monotonic_ms();
        let is_due = self.displaces_at.is_some_and(|at| at <= now);
        if !self.porch.wanted.swap(false, Ordering::Relaxed) && !is_due {
            return;
        }
        self.displaces_at = None;
        if !self.porch.is_full() {
            return;
        }
        let Some((&token, oldest)) = self.guests.iter().min_by_key(|(_, guest)| guest.since) else { return };
        let (since, due) = (oldest.since, oldest.since.saturating_add(self.porch.hold));
        if due > now {
            self.displaces_at = Some(due);
            return;
        }
        if let Some(guest) = self.guests.remove(&token) {
            self.go_on(token, guest, room);
        }
        if self.guests.get(&token).is_some_and(|guest| guest.since == since)
            && let Some(guest) = self.guests.remove(&token)
        {
            self.give_back(guest, Outcome::Displaced);
        } else if self.guests.contains_key(&token) {
            self.displaces_at = Some(now);
        }
    }

    fn give_time(&mut self, until: Millis, token: u64) {
        let at = self.deadlines.partition_point(|(deadline, _)| *deadline <= until);
        self.deadlines.insert(at, (until, token));
    }

    fn stop(&mut self) {
        self.stopping = true;
        let until = monotonic_ms() + MOMENT_MS;
        self.deadlines.iter_mut().for_each(|(deadline, _)| *deadline = until.min(*deadline));
        let silent: Vec<u64> = self
            .guests
            .iter()
            .filter(|(_, guest)| guest.transport.is_silent())
            .map(|(token, _)| *token)
            .collect();
        for token in silent {
            if let Some(guest) = self.guests.remove(&token) {
                self.give_back(guest, Outcome::Left);
            }
        }
    }
}
