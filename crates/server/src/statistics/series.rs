//! Series: how long requests took, counted apart by method, status, version, scheme, route and ending.
//!
//! Knows: keys, and the table of those that there are. Does not know: how a series is shown. The loop's thread writes,
//! anybody reads.

use std::sync::atomic::Ordering;

use wire::{Head, Version};

use super::histogram::BOUNDS;
use super::layout::{self, SERIES_COUNT, SERIES_WIDTH, STRIDE, Word, add, load};
use super::phase::Ending;

/// Buckets of a series: one for each bound, and one for all that is longer.
pub const BUCKETS: usize = BOUNDS.len() + 1;
/// Behind the key: the sum of all times in nanoseconds, then the buckets.
const SUM: usize = 1;
const FIRST_BUCKET: usize = 2;

const _: () = assert!(FIRST_BUCKET + BUCKETS <= SERIES_WIDTH);

/// Methods that are told apart, as OpenTelemetry's conventions have them; the first stands for all others.
pub const METHODS: [&str; 11] =
    ["_OTHER", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"];
pub const VERSIONS: [&str; 3] = ["1.0", "1.1", "2"];

/// A key in one number that is never zero.
///
/// ```text
///   63 used │ 48..62 route │ 40..47 ending │ 24..39 status │ 8..15 version, scheme │ 0..7 method
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

const USED: u64 = 1 << 63;
const HTTPS: u64 = 1 << 15;

/// What of a key follows from a head alone.
pub fn of_head(head: &Head, https: bool) -> u64 {
    let method = METHODS.iter().position(|known| known.as_bytes() == head.method()).unwrap_or(0) as u64;
    method | of_nobody(head.version, https)
}

/// What is known of a key where there is no head.
pub fn of_nobody(version: Version, https: bool) -> u64 {
    let version = match version {
        Version::Http10 => 0,
        Version::Http11 => 1,
        Version::Http2 => 2,
    };
    USED | version << 8 | if https { HTTPS } else { 0 }
}

/// The same by places among [`METHODS`] and [`VERSIONS`].
pub(super) fn of_places(method: usize, version: usize, https: bool) -> u64 {
    USED | (version as u64) << 8 | method as u64 | if https { HTTPS } else { 0 }
}

/// What of a label follows from a head.
pub fn head_part(label: u64) -> u64 {
    label & 0xffff
}

/// The place among a worker's routes that a label has; zero: none.
#[inline]
pub fn route_part(label: u64) -> u16 {
    (label >> 48) as u16 & 0x7fff
}

/// The same by https.
pub fn by_https(known: u64) -> u64 {
    known | HTTPS
}

/// Whether what is known of a key says that it came by https.
pub fn is_https(known: u64) -> bool {
    known & HTTPS != 0
}

impl Key {
    /// `head` as [`of_head`] makes it.
    #[inline]
    pub fn new(head: u64, route: u16, status: u16, ending: Ending) -> Self {
        Self(head | USED | u64::from(route) << 48 | (ending as u64) << 40 | u64::from(status) << 24)
    }

    /// The key itself, for tables.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The key of a number that is one; none of zero.
    pub fn of_number(number: u64) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// Where to look for it in a small table: route, status and method are there.
    #[inline]
    pub fn spread(self) -> usize {
        (self.0 ^ self.0 >> 24 ^ self.0 >> 48) as usize
    }

    /// The place of its method among [`METHODS`].
    pub fn method_place(self) -> u8 {
        self.0 as u8
    }

    pub fn method(self) -> &'static str {
        METHODS.get((self.0 & 0xff) as usize).copied().unwrap_or(METHODS[0])
    }

    pub fn version(self) -> &'static str {
        VERSIONS.get((self.0 >> 8 & 0x7f) as usize).copied().unwrap_or(VERSIONS[1])
    }

    pub fn scheme(self) -> &'static str {
        if is_https(self.0) { "https" } else { "http" }
    }

    pub fn status(self) -> u16 {
        (self.0 >> 24) as u16
    }

    pub fn ending(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// The server has failed, or did not answer a client that was there.
    pub fn failed(self) -> bool {
        let nobody_waits = [Ending::Answered as u8, Ending::ClientGone as u8].contains(&self.ending());
        self.status() >= 500 || !nobody_waits
    }

    pub fn route(self) -> u16 {
        route_part(self.0)
    }

    /// The same for another table of routes.
    #[must_use]
    pub fn with_route(self, route: u16) -> Self {
        Self(self.0 & !(0x7fff << 48) | u64::from(route) << 48)
    }
}

/// One series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Series {
    pub buckets: [u64; BUCKETS],
    /// Nanoseconds.
    pub sum: u64,
}

impl Series {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, more)| *mine += more);
    }
}

