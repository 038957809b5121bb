//! Drives the targets on stable Rust: mutated cases of tests/data, bounded in time, from a seed
//! that is printed with what fails.
//!
//! `drive TARGET|all --seconds N [--seed N]`; `drive outcome` reads inputs as lines of hex from
//! standard input and prints what the machine made of each, for comparison with other parsers.

use std::io::BufRead;
use std::time::{Duration, Instant};

use forehand_fuzz::{TARGETS, play};

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Pieces that matter to an HTTP parser.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"=",
    b"\"",
    b"\0",
    b"\x0b",
    b"\x7f",
    b"\xff",
    b"0",
    b"5",
    b"10",
    b"0x5",
    b"+5",
    b"FFFFFFFFFFFFFFFF",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"GET / HTTP/1.1\r\n",
    b"POST / HTTP/1.0\r\n",
    b"HTTP/1.1",
    b"chunked",
    b"gzip",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nX: y\r\n\r\n",
    b";a=b",
    b"_",
    b"{",
    b"http://b/",
    b"*",
    b"[::1]",
];

fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            4 => {
                let end = at + random.below(bytes.len() - at + 1).min(40);
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => {}
        }
    }
    bytes.truncate(1200);
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data");
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder).expect("tests/data").flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        for line in text.lines().filter_map(|line| line.strip_prefix("send: ")) {
            let bytes =
                line.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0");
            seeds.push(bytes.into_bytes());
        }
    }
    seeds.retain(|seed| seed.len() < 1000);
    seeds
}

fn outcomes() {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let digits = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex"));
        let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect();
        let outcome = play(std::iter::once(bytes.as_slice()));
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let requests: Vec<_> =
            outcome.requests.iter().map(|(line, body)| format!("{} {}", hex(line), hex(body))).collect();
        println!("{}|{}|{}", requests.join(","), outcome.complete, outcome.fault.map_or("", |fault| fault.1));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let wanted = arguments.first().map_or("all", String::as_str);
    if wanted == "outcome" {
        return outcomes();
    }
    let seconds = value("--seconds").unwrap_or(10);
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    let seed = value("--seed").unwrap_or(clock) | 1;
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| wanted == "all" || wanted == *name).collect();
    assert!(!targets.is_empty(), "there is no target '{wanted}'");
    let seeds = seeds();
    let mut random = Random(seed);
    let share = Duration::from_secs(seconds) / targets.len() as u32;
    for (name, target) in targets {
        let until = Instant::now() + share;
        let mut runs = 0u64;
        while Instant::now() < until {
            let bytes = mutate(&seeds[random.below(seeds.len())], &mut random);
            let tried = std::panic::catch_unwind(|| target(&bytes));
            if tried.is_err() {
                eprintln!("{name} failed (seed {seed}) for:\n  {}", bytes.escape_ascii());
                std::process::exit(1);
            }
            runs += 1;
        }
        println!("{name}: {runs} inputs, no failure (seed {seed})");
    }
}
