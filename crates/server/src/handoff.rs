//! Kept connections that go to another worker, because here one thread holds up the others.
//!
//! Knows: which connections can leave, and the way on which they go: a socket pair of which all
//! workers hold both ends, so that what is under way outlives each of them and goes, like a new
//! connection, to whoever is free. Does not know: when it is time (`share.rs`). Runs under the
//! baton.

use wire::Millis;

use crate::connection::Connection;
use crate::turn::Loop;

/// Where a connection came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub listener: u16,
    /// From another worker, ...
    pub handed_over: bool,
    /// ... where it has had requests.
    pub used: bool,
}

impl Origin {
    /// A new one, from one of our listeners.
    pub fn accepted(listener: u16) -> Self {
        Self { listener, handed_over: false, used: false }
    }

    /// What another worker is told of a connection.
    pub fn note(connection: &Connection) -> u32 {
        u32::from(connection.listener) << 1 | u32::from(connection.machine.was_used())
    }

    /// What another worker has told. Its listeners are ours: the supervisor opened them.
    pub fn noted(note: u32) -> Self {
        Self { listener: (note >> 1) as u16, handed_over: true, used: note & 1 != 0 }
    }
}

/// How long a worker keeps its connections after it has found that nobody takes them.
const KEEP_MS: Millis = 1000;

impl Loop {
    /// One comes back that was given away: nobody has room for it, nor for others.
    pub(crate) fn stop_giving(&mut self) {
        self.gives_away = false;
        self.gives_again_at = self.now + KEEP_MS;
    }

    /// Gives every idle connection to whoever is free to take it.
    pub(crate) fn hand_over_idle(&mut self) {
        let goes =
            |(token, connection, _): (u64, &Connection, Millis)| connection.can_leave().then_some(token);
        let idle: Vec<u64> = self.slots.home().filter_map(goes).collect();
        if idle.is_empty() {
            return;
        }
        let before = self.engine.counters.connections_handed_over.get();
        for token in idle {
            let Some(connection) = self.slots.lift(token) else { continue };
            if let Some(kept) = self.hand_over(connection) {
                // As many are under way as there may be: the rest goes another time.
                self.gives_away = false;
                self.park(kept);
                break;
            }
        }
        let given = self.engine.counters.connections_handed_over.get() - before;
        self.engine
            .log
            .debug(|| format!("has given {given} idle connections to other workers: it is held up"));
        // The watchdog, which shows numbers, may be asleep: nobody has begun anything.
        self.engine.publish(self.now);
    }

    /// Gives a connection that can leave to whoever is free to take it; given back where that cannot be
    /// now. What its client has sent and nobody has read goes with it.
    pub(crate) fn hand_over(&mut self, mut connection: Box<Connection>) -> Option<Box<Connection>> {
        let Some(handoff) = self.listeners.handoff.clone() else { return Some(connection) };
        // The set watches what is open, not who has it open.
        if connection.watched {
            if self.reactor.unwatch(&*connection.transport).is_err() {
                return Some(connection);
            }
            connection.watched = false;
        }
        if !matches!(connection.transport.hand_over(&handoff, Origin::note(&connection)), Ok(true)) {
            return Some(connection);
        }
        self.engine.counters.connections_handed_over.add();
        self.close(connection);
        None
    }
}
