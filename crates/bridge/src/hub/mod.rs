//! WSGI under gevent: the hub polls the engine, and each request has a greenlet.
//!
//! Knows: greenlets, the hub. Does not know: PEP 3333 (`wsgi/` does, for threads as well as
//! here), sockets or framing. All of it runs on the hub's thread. `server.rs` joins the hub and
//! the engine, `waiting.rs` is how a greenlet waits for its connection.
//!
//! A greenlet that is not running has its part of the stack copied away. What others reach of a
//! request is therefore on the heap: its exchange, what stands behind `start_response`, the
//! rows of the tables here.

mod server;
mod waiting;

pub use server::GeventServer;
