//! The rows of the scoreboard: what the workers of a server say of themselves, and what follows for
//! who watches the listeners.
//!
//! Knows: rows and fields, the same as `python/forehand/supervisor/scoreboard.py`. Does not know:
//! where the page is and how workers are notified (`scoreboard.rs`), how busy a worker is (`share.rs`); so that
//! loom can check it. A worker writes its own row and reads the others'. Any thread.

use wire::Millis;

use crate::apart::{LOW_BITS, Share};
use crate::sync::{AtomicU64, Ordering, one_order};

/// Numbers in a row; those behind the last field are room for more.
pub const WIDTH: usize = 16;
/// Rows on the page.
pub const ROWS: usize = 512;
/// A worker that has not shown its numbers for so long is stopped, or has no processor or no memory
/// to run in: what it last said of itself is not believed.
const STALE_MS: Millis = 500;
/// An event loop that was held up for too long within this time may be so again: whoever does it comes back soon.
pub const LATELY_MS: Millis = 5_000;
/// A worker that has not shown its numbers for so long, and does nothing, has done nothing since.
const SHARE_MS: Millis = 3_000;
/// From such a level on a worker is about to end.
pub const LEAVING: u64 = 1000;
/// From so much on [`Field::Strained`] says of a worker that nothing holds up now that it draws new connections, and how much.
const DRAWS: u64 = 2;

/// What is kept, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Pid,
    /// How unwilling to take new connections; see `share.rs`.
    Level,
    /// 1: watches the listeners.
    Watching,
    Requests,
    Connections,
    /// Threads inside the application.
    Busy,
    /// The most that there may be; zero: any number, as they are tasks.
    Threads,
    /// Requests that wait to be begun, and those of them that wait for others of their route: [`queued`].
    Queued,
    /// Requests that were not begun.
    Refused,
    /// Requests that were overdue.
    Timeouts,
    Errors,
    /// Monotonic milliseconds of the last update.
    Updated,
    /// 1: one thread holds up the others, or all are inside the application; more: none does, but new connections are best off here
    /// ([`strained`]), which is believed while [`Field::LoopHeld`] tells of a time that is not long ago.
    Strained,
    /// In the first row only: the rows behind this many have never been used.
    Rows,
    /// Connections that it has given away, and would have back; above those its [`Share`] of what computes.
    Wants,
    /// For how long a step has held up its event loop, and when that was: [`loop_held`].
    LoopHeld,
}

/// The numbers of all, and the time of this worker.
pub trait Page {
    fn numbers(&self) -> &[AtomicU64];
    /// Monotonic milliseconds.
    fn now(&self) -> Millis;
}

/// How many connections a worker would have back, of what it has said beside that.
fn told_wants(number: u64) -> u64 {
    number & ((1 << LOW_BITS) - 1)
}

/// For how long an event loop was held up and when that was last seen, both in milliseconds, as one number: the time in
/// the upper bits, the span in the lower 24.
pub fn loop_held(span: Millis, seen: Millis) -> u64 {
    seen << 24 | span.min((1 << 24) - 1)
}

/// One thread holds up the others; or none does now, and so many connections have ended lately whose requests did.
pub fn strained(now: bool, ended: u64) -> u64 {
    match (now, ended) {
        (true, _) => 1,
        (false, 0) => 0,
        (false, ended) => DRAWS + ended - 1,
    }
}

/// How many those were.
fn told_ended(strained: u64) -> u64 {
    strained.saturating_sub(DRAWS - 1)
}

/// True where [`loop_held`] tells of something that is not long ago.
fn held_lately(told: u64, now: Millis) -> bool {
    told != 0 && (told >> 24) + LATELY_MS > now
}

/// How many requests wait to be begun, and how many of them not for a thread but for others of their route
/// (`[route_limits]`), as one number: the latter in the upper half.
pub fn queued(waiting: u32, limited: u32) -> u64 {
    u64::from(limited) << 32 | u64::from(waiting)
}

/// What [`queued`] has told.
fn told_queued(number: u64) -> (u64, u64) {
    (number & u64::from(u32::MAX), number >> 32)
}

/// What follows for a worker: does it watch the listeners?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// It does from now on.
    Resume,
    /// It goes on.
    Keep,
    /// It leaves them to another one from now on.
    Suspend,
    /// And goes on to do so.
    StayOut,
}

/// The page, and which row is ours.
#[derive(Debug)]
pub struct Rows<P> {
    page: P,
    row: usize,
}

