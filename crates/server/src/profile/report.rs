//! What a profile has found, and the lines in which it goes to who asked.
//!
//! Knows: stacks that are alike are counted together. Does not know: who reads (`forehand/inside/profile.py`).
//!
//! A line is words with tabs between them. While it goes on: `P`, milliseconds, looks. At the end: `F`, a frame's number,
//! its line, function, file; `S`, nanoseconds, looks, route (nothing: none is known), frames from the outermost on; `E`,
//! milliseconds, looks, looks that have failed, nanoseconds of a processor. Or `X` and why there is nothing.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::{Place, Stack};

/// Stacks that are told apart; what comes when there are so many is told as one. Code that is made at run time, or a
/// recursion of many depths, could have any number.
const MOST_STACKS: usize = 20_000;
/// Of a recursion so many of the innermost frames are told apart.
const DEEPEST: usize = 200;

/// What was found so far.
#[derive(Default)]
pub struct Report {
    frames: HashMap<Place, u32>,
    stacks: HashMap<(String, Vec<u32>), Time>,
    looks: u64,
    /// Looks that have shown nothing.
    pub failed: u64,
}

/// How long something was seen.
#[derive(Default)]
struct Time {
    ns: u64,
    looks: u64,
}

impl Report {
    /// A look has shown these; so many nanoseconds have passed since the one before.
    pub fn add(&mut self, found: Vec<Stack>, ns: u64) {
        self.looks += 1;
        for stack in found {
            let room = self.stacks.len() < MOST_STACKS;
            let numbers = if room { self.numbers(stack.places) } else { Vec::new() };
            let key = (stack.route.unwrap_or_default(), numbers);
            let time = self.stacks.entry(key).or_default();
            time.ns += ns;
            time.looks += 1;
        }
    }

    /// The frames' numbers, the outermost first.
    fn numbers(&mut self, places: Vec<Place>) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::with_capacity(places.len().min(DEEPEST));
        for place in places.into_iter().take(DEEPEST) {
            let next = self.frames.len() as u32;
            numbers.push(*self.frames.entry(place).or_insert(next));
        }
        numbers.reverse();
        numbers
    }

    /// How far it is.
    pub fn progress(&self, out: &mut impl Write, ns: u64) -> io::Result<()> {
        out.write_all(format!("P\t{}\t{}\n", ns / 1_000_000, self.looks).as_bytes())
    }

    /// All of it. `took`: nanoseconds, and nanoseconds of a processor.
    pub fn write(&self, out: &mut impl Write, (took, cpu): (u64, u64)) -> io::Result<()> {
        let mut text = String::new();
        for (Place { file, function, line }, number) in &self.frames {
            let _ = writeln!(text, "F\t{number}\t{line}\t{}\t{}", word(function), word(file));
        }
        for ((route, numbers), time) in &self.stacks {
            let _ = write!(text, "S\t{}\t{}\t{}\t", time.ns, time.looks, word(route));
            for (at, number) in numbers.iter().enumerate() {
                let _ = write!(text, "{}{number}", if at == 0 { "" } else { "," });
            }
            text.push('\n');
        }
        let _ = writeln!(text, "E\t{}\t{}\t{}\t{cpu}", took / 1_000_000, self.looks, self.failed);
        out.write_all(text.as_bytes())
    }
}

/// There is nothing, and why.
pub fn refuse(out: &mut impl Write, why: &str) -> io::Result<()> {
    out.write_all(format!("X\t{}\n", word(why)).as_bytes())
}

/// A word of a line.
fn word(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, line: i32) -> Place {
        Place { file: "a\tb.py".into(), function: function.into(), line }
    }

    fn told(report: &Report) -> Vec<String> {
        let mut out = Vec::new();
        report.write(&mut out, (2_000_000, 7)).expect("a vector takes it");
        let mut lines: Vec<String> = String::from_utf8_lossy(&out).lines().map(String::from).collect();
        lines.sort();
        lines
    }

    #[test]
    fn stacks_that_are_alike_are_one_and_the_outermost_frame_is_first() {
        let mut report = Report::default();
        let stack = |route: Option<&str>| Stack {
            route: route.map(String::from),
            places: vec![place("inner", 2), place("outer", 1)],
        };
        report.add(vec![stack(Some("GET /a")), stack(None)], 10);
        report.add(vec![stack(Some("GET /a"))], 20);
        let expected = [
            "E\t2\t2\t0\t7",
            "F\t0\t2\tinner\ta b.py",
            "F\t1\t1\touter\ta b.py",
            "S\t10\t1\t\t1,0",
            "S\t30\t2\tGET /a\t1,0",
        ];
        assert_eq!(told(&report), expected);
    }

    #[test]
    fn the_last_stack_is_told_apart_and_no_more() {
        let mut report = Report::default();
        for line in 0..MOST_STACKS as i32 + 2 {
            report.add(vec![Stack { route: None, places: vec![place("one", line)] }], 1);
        }
        assert_eq!(report.stacks.len(), MOST_STACKS + 1);
        assert_eq!(report.stacks[&(String::new(), Vec::new())].looks, 2);
    }
}
