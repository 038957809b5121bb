//! The table of connections: a slot each, named by (index, generation).
//!
//! Knows: which slots are free, parked or in flight, when each is due, and which go on without an
//! edge. Does not know: what a connection does. Runs under the baton.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::Millis;

use crate::connection::Connection;
use crate::pipelined::PipelinedReplies;

/// Tokens of listeners have this bit; a slot's generation never reaches it.
pub const LISTENER: u64 = 1 << 63;

/// The token of what other workers notify this one by.
pub const NOTIFIER: u64 = LISTENER | 1 << 62;

/// No deadline.
pub const NEVER: Millis = Millis::MAX;

/// Where a connection is.
pub enum Place {
    Free,
    /// In the table.
    Parked(Box<Connection>),
    /// With a thread, which hands it back. An edge that comes meanwhile is remembered.
    InFlight {
        missed: bool,
        hung_up: bool,
        /// Where its replies to earlier pipelined requests wait, once a request of it has held some up.
        pipelined: Option<Arc<PipelinedReplies>>,
    },
}

impl Place {
    /// With a thread from now on.
    const IN_FLIGHT: Self = Self::InFlight { missed: false, hung_up: false, pipelined: None };
}

/// A connection that is in flight and shall be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    pub token: u64,
    /// The peer has ended its side, or the connection broke.
    pub hung_up: bool,
}

/// One row.
pub struct Slot {
    pub place: Place,
    pub deadline: Millis,
    generation: u32,
    /// It is among those that go on without an edge.
    resumes: bool,
}

/// The table.
#[derive(Default)]
pub struct Slots {
    rows: Vec<Slot>,
    free: Vec<u32>,
    /// Rows whose connections go on without an edge, as there is more in their sockets: each is
    /// in it once at the most, so that it is never longer than the table.
    resumed: VecDeque<u32>,
    /// The generation that a new row begins with.
    first_generation: u32,
    /// How many rows are streams', whose connections have rows of their own.
    streams: usize,
    /// For a driver that keeps exchanges for long: those that are in flight and shall be looked at.
    wakeups: Option<Vec<Wakeup>>,
}

