//! What a loop that is told to end at once leaves behind.

use std::io::Write;

use server::baton::{Lead, Next};
use server::engine::Config;

use crate::driven::Driven;

#[test]
fn what_is_cut_is_counted_once_also_where_the_watchdog_has_seen_the_end_first() {
    for requests in [0, 1, 2] {
        let mut driven = Driven::new(Config::default());
        let mut clients: Vec<_> = (0..requests).map(|_| driven.acquaint()).collect();
        let mut inside = Vec::new();
        for client in &mut clients {
            client.write_all(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
            let exchange = loop {
                match driven.turn.next() {
                    Next::Ready(exchange) => break exchange,
                    Next::Quiet => drop(driven.turn.wait()),
                    Next::Ended => panic!("the loop has ended"),
                }
            };
            inside.push(exchange);
        }
        driven.turn.engine().abort();
        assert!(driven.turn.housekeeping(), "it has ended");
        assert!(matches!(driven.turn.next(), Next::Ended));
        assert_eq!(driven.turn.engine().counters.requests_cut.get(), requests);
    }
}
