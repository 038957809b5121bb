//! Timeouts of a loop that was late itself: what had arrived in time is served.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::engine::Config;

use crate::driven::Driven;

/// How long a client may take with a head, in milliseconds.
const HEADER_TIMEOUT: u64 = 600;

fn driven() -> Driven {
    let mut config = Config::default();
    config.limits.header_timeout = HEADER_TIMEOUT;
    Driven::new(config)
}

/// Begins a head, and has the loop read so far.
fn begin(driven: &mut Driven, other: &mut TcpStream) -> TcpStream {
    let mut stream = driven.acquaint();
    stream.write_all(b"GET /begun HTTP/1.1\r\nHost: a\r\n").expect("room");
    look(driven, other);
    stream
}

/// Has the loop go round.
fn look(driven: &mut Driven, other: &mut TcpStream) {
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
    assert_eq!(driven.answer(), b"/other");
}

/// How many heads were refused as late.
fn timeouts(driven: &Driven) -> u64 {
    driven.turn.engine().counters.request_timeouts.get()
}

fn pass(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

#[test]
fn a_head_that_came_in_time_is_served_although_the_loop_was_away() {
    let mut driven = driven();
    let mut other = driven.acquaint();
    // The timer rings for this one: what rings is told before what arrives afterwards.
    let earlier = begin(&mut driven, &mut other);
    pass(HEADER_TIMEOUT * 2 / 3);
    let mut later = begin(&mut driven, &mut other);
    pass(HEADER_TIMEOUT / 2);
    later.write_all(b"\r\n").expect("room");
    // Nobody looks until the time of both is over.
    pass(HEADER_TIMEOUT);
    let mut served = 0;
    for _ in 0..10 {
        other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        while driven.answer() == b"/begun" {
            served += 1;
        }
        pass(30);
    }
    assert_eq!((served, timeouts(&driven)), (1, 1), "served, and refused as late");
    drop((earlier, later));
}

#[test]
fn one_more_look_is_all_that_a_late_head_gets() {
    let mut driven = driven();
    let mut other = driven.acquaint();
    let mut late = begin(&mut driven, &mut other);
    let mut sent = 0;
    // A byte for each look, until it is refused.
    while timeouts(&driven) == 0 {
        late.write_all(b"x").expect("room");
        sent += 1;
        assert!(sent < 1000, "it goes on although its time is over");
        pass(10);
        look(&mut driven, &mut other);
    }
}
