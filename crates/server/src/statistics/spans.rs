//! Rings of spans in shared memory: one for each row of the scoreboard, written by its worker and emptied by the exporter.
//!
//! Knows: how a span lies in memory. Does not know: who wants it. One writes and one reads, so that two counts are all
//! that they need. A ring outlives its worker: who comes next in its row goes on behind what was left there. Where it is
//! full, spans are dropped and counted, as nobody waits for an exporter.
//!
//! What is written is what is at hand: numbers, and texts as they are. Everything else is done by whoever reads.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use reactor::sys::{Access, SharedNumbers, monotonic_ns, wall_us};
use wire::Version;

use super::layout::{Word, add, bytes_of, load, put_bytes, store};
use super::phase::{Parts, Spans};
use crate::request_id::RequestId;
use crate::rows::ROWS;
use crate::tracing::Trace;

/// Words in front of the rings: for each row a line of a cache with its counts.
const HEADER: usize = 8 * 1024;
const LINE: usize = 8;
const WRITTEN: usize = 0;
const READ: usize = 1;
const DROPPED: usize = 2;
/// Words of a span, and spans of a ring: half a megabyte, of which what is never touched takes no memory.
const WIDTH: usize = 64;
const ROOM: usize = 1024;
const RING: usize = ROOM * WIDTH;

/// The last word of the header: who maps spans that lie otherwise would read nonsense.
const VERSION_AT: usize = HEADER - 1;
const VERSION: u64 = 3;

const _: () = assert!(ROWS * LINE < HEADER && RING.is_multiple_of(8 * 1024));

/// Where what is in a span: its numbers, one behind the other, then its texts, each from a word of its own on. What most have
/// comes first, so that few lines of a cache are touched.
const NUMBERS: usize = 18;
const FACTS: usize = 4;
const LINK: usize = WIDTH - 3;
/// Words that texts may take: the request line, the route, and what is left of its name.
const LINE_WORDS: usize = 19;
const ROUTE_WORDS: usize = 15;
const ID_WORDS: usize = LINK - NUMBERS - LINE_WORDS - ROUTE_WORDS;

/// Bits of a span's facts beside status, ending and version, and where the lengths of its texts are.
const HTTPS: u64 = 1 << 32;
const LINKED: u64 = 1 << 33;
/// It has the name of its trace.
const NAMED_BY_TRACE: u64 = 1 << 34;
/// Its trace's state is in the place behind it.
const HAS_STATE: u64 = 1 << 35;
const LENGTHS_AT: u32 = 40;

/// As much of a trace's state is kept: as many bytes as anybody must pass on (Trace Context §3.3.1.5).
pub const STATE_BYTES: usize = WIDTH * 8;

const _: () = assert!(LINE_WORDS * 8 < 256 && ROUTE_WORDS * 8 < 256 && ID_WORDS * 8 < 256);

/// A request that has ended and was recorded, as its worker has it at hand.
pub struct Ended<'a> {
    /// The halves of its trace's number, its span, and its sender's.
    pub ids: [u64; 4],
    /// What a sender says who is not trusted.
    pub link: Option<(u128, u64)>,
    /// What others who have a part in its trace say of it (`tracestate`), up to [`STATE_BYTES`]; empty: nothing.
    pub state: &'a [u8],
    /// Monotonic nanoseconds of its first byte.
    pub first: u64,
    pub parts: &'a Parts,
    /// Nanoseconds in front of the server, and of a processor (`NOT_MEASURED`: nobody knows).
    pub upstream: u64,
    pub cpu: u64,
    pub answer: Answer,
    /// Which request of its worker it was.
    pub number: u64,
    /// Content bytes of the reply, and of the request, by its Content-Length.
    pub bytes: (u64, u64),
    pub name: Name<'a>,
    /// What a framework has said, with the method before it, as the routes of the statistics have it; empty: nothing.
    pub route: &'a [Word],
    /// `GET /path`
    pub line: &'a [u8],
}

/// What names it beside its trace.
pub enum Name<'a> {
    Nothing,
    /// A proxy's word.
    Given(&'a str),
    /// The same as its trace.
    Trace,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Zero: nobody was answered.
    pub status: u16,
    pub ending: u8,
    pub version: Version,
    pub https: bool,
}

/// The same, as the exporter gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub trace: Trace,
    /// Empty: nobody says anything of its trace.
    pub state: String,
    /// Nanoseconds since 1970 of its first byte.
    pub began: u64,
    /// Nanoseconds, by `statistics::phase::NAMES`.
    pub spans: Spans,
    pub answer: Answer,
    pub number: u64,
    pub process: u64,
    pub sent: u64,
    pub received: u64,
    /// What names it; empty: nothing does.
    pub id: String,
    /// Empty: no framework has said one.
    pub route: String,
    pub line: String,
}

