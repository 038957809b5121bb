//! A server plants each kind of error in known numbers; the engine reports exactly those, and nothing else.

use crate::serving::{GOOD, Peer, check_sums, load, plan, serve};
use rustix::net::sockopt::set_tcp_cork;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    ResetBefore,
    ResetIn,
    ResetAfter,
    EndBefore,
    Race,
    NoFirstByte,
    NoEnd,
    Truncated,
    Extra,
    StatusLine,
    Header,
    Chunk,
    Status,
    Body,
}

use Planted::*;

/// Those that are what they are only on a new connection, and those that need one that was used.
const NEW: [Planted; 3] = [ResetBefore, EndBefore, NoFirstByte];
const USED: [Planted; 11] =
    [Race, ResetIn, ResetAfter, NoEnd, Truncated, Extra, StatusLine, Header, Chunk, Status, Body];

/// What is still to be planted.
#[derive(Default)]
struct Garden {
    new: VecDeque<Planted>,
    used: VecDeque<Planted>,
}

/// Does what was drawn; gives the connection back where it goes on.
fn plant(planted: Planted, mut peer: Peer) -> Option<Peer> {
    match planted {
        ResetBefore => peer.reset(),
        ResetIn => {
            peer.send(&GOOD[..GOOD.len() - 2]);
            peer.reset();
        }
        ResetAfter => {
            peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nPong!");
            peer.reset();
        }
        EndBefore | Race => drop(peer),
        NoFirstByte => peer.keep_silent(),
        NoEnd => {
            peer.send(&GOOD[..GOOD.len() - 2]);
            peer.keep_silent();
        }
        Truncated => peer.send(&GOOD[..GOOD.len() - 2]),
        Extra => {
            peer.send(&[GOOD, b"more"].concat());
            peer.keep_silent();
        }
        StatusLine => peer.send(b"HTTP/1.1 OK 200\r\nContent-Length: 0\r\n\r\n"),
        Header => peer.send(b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
        Chunk => {
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\nPong!\r\n0\r\n\r\n")
        }
        Status => {
            peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nBusy");
            return Some(peer);
        }
        Body => {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong?");
            return Some(peer);
        }
    }
    None
}

fn answer(garden: &Mutex<Garden>, mut peer: Peer) {
    while peer.request().is_some() {
        let planted = {
            let mut garden = garden.lock().expect("no thread panicked");
            if peer.number == 1 { garden.new.pop_front() } else { garden.used.pop_front() }
        };
        match planted {
            None => peer.send(GOOD),
            Some(planted) => match plant(planted, peer) {
                Some(back) => peer = back,
                None => return,
            },
        }
    }
}

/// So many of each: three, so that a kind that is counted twice or not at all shows.
fn planted_server() -> (SocketAddr, Arc<Mutex<Garden>>) {
    let times_three = |kinds: &[Planted]| kinds.iter().flat_map(|kind| [*kind; 3]).collect();
    let garden = Arc::new(Mutex::new(Garden { new: times_three(&NEW), used: times_three(&USED) }));
    let shared = Arc::clone(&garden);
    (serve(move |peer| answer(&shared, peer)), garden)
}

fn expected_errors() -> Value {
    json!({
        "reset_before_reply": 3, "reset_in_reply": 3, "reset_after_reply": 3, "end_before_reply": 3,
        "keep_alive_race": 3, "first_byte_timeout": 3, "body_timeout": 3, "truncated": 3, "extra_bytes": 3,
        "bad_status_line": 3, "bad_header": 3, "bad_chunk": 3, "wrong_status_503": 3, "wrong_body": 3
    })
}

fn planted(load: &Value) {
    let (address, garden) = planted_server();
    let result = plan(&json!({
        "url": format!("http://{address}/"),
        "load": load,
        "duration_s": 20,
        "timeouts": {"connect_s": 5, "first_byte_s": 3.0, "body_s": 3.0},
        "requests": [{"expect": {"body": "Pong!"}}],
        "threads": 2,
    }));
    let garden = garden.lock().expect("no thread panicked");
    assert!(garden.new.is_empty() && garden.used.is_empty(), "the load was too short to meet everything");
    assert_eq!(result["errors"], expected_errors());
    assert_eq!(result["totals"]["offered"], 2000);
    assert_eq!(result["totals"]["failed"], 36, "extra bytes and resets after a reply fail no request");
    assert_eq!(result["totals"]["replies"], 2000 - 36);
    assert_eq!(result["by_request"]["request"]["replies"], 2000 - 36);
    assert_eq!(result["ended"], "count");
    let by_second: u64 =
        result["series"].as_array().expect("seconds").iter().map(|line| sum(&line["errors"])).sum();
    assert_eq!(by_second, 14 * 3);
    check_sums(&result);
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().expect("counts by name").values().filter_map(Value::as_u64).sum()
}

#[test]
fn a_closed_loop_reports_exactly_what_was_planted() {
    planted(&json!({"kind": "closed", "connections": 4, "count": 2000}));
}

#[test]
fn an_open_loop_reports_exactly_what_was_planted() {
    planted(&json!({"kind": "open", "rate": 400, "count": 2000}));
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    // Held, so that nobody else listens there meanwhile.
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = getsockname(&socket).and_then(SocketAddr::try_from).expect("it is bound");
    let result = load(address, "--rate 200 --duration 250ms --threads 1");
    assert_eq!(result["errors"], json!({"refused": 50}));
    check_sums(&result);
    // A closed loop tries again at a bounded pace, and does not drown the machine in attempts.
    let result = load(address, "--connections 2 --duration 300ms --threads 1");
    let refused = result["errors"]["refused"].as_u64().expect("refusals");
    assert!((2..=62).contains(&refused), "{refused}");
    check_sums(&result);
}

#[test]
fn a_queue_that_is_full_lets_connecting_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    rustix::net::listen(&listener, 0).expect("the shortest queue");
    let address = listener.local_addr().expect("it is bound");
    let short = std::time::Duration::from_millis(300);
    // What fits into the queue is ours, until one does not fit.
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, short) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue has an end");
    }
    let result = load(address, "--rate 20 --duration 500ms --timeout 400ms --threads 1");
    assert_eq!(result["errors"], json!({"connect_timeout": 10}));
    check_sums(&result);
}

