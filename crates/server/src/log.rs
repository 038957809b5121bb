//! Lines for people, written by a thread of their own, so that a slow terminal or a full
//! pipe never stops the loop.
//!
//! Knows: lines and how many a second are too many. Does not know: what they are about. Any
//! thread adds lines; only the log's own thread writes, and it starts with the first line.

mod form;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use reactor::sys::{duplicate_file, monotonic_ms};

pub use self::form::{Form, Level, push_clean};
use crate::counters::{Counter, Counters};
use crate::sync::{lock, wait, wait_for};

/// Lines waiting to be written; more are counted and left out, so that memory is bounded
/// where the reader of the log has stopped reading.
const QUEUE: usize = 4096;

/// Of the log's thread.
const STACK_BYTES: usize = 64 << 10;

/// How often it is tried again to start it, in milliseconds.
const TRY_MS: u64 = 100;

/// One file that lines go to.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    level: Level,
    form: Form,
    /// With the last of them the log's thread ends.
    _writers: Arc<Writers>,
}

/// Whoever may write lines.
struct Writers(Arc<Shared>);

impl Drop for Writers {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and the lock may be somebody's who is not there either.
        if self.0.pid == std::process::id() {
            lock(&self.0.queue).closed = true;
            self.0.filled.notify_one();
        }
    }
}

struct Shared {
    /// The process whose log it is.
    pid: u32,
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
}

struct Queue {
    lines: VecDeque<Vec<u8>>,
    /// The log's file until its thread has started, which then owns it.
    file: Option<Arc<File>>,
    started: bool,
    /// Where it could not be started: when that is tried again, in milliseconds.
    next_try: u64,
    /// Nobody can write a line any more.
    closed: bool,
    writing: bool,
    rate: Rate,
    /// Lines left out because the queue was full, or the file could not be written.
    lost: u64,
    /// Where lines are counted that were left out, and those that were lost.
    counters: Option<Counted>,
    /// A file to go on with.
    next: Option<File>,
    /// Where it is said how many lines were lost; none: here.
    losses: Option<Log>,
}

/// The two of all [`Counters`] that are a log's.
#[derive(Clone, Copy)]
struct Counted {
    log_lines_suppressed: Counter,
    log_lines_lost: Counter,
}

impl Queue {
    fn count_lost(&self, lines: u64) {
        if let Some(counters) = self.counters {
            counters.log_lines_lost.add_many(lines);
        }
    }
}

