//! What tests of statistics play with: heads of requests, and a worker that counts.

use std::fs::{File, remove_file};
use std::sync::Arc;

use reactor::sys::Access;
use wire::{Event, Head, Http1, Limits, Policy, Shared};

use super::layout::{META, Meta, STRIDE, Word, load};
use super::phase::Times;
use super::segment::Segment;
use super::{Counted, Statistics, slots};
use crate::engine::Config;
use crate::log::Log;

/// That of a request with five bytes of content: `GET /path`, a copy of its own each time.
pub fn head(request: &str) -> Arc<Head> {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let text = format!("{request} HTTP/1.1\r\nHost: a\r\nX-Large: abc\r\nContent-Length: 5\r\n\r\n");
    match Http1::new(0, 0).advance(&mut text.as_bytes(), &mut shared, 0) {
        Event::Request(head) => head,
        _ => panic!("no request: {request}"),
    }
}

/// Where a worker writes, that has written nothing.
pub fn words() -> Vec<Word> {
    (0..STRIDE).map(|_| Word::new(0)).collect()
}

/// Shared statistics of their own.
pub fn segment() -> Segment {
    let path = std::env::temp_dir().join(format!(
        "forehand-statistics-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
    remove_file(path).expect("it was there");
    file.set_len(Segment::BYTES as u64).expect("a file with a hole");
    Segment::open(file.into(), Access::Write).expect("statistics begin")
}

/// A worker, and what it has written. Each reply has seven bytes.
pub struct Worker {
    pub statistics: Statistics,
    pub words: &'static [Word],
    /// How many it has been given.
    pub requests: u64,
    /// Monotonic nanoseconds.
    pub now: u64,
}

impl Default for Worker {
    fn default() -> Self {
        let words: &'static [Word] = words().leak();
        let config = Config { statistics: Some(words), ..Config::default() };
        let statistics = Statistics::new(&config, &Log::none());
        // There was no pause before it: one is kept in the recorder, and the others are counted together.
        Self { statistics, words, requests: 0, now: 1 }
    }
}

impl Worker {
    /// It has been given a request, and has answered it after so many nanoseconds.
    pub fn answers(&mut self, head: &Head, took: u64) -> Times {
        let mut times = Times::default();
        self.statistics.note(self.now);
        self.statistics.arrived(&mut times, 0);
        self.requests += 1;
        self.statistics.begin(head, &mut times, (self.requests, 0));
        self.now += took;
        times.ended = self.now;
        times
    }

    /// The newest one, as it is counted.
    pub fn counted<'a>(&self, head: &'a Head, times: &'a Times, status: u16) -> Counted<'a> {
        Counted { head, times, number: self.requests, written: 7, status }
    }

    /// The kernel has had its reply.
    pub fn counts(&mut self, head: &Head, times: &Times, status: u16) {
        let counted = self.counted(head, times, status);
        self.statistics.settle_now(&counted);
    }

    /// How many are counted that have ended, if it is killed now, and how many are inside.
    pub fn at_a_kill(&self) -> (u64, u64) {
        (slots::counted(self.words), slots::read(self.words, true).len() as u64)
    }

    pub fn of(&self, what: Meta) -> u64 {
        load(&self.words[META + what as usize])
    }
}
