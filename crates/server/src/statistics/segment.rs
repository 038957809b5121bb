//! The whole of shared statistics: the server's header, and a block for each worker.
//!
//! Knows: where blocks are, who lives in them, and what becomes of a dead worker's numbers. Does not know: what they
//! mean. The supervisor writes the header, and adds a dead worker's block to that of all dead under a sequence number, so
//! that no reader sees a number twice or not at all; any process reads.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use reactor::sys::{Access, SharedNumbers, forget_numbers, monotonic_ns, wait_for_change, wall_us};

use super::bell::{self, Bell};
use super::condition::Collected;
use super::layout::{
    self, BLOCKS, COUNTERS, COUNTERS_COUNT, HEADER, HISTOGRAM, MAGIC, META, Meta, PHASE_COUNT, PHASES,
    RETIRED, STRIDE, SUMS, VERSION, WHOLE, Word, add, block_at, header, load, put_text, store,
};
use super::phase::{Ending, NOT_MEASURED, Phase};
use super::records::{Died, Record};
use super::series::{Key, Series};
use super::slots::{self, Inside};
use super::{records, routes, series, waiting};
use crate::counters;

/// What the supervisor says of the server, in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Pid,
    /// Monotonic milliseconds by which the supervisor looks again, though nothing may have happened until then: while it
    /// waits, when that ends; while it works, when it began to.
    LooksBy,
    /// Seconds since 1970 at which the server began.
    Started,
    Generation,
    /// Workers that are wanted, that there are, and that serve in the current generation.
    Wanted,
    Workers,
    Ready,
    /// 1: the first generation is up, or was.
    Up,
    /// 1: it is on its way out.
    Stopping,
    /// Workers that were ever started.
    Starts,
    ReloadsDone,
    ReloadsFailed,
    /// Seconds since 1970 at which the last reload was given up; zero: it was not.
    ReloadGivenUpAt,
    /// 1: its log cannot be written.
    LogFailed,
    /// Lines of it that were lost since somebody has read it.
    LogLinesLost,
    /// Seconds since 1970 at which the first certificate expires, and seconds that it is valid in all; zero: there is none.
    CertificateExpires,
    CertificateLasts,
    /// 1: files of certificates have changed and cannot be used.
    CertificateUnused,
}

/// The names of these, for whoever sets them.
pub const SERVER_NAMES: [&str; 18] = [
    "pid",
    "looks_by_ms",
    "started",
    "generation",
    "wanted",
    "workers",
    "ready",
    "up",
    "stopping",
    "starts",
    "reloads_done",
    "reloads_failed",
    "reload_given_up_at",
    "log_failed",
    "log_lines_lost",
    "certificate_expires",
    "certificate_lasts",
    "certificate_unused",
];

/// What must be the same for who maps numbers: where they are, and which.
const LAYOUT: u64 = VERSION << 32 | counters::ORDER as u64;

/// Shared statistics, mapped as far as they were looked at.
pub struct Segment {
    fd: OwnedFd,
    access: Access,
    header: SharedNumbers,
    blocks: Vec<OnceLock<SharedNumbers>>,
}

/// Maps the block of one row for good: it is a worker's for its life.
///
/// # Errors
/// The kernel's; `InvalidInput` when there is no such row, or what is behind the descriptor are no statistics.
pub fn join(fd: RawFd, row: usize) -> io::Result<&'static [Word]> {
    check(&SharedNumbers::map_part(fd, (0, HEADER), Access::Read)?)?;
    if row + 1 >= BLOCKS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the statistics have no such row"));
    }
    let place = (block_at(row + 1), STRIDE);
    let words: &'static SharedNumbers =
        Box::leak(Box::new(SharedNumbers::map_part(fd, place, Access::Write)?));
    // This process lives in its block from now on.
    store(&words.numbers()[META + Meta::Pid as usize], u64::from(std::process::id()));
    Ok(words.numbers())
}

/// Maps what a worker rings when its numbers change.
///
/// # Errors
/// The kernel's; `InvalidInput` where these are no statistics.
pub fn join_bell(fd: RawFd) -> io::Result<Bell> {
    let header = SharedNumbers::map_part(fd, (0, HEADER), Access::Write)?;
    check(&header)?;
    Ok(Bell::of(header))
}

