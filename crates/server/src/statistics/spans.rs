//! Rings of spans in shared memory: one for each row of the scoreboard, written by its worker and emptied by the exporter.
//!
//! Knows: how a span lies in memory. Does not know: who wants it. One writes and one reads, so that two counts are all
//! that they need. A ring outlives its worker: who comes next in its row goes on behind what was left there. Where it is
//! full, spans are dropped and counted, as nobody waits for an exporter.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use reactor::sys::{Access, SharedNumbers, monotonic_ns, wall_us};
use wire::{Framing, Head, Version};

use super::layout::{PHASE_COUNT, Word, add, load, put_text, store, text};
use super::phase::{Spans, Times};
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
const VERSION: u64 = 1;

const _: () = assert!(ROWS * LINE < HEADER && RING.is_multiple_of(8 * 1024));

/// Where what is in a span.
const TRACE: usize = 0;
const SPAN: usize = 2;
const PARENT: usize = 3;
const LINK: usize = 4;
const BEGAN: usize = 7;
const FACTS: usize = 8;
const NUMBER: usize = 9;
const PROCESS: usize = 10;
const SENT: usize = 11;
const RECEIVED: usize = 12;
const SPANS: usize = 13;
const ID: usize = SPANS + PHASE_COUNT;
const ROUTE: usize = ID + 6;
const REQUEST: usize = ROUTE + 16;

/// A request that has ended, and was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub trace: Trace,
    /// Nanoseconds since 1970 of its first byte.
    pub began: u64,
    /// Nanoseconds, by `statistics::phase::NAMES`.
    pub spans: Spans,
    /// Zero: nobody was answered.
    pub status: u16,
    pub ending: u8,
    /// 10, 11 or 20.
    pub version: u8,
    pub https: bool,
    /// Which request of its process it was.
    pub number: u64,
    pub process: u64,
    /// Content bytes of the reply, and of the request, by its Content-Length.
    pub sent: u64,
    pub received: u64,
    /// What names it; empty: nothing does.
    pub id: String,
    /// What a framework has said, with the method before it; empty: nothing.
    pub route: String,
    /// `GET /path`
    pub line: String,
}

impl Span {
    /// Of a request that has ended. `told`: which of its worker's it was, content bytes of its reply, its status.
    #[cold]
    pub fn of(head: &Head, times: &Times, trace: &Trace, told: (u64, u64, u16), sent: u64) -> Self {
        let first = if times.first == 0 { sent } else { times.first };
        let (number, written, status) = told;
        Self {
            trace: *trace,
            began: wall_us().saturating_mul(1000).saturating_sub(monotonic_ns().saturating_sub(first)),
            spans: times.spans(sent),
            status,
            ending: times.ending as u8,
            version: match head.version {
                Version::Http10 => 10,
                Version::Http11 => 11,
                Version::Http2 => 20,
            },
            https: false,
            number,
            process: u64::from(std::process::id()),
            sent: written,
            received: if let Framing::Length(length) = head.framing { length } else { 0 },
            id: times.rare().id.as_deref().unwrap_or_default().into(),
            route: String::new(),
            line: String::new(),
        }
    }
}

fn counts(header: &[Word], row: usize) -> &[Word] {
    header.get(row * LINE..(row + 1) * LINE).unwrap_or_default()
}

fn place(ring: &[Word], count: u64) -> &[Word] {
    let from = count as usize % ROOM * WIDTH;
    ring.get(from..from + WIDTH).unwrap_or_default()
}

fn write(words: &[Word], span: &Span, line: &[u8]) {
    let Some(words) = words.first_chunk::<WIDTH>() else { return };
    let (trace, link) = (span.trace, span.trace.link.unwrap_or_default());
    let halves = |number: u128| [(number >> 64) as u64, number as u64];
    let facts = u64::from(span.status)
        | u64::from(span.ending) << 16
        | u64::from(span.version) << 24
        | u64::from(span.https) << 32;
    let [high, low] = halves(trace.id);
    let [link_high, link_low] = halves(link.0);
    let numbers = [
        high,
        low,
        trace.span,
        trace.parent,
        link_high,
        link_low,
        link.1,
        span.began,
        facts,
        span.number,
        span.process,
        span.sent,
        span.received,
    ];
    words[TRACE..].iter().zip(numbers).for_each(|(word, number)| store(word, number));
    words[SPANS..].iter().zip(span.spans).for_each(|(word, ns)| store(word, ns));
    put_text(&words[ID..ROUTE], span.id.as_bytes());
    put_text(&words[ROUTE..REQUEST], span.route.as_bytes());
    put_text(&words[REQUEST..], line);
}

