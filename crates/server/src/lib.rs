//! Joins `wire` and `reactor`: the turn of the loop, connections, exchanges, the baton.
//!
//! Knows: HTTP as events, the kernel as happenings. Does not know: Python. An application is
//! whatever implements [`app::App`].
//!
//! Read `turn.rs` first: it is the only place that sees a request's whole way.

#[cfg(not(loom))]
mod accept;
#[cfg(not(loom))]
pub mod access;
#[cfg(not(loom))]
pub mod allowance;
pub mod apart;
#[cfg(not(loom))]
pub mod app;
#[cfg(not(loom))]
mod arrival;
#[cfg(not(loom))]
mod arrivals;
#[cfg(not(loom))]
mod batch;
pub mod baton;
#[cfg(not(loom))]
mod blockers;
#[cfg(not(loom))]
pub mod body;
#[cfg(not(loom))]
pub mod budget;
#[cfg(not(loom))]
mod calendar;
pub mod claims;
#[cfg(not(loom))]
mod connection;
#[cfg(not(loom))]
mod connections;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
mod crowd;
#[cfg(not(loom))]
pub mod disk;
#[cfg(not(loom))]
mod downstream;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
pub mod evented;
#[cfg(not(loom))]
pub mod exchange;
#[cfg(not(loom))]
pub mod files;
#[cfg(not(loom))]
mod given_back;
#[cfg(not(loom))]
pub mod growth;
#[cfg(not(loom))]
mod h2_framing;
#[cfg(not(loom))]
pub mod handoff;
pub mod handover;
#[cfg(not(loom))]
pub mod health;
#[cfg(not(loom))]
pub mod heartbeat;
#[cfg(not(loom))]
mod in_flight;
pub mod in_one_step;
pub mod inbox;
#[cfg(not(loom))]
pub mod incoming;
#[cfg(not(loom))]
mod inlet;
#[cfg(not(loom))]
pub mod lanes;
#[cfg(not(loom))]
pub mod listener;
#[cfg(not(loom))]
mod listeners;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
pub mod log;
#[cfg(not(loom))]
mod machine;
#[cfg(not(loom))]
pub mod mounted;
#[cfg(not(loom))]
pub mod multiplexed;
#[cfg(not(loom))]
pub mod named_files;
#[cfg(not(loom))]
pub mod news;
#[cfg(not(loom))]
mod offer;
#[cfg(not(loom))]
pub mod output;
#[cfg(not(loom))]
pub mod outside;
#[cfg(not(loom))]
pub mod parent;
#[cfg(not(loom))]
mod patience;
#[cfg(not(loom))]
mod pending;
#[cfg(not(loom))]
mod pipelined;
#[cfg(not(loom))]
mod poller;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod preface;
#[cfg(not(loom))]
mod probes;
#[cfg(not(loom))]
pub mod profile;
#[cfg(not(loom))]
mod proxy;
#[cfg(not(loom))]
mod reading;
#[cfg(not(loom))]
mod refusal;
#[cfg(not(loom))]
mod reply;
#[cfg(not(loom))]
pub mod reply_builder;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
pub mod request_deadlines;
#[cfg(not(loom))]
pub mod request_id;
#[cfg(not(loom))]
mod requests;
pub mod returns;
pub mod rows;
#[cfg(not(loom))]
pub mod scoreboard;
pub mod send_half;
#[cfg(not(loom))]
pub mod sendfile;
#[cfg(not(loom))]
pub mod sent_file;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod shutdown;
#[cfg(not(loom))]
mod slots;
#[cfg(not(loom))]
pub mod slow_requests;
#[cfg(not(loom))]
pub mod spool;
#[cfg(not(loom))]
mod stated;
#[cfg(not(loom))]
pub mod statistics;
#[cfg(not(loom))]
pub mod status;
#[cfg(not(loom))]
mod staying;
#[cfg(not(loom))]
mod storing;
#[cfg(not(loom))]
pub mod strain;
#[cfg(not(loom))]
pub mod stream;
#[cfg(not(loom))]
mod streams;
pub mod sync;
#[cfg(not(loom))]
mod throughput;
#[cfg(not(loom))]
pub mod tls;
#[cfg(not(loom))]
pub mod tracing;
#[cfg(not(loom))]
pub mod transport;
#[cfg(not(loom))]
pub mod turn;
#[cfg(not(loom))]
mod turned_away;
#[cfg(not(loom))]
pub mod unique;
#[cfg(not(loom))]
pub mod visits;
#[cfg(not(loom))]
pub mod watchdog;
