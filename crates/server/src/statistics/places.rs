//! Which paths become routes of a worker, and at which places its routes are counted.
//!
//! Knows: what has been asked for. Does not know: how a route lies in memory, or what it is called (`routes.rs`). Runs where
//! requests are settled; all but counting is for requests whose heads are not known to be of a route.
//!
//! What a framework tells is a route. A path becomes one with its second answer, unless the application has refused it (4xx): what
//! scanners ask for makes none. Where more than [`VALUES`] of these differ in one part only, that part is a key, and those that
//! come from then on are one route.

use super::layout::{ROUTE_COUNT, STRIDE, Word};
use super::routes::{
    self, ANY, LEARNED, NAME_BYTES, UNPLACED, key_of_path, key_of_told, key_with, only_difference, template,
};

/// Candidates that are remembered: one that others have pushed out is born later.
const CANDIDATES: usize = 256;
/// Twice as many as there are routes, so that one that is looked for is soon found, or found missing.
const TABLE: usize = 2 * ROUTE_COUNT;
/// A part of a path that has more values than that is a key.
const VALUES: u8 = 20;
/// Parts of a path, its method the first, of which one can be found to be a key.
const PARTS: usize = 16;

/// The average of a route is made of so many of its calls.
const MEMORY: u64 = 8;
/// Its calls are long if they take so many nanoseconds on average.
const LONG_NS: u64 = 100_000;

const _: () = assert!(ROUTE_COUNT <= u128::BITS as usize);

/// The routes of one worker. Place 0 is for requests that have none, [`UNPLACED`] for those that would have one.
pub struct Routes {
    /// Places by their keys, each where the key says or behind it.
    known: [(u64, u16); TABLE],
    candidates: [u64; CANDIDATES],
    /// How long a call takes, on average, in nanoseconds.
    mean: [u64; ROUTE_COUNT],
    /// Of some route they have been long on average: where that is of none, nobody looks.
    any_is_long: bool,
    next: usize,
    /// Those that were made of paths.
    learned: usize,
    /// The places, as bits, of those of which one part was found to be a key.
    gathers: u128,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            known: [(0, 0); TABLE],
            candidates: [0; CANDIDATES],
            mean: [0; ROUTE_COUNT],
            any_is_long: false,
            next: 1,
            learned: 0,
            gathers: 0,
        }
    }
}

impl Routes {
    /// The place of a route that a framework has told, made where it has none. `method`: its place among those that are told
    /// apart, and its name.
    pub fn told(&mut self, words: &[Word], (method, name): (u8, &str), told: &str) -> u16 {
        let key = key_of_told(method, told);
        self.find(key).unwrap_or_else(|free| self.begin(words, (free, key), &format!("{name} {told}"), true))
    }

    /// The place of a path's route, made where this is its second answer and it was not refused. None: it is not known yet.
    pub fn of_path(
        &mut self,
        words: &[Word],
        (method, name): (u8, &str),
        (path, refused): (&[u8], bool),
    ) -> Option<u16> {
        let key = key_of_path(method, path);
        let free = match self.find(key) {
            Ok(known) => return Some(known),
            Err(free) => free,
        };
        let found = self.gathered(method, path);
        if found.is_some() || refused {
            return found;
        }
        // Each is told of that finds no place: nobody knows whether it would come again.
        if self.learned >= LEARNED || self.next >= UNPLACED {
            return Some(UNPLACED as u16);
        }
        let candidate = &mut self.candidates[(key >> 32) as usize % CANDIDATES];
        if std::mem::replace(candidate, key) != key {
            return None;
        }
        let name = template(name.as_bytes(), path);
        let Some(part) = self.key_part(words, &name) else {
            return Some(self.begin(words, (free, key), &name, false));
        };
        let key = key_with(method, path, part);
        let place = self.find(key).unwrap_or_else(|free| {
            let parts: Vec<&str> =
                name.split('/').enumerate().map(|(at, value)| if at == part { ANY } else { value }).collect();
            self.begin(words, (free, key), &parts.join("/"), false)
        });
        self.gathers |= 1 << place;
        Some(place)
    }

    /// Where a key is, or a free entry of the table for it.
    fn find(&self, key: u64) -> Result<u16, usize> {
        let mut at = key as usize % TABLE;
        while self.known[at].1 != 0 {
            if self.known[at].0 == key {
                return Ok(self.known[at].1);
            }
            at = (at + 1) % TABLE;
        }
        Err(at)
    }

