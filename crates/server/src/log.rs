//! Lines for people, written by a thread of their own, so that a slow terminal or a full
//! pipe never stops the loop.
//!
//! Knows: lines and how many a second are too many. Does not know: what they are about. Any
//! thread adds lines; only the log's own thread writes, and it starts with the first line.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use reactor::sys::{duplicate_file, monotonic_ms, wall_us};

use crate::sync::{lock, wait, wait_for};

/// Lines waiting to be written; more are counted and left out, so that memory is bounded
/// where the reader of the log has stopped reading.
const QUEUE: usize = 4096;

/// How grave a line is, in the order and with the numbers of Python's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Error = 40,
    Critical = 50,
}

impl Level {
    /// By its name, as `--log-level` has it.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "debug" | "trace" => Self::Debug,
            "info" => Self::Info,
            "warning" | "warn" => Self::Warning,
            "error" => Self::Error,
            "critical" => Self::Critical,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }

    /// The terminal's sequence that makes it stand out; empty: it does not.
    fn colour(self) -> &'static str {
        match self {
            Self::Debug | Self::Info => "",
            Self::Warning => "\x1b[33m",
            Self::Error | Self::Critical => "\x1b[1;31m",
        }
    }
}

/// How lines look; `python/forehand/lines.py` has the same three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// For a terminal: what a person has to look at stands out.
    Colour,
    /// A JSON object a line.
    Json,
}

impl Form {
    /// By its name in the settings.
    pub fn parse(name: &str) -> Self {
        match name {
            "colour" => Self::Colour,
            "json" => Self::Json,
            _ => Self::Plain,
        }
    }

    /// One whole line, newline included, from text that may hold anything a peer has sent.
    fn line(self, level: Level, text: &str) -> Vec<u8> {
        let us = wall_us();
        let (date, time) = crate::calendar::iso(us / 1_000_000);
        let (ms, pid, name) = (us / 1000 % 1000, std::process::id(), level.name());
        let mut line = match self {
            Self::Plain => format!("{date} {time}.{ms:03}Z [{pid}] {name}: "),
            Self::Colour => {
                format!("\x1b[2m{date} {time}.{ms:03}Z [{pid}]\x1b[0m {}{name}: ", level.colour())
            }
            Self::Json => format!(
                "{{\"time\": \"{date}T{time}.{ms:03}Z\", \"level\": \"{name}\", \"pid\": {pid}, \"message\": \""
            ),
        }
        .into_bytes();
        match self {
            Self::Json => push_json(&mut line, text),
            _ => push_clean(&mut line, text.as_bytes()),
        }
        line.extend_from_slice(match self {
            Self::Plain => b"\n",
            Self::Colour if level.colour().is_empty() => b"\n",
            Self::Colour => b"\x1b[0m\n",
            Self::Json => b"\"}\n",
        });
        line
    }
}

/// One file that lines go to.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    level: Level,
    form: Form,
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
}

struct Queue {
    lines: VecDeque<Vec<u8>>,
    /// The log's file until its thread has started, which then owns it.
    file: Option<File>,
    started: bool,
    writing: bool,
    rate: Rate,
    /// Lines left out because the queue was full, or the file could not be written.
    lost: u64,
    /// A file to go on with.
    next: Option<File>,
    /// Where it is said how many lines were lost; none: here.
    losses: Option<Log>,
}

/// So many lines a second; what is more is counted.
struct Rate {
    most: u64,
    second: u64,
    used: u64,
    /// Left out, and not told yet.
    suppressed: u64,
    /// Left out since the beginning.
    total: u64,
}

impl Rate {
    /// May another line be written? `now` in milliseconds.
    fn allows(&mut self, now: u64) -> bool {
        if self.second != now / 1000 {
            self.second = now / 1000;
            self.used = 0;
        }
        self.used += 1;
        if self.used > self.most {
            self.suppressed += 1;
            self.total += 1;
        }
        self.used <= self.most
    }

    /// How many were left out since the last time this was asked in another second.
    fn owed(&mut self, now: u64) -> u64 {
        if self.suppressed > 0 && self.second != now / 1000 {
            std::mem::take(&mut self.suppressed)
        } else {
            0
        }
    }
}

impl Log {
    /// A log into a descriptor (a copy of it is kept). `rate`: lines a second at most for
    /// [`Log::complain`]; zero stands for no bound.
    ///
    /// # Errors
    /// The kernel's, when the descriptor is not open.
    pub fn new(fd: RawFd, level: Level, rate: u64, form: Form) -> std::io::Result<Self> {
        Ok(Self::with(Some(duplicate_file(fd)?), level, rate, form))
    }