fn check(header: &SharedNumbers) -> io::Result<()> {
    let words = header.numbers();
    if load(&words[header::MAGIC]) == MAGIC && load(&words[header::VERSION]) == LAYOUT {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "these are no statistics of this version"))
}

impl Segment {
    /// Bytes that a descriptor must have room for.
    pub const BYTES: usize = WHOLE * size_of::<Word>();

    /// Statistics behind a descriptor. Where it is new and may be written, they begin.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for what is not ours.
    pub fn open(fd: OwnedFd, access: Access) -> io::Result<Self> {
        let header = SharedNumbers::map_part(fd.as_raw_fd(), (0, HEADER), access)?;
        if access == Access::Write && load(&header.numbers()[header::MAGIC]) == 0 {
            store(&header.numbers()[header::VERSION], LAYOUT);
            store(&header.numbers()[header::USED], 1);
            header.numbers()[header::MAGIC].store(MAGIC, Ordering::Release);
        }
        check(&header)?;
        let blocks = (0..BLOCKS).map(|_| OnceLock::new()).collect();
        Ok(Self { fd, access, header, blocks })
    }

    fn head(&self, at: usize) -> &Word {
        &self.header.numbers()[at]
    }

    /// The words of a block.
    ///
    /// # Errors
    /// The kernel's.
    pub fn block(&self, block: usize) -> io::Result<&[Word]> {
        let Some(place) = self.blocks.get(block) else { return Err(io::ErrorKind::InvalidInput.into()) };
        if place.get().is_none() {
            let mapped =
                SharedNumbers::map_part(self.fd.as_raw_fd(), (block_at(block), STRIDE), self.access)?;
            let _ = place.set(mapped);
        }
        Ok(place.get().map_or(&[], SharedNumbers::numbers))
    }

    /// Nobody reads for a while: what was mapped counts as this process's memory no more.
    pub fn let_go(&self) {
        self.blocks.iter().filter_map(OnceLock::get).for_each(SharedNumbers::let_go);
    }

    /// Blocks that have ever been used.
    pub fn used(&self) -> usize {
        (load(self.head(header::USED)) as usize).clamp(1, BLOCKS)
    }

    /// A worker is about to live in that row.
    pub fn take(&self, row: usize) {
        let used = (row + 2).min(BLOCKS) as u64;
        if used > load(self.head(header::USED)) {
            store(self.head(header::USED), used);
        }
    }

    /// The supervisor says something of the server.
    pub fn set(&self, what: usize, value: u64) {
        if what < header::SERVER_COUNT {
            store(self.head(header::SERVER + what), value);
        }
    }

    /// And adds to it.
    pub fn add(&self, what: usize, count: u64) {
        if what < header::SERVER_COUNT {
            add(self.head(header::SERVER + what), count);
            self.ring();
        }
    }

    pub fn server(&self, what: Server) -> u64 {
        load(self.head(header::SERVER + what as usize))
    }

    /// Something has happened: who waits for that looks now.
    fn ring(&self) {
        bell::ring(self.head(header::BELL));
    }

    /// Changes with whatever [`Segment::wait`] waits for.
    pub fn rings(&self) -> u64 {
        self.head(header::BELL).load(Ordering::Acquire)
    }

    /// Waits until something happens, unless it has since that was read.
    pub fn wait(&self, rings: u64) {
        wait_for_change(self.head(header::BELL), rings);
    }

    fn exit_row(&self, place: usize) -> &[Word] {
        let width = header::EXIT_TEXT + 1;
        let from = header::EXITS + place * width;
        &self.header.numbers()[from..from + width]
    }

    /// A worker has ended for that reason: where that stands. Reasons that find no room count as the last.
    pub fn count_exit(&self, reason: &str) -> usize {
        self.count_exits(reason, 1)
    }

    /// So many have.
    pub(super) fn count_exits(&self, reason: &str, exits: u64) -> usize {
        for place in 0..header::EXIT_COUNT {
            let (count, text) = match self.exit_row(place).split_first() {
                Some(both) => both,
                None => break,
            };
            let known = layout::text(text);
            let last = place + 1 == header::EXIT_COUNT;
            if load(count) == 0 {
                put_text(text, if last { b"other" } else { reason.as_bytes() });
            } else if known != reason.as_bytes() && !last {
                continue;
            }
            add(count, exits);
            self.ring();
            return place;
        }
        header::EXIT_COUNT - 1
    }

