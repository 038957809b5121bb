//! Runs the fuzz targets anywhere: no nightly compiler, no libFuzzer.
//!
//! ```text
//! drive all|TARGET [--seconds N] [--seed N]     tries inputs; ends at the first that fails
//! drive again TARGET HEX                        tries one input again
//! drive transcripts [--seconds N] [--seed N]    inputs and what came of them, for against_h11.py
//! drive transcript                              the same for inputs on stdin, one a line, in hexadecimal
//! drive blocks|frames                           the same for connections of HTTP/2, for against_h2.py
//! ```
//!
//! Exit status: 0 nothing failed, 1 an input failed, 2 the command line is wrong.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuzz::mutate::{self, Random};
use fuzz::transcript::play;
use fuzz::{TARGETS, Target, seeds, shared, tell_blocks, tell_frames};

struct Options {
    seconds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["again", name, text] => match (target(name), unhex(text)) {
            (Some(target), Some(bytes)) => {
                target(&bytes);
                println!("{name}: it holds");
                ExitCode::SUCCESS
            }
            _ => usage(),
        },
        ["transcript"] => tell_stdin(),
        ["blocks"] => tell_lines(|line| tell_blocks(line, unhex)),
        ["frames"] => tell_lines(|line| tell_frames(line, unhex)),
        [name, rest @ ..] => match (options(rest), *name) {
            (Some(options), "transcripts") => tell_random(&options),
            (Some(options), "all") => try_all(TARGETS, &options),
            (Some(options), name) => match TARGETS.iter().find(|(known, _)| *known == name) {
                Some(found) => try_all(&[*found], &options),
                None => usage(),
            },
            (None, _) => usage(),
        },
        [] => usage(),
    }
}

fn usage() -> ExitCode {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    eprintln!(
        "drive all|TARGET|transcripts [--seconds N] [--seed N]; drive again TARGET HEX; drive transcript|blocks|frames"
    );
    eprintln!("targets: {}", names.join(", "));
    ExitCode::from(2)
}

fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

fn options(words: &[&str]) -> Option<Options> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut options = Options { seconds: 10, seed: now };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return None };
        let value = value.parse().ok()?;
        match *name {
            "--seconds" => options.seconds = value,
            "--seed" => options.seed = value,
            _ => return None,
        }
    }
    Some(options)
}

/// The input of a place in a seed's sequence: each can be made without those before it.
fn input(seeds: &[Vec<u8>], seed: u64, place: u64) -> Vec<u8> {
    let mut mixed = Random::new(seed);
    let mut random = Random::new(mixed.number() ^ place.wrapping_mul(0x2545_f491_4f6c_dd1d));
    mutate::input(seeds, &mut random)
}

/// Gives each target its share of the time.
fn try_all(targets: &[(&str, Target)], options: &Options) -> ExitCode {
    let seeds = seeds::all();
    // What failed, without a backtrace: that is there under `drive again`.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let share = Duration::from_millis(options.seconds * 1000 / targets.len() as u64);
    for (name, target) in targets {
        let end = Instant::now() + share;
        let mut place = 0;
        // Every seed as it is, under the strict rules, before any is changed.
        for seed in &seeds {
            let bytes = [&[0, 0][..], seed].concat();
            if !holds(*target, &bytes) {
                return failed(name, *target, bytes, "a case of tests/data");
            }
        }
        while Instant::now() < end {
            // The clock is asked once in a hundred.
            for _ in 0..100 {
                let bytes = input(&seeds, options.seed, place);
                if !holds(*target, &bytes) {
                    return failed(name, *target, bytes, &format!("seed {}, place {place}", options.seed));
                }
                place += 1;
            }
        }
        println!("{name}: {} inputs held (seed {})", place + seeds.len() as u64, options.seed);
    }
    ExitCode::SUCCESS
}

fn holds(target: Target, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).is_ok()
}

/// Tells of a failure: the bytes, as found and as short as they get while they still fail.
fn failed(name: &str, target: Target, bytes: Vec<u8>, origin: &str) -> ExitCode {
    eprintln!("{name} failed on {origin}:\n  {}", bytes.escape_ascii());
    std::panic::set_hook(Box::new(|_| {}));
    let shorter = shorten(target, bytes);
    eprintln!("shortest that fails:\n  {}", shorter.escape_ascii());
    eprintln!("try it again with: drive again {name} {}", hex(&shorter));
    ExitCode::FAILURE
}

/// Leaves out pieces, from halves down to single bytes, as long as it still fails.
fn shorten(target: Target, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut size = bytes.len() / 2;
    while size > 0 {
        let mut at = 2;
        while at < bytes.len() {
            let end = (at + size).min(bytes.len());
            let without = [&bytes[..at], &bytes[end..]].concat();
            if holds(target, &without) {
                at += size;
            } else {
                bytes = without;
            }
        }
        size /= 2;
    }
    bytes
}

fn tell(bytes: &[u8], out: &mut impl Write) -> bool {
    let found = play(&mut shared(0), [bytes]);
    writeln!(out, "{}", found.json(bytes)).is_ok()
}

fn tell_stdin() -> ExitCode {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some(bytes) = unhex(line.trim()) else { return usage() };
        if !tell(&bytes, &mut out) {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// One answer for each line on stdin, before the next is read.
fn tell_lines(tell: impl Fn(&str) -> Option<String>) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some(told) = tell(&line) else { return usage() };
        if writeln!(out, "{told}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn tell_random(options: &Options) -> ExitCode {
    let seeds = seeds::all();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let end = Instant::now() + Duration::from_secs(options.seconds);
    for seed in &seeds {
        tell(seed, &mut out);
    }
    for place in 0.. {
        // A reader that has seen enough closes the pipe.
        if Instant::now() >= end || !tell(&input(&seeds, options.seed, place)[2..], &mut out) {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
