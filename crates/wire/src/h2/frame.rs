//! Frames: their heads, and the short ones whole (RFC 9113 §4.1 and §6).
//!
//! Knows: layout. Does not know: what a frame does to a stream.

use super::fault::{Code, Wrong};

/// Bytes of a head.
pub const HEAD: usize = 9;

/// The kinds that mean something here (RFC 9113 §6, RFC 9218 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Data,
    Headers,
    Priority,
    ResetStream,
    Settings,
    PushPromise,
    Ping,
    Goaway,
    WindowUpdate,
    Continuation,
    PriorityUpdate,
    Unknown,
}

const KINDS: [(u8, Kind); 11] = [
    (0, Kind::Data),
    (1, Kind::Headers),
    (2, Kind::Priority),
    (3, Kind::ResetStream),
    (4, Kind::Settings),
    (5, Kind::PushPromise),
    (6, Kind::Ping),
    (7, Kind::Goaway),
    (8, Kind::WindowUpdate),
    (9, Kind::Continuation),
    (16, Kind::PriorityUpdate),
];

impl Kind {
    fn of(byte: u8) -> Self {
        KINDS.iter().find(|(known, _)| *known == byte).map_or(Self::Unknown, |(_, kind)| *kind)
    }

    fn byte(self) -> u8 {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or(0xff, |(byte, _)| *byte)
    }
}

/// ACK, of SETTINGS and PING.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const PRIORITY: u8 = 0x20;

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub length: u32,
    pub kind: Kind,
    pub flags: u8,
    pub stream: u32,
}

impl Frame {
    pub fn read(bytes: &[u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, *a, *b, *c]),
            kind: Kind::of(*kind),
            flags: *flags,
            stream: number(stream),
        }
    }

    /// True where one of its flags is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.length.to_be_bytes()[1..]);
        out.extend_from_slice(&[self.kind.byte(), self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
    }
}

/// 31 bits; the first is reserved and means nothing.
pub fn number(bytes: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*bytes) & 0x7fff_ffff
}

/// Writes a whole frame, which is short.
pub fn write(kind: Kind, flags: u8, stream: u32, content: &[u8], out: &mut Vec<u8>) {
    Frame { length: content.len() as u32, kind, flags, stream }.write(out);
    out.extend_from_slice(content);
}

pub fn reset(stream: u32, code: Code, out: &mut Vec<u8>) {
    write(Kind::ResetStream, 0, stream, &(code as u32).to_be_bytes(), out);
}

pub fn window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write(Kind::WindowUpdate, 0, stream, &increment.to_be_bytes(), out);
}

/// `last`: the last stream that is, or may still be, answered.
pub fn goaway(last: u32, wrong: &Wrong, out: &mut Vec<u8>) {
    let content =
        [&last.to_be_bytes()[..], &(wrong.code as u32).to_be_bytes(), wrong.text.as_bytes()].concat();
    write(Kind::Goaway, 0, 0, &content, out);
}

/// A padded payload without its padding; none where that is as long as the rest, or longer (§6.1).
pub fn unpadded(payload: &[u8]) -> Option<&[u8]> {
    let (&padding, rest) = payload.split_first()?;
    Some(&rest[..rest.len().checked_sub(usize::from(padding))?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for (byte, kind) in KINDS {
            let frame = Frame { length: 66_051, kind, flags: 5, stream: 0x7fff_ffff };
            let mut out = Vec::new();
            frame.write(&mut out);
            assert_eq!(out, [1, 2, 3, byte, 5, 0x7f, 0xff, 0xff, 0xff]);
            assert_eq!(Frame::read(&out.try_into().expect("nine bytes")), frame);
        }
        assert_eq!(Frame::read(&[0, 0, 0, 0xbe, 0, 0x80, 0, 0, 1]).kind, Kind::Unknown);
        assert_eq!(Frame::read(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn padding_is_shorter_than_its_frame() {
        assert_eq!(unpadded(&[2, b'a', 0, 0]), Some(&b"a"[..]));
        assert_eq!(unpadded(&[3, b'a', 0, 0]), Some(&b""[..]));
        assert_eq!(unpadded(&[4, b'a', 0, 0]), None);
        assert_eq!(unpadded(&[]), None);
    }
}