/// So many lines a second; what is more is counted.
struct Rate {
    most: u64,
    second: u64,
    used: u64,
    /// Left out, and not told yet.
    suppressed: u64,
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
            file: file.map(Arc::new),
            started: false,
            next_try: 0,
            closed: false,
            writing: false,
            rate: Rate { most, second: 0, used: 0, suppressed: 0 },
            lost: 0,
            counters: None,
            next: None,
            losses: None,
        };
        let shared = Arc::new(Shared {
            pid: std::process::id(),
            queue: Mutex::new(queue),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        });
        Self { _writers: Arc::new(Writers(Arc::clone(&shared))), shared, level, form }
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
            queue.file = Some(Arc::new(file));
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
            let allowed = queue.rate.allows(now);
            if let (false, Some(counters)) = (allowed, queue.counters) {
                counters.log_lines_suppressed.add();
            }
            (allowed, owed)
        };
        if owed > 0 {
            self.say(level, &format!("suppressed {owed} lines like those before"));
        }
        if allowed {
            self.say(level, &text());
        }
        allowed
    }

    /// Has lines counted from now on that [`Log::complain`] leaves out, and those that are lost: any process may read both
    /// at any time.
    pub fn count(&self, counters: &Counters) {
        lock(&self.shared.queue).counters = Some(Counted {
            log_lines_suppressed: counters.log_lines_suppressed,
            log_lines_lost: counters.log_lines_lost,
        });
    }

    /// Queues one whole line, newline included.
    pub fn line(&self, line: Vec<u8>) {
        let mut queue = lock(&self.shared.queue);
        if queue.lines.len() >= QUEUE {
            queue.lost += 1;
            queue.count_lost(1);
        } else {
            queue.lines.push_back(line);
        }
        self.shared.start(&mut queue, self.form, STACK_BYTES);
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Threads can be started again: lines may have waited for theirs.
    pub fn catch_up(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.next_try = 0;
        self.shared.start(&mut queue, self.form, STACK_BYTES);
    }

    /// Waits until what was queued is written, at most so long: before the process ends.
    pub fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        self.catch_up();
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
    /// Starts the log's thread, if it is not there. Where the system lets nobody start a thread, lines wait until it does.
    fn start(self: &Arc<Self>, queue: &mut Queue, form: Form, stack: usize) {
        if queue.started || queue.lines.is_empty() {
            return;
        }
        let Some(file) = queue.file.as_ref().map(Arc::clone) else { return queue.lines.clear() };
        let now = monotonic_ms();
        if now < queue.next_try {
            return;
        }
        let shared = Arc::clone(self);
        let builder = std::thread::Builder::new().name("forehand-log".into()).stack_size(stack);
        match builder.spawn(move || shared.write(file, form)) {
            Ok(_) => (queue.started, queue.file) = (true, None),
            Err(_) => queue.next_try = now + TRY_MS,
        }
    }

    /// The log thread's life.
    fn write(&self, mut file: Arc<File>, form: Form) {
        // The end of the file is half a line: what follows begins with a new one.
        let mut torn = false;
        let mut failing = false;
        loop {
            let (lines, lost, next, losses) = {
                let mut queue = lock(&self.queue);
                queue.writing = false;
                while queue.lines.is_empty() {
                    self.emptied.notify_all();
                    if queue.closed {
                        return;
                    }
                    queue = wait(&self.filled, queue);
                }
                queue.writing = true;
                let lost = std::mem::take(&mut queue.lost);
                (std::mem::take(&mut queue.lines), lost, queue.next.take(), queue.losses.clone())
            };
            if let Some(next) = next {
                file = Arc::new(next);
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
            let (taken, failure) = put(&file, &batch);
            if let Some(last) = taken.checked_sub(1) {
                torn = batch[last] != b'\n';
            }
            if let Some(error) = &failure {
                let ends = batch[..taken].iter().filter(|&&byte| byte == b'\n').count() as u64;
                let not_taken = count - ends.saturating_sub(before).min(count);
                let mut queue = lock(&self.queue);
                queue.lost += lost + not_taken;
                queue.count_lost(not_taken);
                drop(queue);
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
fn put(mut file: &File, batch: &[u8]) -> (usize, Option<Error>) {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn beyond_the_rate_lines_are_counted_and_told_in_the_next_second() {
        let mut rate = Rate { most: 2, second: 0, used: 0, suppressed: 0 };
        assert!(rate.allows(5000) && rate.allows(5001));
        assert!(!rate.allows(5002) && !rate.allows(5999));
        assert_eq!(rate.owed(5999), 0);
        assert_eq!(rate.owed(6000), 2);
        assert!(rate.allows(6000));
        assert_eq!(rate.owed(7000), 0);
    }

    #[test]
    fn what_was_written_is_there_when_its_log_is_closed_and_nobody_has_the_file_then() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let log = Log::new(writer.as_raw_fd(), Level::Info, 0, Form::Plain).expect("a log");
        drop(writer);
        log.clone().line(b"one\n".to_vec());
        log.line(b"two\n".to_vec());
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("its end, when the thread has closed it");
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn where_no_thread_can_be_started_lines_wait_for_the_next_chance() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let log = Log::new(writer.as_raw_fd(), Level::Info, 0, Form::Plain).expect("a log");
        drop(writer);
        let mut queue = lock(&log.shared.queue);
        queue.lines.push_back(b"one\n".to_vec());
        // So large a stack nobody gets.
        log.shared.start(&mut queue, Form::Plain, usize::MAX >> 2);
        assert!(!queue.started && queue.next_try > 0);
        drop(queue);
        log.line(b"two\n".to_vec());
        log.flush(Duration::from_secs(20));
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("its end");
        assert_eq!(text, "one\ntwo\n");
    }
}
