//! Each attack on HTTP/2 that has a name, played for as long as it is let: how many frames that is, how often the
//! application would be called, and what is held meanwhile. And honest clients that do much of the same, who stay.

use crate::h2_client::{
    CONTINUATION, Connection, DATA, END_HEADERS, END_STREAM, GET, GOAWAY, HEADERS, PING, POST, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, request,
};
use wire::hpack;

/// No flood goes on for longer.
const ROUNDS: u32 = 20_000;
/// What a connection holds at most, whatever comes: heads, a block, the table, answers that wait.
const HELD: usize = 800 * 1024;

/// What became of a flood.
#[derive(Debug)]
struct Outcome {
    rounds: u32,
    calls: usize,
    held: usize,
    fault: String,
}

/// Plays a round after the other until the connection ends; `each` makes the bytes of one. Calls end at once, as those
/// of a quick application do, and everything that is owed is sent: the cheapest case for whoever floods.
fn flood(begin: &[u8], each: impl FnMut(u32) -> Vec<u8>) -> Outcome {
    flood_on(Connection::greeted(), begin, each)
}

fn flood_on(mut connection: Connection, begin: &[u8], mut each: impl FnMut(u32) -> Vec<u8>) -> Outcome {
    let (mut calls, mut held) = (0, 0);
    connection.hear(begin);
    let kept: Vec<u32> = streams_of(&connection, "request: ");
    for round in 0..ROUNDS {
        connection.events.clear();
        connection.hear(&each(round));
        held = held.max(connection.receive.held());
        calls += streams_of(&connection, "request: ").len();
        if let Some(fault) = connection.fault() {
            let fault = fault.to_string();
            let last = connection.take().pop().expect("a farewell");
            assert!(last.starts_with("GOAWAY") && last.ends_with("ENHANCE_YOUR_CALM"), "{fault}: {last}");
            return Outcome { rounds: round + 1, calls, held, fault };
        }
        for kind in ["reset: ", "error: ", "refused: "] {
            for stream in streams_of(&connection, kind) {
                connection.receive.release(stream, &connection.shared, 0);
            }
        }
        for stream in streams_of(&connection, "request: ") {
            if !kept.contains(&stream) && connection.send.is_open(stream) {
                connection.receive.release(stream, &connection.shared, 0);
            }
        }
        connection.take();
    }
    panic!("it was never ended; {calls} calls, {held} bytes");
}

fn streams_of(connection: &Connection, kind: &str) -> Vec<u32> {
    let lines = connection.events.iter().filter_map(|line| line.strip_prefix(kind));
    lines.map(|rest| rest.split(' ').next().expect("a stream").parse().expect("a number")).collect()
}

/// Asserts that a flood was ended after about so many rounds by the bucket of glitches.
fn calmed(outcome: &Outcome, rounds: u32) {
    assert_eq!(outcome.fault, "glitches", "{outcome:?}");
    assert!(outcome.rounds <= rounds, "{outcome:?}");
    assert!(outcome.calls <= rounds as usize && outcome.held <= HELD, "{outcome:?}");
}

fn odd(round: u32) -> u32 {
    2 * round + 1
}

