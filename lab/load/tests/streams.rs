//! HTTP/2 against servers that write their frames by hand: what goes out, what is planted in known numbers, how connections end.

use crate::serving::frames::{
    DATA, END_HEADERS, END_STREAM, FAILED, Framed, HEADERS, OK, RST_STREAM, frame, goaway, reply,
};
use crate::serving::{check_sums, load, plan, serve};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
const INTERNAL_ERROR: [u8; 4] = [0, 0, 0, 2];
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// Answers every request well, whatever its connection.
fn pong() -> SocketAddr {
    serve(|peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        while let Some(stream) = framed.request() {
            framed.send(&reply(stream, OK, b"Pong!"));
        }
    })
}

fn good(result: &Value, replies: u64) {
    assert_eq!(
        (&result["totals"]["replies"], &result["errors"]),
        (&json!(replies), &json!({})),
        "{result:#}"
    );
    check_sums(result);
}

#[test]
fn each_kind_of_load_speaks_http2() {
    let address = pong();
    for (flags, replies, opened) in [
        ("--connections 3 --streams 4 --count 300 --duration 20s", 300, 3),
        ("--rate 400 --streams 8 --max-connections 2 --count 200 --duration 20s", 200, 2),
        ("--sessions 50 --requests 3 --think 5ms --count 10 --duration 20s", 30, 10),
        ("--connections 2 --close --count 20 --duration 20s", 20, 20),
    ] {
        let result = load(address, &format!("--http 2 --threads 1 --expect-length 5 {flags}"));
        good(&result, replies);
        let most = result["totals"]["connections"]["opened"].as_u64();
        // An open loop opens as many as it needs, and these are the most.
        assert!(most <= Some(opened), "{flags}: {most:?}");
        assert_eq!(result["times"]["first_byte"]["count"], replies);
    }
}

#[test]
fn streams_are_on_their_way_together() {
    // It answers when it has all five, the last first: a client that sends one at a time would wait for ever.
    let address = serve(|peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        loop {
            let five: Option<Vec<u32>> = (0..5).map(|_| framed.request()).collect();
            let Some(five) = five else { return };
            let replies: Vec<u8> =
                five.iter().rev().flat_map(|stream| reply(*stream, OK, b"Pong!")).collect();
            framed.send(&replies);
        }
    });
    good(&load(address, "--http 2 --connections 2 --streams 5 --count 100 --duration 20s --threads 1"), 100);
}

#[test]
fn a_server_that_allows_fewer_streams_gets_no_more() {
    let most = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&most);
    let address = serve(move |peer| {
        let Some(mut framed) = Framed::over(peer, &[(MAX_CONCURRENT_STREAMS, 3)]) else { return };
        let mut waiting = Vec::new();
        // The first reply comes late, so that the settings have been read by the second batch.
        let Some(first) = framed.request() else { return };
        framed.send(&reply(first, OK, b""));
        while let Some(stream) = framed.request() {
            waiting.push(stream);
            // What the client sent before it knew, and what it sends after that.
            if waiting.len() == 3 || stream < 17 {
                shared.fetch_max(if stream < 17 { 0 } else { waiting.len() }, Ordering::Relaxed);
                let replies: Vec<u8> = waiting.drain(..).flat_map(|stream| reply(stream, OK, b"")).collect();
                framed.send(&replies);
            }
        }
    });
    good(&load(address, "--http 2 --connections 1 --streams 8 --count 41 --duration 20s --threads 1"), 41);
    assert_eq!(most.load(Ordering::Relaxed), 3);
}

/// What a server does with one stream instead of a good reply.
#[derive(Clone, Copy, Debug)]
enum Planted {
    Refused,
    Reset,
    ResetWithin,
    NoReply,
    NoEnd,
    Status,
    Body,
    Malformed,
}

const KINDS: [Planted; 8] = [
    Planted::Refused,
    Planted::Reset,
    Planted::ResetWithin,
    Planted::NoReply,
    Planted::NoEnd,
    Planted::Status,
    Planted::Body,
    Planted::Malformed,
];

