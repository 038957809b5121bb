//! What is known of each route: how long its calls have a thread.
//!
//! Knows: figures by route, in bounded memory. Does not know: what follows from them. Runs under the baton.
//!
//! An average over the last calls and not a quantile: what a route costs the others is how long it has threads, and
//! one call of a minute among a thousand has one for a minute. It is of the last second or so of a busy route, and of
//! the last 32 calls of one that is seldom asked, so that a route that has become quick is soon known as such.
//!
//! Routes are told apart by what their paths have in common (`pattern.rs`). Whoever invents paths makes no memory grow:
//! of one shape so many are told apart by all of their names, then so many by their last, as people's names stand in the
//! middle, then they are one route; so many shapes, then only their depth is looked at. What nobody asks for makes room.
//! Of paths that the application has only refused so far (4xx) the last ones are known, which take no room from others.

mod computing;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use self::computing::Used;
pub use self::computing::{COMPUTES_US, Computes};
use super::pattern::{self, Keep};
use super::rule::{Figure, Micros};

/// So many routes are told apart by their names, ...
pub const MOST: usize = 512;
/// ... so many of one shape by all of them, and as many by the last of them, ...
const A_SHAPE: u16 = 128;
/// ... and so many shapes.
const SHAPES: usize = 128;
/// Of what was only refused so far so many are known.
const REFUSED: usize = 64;
/// More calls than these make room for newer ones.
const CALLS: u32 = 32;
/// What stays of them in each window, in eighths.
const KEPT: u32 = 7;
/// What somebody else knows counts as so many: the first call that is measured, on a machine that has just become busy, tells less.
const LEARNT: u32 = 8;
/// How much the last window counts for how many threads are busy.
const NEWEST: f64 = 0.25;
/// A route that was not asked for so long makes room for others, where they are many.
const FORGOTTEN_US: Micros = 60_000_000;
/// The same where those of its shape have no more room.
const CROWDED_OUT_US: Micros = 10_000_000;

/// What a call says of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it was not begun.
    Unbegun,
    /// The application has refused it (4xx), as it does with paths that somebody invents.
    Refused,
    Answered,
}

/// The shape of a route that is told apart from others by names.
#[derive(Debug, Clone, Copy)]
struct Apart {
    shape: u64,
    /// By the last of them, and not by all.
    by_last: bool,
}

/// How many of a shape are told apart.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    by_names: u16,
    by_last: u16,
}

impl Told {
    fn of(&mut self, apart: Apart) -> &mut u16 {
        if apart.by_last { &mut self.by_last } else { &mut self.by_names }
    }
}

/// What is known of one route.
#[derive(Debug)]
pub struct Route {
    key: u64,
    /// What it counts under, where it is told apart from others by its names.
    apart: Option<Apart>,
    /// All of its calls were refused so far: it counts under nothing.
    refused: bool,
    name: Box<str>,
    calls: u32,
    total_us: Micros,
    /// What some of them have used of a processor.
    used: Used,
    /// Calls that are inside; of them, those that take long, and how long they have taken.
    inside: u32,
    long: u32,
    long_us: Micros,
    /// These have many threads.
    crowds: bool,
    /// Since the last window was closed.
    window_us: Micros,
    busy: f64,
    used_us: Micros,
}

impl Route {
    /// How long a call has a thread, on average, those counted that are inside and take long; none: nobody knows.
    /// While many of them take long at the same time the quick ones before them do not count. It is no less than what those took that
    /// have ended: half of the time of those that are inside is still to come.
    pub fn mean_us(&self) -> Option<Micros> {
        let with_those_inside = match self.crowds {
            true => self.long_us.checked_div(u64::from(self.long)),
            false => (self.total_us + self.long_us).checked_div(u64::from(self.calls + self.long)),
        };
        with_those_inside.max(self.ended_us())
    }

    /// How long those took that have ended, on average.
    fn ended_us(&self) -> Option<Micros> {
        self.total_us.checked_div(u64::from(self.calls))
    }