impl Slots {
    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.rows.len() - self.free.len() - self.streams
    }

    /// No row is in use, not by a stream either.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == self.free.len()
    }

    /// Takes a slot for a stream that leaves: it is in flight until it is freed.
    pub fn take_for_stream(&mut self) -> u64 {
        self.streams += 1;
        self.take()
    }

    /// Frees the slot of a stream that is over.
    pub fn free_of_stream(&mut self, token: u64) {
        if self.get(token).is_some() {
            self.streams -= 1;
            self.free(token);
        }
    }

    /// How many rows there are, in use or free.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Takes a slot for a connection that is about to be made; it is in flight until it is parked.
    pub fn take(&mut self) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Slot {
                place: Place::Free,
                deadline: NEVER,
                generation: self.first_generation,
                resumes: false,
            });
            // The connection limit is far below 2³².
            (self.rows.len() - 1) as u32
        });
        let row = &mut self.rows[index as usize];
        row.place = Place::IN_FLIGHT;
        row.deadline = NEVER;
        u64::from(row.generation) << 32 | u64::from(index)
    }

    /// The row that a token names, unless the slot has been used again since.
    #[inline]
    pub fn get(&mut self, token: u64) -> Option<&mut Slot> {
        let row = self.rows.get_mut((token & 0xffff_ffff) as usize)?;
        (u64::from(row.generation) == token >> 32).then_some(row)
    }

    /// Frees the slot of a connection that is no more.
    pub fn free(&mut self, token: u64) {
        let Some(row) = self.get(token) else { return };
        row.place = Place::Free;
        row.deadline = NEVER;
        // 31 bits: the listeners' bit stays clear, and a token comes again after 2³¹ uses.
        row.generation = (row.generation + 1) & 0x7fff_ffff;
        self.free.push((token & 0xffff_ffff) as u32);
        if self.free.len() == self.rows.len() && self.rows.len() > 1024 {
            // A crowd has left: its table goes too. Generations go on, as tokens of it may still
            // be among events that were fetched and not looked at.
            self.first_generation = self.rows.iter().map(|row| row.generation).max().unwrap_or(0);
            self.rows = Vec::new();
            self.free = Vec::new();
            self.resumed = VecDeque::new();
        }
    }

    /// Has a connection go on without an edge, after those that do so already.
    #[inline]
    pub fn resume(&mut self, token: u64) {
        if let Some(row) = self.get(token)
            && !std::mem::replace(&mut row.resumes, true)
        {
            self.resumed.push_back((token & 0xffff_ffff) as u32);
        }
    }

    /// How many go on without an edge.
    #[inline]
    pub fn resuming(&self) -> usize {
        self.resumed.len()
    }

    /// The next connection that goes on without an edge; in flight from now on. None inside: it is with a
    /// thread, or gone. One that has the slot of one that is gone is visited for nothing.
    #[inline]
    pub fn next_resumed(&mut self) -> Option<Option<Box<Connection>>> {
        let index = self.resumed.pop_front()?;
        let row = &mut self.rows[index as usize];
        row.resumes = false;
        let token = u64::from(row.generation) << 32 | u64::from(index);
        Some(self.check_out(token))
    }

    /// Tells a connection that comes back of the edges that it missed.
    #[inline]
    pub fn deliver_missed_edges(&mut self, connection: &mut Connection) {
        if let Some(row) = self.get(connection.token)
            && let Place::InFlight { missed, hung_up, .. } = &mut row.place
        {
            connection.note_edge(std::mem::take(missed), std::mem::take(hung_up));
        }
    }

    /// Takes a connection that is parked; in flight from now on.
    #[inline]
    pub fn check_out(&mut self, token: u64) -> Option<Box<Connection>> {
        let row = self.get(token)?;
        match std::mem::replace(&mut row.place, Place::IN_FLIGHT) {
            Place::Parked(connection) => Some(connection),
            other => {
                row.place = other;
                None
            }
        }
    }

    /// Replies of a connection wait for a request of it that is begun now. They are the same from its first request to
    /// its last, so that they are noted once.
    #[inline]
    pub fn note_pipelined(&mut self, token: u64, replies: &Arc<PipelinedReplies>) {
        if let Some(row) = self.get(token)
            && let Place::InFlight { pipelined, .. } = &mut row.place
            && !pipelined.as_ref().is_some_and(|known| Arc::ptr_eq(known, replies))
        {
            *pipelined = Some(Arc::clone(replies));
        }
    }

    /// What [`Slots::note_pipelined`] has noted, taken away.
    pub fn take_pipelined(&mut self, token: u64) -> Option<Arc<PipelinedReplies>> {
        match &mut self.get(token)?.place {
            Place::InFlight { pipelined, .. } => pipelined.take(),
            Place::Free | Place::Parked(_) => None,
        }
    }

    /// All rows that are parked, with their tokens.
    pub fn parked(&self) -> impl Iterator<Item = (u64, &Connection, Millis)> {
        self.rows.iter().enumerate().filter_map(|(index, row)| match &row.place {
            Place::Parked(connection) => {
                Some((u64::from(row.generation) << 32 | index as u64, &**connection, row.deadline))
            }
            _ => None,
        })
    }

    /// Edges and deadlines of those that are in flight are told, as [`Slots::take_wakeups`] does.
    pub fn tell_of_in_flight(&mut self) {
        self.wakeups = Some(Vec::new());
    }

    /// Has a connection that is in flight looked at. False: nobody is told.
    pub fn wake(&mut self, wakeup: Wakeup) -> bool {
        self.wakeups.as_mut().map(|all| all.push(wakeup)).is_some()
    }

    /// Those that are in flight and shall be looked at, since the last call.
    pub fn take_wakeups(&mut self, into: &mut Vec<Wakeup>) {
        if let Some(wakeups) = &mut self.wakeups {
            into.append(wakeups);
        }
    }

    /// An edge of a connection that is not parked: it is remembered for one that is in flight, and comes too
    /// late for one that is gone.
    pub fn miss_edge(&mut self, token: u64, readable: bool, ended: bool) {
        if let Some(row) = self.get(token)
            && let Place::InFlight { missed, hung_up, .. } = &mut row.place
        {
            *missed |= readable;
            *hung_up |= ended;
            self.wake(Wakeup { token, hung_up: ended });
        }
    }

    /// Wakes those that are in flight and whose deadline has come; when the next one will.
    pub fn wake_due(&mut self, now: Millis) -> Millis {
        let mut next = NEVER;
        let Some(wakeups) = &mut self.wakeups else { return next };
        for (index, row) in self.rows.iter_mut().enumerate() {
            if !matches!(row.place, Place::InFlight { .. }) {
                continue;
            }
            if row.deadline > now {
                next = next.min(row.deadline);
                continue;
            }
            row.deadline = NEVER;
            let token = u64::from(row.generation) << 32 | index as u64;
            wakeups.push(Wakeup { token, hung_up: false });
        }
        next
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.place, Place::InFlight { .. })).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_goes_on_without_an_edge_is_there_once() {
        let mut slots = Slots::default();
        let tokens = [slots.take(), slots.take()];
        for _ in 0..3 {
            tokens.iter().for_each(|&token| slots.resume(token));
        }
        assert_eq!(slots.resuming(), 2);
        // Its successor in the slot does not make it two, either.
        slots.free(tokens[0]);
        let successor = slots.take();
        slots.resume(successor);
        assert_eq!(slots.resuming(), 2);
        while slots.next_resumed().is_some() {}
        slots.resume(successor);
        assert_eq!(slots.resuming(), 1);
    }

    #[test]
    fn replies_that_wait_for_a_connection_are_known_no_longer_than_its_flight() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let socket = reactor::Socket::from_owned(std::os::fd::OwnedFd::from(ours)).expect("a socket");
        let replies = PipelinedReplies::new(&Arc::new(socket.into()));
        let mut slots = Slots::default();
        let token = slots.take();
        let goes = |slots: &mut Slots| {
            (0..2).for_each(|_| slots.note_pipelined(token, &replies));
            assert_eq!(Arc::strong_count(&replies), 2, "once, however often");
        };
        goes(&mut slots);
        assert!(slots.take_pipelined(token).is_some_and(|known| Arc::ptr_eq(&known, &replies)));
        assert!(slots.take_pipelined(token).is_none() && Arc::strong_count(&replies) == 1);
        goes(&mut slots);
        slots.free(token);
        assert_eq!(Arc::strong_count(&replies), 1, "a closed socket is not kept open");
    }

    #[test]
    fn no_token_of_a_crowd_that_has_left_names_a_newcomer() {
        let mut slots = Slots::default();
        let crowd: Vec<u64> = (0..1025).map(|_| slots.take()).collect();
        slots.resume(crowd[1000]);
        crowd.iter().for_each(|&token| slots.free(token));
        assert_eq!((slots.rows.len(), slots.resuming()), (0, 0), "the table has gone");
        let newcomers: Vec<u64> = (0..1025).map(|_| slots.take()).collect();
        assert!(crowd.iter().all(|&token| slots.get(token).is_none()));
        assert!(newcomers.iter().all(|&token| slots.get(token).is_some()));
    }
}