    /// The reason that stands there.
    pub fn exit(&self, place: usize) -> String {
        let text = (place < header::EXIT_COUNT).then(|| layout::text(&self.exit_row(place)[1..]));
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }

    /// Why workers have ended, and how often.
    pub fn exits(&self) -> Vec<(String, u64)> {
        (0..header::EXIT_COUNT)
            .filter_map(|place| {
                let (count, text) = self.exit_row(place).split_first()?;
                let text = String::from_utf8_lossy(&layout::text(text)).into_owned();
                (load(count) > 0).then_some((text, load(count)))
            })
            .collect()
    }

    /// Requests that have ended in the worker of a row and were kept, the oldest first; none: in those that are dead.
    ///
    /// # Errors
    /// The kernel's.
    pub fn records(&self, row: Option<usize>) -> io::Result<Vec<Record>> {
        Ok(records::read(self.block(row.map_or(RETIRED, |row| row + 1))?))
    }

    /// Requests that are inside the worker of a row. `dead`: it has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn inside(&self, row: usize, dead: bool) -> io::Result<Vec<Inside>> {
        Ok(slots::read(self.block(row + 1)?, dead))
    }

    /// The request that a thread of the worker of a row was at, which has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn at(&self, row: usize, thread: u64) -> io::Result<Option<Inside>> {
        Ok(slots::at(self.block(row + 1)?, thread))
    }

    /// The number that readers compare: the same before and after, and even, when all that they have read was whole.
    pub(super) fn sequence(&self) -> u64 {
        self.head(header::SEQUENCE).load(Ordering::Acquire)
    }

    /// Does something that no reader shall see half done: what was read meanwhile is read again.
    pub fn unread<R>(&self, work: impl FnOnce() -> R) -> R {
        let sequence = self.head(header::SEQUENCE);
        let before = load(sequence) | 1;
        sequence.store(before, Ordering::SeqCst);
        let done = work();
        sequence.store(before.wrapping_add(1), Ordering::SeqCst);
        done
    }

    /// The worker of a row has ended: its numbers become those of all dead, and the row is empty. What it worked on is
    /// counted and kept as ended with it. `died`: its number, and where it stands why. `meanwhile`: what belongs to that.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fold(&self, row: usize, died: (u64, usize), meanwhile: impl FnOnce()) -> io::Result<()> {
        let (from, to) = (self.block(row + 1)?, self.block(RETIRED)?);
        self.unread(|| {
            add_block(from, to, died);
            meanwhile();
            if forget_numbers(self.fd.as_raw_fd(), block_at(row + 1), STRIDE).is_err() {
                // Where the memory cannot be given back it is emptied.
                from.iter().filter(|word| load(word) != 0).for_each(|word| store(word, 0));
            }
        });
        Ok(())
    }
}

/// Adds the numbers of a dead worker.
fn add_block(from: &[Word], to: &[Word], died: (u64, usize)) {
    let sums = [Meta::Received, Meta::Sent, Meta::Overflow, Meta::ClockSkew];
    for what in sums.into_iter().chain([Meta::Spans, Meta::SpansDropped]) {
        add(&to[META + what as usize], load(&from[META + what as usize]));
    }
    Collected::read(|at| load(&from[at])).fold(to);
    let unplaced = load(&from[META + Meta::Unplaced as usize]) + routes::unplaced(from);
    add(&to[META + Meta::Unplaced as usize], unplaced);
    let phases = (SUMS..SUMS + 2 * PHASE_COUNT).chain(PHASES..PHASES + PHASE_COUNT * HISTOGRAM);
    for at in (COUNTERS..COUNTERS + COUNTERS_COUNT).chain(phases) {
        let more = load(&from[at]);
        if more != 0 {
            add(&to[at], more);
        }
    }
    let mut places = vec![0; layout::ROUTE_COUNT];
    for (place, moved) in places.iter_mut().enumerate().skip(1) {
        if let Some(route) = routes::read(from, place) {
            *moved = routes::fold(to, &route) as u16;
        }
    }
    let moved = |key: Key| key.with_route(places.get(usize::from(key.route())).copied().unwrap_or(0));
    for (key, counted) in series::read(from) {
        series::fold(to, key.map(moved), &counted);
    }
    for mut record in records::read(from).into_iter().filter(|record| record.remarkable) {
        record.series = Key::of_number(record.series).map_or(0, |key| moved(key).number());
        records::put(to, &record, record.line.as_bytes());
    }
    let inside = slots::read(from, true);
    let unnamed = load(&from[META + Meta::Unnamed as usize]) + waiting::died(from, slots::counted(from));
    let lost = inside.len() as u64 + unnamed;
    let pid = load(&from[META + Meta::Pid as usize]);
    let died = Died { worker: died.0, pid, exit: died.1 };
    // Of those without a slot it is known what one of them is counted under, where they are of a pipeline. Otherwise there were
    // more than have slots. Most likely all are like that one, or like one that has a slot.
    let (head, route) = match (load(&from[META + Meta::WaitingLabel as usize]), inside.last()) {
        (0, Some(one)) => (one.label, one.route),
        (label, _) => (series::head_part(label), series::route_part(label)),
    };
    for one in inside {
        let key = moved(Key::new(one.label, one.route, 0, Ending::WorkerDied));
        add_lost(to, one, (key, died));
    }
    if unnamed > 0 {
        let key = Key::new(head, route, 0, Ending::WorkerDied);
        let mut counted = Series::default();
        counted.buckets[0] = unnamed;
        series::fold(to, Some(moved(key)), &counted);
    }
    add(&to[META + Meta::DiedInside as usize], lost);
    add(&to[META + Meta::Ended as usize], slots::counted(from) + lost);
}

