//! Numbers in hexadecimal digits, without the formatting machinery: names are made for every request.
//!
//! Knows: digits. Does not know: what they stand for. Pure.

/// One in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// Sixteen digits, zeros first.
#[inline]
pub fn hex(number: u64) -> [u8; 16] {
    (u128::from(eight((number >> 32) as u32)) << 64 | u128::from(eight(number as u32))).to_be_bytes()
}

/// Eight digits, all of them at once in a word, the first in its highest byte.
#[inline]
fn eight(number: u32) -> u64 {
    // Each half of a byte into a byte of its own.
    let mut halves = u64::from(number);
    halves = (halves << 16 | halves) & 0x0000_ffff_0000_ffff;
    halves = (halves << 8 | halves) & 0x00ff_00ff_00ff_00ff;
    halves = (halves << 4 | halves) & 0x0f0f_0f0f_0f0f_0f0f;
    // Those from ten on carry into the upper half of their byte when six is added: they are letters.
    let letters = (halves + 6 * ONES) >> 4 & ONES;
    halves + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)
}

/// Thirty-two digits, of which these are the halves.
#[inline]
pub fn hex_pair(high: u64, low: u64) -> [u8; 32] {
    let mut text = [0; 32];
    put_digits(&mut text, 0, hex(high));
    put_digits(&mut text, 16, hex(low));
    text
}

/// Puts digits into a text: as a move of registers, where a copy of slices would be a call.
#[inline]
pub fn put_digits<const TEXT: usize>(text: &mut [u8; TEXT], at: usize, digits: [u8; 16]) {
    if let Some(place) = text.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = digits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_everybody_writes() {
        for number in [0, 1, 0xf, 0x10, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(hex(number), *format!("{number:016x}").as_bytes().first_chunk().expect("sixteen"));
        }
        assert_eq!(hex_pair(1, u64::MAX), *b"0000000000000001ffffffffffffffff");
    }
}
