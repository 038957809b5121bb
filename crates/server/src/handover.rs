//! How a connection goes from one worker to another: it is with one of them, or under way.
//!
//! Knows: the steps of who gives, and when what is under way is taken, left or taken back. Does not know: sockets,
//! pollers (`handoff.rs`, `listeners.rs`), or when it is time to give (`share.rs`); so that loom can check it. Runs
//! under the baton of each worker; between workers is only the way.

use wire::Millis;

/// What a worker does to a connection that it gives away.
pub trait Way<C> {
    /// Its own loop hears no more of it. False: that failed.
    fn unwatch(&self, connection: &mut C) -> bool;
    /// Puts it where whoever is free takes it. False: so many are under way that no more fit.
    fn give(&self, connection: &mut C) -> bool;
}

/// Gives a connection away. True: it is another worker's, or comes back on the same way, and is closed here.
/// False: it stays, and is watched again when it is parked.
pub fn depart<C>(connection: &mut C, way: &impl Way<C>) -> bool {
    // Unwatched first: an edge that is told here after another worker has it would be lost.
    way.unwatch(connection) && way.give(connection)
}

/// What other workers have given away: taken where there is room, left to others for a while, or taken
/// back where nobody takes it.
#[derive(Debug, Default)]
pub struct Arrivals {
    left_until: Option<Millis>,
    /// Something waited at the last look of a worker that does not watch.
    waited: bool,
}

impl Arrivals {
    /// Until when they are left to workers that have room; none: they are taken.
    pub fn left_until(&self) -> Option<Millis> {
        self.left_until
    }

    /// Leaves them to workers that have room, until then. True: they are to be unwatched.
    pub fn leave(&mut self, until: Millis) -> bool {
        self.left_until.replace(until).is_none()
    }

    /// There may be room again. True: they had been left, and whoever watches listeners is to watch them.
    pub fn resume(&mut self) -> bool {
        self.left_until.take().is_some()
    }

    /// A worker that does not watch looks whether something is `waiting`. True: it has been since the last
    /// look, so that nobody takes it.
    pub fn are_neglected(&mut self, waiting: bool) -> bool {
        std::mem::replace(&mut self.waited, waiting) && waiting
    }

    /// The next look of a worker that does not watch is its first.
    pub fn step_back(&mut self) {
        self.waited = false;
    }
}
