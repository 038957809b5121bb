//! What is known of each route: how long its calls have a thread.
//!
//! Knows: figures by route, in bounded memory. Does not know: what follows from them. Runs under the baton.
//!
//! An average over the last calls and not a quantile: what a route costs the others is how long it has threads, and
//! one call of a minute among a thousand has one for a minute. It is of the last second or so of a busy route, and of
//! the last 32 calls of one that is seldom asked, so that a route that has become quick is soon known as such.
//!
//! Routes are told apart by what their paths have in common (`pattern.rs`). Whoever invents paths makes no memory grow:
//! of one shape so many are told apart, then they are one route; so many shapes, then only their depth is looked at. Paths
//! that the application does not know (404) are no routes.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::pattern::{self, Keep};
use super::rule::{Figure, Micros};

/// So many routes are told apart by their names, ...
pub const MOST: usize = 512;
/// ... so many of one shape, ...
const A_SHAPE: u16 = 64;
/// ... and so many shapes.
const SHAPES: usize = 64;
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

/// What is known of one route.
#[derive(Debug)]
pub struct Route {
    key: u64,
    /// What it counts under, where it is told apart from others by its names.
    shape: Option<u64>,
    name: Box<str>,
    calls: u32,
    total_us: Micros,
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
    /// While many of them take long at the same time the quick ones before them do not count.
    pub fn mean_us(&self) -> Option<Micros> {
        if self.crowds {
            return self.long_us.checked_div(u64::from(self.long));
        }
        (self.total_us + self.long_us).checked_div(u64::from(self.calls + self.long))
    }

    /// The same for people: of calls that are inside half of their time is still to come, so that where these are all
    /// that counts it may be less than what calls that have ended took. True: it is how old those are that are inside, and
    /// how long they take is seen when they end.
    pub fn told_us(&self) -> (Option<Micros>, bool) {
        let ended = self.total_us.checked_div(u64::from(self.calls));
        (self.mean_us().max(ended), self.mean_us() > ended)
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
    shapes: ByKey<u16>,
    named: usize,
    /// Places of those with calls that take long.
    long: Vec<u16>,
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
    fn new_key(&mut self, method: &[u8], path: &[u8], names: u64) -> (u64, Option<u64>) {
        let shape = self.hash(method, path, Keep::First);
        let of_shape = self.shapes.get(&shape).copied();
        let room = self.named < MOST
            && of_shape.map_or(self.shapes.len() < SHAPES, |told_apart| told_apart < A_SHAPE);
        match (room, of_shape) {
            (true, _) => {
                pattern::write(method, path, Keep::Names, &mut self.text);
                (names, Some(shape))
            }
            (false, Some(_)) => (shape, None),
            (false, None) => (self.hash(method, path, Keep::Depth), None),
        }
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
        let (key, shape) = self.new_key(method, path, names);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let route = Route {
            key,
            shape,
            name: String::from_utf8_lossy(&self.text).into(),
            calls: 0,
            total_us: 0,
            inside: 0,
            long: 0,
            long_us: 0,
            crowds: false,
            window_us: 0,
            busy: 0.0,
            used_us: now_us,
        };
        if let Some(shape) = shape {
            *self.shapes.entry(shape).or_default() += 1;
            self.named += 1;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.routes.push(None);
            // Their number has a bound far below: MOST, one for each shape, one for each method and depth.
            (self.routes.len() - 1) as u16
        });
        self.routes[usize::from(place)] = Some(route);
        self.places.insert(key, place);
        place
    }

    /// What somebody else knows of a route, by its method and its path, in which keys may have any form. False: it was known.
    pub fn learn(&mut self, name: &str, mean_us: Micros, now_us: Micros) -> bool {
        let (method, path) = name.split_once(' ').unwrap_or(("GET", name));
        let is_key = |part: &&str| part.contains(['*', '{', '<', ':']);
        let parts: Vec<&str> = path.split('/').map(|part| if is_key(&part) { "0" } else { part }).collect();
        let path = parts.join("/");
        let route = (method.as_bytes(), path.as_bytes());
        let names = self.names(route.0, route.1);
        if self.find(names, route).1.is_some() {
            return false;
        }
        let place = self.add(route.0, route.1, now_us);
        if let Some(route) = self.at(place) {
            (route.calls, route.total_us) = (LEARNT, mean_us * u64::from(LEARNT));
        }
        true
    }

    fn at(&mut self, place: u16) -> Option<&mut Route> {
        self.routes.get_mut(usize::from(place))?.as_mut()
    }

    /// A call has ended, after so long: how long they take on average now. `counts` false: it says nothing of the
    /// route, as it was not begun, or the application knows no such path.
    pub fn leave(&mut self, place: u16, took_us: Micros, counts: bool) -> Option<Micros> {
        let route = self.at(place)?;
        route.inside = route.inside.saturating_sub(1);
        if counts {
            route.calls += 1;
            route.total_us += took_us;
            route.window_us += took_us;
        }
        let mean = route.mean_us();
        if route.calls == 0 && route.inside == 0 {
            self.remove(place);
        }
        mean
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
        if self.named > MOST / 2 || self.shapes.len() > SHAPES / 2 {
            self.forget_unused(now_us.saturating_sub(FORGOTTEN_US));
        }
    }

    fn forget_unused(&mut self, before_us: Micros) {
        for place in 0..self.routes.len() as u16 {
            if self.at(place).is_some_and(|route| route.inside == 0 && route.used_us < before_us) {
                self.remove(place);
            }
        }
    }

    fn remove(&mut self, place: u16) {
        let Some(route) = self.routes.get_mut(usize::from(place)).and_then(Option::take) else { return };
        self.places.remove(&route.key);
        self.free.push(place);
        let Some(shape) = route.shape else { return };
        self.named -= 1;
        if let Some(told_apart) = self.shapes.get_mut(&shape) {
            *told_apart -= 1;
            if *told_apart == 0 {
                self.shapes.remove(&shape);
            }
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