impl<P: Page> Rows<P> {
    pub fn new(page: P, row: usize) -> Self {
        Self { page, row }
    }

    /// A number of any row.
    pub fn of(&self, row: usize, field: Field) -> u64 {
        self.at(row.min(ROWS - 1), field).load(Ordering::Relaxed)
    }

    /// How many requests wait in any row's worker, and how many of them for others of their route.
    pub fn queued_of(&self, row: usize) -> (u64, u64) {
        told_queued(self.of(row, Field::Queued))
    }

    fn at(&self, row: usize, field: Field) -> &AtomicU64 {
        &self.page.numbers()[row * WIDTH + field as usize]
    }

    /// Writes a number of ours. One order with [`Rows::somebody_better`]: of two workers
    /// that step back at the same time, one sees that the other has.
    pub fn set(&self, field: Field, value: u64) {
        self.at(self.row, field).store(value, Ordering::SeqCst);
        one_order();
    }

    /// Says how unwilling this worker is. True: it has become busier than one that has stepped
    /// back, which shall hear of it.
    pub fn show_level(&self, level: u64, before: u64) -> bool {
        self.set(Field::Level, level);
        // Only when it has become busier: this worker is notified as well, and one that notified
        // each time would never come to rest.
        level > before && self.somebody_could_help(level)
    }

    /// Decides for a worker of that level, which has shown it, whether it watches the listeners.
    /// It is on the scoreboard already, and is done after this.
    pub fn stand(&self, level: u64, watches: bool) -> Listening {
        if level == 0 || !self.somebody_better(level) {
            if watches {
                return Listening::Keep;
            }
            self.set(Field::Watching, 1);
            return Listening::Resume;
        }
        if !watches {
            return Listening::StayOut;
        }
        self.set(Field::Watching, 0);
        if !self.somebody_better(level) {
            // The other one has stepped back for us at this very moment.
            self.set(Field::Watching, 1);
            return Listening::Keep;
        }
        Listening::Suspend
    }

    /// True when another worker watches the listeners and is more willing than `level`.
    pub fn somebody_better(&self, level: u64) -> bool {
        self.anybody(level, Some(1))
    }

    /// True when another worker is more willing than `level` and does not watch the listeners.
    pub fn somebody_could_help(&self, level: u64) -> bool {
        self.anybody(level, Some(0))
    }

    /// True when another worker is more willing than `level`, whether it watches or not.
    pub fn somebody_is_freer(&self, level: u64) -> bool {
        self.anybody(level, None)
    }

    /// True when one that watches the listeners and is more willing than `level` has been at work lately,
    /// so that it runs.
    pub fn somebody_better_runs(&self, level: u64) -> bool {
        let lately = self.page.now().saturating_sub(STALE_MS);
        self.anybody_where(level, |field| field(Field::Watching) == 1 && field(Field::Updated) >= lately)
    }

    /// True when another worker is more willing than `level`, nothing is wrong with it, and it has
    /// room: fewer connections than that. One whose loop was held up itself a moment ago is no better place.
    pub fn somebody_is_sound(&self, level: u64, room: u64) -> bool {
        let now = self.page.now();
        self.anybody_where(level, |field| {
            field(Field::Strained) != 1
                && field(Field::Connections) < room
                && !held_lately(field(Field::LoopHeld), now)
        })
    }

    /// True while one thread holds up another worker that is more willing than `level`.
    pub fn somebody_is_strained(&self, level: u64) -> bool {
        self.anybody_where(level, |field| field(Field::Strained) == 1)
    }

    /// True where this worker's event loop was held up lately.
    pub fn was_held_lately(&self) -> bool {
        held_lately(self.of(self.row, Field::LoopHeld), self.page.now())
    }

    /// True when another worker, less busy than `level`, draws new connections. Of two that do, the one has them that was held up
    /// more often: else those who come to hold up a loop would go on to hold up both.
    pub fn somebody_draws(&self, level: u64) -> bool {
        let (now, own) = (self.page.now(), self.row);
        let draws = |field: &dyn Fn(Field) -> u64| match held_lately(field(Field::LoopHeld), now) {
            true => told_ended(field(Field::Strained)),
            false => 0,
        };
        let here = draws(&|field| self.of(own, field));
        self.others().any(|row| {
            let more = |there: u64| there > here || there == here && there > 0 && row < own;
            self.is_such(row, level, &|field| field(Field::Watching) == 1 && more(draws(field)))
        })
    }

