//! Where what is in shared memory: a header of the server's, then a block of numbers for each worker.
//!
//! Knows: places. Does not know: what the numbers mean. All places are counted in words of eight bytes, so that every
//! one of them is an atomic number; text is put into words, too.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::rows::ROWS;

/// A word of shared memory.
pub type Word = AtomicU64;

/// `FHSTATS1`, in the order of bytes of this machine.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"FHSTATS1");
/// Grows with each change of what follows: who maps numbers that lie otherwise would read nonsense.
pub const VERSION: u64 = 11;

/// Words before the first block; pages begin behind them, also where they have 64 KiB.
pub const HEADER: usize = 8 * 1024;
/// Words of a block, of which what is never touched takes no memory.
pub const STRIDE: usize = 40 * 1024;
/// A block, whose places are known when it is compiled.
pub type Block = [Word; STRIDE];
/// Blocks: what dead workers have left, then one for each row of the scoreboard.
pub const BLOCKS: usize = ROWS + 1;
/// Where the numbers of those that are dead are added up.
pub const RETIRED: usize = 0;

/// What is in the header.
pub mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    /// Odd while a dead worker's numbers are on their way to those of all dead.
    pub const SEQUENCE: usize = 2;
    /// Blocks that have ever been used.
    pub const USED: usize = 3;
    /// Grows when something happens, now and then (`bell.rs`).
    pub const BELL: usize = 4;
    /// What the supervisor says of the server (`server.rs`).
    pub const SERVER: usize = 16;
    pub const SERVER_COUNT: usize = 32;
    /// Why workers have ended: a text of [`EXIT_TEXT`] words and how often.
    pub const EXITS: usize = 64;
    pub const EXIT_COUNT: usize = 32;
    pub const EXIT_TEXT: usize = 7;
    /// Routes that compute for long (`long_calls.rs`): how many were ever begun to be told of, and how many were; then for the newest
    /// of them a sequence number, microseconds and a text.
    pub const LONG_CALLS_BEGUN: usize = 5;
    pub const LONG_CALLS_TOLD: usize = 6;
    pub const LONG_CALLS: usize = EXITS + EXIT_COUNT * (EXIT_TEXT + 1);
    pub const LONG_CALLS_COUNT: usize = 16;
    pub const LONG_CALLS_WIDTH: usize = 18;
}

/// What is in a block, one behind the other.
pub const META: usize = 0;
pub const META_COUNT: usize = 96;
/// Of each phase the sum of all its times in nanoseconds, and its first bucket: behind [`Meta`], since whoever counts a
/// request touches all of them, and each line of a cache that is touched costs more than the counting.
pub const SUMS: usize = META + 16;
pub const SHORT: usize = SUMS + PHASE_COUNT;
/// The condition that the worker is in (`condition.rs`), on lines of a cache of its own: how often its interpreter has
/// collected, by generation, how long that took, and the sum.
pub const GENERATIONS: usize = META + 40;
pub const PAUSES: usize = GENERATIONS + 3;
pub const PAUSE_BUCKETS: usize = 10;
pub const PAUSED: usize = PAUSES + PAUSE_BUCKETS;
/// Since when the oldest request waits, and how many do in each lane.
pub const OLDEST: usize = PAUSED + 1;
pub const LANES: usize = OLDEST + 1;
pub const LANE_COUNT: usize = 4;
/// Somebody watches its event loop; and for how long that was held up, in each of the last windows.
pub const HELD_WATCHED: usize = LANES + LANE_COUNT;
pub const HELD: usize = HELD_WATCHED + 1;
pub const HELD_COUNT: usize = 7;
pub const COUNTERS: usize = META + META_COUNT;
pub const COUNTERS_COUNT: usize = 256;
pub const PHASES: usize = COUNTERS + COUNTERS_COUNT;
pub const HISTOGRAM: usize = 512;
pub const PHASE_COUNT: usize = 9;
pub const SERIES: usize = PHASES + PHASE_COUNT * HISTOGRAM;
pub const SERIES_WIDTH: usize = 18;
pub const SERIES_COUNT: usize = 256;
pub const ROUTES: usize = SERIES + SERIES_COUNT * SERIES_WIDTH;
pub const ROUTE_WIDTH: usize = 26;
pub const ROUTE_COUNT: usize = 128;
pub const SLOTS: usize = ROUTES + ROUTE_COUNT * ROUTE_WIDTH;
pub const SLOT_WIDTH: usize = 32;
pub const SLOT_COUNT: usize = 256;
pub const RECORDS: usize = SLOTS + SLOT_COUNT * SLOT_WIDTH;
pub const RECORD_WIDTH: usize = 55;
/// The newest of those that have failed, behind them those that were slow, and the thin trace of all: many of one kind
/// leave the others where they are.
pub const FAILED: usize = 128;
pub const SLOW: usize = 64;
pub const TRACED: usize = 128;
pub const RECORD_COUNT: usize = FAILED + SLOW + TRACED;
/// Where the newest slow ones were found while they ran (`stood.rs`).
pub const STOOD: usize = RECORDS + RECORD_COUNT * RECORD_WIDTH;
pub const STOOD_WIDTH: usize = 64;
pub const STOOD_COUNT: usize = 32;

