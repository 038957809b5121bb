//! The load engine: a plan goes in, moments and replies are counted, a result comes out.
//!
//! The pure parts (`pace`, `reply`, `verdict`, `kinds`, `plan`) know no socket and no clock; `system` holds every system
//! call; `tls` and `http2` wrap what libraries do; `worker` joins them, one thread and one epoll each; `collect` runs on the main thread. None of the server's own
//! crates is used here, so that one bug cannot blind both sides.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod collect;
pub mod flags;
pub mod http2;
pub mod job;
pub mod kinds;
pub mod pace;
pub mod plan;
pub mod record;
pub mod reply;
pub mod report;
pub mod run;
pub mod summary;
pub mod system;
pub mod timers;
pub mod tls;
pub mod trace;
pub mod verdict;
pub mod worker;