    /// The place of a path one of whose parts was found to be a key.
    fn gathered(&self, method: u8, path: &[u8]) -> Option<u16> {
        if self.gathers == 0 || path.len() > NAME_BYTES {
            return None;
        }
        let parts = 1 + path.iter().filter(|byte| **byte == b'/').count();
        (1..parts.min(PARTS)).find_map(|part| {
            let place = self.find(key_with(method, path, part)).ok()?;
            (self.gathers >> place & 1 == 1).then_some(place)
        })
    }

    /// Which part of a name, that is about to become a route, has as many other values as it may.
    fn key_part(&self, words: &[Word], name: &str) -> Option<usize> {
        if name.len() > NAME_BYTES {
            return None;
        }
        let mut others = [0; PARTS];
        for known in (1..self.next).filter_map(|place| routes::read(words, place)).filter(|known| !known.told)
        {
            match only_difference(&known.name, name) {
                Some((part @ 1..PARTS, value)) if value != ANY => others[part] += 1,
                _ => {}
            }
        }
        others.iter().position(|values| *values >= VALUES)
    }

    fn begin(&mut self, words: &[Word], (free, key): (usize, u64), name: &str, told: bool) -> u16 {
        if self.next >= UNPLACED {
            return UNPLACED as u16;
        }
        let place = self.next;
        self.next += 1;
        self.learned += usize::from(!told);
        routes::begin(words, place, name, told);
        self.known[free] = (key, place as u16);
        place as u16
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

    /// How long calls of a route take on average, in nanoseconds, of which there were so many.
    pub fn mean(&self, place: usize, requests: u64) -> Option<u64> {
        // It begins at zero, and is one of its calls after some of them.
        self.mean.get(place).copied().filter(|_| requests >= 2 * MEMORY)
    }

    /// Calls of a route are long on average.
    #[inline]
    pub fn is_long(&self, place: u16) -> bool {
        self.any_is_long && self.mean[usize::from(place) % ROUTE_COUNT] >= LONG_NS
    }
}

/// The application has refused it: nothing of what was asked for need be there.
pub fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    const GET: (u8, &str) = (1, "GET");

    /// A worker's routes, and what it is asked for.
    struct Played {
        words: Vec<Word>,
        routes: Routes,
    }

    impl Played {
        fn new() -> Self {
            Self { words: words(), routes: Routes::default() }
        }

        fn told(&mut self, told: &str) -> usize {
            self.routes.told(&self.words, GET, told).into()
        }

        fn answers(&mut self, path: &str) -> Option<usize> {
            self.routes.of_path(&self.words, GET, (path.as_bytes(), false)).map(usize::from)
        }

        fn refuses(&mut self, path: &str) -> Option<usize> {
            self.routes.of_path(&self.words, GET, (path.as_bytes(), true)).map(usize::from)
        }

        /// Where a path is that was asked for twice.
        fn learns(&mut self, path: &str) -> usize {
            self.answers(path);
            self.answers(path).expect("a place")
        }

        fn name(&self, place: usize) -> String {
            routes::read(&self.words, place).map_or_else(String::new, |route| route.name)
        }

        /// What a path is counted as that was asked for twice.
        fn learned(&mut self, path: &str) -> String {
            let place = self.learns(path);
            self.name(place)
        }
    }

    /// A path that has nothing in common with those of other numbers.
    fn path(number: usize) -> String {
        let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
        let name = format!("{}{}", letter(number / 26), letter(number));
        format!("/{name}/of/{name}")
    }

    #[test]
    fn a_route_is_born_of_its_second_answer() {
        let mut played = Played::new();
        assert_eq!((played.answers("/a"), played.answers("/a")), (None, Some(1)));
        assert_eq!(played.told("/b"), 2, "a framework knows what it has");
        assert_eq!((played.name(1), played.name(2)), ("GET /a".into(), "GET /b".into()));
    }

    #[test]
    fn what_was_refused_makes_none_and_is_counted_where_there_is_one() {
        let mut played = Played::new();
        for _ in 0..3 {
            assert_eq!(played.refuses("/a"), None);
        }
        assert_eq!((played.answers("/a"), played.refuses("/a")), (None, None));
        assert_eq!((played.answers("/a"), played.refuses("/a")), (Some(1), Some(1)));
    }

