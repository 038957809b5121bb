//! HTTP/2 as a server speaks it (RFC 9113), as two pure machines.
//!
//! Knows: frames, streams, windows, header blocks (`hpack/`), what a peer may cost. Does not know: sockets, threads, who
//! answers. There is no push, no client, none of RFC 7540's priorities, no `Upgrade: h2c`.
//!
//! ```text
//!   input ──► Receive ──events──► whoever owns the connection ──► calls
//!                │                        │ every event: Send::hear
//!                │ take_output            ▼
//!   output ◄─────┴───────────────────── Send ◄── heads and content of replies
//! ```
//!
//! The two share nothing, so that replies can be sent by other threads than the one that reads. Their contract:
//!
//! - each event is told to [`Send::hear`] before the next call of [`Receive::advance`], and an [`Overflow`] that comes
//!   back to [`Receive::overflow`]; a stream is opened ([`Send::open`]) at its [`Event::Request`] or [`Event::Refused`];
//! - what [`Receive::take_output`] has is sent before whatever is framed behind it, and not taken while the transport
//!   takes nothing: its bound is what ends a peer that asks and does not read;
//! - each stream that was told of is released ([`Receive::release`]) when its call is over and its reply is framed.

mod budget;
mod event;
pub mod fault;
pub mod frame;
mod priority;
mod receive;
pub mod reply;
mod request;
mod send;
mod settings;
mod streams;
mod windows;

pub use event::{Event, Request};
pub use fault::{Code, H2_REASONS, Wrong};
pub use priority::Priority;
pub use receive::Receive;
pub use send::{Overflow, Send};
pub use settings::Settings;

/// What a client's connection begins with (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a connection begins as HTTP/2 does; none: what has come does not show it yet.
pub fn begins(input: &[u8]) -> Option<bool> {
    let length = input.len().min(PREFACE.len());
    let same = input[..length] == PREFACE[..length];
    if same && length < PREFACE.len() { None } else { Some(same) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_shows_what_it_is_within_a_preface() {
        for end in 0..PREFACE.len() {
            assert_eq!(begins(&PREFACE[..end]), None);
            assert_eq!(begins(&[&PREFACE[..end], b"\0"].concat()), Some(false));
        }
        assert_eq!(begins(&[&PREFACE[..], b"\0"].concat()), Some(true));
        assert_eq!(begins(b"POST / HTTP/1.1"), Some(false));
    }
}
