//! The flight recorder: requests that have ended, of which the newest that have failed, those that were slow, and a thin
//! trace of all are kept.
//!
//! Knows: three rings of records. Does not know: which request is remarkable. The loop's thread writes, any process reads,
//! and it outlives its worker until the supervisor has looked.

use super::layout::{
    self, FAILED, Meta, PHASE_COUNT, RECORD_WIDTH, SLOW, TRACED, Word, add, change, load, put_text,
    read_unchanged, store,
};
use super::phase::Spans;
use super::stood;
use crate::request_id::LONGEST;

/// Where what is, behind the sequence number.
const NUMBER: usize = 0;
const WALL: usize = 1;
const STATUS: usize = 2;
const ENDING: usize = 3;
const THREAD: usize = 4;
const SENT: usize = 5;
const SERIES: usize = 6;
const SPANS: usize = 7;
const ID: usize = SPANS + PHASE_COUNT;
/// Its length, and as much as a proxy's word may have (`request_id.rs`).
const ID_WORDS: usize = 1 + LONGEST.div_ceil(8);
const DIED: usize = ID + ID_WORDS;
/// The halves of its trace's number, and its span there; no trace has the number zero.
const TRACE: usize = DIED + 1;
const LINE: usize = TRACE + 3;

/// The worker with which a request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died {
    pub worker: u64,
    pub pid: u64,
    /// Where it stands why ([`super::segment::Segment::exit`]).
    pub exit: usize,
}

/// Where each lies in a word, with a bit that says that there is one.
const DIED_BIT: u64 = 1;
const EXIT_AT: u32 = 1;
const PID_AT: u32 = 8;
const WORKER_AT: u32 = 40;

impl Died {
    fn word(self) -> u64 {
        DIED_BIT
            | (self.exit as u64 & 0x7f) << EXIT_AT
            | (self.pid & 0xffff_ffff) << PID_AT
            | self.worker << WORKER_AT
    }

    fn of_word(word: u64) -> Option<Self> {
        let (worker, pid, exit) = (word >> WORKER_AT, word >> PID_AT & 0xffff_ffff, word >> EXIT_AT & 0x7f);
        (word & DIED_BIT != 0).then_some(Self { worker, pid, exit: exit as usize })
    }
}

/// A request that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which request of its worker it was.
    pub number: u64,
    /// Microseconds since 1970 at its end.
    pub wall: u64,
    pub status: u16,
    pub ending: u8,
    pub thread: u64,
    /// Content bytes of its reply.
    pub sent: u64,
    /// What it was counted under (`series::Key`), by its worker's routes.
    pub series: u64,
    /// Nanoseconds, by [`super::phase::NAMES`].
    pub spans: Spans,
    pub id: String,
    /// Which trace has recorded it, and as which span.
    pub trace: Option<(u128, u64)>,
    /// `GET /path`
    pub line: String,
    pub remarkable: bool,
    /// It has ended with its worker.
    pub died: Option<Died>,
    /// Where it was found while it took long, as the log says it.
    pub stood: String,
}

impl Record {
    /// True: its client has no answer, or one that says that the server has failed.
    pub fn failed(&self) -> bool {
        self.status >= 500 || self.ending != 0
    }
}

/// The rings: how many records were ever written there, the first place, and how many have room.
const RINGS: [(Meta, usize, usize); 3] =
    [(Meta::Failed, 0, FAILED), (Meta::Slow, FAILED, SLOW), (Meta::Traced, FAILED + SLOW, TRACED)];
/// Before it are the remarkable ones.
const FIRST_TRACED: usize = FAILED + SLOW;

fn row(words: &[Word], record: usize) -> &[Word] {
    let from = layout::RECORDS + record * RECORD_WIDTH;
    words.get(from..from + RECORD_WIDTH).unwrap_or_default()
}

/// Writes a record over the oldest of its kind. `id`: empty where requests have none.
#[cold]
pub fn put(words: &[Word], record: &Record, line: &[u8]) {
    let [failed, slow, traced] = RINGS;
    let (written, first, room) = match record.remarkable {
        true if record.failed() => failed,
        true => slow,
        false => traced,
    };
    if !record.stood.is_empty() {
        stood::put(words, (record.number, record.wall), &record.stood);
    }
    let written = &words[layout::META + written as usize];
    let place = first + load(written) as usize % room;
    change(row(words, place), |row| {
        store(&row[NUMBER], record.number);
        store(&row[WALL], record.wall);
        store(&row[STATUS], u64::from(record.status));
        store(&row[ENDING], u64::from(record.ending));
        store(&row[THREAD], record.thread);
        store(&row[SENT], record.sent);
        store(&row[SERIES], record.series);
        row[SPANS..].iter().zip(record.spans).for_each(|(word, span)| store(word, span));
        put_text(&row[ID..DIED], record.id.as_bytes());
        store(&row[DIED], record.died.map_or(0, Died::word));
        let (trace, span) = record.trace.unwrap_or_default();
        let words = [(trace >> 64) as u64, trace as u64, span];
        row[TRACE..LINE].iter().zip(words).for_each(|(word, part)| store(word, part));
        put_text(&row[LINE..], line);
    });
    add(written, 1);
}

fn trace_of(words: &[Word]) -> Option<(u128, u64)> {
    let [upper, lower, span] = [0, 1, 2].map(|part| words.get(part).map_or(0, load));
    let trace = u128::from(upper) << 64 | u128::from(lower);
    (trace != 0).then_some((trace, span))
}

