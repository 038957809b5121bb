//! ASGI 3 on the engine, under asyncio or uvloop.
//!
//! Knows: scopes, events and their order, coroutines. Does not know: sockets or framing. All
//! of it runs on the event loop's thread. `server.rs` joins the loop and the engine,
//! `request.rs` is one request's life, the other files are what it uses, one a file.

mod accept;
mod awaitable;
mod ending;
mod events;
mod receive;
mod reply;
mod request;
mod scope;
mod server;
mod tools;
mod websocket;

pub use server::AsgiServer;