#[test]
fn what_is_unanswered_at_the_end_is_told_apart() {
    let address = serve(|mut peer| {
        if peer.request().is_some() {
            peer.keep_silent();
        }
    });
    let result = load(address, "--connections 5 --duration 1s --drain 200ms --timeout 9s --threads 2");
    assert_eq!(result["errors"], json!({"in_flight_at_end": 5}));
    check_sums(&result);
    let result = load(address, "--rate 100 --max-connections 4 --duration 200ms --drain 100ms --threads 1");
    assert_eq!(result["errors"], json!({"in_flight_at_end": 4}));
    assert_eq!(result["generator"]["faults"]["not_started"], 16);
    assert_eq!(result["generator"]["verdict"], "at_fault");
    check_sums(&result);
}

#[test]
fn an_idle_connection_that_the_server_ends_is_no_error() {
    // Each reply is the connection's last, but the server does not say so.
    let address = serve(|mut peer| {
        if peer.request().is_some() {
            // Reply and end come together, however late this thread has the processor again.
            set_tcp_cork(&peer.stream, true).expect("it can be corked");
            peer.send(GOOD);
        }
    });
    let result = load(address, "--rate 5 --count 10 --duration 8s --threads 1");
    assert_eq!(result["errors"], json!({}));
    assert_eq!(result["totals"]["replies"], 10);
    assert_eq!(result["totals"]["connections"]["opened"], 10);
    assert_eq!(result["totals"]["connections"]["closed_while_idle"], 10);
}

#[test]
fn a_server_that_closes_takes_nothing_with_it_that_was_pipelined() {
    let address = serve(|mut peer| {
        for _ in 0..3 {
            if peer.request().is_none() {
                return;
            }
            if peer.number < 3 {
                peer.send(GOOD);
            } else {
                peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nPong!");
            }
        }
        // The rest of what was pipelined is read, so that the close is an orderly one.
        let _ = peer.stream.shutdown(std::net::Shutdown::Write);
        peer.keep_silent();
    });
    let result = load(address, "--connections 2 --pipeline 5 --count 300 --duration 20s --threads 1");
    assert_eq!(result["errors"], json!({}));
    assert_eq!(result["totals"]["replies"], 300);
    // Three a connection; at the end one may be left with fewer.
    let opened = result["totals"]["connections"]["opened"].as_u64().expect("a count");
    assert!((100..=101).contains(&opened), "{opened}");
    check_sums(&result);
}

#[test]
fn what_is_pipelined_behind_an_error_fails_too_and_says_how() {
    for (reply, errors) in [
        (&b""[..], json!({"first_byte_timeout": 4})),
        (&GOOD[..20], json!({"body_timeout": 1, "first_byte_timeout": 3})),
        (&b"HTTP/1.1 OK\r\n\r\n"[..], json!({"bad_status_line": 1, "end_before_reply": 3})),
    ] {
        let address = serve(move |mut peer| {
            for _ in 0..4 {
                if peer.request().is_none() {
                    return;
                }
            }
            peer.send(reply);
            peer.keep_silent();
        });
        let flags = "--connections 1 --pipeline 4 --count 4 --duration 9s --timeout 1500ms --threads 1";
        let result = load(address, flags);
        assert_eq!(result["errors"], errors);
        check_sums(&result);
    }
}