    /// The same for people. True: it is how old those are that are inside, and how long they take is seen when they end.
    pub fn told_us(&self) -> (Option<Micros>, bool) {
        (self.mean_us(), self.mean_us() > self.ended_us())
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn figure(&self) -> Option<Figure> {
        Some(Figure { mean_us: self.mean_us()?, calls: self.calls + self.long, busy: self.busy })
    }
}

/// Passes on what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type ByKey<T> = HashMap<u64, T, BuildHasherDefault<Hashed>>;

/// All routes of one loop.
#[derive(Default)]
pub struct Routes {
    places: ByKey<u16>,
    routes: Vec<Option<Route>>,
    free: Vec<u16>,
    /// How many are told apart by their names, of each shape and in all.
    shapes: ByKey<Told>,
    named: usize,
    /// Places and keys of what was only refused, the oldest first; some have been answered since.
    refused: VecDeque<(u16, u64)>,
    /// Places of those with calls that take long.
    long: Vec<u16>,
    news: Option<(Box<str>, Micros)>,
    /// Keyed, so that nobody can choose which routes are taken for one another.
    hasher: RandomState,
    text: Vec<u8>,
}

impl Routes {
    fn hash(&mut self, method: &[u8], path: &[u8], keep: Keep) -> u64 {
        pattern::write(method, path, keep, &mut self.text);
        self.hasher.hash_one(&self.text[..]) | 1
    }

    /// A keyed hash of anything.
    pub fn hash_of(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    /// What a route is known by that is told apart by its names; never zero. It is always the same for the same request.
    pub fn names(&mut self, method: &[u8], path: &[u8]) -> u64 {
        self.hash(method, path, Keep::Names)
    }

    /// The key of a request's route, and its place if it is known.
    #[inline]
    pub fn find(&mut self, names: u64, (method, path): (&[u8], &[u8])) -> (u64, Option<u16>) {
        if let Some(place) = self.places.get(&names) {
            return (names, Some(*place));
        }
        let key = self.new_key(method, path, names).0;
        (key, self.places.get(&key).copied())
    }

    /// The key of what is not known by its names, and the shape that it counts under if it will be. Its name is left
    /// in `text`.
    fn new_key(&mut self, method: &[u8], path: &[u8], names: u64) -> (u64, Option<Apart>) {
        let shape = self.hash(method, path, Keep::First);
        let told = self.shapes.get(&shape).copied();
        let Told { by_names, by_last } = told.unwrap_or_default();
        let is_full = self.named >= MOST;
        let has_names = !is_full && by_names < A_SHAPE && (told.is_some() || self.shapes.len() < SHAPES);
        // Once there were too many, what is known by the last name is known of new ones.
        if told.is_some() && (by_last > 0 || !has_names) {
            let ends = self.hash(method, path, Keep::Ends);
            let has_last = !has_names && !is_full && by_last < A_SHAPE;
            if ends != names && (has_last || self.places.contains_key(&ends)) {
                return (ends, Some(Apart { shape, by_last: true }));
            }
        }
        if has_names {
            pattern::write(method, path, Keep::Names, &mut self.text);
            return (names, Some(Apart { shape, by_last: false }));
        }
        let keep = if told.is_some() { Keep::First } else { Keep::Depth };
        (self.hash(method, path, keep), None)
    }

    /// A route by its place.
    #[inline]
    pub fn known(&self, place: u16) -> Option<&Route> {
        self.routes.get(usize::from(place))?.as_ref()
    }

    /// A call of a route begins, which is known from now on: its place. `found`: what [`Routes::find`] gave.
    #[inline]
    pub fn enter(&mut self, found: (u64, Option<u16>), route: (&[u8], &[u8]), now_us: Micros) -> u16 {
        let (key, place) = found;
        // It may have been forgotten meanwhile, and another one have its place.
        let place = match place.filter(|&place| self.known(place).is_some_and(|route| route.key == key)) {
            Some(place) => place,
            None => self.add(route.0, route.1, now_us),
        };
        if let Some(route) = self.at(place) {
            route.inside += 1;
            route.used_us = now_us;
        }
        place
    }

    fn add(&mut self, method: &[u8], path: &[u8], now_us: Micros) -> u16 {
        let names = self.hash(method, path, Keep::Names);
        let (key, apart) = self.new_key(method, path, names);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let route = Route {
            key,
            apart,
            refused: false,
            name: String::from_utf8_lossy(&self.text).into(),
            calls: 0,
            total_us: 0,
            used: Used::default(),
            inside: 0,
            long: 0,
            long_us: 0,
            crowds: false,
            window_us: 0,
            busy: 0.0,
            used_us: now_us,
        };
        if let Some(apart) = apart {
            self.take_room(apart);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.routes.push(None);
            // Their number has a bound far below: MOST, REFUSED, one for each shape, one for each method and depth.
            (self.routes.len() - 1) as u16
        });
        self.routes[usize::from(place)] = Some(route);
        self.places.insert(key, place);
        place
    }

