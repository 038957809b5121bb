//! The board: where each worker of a server keeps its numbers, for its supervisor and for the
//! other workers to read.
//!
//! Knows: rows and fields, the same as `python/forehand/supervisor/board.py`. Does not know:
//! what follows from them. A worker writes its own row and reads the others'; a supervisor
//! clears the row of one that is gone. Any thread.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use reactor::sys::SharedNumbers;

/// Numbers in a row; those behind the last field are room for more.
const WIDTH: usize = 16;
/// Rows on the page.
const ROWS: usize = 512;

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
}

/// The page, and which row is ours.
#[derive(Debug)]
pub struct Board {
    page: SharedNumbers,
    row: usize,
}

impl Board {
    /// Joins the board behind a descriptor.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` when there is no such row.
    pub fn join(fd: RawFd, row: usize) -> io::Result<Self> {
        if row >= ROWS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the board has no such row"));
        }
        let board = Self { page: SharedNumbers::map(fd, ROWS * WIDTH)?, row };
        board.set(Field::Pid, u64::from(std::process::id()));
        Ok(board)
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
        (0..ROWS).filter(|&row| row != self.row).any(|row| {
            self.at(row, Field::Pid).load(Ordering::SeqCst) != 0
                && self.at(row, Field::Watching).load(Ordering::SeqCst) != 0
                && self.at(row, Field::Level).load(Ordering::SeqCst) < level
        })
    }
}
