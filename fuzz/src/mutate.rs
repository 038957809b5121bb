//! Inputs for the driver: seeds, changed by somebody who knows what HTTP looks like.
//!
//! Knows: lines, numbers, the words that parsers trip over. Does not know: what is valid.
//! Everything follows from a seed number, so that each input can be made again.

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose with.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from 0 up to, and without, `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Pieces that stand anywhere.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"=",
    b"\"",
    b"\\",
    b"\0",
    b"\x0b",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"_",
    b"*",
    b"/",
    b"#",
    b"?",
    b"%00",
    b"chunked",
    b"identity",
    b"gzip, ",
    b"close",
    b"keep-alive",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"HTTP/1.2",
    b"HTTP/2.0",
    b"http://b",
    b"[::1]",
    b":80",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b";a=b",
    b";a=\"b;\\\"c\"",
    b"FFFFFFFFFFFFFFFF",
    b"18446744073709551616",
];

/// Whole lines.
const LINES: &[&[u8]] = &[
    b"Host: a\r\n",
    b"Host: b:80\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 05\r\n",
    b"Content_Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: , chunked\r\n",
    b"transfer-encoding:\tChunked \r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Forwarded: for=\"[::1]:5\";proto=https;host=h, for=10.0.0.1\r\n",
    b"X-Forwarded-For: 1.2.3.4, 10.0.0.9:80\r\n",
    b"X-Forwarded-Proto: https\r\n",
    b"X-Forwarded-Prefix: /app/\r\n",
    b"X-Forwarded-Host: h:1\r\n",
    b"Content-Type: text/plain\r\n",
    b" folded\r\n",
    b"X:\r\n",
    b"\r\n",
    b"GET / HTTP/1.1\r\n",
    b"POST /a?b HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"0\r\n",
    b"3\r\n",
    b"abc\r\n",
];

/// Longer inputs show nothing that shorter ones do not.
const MOST: usize = 4096;

/// One input, with its two bytes of rules and cuts in front.
pub fn input(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut sent = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(6) {
        change(&mut sent, seeds, random);
        sent.truncate(MOST);
    }
    let head = random.number().to_ne_bytes();
    // Every other input meets the default rules and limits.
    let rules = if head[2] & 1 == 0 { 0 } else { head[0] };
    [&[rules, head[1]][..], &sent].concat()
}

fn change(sent: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(sent.len() + 1);
    match random.below(11) {
        0 if at < sent.len() => sent[at] = random.number() as u8,
        1 if at < sent.len() => sent[at] ^= 1 << random.below(8),
        2 => {
            let word = random.pick(WORDS);
            sent.splice(at..at, word.iter().copied());
        }
        3 => {
            let word = random.pick(WORDS);
            let end = (at + random.below(word.len() + 2)).min(sent.len());
            sent.splice(at..end, word.iter().copied());
        }
        4 => {
            let end = (at + 1 + random.below(8)).min(sent.len());
            sent.drain(at..end);
        }
        5 => {
            let line = random.pick(LINES);
            let start = line_start(sent, at);
            sent.splice(start..start, line.iter().copied());
        }
        6 => repeat_or_drop_a_line(sent, at, random),
        7 => {
            let other = &seeds[random.below(seeds.len())];
            let from = line_start(other, random.below(other.len()));
            let start = line_start(sent, at);
            sent.splice(start.., other[from..].iter().copied());
        }
        8 => {
            let other = &seeds[random.below(seeds.len())];
            sent.extend_from_slice(other);
        }
        9 => change_number(sent, at, random),
        _ => {
            let end = (at + random.below(6)).min(sent.len());
            let times = 1 << random.below(6);
            let piece = sent[at..end].repeat(times);
            sent.splice(at..at, piece);
        }
    }
}

fn line_start(bytes: &[u8], at: usize) -> usize {
    bytes[..at.min(bytes.len())].iter().rposition(|&byte| byte == b'\n').map_or(0, |lf| lf + 1)
}

fn repeat_or_drop_a_line(sent: &mut Vec<u8>, at: usize, random: &mut Random) {
    let start = line_start(sent, at);
    let end = sent[start..].iter().position(|&byte| byte == b'\n').map_or(sent.len(), |lf| start + lf + 1);
    let line = sent[start..end].to_vec();
    match random.below(3) {
        0 => drop(sent.drain(start..end)),
        1 => drop(sent.splice(start..start, line)),
        _ => {
            let other = line_start(sent, random.below(sent.len() + 1));
            sent.splice(other..other, line);
        }
    }
}

/// Changes the next number by a little, or wholly.
fn change_number(sent: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = sent[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
    let end =
        sent[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(sent.len(), |it| start + it);
    let value = std::str::from_utf8(&sent[start..end]).ok().and_then(|text| text.parse::<u64>().ok());
    let value = value.unwrap_or(0);
    let value = match random.below(4) {
        0 => value.wrapping_add(1),
        1 => value.saturating_sub(1),
        2 => random.number() % 100,
        _ => random.number(),
    };
    sent.splice(start..end, value.to_string().into_bytes());
}
