//! Routes: which part of the application a request is for, as one name for all paths that it serves.
//!
//! Knows: templates of paths, names, and how routes lie in memory. Does not know: frameworks; what one has said of
//! its route is a name like any other; nor which path becomes a route (`places.rs`). The loop's thread writes, anybody reads.

use std::borrow::Cow;

use super::layout::{self, META, Meta, ROUTE_COUNT, ROUTE_WIDTH, STRIDE, Word, add, load, put_text, store};
use super::phase::Weighed;

/// The place of requests that had none for their route: its numbers are counted as those of any other, and it has no name. Among
/// what dead workers have left it is a place like any other.
pub const UNPLACED: usize = ROUTE_COUNT - 1;
/// Routes that were made of paths have so many places at the most, half of them. The other half is kept for what frameworks tell:
/// anybody can ask for paths, and an application has only so many routes.
pub const LEARNED: usize = UNPLACED / 2;

/// Words of a route's name, its length included.
const NAME: usize = 16;
/// A name is cut that has more bytes, of which the numbers of the route take nothing.
pub const NAME_BYTES: usize = (NAME - 1) * 8;
/// What a name ends with that was cut: this, and eight digits of what the whole of it comes to.
const CUT: &str = "\u{2026}";
/// A key, in the name of a route.
pub const ANY: &str = "*";
/// 2^64 divided by the golden ratio: odd, and its multiples are far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// A path's part of so many characters with a digit in it is taken for a key, as are digits alone.
const KEY_LENGTH: usize = 16;
/// One of so many is no part of a route, whatever it has.
const PART_LENGTH: usize = 48;

/// What is counted of a route, behind its name.
#[derive(Debug, Clone, Copy)]
enum Number {
    /// One more than zero while the name is being written: nobody reads it.
    Known = NAME as isize,
    Requests,
    Errors,
    /// Nanoseconds inside the application, ...
    App,
    /// ... and of requests whose thread's clock was read: how many, the application's time and the processor's.
    Measured,
    MeasuredApp,
    Cpu,
    /// The name is a framework's.
    Told,
    /// Requests of which is known by how much they made the worker grow, and the sum of it in bytes: below zero, as a number
    /// of two's complement, where they made it shrink.
    Weighed,
    Grown,
}

const _: () = assert!(Number::Grown as usize == ROUTE_WIDTH - 1);

/// What is known of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// `GET /orders/*`, or what a framework has said: `GET /orders/{number}`.
    pub name: String,
    pub told: bool,
    pub requests: u64,
    pub errors: u64,
    /// Nanoseconds.
    pub app: u64,
    pub measured: u64,
    pub measured_app: u64,
    pub cpu: u64,
    pub weighed: u64,
    /// Bytes.
    pub grown: i64,
}

impl Route {
    /// Adds what another worker has counted of it.
    pub fn add(&mut self, other: &Self) {
        self.told |= other.told;
        self.requests += other.requests;
        self.errors += other.errors;
        self.app += other.app;
        self.measured += other.measured;
        self.measured_app += other.measured_app;
        self.cpu += other.cpu;
        self.weighed += other.weighed;
        self.grown += other.grown;
    }

    /// Bytes by which all its requests have made workers grow: those that were weighed stand for all.
    pub fn growth(&self) -> i64 {
        match self.weighed {
            0 => 0,
            weighed => (i128::from(self.grown) * i128::from(self.requests) / i128::from(weighed)) as i64,
        }
    }

    /// Nanoseconds of a processor that all its requests have used: those whose clock was read stand for all.
    pub fn cpu_of_all(&self) -> u64 {
        match self.measured_app {
            0 => 0,
            measured => (u128::from(self.cpu) * u128::from(self.app) / u128::from(measured)) as u64,
        }
    }
}

/// Method and path, in which what looks like a key is `*`.
pub fn template(method: &[u8], path: &[u8]) -> String {
    format!("{} {}", String::from_utf8_lossy(method), template_of_path(path))
}

/// A path in which what looks like a key is `*`.
pub fn template_of_path(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let parts: Vec<&str> = path
        .split('/')
        .map(
            |part| {
                if is_key(part.len(), part.bytes().filter(u8::is_ascii_digit).count()) { ANY } else { part }
            },
        )
        .collect();
    parts.join("/")
}

/// A part of a path that is so long and has so many digits looks like a key.
#[inline]
fn is_key(length: usize, digits: usize) -> bool {
    digits > 0 && (digits == length || length >= KEY_LENGTH) || length >= PART_LENGTH
}

/// Stands for a method (by its place) and the template of a path, which is not made for it. Paths that are no UTF-8 may share a
/// template and differ in this. Two templates that meet are counted as one: nothing else depends on it.
pub fn key_of_path(method: u8, path: &[u8]) -> u64 {
    key_with(method, path, usize::MAX)
}

