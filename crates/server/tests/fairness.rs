//! Everybody is looked at: how much the loop does for some before it looks at the others,
//! counted in requests and reads, over real sockets and without a clock.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use server::allowance::{READS_A_LOOK, READS_A_VISIT, REQUESTS_A_CLOCK, REQUESTS_A_LOOK};
use server::engine::Config;

use crate::driven::Driven;

/// How many requests are read together (`batch.rs`): what has been read comes first.
const READ_TOGETHER: usize = 16;

/// What has been done so far.
trait Done {
    fn requests_until(&mut self, path: &[u8]) -> usize;
    fn reads(&self) -> u64;
    fn bursts(&self) -> u64;
    fn looks(&self) -> u64;
}

impl Done for Driven {
    /// How many requests are answered until that of this path is.
    fn requests_until(&mut self, path: &[u8]) -> usize {
        (0..).take_while(|_| self.answer() != path).count()
    }

    fn reads(&self) -> u64 {
        self.turn.engine().counters.reads.get()
    }

    fn bursts(&self) -> u64 {
        self.turn.engine().counters.send_bursts.get()
    }

    fn looks(&self) -> u64 {
        self.turn.engine().counters.looks.get()
    }
}

fn pipeline(stream: &mut TcpStream, count: usize) {
    stream.write_all(&b"GET /more HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count)).expect("room");
}

/// Slow requests, so many that they are known to be slow, and another who is acquainted.
fn slow_pipeline(driven: &mut Driven) -> (TcpStream, TcpStream) {
    let other = driven.acquaint();
    let mut greedy = driven.acquaint();
    greedy.write_all(&b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000)).expect("room");
    for _ in 0..3 * REQUESTS_A_CLOCK {
        assert_eq!(driven.answer(), b"/slow");
    }
    (greedy, other)
}

#[test]
fn whoever_comes_beside_a_pipeline_of_slow_requests_goes_before_its_next_one() {
    const ROUNDS: usize = 20;
    let mut driven = Driven::new(Config::default());
    let (_greedy, mut other) = slow_pipeline(&mut driven);
    let mut first = 0;
    for _ in 0..ROUNDS {
        other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        first += driven.requests_until(b"/other");
        for _ in 0..4 {
            assert_eq!(driven.answer(), b"/slow");
        }
    }
    // The kernel may take its time to show what was sent.
    assert!(first <= ROUNDS / 2, "{first} requests of one connection came before {ROUNDS} others");
}

#[test]
fn a_reply_beside_a_pipeline_of_slow_requests_does_not_wait_for_the_next_one() {
    const ROUNDS: usize = 10;
    // More than go by before replies that had to wait for slow ones wait for one another again.
    const BETWEEN: usize = 80;
    let mut driven = Driven::new(Config::default());
    let (_greedy, mut other) = slow_pipeline(&mut driven);
    other.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    for _ in 0..ROUNDS {
        for _ in 0..BETWEEN {
            assert_eq!(driven.answer(), b"/slow");
        }
        other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        driven.requests_until(b"/other");
        assert_eq!(driven.answer(), b"/slow");
        let mut reply = [0; 4096];
        sent += usize::from(other.read(&mut reply).is_ok_and(|count| count > 0));
        driven.answer();
        while other.read(&mut reply).is_ok_and(|count| count > 0) {}
    }
    // The kernel may take its time to show what was sent.
    assert!(
        sent >= ROUNDS / 2,
        "{sent} of {ROUNDS} replies were sent before the next slow request was answered"
    );
}

