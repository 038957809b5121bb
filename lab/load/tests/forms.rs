//! What goes out is what the plan says: every form of request, connection and session.

use crate::serving::{GOOD, Peer, check_sums, load, plan, pong, serve};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Seen = Arc<Mutex<Vec<String>>>;

/// A server that keeps what it was asked, and answers it well.
fn listening() -> (SocketAddr, Seen) {
    let seen: Seen = Arc::default();
    let shared = Arc::clone(&seen);
    let address = serve(move |mut peer: Peer| {
        while let Some(request) = peer.request() {
            let text = String::from_utf8_lossy(&request).into_owned();
            let closes = text.contains("Connection: close")
                || (text.contains("HTTP/1.0\r\n") && !text.contains("keep-alive"));
            let is_head = text.starts_with("HEAD");
            shared.lock().expect("no thread panicked").push(text);
            let connection = if closes { "close" } else { "keep-alive" };
            let body = if is_head { "" } else { "Pong!" };
            peer.send(
                format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 5\r\n\r\n{body}")
                    .as_bytes(),
            );
            if closes {
                return;
            }
        }
    });
    (address, seen)
}

/// The distinct requests that were seen.
fn distinct(seen: &Seen) -> Vec<String> {
    let mut seen = seen.lock().expect("no thread panicked").clone();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn requests_go_out_as_the_flags_say() {
    let body = std::env::temp_dir().join(format!("body-{}", std::process::id()));
    std::fs::write(&body, "0123456789").expect("a body is written");
    let file = format!("--body-file {}", body.display());
    for (flags, wanted) in [
        (String::new(), "GET / HTTP/1.1\r\nHost: AT\r\nAccept: */*\r\n\r\n".to_string()),
        ("--close".into(), "GET / HTTP/1.1\r\nHost: AT\r\nAccept: */*\r\nConnection: close\r\n\r\n".into()),
        ("--http 1.0".into(), "GET / HTTP/1.0\r\nHost: AT\r\nAccept: */*\r\n\r\n".into()),
        ("--http 1.0 --keep-alive".into(), "GET / HTTP/1.0\r\nHost: AT\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n".into()),
        ("--method HEAD --header Host:other --header A:1".into(), "HEAD / HTTP/1.1\r\nAccept: */*\r\nHost: other\r\nA: 1\r\n\r\n".into()),
        (
            format!("--method POST {file}"),
            "POST / HTTP/1.1\r\nHost: AT\r\nAccept: */*\r\nContent-Length: 10\r\n\r\n0123456789".into(),
        ),
        (
            format!("--method POST --chunked {file}"),
            "POST / HTTP/1.1\r\nHost: AT\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n".into(),
        ),
        (
            format!("--method POST --slow-write 40:5ms {file}"),
            "POST / HTTP/1.1\r\nHost: AT\r\nAccept: */*\r\nContent-Length: 10\r\n\r\n0123456789".into(),
        ),
    ] {
        let (address, seen) = listening();
        let result = load(address, &format!("{flags} --connections 3 --count 12 --duration 20s --threads 2 --expect-length 5"));
        assert_eq!(distinct(&seen), [wanted.replace("AT", &address.to_string())], "{flags}");
        assert_eq!(seen.lock().expect("no thread panicked").len(), 12, "{flags}");
        assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(12), &json!({})), "{flags}");
        check_sums(&result);
    }
    let _ = std::fs::remove_file(&body);
}

#[test]
fn a_connection_for_each_request_is_one() {
    let (address, _) = listening();
    for (flags, opened) in [("--close", 40), ("--http 1.0", 40), ("", 4), ("--http 1.0 --keep-alive", 4)] {
        let result = load(address, &format!("{flags} --connections 4 --count 40 --duration 20s --threads 2"));
        assert_eq!(result["totals"]["connections"]["opened"], opened, "{flags}");
        check_sums(&result);
    }
}

#[test]
fn pipelined_requests_are_on_their_way_together() {
    // It answers when it has all five: a client that sends one at a time would wait for ever.
    let address = serve(|mut peer| {
        loop {
            for _ in 0..5 {
                if peer.request().is_none() {
                    return;
                }
            }
            peer.send(&GOOD.repeat(5));
        }
    });
    let result = load(address, "--connections 2 --pipeline 5 --count 100 --duration 20s --threads 1");
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(100), &json!({})));
}

#[test]
fn several_requests_are_drawn_by_weight_and_told_apart() {
    let (address, seen) = listening();
    let asked = plan(&json!({
        "url": format!("http://{address}/"),
        "load": {"kind": "closed", "connections": 2, "count": 400},
        "duration_s": 20,
        "requests": [
            {"name": "often", "weight": 3, "target": "/often", "expect": {"body": "Pong!"}},
            {"name": "seldom", "weight": 1, "target": "/seldom", "expect": {"status": [404]}},
            {"name": "never", "weight": 0, "target": "/never"}
        ],
        "seed": 5,
    }));
    let often =
        seen.lock().expect("no thread panicked").iter().filter(|request| request.contains("/often")).count();
    assert!((260..=340).contains(&often), "{often} of 400 for three quarters");
    assert_eq!(asked["by_request"]["often"]["replies"], often);
    assert_eq!(asked["by_request"]["often"]["response"]["count"], often);
    assert_eq!(asked["by_request"]["seldom"]["errors"], json!({"wrong_status_200": 400 - often}));
    assert_eq!(asked["by_request"]["never"]["response"]["max_us"], Value::Null);
    check_sums(&asked);
}