fn counts(header: &[Word], row: usize) -> &[Word] {
    header.get(row * LINE..(row + 1) * LINE).unwrap_or_default()
}

fn place(ring: &[Word], count: u64) -> &[Word] {
    let from = count as usize % ROOM * WIDTH;
    ring.get(from..from + WIDTH).unwrap_or_default()
}

#[inline]
fn halves(number: u128) -> [u64; 2] {
    [(number >> 64) as u64, number as u64]
}

#[inline]
fn write(words: &[Word; WIDTH], ended: &Ended<'_>, process: u64) {
    let Ended { ids, parts, answer, .. } = ended;
    let line = ended.line.get(..LINE_WORDS * 8).unwrap_or(ended.line);
    let (route, route_length) = match ended.route.split_first() {
        Some((length, text)) => (text, load(length).min(ROUTE_WORDS as u64 * 8)),
        None => (&[][..], 0),
    };
    let (id, named_by_trace): (&[u8], u64) = match ended.name {
        Name::Nothing => (&[], 0),
        Name::Trace => (&[], NAMED_BY_TRACE),
        Name::Given(word) => (word.as_bytes().get(..ID_WORDS * 8).unwrap_or(word.as_bytes()), 0),
    };
    let version = match answer.version {
        Version::Http10 => 10,
        Version::Http11 => 11,
        Version::Http2 => 20,
    };
    let facts = u64::from(answer.status)
        | u64::from(answer.ending) << 16
        | version << 24
        | if answer.https { HTTPS } else { 0 }
        | if ended.link.is_some() { LINKED } else { 0 }
        | if ended.state.is_empty() { 0 } else { HAS_STATE }
        | named_by_trace
        | (line.len() as u64 | route_length << 8 | (id.len() as u64) << 16) << LENGTHS_AT;
    let [high, low, span, parent] = *ids;
    let numbers: [u64; NUMBERS] = [
        high,
        low,
        span,
        parent,
        facts,
        ended.first,
        ended.number,
        process,
        ended.bytes.0,
        ended.bytes.1,
        ended.upstream,
        parts.receive,
        parts.queue,
        parts.gil,
        parts.app,
        parts.send,
        parts.total,
        ended.cpu,
    ];
    numbers.iter().enumerate().for_each(|(at, number)| store(&words[at], *number));
    let mut at = NUMBERS;
    put_bytes(&words[at..], line);
    at += line.len().div_ceil(8);
    if route_length > 0 {
        let length = route_length.div_ceil(8) as usize;
        words[at..].iter().zip(&route[..length]).for_each(|(word, text)| store(word, load(text)));
        at += length;
    }
    if !id.is_empty() {
        put_bytes(&words[at..], id);
    }
    if let Some((stranger, span)) = ended.link {
        let [high, low] = halves(stranger);
        words[LINK..].iter().zip([high, low, span]).for_each(|(word, number)| store(word, number));
    }
}

/// `ahead`: how far the wall's clock is ahead of the monotonic one, in nanoseconds. Its state is read by whoever knows where the
/// next place is.
fn read(words: &[Word], ahead: u64) -> Option<Span> {
    let words = words.first_chunk::<WIDTH>()?;
    let numbers: [u64; NUMBERS] = std::array::from_fn(|at| load(&words[at]));
    let [high, low, span, parent, facts, first, number, process, sent, received, upstream, rest @ ..] =
        numbers;
    let [receive, queue, gil, app, send, total, cpu] = rest;
    let parts = Parts { receive, queue, gil, app, send, total };
    let joined = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
    let link = || (joined(load(&words[LINK]), load(&words[LINK + 1])), load(&words[LINK + 2]));
    let mut at = NUMBERS;
    let mut text = |which: u32| {
        let length = (facts >> (LENGTHS_AT + 8 * which)) as usize & 0xff;
        let bytes = bytes_of(words.get(at..)?, length);
        at += length.div_ceil(8);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (line, route, given) = (text(0)?, text(1)?, text(2)?);
    let id = joined(high, low);
    Some(Span {
        trace: Trace { id, span, parent, sampled: true, link: (facts & LINKED != 0).then(link) },
        state: String::new(),
        began: first.saturating_add(ahead),
        spans: parts.spans(upstream, cpu),
        answer: Answer {
            status: facts as u16,
            ending: (facts >> 16) as u8,
            version: match (facts >> 24) as u8 {
                10 => Version::Http10,
                20 => Version::Http2,
                _ => Version::Http11,
            },
            https: facts & HTTPS != 0,
        },
        number,
        process,
        sent,
        received,
        id: if facts & NAMED_BY_TRACE != 0 { RequestId::of_trace(id).to_string() } else { given },
        route,
        line,
    })
}

/// A worker's end of its ring.
pub struct Writer {
    header: SharedNumbers,
    ring: SharedNumbers,
    row: usize,
    /// Which process this is, which is not asked for each span, as that would be a system call.
    process: u64,
}

impl Writer {
    /// That of a row of the memory behind a descriptor.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` where there is no such row.
    pub fn join(fd: RawFd, row: usize) -> io::Result<Self> {
        if row >= ROWS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no such row for spans"));
        }
        let header = SharedNumbers::map_part(fd, (0, HEADER), Access::Write)?;
        let ring = SharedNumbers::map_part(fd, (HEADER + row * RING, RING), Access::Write)?;
        Ok(Self { header, ring, row, process: u64::from(std::process::id()) })
    }

    /// Leaves a span there. False: there is no room.
    #[inline]
    pub fn put(&self, ended: &Ended<'_>) -> bool {
        put(counts(self.header.numbers(), self.row), self.ring.numbers(), ended, self.process)
    }
}