fn number(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

#[test]
fn rapid_reset_is_ended() {
    // CVE-2023-44487. Every call was begun and cut: as many as the bucket holds.
    let outcome = flood(b"", |round| {
        [request(odd(round), GET, &[]), frame(RST_STREAM, 0, odd(round), &number(8))].concat()
    });
    calmed(&outcome, 201);
}

#[test]
fn streams_of_a_reset_flood_that_are_not_over_yet_are_not_begun_again() {
    // Nothing is released: the application is slow, and its calls count although their clients are gone.
    let mut connection = Connection::greeted();
    for round in 0..1000 {
        connection.hear(&request(odd(round), GET, &[]));
        connection.hear(&frame(RST_STREAM, 0, odd(round), &number(8)));
        if connection.fault().is_some() {
            break;
        }
    }
    assert_eq!(connection.fault(), Some("glitches"));
    assert_eq!(streams_of(&connection, "request: ").len(), 128);
}

#[test]
fn making_the_server_reset_costs_the_same() {
    // CVE-2025-8671: each way in which a client has a stream reset that it has begun.
    let ways: [fn(u32) -> Vec<u8>; 7] = [
        |id| frame(WINDOW_UPDATE, 0, id, &number(0)),
        |id| frame(WINDOW_UPDATE, 0, id, &number(0x7fff_ffff)),
        |id| frame(DATA, 0, id, b"a"),
        |id| frame(PRIORITY, 0, id, &[&number(id)[..], b"\x10"].concat()),
        |id| request(id, GET, &[]),
        |id| request(id, POST, &[]),
        |id| frame(HEADERS, GET, id, &block(&[("x-trailer", "y")])),
    ];
    for (place, way) in ways.iter().enumerate() {
        let outcome = flood(b"", |round| [request(odd(round), GET, &[]), way(odd(round))].concat());
        assert!(outcome.calls > 100, "way {place}: the stream had begun");
        calmed(&outcome, 201);
    }
}

#[test]
fn malformed_requests_are_ended() {
    for (name, value) in [("X", "y"), ("", ""), ("", "value"), ("x", "a\r\nb"), ("connection", "close")] {
        let outcome = flood(b"", |round| request(odd(round), GET, &[(name, value)]));
        assert_eq!(outcome.calls, 0);
        calmed(&outcome, 201);
    }
}

#[test]
fn streams_beyond_the_limit_are_ended() {
    let mut begin = Vec::new();
    (0..128).for_each(|round| begin.extend(request(odd(round), GET, &[])));
    let outcome = flood(&begin, |round| request(odd(128 + round), GET, &[]));
    assert_eq!(outcome.calls, 0);
    calmed(&outcome, 201);
}

#[test]
fn an_endless_block_is_ended_by_its_frames_and_by_its_bytes() {
    // CVE-2024-27316, 28182, 30255.
    let begin = frame(HEADERS, END_STREAM, 1, b"\x82");
    let empty = flood(&begin, |_| frame(CONTINUATION, 0, 1, b""));
    assert_eq!((empty.fault.as_str(), empty.rounds), ("continuations", 9));
    let mut large = hpack_string(16_000);
    large.truncate(16_384);
    let full = flood(&begin, |_| frame(CONTINUATION, 0, 1, &large));
    assert_eq!((full.fault.as_str(), full.rounds), ("block-too-large", 5));
    assert!(full.held <= 192 * 1024, "{full:?}");
}

/// A field with a value of so many bytes, which enters the table where it has room.
fn hpack_string(length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    hpack::field(b"x", &vec![b'\xfe'; length], &mut out);
    out[0] |= 0x40;
    out
}

#[test]
fn a_header_bomb_brings_a_refusal_and_then_an_end() {
    // CVE-2016-6581: 16,000 references to a field of 4 KiB, 64 MiB if they were kept.
    let bomb = [&hpack_string(4000)[..], &[0xbe; 12_000]].concat();
    let outcome = flood(b"", |round| frame(HEADERS, GET, odd(round), &bomb));
    assert_eq!(outcome.calls, 0);
    calmed(&outcome, 201);
    assert!(outcome.held <= 64 * 1024, "{outcome:?}");
}

#[test]
fn small_blocks_that_stand_for_much_do_not_pile_up_behind_a_closed_window() {
    // CVE-2026-49975: references to large fields of the table, on streams whose replies are never taken.
    let close = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut connection = Connection::greeted();
    let first = [&block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")])[..]]
        .concat();
    connection.hear(&[close, frame(HEADERS, GET, 1, &[&first[..], &hpack_string(3900)].concat())].concat());
    let again = [&first[..], &[0xbe; 15]].concat();
    let mut held = 0;
    let mut rounds = 1;
    while connection.fault().is_none() && rounds < 2000 {
        let stream = odd(rounds);
        connection.hear(&frame(HEADERS, GET, stream, &again));
        if connection.send.is_open(stream) {
            assert_eq!(connection.answer(stream, b"reply"), 0, "the window is closed");
        }
        held = held.max(connection.receive.held());
        connection.take();
        rounds += 1;
    }
    assert_eq!(connection.fault(), Some("glitches"));
    assert!(streams_of(&connection, "request: ").len() <= 10, "512 KiB of heads");
    assert!(held <= HELD, "{held}");
}

#[test]
fn control_frames_are_ended() {
    // The set of 2019, CVE-2019-9511 to 9518, and frames that nobody knows.
    let floods: [(&str, Vec<u8>); 9] = [
        ("ping", frame(PING, 0, 0, b"12345678")),
        ("ping ack", frame(PING, 1, 0, b"12345678")),
        ("settings", frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1].repeat(100))),
        ("empty settings", frame(SETTINGS, 0, 0, b"")),
        ("settings ack", frame(SETTINGS, 1, 0, b"")),
        ("priority", frame(PRIORITY, 0, 1, b"\0\0\0\x03\x10")),
        ("priority update", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=1")),
        ("unknown", frame(0xbe, 0xff, 9, b"grease")),
        ("goaway", frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0")),
    ];
    for (name, bytes) in &floods {
        let outcome = flood(b"", |_| bytes.clone());
        assert!(outcome.rounds > 100, "{name}");
        calmed(&outcome, 210);
    }
}

#[test]
fn answers_that_are_not_read_are_bounded() {
    // CVE-2019-9512 and 9515, from a client that has earned its pings and reads nothing.
    let mut connection = Connection::with(|shared| shared.limits.h2_glitches = 1_000_000);
    let mut pings = 0;
    while connection.fault().is_none() {
        connection.hear(&frame(PING, 0, 0, b"12345678"));
        pings += 1;
        assert!(connection.receive.held() <= 64 * 1024);
    }
    assert_eq!(connection.fault(), Some("control-queue"));
    // One of 17 bytes is taken while no more than the limit waits.
    assert_eq!(pings, 16 * 1024 / 17 + 2);
}

#[test]
fn windows_that_grow_for_nothing_are_ended() {
    let begin = request(1, GET, &[]);
    for stream in [0, 1] {
        let outcome = flood(&begin, |_| frame(WINDOW_UPDATE, 0, stream, &number(1)));
        calmed(&outcome, 220);
    }
}

#[test]
fn windows_that_go_below_zero_and_back_are_ended() {
    // 128 streams, each touched by each change: as often as the bucket lets.
    let mut begin = Vec::new();
    (0..128).for_each(|round| begin.extend(request(odd(round), GET, &[])));
    let largest = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    let churn = [[0, 4, 0, 0, 0, 0], largest].concat().repeat(1000);
    let outcome = flood(&begin, |_| frame(SETTINGS, 0, 0, &churn));
    calmed(&outcome, 201);
}

#[test]
fn empty_and_small_frames_of_content_are_ended() {
    // CVE-2019-9518 and RUSTSEC-2026-0258: nobody reads, because the application is busy.
    let floods = [
        ("empty", frame(DATA, 0, 1, b""), 201),
        ("a byte", frame(DATA, 0, 1, b"a"), 265),
        ("63 bytes", frame(DATA, 0, 1, &[b'a'; 63]), 265),
        ("padding", frame(DATA, 8, 1, &[5, 0, 0, 0, 0, 0]), 201),
    ];
    for (name, bytes, most) in &floods {
        let mut connection = Connection::greeted();
        connection.reads = false;
        let outcome = flood_on(connection, &request(1, POST, &[]), |_| bytes.clone());
        assert!(outcome.rounds >= 100, "{name}: {outcome:?}");
        calmed(&outcome, *most);
    }
}

#[test]
fn frames_for_streams_that_are_gone_are_ended() {
    let cut = [request(1, POST, &[]), frame(RST_STREAM, 0, 1, &number(8))].concat();
    for bytes in [frame(RST_STREAM, 0, 1, &number(8)), frame(DATA, 0, 1, b"a"), request(1, GET, &[])] {
        calmed(&flood(&cut, |_| bytes.clone()), 220);
    }
    // Trailers of a stream that we have reset may be under way: some, not many.
    let ours = [request(1, GET, &[("X", "y")]), request(3, GET, &[])].concat();
    calmed(&flood(&ours, |_| frame(HEADERS, END_HEADERS, 1, &block(&[("x", "y")]))), 201);
}

/// Asserts that a client is still heard.
fn welcome(connection: &mut Connection, stream: u32) {
    connection.hear(&request(stream, GET, &[]));
    assert!(connection.fault().is_none(), "{:?}", connection.events.last());
    assert!(connection.events.iter().any(|line| line.starts_with(&format!("request: {stream} "))));
}

#[test]
fn a_browser_that_leaves_a_page_stays() {
    let mut connection = Connection::greeted();
    for page in 0..5 {
        connection.now = 5000 * page;
        let ids: Vec<u32> = (0..100).map(|place| odd(100 * page as u32 + place)).collect();
        ids.iter().for_each(|id| connection.hear(&request(*id, GET, &[])));
        for id in &ids {
            connection.hear(&frame(RST_STREAM, 0, *id, &number(8)));
            connection.receive.release(*id, &connection.shared, connection.now);
        }
        connection.take();
    }
    welcome(&mut connection, 99_999);
}

#[test]
fn a_client_of_small_messages_stays() {
    // 10,000 messages of 20 bytes on one stream, read as they come: what RPC looks like.
    let mut connection = Connection::greeted();
    connection.hear(&request(1, POST, &[]));
    for _ in 0..10_000 {
        connection.hear(&frame(DATA, 0, 1, &[b'm'; 20]));
    }
    welcome(&mut connection, 3);
}

#[test]
fn a_reader_that_measures_its_way_stays() {
    // A ping and two windows for each frame of a long download.
    let mut connection = Connection::greeted();
    connection.hear(&request(1, GET, &[]));
    for _ in 0..5000 {
        assert_eq!(connection.send.content(1, &[0; 1000], false, &mut Vec::new()), 1000);
        connection.receive.sent(connection.send.take_frames());
        connection.hear(&frame(WINDOW_UPDATE, 0, 0, &number(1000)));
        connection.hear(&frame(WINDOW_UPDATE, 0, 1, &number(1000)));
    }
    connection.take();
    welcome(&mut connection, 3);
}

#[test]
fn ten_thousand_requests_in_a_moment_are_answered() {
    let mut connection = Connection::greeted();
    for round in 0..10_000 {
        connection.events.clear();
        connection.hear(&request(odd(round), GET, &[]));
        connection.hear(&frame(PRIORITY_UPDATE, 0, 0, &[&number(odd(round))[..], b"u=1"].concat()));
        assert_eq!(connection.answer(odd(round), b"hello"), 5, "{:?}", connection.events);
        connection.receive.sent(connection.send.take_frames());
        connection.hear(&frame(WINDOW_UPDATE, 0, 0, &number(5)));
        connection.take();
    }
    assert_eq!(connection.receive.glitches(), 0);
    welcome(&mut connection, 99_999);
}
