//! Room for one more connection: whoever has been idle longest makes it.
//!
//! Knows: the connection limit, and which connections may be closed for another. Does not know:
//! where the new one comes from. Runs under the baton.
//!
//! A look through the table finds many that may be closed, so that the next ones need none: at the
//! limit a new connection costs a few rows on average, however large the table is.

use wire::Millis;

use super::Connections;
use crate::connection::{Connection, Phase};
use crate::slots::{Place, Slots};

/// One in so many connections is remembered by a look through the table.
const SHARE: usize = 64;

/// Those that have been idle longest, as of the last look: (deadline, token), the idlest last.
#[derive(Default)]
pub struct EvictionQueue(Vec<(Millis, u64)>);

impl EvictionQueue {
    /// The idlest, which is in flight from now on, and how many rows were looked at to find it. One that has
    /// said something since the last look has another deadline, and is not idlest any more. `any`: not only
    /// of those that are idle, but whoever's patience ends first.
    fn take(&mut self, slots: &mut Slots, any: bool) -> (Option<Box<Connection>>, u64) {
        let mut looked = 0;
        loop {
            while let Some((deadline, token)) = self.0.pop() {
                looked += 1;
                let still = slots.get(token).is_some_and(|row| match &row.place {
                    Place::Parked(connection) => row.deadline == deadline && (any || may_close(connection)),
                    _ => false,
                });
                if still && let Some(connection) = slots.check_out(token) {
                    return (Some(connection), looked);
                }
            }
            looked += slots.rows() as u64;
            self.look(slots, any);
            if self.0.is_empty() {
                return (None, looked);
            }
        }
    }

    /// Looks through the table.
    fn look(&mut self, slots: &Slots, any: bool) {
        let idle = slots.parked().filter(|(_, connection, _)| any || may_close(connection));
        self.0.extend(idle.map(|(token, _, deadline)| (deadline, token)));
        let most = self.0.len().div_ceil(SHARE);
        if most < self.0.len() {
            self.0.select_nth_unstable(most);
            self.0.truncate(most);
        }
        self.0.sort_unstable_by(|one, other| other.cmp(one));
        self.0.shrink_to_fit();
    }
}

/// Nothing is lost with it but its patience.
fn may_close(connection: &Connection) -> bool {
    connection.is_idle() || matches!(connection.phase, Phase::Lingering { .. })
}

impl Connections {
    /// True when one more connection is within the limit.
    pub fn has_room(&self) -> bool {
        let shaking_hands = self.engine.porch.as_ref().map_or(0, |porch| porch.under_way());
        (self.slots.len() as u64).saturating_add(shaking_hands) < self.engine.config.limits.connections
    }

    /// Takes the connection that has been idle longest out of the table: it makes room, once it is sure
    /// that there is somebody to make room for. Its deadline is the earliest, as all idle ones have
    /// the same patience.
    pub fn take_idlest(&mut self) -> Option<Box<Connection>> {
        let any = self.engine.config.unfinished_make_room;
        let (idlest, looked) = self.evictable.take(&mut self.slots, any);
        self.engine.counters.eviction_looks.add_many(looked);
        idlest
    }

    /// Closes a connection that makes room.
    pub fn evict(&mut self, idlest: Box<Connection>) {
        self.engine.counters.connections_evicted.add();
        self.engine.log.debug(|| "closes the idlest connection: another one needs its room".into());
        if !idlest.sending.is_empty() {
            // Its peer cannot take what it has for a whole reply.
            idlest.transport.reset_at_close();
        }
        self.close(idlest);
    }

    /// Nobody needs the room: the connection is where it was.
    pub fn put_back(&mut self, idlest: Box<Connection>) {
        let token = idlest.token;
        if let Some(row) = self.slots.get(token) {
            self.evictable.0.push((row.deadline, token));
            row.place = Place::Parked(idlest);
        }
    }
}