#[inline]
fn put(counts: &[Word], ring: &[Word], ended: &Ended<'_>, process: u64) -> bool {
    let written = load(&counts[WRITTEN]);
    let Some(at) = place(ring, written).first_chunk() else { return false };
    let takes = 1 + u64::from(!ended.state.is_empty());
    if written.wrapping_sub(counts[READ].load(Ordering::Acquire)) + takes > ROOM as u64 {
        add(&counts[DROPPED], 1);
        return false;
    }
    write(at, ended, process);
    if takes > 1 {
        write_state(place(ring, written + 1), ended.state);
    }
    counts[WRITTEN].store(written + takes, Ordering::Release);
    true
}

/// There is no zero in it, so that zeros can stand behind it.
#[cold]
fn write_state(words: &[Word], state: &[u8]) {
    let state = state.get(..STATE_BYTES).unwrap_or(state);
    put_bytes(words, state);
    words.iter().skip(state.len().div_ceil(8)).for_each(|word| store(word, 0));
}

fn read_state(words: &[Word]) -> String {
    let mut bytes = bytes_of(words, STATE_BYTES);
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn take(counts: &[Word], ring: &[Word], most: usize, ahead: u64) -> Vec<Span> {
    let (written, mut at) = (counts[WRITTEN].load(Ordering::Acquire), load(&counts[READ]));
    let mut found = Vec::new();
    while at < written && found.len() < most {
        let words = place(ring, at);
        at += 1;
        let Some(mut span) = read(words, ahead) else { continue };
        if load(&words[FACTS]) & HAS_STATE != 0 {
            span.state = read_state(place(ring, at));
            at += 1;
        }
        found.push(span);
    }
    counts[READ].store(at, Ordering::Release);
    found
}

/// All rings, as the exporter sees them.
pub struct Rings {
    fd: OwnedFd,
    header: SharedNumbers,
    rings: Vec<OnceLock<SharedNumbers>>,
}

impl Rings {
    /// Bytes that a descriptor must have room for.
    pub const BYTES: usize = (HEADER + ROWS * RING) * size_of::<Word>();

    /// Those behind a descriptor, which begin where it is new.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for those of another version.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let header = SharedNumbers::map_part(fd.as_raw_fd(), (0, HEADER), Access::Write)?;
        let version = &header.numbers()[VERSION_AT];
        if load(version) == 0 {
            store(version, VERSION);
        }
        if load(version) != VERSION {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "these are no spans of this version"));
        }
        Ok(Self { fd, header, rings: (0..ROWS).map(|_| OnceLock::new()).collect() })
    }

    /// Takes spans out of all rings, the oldest of each first: of each at most so many.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&self, most: usize) -> io::Result<Vec<Span>> {
        let mut found = Vec::new();
        // Of spans that have waited while the wall's clock was set the times are by its new setting.
        let ahead = wall_us().saturating_mul(1000).saturating_sub(monotonic_ns());
        for (row, ring) in self.rings.iter().enumerate() {
            let counts = counts(self.header.numbers(), row);
            if load(&counts[WRITTEN]) == load(&counts[READ]) {
                continue;
            }
            if ring.get().is_none() {
                let place = (HEADER + row * RING, RING);
                let mapped = SharedNumbers::map_part(self.fd.as_raw_fd(), place, Access::Read)?;
                let _ = ring.set(mapped);
            }
            if let Some(ring) = ring.get() {
                found.extend(take(counts, ring.numbers(), most, ahead));
            }
        }
        Ok(found)
    }

    /// Spans that found no room, in all rows together.
    pub fn dropped(&self) -> u64 {
        (0..ROWS).map(|row| load(&counts(self.header.numbers(), row)[DROPPED])).sum()
    }
}

#[cfg(test)]
mod tests;