    /// Tells another log of lines that were lost here: this one is read by programs.
    #[must_use]
    pub fn losses_to(self, other: &Log) -> Self {
        lock(&self.shared.queue).losses = Some(other.clone());
        self
    }

    /// How its lines look.
    pub fn form(&self) -> Form {
        self.form
    }

    /// A log that goes nowhere.
    pub fn none() -> Self {
        Self::with(None, Level::Critical, 0, Form::Plain)
    }

    fn with(file: Option<File>, level: Level, rate: u64, form: Form) -> Self {
        let most = if rate == 0 { u64::MAX } else { rate };
        let queue = Queue {
            lines: VecDeque::new(),
            file,
            started: false,
            writing: false,
            rate: Rate { most, second: 0, used: 0, suppressed: 0, total: 0 },
            lost: 0,
            next: None,
            losses: None,
        };
        let shared = Shared { queue: Mutex::new(queue), filled: Condvar::new(), emptied: Condvar::new() };
        Self { shared: Arc::new(shared), level, form }
    }

    /// Goes on with another file (a copy of the descriptor is kept): the old one was moved away.
    ///
    /// # Errors
    /// The kernel's, when the descriptor is not open.
    pub fn reopen(&self, fd: RawFd) -> std::io::Result<()> {
        let file = duplicate_file(fd)?;
        let mut queue = lock(&self.shared.queue);
        if queue.started {
            queue.next = Some(file);
        } else {
            queue.file = Some(file);
        }
        Ok(())
    }

    /// Something the operator should know.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.say(Level::Warning, text.as_ref());
    }

    /// One line at a level, whatever the rate.
    pub fn say(&self, level: Level, text: &str) {
        if level >= self.level {
            self.line(self.form.line(level, text));
        }
    }

    /// A decision, for whoever wants to know why (`--log-level debug`). It costs a comparison where nobody does.
    #[inline]
    pub fn debug(&self, text: impl FnOnce() -> String) {
        if self.level <= Level::Debug {
            self.say(Level::Debug, &text());
        }
    }

    /// One line about something that a peer can cause as often as it likes: beyond the rate
    /// it is counted and left out. True: it was written or is below the level.
    pub fn complain(&self, level: Level, text: impl FnOnce() -> String) -> bool {
        if level < self.level {
            return true;
        }
        let now = monotonic_ms();
        let (allowed, owed) = {
            let mut queue = lock(&self.shared.queue);
            let owed = queue.rate.owed(now);
            (queue.rate.allows(now), owed)
        };
        if owed > 0 {
            self.say(level, &format!("suppressed {owed} lines like those before"));
        }
        if allowed {
            self.say(level, &text());
        }
        allowed
    }

    /// How many lines [`Log::complain`] has left out.
    pub fn lines_left_out(&self) -> u64 {
        lock(&self.shared.queue).rate.total
    }

    /// Queues one whole line, newline included.
    pub fn line(&self, line: Vec<u8>) {
        let mut queue = lock(&self.shared.queue);
        if queue.lines.len() >= QUEUE {
            queue.lost += 1;
            return;
        }
        queue.lines.push_back(line);
        if let (false, Some(file)) = (queue.started, queue.file.take()) {
            queue.started = true;
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("forehand-log".into()).stack_size(64 << 10);
            let form = self.form;
            if builder.spawn(move || shared.write(file, form)).is_err() {
                queue.lines.clear();
            }
        } else if !queue.started {
            queue.lines.clear();
        }
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Waits until what was queued is written, at most so long: before the process ends.
    pub fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut queue = lock(&self.shared.queue);
        if queue.started && queue.rate.suppressed > 0 {
            let owed = std::mem::take(&mut queue.rate.suppressed);
            queue.lines.push_back(
                self.form.line(Level::Warning, &format!("suppressed {owed} lines like those before")),
            );
            self.shared.filled.notify_one();
        }
        while queue.started && (queue.writing || !queue.lines.is_empty()) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return };
            (queue, _) = wait_for(&self.shared.emptied, queue, left);
        }
    }
}