fn read(words: &[Word]) -> Option<Span> {
    let words = words.first_chunk::<WIDTH>()?;
    let at = |place: usize| load(&words[place]);
    let number = |place| u128::from(at(place)) << 64 | u128::from(at(place + 1));
    let told = |from, to| String::from_utf8_lossy(&text(&words[from..to])).into_owned();
    let facts = at(FACTS);
    let link = (number(LINK), at(LINK + 2));
    Some(Span {
        trace: Trace {
            id: number(TRACE),
            span: at(SPAN),
            parent: at(PARENT),
            sampled: true,
            link: (link.0 != 0).then_some(link),
        },
        began: at(BEGAN),
        spans: std::array::from_fn(|phase| at(SPANS + phase)),
        status: facts as u16,
        ending: (facts >> 16) as u8,
        version: (facts >> 24) as u8,
        https: facts >> 32 & 1 == 1,
        number: at(NUMBER),
        process: at(PROCESS),
        sent: at(SENT),
        received: at(RECEIVED),
        id: told(ID, ROUTE),
        route: told(ROUTE, REQUEST),
        line: told(REQUEST, WIDTH),
    })
}

/// A worker's end of its ring.
pub struct Writer {
    header: SharedNumbers,
    ring: SharedNumbers,
    row: usize,
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
        Ok(Self { header, ring, row })
    }

    /// Leaves a span there. False: there is no room.
    pub fn put(&self, span: &Span, line: &[u8]) -> bool {
        put(counts(self.header.numbers(), self.row), self.ring.numbers(), span, line)
    }
}

fn put(counts: &[Word], ring: &[Word], span: &Span, line: &[u8]) -> bool {
    let written = load(&counts[WRITTEN]);
    if written.wrapping_sub(counts[READ].load(Ordering::Acquire)) >= ROOM as u64 {
        add(&counts[DROPPED], 1);
        return false;
    }
    write(place(ring, written), span, line);
    counts[WRITTEN].store(written + 1, Ordering::Release);
    true
}

fn take(counts: &[Word], ring: &[Word], most: usize) -> Vec<Span> {
    let (written, from) = (counts[WRITTEN].load(Ordering::Acquire), load(&counts[READ]));
    let until = written.min(from.saturating_add(most as u64));
    let found = (from..until).filter_map(|count| read(place(ring, count))).collect();
    counts[READ].store(until.max(from), Ordering::Release);
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
                found.extend(take(counts, ring.numbers(), most));
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
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<Word> {
        (0..count).map(|_| Word::new(0)).collect()
    }

    fn span(number: u64) -> Span {
        Span {
            trace: Trace {
                id: 7 << 64 | 8,
                span: 9,
                parent: 10,
                sampled: true,
                link: Some((11 << 64 | 12, 13)),
            },
            began: 14,
            spans: [1, 2, 3, 4, 5, 6, 7, 8, u64::MAX],
            status: 503,
            ending: 3,
            version: 20,
            https: true,
            number,
            process: 15,
            sent: 16,
            received: 17,
            id: "0f8fad5b-d9cb-469f-a165-70867728950e".into(),
            route: "GET /orders/{number}".into(),
            line: "GET /orders/17".into(),
        }
    }

    #[test]
    fn a_span_comes_out_as_it_went_in() {
        let (counts, ring) = (words(LINE), words(RING));
        assert!(put(&counts, &ring, &span(1), b"GET /orders/17"));
        assert_eq!(take(&counts, &ring, 9), [span(1)]);
        assert_eq!(take(&counts, &ring, 9), []);
        let bare = Span { trace: Trace { link: None, ..span(2).trace }, ..span(2) };
        assert!(put(&counts, &ring, &bare, b"GET /orders/17"));
        assert_eq!(take(&counts, &ring, 9), [bare]);
    }

    #[test]
    fn a_ring_that_is_full_drops_and_counts_and_goes_on_where_there_is_room() {
        let (counts, ring) = (words(LINE), words(RING));
        for number in 0..ROOM as u64 {
            assert!(put(&counts, &ring, &span(number), b""));
        }
        assert!(!put(&counts, &ring, &span(5000), b"") && !put(&counts, &ring, &span(5001), b""));
        assert_eq!(load(&counts[DROPPED]), 2);
        let first = take(&counts, &ring, 3);
        assert_eq!(first.iter().map(|span| span.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(put(&counts, &ring, &span(6000), b""));
        let rest = take(&counts, &ring, ROOM);
        assert_eq!((rest.len(), rest.last().map(|span| span.number)), (ROOM - 2, Some(6000)));
    }
}