impl Planted {
    fn bytes(self, stream: u32) -> Vec<u8> {
        let began = [frame(HEADERS, END_HEADERS, stream, OK), frame(DATA, 0, stream, b"Po")].concat();
        match self {
            Planted::Refused => frame(RST_STREAM, 0, stream, &REFUSED_STREAM),
            Planted::Reset => frame(RST_STREAM, 0, stream, &INTERNAL_ERROR),
            Planted::ResetWithin => [began, frame(RST_STREAM, 0, stream, &INTERNAL_ERROR)].concat(),
            Planted::NoReply => Vec::new(),
            Planted::NoEnd => began,
            Planted::Status => reply(stream, FAILED, b"Pong!"),
            Planted::Body => reply(stream, OK, b"Pong?"),
            // A length that is not the body's (RFC 9113 section 8.1.1): `content-length: 9`, its name from the table, not indexed.
            Planted::Malformed => [
                frame(HEADERS, END_HEADERS, stream, b"\x88\x0f\x0d\x019"),
                frame(DATA, END_STREAM, stream, b"Pong!"),
            ]
            .concat(),
        }
    }
}

#[test]
fn what_happens_to_a_stream_is_counted_and_its_neighbours_go_on() {
    let planted = Arc::new(Mutex::new(KINDS.iter().flat_map(|kind| [*kind; 3]).collect::<Vec<_>>()));
    let shared = Arc::clone(&planted);
    let address = serve(move |peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        while let Some(stream) = framed.request() {
            let kind = if stream % 5 == 0 { shared.lock().expect("no thread panicked").pop() } else { None };
            framed.send(&kind.map_or_else(|| reply(stream, OK, b"Pong!"), |kind| kind.bytes(stream)));
        }
    });
    let result = plan(&json!({
        "url": format!("http://{address}/"), "http": "2",
        "load": {"kind": "closed", "connections": 2, "streams": 4, "count": 500},
        "duration_s": 20, "threads": 1,
        "timeouts": {"connect_s": 5, "first_byte_s": 3.0, "body_s": 3.0},
        "requests": [{"expect": {"body": "Pong!"}}],
    }));
    assert!(
        planted.lock().expect("no thread panicked").is_empty(),
        "the load was too short to meet everything"
    );
    assert_eq!(
        result["errors"],
        json!({"stream_refused": 3, "stream_reset": 6, "first_byte_timeout": 3, "body_timeout": 3,
               "wrong_status_500": 3, "wrong_body": 3, "bad_http2": 3})
    );
    assert_eq!(result["totals"]["connections"]["opened"], 2, "no connection is lost for a stream");
    assert_eq!(result["totals"]["replies"], 500 - 24);
    check_sums(&result);
}

#[test]
fn a_server_that_says_goodbye_takes_nothing_with_it() {
    // Every connection answers three, and says that it has not looked at the others.
    let address = serve(|peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        for _ in 0..3 {
            let Some(stream) = framed.request() else { return };
            framed.send(&reply(stream, OK, b"Pong!"));
        }
        framed.send(&goaway(5, 0));
        while framed.next().is_some() {}
    });
    let result = load(address, "--http 2 --connections 2 --streams 4 --count 60 --duration 20s --threads 1");
    good(&result, 60);
    let opened = result["totals"]["connections"]["opened"].as_u64().expect("a count");
    assert!((20..=21).contains(&opened), "{opened}");
}

#[test]
fn who_was_not_looked_at_goes_first_on_the_next_connection() {
    // The first connections look at three of five, and at those that are asked last never: if these came behind those that are
    // new they would be the last on one connection after the other.
    let connections = AtomicUsize::new(0);
    let address = serve(move |peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        if connections.fetch_add(1, Ordering::SeqCst) < 6 {
            if framed.settled(4).is_none() {
                return;
            }
            framed.send(&reply(3, OK, b"Pong!"));
            if framed.request().is_none() {
                return;
            }
            framed.send(&[reply(1, OK, b"Pong!"), reply(5, OK, b"Pong!"), goaway(5, 0)].concat());
            while framed.next().is_some() {}
        }
        while let Some(stream) = framed.request() {
            framed.send(&reply(stream, OK, b"Pong!"));
        }
    });
    let flags = "--http 2 --connections 1 --streams 4 --count 40 --duration 20s --threads 1";
    good(&load(address, flags), 40);
}

