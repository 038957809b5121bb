//! WSGI (PEP 3333) on the engine.
//!
//! Knows: environ, start_response, iterables. Does not know: sockets or framing. `call.rs` is
//! the way of a request; the other files are what it uses, one a file.

mod asked;
mod base;
mod call;
mod early_hints;
mod environ;
mod file_wrapper;
mod given;
mod given_headers;
mod input;
mod iterate;
mod kept_heads;
mod proxied;
mod reply;
mod routes;
mod secured;
mod send;
mod standing_hints;
mod start_response;
mod wait_mode;

pub use asked::request;
pub use base::gateways;
pub use call::{Workspace, Wsgi};
pub use environ::PeerStrings;
pub use file_wrapper::FileWrapper;
pub use input::Input;
pub use reply::Reply;
pub use wait_mode::{Scheduler, WaitMode};
