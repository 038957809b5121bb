//! Numbers of header compression: as many bits as are left of a byte, then seven to a byte (RFC 7541 §5.1).

use super::Wrong;

/// More bytes than these are zeros, or a number that nothing here has: blocks are shorter than 2³⁵ bytes.
const MOST_BYTES: u32 = 5;

/// Reads a number that begins in the lower `bits` of the first byte.
///
/// # Errors
/// [`Wrong::Short`], [`Wrong::Number`].
pub fn read(input: &mut &[u8], bits: u32) -> Result<usize, Wrong> {
    let (&first, mut rest) = input.split_first().ok_or(Wrong::Short)?;
    let most = (1u64 << bits) - 1;
    let mut number = u64::from(first) & most;
    if number == most {
        for place in 0.. {
            if place == MOST_BYTES {
                return Err(Wrong::Number);
            }
            let (&byte, after) = rest.split_first().ok_or(Wrong::Short)?;
            rest = after;
            number += u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *input = rest;
    u32::try_from(number).map(|number| number as usize).map_err(|_| Wrong::Number)
}

/// Writes a number behind the bits of `first`, which leave its lower `bits` free.
pub fn write(number: usize, bits: u32, first: u8, out: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if number < most {
        out.push(first | number as u8);
        return;
    }
    out.push(first | most as u8);
    let mut left = number - most;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 §C.1.
        for (number, bits, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut out = Vec::new();
            write(number, bits, 0, &mut out);
            assert_eq!(out, bytes);
            let mut input = bytes;
            assert_eq!((read(&mut input, bits), input), (Ok(number), &[][..]));
        }
    }

    #[test]
    fn what_is_written_is_read_for_each_number_of_bits() {
        for bits in 1..=8 {
            for number in [0, 1, 14, 15, 16, 126, 127, 128, 254, 255, 256, 16_383, 65_535, 1 << 28] {
                let mut out = Vec::new();
                write(number, bits, 0, &mut out);
                for end in 0..out.len() {
                    assert_eq!(read(&mut &out[..end], bits), Err(Wrong::Short));
                }
                assert_eq!(read(&mut &out[..], bits), Ok(number), "{bits}");
            }
        }
    }

    #[test]
    fn a_number_is_neither_endless_nor_too_large() {
        assert_eq!(read(&mut &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00][..], 5), Ok(31));
        assert_eq!(read(&mut &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00][..], 5), Err(Wrong::Number));
        assert_eq!(read(&mut &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f][..], 5), Err(Wrong::Number));
    }
}