#[test]
fn the_end_of_a_connection_is_the_end_of_its_streams_and_says_how() {
    for (last_words, reset, errors) in [
        (&b""[..], false, json!({"end_before_reply": 4})),
        (&b""[..], true, json!({"reset_before_reply": 4})),
        (&frame(HEADERS, END_HEADERS, 1, OK)[..], false, json!({"truncated": 1, "end_before_reply": 3})),
        // Enhance your calm (11): an error of the connection, for all that is on it.
        (&goaway(0, 11)[..], false, json!({"goaway": 4})),
        // A frame of a stream that nobody opened.
        (&frame(DATA, 0, 99, b"?")[..], false, json!({"bad_http2": 4})),
    ] {
        let last_words = last_words.to_vec();
        let address = serve(move |peer| {
            let Ok(stream) = peer.stream.try_clone() else { return };
            let Some(mut framed) = Framed::begin(stream, &[]) else { return };
            if framed.settled(4).is_none() {
                return;
            }
            framed.send(&last_words);
            if reset {
                peer.reset();
            }
        });
        let flags = "--http 2 --connections 1 --streams 4 --count 4 --duration 9s --timeout 5s --threads 1";
        let result = load(address, flags);
        assert_eq!(result["errors"], errors);
        check_sums(&result);
    }
}

#[test]
fn what_is_no_http2_is_said_to_be_none() {
    let address = serve(|mut peer| {
        // A server of HTTP/1.1 alone: the preface is a request that it does not know.
        peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.keep_silent();
    });
    let result = load(address, "--http 2 --rate 100 --count 3 --duration 2s --threads 1");
    assert_eq!(result["errors"], json!({"bad_http2": 3}));
    check_sums(&result);
}

#[test]
fn a_body_goes_out_within_the_servers_window() {
    let length = 200_000;
    let body = "x".repeat(length);
    let all_came = Arc::new(Barrier::new(2));
    let shared = Arc::clone(&all_came);
    let address = serve(move |peer| {
        let Some(mut framed) = Framed::over(peer, &[]) else { return };
        let mut came = 0;
        while let Some(read) = framed.next() {
            if read.kind != DATA {
                continue;
            }
            came += read.payload.len();
            assert!(came <= 65_535 || read.stream == 1, "the window is open for as much as was read");
            // WINDOW_UPDATE (8) for the stream and for the connection.
            if !read.payload.is_empty() {
                let more = (read.payload.len() as u32).to_be_bytes();
                framed.send(&[frame(8, 0, read.stream, &more), frame(8, 0, 0, &more)].concat());
            }
            if read.flags & END_STREAM != 0 {
                framed.send(&reply(read.stream, OK, b"Pong!"));
                if came == length {
                    shared.wait();
                }
            }
        }
    });
    let waiting = std::thread::spawn(move || all_came.wait());
    let result = plan(&json!({
        "url": format!("http://{address}/"), "http": "2", "duration_s": 20, "threads": 1,
        "load": {"kind": "closed", "connections": 1, "count": 1},
        "requests": [{"method": "POST", "body": body, "expect": {"body": "Pong!"}}],
    }));
    good(&result, 1);
    waiting.join().expect("every byte came");
}

#[test]
fn plans_that_cannot_be_are_refused_in_a_line() {
    for (plan, said) in [
        (json!({"http": "3"}), "http is \"3\""),
        (
            json!({"http": "1.1", "load": {"kind": "closed", "connections": 1, "streams": 2}}),
            "needs http \"2\"",
        ),
        (
            json!({"http": "2", "load": {"kind": "closed", "connections": 1, "pipeline": 2}}),
            "give load.streams",
        ),
        (json!({"http": "2", "slow_read": {"bytes": 1, "every_s": 1}}), "are for HTTP/1"),
        (json!({"http": "2", "requests": [{"headers": [["Connection", "close"]]}]}), "has no field"),
        (json!({"tls": {"insecure": true}}), "does not begin with https://"),
        (json!({"url": "https://127.0.0.1:1/"}), "--insecure"),
    ] {
        let mut whole = json!({"url": "http://127.0.0.1:1/", "load": {"kind": "closed", "connections": 1}});
        for (key, value) in plan.as_object().expect("fields") {
            whole[key] = value.clone();
        }
        let path = std::env::temp_dir().join(format!("bad-plan-{}.json", std::process::id()));
        std::fs::write(&path, whole.to_string()).expect("a plan is written");
        let output = crate::serving::engine().arg("--plan").arg(&path).output().expect("the engine starts");
        let _ = std::fs::remove_file(&path);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && told.contains(said) && told.lines().count() == 1,
            "{told}"
        );
    }
}
