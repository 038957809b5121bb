//! The kernel, and nothing above it: sockets, readiness, one timer, one wake-up, files.
//!
//! Knows: file descriptors, epoll, time. Does not know: HTTP, Python, threads (the one
//! `Waker` excepted, which any thread may use). Every system call of the product is made
//! below `sys/`, which is also the seam for another operating system: whoever ports the
//! product writes the names of `sys/mod.rs` again and touches nothing else.
//!
//! The seam speaks of data, not of readiness: [`Reactor::read`] lends bytes for as long as
//! the caller looks at them. A completion backend would fill the same lent buffer before
//! it reports the token.

pub mod holding;
mod may_wait;
mod poll;
pub mod sys;

pub use may_wait::MayWait;
pub use poll::{Event, Reactor, Read, WAKE_TOKENS_FROM};
pub use sys::file;
pub use sys::{Accepted, Address, PIECES, PollFor, Sent, Socket, Waker};