/// The same of the path with a key in place of one of its parts, whatever stands there.
pub fn key_with(method: u8, path: &[u8], any: usize) -> u64 {
    let mut key = u64::from(method) + 1;
    let (mut part, mut length, mut digits, mut at) = (0_u64, 0, 0, 0);
    // The slash behind the last part closes it.
    for &byte in path.iter().chain(b"/") {
        if byte == b'/' {
            let part = if at == any || is_key(length, digits) { u64::MAX } else { part };
            key = (key.rotate_left(23) ^ part).wrapping_mul(SPREAD);
            (length, digits, at) = (0, 0, at + 1);
        } else {
            length += 1;
            digits += usize::from(byte.is_ascii_digit());
        }
        part = if byte == b'/' { 0 } else { (part ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) };
    }
    key ^ key >> 32
}

/// The same of what a framework has said.
pub fn key_of_told(method: u8, told: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let key =
        told.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ u64::from(method) << 56, hash).wrapping_mul(SPREAD);
    key ^ key >> 32
}

/// A name as it is kept: one that is too long differs from others that begin like it.
fn cut(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_BYTES {
        return name.into();
    }
    let whole = format!("{CUT}{:08x}", key_of_told(0, name) as u32);
    let end = (0..=NAME_BYTES - whole.len()).rfind(|&end| name.is_char_boundary(end)).unwrap_or(0);
    format!("{}{whole}", &name[..end]).into()
}

/// The only part in which two names differ, and what it is in the first one.
pub fn only_difference<'a>(one: &'a str, other: &str) -> Option<(usize, &'a str)> {
    let (mut parts, mut others, mut found) = (one.split('/').enumerate(), other.split('/'), None);
    loop {
        match (parts.next(), others.next()) {
            (None, None) => return found,
            (Some((_, part)), Some(same)) if part == same => {}
            (Some(differs), Some(_)) if found.is_none() => found = Some(differs),
            _ => return None,
        }
    }
}

fn row(words: &[Word], route: usize) -> &[Word] {
    let from = layout::ROUTES + route * ROUTE_WIDTH;
    words.get(from..from + ROUTE_WIDTH).unwrap_or_default()
}

/// Begins a route at a place: its name is there before it counts as known.
pub fn begin(words: &[Word], route: usize, name: &str, told: bool) {
    let row = row(words, route);
    put_text(&row[..NAME], cut(name).as_bytes());
    store(&row[Number::Told as usize], u64::from(told));
    row[Number::Known as usize].store(1, std::sync::atomic::Ordering::Release);
}

/// A route of a block, if there is one at that place.
pub fn read(words: &[Word], route: usize) -> Option<Route> {
    let row = row(words, route);
    let known = row.get(Number::Known as usize)?;
    if known.load(std::sync::atomic::Ordering::Acquire) != 1 {
        return None;
    }
    let number = |number: Number| load(&row[number as usize]);
    Some(Route {
        name: String::from_utf8_lossy(&layout::text(&row[..NAME])).into_owned(),
        told: number(Number::Told) == 1,
        requests: number(Number::Requests),
        errors: number(Number::Errors),
        app: number(Number::App),
        measured: number(Number::Measured),
        measured_app: number(Number::MeasuredApp),
        cpu: number(Number::Cpu),
        weighed: number(Number::Weighed),
        grown: number(Number::Grown).cast_signed(),
    })
}

/// The words of a route's name, where a framework has said it: to be copied as they are.
#[inline]
pub fn told(words: &[Word], route: usize) -> &[Word] {
    let row = row(words, route);
    match row.get(Number::Told as usize) {
        Some(told) if load(told) == 1 => &row[..NAME],
        _ => &[],
    }
}

/// Requests of a worker whose routes had no place.
pub fn unplaced(words: &[Word]) -> u64 {
    let row = row(words, UNPLACED);
    if load(&row[Number::Known as usize]) == 0 { load(&row[Number::Requests as usize]) } else { 0 }
}

/// Adds a dead worker's route to those of a block; its place there, zero where there is no room.
pub fn fold(words: &[Word], route: &Route) -> usize {
    let place = place_of_dead(words, &cut(&route.name), route.told);
    if place == 0 {
        add(&words[META + Meta::Unplaced as usize], route.requests);
    }
    let row = row(words, place);
    for (number, more) in [
        (Number::Requests, route.requests),
        (Number::Errors, route.errors),
        (Number::App, route.app),
        (Number::Measured, route.measured),
        (Number::MeasuredApp, route.measured_app),
        (Number::Cpu, route.cpu),
        (Number::Weighed, route.weighed),
        (Number::Grown, route.grown.cast_unsigned()),
    ] {
        add(&row[number as usize], more);
    }
    place
}

