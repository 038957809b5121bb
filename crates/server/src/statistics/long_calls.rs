//! Which routes compute for long, as one worker tells all others at once: in the header, so that it outlives whoever has told it.
//!
//! Knows: names, and microseconds of a processor. Does not know: how a route is found to do so (`lanes/routes/computing.rs`). Any worker
//! writes, when that is news to it; each reads when somebody has.

use std::sync::atomic::Ordering;

use super::layout::{Word, change, header, load, put_text, read_unchanged, store, text};

/// There is room for such a name, behind a sequence number, microseconds and its length.
const NAME_BYTES: usize = (header::LONG_CALLS_WIDTH - 3) * 8;

fn read_name(record: &[Word]) -> Option<Vec<u8>> {
    read_unchanged(record, |record| text(&record[1..]))
}

/// The part of the header that tells of them.
#[derive(Debug, Clone, Copy)]
pub struct LongCalls<'a>(&'a [Word]);

impl<'a> LongCalls<'a> {
    /// Those of a header.
    pub(super) fn of(header: &'a [Word]) -> Self {
        Self(header)
    }

    /// Changes whenever somebody has told of one.
    #[inline]
    pub fn told(self) -> u64 {
        self.0[header::LONG_CALLS_TOLD].load(Ordering::Acquire)
    }

    /// Calls of that route (`GET /report`) use so many microseconds of a processor on average. Where it has no place yet it takes that
    /// of what has had one for longest, once there are as many as there is room for. A name for which there is no room is of no use
    /// to anybody.
    pub fn tell(self, name: &str, used_us: u64) {
        if name.len() > NAME_BYTES {
            return;
        }
        let known =
            |place: &usize| read_name(self.record(*place)).is_some_and(|known| known == name.as_bytes());
        let place = (0..header::LONG_CALLS_COUNT).find(known).unwrap_or_else(|| {
            self.0[header::LONG_CALLS_BEGUN].fetch_add(1, Ordering::Relaxed) as usize
                % header::LONG_CALLS_COUNT
        });
        change(self.record(place), |record| {
            store(&record[0], used_us);
            put_text(&record[1..], name.as_bytes());
        });
        self.0[header::LONG_CALLS_TOLD].fetch_add(1, Ordering::Release);
    }

    /// All that were told of lately: name, and microseconds. Without those that are being told just now: of these there is news again.
    pub fn all(self) -> Vec<(String, u64)> {
        let records = (0..header::LONG_CALLS_COUNT).map(|place| self.record(place));
        let read =
            |record: &[Word]| (String::from_utf8_lossy(&text(&record[1..])).into_owned(), load(&record[0]));
        records
            .filter_map(|record| read_unchanged(record, read))
            .filter(|(name, _)| !name.is_empty())
            .collect()
    }

    fn record(self, place: usize) -> &'a [Word] {
        &self.0[header::LONG_CALLS + place * header::LONG_CALLS_WIDTH..][..header::LONG_CALLS_WIDTH]
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::HEADER;
    use super::*;

    fn header() -> Vec<Word> {
        (0..HEADER).map(|_| Word::new(0)).collect()
    }

    #[test]
    fn what_one_has_told_all_others_read_once_it_is_complete() {
        let header = header();
        let calls = LongCalls::of(&header);
        assert!(calls.all().is_empty() && calls.told() == 0);
        calls.tell("GET /report", 900_000);
        calls.tell("POST /é", 300_000);
        let both = [("GET /report".to_owned(), 900_000), ("POST /é".to_owned(), 300_000)];
        assert_eq!((calls.all(), calls.told()), (both.to_vec(), 2));
        change(calls.record(0), |_| assert_eq!(calls.all().len(), 1, "the first is being written"));
        assert_eq!(calls.all().len(), 2);
        calls.tell("GET /report", 800_000);
        assert_eq!(calls.all()[0].1, 800_000);
        assert_eq!((calls.all().len(), calls.told()), (2, 3), "it has a place already");
    }

    #[test]
    fn a_name_is_told_whole_or_not_at_all() {
        for (length, told) in [(NAME_BYTES - 1, true), (NAME_BYTES, true), (NAME_BYTES + 1, false)] {
            let header = header();
            let name = "n".repeat(length);
            LongCalls::of(&header).tell(&name, 1);
            let all = LongCalls::of(&header).all();
            assert_eq!(all, if told { vec![(name, 1)] } else { vec![] }, "{length}");
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_the_oldest_goes() {
        let header = header();
        let calls = LongCalls::of(&header);
        for (told, kept) in [
            (header::LONG_CALLS_COUNT - 1, header::LONG_CALLS_COUNT - 1),
            (header::LONG_CALLS_COUNT, header::LONG_CALLS_COUNT),
            (header::LONG_CALLS_COUNT + 1, header::LONG_CALLS_COUNT),
        ] {
            while (calls.told() as usize) < told {
                calls.tell(&format!("GET /{}", calls.told()), 1);
            }
            let names: Vec<String> = calls.all().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), kept);
            for number in told - kept..told {
                assert!(names.contains(&format!("GET /{number}")), "{number} of {told}: {names:?}");
            }
        }
    }

    #[test]
    fn many_tell_at_the_same_time() {
        let header = header();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let calls = LongCalls::of(&header);
                scope.spawn(move || (0..4).for_each(|call| calls.tell(&format!("GET /{worker}/{call}"), 1)));
            }
        });
        let calls = LongCalls::of(&header);
        assert_eq!((calls.told(), calls.all().len()), (16, 16));
    }
}
