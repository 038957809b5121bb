//! A loop that the thread of a test drives, over real sockets.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use reactor::sys::monotonic_us;
use server::baton::{Lead, Next};
use server::engine::Config;
use server::exchange::Exchange;
use server::log::Log;
use server::reply_builder::ReplyBuilder;
use server::turn::Loop;

/// How long a slow view works, in microseconds: longer than slow requests may go on without a look.
const SLOW_US: u64 = 200;

/// The body of a large reply.
const LARGE: usize = 64 << 20;

/// A loop that this thread drives, and where it listens.
pub struct Driven {
    pub turn: Loop,
    listener: TcpListener,
}

impl Driven {
    pub fn new(config: Config) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a flag");
        let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd()).expect("a listener");
        let turn = Loop::new(config, Log::none(), vec![fd.into()]).expect("a loop");
        Self { turn, listener }
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.listener.local_addr().expect("an address")).expect("a connection")
    }

    /// A connection that has had a request: its next one is told by an edge.
    pub fn acquaint(&mut self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n").expect("room");
        while self.answer() != b"/first" {}
        stream
    }

    /// Answers the next request; its path.
    pub fn answer(&mut self) -> Vec<u8> {
        loop {
            match self.turn.next() {
                Next::Ready(mut exchange) => {
                    let path = exchange.head.path().to_vec();
                    self.reply(&mut exchange);
                    self.turn.take_back(exchange);
                    return path;
                }
                Next::Quiet => drop(self.turn.wait()),
                Next::Ended => panic!("the loop has ended"),
            }
        }
    }

    pub fn reply(&self, exchange: &mut Exchange) {
        let mut builder = ReplyBuilder::new();
        builder.head.status(b"200 OK").expect("a status");
        let engine = self.turn.engine();
        let answered = match exchange.head.path() {
            b"/large" => exchange.whole_kept(&mut builder, Box::new(vec![b'x'; LARGE]), engine),
            b"/slow" | b"/other/slow" => {
                let until = monotonic_us() + SLOW_US;
                while monotonic_us() < until {}
                exchange.whole(&mut builder, b"ok", engine)
            }
            _ => exchange.whole(&mut builder, b"ok", engine),
        };
        answered.expect("a peer");
    }
}