/// Adds a request that has ended with its worker, and keeps what is known of it.
fn add_lost(to: &[Word], one: Inside, (key, died): (Key, Died)) {
    let now = monotonic_ns();
    let ns = now.saturating_sub(one.first);
    let mut counted = Series { sum: ns, ..Series::default() };
    counted.buckets[series::bucket(ns)] = 1;
    series::fold(to, Some(key), &counted);
    let mut spans = [NOT_MEASURED; PHASE_COUNT];
    spans[Phase::App as usize] = one.sending.unwrap_or(now).saturating_sub(one.begun);
    if let Some(since) = one.sending {
        spans[Phase::Send as usize] = now.saturating_sub(since);
    }
    spans[Phase::Total as usize] = ns;
    let record = Record {
        number: one.number,
        wall: wall_us(),
        status: 0,
        ending: Ending::WorkerDied as u8,
        thread: one.thread,
        sent: 0,
        series: key.number(),
        spans,
        id: one.id,
        trace: None,
        line: String::new(),
        remarkable: true,
        died: Some(died),
        stood: String::new(),
    };
    records::put(to, &record, one.line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::layout::SLOT_COUNT;
    use super::super::phase::Times;
    use super::super::played::{head, words};
    use super::*;

    #[test]
    fn what_died_while_it_was_sent_was_with_its_application_until_then() {
        let (from, to) = (words(), words());
        let block = from.first_chunk().expect("a block");
        let now = monotonic_ns();
        let times = Times { first: now - 9000, begun: now - 8000, ..Times::default() };
        let mut slots = slots::Slots::default();
        for number in [1, 2] {
            let slot = slots.take(block, &head("GET /"), &times, (number, 0));
            if number == 2 {
                slots::Slots::is_left(block, slot, now - 5000);
            }
        }
        add_block(&from, &to, (1, 0));
        let spans: Vec<_> = records::read(&to).into_iter().map(|record| record.spans).collect();
        let of = |at: usize, phase: Phase| spans[at][phase as usize];
        assert!(of(0, Phase::App) >= 8000, "{spans:?}");
        assert_eq!((of(0, Phase::Send), of(1, Phase::App)), (NOT_MEASURED, 3000));
        assert!(of(1, Phase::Send) >= 5000, "{spans:?}");
    }

    #[test]
    fn those_that_had_no_slot_are_counted_as_one_that_had_one() {
        for more in [0, 1, 44] {
            let (from, to, head) = (words(), words(), head("GET /"));
            let block = from.first_chunk().expect("a block");
            let mut slots = slots::Slots::default();
            let label = series::of_head(&head, false);
            for number in 0..SLOT_COUNT as u64 {
                slots.take(block, &head, &Times::default(), (number, label));
            }
            store(&from[META + Meta::Unnamed as usize], more);
            add_block(&from, &to, (1, 0));
            let found: Vec<_> = series::read(&to).collect();
            let [(Some(key), counted)] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((key.method(), key.version(), key.ending()), ("GET", "1.1", Ending::WorkerDied as u8));
            assert_eq!(counted.count(), SLOT_COUNT as u64 + more);
        }
    }
}