/// All records that are whole, the oldest first.
pub fn read(words: &[Word]) -> Vec<Record> {
    // What was never written is not looked at, so that it takes no memory.
    let mut all: Vec<Record> = RINGS
        .into_iter()
        .flat_map(|(written, first, room)| {
            first..first + (load(&words[layout::META + written as usize]) as usize).min(room)
        })
        .filter_map(|place| {
            let record = row(words, place);
            if load(record.first()?) == 0 {
                return None;
            }
            read_unchanged(record, |row| Record {
                number: load(&row[NUMBER]),
                wall: load(&row[WALL]),
                status: load(&row[STATUS]) as u16,
                ending: load(&row[ENDING]) as u8,
                thread: load(&row[THREAD]),
                sent: load(&row[SENT]),
                series: load(&row[SERIES]),
                spans: std::array::from_fn(|phase| load(&row[SPANS + phase])),
                id: String::from_utf8_lossy(&layout::text(&row[ID..DIED])).into_owned(),
                trace: trace_of(&row[TRACE..LINE]),
                line: String::from_utf8_lossy(&layout::text(&row[LINE..])).into_owned(),
                remarkable: place < FIRST_TRACED,
                died: Died::of_word(load(&row[DIED])),
                stood: String::new(),
            })
        })
        .collect();
    for (name, text) in stood::read(words) {
        if let Some(record) = all.iter_mut().find(|one| one.remarkable && (one.number, one.wall) == name) {
            record.stood = text;
        }
    }
    all.sort_by_key(|record| record.wall);
    all
}

#[cfg(test)]
mod tests {
    use super::layout::RECORD_COUNT;
    use super::*;
    use crate::statistics::played::words;

    #[test]
    fn the_newest_of_each_kind_are_kept() {
        let words = words();
        let mut record = Record {
            number: 0,
            wall: 0,
            status: 200,
            ending: 0,
            thread: 7,
            sent: 5,
            series: 6,
            spans: [1, 2, 3, 4, 5, 6, 7, 8, 9],
            id: "abc".into(),
            trace: Some((7 << 64 | 8, 9)),
            line: String::new(),
            remarkable: false,
            died: Some(Died { worker: 3, pid: 4_194_304, exit: 31 }),
            stood: String::new(),
        };
        for number in 0..FAILED as u64 + 10 {
            for (status, remarkable) in [(200, false), (503, true)] {
                record = Record { number, wall: number, status, remarkable, ..record };
                put(&words, &record, format!("GET /{number}").as_bytes());
            }
        }
        let slow = |number| Record { number, wall: number, status: 200, remarkable: true, ..record.clone() };
        (10..10 + SLOW as u64)
            .for_each(|number| put(&words, &slow(number), format!("GET /{number}").as_bytes()));
        let found = read(&words);
        assert_eq!(found.len(), RECORD_COUNT, "none makes another kind leave");
        assert_eq!(found.iter().filter(|one| one.remarkable && !one.failed()).count(), SLOW);
        assert!(found.iter().all(|one| one.number >= 10 && one.line == format!("GET /{}", one.number)));
        assert_eq!((found[0].spans, found[0].id.as_str(), found[0].series), (record.spans, "abc", 6));
        assert_eq!((found[0].died, found[0].trace), (record.died, record.trace));
        let id = "x".repeat(LONGEST);
        let bare = Record { died: None, trace: None, wall: 1 << 40, id: id.clone(), ..record };
        put(&words, &bare, &[b'y'; 200]);
        let last = read(&words).pop().expect("a record");
        assert_eq!((last.id, last.line), (id, "y".repeat(128)), "neither is written over the other");
        assert_eq!(
            read(&words).last().map(|last| (last.died, last.trace)),
            Some((None, None)),
            "what was written there before is gone"
        );
    }

    #[test]
    fn a_slow_one_has_where_it_was_found_until_either_is_overwritten() {
        let words = words();
        let put_one = |number: u64, wall, status, stood: &str| {
            let spans = [0; PHASE_COUNT];
            let (id, line, stood) = (String::new(), String::new(), stood.to_owned());
            let record = Record {
                number,
                wall,
                status,
                ending: 0,
                thread: 7,
                sent: 5,
                series: 6,
                spans,
                id,
                trace: None,
                line,
                remarkable: true,
                died: None,
                stood,
            };
            put(&words, &record, b"GET /");
        };
        let found = || read(&words).into_iter().map(|one| (one.wall, one.stood)).collect::<Vec<_>>();
        let said = |text: &str| text.to_owned();
        put_one(1, 10, 200, "at a.py:1");
        put_one(2, 11, 503, "at b.py:2");
        // The same number, of another worker that is dead; and one that nobody has looked at.
        put_one(1, 12, 200, "at c.py:3");
        put_one(3, 13, 200, "");
        let expected =
            [(10, said("at a.py:1")), (11, said("at b.py:2")), (12, said("at c.py:3")), (13, said(""))];
        assert_eq!(found(), expected);
        for number in 0..SLOW as u64 {
            put_one(100 + number, 100 + number, 200, "");
        }
        assert!(
            found().iter().all(|(wall, stood)| (*wall == 11) != stood.is_empty()),
            "what is told of another goes with it"
        );
        for number in 0..layout::STOOD_COUNT as u64 {
            put_one(200 + number, 200 + number, 200, "at d.py:4");
        }
        let of = |wanted| found().into_iter().find(|(wall, _)| *wall == wanted);
        assert_eq!(of(11), Some((11, said(""))), "its text has left");
        assert_eq!(of(200), Some((200, said("at d.py:4"))));
    }
}