/// Where a name is among those of the dead, or begins. Workers may have learned other paths each: where there is no more room
/// for these, one is counted with those that have a key in place of one of its parts.
fn place_of_dead(words: &[Word], name: &str, told: bool) -> usize {
    let (mut learned, mut like_it) = (0, 0);
    for place in 1..ROUTE_COUNT {
        let Some(known) = read(words, place) else {
            if !told && learned >= LEARNED {
                break;
            }
            begin(words, place, name, told);
            return place;
        };
        if known.name == name {
            return place;
        }
        if !known.told {
            learned += 1;
            if matches!(only_difference(&known.name, name), Some((part, ANY)) if part > 0) {
                like_it = place;
            }
        }
    }
    if told { 0 } else { like_it }
}

/// Counts some requests of a route: all together so many nanoseconds inside the application.
#[inline]
pub fn count(words: &[Word; STRIDE], place: usize, (app, requests): (u64, u64)) {
    let number =
        |number: Number| &words[layout::ROUTES + place % ROUTE_COUNT * ROUTE_WIDTH + number as usize];
    add(number(Number::Requests), requests);
    add(number(Number::App), app);
}

/// One of those that were counted has failed.
#[cold]
pub fn count_failed(words: &[Word; STRIDE], place: u16) {
    let from = layout::ROUTES + usize::from(place) % ROUTE_COUNT * ROUTE_WIDTH;
    add(&words[from + Number::Errors as usize], 1);
}

/// Of one of those that were counted it is known what it has used of a processor.
pub fn count_measured(words: &[Word; STRIDE], place: u16, (app, cpu): (u64, u64)) {
    let from = layout::ROUTES + usize::from(place) % ROUTE_COUNT * ROUTE_WIDTH;
    add(&words[from + Number::Measured as usize], 1);
    add(&words[from + Number::MeasuredApp as usize], app);
    add(&words[from + Number::Cpu as usize], cpu);
}

