//! permessage-deflate (RFC 7692), each message by itself.
//!
//! Knows: how a message is deflated and inflated, and when to stop. Does not know: frames.
//! Without context takeover (§7.1.1), both directions, no connection keeps a window: one
//! [`Deflater`] serves all connections of a loop, and an idle one costs nothing.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// How much room is made at a time.
const STEP: usize = 16 * 1024;
/// What a sender leaves out of each message's end (RFC 7692 §7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The widest window, in bits (RFC 7692 §7.1.2.1).
pub const WIDEST: u8 = 15;

/// What inflating came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Inflated {
    All(Vec<u8>),
    /// The message would be larger than is allowed.
    TooBig,
    /// It is no deflated data.
    Broken,
}

/// Both directions for one loop.
pub struct Deflater {
    compress: Compress,
    decompress: Decompress,
}

impl Deflater {
    pub fn new() -> Self {
        Self { compress: Compress::new(Compression::fast(), false), decompress: Decompress::new(false) }
    }

    /// Inflates a whole message, at most to so many bytes: a small message that would become
    /// a huge one is stopped when it has become too large, not after.
    pub fn inflate(&mut self, data: &[u8], most: usize) -> Inflated {
        self.decompress.reset(false);
        let mut out = Vec::new();
        for input in [data, &TAIL] {
            let mut at = 0;
            loop {
                let before = (self.decompress.total_in(), out.len());
                out.reserve(STEP.min(most.saturating_add(1).saturating_sub(out.len())).max(1));
                let status = self.decompress.decompress_vec(&input[at..], &mut out, FlushDecompress::Sync);
                at += (self.decompress.total_in() - before.0) as usize;
                if out.len() > most {
                    return Inflated::TooBig;
                }
                match status {
                    Err(_) => return Inflated::Broken,
                    // A final block ends a stream, and another may follow it (§7.2.3.4).
                    Ok(Status::StreamEnd) => {
                        self.decompress.reset(false);
                        if at == input.len() {
                            break;
                        }
                    }
                    Ok(_) if at == input.len() && out.len() < out.capacity() => break,
                    Ok(_)
                        if before == (self.decompress.total_in(), out.len())
                            && out.len() < out.capacity() =>
                    {
                        return Inflated::Broken;
                    }
                    Ok(_) => {}
                }
            }
        }
        Inflated::All(out)
    }

    /// Deflates a whole message with a window of so many bits. None: it would not become smaller.
    pub fn deflate(&mut self, data: &[u8], window: u8) -> Option<Vec<u8>> {
        self.compress.reset();
        let mut out = Vec::with_capacity(data.len() / 2 + 64);
        // The compressor's own window is fixed. It is emptied behind each part, so that none of
        // its references goes back further than a smaller one allows.
        let part = if window < WIDEST { 1 << window } else { usize::MAX };
        for piece in data.chunks(part) {
            let last = piece.as_ptr_range().end == data.as_ptr_range().end;
            let flush = if last { FlushCompress::Sync } else { FlushCompress::Full };
            self.part(piece, flush, &mut out)?;
            if out.len() > data.len() + TAIL.len() {
                return None;
            }
        }
        if !out.ends_with(&TAIL) {
            return None;
        }
        out.truncate(out.len() - TAIL.len());
        (out.len() < data.len()).then_some(out)
    }

    /// Deflates part of a message, to its last byte.
    fn part(&mut self, data: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Option<()> {
        let mut at = 0;
        loop {
            let before = self.compress.total_in();
            self.compress.compress_vec(&data[at..], out, flush).ok()?;
            at += (self.compress.total_in() - before) as usize;
            if at == data.len() && out.len() < out.capacity() {
                return Some(());
            }
            out.reserve(STEP);
        }
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deflated_is_inflated_to_the_same() {
        let mut deflater = Deflater::new();
        let largest = if cfg!(miri) { 7_000 } else { 1_000_000 };
        for size in [0, 1, 5, 300, largest / 10, largest] {
            let data: Vec<u8> = (0..size).map(|i| (i / 7 % 251) as u8).collect();
            if let Some(small) = deflater.deflate(&data, WIDEST) {
                assert_eq!(deflater.inflate(&small, size), Inflated::All(data.clone()), "{size}");
            }
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let mut deflater = Deflater::new();
        let zeros = if cfg!(miri) { 60_000 } else { 50_000_000 };
        let small = deflater.deflate(&vec![0; zeros], WIDEST).expect("zeros become small");
        assert!(small.len() < zeros / 100);
        assert_eq!(deflater.inflate(&small, zeros / 50), Inflated::TooBig);
        assert_eq!(deflater.inflate(&small, zeros - 1), Inflated::TooBig);
    }

    #[test]
    fn noise_is_no_deflated_data() {
        assert_eq!(Deflater::new().inflate(&[0xff; 100], 1000), Inflated::Broken);
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7692 §7.2.3.1, §7.2.3.3 (no compression), §7.2.3.4 (a final block).
        let hello = Inflated::All(b"Hello".to_vec());
        let mut deflater = Deflater::new();
        assert_eq!(deflater.inflate(&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], 5), hello);
        let stored = [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
        assert_eq!(deflater.inflate(&stored, 5), hello);
        assert_eq!(deflater.inflate(&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00], 5), hello);
    }

    #[test]
    fn what_does_not_become_smaller_is_left() {
        assert_eq!(Deflater::new().deflate(b"a", WIDEST), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is the library that works there, for minutes")]
    fn a_small_window_is_kept_to() {
        // What a reader with a window of 512 bytes has forgotten is not referred to: zlib's own
        // judgement is in tests/asgi, where its decompressor gets so small a window.
        let mut state = 1u32;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        };
        let noise: Vec<u8> = (0..700).map(|_| random()).collect();
        let data = noise.repeat(40);
        let mut deflater = Deflater::new();
        assert!(deflater.deflate(&data, WIDEST).expect("it repeats itself").len() < 4000);
        assert_eq!(deflater.deflate(&data, 9), None, "what repeats is further away than the window");
        let near = b"abcdefgh".repeat(1000);
        for window in 8..=WIDEST {
            let small = deflater.deflate(&near, window).expect("it repeats itself");
            assert_eq!(deflater.inflate(&small, near.len()), Inflated::All(near.clone()), "{window}");
        }
    }
}
