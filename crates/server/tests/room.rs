//! What room for one more connection costs, counted in rows of the table, over real sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use server::baton::{Lead, Next};
use server::engine::Config;
use server::log::Log;
use server::reply_builder::ReplyBuilder;
use server::turn::Loop;
use wire::Limits;

/// A loop that this thread drives, and where it listens.
struct Driven {
    turn: Loop,
    listener: TcpListener,
}

impl Driven {
    /// With so many connections at the most.
    fn new(connections: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd()).expect("a listener");
        let config = Config { limits: Limits { connections, ..Limits::default() }, ..Config::default() };
        let turn = Loop::new(config, Log::none(), vec![fd.into()]).expect("a loop");
        Self { turn, listener }
    }

    /// A new connection that has had a request.
    fn connect(&mut self) -> TcpStream {
        let mut stream =
            TcpStream::connect(self.listener.local_addr().expect("an address")).expect("a connection");
        self.ask(&mut stream);
        stream
    }

    fn ask(&mut self, stream: &mut TcpStream) {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        loop {
            match self.turn.next() {
                Next::Ready(mut exchange) => {
                    let mut builder = ReplyBuilder::new();
                    builder.head.status(b"200 OK").expect("a status");
                    exchange.whole(&mut builder, b"ok", self.turn.engine()).expect("a peer");
                    self.turn.take_back(exchange);
                    break;
                }
                Next::Quiet => drop(self.turn.wait()),
                Next::Ended => panic!("the loop has ended"),
            }
        }
        // The connection is parked, and nothing is left to be done.
        while !matches!(self.turn.next(), Next::Quiet) {}
    }

    fn evicted(&self) -> u64 {
        self.turn.engine().counters.connections_evicted.get()
    }

    fn looks(&self) -> u64 {
        self.turn.engine().counters.eviction_looks.get()
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a flag");
    let mut room = [0; 1024];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn room_is_made_beyond_the_limit_and_not_before() {
    for (connections, evicted) in [(7, 0), (8, 0), (9, 1)] {
        let mut driven = Driven::new(8);
        let _streams: Vec<_> = (0..connections).map(|_| driven.connect()).collect();
        assert_eq!(driven.evicted(), evicted, "{connections} connections where 8 may be");
    }
}

#[test]
fn at_the_limit_a_connection_costs_a_few_rows_however_many_there_are() {
    for limit in [100, 400] {
        let mut driven = Driven::new(limit);
        let mut streams: Vec<_> = (0..2 * limit).map(|_| driven.connect()).collect();
        assert_eq!(driven.evicted(), limit);
        // A row for each, and one in 64 pays for a look through all of them.
        let most = 66 * limit + limit;
        assert!(driven.looks() <= most, "{} rows for {limit} connections", driven.looks());
        let closed = streams.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count();
        assert_eq!(closed as u64, limit);
    }
}

#[test]
fn who_has_asked_meanwhile_is_not_the_idlest_any_more() {
    let mut driven = Driven::new(200);
    let mut streams: Vec<_> = (0..200).map(|_| driven.connect()).collect();
    let _one_more = driven.connect();
    assert_eq!(driven.evicted(), 1);
    // A look has found the next ones as well. They ask again, a little later.
    let since = std::time::Instant::now();
    while since.elapsed().as_millis() < 5 {
        std::thread::yield_now();
    }
    let mut asked: Vec<usize> = Vec::new();
    for (index, stream) in streams.iter_mut().enumerate().take(20) {
        if !is_closed(stream) {
            stream.set_nonblocking(false).expect("a flag");
            driven.ask(stream);
            asked.push(index);
        }
    }
    let _more: Vec<_> = (0..20).map(|_| driven.connect()).collect();
    assert_eq!(driven.evicted(), 21);
    assert!(asked.len() >= 19);
    for index in asked {
        assert!(!is_closed(&mut streams[index]), "the one that asked again is closed");
    }
}
