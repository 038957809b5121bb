//! The scoreboard: where each worker of a server keeps its numbers, for its supervisor and for the
//! other workers to read.
//!
//! Knows: the page that they share, and how all workers are notified. Does not know: what is in the rows (`rows.rs`). A
//! supervisor clears the row of a worker that is gone. Any thread.

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;

use reactor::sys::{Access, CloseOnFork, SharedNumbers, monotonic_ms};
use wire::Millis;

pub use crate::rows::Field;
use crate::rows::{Page, ROWS, Rows, WIDTH};

/// How often a worker shows its numbers, at least, while somebody is inside its application.
pub const SHOW_MS: Millis = 200;

impl Page for SharedNumbers {
    fn numbers(&self) -> &[AtomicU64] {
        SharedNumbers::numbers(self)
    }

    fn now(&self) -> Millis {
        monotonic_ms()
    }
}

/// The rows, and what notifies all workers.
#[derive(Debug)]
pub struct Scoreboard {
    rows: Rows<SharedNumbers>,
    notifier: CloseOnFork,
}

impl std::ops::Deref for Scoreboard {
    type Target = Rows<SharedNumbers>;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl Scoreboard {
    /// Joins the scoreboard behind a descriptor.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` when there is no such row.
    pub fn join(fd: RawFd, row: usize, notifier: RawFd) -> io::Result<Self> {
        if row >= ROWS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the scoreboard has no such row"));
        }
        let page = SharedNumbers::map(fd, ROWS * WIDTH)?;
        Ok(Self { rows: Rows::new(page, row), notifier: CloseOnFork::copy_of(notifier)? })
    }

    /// The rows behind a descriptor, for a process that only reads them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look(fd: RawFd) -> io::Result<Rows<SharedNumbers>> {
        Ok(Rows::new(SharedNumbers::map_part(fd, (0, ROWS * WIDTH), Access::Read)?, ROWS))
    }

    /// From now on this worker takes connections.
    pub fn enter(&self) {
        self.set(Field::Watching, 1);
        self.set(Field::Pid, u64::from(std::process::id()));
    }

    /// What can be watched for [`Scoreboard::notify_all`].
    pub fn notifier(&self) -> &CloseOnFork {
        &self.notifier
    }

    /// Has workers that have stepped back look again whether they are needed.
    pub fn notify_all(&self) {
        // An eventfd takes a number of eight bytes; one that is full is noticed.
        let _ = (&self.notifier).write(&1_u64.to_ne_bytes());
    }
}