fn row(words: &[Word], place: usize) -> &[Word] {
    let from = layout::SERIES + place * SERIES_WIDTH;
    words.get(from..from + SERIES_WIDTH).unwrap_or_default()
}

/// The place of a key, made where it has none. Place 0 is for those that find no room; so is what it counts.
pub fn place(words: &[Word], key: Key) -> usize {
    let hash = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    for step in 0..SERIES_COUNT - 1 {
        let place = 1 + (hash as usize + step) % (SERIES_COUNT - 1);
        let Some(known) = row(words, place).first() else { return 0 };
        match load(known) {
            0 => {
                known.store(key.0, Ordering::Release);
                return place;
            }
            found if found == key.0 => return place,
            _ => {}
        }
    }
    0
}

/// Counts a request in the series at a place.
#[inline]
pub fn observe(words: &[Word; STRIDE], place: usize, ns: u64) {
    let from = layout::SERIES + place % SERIES_COUNT * SERIES_WIDTH;
    let bucket = if ns <= BOUNDS[0] { 0 } else { bucket(ns) };
    add(&words[from + FIRST_BUCKET + bucket], 1);
    add(&words[from + SUM], ns);
}

/// The same for so many requests, of which none took longer than the first bound, and all together so many nanoseconds.
#[inline]
pub fn observe_quick(words: &[Word; STRIDE], place: usize, (ns, requests): (u64, u64)) {
    let from = layout::SERIES + place % SERIES_COUNT * SERIES_WIDTH;
    add(&words[from + FIRST_BUCKET], requests);
    add(&words[from + SUM], ns);
}

/// Which bucket of a series is for a time.
pub fn bucket(ns: u64) -> usize {
    BOUNDS.iter().position(|bound| ns <= *bound).unwrap_or(BUCKETS - 1)
}

/// All series of a block; those that found no room have no key.
pub fn read(words: &[Word]) -> impl Iterator<Item = (Option<Key>, Series)> + '_ {
    (0..SERIES_COUNT).filter_map(|place| {
        let row = row(words, place);
        let key = row.first()?.load(Ordering::Acquire);
        if key == 0 && place > 0 {
            return None;
        }
        let mut series = Series { sum: load(&row[SUM]), ..Series::default() };
        for (bucket, word) in series.buckets.iter_mut().zip(&row[FIRST_BUCKET..]) {
            *bucket = load(word);
        }
        (series.count() > 0).then_some(((key != 0).then_some(Key(key)), series))
    })
}

/// How many requests of a block have failed, without a look at what is counted of the others.
pub fn failed(words: &[Word]) -> u64 {
    let failed = (1..SERIES_COUNT).map(|place| row(words, place)).filter(|row| {
        let key = row.first().map_or(0, |key| key.load(Ordering::Acquire));
        Key::of_number(key).is_some_and(Key::failed)
    });
    failed.flat_map(|row| &row[FIRST_BUCKET..FIRST_BUCKET + BUCKETS]).map(load).sum()
}

/// Adds a dead worker's series to those of a block.
pub fn fold(words: &[Word], key: Option<Key>, series: &Series) {
    let row = row(words, key.map_or(0, |key| place(words, key)));
    add(&row[SUM], series.sum);
    for (word, count) in row[FIRST_BUCKET..].iter().zip(series.buckets) {
        add(word, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    fn key(status: u16) -> Key {
        Key::new(USED | 3 | 1 << 8 | HTTPS, 17, status, Ending::Timeout)
    }

    #[test]
    fn a_key_says_what_was_put_into_it() {
        let key = key(504);
        assert_eq!((key.method(), key.version(), key.scheme()), ("POST", "1.1", "https"));
        assert_eq!((key.status(), key.ending(), key.route()), (504, Ending::Timeout as u8, 17));
        let moved = key.with_route(3);
        assert_eq!((moved.route(), moved.status(), moved.method()), (3, 504, "POST"));
    }

    #[test]
    fn as_many_keys_as_there_are_places_and_the_rest_together() {
        let words = words();
        let places: Vec<usize> =
            (0..SERIES_COUNT as u16 + 3).map(|status| place(&words, key(status))).collect();
        assert_eq!(places.iter().filter(|place| **place == 0).count(), 4, "255 have one of their own");
        for (status, at) in places.iter().enumerate() {
            assert_eq!(place(&words, key(status as u16)), *at, "found again");
            observe(words.first_chunk().expect("a block"), *at, 6_000_000);
        }
        let all: Vec<_> = read(&words).collect();
        assert_eq!(all.len(), SERIES_COUNT);
        assert_eq!(all[0].1.count(), 4);
        assert_eq!(all.iter().map(|(_, series)| series.buckets[1]).sum::<u64>(), SERIES_COUNT as u64 + 3);
    }
}
