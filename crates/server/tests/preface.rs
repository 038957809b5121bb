//! What a connection says before its protocol, over real sockets, for a listener of a kind that has such a
//! preface: here a line `FROM <last number of an address in 10.0.0.0>`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use reactor::Address;
use server::baton::{Lead, Next};
use server::engine::Config;
use server::listener::{Kind, Listener};
use server::log::Log;
use server::preface::{Preface, Verdict};
use server::reply_builder::ReplyBuilder;
use server::turn::Loop;
use wire::{Limits, PROXY_EXPECTED, PROXY_HEADER, Trust};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

struct From;

impl Preface for From {
    fn most(&self) -> usize {
        16
    }

    fn expects(&self) -> &'static str {
        "FROM and a number"
    }

    fn judge(&mut self, bytes: &[u8]) -> Verdict {
        let known = b"FROM ".iter().zip(bytes).all(|(one, other)| one == other);
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
            return if known { Verdict::More } else { Verdict::Refused(PROXY_EXPECTED) };
        };
        let number = std::str::from_utf8(&bytes[5.min(end)..end]).ok().and_then(|text| text.parse().ok());
        let Some(number) = number.filter(|_| known) else { return Verdict::Refused(PROXY_HEADER) };
        let peer = (number > 0).then(|| Address::Ip(Ipv4Addr::new(10, 0, 0, number).into(), 99));
        Verdict::Over { length: end + 1, peer, proxied: None }
    }
}

struct Driven {
    turn: Loop,
    listener: TcpListener,
}

impl Driven {
    fn new(limits: Limits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd()).expect("a listener");
        let kind = Kind { preface: Some(|_| Box::new(From)), ..Kind::HTTP };
        let trust = Trust::parse("10.0.0.7").expect("an address");
        let config = Config { limits, trust, ..Config::default() };
        let turn = Loop::new(config, Log::none(), vec![Listener { fd, kind }]).expect("a loop");
        Self { turn, listener }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.listener.local_addr().expect("an address")).expect("a connection")
    }

    /// Goes on until so many requests are answered and so many connections closed: whose requests those
    /// were, and whether they are trusted.
    fn run(&mut self, requests: usize, closed: u64) -> Vec<(Address, bool)> {
        let mut answered = Vec::new();
        loop {
            match self.turn.next() {
                Next::Ready(mut exchange) => {
                    answered.push((exchange.peer(), exchange.head.block.variant & 1 == 1));
                    let mut builder = ReplyBuilder::new();
                    builder.head.status(b"200 OK").expect("a status");
                    exchange.whole(&mut builder, b"ok", self.turn.engine()).expect("a peer");
                    self.turn.take_back(exchange);
                }
                Next::Quiet if answered.len() >= requests && self.closed() >= closed => return answered,
                Next::Quiet => drop(self.turn.wait()),
                Next::Ended => panic!("the loop has ended"),
            }
        }
    }

    fn closed(&self) -> u64 {
        self.turn.engine().counters.connections_closed.get()
    }

    fn refused(&self) -> u64 {
        self.turn.engine().counters.connections_refused.get()
    }

    /// Looks at what is there until the bytes that a client has sent are read.
    fn read_so_far(&mut self, reads: u64) {
        while self.turn.engine().counters.reads.get() < reads {
            match self.turn.next() {
                Next::Quiet => drop(self.turn.wait()),
                _ => panic!("a request"),
            }
        }
        while !matches!(self.turn.next(), Next::Quiet) {}
    }
}

fn of(number: u8) -> Address {
    Address::Ip(Ipv4Addr::new(10, 0, 0, number).into(), 99)
}

#[test]
fn whom_it_names_is_the_peer_for_as_long_as_the_connection_lives() {
    let mut driven = Driven::new(Limits::default());
    let mut stream = driven.connect();
    stream.write_all(&[b"FROM 7\n".as_slice(), REQUEST].concat()).expect("room");
    assert_eq!(driven.run(1, 0), [(of(7), true)], "the request came in the same segment");
    for _ in 0..2 {
        stream.write_all(REQUEST).expect("room");
        assert_eq!(driven.run(1, 0), [(of(7), true)]);
    }
    let mut other = driven.connect();
    other.write_all(&[b"FROM 8\n".as_slice(), REQUEST].concat()).expect("room");
    assert_eq!(driven.run(1, 0), [(of(8), false)], "another one, who is not trusted");
    let mut own = driven.connect();
    own.write_all(&[b"FROM 0\n".as_slice(), REQUEST].concat()).expect("room");
    let local = own.local_addr().expect("an address");
    assert_eq!(driven.run(1, 0), [(Address::Ip(local.ip(), local.port()), false)], "it speaks for itself");
}

#[test]
fn it_may_come_byte_by_byte_and_with_the_request_split_anywhere() {
    let whole = [b"FROM 7\n".as_slice(), REQUEST].concat();
    for at in 1..whole.len() {
        let mut driven = Driven::new(Limits::default());
        let mut stream = driven.connect();
        stream.set_nodelay(true).expect("a flag");
        let (first, second) = whole.split_at(at);
        stream.write_all(first).expect("room");
        driven.read_so_far(1);
        stream.write_all(second).expect("room");
        assert_eq!(driven.run(1, 0), [(of(7), true)], "{at}");
    }
}

#[test]
fn what_is_no_preface_is_closed_without_a_word_and_counted() {
    for wrong in [REQUEST, b"FROM x\n", b"FROM 7          \n", b"FROM            "] {
        let mut driven = Driven::new(Limits::default());
        let mut stream = driven.connect();
        stream.write_all(wrong).expect("room");
        assert_eq!(driven.run(0, 1), []);
        assert_eq!(driven.refused(), 1, "{:?}", String::from_utf8_lossy(wrong));
        let mut told = Vec::new();
        // What it had sent behind may be met with a reset.
        let _ = stream.read_to_end(&mut told);
        assert_eq!(told, b"");
    }
}

#[test]
fn who_only_looks_whether_somebody_listens_is_not_refused() {
    let mut driven = Driven::new(Limits::default());
    drop(driven.connect());
    driven.run(0, 1);
    assert_eq!(driven.refused(), 0);
    let mut stream = driven.connect();
    stream.write_all(b"FROM").expect("room");
    drop(stream);
    driven.run(0, 2);
    assert_eq!(driven.refused(), 1, "in the middle of it");
}

#[test]
fn it_has_the_time_of_a_head_whether_or_not_bytes_trickle() {
    let limits = Limits { header_timeout: 200, first_byte_timeout: 3_600_000, ..Limits::default() };
    for (said, idle, slow) in [(&b""[..], 1, 0), (b"FROM", 0, 1)] {
        let mut driven = Driven::new(limits.clone());
        let mut stream = driven.connect();
        stream.write_all(said).expect("room");
        driven.run(0, 1);
        let counters = &driven.turn.engine().counters;
        assert_eq!((counters.idle_timeouts.get(), counters.request_timeouts.get()), (idle, slow));
        assert_eq!(stream.read(&mut [0; 8]).expect("an end"), 0);
    }
}