const _: () = assert!(STOOD + STOOD_COUNT * STOOD_WIDTH <= STRIDE);
const _: () = assert!(header::LONG_CALLS + header::LONG_CALLS_COUNT * header::LONG_CALLS_WIDTH <= HEADER);

/// The first word of a block.
pub const fn block_at(block: usize) -> usize {
    HEADER + block * STRIDE
}

/// Words of the whole segment.
pub const WHOLE: usize = block_at(BLOCKS);

const _: () = assert!(Meta::Sent as usize == SUMS - 1 && SHORT + PHASE_COUNT + 5 <= GENERATIONS);
const _: () = assert!(HELD + HELD_COUNT <= META + META_COUNT);

/// What a worker says of itself, in the first words of its block.
#[derive(Debug, Clone, Copy)]
pub enum Meta {
    /// Zero: nobody lives here.
    Pid,
    /// Requests that are inside without a slot, as all are taken.
    Unnamed,
    /// Requests whose series found no place.
    Overflow,
    /// Requests whose X-Request-Start lay in the future, or too far back.
    ClockSkew,
    /// Records ever written, of each kind.
    Failed,
    Slow,
    Traced,
    /// Requests that were inside when their worker died.
    DiedInside,
    /// Content bytes of requests, by their Content-Length.
    Received,
    /// Spans that were left for the exporter, and those for which there was no room.
    Spans,
    SpansDropped,
    /// Requests that have ended and whose replies wait for others of their pipelines (`alike.rs`), and what the newest of them
    /// are counted under.
    Waiting,
    WaitingLabel,
    /// Requests of workers that are dead, for whose routes there was no place; those of others are counted with routes.
    Unplaced,
    /// Requests that have ended, however that was.
    Ended = SUMS as isize - 2,
    /// Content bytes of replies.
    Sent,
    /// What the worker's own names of requests are made of (`unique.rs`), both zero where requests have none: who reads
    /// makes the name of a request out of its number, and nothing is written for it.
    NamesUpper = (SHORT + PHASE_COUNT) as isize,
    NamesSeed,
    /// How many slots have ever been taken, the first ones: nobody looks at the others, which take no memory until then.
    SlotsUsed,
    /// Under an event loop one more than the slot of the request of which a step runs, or one; zero: threads serve.
    Stepping,
    /// How many texts of where slow requests were found have ever been written.
    Stood,
}