/// And by how many bytes it has made its worker grow.
pub fn count_weighed(words: &[Word; STRIDE], place: u16, weighed: Weighed) {
    let Weighed::Grown(grown) = weighed else { return };
    let from = layout::ROUTES + usize::from(place) % ROUTE_COUNT * ROUTE_WIDTH;
    add(&words[from + Number::Weighed as usize], 1);
    add(&words[from + Number::Grown as usize], grown.cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::played::words;

    #[test]
    fn keys_in_a_path_are_one_route() {
        for (path, route) in [
            (&b"/orders/17"[..], "GET /orders/*"),
            (b"/orders/17/lines/3", "GET /orders/*/lines/*"),
            (b"/v2/users", "GET /v2/users"),
            (b"/by/0f8fad5b-d9cb-469f-a165-70867728950e", "GET /by/*"),
            (b"/reset/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwx", "GET /reset/*"),
        ] {
            assert_eq!(template(b"GET", path), route);
        }
    }

    #[test]
    fn the_same_template_has_the_same_key_and_another_has_another() {
        let paths: [&[u8]; 12] = [
            b"/",
            b"//",
            b"",
            b"/a",
            b"/a/",
            b"/ab",
            b"/a/b",
            b"/1",
            b"/1/",
            b"/*",
            b"/a1",
            b"/abcdefghijklmnopq",
        ];
        for (at, path) in paths.iter().enumerate() {
            for (other, same) in paths.iter().enumerate() {
                let alike = key_of_path(1, path) == key_of_path(1, same);
                assert_eq!(alike, at == other, "{at} {other}");
            }
            assert_ne!(key_of_path(1, path), key_of_path(2, path), "{at}");
        }
        for (one, other) in [
            (&b"/orders/17"[..], &b"/orders/4711"[..]),
            (b"/orders/17/lines/3", b"/orders/3/lines/17"),
            (b"/by/0f8fad5b-d9cb-469f-a165-70867728950e", b"/by/7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ] {
            assert_eq!(key_of_path(1, one), key_of_path(1, other));
            assert_eq!(template(b"GET", one), template(b"GET", other));
        }
        assert_ne!(key_of_told(1, "/a"), key_of_path(1, b"/a"));
        assert_ne!(key_of_told(1, "/a"), key_of_told(2, "/a"));
    }

    #[test]
    fn what_is_counted_of_a_route_is_read() {
        let words = words();
        begin(&words, 1, "GET /7", false);
        let block = words.first_chunk().expect("a block");
        count(block, 1, (80, 1));
        count_failed(block, 1);
        count_measured(block, 1, (80, 20));
        count(block, 1, (40, 1));
        let found = read(&words, 1).expect("a route");
        assert_eq!((found.name.as_str(), found.requests, found.errors, found.app), ("GET /7", 2, 1, 120));
        assert_eq!(found.cpu_of_all(), 30);
        count_weighed(block, 1, Weighed::Grown(8192));
        assert_eq!(read(&words, 1).expect("a route").growth(), 16_384, "one of two stands for both");
        count_weighed(block, 1, Weighed::Grown(-12_288));
        assert_eq!(read(&words, 1).expect("a route").growth(), -4096, "it may shrink");
        assert_eq!(read(&words, 2), None);
    }

    #[test]
    fn a_name_that_is_cut_differs_from_others_that_begin_like_it() {
        for length in [NAME_BYTES - 1, NAME_BYTES] {
            let name = "x".repeat(length);
            assert_eq!(cut(&name), name);
        }
        for unit in ["x", "\u{e4}", "\u{2026}", "\u{1f600}"] {
            let long = format!("GET /{}", unit.repeat(NAME_BYTES));
            let (kept, other) = (cut(&long).into_owned(), cut(&format!("{long}a")).into_owned());
            assert!((NAME_BYTES - 3..=NAME_BYTES).contains(&kept.len()), "{kept}");
            let (begins, digits) = kept.rsplit_once(CUT).expect("a sign that it was cut");
            assert!(long.starts_with(begins) && digits.len() == 8, "{kept}");
            assert!(kept != other && other.starts_with(begins), "{kept} {other}");
            let words = words();
            begin(&words, 1, &long, true);
            assert_eq!(read(&words, 1).expect("a route").name, kept);
            assert_eq!(cut(&kept), kept, "it is cut once");
        }
    }

    #[test]
    fn two_names_differ_in_one_part_or_they_do_not() {
        for (one, other, differ) in [
            ("GET /blog/a", "GET /blog/b", Some((2, "a"))),
            ("GET /a/edit", "GET /b/edit", Some((1, "a"))),
            ("GET /a", "POST /a", Some((0, "GET "))),
            ("GET /a", "GET /a", None),
            ("GET /a/b", "GET /c/d", None),
            ("GET /a", "GET /a/", None),
            ("GET /a/b", "GET /a", None),
            ("GET /", "GET /a", Some((1, ""))),
        ] {
            assert_eq!(only_difference(one, other), differ, "{one} {other}");
        }
    }

    #[test]
    fn a_dead_worker_s_routes_are_added_by_their_names() {
        let words = words();
        let route = |name: &str, requests| Route { name: name.into(), requests, ..Route::default() };
        assert_eq!(fold(&words, &route("GET /a", 2)), 1);
        assert_eq!(fold(&words, &route("GET /b", 3)), 2);
        assert_eq!(fold(&words, &route("GET /a", 5)), 1);
        assert_eq!(read(&words, 1).map(|route| route.requests), Some(7));
    }

    #[test]
    fn of_what_the_dead_have_learned_there_is_a_place_for_each_that_was_told() {
        let words = words();
        let route = |name: String, told| Route { name, told, requests: 1, ..Route::default() };
        let unplaced = || load(&words[META + Meta::Unplaced as usize]);
        assert_eq!(fold(&words, &route("GET /blog/*".into(), false)), 1);
        for place in 2..=LEARNED {
            assert_eq!(fold(&words, &route(format!("GET /blog/a{place}"), false)), place);
        }
        assert_eq!(fold(&words, &route("GET /blog/more".into(), false)), 1, "counted where there is a key");
        assert_eq!(read(&words, 1).map(|route| route.requests), Some(2));
        assert_eq!((fold(&words, &route("GET /other".into(), false)), unplaced()), (0, 1));
        for place in LEARNED + 1..ROUTE_COUNT {
            assert_eq!(fold(&words, &route(format!("GET /told/{place}"), true)), place);
        }
        assert_eq!((fold(&words, &route("GET /told/more".into(), true)), unplaced()), (0, 2));
        assert_eq!(fold(&words, &route("GET /blog/a2".into(), false)), 2, "those that are known stay");
        assert_eq!(super::unplaced(&words), 0, "the last place has a route");
    }

    #[test]
    fn long_names_of_the_dead_are_found_again() {
        let words = words();
        let route = |end: &str| Route {
            name: format!("GET /{}{end}", "x".repeat(NAME_BYTES)),
            told: true,
            ..Route::default()
        };
        assert_eq!((fold(&words, &route("a")), fold(&words, &route("b"))), (1, 2));
        assert_eq!((fold(&words, &route("a")), fold(&words, &route("b"))), (1, 2));
    }
}
