//! Frames of HTTP/2 by hand (RFC 9113 section 4), so that what the engine's library does is not judged by itself.

use super::Peer;
use std::io::Read;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// HPACK (RFC 7541 appendix A): `:status: 200` and `:status: 500` are in the table of every connection.
pub const OK: &[u8] = &[0x88];
pub const FAILED: &[u8] = &[0x8e];

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A whole reply with this body.
pub fn reply(stream: u32, status: &[u8], body: &[u8]) -> Vec<u8> {
    [frame(HEADERS, END_HEADERS, stream, status), frame(DATA, END_STREAM, stream, body)].concat()
}

/// The end of a connection: nothing beyond `last` was looked at.
pub fn goaway(last: u32, reason: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), reason.to_be_bytes()].concat())
}

/// A server's side of a connection, its preface and settings exchanged. `settings`: (number, value).
pub struct Framed<S: Read + std::io::Write> {
    pub stream: S,
}

impl Framed<std::net::TcpStream> {
    pub fn over(peer: Peer, settings: &[(u16, u32)]) -> Option<Self> {
        Framed::begin(peer.stream, settings)
    }
}

impl<S: Read + std::io::Write> Framed<S> {
    pub fn begin(mut stream: S, settings: &[(u16, u32)]) -> Option<Self> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).ok()?;
        assert_eq!(preface, PREFACE, "the preface of RFC 9113 section 3.4");
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        let mut framed = Framed { stream };
        framed.send(&frame(SETTINGS, 0, 0, &payload));
        Some(framed)
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // A client that has gone away is a part of many tests.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// The next frame; settings and pings are answered. None at the end.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).ok()?;
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let read = Frame { kind: head[3], flags: head[4], stream, payload };
            match read.kind {
                SETTINGS if read.flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[])),
                PING if read.flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &read.payload)),
                _ => return Some(read),
            }
        }
    }

    /// Reads until so many requests are whole and the client has taken our settings: nothing more comes by itself then.
    pub fn settled(&mut self, requests: usize) -> Option<()> {
        let (mut whole, mut taken) = (0, false);
        while whole < requests || !taken {
            let read = self.next()?;
            whole += usize::from(matches!(read.kind, HEADERS | DATA) && read.flags & END_STREAM != 0);
            taken |= read.kind == SETTINGS;
        }
        Some(())
    }

    /// The number of the next stream whose request is whole.
    pub fn request(&mut self) -> Option<u32> {
        loop {
            let read = self.next()?;
            if matches!(read.kind, HEADERS | DATA) && read.flags & END_STREAM != 0 {
                return Some(read.stream);
            }
        }
    }
}
