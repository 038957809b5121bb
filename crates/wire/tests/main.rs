//! What this crate does for those who use it, as one program: that is built sooner than one of each file.

mod cases;
mod chunked;
mod conditional;
mod data;
mod der;
mod fastcgi;
mod forwarded;
mod gateway;
mod h2_cases;
mod h2_client;
mod h2_floods;
mod h2_machine;
mod haproxy;
mod head_cache;
mod hpack;
mod name_cache;
mod persistence;
mod proxy;
mod time;
mod websocket;
