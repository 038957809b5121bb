//! What a worker has counted when it is killed: the replies that its clients have, and no others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use server::baton::{Lead, Next};
use server::engine::Config;
use server::exchange::Exchange;
use server::reply_builder::ReplyBuilder;
use server::statistics::layout::{META, Meta, STRIDE, Word};
use server::statistics::{slots, waiting};

use crate::driven::Driven;

/// A loop that counts, and where it does.
fn counting() -> (Driven, &'static [Word]) {
    let words: Vec<Word> = (0..STRIDE).map(|_| Word::new(0)).collect();
    let words: &'static [Word] = words.leak();
    (Driven::new(Config { statistics: Some(words), ..Config::default() }), words)
}

/// How many requests are counted, and how many are said to have died, if it is killed now.
pub fn at_a_kill(words: &[Word]) -> (u64, u64) {
    let unnamed = words[META + Meta::Unnamed as usize].load(Ordering::Relaxed);
    let counted = slots::counted(words);
    (counted, slots::read(words, true).len() as u64 + unnamed + waiting::died(words, counted))
}

fn pipeline(requests: usize) -> Vec<u8> {
    b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n".repeat(requests)
}

/// How many replies a client gets: those that are there, or come when the kernel has heard that it has those before.
fn got(client: &mut TcpStream, wanted: usize) -> usize {
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let count = |bytes: &[u8]| bytes.windows(13).filter(|part| part == b"HTTP/1.1 200 ").count();
    while count(&bytes) < wanted {
        let more = client.read(&mut part).expect("a reply");
        assert!(more > 0, "it goes on");
        bytes.extend(&part[..more]);
    }
    client.set_nonblocking(true).expect("a flag");
    assert!(client.read_to_end(&mut bytes).is_err(), "it goes on");
    client.set_nonblocking(false).expect("a flag");
    count(&bytes)
}

fn begun(driven: &mut Driven) -> Box<Exchange> {
    loop {
        match driven.turn.next() {
            Next::Ready(exchange) => return exchange,
            Next::Quiet => drop(driven.turn.wait()),
            Next::Ended => panic!("the loop has ended"),
        }
    }
}

/// A loop that has nothing to do.
fn rests(driven: &mut Driven) {
    assert!(matches!(driven.turn.next(), Next::Quiet));
}

#[test]
fn of_a_pipeline_those_are_counted_whose_replies_are_sent() {
    for requests in [1, 2, 3, 20] {
        let (mut driven, words) = counting();
        let mut client = driven.acquaint();
        rests(&mut driven);
        let (before, _) = at_a_kill(words);
        assert_eq!(got(&mut client, 1), 1);
        client.write_all(&pipeline(requests)).expect("room");
        for inside in 1..=requests {
            let mut exchange = begun(&mut driven);
            assert_eq!(at_a_kill(words), (before, inside as u64), "none of them is sent: {requests}");
            driven.reply(&mut exchange);
            driven.turn.take_back(exchange);
        }
        rests(&mut driven);
        assert_eq!((got(&mut client, requests), at_a_kill(words)), (requests, (before + requests as u64, 0)));
    }
}

#[test]
fn what_is_sent_as_the_next_request_takes_long_is_counted_meanwhile() {
    let (mut driven, words) = counting();
    let mut client = driven.acquaint();
    rests(&mut driven);
    let (before, _) = at_a_kill(words);
    assert_eq!(got(&mut client, 1), 1);
    client.write_all(&pipeline(4)).expect("room");
    for _ in 0..3 {
        let mut exchange = begun(&mut driven);
        driven.reply(&mut exchange);
        driven.turn.take_back(exchange);
    }
    let mut slow = begun(&mut driven);
    assert_eq!((got(&mut client, 0), at_a_kill(words)), (0, (before, 4)));
    driven.turn.relieved();
    rests(&mut driven);
    assert_eq!((got(&mut client, 3), at_a_kill(words)), (3, (before + 3, 1)), "one is inside");
    driven.reply(&mut slow);
    driven.turn.take_back(slow);
    rests(&mut driven);
    assert_eq!((got(&mut client, 1), at_a_kill(words)), (1, (before + 4, 0)));
}

#[test]
fn who_leaves_before_its_pipeline_is_answered_has_got_nothing_of_it() {
    let (mut driven, words) = counting();
    let mut client = driven.acquaint();
    rests(&mut driven);
    let (before, _) = at_a_kill(words);
    client.write_all(&pipeline(3)).expect("room");
    for _ in 0..2 {
        let mut exchange = begun(&mut driven);
        driven.reply(&mut exchange);
        driven.turn.take_back(exchange);
    }
    let mut last = begun(&mut driven);
    assert_eq!(at_a_kill(words), (before, 3));
    // What it has not read makes the kernel say at once that it is gone.
    drop(client);
    let mut builder = ReplyBuilder::new();
    builder.head.status(b"200 OK").expect("a status");
    assert!(last.whole(&mut builder, b"ok", driven.turn.engine()).is_err(), "nobody is there");
    driven.turn.take_back(last);
    rests(&mut driven);
    assert_eq!(at_a_kill(words), (before + 3, 0), "each has ended, and none is inside");
}

#[test]
fn a_reply_that_waits_for_its_client_is_being_sent_since_its_application_was_done_with_it() {
    let (mut driven, words) = counting();
    let mut client = driven.acquaint();
    rests(&mut driven);
    client.write_all(&pipeline(1)).expect("room");
    let mut exchange = begun(&mut driven);
    let inside = || slots::read(words, false);
    assert!(inside()[0].thread != 0 && inside()[0].sending.is_none(), "its application has it");
    let content = vec![0; 16 << 20];
    let mut builder = ReplyBuilder::new();
    builder.head.status(b"200 OK").expect("a status");
    exchange.whole(&mut builder, &content, driven.turn.engine()).expect("a client");
    driven.turn.take_back(exchange);
    rests(&mut driven);
    let one = &inside()[0];
    assert_eq!(one.thread, 0, "no thread is at it");
    assert!(one.sending.is_some_and(|since| since >= one.begun), "{one:?}");
    drop(client);
    while !inside().is_empty() {
        driven.turn.wait();
        rests(&mut driven);
    }
}