    /// What somebody else knows of a route, by its method and its path, in which keys may have any form. False: it was known.
    pub fn learn(&mut self, name: &str, mean_us: Micros, now_us: Micros) -> bool {
        let (place, is_new) = self.place_of_named(name, now_us);
        if is_new && let Some(route) = self.at(place) {
            (route.calls, route.total_us) = (LEARNT, mean_us * u64::from(LEARNT));
        }
        is_new
    }

    /// What other workers have found that its calls use of a processor, where nobody has measured any here. How long they take is
    /// not told: that may have been with another version of the application, and is soon known.
    pub fn learn_used(&mut self, name: &str, used_us: Micros, now_us: Micros) {
        let (place, _) = self.place_of_named(name, now_us);
        if let Some(route) = self.at(place).filter(|route| route.used.is_unknown()) {
            route.used = Used::told(used_us);
        }
    }

    /// The place of a route that somebody else knows by that name. True: it was not known here.
    fn place_of_named(&mut self, name: &str, now_us: Micros) -> (u16, bool) {
        let (method, path) = name.split_once(' ').unwrap_or(("GET", name));
        let is_key = |part: &&str| part.contains(['*', '{', '<', ':']);
        let parts: Vec<&str> = path.split('/').map(|part| if is_key(&part) { "0" } else { part }).collect();
        let path = parts.join("/");
        let route = (method.as_bytes(), path.as_bytes());
        let names = self.names(route.0, route.1);
        match self.find(names, route).1 {
            Some(place) => (place, false),
            None => (self.add(route.0, route.1, now_us), true),
        }
    }

    fn at(&mut self, place: u16) -> Option<&mut Route> {
        self.routes.get_mut(usize::from(place))?.as_mut()
    }

    /// A call has ended, after so long: how long they take on average now.
    pub fn leave(&mut self, place: u16, took_us: Micros, outcome: Outcome) -> Option<Micros> {
        let route = self.at(place)?;
        route.inside = route.inside.saturating_sub(1);
        // Of a route that has answered, what is refused is no reason to take it for quick: somebody may invent keys.
        let is_known = route.calls > 0 && !route.refused;
        let counts = match outcome {
            Outcome::Unbegun => false,
            Outcome::Refused => !is_known || Some(took_us) > route.mean_us(),
            Outcome::Answered => true,
        };
        if counts {
            route.calls += 1;
            route.total_us += took_us;
            route.window_us += took_us;
        }
        let (mean, is_new) = (route.mean_us(), !is_known && route.calls == 1);
        if route.calls == 0 && route.inside == 0 {
            self.remove(place);
        } else if outcome == Outcome::Refused && is_new {
            self.refuse(place);
        } else if outcome == Outcome::Answered && !is_known {
            self.accept(place);
        }
        mean
    }

    /// A call has used so much of a processor; others were found to wait for the interpreter meanwhile.
    #[inline(never)]
    pub fn used_cpu(&mut self, place: u16, used_us: Micros, held_up: bool) {
        let Some(route) = self.routes.get_mut(usize::from(place)).and_then(Option::as_mut) else { return };
        let before = route.used.computes();
        route.used.add(used_us, held_up);
        if let Computes::Long(us) = route.used.computes()
            && !matches!(before, Computes::Long(_))
        {
            self.news = Some((route.name.clone(), us.into()));
        }
    }

    /// A route whose calls have shown that they compute for long, where nobody knew, and how much they use on average: told once.
    pub fn take_news(&mut self) -> Option<(Box<str>, Micros)> {
        self.news.take()
    }

    /// A route has been refused with its first call.
    fn refuse(&mut self, place: u16) {
        let Some(route) = self.at(place) else { return };
        route.refused = true;
        let (key, apart) = (route.key, route.apart);
        if let Some(apart) = apart {
            self.give_room(apart);
        }
        self.refused.push_back((place, key));
        for _ in REFUSED..self.refused.len() {
            let Some((oldest, key)) = self.refused.pop_front() else { return };
            match self.known(oldest) {
                // As many as there are threads; with the next one there is another look.
                Some(route) if route.key == key && route.refused && route.inside > 0 => {
                    self.refused.push_back((oldest, key));
                }
                Some(route) if route.key == key && route.refused => self.remove(oldest),
                _ => {}
            }
        }
    }

