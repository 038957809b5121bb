//! SETTINGS: what a client says of itself, and what it is told (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).

use super::fault::{self, Wrong};
use super::frame::{self, Kind};
use crate::limits::Limits;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
const NO_RFC7540_PRIORITIES: u16 = 9;

/// The largest window (§6.9.1).
pub const LARGEST_WINDOW: u32 = 0x7fff_ffff;
/// Every window's size before anything is said.
pub const FIRST_WINDOW: u32 = 65_535;
/// What header compression begins with.
pub const FIRST_TABLE: u64 = 4096;

/// What one SETTINGS frame changes: of several values of one setting the last, as if the others had come before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    pub table_size: Option<u32>,
    pub window: Option<u32>,
    pub frame_size: Option<u32>,
}

impl Settings {
    /// Reads a frame's payload, whose length is a multiple of six.
    ///
    /// # Errors
    /// A value that its setting cannot have; the connection cannot go on.
    pub fn read(payload: &[u8]) -> Result<Self, Wrong> {
        let mut found = Self::default();
        let (entries, _) = payload.as_chunks::<6>();
        for [high, low, value @ ..] in entries {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*high, *low]) {
                HEADER_TABLE_SIZE => {
                    // The smallest counts as well as the last: whoever encodes has to have been below it (RFC 7541 §4.2).
                    found.table_size = Some(found.table_size.map_or(value, |before| before.min(value)));
                }
                INITIAL_WINDOW_SIZE if value > LARGEST_WINDOW => return Err(fault::WINDOW_SETTING),
                INITIAL_WINDOW_SIZE => found.window = Some(value),
                MAX_FRAME_SIZE if !(0x4000..=0xff_ffff).contains(&value) => return Err(fault::SETTING),
                MAX_FRAME_SIZE => found.frame_size = Some(value),
                ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                    return Err(fault::SETTING);
                }
                // Nothing is pushed, how many fields a reply has is the application's to say, and what is not known
                // means nothing (§6.5.2).
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Writes our own. `connect`: the application speaks WebSocket, so that a stream may become one (RFC 8441 §3).
pub fn write_ours(limits: &Limits, connect: bool, out: &mut Vec<u8>) {
    let mut entries = vec![
        (MAX_CONCURRENT_STREAMS, limits.h2_streams),
        (INITIAL_WINDOW_SIZE, window(limits)),
        (MAX_HEADER_LIST_SIZE, limits.header_bytes),
        (NO_RFC7540_PRIORITIES, 1),
    ];
    if limits.h2_table_bytes != FIRST_TABLE {
        entries.push((HEADER_TABLE_SIZE, limits.h2_table_bytes));
    }
    if frame_size(limits) != 0x4000 {
        entries.push((MAX_FRAME_SIZE, u64::from(frame_size(limits))));
    }
    if connect {
        entries.push((ENABLE_CONNECT_PROTOCOL, 1));
    }
    let mut content = Vec::with_capacity(6 * entries.len());
    for (name, value) in entries {
        content.extend_from_slice(&name.to_be_bytes());
        content.extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes());
    }
    frame::write(Kind::Settings, 0, 0, &content, out);
}

/// A stream's window as we announce it.
pub fn window(limits: &Limits) -> u64 {
    limits.h2_window_bytes.min(u64::from(LARGEST_WINDOW))
}

/// The connection's window when it begins; the protocol's own first one is the least.
pub fn connection_window(limits: &Limits) -> u64 {
    limits.h2_connection_window_bytes.clamp(u64::from(FIRST_WINDOW), u64::from(LARGEST_WINDOW))
}

/// The largest frame as we announce it: within what may be announced.
pub fn frame_size(limits: &Limits) -> u32 {
    limits.h2_frame_bytes.clamp(0x4000, 0xff_ffff) as u32
}
