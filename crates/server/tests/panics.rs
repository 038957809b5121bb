//! A fault of ours costs the one request that it happens in, and is counted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use server::app::App;
use server::engine::{Config, Engine};
use server::exchange::Exchange;
use server::log::Log;
use server::pool::Threads;
use server::reply_builder::ReplyBuilder;
use server::turn::Loop;

/// Has a fault where the path says so.
struct Faulty;

impl App for Faulty {
    fn live(&self, life: &mut dyn FnMut()) {
        life();
    }

    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>) {
        assert_ne!(exchange.head.path(), b"/fault", "on purpose");
        let mut builder = ReplyBuilder::new();
        builder.head.status(b"200 OK").expect("a status");
        exchange.whole(&mut builder, b"ok", engine).expect("a peer");
    }

    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

/// The status of the reply on a connection of its own.
fn ask(listener: &TcpListener, path: &str) -> String {
    let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("room");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    reply.split(' ').nth(1).unwrap_or_default().to_string()
}

#[test]
fn a_panic_costs_one_request_and_is_counted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a flag");
    let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd()).expect("a listener");
    let turn = Loop::new(Config::default(), Log::none(), vec![fd.into()]).expect("a loop");
    let pool = Threads::new(Faulty, turn, 1);
    pool.start().expect("threads");
    for faults in 0..3 {
        assert_eq!(ask(&listener, "/"), "200");
        assert_eq!(pool.engine.counters.panics.get(), faults);
        assert_eq!(ask(&listener, "/fault"), "500");
        assert_eq!(pool.engine.counters.panics.get(), faults + 1);
    }
    pool.engine.abort();
    assert!(pool.join(None));
}