/// Adds where only one thread ever writes: without a locked instruction.
#[inline]
pub fn add(word: &Word, count: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

#[inline]
pub fn load(word: &Word) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
pub fn store(word: &Word, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Writes a text into words: its length, then as much of it as there is room for.
#[inline]
pub fn put_text(words: &[Word], text: &[u8]) {
    let Some((length, rest)) = words.split_first() else { return };
    let text = &text[..text.len().min(rest.len() * 8)];
    store(length, text.len() as u64);
    put_bytes(rest, text);
}

/// The same for the beginning of a text that goes on behind it, so that the last word can be read whole: nothing of what
/// follows is written.
#[inline]
pub fn put_beginning(words: &[Word], text: &[u8], length: usize) {
    let Some((told, rest)) = words.split_first() else { return };
    let length = length.min(rest.len() * 8).min(text.len());
    let (whole, _) = text.as_chunks::<8>();
    let Some((last, before)) = whole.get(..length.div_ceil(8)).and_then(<[[u8; 8]]>::split_last) else {
        return put_text(words, &text[..length]);
    };
    store(told, length as u64);
    for (word, bytes) in rest.iter().zip(before) {
        store(word, u64::from_ne_bytes(*bytes));
    }
    // The first byte is the lowest one of a little-endian number.
    let kept = u64::from_le_bytes(*last) & u64::MAX >> (64 - 8 * (length - 8 * before.len()));
    if let Some(word) = rest.get(before.len()) {
        store(word, u64::from_ne_bytes(kept.to_le_bytes()));
    }
}

/// Writes as much of a text into words as there is room for, without its length.
#[inline]
pub fn put_bytes(words: &[Word], text: &[u8]) {
    let (whole, tail) = text.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        store(word, u64::from_ne_bytes(*bytes));
    }
    if !tail.is_empty()
        && let Some(word) = words.get(whole.len())
    {
        store(word, u64::from_ne_bytes(padded(tail)));
    }
}

/// Up to seven bytes, and zeros behind them. By their powers of two, as a copy of any length would be a call.
#[inline]
fn padded(bytes: &[u8]) -> [u8; 8] {
    let (mut all, mut at) = ([0; 8], 0);
    if let Some(four) = bytes.first_chunk::<4>() {
        all[..4].copy_from_slice(four);
        at = 4;
    }
    if let Some(two) = bytes.get(at..).and_then(<[u8]>::first_chunk::<2>) {
        all[at..at + 2].copy_from_slice(two);
        at += 2;
    }
    if let Some(one) = bytes.get(at) {
        all[at] = *one;
    }
    all
}

/// The text that [`put_text`] has written.
pub fn text(words: &[Word]) -> Vec<u8> {
    let Some((length, rest)) = words.split_first() else { return Vec::new() };
    bytes_of(rest, usize::try_from(load(length)).unwrap_or(0))
}

/// As many bytes as that, of which [`put_bytes`] has written the words.
pub fn bytes_of(words: &[Word], length: usize) -> Vec<u8> {
    let length = length.min(words.len() * 8);
    let mut bytes: Vec<u8> =
        words.iter().take(length.div_ceil(8)).flat_map(|word| load(word).to_ne_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Changes a record that others may be reading: its first word is odd meanwhile.
#[inline]
pub fn change(record: &[Word], work: impl FnOnce(&[Word])) {
    let Some((sequence, rest)) = record.split_first() else { return };
    let before = load(sequence) | 1;
    store(sequence, before);
    fence(Ordering::Release);
    work(rest);
    sequence.store(before.wrapping_add(1), Ordering::Release);
}

/// Reads a record that may be changed meanwhile; none where it was.
pub fn read_unchanged<R>(record: &[Word], work: impl FnOnce(&[Word]) -> R) -> Option<R> {
    let (sequence, rest) = record.split_first()?;
    let before = sequence.load(Ordering::Acquire);
    if before & 1 == 1 {
        return None;
    }
    let found = work(rest);
    fence(Ordering::Acquire);
    (sequence.load(Ordering::Relaxed) == before).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<Word> {
        (0..count).map(|_| Word::new(0)).collect()
    }

    #[test]
    fn a_text_comes_back_as_long_as_there_is_room_for() {
        let place = words(3);
        for given in [&b""[..], b"a", b"12345678", b"123456789", b"1234567890123456", b"1234567890123456cut"]
        {
            put_text(&place, given);
            assert_eq!(text(&place), &given[..given.len().min(16)]);
        }
    }

    #[test]
    fn of_the_beginning_of_a_text_nothing_behind_it_is_written() {
        for text in [
            &b"GET /a?secret HTTP/1.1\r\n"[..],
            b"",
            b"a",
            b"1234567890123456 and more than there is room for",
        ] {
            for length in 0..=text.len() {
                let place = words(4);
                put_beginning(&place, text, length);
                let expected = words(4);
                put_text(&expected, &text[..length]);
                assert_eq!(layout_of(&place), layout_of(&expected), "{length} bytes of {text:?}");
            }
        }
    }

    fn layout_of(words: &[Word]) -> Vec<u64> {
        words.iter().map(load).collect()
    }

    #[test]
    fn a_record_that_is_being_changed_is_not_read() {
        let place = words(3);
        change(&place, |rest| {
            store(&rest[0], 7);
            assert_eq!(read_unchanged(&place, |_| ()), None);
        });
        assert_eq!(read_unchanged(&place, |rest| load(&rest[0])), Some(7));
        let changed = read_unchanged(&place, |_| change(&place, |rest| store(&rest[0], 8)));
        assert_eq!(changed, None, "it was changed while it was read");
    }
}
