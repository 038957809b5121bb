//! Frames as a server writes them: never masked (RFC 6455 §5.1).

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// The head of an unfragmented frame (RFC 6455 §5.2). `compressed` sets RSV1.
#[inline]
pub fn frame_head(kind: Kind, compressed: bool, length: usize, out: &mut Vec<u8>) {
    out.push(0x80 | if compressed { 0x40 } else { 0 } | kind as u8);
    match length {
        0..=125 => out.push(length as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// A whole close frame. A reason that is too long for a control frame is cut at a character.
pub fn close_frame(code: u16, reason: &str, out: &mut Vec<u8>) {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    frame_head(Kind::Close, false, 2 + end, out);
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&reason.as_bytes()[..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_takes_the_shortest_form() {
        for (length, head) in [
            (0, &[0x82, 0][..]),
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (0xffff, &[0x82, 126, 0xff, 0xff]),
            (0x1_0000, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            frame_head(Kind::Binary, false, length, &mut out);
            assert_eq!(out, head);
        }
    }

    #[test]
    fn a_reason_fits_and_is_never_cut_in_a_character() {
        let mut out = Vec::new();
        close_frame(1000, &"é".repeat(100), &mut out);
        assert_eq!(out[1], 124);
        assert!(std::str::from_utf8(&out[4..]).is_ok());
    }
}
