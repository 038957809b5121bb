//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692) as a machine: bytes in, events out.
//!
//! Knows: the handshake, frames, messages, close codes. Does not know: sockets or clocks.
//! `machine.rs` reads what a client sends; `frame.rs` writes what a server sends; `liveness.rs` says when it is given up.

mod deflate;
mod frame;
mod handshake;
mod liveness;
mod machine;
mod message_queue;

pub use deflate::{Deflater, Inflated, WIDEST};
pub use frame::{Kind, close_frame, frame_head};
pub use handshake::{Handshake, NoHandshake, Offer};
pub use liveness::{Due, Liveness};
pub use machine::{Closing, Message, WsEvent, WsMachine};
pub use message_queue::MessageQueue;

/// Close codes (RFC 6455 §7.4.1), those that this server sends by itself.
pub mod code {
    pub const NORMAL: u16 = 1000;
    pub const GOING_AWAY: u16 = 1001;
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Never sent: the peer's close frame had no code.
    pub const NO_STATUS: u16 = 1005;
    /// Never sent: the connection broke.
    pub const ABNORMAL: u16 = 1006;
    pub const BAD_DATA: u16 = 1007;
    pub const TOO_BIG: u16 = 1009;
    pub const INTERNAL: u16 = 1011;
    pub const RESTART: u16 = 1012;

    /// True for codes that may stand in a close frame (RFC 6455 §7.4.2 and its registry).
    pub fn may_be_sent(code: u16) -> bool {
        matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}
