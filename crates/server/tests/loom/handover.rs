//! A worker gives its connections away; another one takes them, has no room, leaves or dies.
//!
//! What must hold: a connection is taken once, or stays with its giver, or comes back to it; nobody hears
//! of it in two loops; and a worker that had no room takes what waits once it has. A taker sleeps where
//! nothing tells it to look, so that a connection that is left behind is what loom calls a deadlock.

use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;
use server::handover::{Arrivals, Way, depart};

/// The socket pair and what the kernel knows of each connection.
struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Connections that are under way, and how many fit.
    way: Vec<usize>,
    fit: usize,
    /// The taker watches the way, and is told of it.
    watched: bool,
    told: bool,
    /// The giver makes no more looks.
    giver_ended: bool,
    connections: Vec<Connection>,
}

#[derive(Clone)]
struct Connection {
    /// How many descriptors there are of it, under way or with a worker.
    open: usize,
    /// The giver's loop hears of it.
    heard: bool,
    taken: usize,
    came_back: usize,
}

impl Kernel {
    fn new(connections: usize, fit: usize) -> Arc<Self> {
        let one = Connection { open: 1, heard: true, taken: 0, came_back: 0 };
        let (way, connections) = (Vec::new(), vec![one; connections]);
        let state = State { way, fit, watched: true, told: false, giver_ended: false, connections };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn is_waiting(&self) -> bool {
        !self.state().way.is_empty()
    }

    /// A message with its descriptor, which is the receiver's from now on.
    fn take(&self) -> Option<usize> {
        let mut state = self.state();
        let taken = (!state.way.is_empty()).then(|| state.way.remove(0))?;
        assert!(!state.connections[taken].heard, "two loops hear of a connection");
        self.changed.notify_all();
        Some(taken)
    }

    fn watch(&self, watched: bool) {
        let mut state = self.state();
        state.watched = watched;
        state.told = watched && !state.way.is_empty();
    }

    /// Sleeps until the way is told of. False: nothing is under way, and nothing comes.
    fn wait(&self) -> bool {
        let mut state = self.state();
        loop {
            if std::mem::take(&mut state.told) {
                return true;
            }
            if state.giver_ended && state.way.is_empty() {
                return false;
            }
            state = self.changed.wait(state).unwrap();
        }
    }
}

impl Way<usize> for Kernel {
    fn unwatch(&self, connection: &mut usize) -> bool {
        self.state().connections[*connection].heard = false;
        true
    }

    fn give(&self, connection: &mut usize) -> bool {
        let mut state = self.state();
        if state.way.len() == state.fit {
            return false;
        }
        state.way.push(*connection);
        state.connections[*connection].open += 1;
        state.told = state.watched;
        self.changed.notify_all();
        true
    }
}

/// Gives each away until no more fit, and looks so often whether they wait still.
fn give(kernel: &Kernel, looks: usize) {
    let count = kernel.state().connections.len();
    for mut connection in 0..count {
        if depart(&mut connection, kernel) {
            // Ours is closed.
            kernel.state().connections[connection].open -= 1;
        } else {
            // It is parked again.
            kernel.state().connections[connection].heard = true;
        }
    }
    let mut arrivals = Arrivals::default();
    for turn in 0..looks {
        let back = look(kernel, &mut arrivals);
        assert!(turn > 0 || back == 0, "what was given a moment ago is taken from whoever comes for it");
    }
    kernel.state().giver_ended = true;
    kernel.changed.notify_all();
}

/// A look of a worker that has stepped back, as `Listeners::take_neglected` and what follows it. How many
/// come back.
fn look(kernel: &Kernel, arrivals: &mut Arrivals) -> usize {
    let mut back = 0;
    if arrivals.are_neglected(kernel.is_waiting()) {
        while let Some(connection) = kernel.take() {
            let mut state = kernel.state();
            let connection = &mut state.connections[connection];
            (connection.heard, connection.came_back) = (true, connection.came_back + 1);
            back += 1;
        }
    }
    back
}

/// A worker that watches the way.
#[derive(Clone, Copy)]
struct Taker {
    /// How many it takes before it has no room.
    room: usize,
    /// Then: one of its own is closed, or it leaves.
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    RoomAgain,
    Leaves,
    /// With what it has taken: the clients see that.
    Dies,
}

impl Taker {
    fn live(mut self, kernel: &Kernel) {
        let mut arrivals = Arrivals::default();
        // As in `Acceptor::accept_one`: room first, then one connection.
        while kernel.wait() {
            loop {
                if self.room > 0 {
                    let Some(connection) = kernel.take() else { break };
                    kernel.state().connections[connection].taken += 1;
                    self.room -= 1;
                    continue;
                }
                if self.then != Then::RoomAgain {
                    kernel.watch(false);
                    return;
                }
                assert!(arrivals.leave(1), "they are left twice");
                assert!(!arrivals.leave(2) && arrivals.left_until() == Some(2), "the later end counts");
                kernel.watch(false);
                // A connection of its own is closed.
                self.room = usize::MAX;
                if arrivals.resume() {
                    kernel.watch(true);
                }
                break;
            }
        }
    }
}

/// So many connections of which so many fit on the way; the giver looks so often while the taker lives.
fn handed_over(connections: usize, fit: usize, looks: usize, taker: Taker) {
    loom::model(move || {
        let kernel = Kernel::new(connections, fit);
        let theirs = Arc::clone(&kernel);
        let other = thread::spawn(move || taker.live(&theirs));
        give(&kernel, looks);
        other.join().unwrap();
        if taker.then != Then::RoomAgain {
            // The giver stays, and its clock has it look again.
            let mut arrivals = Arrivals::default();
            look(&kernel, &mut arrivals);
            look(&kernel, &mut arrivals);
        }
        let state = kernel.state();
        assert!(state.way.is_empty(), "a connection is left behind");
        for connection in &state.connections {
            assert_eq!(connection.open, 1, "one worker has it");
            let with = (connection.taken, usize::from(connection.heard));
            assert!(with == (1, 0) || with == (0, 1), "it is the taker's or the giver's: {with:?}");
            assert!(connection.came_back <= 1, "it comes back once");
        }
    });
}

const TAKER: Taker = Taker { room: usize::MAX, then: Then::RoomAgain };

#[test]
fn what_is_given_is_taken_once() {
    handed_over(2, 2, 0, TAKER);
}

#[test]
fn what_does_not_fit_on_the_way_stays_with_its_giver() {
    handed_over(2, 1, 0, TAKER);
}

#[test]
fn what_nobody_takes_comes_back_or_is_taken_at_that_moment() {
    handed_over(2, 2, 2, TAKER);
}

#[test]
fn a_taker_that_has_room_again_takes_what_waits() {
    handed_over(2, 2, 0, Taker { room: 1, ..TAKER });
}

#[test]
fn a_taker_that_has_room_again_and_a_giver_that_looks_share_what_waits() {
    handed_over(2, 2, 2, Taker { room: 1, ..TAKER });
}

#[test]
fn what_a_taker_leaves_behind_comes_back() {
    for (room, then) in [(0, Then::Leaves), (1, Then::Leaves), (0, Then::Dies), (1, Then::Dies)] {
        handed_over(2, 2, 2, Taker { room, then });
    }
}