#[test]
fn sessions_ask_think_and_go() {
    let (address, seen) = listening();
    let result =
        load(address, "--sessions 20 --requests 3 --think 60ms --count 10 --duration 20s --threads 2");
    assert_eq!(result["totals"]["sessions"], json!({"arrived": 10, "finished": 10, "failed": 0}));
    assert_eq!(result["totals"]["replies"], 30);
    assert_eq!(result["totals"]["connections"]["opened"], 10);
    let seen = seen.lock().expect("no thread panicked");
    assert_eq!(seen.iter().filter(|request| request.contains("Connection: close")).count(), 10);
    // The last of ten begins at 450 ms, and thinks twice.
    assert!(result["elapsed_s"].as_f64() >= Some(0.45 + 0.12), "{}", result["elapsed_s"]);
    check_sums(&result);
}

#[test]
fn a_session_whose_connection_is_closed_opens_another_and_one_with_an_error_gives_up() {
    let one_each = serve(|mut peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nPong!");
        }
    });
    let result =
        load(one_each, "--sessions 50 --requests 3 --think 10ms --count 10 --duration 20s --threads 1");
    assert_eq!(result["totals"]["sessions"], json!({"arrived": 10, "finished": 10, "failed": 0}));
    assert_eq!(result["totals"]["connections"]["opened"], 30);
    check_sums(&result);
    let breaks = serve(|mut peer| {
        if peer.request().is_some() {
            peer.send(&GOOD[..20]);
        }
    });
    let result = load(breaks, "--sessions 50 --requests 3 --count 10 --duration 20s --threads 1");
    assert_eq!(result["totals"]["sessions"], json!({"arrived": 10, "finished": 0, "failed": 10}));
    assert_eq!(result["errors"], json!({"truncated": 10}));
    check_sums(&result);
}

#[test]
fn a_slow_writer_writes_slowly() {
    let (address, seen) = listening();
    let result = load(address, "--connections 2 --count 4 --duration 20s --threads 1 --slow-write 10:5ms");
    let request = seen.lock().expect("no thread panicked")[0].len();
    // So many pieces, with 5 ms between them.
    let least = (request.div_ceil(10) - 1) as f64 * 5e3;
    assert!(
        result["times"]["service"]["min_us"].as_f64() >= Some(least),
        "{least} µs: {:#}",
        result["times"]["service"]
    );
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(4), &json!({})));
    check_sums(&result);
}

#[test]
fn a_slow_reader_reads_slowly() {
    // The reply does not fit into the socket of a reader of 2 KiB; its writer is held up.
    let held = Arc::new(Mutex::new(Duration::ZERO));
    let shared = Arc::clone(&held);
    let address = serve(move |mut peer| {
        while peer.request().is_some() {
            let began = Instant::now();
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n");
            peer.send(&vec![b'x'; 8_000_000]);
            *shared.lock().expect("no thread panicked") = began.elapsed();
        }
    });
    let flags = "--connections 1 --count 1 --duration 20s --drain 20s --timeout 20s --threads 1";
    let slow = load(address, &format!("{flags} --slow-read 60000:5ms"));
    // 134 reads with 5 ms between them.
    let slow_took = slow["times"]["transfer"]["max_us"].as_f64().expect("a time");
    assert!(slow_took >= 133.0 * 5e3, "{slow_took} µs");
    assert!(
        *held.lock().expect("no thread panicked") > Duration::from_millis(100),
        "the server did not notice"
    );
    assert_eq!((&slow["totals"]["replies"], &slow["errors"]), (&json!(1), &json!({})));
}

#[test]
fn a_unix_socket_is_as_good_and_its_full_queue_is_waited_for() {
    let path = std::env::temp_dir().join(format!("load-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    rustix::net::listen(&listener, 1).expect("a short queue");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Slowly, so that the queue is full most of the time.
            std::thread::sleep(Duration::from_millis(3));
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while matches!(std::io::Read::read(&mut stream, &mut buffer), Ok(1..)) {
                    let _ = stream.write_all(GOOD);
                }
            });
        }
    });
    let nowhere = "127.0.0.1:1".parse().expect("an address");
    let result = load(
        nowhere,
        &format!("--unix {} --connections 12 --count 120 --duration 20s --threads 1", path.display()),
    );
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(120), &json!({})));
    assert_eq!(result["totals"]["connections"]["opened"], 12);
    let _ = std::fs::remove_file(&path);
    let result = load(nowhere, &format!("--unix {} --rate 100 --duration 100ms --threads 1", path.display()));
    assert_eq!(result["errors"], json!({"refused": 10}));
}

#[test]
fn sources_are_used_in_turn() {
    let peers: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let shared = Arc::clone(&peers);
    let address = serve(move |peer| {
        let source = peer.stream.peer_addr().expect("it is connected").ip().to_string();
        *shared.lock().expect("no thread panicked").entry(source).or_default() += 1;
        pong(peer);
    });
    let result = load(
        address,
        "--connections 6 --count 60 --duration 20s --threads 1 --source 127.0.0.2 --source 127.0.0.3",
    );
    assert_eq!(result["errors"], json!({}));
    let peers = peers.lock().expect("no thread panicked").clone();
    assert_eq!(peers, BTreeMap::from([("127.0.0.2".to_string(), 3), ("127.0.0.3".to_string(), 3)]));
}