impl Shared {
    /// The log thread's life.
    fn write(&self, mut file: File, form: Form) {
        // The end of the file is half a line: what follows begins with a new one.
        let mut torn = false;
        let mut failing = false;
        loop {
            let (lines, lost, next, losses) = {
                let mut queue = lock(&self.queue);
                queue.writing = false;
                while queue.lines.is_empty() {
                    self.emptied.notify_all();
                    queue = wait(&self.filled, queue);
                }
                queue.writing = true;
                let lost = std::mem::take(&mut queue.lost);
                (std::mem::take(&mut queue.lines), lost, queue.next.take(), queue.losses.clone())
            };
            if let Some(next) = next {
                file = next;
                torn = false;
            }
            let count = lines.len() as u64;
            let before = u64::from(torn);
            let mut batch: Vec<u8> = if torn { vec![b'\n'] } else { Vec::new() };
            batch.extend(lines.into_iter().flatten());
            let lines_were = if lost == 1 { "line was" } else { "lines were" };
            let words = || format!("{lost} {lines_were} lost: the log was not read, or could not be written");
            if lost > 0 && losses.is_none() {
                batch.extend_from_slice(&form.line(Level::Warning, &words()));
            }
            // A log that cannot be written (disk full, reader gone) must not stop anything. That it
            // cannot is said elsewhere, and how many lines that cost when it can be written again.
            let (taken, failure) = put(&mut file, &batch);
            if let Some(last) = taken.checked_sub(1) {
                torn = batch[last] != b'\n';
            }
            if let Some(error) = &failure {
                let ends = batch[..taken].iter().filter(|&&byte| byte == b'\n').count() as u64;
                lock(&self.queue).lost += lost + count - ends.saturating_sub(before).min(count);
                if let (false, Some(other)) = (failing, losses) {
                    other.warn(format!(
                        "access log: it cannot be written: {error}; lines are lost until it can be"
                    ));
                }
            } else if let (1.., Some(other)) = (lost, losses) {
                other.warn(format!("access log: {}", words()));
            }
            failing = failure.is_some();
        }
    }
}

/// Writes as much as the file takes: how much that was, and why it was not all.
fn put(file: &mut File, batch: &[u8]) -> (usize, Option<Error>) {
    let mut taken = 0;
    while taken < batch.len() {
        match file.write(&batch[taken..]) {
            Ok(0) => return (taken, Some(ErrorKind::WriteZero.into())),
            Ok(more) => taken += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (taken, Some(error)),
        }
    }
    (taken, None)
}

/// Appends text with control characters shown as escapes, so that no peer writes lines of
/// its own into the log.
pub fn push_clean(line: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if byte == b'\\' || !(0x20..0x7f).contains(&byte) {
            line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        } else {
            line.push(byte);
        }
    }
}

/// Appends text inside a JSON string (RFC 8259 §7). Quotes and control characters are escaped; the rest is UTF-8.
fn push_json(line: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
            ' '..='\u{10ffff}' if character != '\u{7f}' => {
                line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => line.extend_from_slice(format!("\\u{:04x}", character as u32).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_rate_lines_are_counted_and_told_in_the_next_second() {
        let mut rate = Rate { most: 2, second: 0, used: 0, suppressed: 0, total: 0 };
        assert!(rate.allows(5000) && rate.allows(5001));
        assert!(!rate.allows(5002) && !rate.allows(5999));
        assert_eq!(rate.owed(5999), 0);
        assert_eq!(rate.owed(6000), 2);
        assert!(rate.allows(6000));
        assert_eq!((rate.owed(7000), rate.total), (0, 2));
    }

    #[test]
    fn a_line_in_json_holds_whatever_a_peer_has_sent() {
        let line = String::from_utf8(Form::Json.line(Level::Error, "a \"b\"\n\\ é\u{1}")).expect("UTF-8");
        assert!(line.contains("\"level\": \"error\""), "{line}");
        assert!(line.ends_with("\"message\": \"a \\\"b\\\"\\u000a\\\\ é\\u0001\"}\n"), "{line}");
    }

    #[test]
    fn errors_stand_out_on_a_terminal_and_nothing_else_does() {
        let line = |form: Form, level| String::from_utf8(form.line(level, "text")).expect("UTF-8");
        assert!(line(Form::Colour, Level::Error).ends_with("\x1b[1;31merror: text\x1b[0m\n"));
        assert!(line(Form::Colour, Level::Info).ends_with("\x1b[0m info: text\n"));
        assert!(!line(Form::Plain, Level::Error).contains('\x1b'));
    }

    #[test]
    fn no_peer_writes_lines_of_its_own() {
        let mut line = Vec::new();
        push_clean(&mut line, b"GET /a\r\nfake \\ \xff");
        assert_eq!(line, b"GET /a\\x0d\\x0afake \\x5c \\xff");
    }
}