    #[test]
    fn paths_take_their_places_and_none_that_is_kept_for_what_is_told() {
        let mut played = Played::new();
        for place in 1..=LEARNED {
            assert_eq!(played.learns(&path(place)), place);
        }
        assert_eq!(played.answers(&path(LEARNED + 1)), Some(UNPLACED), "told of with its first answer");
        assert_eq!(played.refuses(&path(LEARNED + 2)), None);
        for place in LEARNED + 1..UNPLACED {
            assert_eq!(played.told(&path(place)), place);
        }
        assert_eq!(UNPLACED - 1 - LEARNED, LEARNED, "as many as have been learned");
        assert_eq!((played.told("/more"), played.told("/more")), (UNPLACED, UNPLACED));
        assert_eq!((played.answers(&path(1)), played.told(&path(UNPLACED - 1))), (Some(1), UNPLACED - 1));
    }

    #[test]
    fn what_is_told_takes_every_place_but_the_last() {
        let mut played = Played::new();
        for place in 1..UNPLACED {
            assert_eq!(played.told(&format!("/{place}/x")), place);
        }
        assert_eq!((played.told("/more"), played.told("/1/x")), (UNPLACED, 1), "those that are known stay");
        assert_eq!(played.answers("/more"), Some(UNPLACED));
        assert_eq!(played.name(UNPLACED), "");
    }

    #[test]
    fn those_that_have_no_place_are_counted_together() {
        let mut played = Played::new();
        let words: &[Word; STRIDE] = played.words.first_chunk().expect("a block");
        for place in [0, 1, UNPLACED as u16, UNPLACED as u16] {
            played.routes.count(words, place, (10, 3));
        }
        assert_eq!(routes::unplaced(words), 6);
    }

    #[test]
    fn a_part_with_more_than_so_many_values_is_a_key() {
        let mut played = Played::new();
        let most = usize::from(VALUES);
        for place in 1..most {
            assert_eq!(played.learns(&format!("/blog/{}", path(place).replace('/', "-"))), place);
        }
        assert_eq!(played.learned("/blog/the-last-one"), "GET /blog/the-last-one");
        assert_eq!(played.learned("/blog/a-key"), "GET /blog/*");
        assert_eq!(played.answers("/blog/another"), Some(most + 1), "known with its first answer");
        assert_eq!(played.refuses("/blog/refused"), Some(most + 1));
        assert_eq!(played.learned("/blog/the-last-one"), "GET /blog/the-last-one", "what is known stays");
        for number in 0..1000 {
            played.learns(&format!("/blog/post-{number}-x"));
        }
        assert_eq!(played.learned("/checkout"), "GET /checkout");
        assert_eq!(played.learned("/blog/a/comments"), "GET /blog/a/comments", "it has other parts");
        assert_eq!(played.told("/told"), most + 4, "the next place");
    }

    #[test]
    fn a_key_may_be_in_the_midst_of_a_path_and_methods_are_apart() {
        let mut played = Played::new();
        for number in 0..VALUES {
            played.learns(&format!("/user/{}/edit", path(number.into()).replace('/', "-")));
        }
        assert_eq!(played.learned("/user/ann/edit"), "GET /user/*/edit");
        assert_eq!(played.learned("/user/ann/show"), "GET /user/ann/show");
        for _ in 0..2 {
            played.routes.of_path(&played.words, (3, "POST"), (b"/user/ann/edit", false));
        }
        assert_eq!(played.learned("/user/bob/edit"), "GET /user/*/edit");
        assert_eq!(played.name(usize::from(VALUES) + 3), "POST /user/ann/edit");
    }

    #[test]
    fn numbers_and_words_have_a_route_in_common_where_words_are_keys_too() {
        let mut played = Played::new();
        assert_eq!(played.learned("/users/17"), "GET /users/*");
        assert_eq!(played.learned("/users/me"), "GET /users/me", "a word of its own");
        for number in 1..VALUES {
            played.learns(&format!("/users/{}", path(number.into()).replace('/', "-")));
        }
        assert_eq!(played.learns("/users/somebody"), 1);
        assert_eq!(played.answers("/users/18"), Some(1));
    }

    #[test]
    fn hostile_paths_are_looked_at_for_a_bounded_time() {
        let mut played = Played::new();
        for number in 0..=VALUES {
            played.learns(&format!("/blog/{}", path(number.into()).replace('/', "-")));
        }
        assert_eq!(played.answers(&"/".repeat(60_000)), None);
        assert_eq!(played.answers(&"/".repeat(NAME_BYTES)), None);
        let long = format!("/blog/{}", "/x".repeat(NAME_BYTES));
        assert!(played.learned(&long).starts_with("GET /blog//x/x"));
    }
}