    /// How many threads such workers have free by now, as far as they have room for connections.
    pub fn free_elsewhere(&self, level: u64, room: u64) -> u64 {
        let rows = self.others().filter_map(|row| {
            let read = |field| self.at(row, field).load(Ordering::SeqCst);
            let (waiting, limited) = told_queued(read(Field::Queued));
            // Those that wait for others of their route have no use for a thread.
            let busy = read(Field::Busy) + waiting.saturating_sub(limited);
            let free = read(Field::Threads).saturating_sub(busy);
            let fits = |field: &dyn Fn(Field) -> u64| field(Field::Strained) != 1;
            let room = room.saturating_sub(read(Field::Connections));
            self.is_such(row, level, &fits).then(|| free.min(room))
        });
        rows.sum()
    }

    /// The most threads that any other worker has by now; zero where there is none.
    pub fn most_threads(&self) -> u64 {
        let living = self.others().filter(|&row| self.of(row, Field::Pid) != 0);
        living.map(|row| self.of(row, Field::Threads)).max().unwrap_or(0)
    }

    /// Says that it would have so many connections back.
    pub fn wants(&self, connections: u64) {
        let told = self.of(self.row, Field::Wants);
        let connections = connections.min(told_wants(u64::MAX));
        if told_wants(told) != connections {
            self.set(Field::Wants, told - told_wants(told) + connections);
        }
    }

    /// Says what this worker does of late.
    pub fn show_share(&self, share: Share) {
        self.set(Field::Wants, share.packed() | told_wants(self.of(self.row, Field::Wants)));
    }

    /// What the workers do that live and are not about to end, this one first, with their rows.
    pub fn shares(&self) -> impl Iterator<Item = (usize, Share)> {
        let lately = self.page.now().saturating_sub(SHARE_MS);
        let of = move |row: usize| {
            let share = Share::told(self.of(row, Field::Wants));
            // Whoever does nothing says nothing.
            match self.of(row, Field::Busy) > 0 || self.of(row, Field::Updated) >= lately {
                true => share,
                false => Share { is_apart: share.is_apart, takes: share.takes, ..Share::default() },
            }
        };
        let others = self
            .others()
            .filter(|&row| self.of(row, Field::Pid) != 0 && self.of(row, Field::Level) < LEAVING);
        std::iter::once(self.row).chain(others).map(move |row| (row, of(row)))
    }

    /// True where another worker takes one more request that computes, has room for its connection, and is no busier than `level`.
    pub fn somebody_takes_computing(&self, level: u64, room: u64) -> bool {
        self.anybody_where(level, |field| {
            Share::told(field(Field::Wants)).takes && field(Field::Connections) < room
        })
    }

    /// How many of `own` connections another worker would have back: no more than make it even between the two.
    pub fn wanted_back(&self, own: u64) -> u64 {
        let wanted = self.others().map(|row| {
            let read = |field| self.at(row, field).load(Ordering::SeqCst);
            let wants = if read(Field::Pid) == 0 || read(Field::Strained) == 1 {
                0
            } else {
                told_wants(read(Field::Wants))
            };
            wants.min(own.saturating_sub(read(Field::Connections)) / 2)
        });
        wanted.max().unwrap_or(0)
    }

    /// Rows that others have, or have had.
    fn others(&self) -> impl Iterator<Item = usize> {
        let rows = self.at(0, Field::Rows).load(Ordering::Relaxed).min(ROWS as u64);
        let own = self.row;
        (0..rows as usize).filter(move |&row| row != own)
    }

    fn anybody(&self, level: u64, watching: Option<u64>) -> bool {
        self.anybody_where(level, |field| watching.is_none_or(|wanted| field(Field::Watching) == wanted))
    }

    fn anybody_where(&self, level: u64, fits: impl Fn(&dyn Fn(Field) -> u64) -> bool) -> bool {
        self.others().any(|row| self.is_such(row, level, &fits))
    }

    /// Somebody lives in that row who is more willing than `level`, and runs.
    fn is_such(&self, row: usize, level: u64, fits: &impl Fn(&dyn Fn(Field) -> u64) -> bool) -> bool {
        let read = |field| self.at(row, field).load(Ordering::SeqCst);
        let fits = read(Field::Pid) != 0 && fits(&read) && read(Field::Level) < level;
        fits && (read(Field::Busy) == 0 || read(Field::Updated) + STALE_MS >= self.page.now())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
