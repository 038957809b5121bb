//! The proof that a thread may wait.
//!
//! Knows: nothing. Nothing waits for a peer while it holds what other threads need to go on
//! (the interpreter, the baton, a lock that somebody wants who holds one of them), so that a
//! wait for a single socket asks for this proof, and only what lets go of the interpreter makes one.

/// This thread holds nothing that others wait for. Lent for the length of a wait.
#[derive(Debug)]
pub struct MayWait(());

impl MayWait {
    /// Said by the code that has let go, and by nobody else: `tests/test_tidy.py` knows the place.
    #[must_use]
    pub fn claim() -> Self {
        Self(())
    }
}