#[test]
fn a_pipeline_of_slow_requests_goes_on_beside_others_without_end() {
    const ROUNDS: usize = 40;
    let mut driven = Driven::new(Config::default());
    let (_greedy, one) = slow_pipeline(&mut driven);
    let mut others = [one, driven.acquaint()];
    let mut slow = 0;
    for round in 0..ROUNDS {
        // One of them waits whenever the other has been answered.
        for _ in 0..if round == 0 { 2 } else { 1 } {
            others.rotate_left(1);
            others[0].write_all(b"GET /other/slow HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        }
        slow += driven.requests_until(b"/other/slow");
    }
    assert!(slow >= ROUNDS / 4, "{slow} of them were answered beside {ROUNDS} others");
}

#[test]
fn a_long_pipeline_lets_others_in_between() {
    let mut driven = Driven::new(Config::default());
    let mut other = driven.acquaint();
    let mut greedy = driven.acquaint();
    pipeline(&mut greedy, 2000);
    assert_eq!(driven.answer(), b"/more");
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
    let before = driven.requests_until(b"/other");
    assert!(before <= REQUESTS_A_LOOK as usize, "{before} requests of one connection came first");
}

#[test]
fn many_long_pipelines_let_others_in_between_and_take_turns() {
    let mut driven = Driven::new(Config::default());
    let mut other = driven.acquaint();
    let mut greedy: Vec<TcpStream> = (0..2 * READ_TOGETHER).map(|_| driven.acquaint()).collect();
    for stream in &mut greedy {
        pipeline(stream, 500);
    }
    assert_eq!(driven.answer(), b"/more");
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
    let before = driven.requests_until(b"/other");
    let most = REQUESTS_A_LOOK as usize + greedy.len();
    assert!(before <= most, "{before} requests came first");
}

#[test]
fn a_newcomer_is_accepted_beside_a_long_pipeline() {
    let mut driven = Driven::new(Config::default());
    let mut greedy = driven.acquaint();
    pipeline(&mut greedy, 2000);
    assert_eq!(driven.answer(), b"/more");
    let mut other = driven.connect();
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
    let before = driven.requests_until(b"/other");
    assert!(before <= REQUESTS_A_LOOK as usize, "{before} requests of one connection came first");
}

#[test]
fn uploads_without_end_let_others_in_between() {
    const UPLOADS: usize = 4;
    let mut driven = Driven::new(Config::default());
    let mut other = driven.acquaint();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let (mut stream, over) = (driven.acquaint(), Arc::clone(&over));
            thread::spawn(move || {
                let head = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n";
                stream.write_all(head).expect("room");
                // The sockets are never empty while the loop reads.
                while !over.load(Ordering::Relaxed) && stream.write_all(&[b'x'; 1 << 20]).is_ok() {}
            })
        })
        .collect();
    let (looks, reads) = (driven.looks(), driven.reads());
    for _ in 0..20 {
        let before = driven.reads();
        other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        assert_eq!(driven.answer(), b"/other");
        // What one look allows, and what the events of the one before had brought already.
        let most = u64::from(2 * READS_A_LOOK + READS_A_VISIT) + UPLOADS as u64 + 1;
        let between = driven.reads() - before;
        assert!(between <= most, "{between} reads came first");
    }
    let (looks, reads) = (driven.looks() - looks, driven.reads() - reads);
    assert!(reads <= looks * (u64::from(READS_A_LOOK) + UPLOADS as u64 + 1), "{reads} reads, {looks} looks");
    over.store(true, Ordering::Relaxed);
    drop(driven);
    for writer in writers {
        writer.join().expect("a writer");
    }
}

#[test]
fn large_replies_to_fast_readers_let_others_in_between() {
    const READERS: usize = 4;
    let mut driven = Driven::new(Config::default());
    let mut other = driven.acquaint();
    let streams: Vec<TcpStream> = (0..READERS).map(|_| driven.acquaint()).collect();
    let readers: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
            thread::spawn(move || {
                // Read to the end of the connection, which the test brings.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            })
        })
        .collect();
    for _ in 0..READERS {
        assert_eq!(driven.answer(), b"/large");
    }
    let (looks, bursts) = (driven.looks(), driven.bursts());
    for _ in 0..20 {
        let before = driven.bursts();
        other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        assert_eq!(driven.answer(), b"/other");
        // Each reader once, by an edge or without one, in this look and in the one before.
        let between = driven.bursts() - before;
        assert!(between <= 4 * READERS as u64, "{between} bursts came first");
    }
    let (looks, bursts) = (driven.looks() - looks, driven.bursts() - bursts);
    assert!(bursts <= 2 * READERS as u64 * looks, "{bursts} bursts, {looks} looks");
    drop(driven);
    for reader in readers {
        reader.join().expect("a reader");
    }
}
