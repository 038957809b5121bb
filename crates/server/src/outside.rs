//! Waiting without what other threads need.
//!
//! Knows: that there is something to let go of. Does not know: that it is an interpreter. Whoever waits calls it.

use reactor::MayWait;

/// Lets others go on while the caller waits, for code that cannot be generic over the application.
pub trait Outside {
    /// Lets go of what other threads need, and runs something that waits.
    fn outside(&self, wait: &mut dyn FnMut(&MayWait));
}
