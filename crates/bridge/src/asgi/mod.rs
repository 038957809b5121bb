//! ASGI 3 on the engine, under asyncio or uvloop.
//!
//! Knows: scopes, events and their order, coroutines. Does not know: sockets or framing. All
//! of it runs on the event loop's thread. `server.rs` joins the loop and the engine,
//! `request.rs` is one request's conversation and `task.rs` its coroutine; the other files are what
//! they use, one a file.

mod accept;
mod awaitable;
mod conclude;
mod constants;
mod events;
mod given;
mod receive;
mod reply;
mod request;
mod running;
mod scope;
mod secured;
mod series;
mod server;
mod shared;
mod task;
mod waiting;
mod websocket;

pub use server::AsgiServer;
