//! Servers for the truth tests, in threads of the test, and the engine's command beside them. Loopback only, free ports.

pub mod frames;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong!";

/// One connection on the server's side, blocking.
pub struct Peer {
    pub stream: TcpStream,
    /// Requests read so far, this one included.
    pub number: usize,
    read: Vec<u8>,
}

impl Peer {
    pub fn new(stream: TcpStream) -> Peer {
        let _ = stream.set_nodelay(true);
        Peer { stream, number: 0, read: Vec::new() }
    }

    /// The next request's head and body, as bytes; None at the connection's end.
    pub fn request(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 65536];
        loop {
            if let Some(length) = length_of_request(&self.read) {
                self.number += 1;
                return Some(self.read.drain(..length).collect());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // A client that has gone away is a part of many tests.
        let _ = self.stream.write_all(bytes);
    }

    /// Ends with a reset instead of an orderly close.
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("linger can be set");
    }

    /// Says nothing more until the other side goes away.
    pub fn keep_silent(mut self) {
        let mut buffer = [0; 1024];
        while matches!(self.stream.read(&mut buffer), Ok(1..)) {}
    }
}

/// Length of the request at the front, with its body, if it is whole.
fn length_of_request(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_string()))
    };
    let length = if value("transfer-encoding:").is_some() {
        head + bytes[head..].windows(5).position(|window| window == b"0\r\n\r\n")? + 5
    } else {
        head + value("content-length:").map_or(0, |length| length.parse().expect("a number"))
    };
    (bytes.len() >= length).then_some(length)
}

/// A listener with room for every connection that a stopped server lets wait.
pub fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    rustix::net::listen(&listener, 4096).expect("a longer queue");
    listener
}

/// Runs `serve` for each connection, a thread each. The threads end with their connections.
pub fn serve(serve: impl Fn(Peer) + Send + Sync + 'static) -> SocketAddr {
    let listener = listener();
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || accept(&listener, serve));
    address
}

pub fn accept(listener: &TcpListener, serve: impl Fn(Peer) + Send + Sync + 'static) {
    let serve = Arc::new(serve);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(Peer::new(stream)));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Answers every request well.
pub fn pong(mut peer: Peer) {
    while let Some(request) = peer.request() {
        let text = String::from_utf8_lossy(&request);
        if text.contains("Connection: close") || text.contains("HTTP/1.0\r\n") && !text.contains("keep-alive")
        {
            return peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nPong!");
        }
        peer.send(GOOD);
    }
}

/// Answers every request well from one thread, so that a backlog is gone in some milliseconds: a request is what one read gives.
pub fn pong_quickly(listener: &TcpListener) {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let watch = |socket: BorrowedFd<'_>, number: u64| {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&poll, socket, data, epoll::EventFlags::IN).expect("it can be watched");
    };
    watch(listener.as_fd(), u64::MAX);
    let (mut peers, mut buffer) = (Vec::new(), [0; 4096]);
    let mut ready = Vec::with_capacity(256);
    loop {
        ready.clear();
        if epoll::wait(&poll, rustix::buffer::spare_capacity(&mut ready), None).is_err() {
            continue;
        }
        for event in &ready {
            let Some(peer): Option<&mut Option<TcpStream>> = peers.get_mut(event.data.u64() as usize) else {
                if let Ok((stream, _)) = listener.accept() {
                    watch(stream.as_fd(), peers.len() as u64);
                    peers.push(Some(stream));
                }
                continue;
            };
            let alive = peer.as_mut().is_some_and(|stream| {
                matches!(stream.read(&mut buffer), Ok(1..)) && stream.write_all(GOOD).is_ok()
            });
            if !alive {
                *peer = None;
            }
        }
    }
}

pub fn engine() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forehand-load"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the engine to its end; its result.
#[track_caller]
pub fn load(address: SocketAddr, flags: &str) -> Value {
    let url = format!("http://{address}/");
    result(engine().arg(url).args(flags.split_whitespace()).output().expect("the engine starts"))
}

/// Runs the engine with a plan; its result.
#[track_caller]
pub fn plan(plan: &Value) -> Value {
    let path =
        std::env::temp_dir().join(format!("plan-{}-{:?}.json", std::process::id(), thread::current().id()));
    std::fs::write(&path, plan.to_string()).expect("a plan is written");
    let output = engine().arg("--plan").arg(&path).output().expect("the engine starts");
    let _ = std::fs::remove_file(&path);
    result(output)
}

#[track_caller]
pub fn result(output: Output) -> Value {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || output.status.code() == Some(130), "{:?}: {told}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

/// What must hold of every run: nothing that was planned is lost.
#[track_caller]
pub fn check_sums(result: &Value) {
    let total = |name: &str| result["totals"][name].as_u64().expect(name);
    let fault = |name: &str| result["generator"]["faults"][name].as_u64().unwrap_or(0);
    let unable = fault("descriptor_unavailable") + fault("address_unavailable") + fault("not_started");
    assert_eq!(total("offered"), total("started") + unable, "{result:#}");
    assert_eq!(total("started"), total("replies") + total("failed"), "{result:#}");
    assert_eq!(result["times"]["response"]["count"], result["totals"]["replies"]);
}

/// The distribution that `hdr` holds.
pub fn unpacked(hdr: &Value) -> Histogram<u64> {
    let text = hdr.as_str().expect("a text");
    if text.is_empty() {
        return Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("bounds");
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    Deserializer::new().deserialize(&mut &bytes[..]).expect("V2, deflated")
}
