//! How replies to the requests of a pipeline leave.

use std::io::{Read, Write};
use std::net::TcpStream;

use server::baton::{Lead, Next};
use server::engine::Config;
use server::reply_builder::ReplyBuilder;
use server::statistics::layout::{STRIDE, Word};
use server::statistics::slots;

use crate::counting::at_a_kill;
use crate::driven::Driven;

#[test]
fn the_last_reply_takes_the_others_along_in_one_write() {
    for requests in [1, 2, 3, 20] {
        let mut driven = Driven::new(Config::default());
        let mut client = driven.acquaint();
        assert!(matches!(driven.turn.next(), Next::Quiet));
        let mut room = [0; 4096];
        let one = client.read(&mut room).expect("the first reply");
        client.write_all(&b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n".repeat(requests)).expect("room");
        for _ in 0..requests {
            assert_eq!(driven.answer(), b"/next");
        }
        assert!(matches!(driven.turn.next(), Next::Quiet));
        // Of two small writes the kernel keeps the second until it has heard that the first one came.
        client.set_nonblocking(true).expect("a flag");
        assert_eq!(client.read(&mut room).expect("the replies"), one * requests, "{requests}");
    }
}

const REQUESTS: usize = 8000;

/// A pipeline of so many that are answered while their client reads nothing, and where they are counted: all wait together,
/// as far as the kernel has not taken them.
fn unread(write_timeout: u64) -> (Driven, TcpStream, &'static [Word]) {
    let words: Vec<Word> = (0..STRIDE).map(|_| Word::new(0)).collect();
    let words: &'static [Word] = words.leak();
    let mut config = Config { statistics: Some(words), ..Config::default() };
    config.limits.response_buffer_bytes = 64 << 20;
    config.limits.write_timeout = write_timeout;
    let mut driven = Driven::new(config);
    let mut client = driven.acquaint();
    assert!(matches!(driven.turn.next(), Next::Quiet));
    let _ = client.read(&mut [0; 4096]).expect("the first reply");
    client.write_all(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS)).expect("room");
    let mut answered = 0;
    while answered < REQUESTS {
        match driven.turn.next() {
            Next::Ready(mut exchange) => {
                let mut builder = ReplyBuilder::new();
                builder.head.status(b"200 OK").expect("a status");
                exchange.whole(&mut builder, &[b'x'; 7000], driven.turn.engine()).expect("a peer");
                driven.turn.take_back(exchange);
                answered += 1;
            }
            Next::Quiet => drop(driven.turn.wait()),
            Next::Ended => panic!("the loop has ended"),
        }
    }
    while !matches!(driven.turn.next(), Next::Quiet) {}
    (driven, client, words)
}

/// Goes on until all are counted.
fn settles(driven: &mut Driven, words: &[Word]) {
    while slots::counted(words) < 1 + REQUESTS as u64 {
        driven.turn.wait();
        while !matches!(driven.turn.next(), Next::Quiet) {}
    }
    assert_eq!(at_a_kill(words), (1 + REQUESTS as u64, 0), "and none is inside");
}

#[test]
fn the_last_of_those_whose_client_reads_nothing_is_over_when_it_has_read() {
    let (mut driven, mut client, words) = unread(30_000);
    let (counted, died) = at_a_kill(words);
    assert_eq!(counted + died, 1 + REQUESTS as u64);
    assert!(counted < 5, "the kernel has not had the others: {counted}");
    let reads = std::thread::spawn(move || {
        let (mut read, mut room) = (0, vec![0; 1 << 20]);
        while read < REQUESTS * 7000 {
            read += client.read(&mut room).expect("the rest");
        }
        client
    });
    settles(&mut driven, words);
    reads.join().expect("all of them");
    assert_eq!(driven.turn.engine().counters.write_timeouts.get(), 0);
}

#[test]
fn whoever_never_reads_them_is_cut_off_at_its_time_and_nothing_is_kept() {
    let (mut driven, _client, words) = unread(100);
    settles(&mut driven, words);
    let counters = &driven.turn.engine().counters;
    assert_eq!((counters.write_timeouts.get(), counters.connections_closed.get()), (1, 1));
}
