//! The code of strings in header compression (RFC 7541 §5.2 and appendix B).
//!
//! Knows: how many bits each byte's code has, of which all else follows: codes are numbered in the order of length, then
//! byte. Reads four bits at a time through a table that is made when this is compiled.

use super::Wrong;

/// The end of a string, which is never sent but for the first of its bits, as padding.
const END: usize = 256;

/// Bits of each byte's code, and of [`END`] (appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Each code, in its lower bits.
const CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let (mut code, mut length) = (0, 1);
    while length <= 30 {
        let mut symbol = 0;
        while symbol <= END {
            if LENGTHS[symbol] == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
};

/// What four more bits come to.
#[derive(Clone, Copy)]
struct Step {
    /// The node that is reached; the root is 0.
    next: u8,
    /// The byte whose code ended on the way, where [`EMITS`] is set: no code is shorter than five bits.
    symbol: u8,
    flags: u8,
}

const EMITS: u8 = 1;
/// The string may end there: fewer than eight bits since the last byte, all of them ones.
const MAY_END: u8 = 2;
/// The code of [`END`] is complete.
const FAILS: u8 = 4;

/// A branch that leads to a byte, not to a node.
const LEAF: u16 = 1 << 15;

/// The tree of codes: 257 leaves, and one inner node less.
const fn tree() -> [[u16; 2]; 256] {
    let mut nodes = [[0; 2]; 256];
    let mut used = 1;
    let mut symbol = 0;
    while symbol <= END {
        let (mut node, mut bit) = (0, LENGTHS[symbol]);
        while bit > 1 {
            bit -= 1;
            let side = (CODES[symbol] >> bit & 1) as usize;
            if nodes[node][side] == 0 {
                nodes[node][side] = used;
                used += 1;
            }
            node = nodes[node][side] as usize;
        }
        nodes[node][(CODES[symbol] & 1) as usize] = LEAF | symbol as u16;
        symbol += 1;
    }
    nodes
}

/// By node and four bits.
static STEPS: [[Step; 16]; 256] = {
    let nodes = tree();
    // Nodes on the way of ones that is shorter than eight bits: where padding may end.
    let mut may_end = [false; 256];
    let (mut node, mut depth) = (0, 0);
    while depth < 8 {
        may_end[node] = true;
        node = nodes[node][1] as usize;
        depth += 1;
    }
    let mut steps = [[Step { next: 0, symbol: 0, flags: 0 }; 16]; 256];
    let mut from = 0;
    while from < 256 {
        let mut bits = 0;
        while bits < 16 {
            let mut step = Step { next: 0, symbol: 0, flags: 0 };
            let (mut node, mut left) = (from, 4);
            while left > 0 {
                left -= 1;
                let branch = nodes[node][bits >> left & 1];
                if branch == LEAF | END as u16 {
                    step.flags |= FAILS;
                    node = 0;
                } else if branch & LEAF != 0 {
                    step.symbol = branch as u8;
                    step.flags |= EMITS;
                    node = 0;
                } else {
                    node = branch as usize;
                }
            }
            if may_end[node] {
                step.flags |= MAY_END;
            }
            step.next = node as u8;
            steps[from][bits] = step;
            bits += 1;
        }
        from += 1;
    }
    steps
};

/// Appends what a string decodes to, as long as that is no more than `most` bytes. False: it is longer; then `out` has
/// no more than so much of it, and what follows was not looked at.
///
/// # Errors
/// [`Wrong::Huffman`].
pub fn decode(input: &[u8], out: &mut Vec<u8>, most: usize) -> Result<bool, Wrong> {
    let end = out.len().saturating_add(most);
    let (mut node, mut flags) = (0, MAY_END);
    for &byte in input {
        for bits in [byte >> 4, byte & 15] {
            let step = STEPS[usize::from(node)][usize::from(bits)];
            (node, flags) = (step.next, step.flags);
            if flags & EMITS != 0 {
                if out.len() == end {
                    return Ok(false);
                }
                out.push(step.symbol);
            }
            if flags & FAILS != 0 {
                return Err(Wrong::Huffman);
            }
        }
    }
    if flags & MAY_END == 0 { Err(Wrong::Huffman) } else { Ok(true) }
}

/// How many bytes a string is when it is encoded.
pub fn length(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends a string's code.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut waiting, mut bits) = (0u64, 0);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        waiting = waiting << length | u64::from(CODES[usize::from(byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((waiting >> bits) as u8);
        }
    }
    if bits > 0 {
        // Padded with the first bits of the end's code, which are ones.
        out.push((waiting << (8 - bits)) as u8 | 0xff >> bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Wrong> {
        let mut out = Vec::new();
        decode(input, &mut out, usize::MAX).map(|_| out)
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 7541 §C.4.1.
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&coded), Ok(b"www.example.com".to_vec()));
        let mut out = Vec::new();
        encode(b"www.example.com", &mut out);
        assert_eq!(out, coded);
    }

    #[test]
    fn each_byte_and_each_pair_is_read_as_it_was_written() {
        for first in 0..=255u8 {
            for second in (0..=255u8).step_by(if cfg!(miri) { 51 } else { 1 }) {
                let text = [first, second, first];
                let mut coded = Vec::new();
                encode(&text, &mut coded);
                assert_eq!(coded.len(), length(&text));
                assert_eq!(decoded(&coded), Ok(text.to_vec()));
            }
        }
    }

    #[test]
    fn padding_is_shorter_than_a_byte_and_all_ones() {
        // §5.2: `a` is 00011; the rest must be ones.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1110]), Err(Wrong::Huffman));
        assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(Wrong::Huffman));
        assert_eq!(decoded(&[0xff]), Err(Wrong::Huffman));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        // The end's own code, whole, and inside of a string.
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(Wrong::Huffman));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc, 0x1f]), Err(Wrong::Huffman));
    }

    #[test]
    fn no_more_is_decoded_than_is_asked_for() {
        let mut coded = Vec::new();
        encode(&[b'0'; 1000], &mut coded);
        for most in [0, 1, 999] {
            let mut out = b"before".to_vec();
            assert_eq!(decode(&coded, &mut out, most), Ok(false));
            assert_eq!(out.len(), 6 + most);
        }
        let mut out = Vec::new();
        assert_eq!(decode(&coded, &mut out, 1000), Ok(true));
    }
}
