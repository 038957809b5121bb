//! What a wait for many descriptors brings, whichever call of the system has waited.

use std::io;

/// How many events one wait may bring. A full batch only means that the next wait is near.
const BATCH: usize = 512;

/// What happened to one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEvent {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The peer has ended its side, or the connection broke.
    pub hung_up: bool,
}

/// Room for one batch of the system's events, and how far it has been looked at.
pub(super) struct Batch<T> {
    room: Vec<T>,
    next: usize,
}

impl<T: Copy> Batch<T> {
    pub fn new() -> Self {
        Self { room: Vec::with_capacity(BATCH), next: 0 }
    }

    /// The next event of the batch.
    #[inline]
    pub fn take_next(&mut self) -> Option<T> {
        let event = *self.room.get(self.next)?;
        self.next += 1;
        Some(event)
    }

    /// Has a call of the system fill it anew; interrupted: with nothing.
    ///
    /// # Safety
    /// The call is told where the room is and for how many there is one. It fills as many as it answers; less than zero: errno
    /// says why there are none.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub unsafe fn fill(
        &mut self,
        wait: impl FnOnce(*mut T, libc::c_int) -> libc::c_int,
    ) -> io::Result<usize> {
        self.room.clear();
        self.next = 0;
        let found = wait(self.room.as_mut_ptr(), BATCH as libc::c_int);
        match usize::try_from(found) {
            Ok(found) => {
                // SAFETY: the contract of this function: that many entries are filled, at most BATCH.
                unsafe { self.room.set_len(found) };
                Ok(found)
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }
}
