//! Which paths become routes of a worker, and at which places its routes are counted.
//!
//! Knows: what has been asked for. Does not know: how a route lies in memory, or what it is called (`routes.rs`). Runs where
//! requests are settled; all but counting is for requests whose heads are not known to be of a route.
//!
//! A route is born of its second answer that is neither 404 nor 405: what scanners ask for makes none.

use super::layout::{ROUTE_COUNT, STRIDE, Word};
use super::routes;

/// Candidates that are remembered: one that others have pushed out is born later.
const CANDIDATES: usize = 256;
/// Twice as many as there are routes, so that one that is looked for is soon found, or found missing.
const TABLE: usize = 2 * ROUTE_COUNT;

/// The average of a route is made of so many of its calls.
const MEMORY: u64 = 8;
/// Its calls are long if they take so many nanoseconds on average.
const LONG_NS: u64 = 100_000;

/// The routes of one worker. Place 0 is for requests that have none.
pub struct Routes {
    /// Places by their keys, each where the key says or behind it.
    known: [(u64, u16); TABLE],
    candidates: [u64; CANDIDATES],
    /// How long a call takes, on average, in nanoseconds.
    mean: [u64; ROUTE_COUNT],
    /// Of some route they have been long on average: where that is of none, nobody looks.
    any_is_long: bool,
    next: usize,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            known: [(0, 0); TABLE],
            candidates: [0; CANDIDATES],
            mean: [0; ROUTE_COUNT],
            any_is_long: false,
            next: 1,
        }
    }
}

impl Routes {
    /// The place of a route by its key, made where this is its second answer, or a framework has told it. None: it is
    /// not known yet. Zero: there is no room for another.
    pub fn place(
        &mut self,
        words: &[Word],
        key: u64,
        (told, name): (bool, impl FnOnce() -> String),
    ) -> Option<u16> {
        let mut at = key as usize % TABLE;
        while self.known[at].1 != 0 {
            if self.known[at].0 == key {
                return Some(self.known[at].1);
            }
            at = (at + 1) % TABLE;
        }
        let candidate = &mut self.candidates[(key >> 32) as usize % CANDIDATES];
        if !told && std::mem::replace(candidate, key) != key {
            return None;
        }
        if self.next >= ROUTE_COUNT {
            return Some(0);
        }
        let place = self.next;
        self.next += 1;
        routes::begin(words, place, &name(), told);
        self.known[at] = (key, place as u16);
        Some(place as u16)
    }

    /// Counts some requests of a route: all together so many nanoseconds inside the application.
    #[inline]
    pub fn count(&mut self, words: &[Word; STRIDE], place: u16, (app, requests): (u64, u64)) {
        let place = usize::from(place) % ROUTE_COUNT;
        routes::count(words, place, (app, requests));
        // Each counts for an eighth, and eight and more for all.
        let mean = &mut self.mean[place];
        *mean =
            if requests < MEMORY { *mean - *mean / MEMORY * requests + app / MEMORY } else { app / requests };
        self.any_is_long |= *mean >= LONG_NS;
    }

    /// Calls of a route are long on average.
    #[inline]
    pub fn is_long(&self, place: u16) -> bool {
        self.any_is_long && self.mean[usize::from(place) % ROUTE_COUNT] >= LONG_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    fn placed(routes: &mut Routes, words: &[Word], key: u64, told: bool) -> Option<u16> {
        routes.place(words, key, (told, || format!("GET /{key}")))
    }

    #[test]
    fn a_route_is_born_of_its_second_answer() {
        let (words, mut routes) = (words(), Routes::default());
        assert_eq!(placed(&mut routes, &words, 7, false), None);
        assert_eq!(placed(&mut routes, &words, 7, false), Some(1));
        assert_eq!(placed(&mut routes, &words, 8, true), Some(2), "a framework knows what it has");
    }

    #[test]
    fn the_last_place_is_taken_and_no_more() {
        let (words, mut routes) = (words(), Routes::default());
        for place in 1..ROUTE_COUNT as u16 {
            assert_eq!(placed(&mut routes, &words, u64::from(place), true), Some(place));
        }
        assert_eq!(placed(&mut routes, &words, 1 << 40, true), Some(0));
        assert_eq!(placed(&mut routes, &words, 1, false), Some(1), "those that are known stay");
    }
}