    /// One that was only refused so far has been answered: it is a route as others are, if there is room.
    fn accept(&mut self, place: u16) {
        let room = self.named < MOST;
        let Some(route) = self.at(place) else { return };
        if !route.refused {
            return;
        }
        let apart = route.apart;
        if let Some(apart) = apart {
            let told = self.shapes.get(&apart.shape).copied();
            if !room || told.map_or(self.shapes.len() >= SHAPES, |mut told| *told.of(apart) >= A_SHAPE) {
                return;
            }
            self.take_room(apart);
        }
        if let Some(route) = self.at(place) {
            route.refused = false;
        }
    }

    fn take_room(&mut self, apart: Apart) {
        *self.shapes.entry(apart.shape).or_default().of(apart) += 1;
        self.named += 1;
    }

    fn give_room(&mut self, apart: Apart) {
        let Some(told) = self.shapes.get_mut(&apart.shape) else { return };
        *told.of(apart) -= 1;
        self.named -= 1;
        if told.by_names == 0 && told.by_last == 0 {
            self.shapes.remove(&apart.shape);
        }
    }

    /// What was found of calls that take long is found anew.
    pub fn forget_long(&mut self) {
        while let Some(place) = self.long.pop() {
            if let Some(route) = self.at(place) {
                (route.long, route.long_us, route.crowds) = (0, 0, false);
            }
        }
    }

    /// A call that is inside takes long: how long they take on average, if it ended now.
    /// `many`: so many calls of one route that take long have many threads.
    pub fn add_long(&mut self, place: u16, age_us: Micros, many: u32) -> Option<Micros> {
        self.long.push(place);
        let route = self.at(place)?;
        route.long += 1;
        route.long_us += age_us;
        route.crowds = route.long >= many;
        route.mean_us()
    }

    /// Closes a window of so long, and appends the figures of all routes.
    pub fn close_window(&mut self, lasted_us: Micros, now_us: Micros, figures: &mut Vec<Figure>) {
        for route in self.routes.iter_mut().flatten() {
            let busy = route.window_us as f64 / lasted_us.max(1) as f64;
            route.busy += (busy - route.busy) * NEWEST;
            route.window_us = 0;
            figures.extend(route.figure());
            if route.calls > CALLS {
                route.calls = route.calls / 8 * KEPT + route.calls % 8;
                route.total_us = route.total_us / 8 * u64::from(KEPT) + route.total_us % 8;
            }
        }
        self.make_room(now_us);
    }

    /// What nobody asks for is forgotten, where there are many.
    fn make_room(&mut self, now_us: Micros) {
        let is_full = |told: &Told| told.by_names >= A_SHAPE || told.by_last >= A_SHAPE;
        let are_many = self.named > MOST / 2 || self.shapes.len() > SHAPES / 2;
        if !are_many && !self.shapes.values().any(is_full) {
            return;
        }
        let is_unused = |route: &Route| {
            let told = route.apart.and_then(|apart| self.shapes.get(&apart.shape));
            let is_crowded = told.is_some_and(is_full) || self.named >= MOST;
            let lasts_us = if is_crowded { CROWDED_OUT_US } else { FORGOTTEN_US };
            route.inside == 0 && !route.refused && route.used_us < now_us.saturating_sub(lasts_us)
        };
        let found = self.routes.iter().enumerate();
        let unused: Vec<u16> = found
            .filter(|(_, route)| route.as_ref().is_some_and(is_unused))
            .map(|(place, _)| place as u16)
            .collect();
        unused.into_iter().for_each(|place| self.remove(place));
    }

    fn remove(&mut self, place: u16) {
        let Some(route) = self.routes.get_mut(usize::from(place)).and_then(Option::take) else { return };
        self.places.remove(&route.key);
        self.free.push(place);
        if let (Some(apart), false) = (route.apart, route.refused) {
            self.give_room(apart);
        }
    }

    /// All that are known.
    pub fn all(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().flatten()
    }

    /// How many are known.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests;
