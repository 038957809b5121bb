//! Kept connections that go to another worker, because here one thread holds up the others.
//!
//! Knows: which connections can leave, and the way on which they go: a socket pair of which all
//! workers hold both ends, so that what is under way outlives each of them and goes, like a new
//! connection, to whoever is free. Does not know: when it is time (`share.rs`). Runs under the
//! baton. How a connection leaves is in `handover.rs`.

use std::sync::Arc;

use reactor::sys::Handoff;
use wire::Millis;

use crate::connection::Connection;
use crate::handover::{Way, depart};
use crate::poller::Poller;
use crate::returns::Returns;

/// Where a connection came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub listener: u16,
    /// From another worker, or from the thread of handshakes: its preface is over ...
    pub handed_over: bool,
    /// ... and it has had requests.
    pub used: bool,
    /// What its preface has said there, where that has changed something.
    pub said: Vec<u8>,
}

impl Source {
    /// A new one, from one of our listeners.
    pub fn accepted(listener: u16) -> Self {
        Self { listener, handed_over: false, used: false, said: Vec::new() }
    }

    /// A new one, whose preface was heard before it came here, and what that was, where it has changed something.
    pub fn introduced(listener: u16, said: &[u8]) -> Self {
        Self { handed_over: true, said: said.to_vec(), ..Self::accepted(listener) }
    }

    /// What another worker is told of a connection.
    pub fn note(connection: &Connection) -> Vec<u8> {
        let first = u32::from(connection.listener) << 1 | u32::from(connection.machine.was_used());
        [&first.to_ne_bytes()[..], connection.preface_said()].concat()
    }

    /// What another worker has told. Its listeners are ours: the supervisor opened them.
    pub fn noted(note: &[u8]) -> Self {
        let (first, said) = note.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let first = u32::from_ne_bytes(*first);
        Self { listener: (first >> 1) as u16, handed_over: true, used: first & 1 != 0, said: said.to_vec() }
    }
}

/// How long a worker keeps its connections after it has found that nobody takes them.
const KEEP_MS: Millis = 1000;

/// The poller that watches it, and the pair on which it goes.
struct ToOthers<'a>(&'a Handoff, &'a Poller);

impl Way<Connection> for ToOthers<'_> {
    fn unwatch(&self, connection: &mut Connection) -> bool {
        self.1.unwatch(connection).is_ok()
    }

    fn give(&self, connection: &mut Connection) -> bool {
        matches!(connection.transport.hand_over(self.0, &Source::note(connection)), Ok(true))
    }
}

/// Where idle connections go that another worker shall have.
pub(crate) struct Handover {
    handoff: Option<Arc<Handoff>>,
    /// Idle connections are better off with another worker.
    on: bool,
    /// Before then none is given away again, as nobody has taken the last ones.
    again_at: Millis,
    /// Those that were given away because this worker was held up.
    returns: Returns,
}

impl Handover {
    pub fn new(handoff: Option<Arc<Handoff>>) -> Self {
        Self { handoff, on: false, again_at: 0, returns: Returns::default() }
    }

    /// True while connections that become idle are given away.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Gives connections away from now on, or keeps them.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// What is away, and when it is to come back.
    pub fn returns(&mut self) -> &mut Returns {
        &mut self.returns
    }

    /// False for a while after nobody has taken what was given.
    pub fn may_begin(&self, now: Millis) -> bool {
        now >= self.again_at
    }

    /// One comes back that was given away: nobody has room for it, nor for others.
    pub fn pause(&mut self, now: Millis) {
        self.on = false;
        self.again_at = now + KEEP_MS;
    }

    /// Gives a connection that can leave to whoever is free to take it; what its client has sent and nobody has read
    /// goes with it. False: that cannot be now.
    pub fn send(&self, connection: &mut Connection, poller: &Poller) -> bool {
        self.handoff.as_ref().is_some_and(|handoff| depart(connection, &ToOthers(handoff, poller)))
    }
}
