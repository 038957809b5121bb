//! The engine without Python: what a request costs below the bridge.
//!
//! `cargo run --release -p server --example pong -- PORT [THREADS]`, then any load. Compare
//! with docs/performance.md.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use server::app::App;
use server::engine::{Config, Engine};
use server::exchange::Exchange;
use server::log::Log;
use server::pool::Threads;
use server::reply_builder::ReplyBuilder;
use server::turn::Loop;

/// Answers everything with the same five bytes.
struct Pong;

thread_local! {
    static BUILDER: std::cell::RefCell<ReplyBuilder> = std::cell::RefCell::new(ReplyBuilder::new());
}

impl App for Pong {
    fn live(&self, life: &mut dyn FnMut()) {
        life();
    }

    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>) {
        BUILDER.with_borrow_mut(|builder| {
            builder.head.clear();
            let written =
                builder.head.status(b"200 OK").and(builder.head.field(b"Content-Type", b"text/plain"));
            if written.is_ok() {
                // A peer that is gone is the engine's business.
                let _ = exchange.whole(builder, b"Pong!", engine);
            }
        });
    }

    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(8000);
    let threads = arguments.next().and_then(|threads| threads.parse().ok()).unwrap_or(64);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd())?;
    let turn = Loop::new(Config::default(), Log::none(), vec![fd.into()])?;
    let pool = Threads::new(Pong, turn, threads);
    pool.start()?;
    pool.join(None);
    Ok(())
}
