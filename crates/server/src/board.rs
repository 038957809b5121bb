//! The board: where each worker of a server keeps its numbers, for its supervisor and for the
//! other workers to read.
//!
//! Knows: rows and fields, the same as `python/forehand/supervisor/board.py`. Does not know:
//! what follows from them. A worker writes its own row and reads the others'; a supervisor
//! clears the row of one that is gone. Any thread.

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::{Own, SharedNumbers, monotonic_ms};
use wire::Millis;

/// Numbers in a row; those behind the last field are room for more.
const WIDTH: usize = 16;
/// Rows on the page.
const ROWS: usize = 512;

/// How often a worker shows its numbers, at least, while somebody is inside its application.
pub const SHOW_MS: Millis = 200;
/// A worker that has not done so for so long is stopped, or has no processor or no memory to run in:
/// what it last said of itself is not believed.
const STALE_MS: Millis = 500;

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
    /// The most that there may be.
    Threads,
    /// Requests that wait for a thread.
    Queued,
    /// Requests that were not begun.
    Refused,
    /// Requests that were overdue.
    Timeouts,
    Errors,
    /// Monotonic milliseconds of the last update.
    Updated,
    /// 1: one thread holds up the others, or all are inside the application.
    Strained,
    /// In the first row only: the rows behind this many have never been used.
    Rows,
}

/// The page, which row is ours, and the bell that all workers hear.
#[derive(Debug)]
pub struct Board {
    page: SharedNumbers,
    row: usize,
    bell: Own,
}

impl Board {
    /// Joins the board behind a descriptor.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` when there is no such row.
    pub fn join(fd: RawFd, row: usize, bell: RawFd) -> io::Result<Self> {
        if row >= ROWS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the board has no such row"));
        }
        Ok(Self { page: SharedNumbers::map(fd, ROWS * WIDTH)?, row, bell: Own::copy_of(bell)? })
    }

    /// From now on this worker takes connections.
    pub fn enter(&self) {
        self.set(Field::Watching, 1);
        self.set(Field::Pid, u64::from(std::process::id()));
    }

    /// What can be watched for [`Board::ring`].
    pub fn bell(&self) -> &Own {
        &self.bell
    }

    /// Has workers that have stepped back look again whether they are needed.
    pub fn ring(&self) {
        // An eventfd takes a number of eight bytes; one that is full has been heard.
        let _ = (&self.bell).write(&1_u64.to_ne_bytes());
    }

    fn at(&self, row: usize, field: Field) -> &AtomicU64 {
        &self.page.numbers()[row * WIDTH + field as usize]
    }

    /// Writes a number of ours. One order with [`Board::somebody_better`]: of two workers
    /// that step back at the same time, one sees that the other has.
    pub fn set(&self, field: Field, value: u64) {
        self.at(self.row, field).store(value, Ordering::SeqCst);
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
        let lately = monotonic_ms().saturating_sub(STALE_MS);
        self.anybody_where(level, |field| field(Field::Watching) == 1 && field(Field::Updated) >= lately)
    }

    /// True when another worker is more willing than `level`, nothing is wrong with it, and it has
    /// room: fewer connections than that.
    pub fn somebody_is_sound(&self, level: u64, room: u64) -> bool {
        self.anybody_where(level, |field| field(Field::Strained) == 0 && field(Field::Connections) < room)
    }

    fn anybody(&self, level: u64, watching: Option<u64>) -> bool {
        self.anybody_where(level, |field| watching.is_none_or(|wanted| field(Field::Watching) == wanted))
    }

    fn anybody_where(&self, level: u64, fits: impl Fn(&dyn Fn(Field) -> u64) -> bool) -> bool {
        let rows = self.at(0, Field::Rows).load(Ordering::Relaxed).min(ROWS as u64);
        (0..rows as usize).filter(|&row| row != self.row).any(|row| {
            let read = |field| self.at(row, field).load(Ordering::SeqCst);
            let fits = read(Field::Pid) != 0 && fits(&read) && read(Field::Level) < level;
            fits && (read(Field::Busy) == 0 || read(Field::Updated) + STALE_MS >= monotonic_ms())
        })
    }
}
