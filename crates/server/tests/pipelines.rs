//! How replies to the requests of a pipeline leave.

use std::io::{Read, Write};

use server::baton::{Lead, Next};
use server::engine::Config;
use server::reply_builder::ReplyBuilder;
use server::statistics::layout::{STRIDE, Word};
use server::statistics::slots;

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

#[test]
fn the_last_of_those_whose_client_reads_nothing_is_over_when_it_has_read() {
    const REQUESTS: usize = 8000;
    let words: Vec<Word> = (0..STRIDE).map(|_| Word::new(0)).collect();
    let words: &'static [Word] = words.leak();
    let mut config = Config { statistics: Some(words), ..Config::default() };
    // All of them wait together.
    config.limits.response_buffer_bytes = 64 << 20;
    let mut driven = Driven::new(config);
    let mut client = driven.acquaint();
    assert!(matches!(driven.turn.next(), Next::Quiet));
    let mut room = vec![0; 1 << 20];
    let _ = client.read(&mut room).expect("the first reply");
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
            Next::Quiet => driven.turn.wait(),
            Next::Ended => panic!("the loop has ended"),
        }
    }
    let expected = 1 + REQUESTS as u64;
    while !matches!(driven.turn.next(), Next::Quiet) {}
    assert_eq!(slots::counted(words), expected - 1, "the kernel has not had the last one");
    let reads = std::thread::spawn(move || {
        let mut read = 0;
        while read < REQUESTS * 7000 {
            read += client.read(&mut room).expect("the rest");
        }
        client
    });
    while slots::counted(words) < expected {
        driven.turn.wait();
        while !matches!(driven.turn.next(), Next::Quiet) {}
    }
    assert_eq!(slots::read(words, true), [], "and none is inside");
    reads.join().expect("all of them");
}
