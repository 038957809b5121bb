//! Two replies on one connection: exchanges that reply through streams, over a real socket pair and with a protocol
//! that only these tests speak. A frame is the stream (one byte), a letter (H head, D content, E end, R reset), the
//! length (two bytes, big-endian) and so many bytes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use reactor::sys::monotonic_ms;
use reactor::{Address, Socket};
use server::baton::{Lead, Next};
use server::body::Body;
use server::engine::{Config, Engine};
use server::exchange::Exchange;
use server::log::Log;
use server::multiplexed::{Multiplexed, Origin};
use server::output::Flushed;
use server::reply_builder::ReplyBuilder;
use server::request_deadlines::{RequestTimeouts, Telling};
use server::send_half::Framing;
use server::stream::Stream;
use server::transport::Transport;
use server::turn::Loop;
use wire::{Event, Head, Http1, Limits, Policy, Shared};

/// The largest content of a frame.
const FRAME: usize = 1000;

struct Frames;

fn frame(stream: u32, kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[stream as u8, kind, (content.len() >> 8) as u8, content.len() as u8]);
    out.extend_from_slice(content);
}

impl Framing for Frames {
    fn head(&mut self, stream: u32, head: &[u8], end: bool, out: &mut Vec<u8>) {
        frame(stream, b'H', head, out);
        if end {
            frame(stream, b'E', b"", out);
        }
    }

    fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize {
        let part = &content[..content.len().min(FRAME)];
        frame(stream, b'D', part, out);
        if end && part.len() == content.len() {
            frame(stream, b'E', b"", out);
        }
        part.len()
    }

    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        frame(stream, b'E', b"", out);
    }

    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        frame(stream, b'R', b"", out);
    }
}

/// One connection, its client's end, and the loop that its exchanges belong to.
struct Two {
    shared: Arc<Multiplexed>,
    peer: UnixStream,
    engine: Arc<Engine>,
    turn: Loop,
}

impl Two {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let (ours, peer) = UnixStream::pair().expect("a pair");
        let transport = Transport::from(Socket::from_owned(OwnedFd::from(ours)).expect("a socket"));
        let turn = Loop::new(config, Log::none(), Vec::new()).expect("a loop");
        let engine = Arc::clone(turn.engine());
        let origin = Origin { token: 7, peer: Address::Unix, listener: 0, proxied: None, is_trusted: true };
        let visits = Arc::clone(&engine.visits);
        let shared = Multiplexed::new(Arc::new(transport), origin, Box::new(Frames), visits);
        Self { shared, peer, engine, turn }
    }

    /// A request on one stream.
    fn request(&self, stream: u32) -> Exchange {
        let stream = Stream::open(&self.shared, stream, u64::from(stream));
        Exchange::on_stream(stream, head(), Body::Empty, &self.engine, monotonic_ms())
    }

    /// What the client has by now.
    fn read(&mut self) -> Vec<(u8, u8, Vec<u8>)> {
        self.peer.set_nonblocking(true).expect("a flag");
        let mut bytes = Vec::new();
        let _ = self.peer.read_to_end(&mut bytes);
        frames(&bytes)
    }

    /// What the client has when both streams are over, as the loop hears of each edge.
    fn read_all(&mut self) -> Vec<(u8, u8, Vec<u8>)> {
        self.peer.set_nonblocking(true).expect("a flag");
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let _ = self.peer.read_to_end(&mut bytes);
            let written = self.shared.write(&Limits::default(), monotonic_ms()).expect("a peer");
            if written == Flushed::All && before == bytes.len() {
                return frames(&bytes);
            }
        }
    }
}

fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [stream, kind, high, low, rest @ ..] = bytes {
        let length = usize::from(*high) << 8 | usize::from(*low);
        found.push((*stream, *kind, rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "the last frame is not whole");
    found
}

/// One stream's frames: the letters, each kind once where it repeats, and all of its content.
fn of(frames: &[(u8, u8, Vec<u8>)], stream: u8) -> (String, Vec<u8>) {
    let own = || frames.iter().filter(|frame| frame.0 == stream);
    let mut kinds: Vec<u8> = own().map(|frame| frame.1).collect();
    kinds.dedup();
    let content = own().filter(|frame| frame.1 == b'D').flat_map(|frame| frame.2.clone()).collect();
    (String::from_utf8(kinds).expect("letters"), content)
}

fn head() -> Arc<Head> {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    let mut input: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    match Http1::new(0, 0).advance(&mut input, &mut shared, 0) {
        Event::Request(head) => head,
        _ => panic!("a request"),
    }
}

fn builder() -> ReplyBuilder {
    let mut builder = ReplyBuilder::new();
    builder.head.status(b"200 OK").expect("a status");
    builder
}

/// As the loop finishes an exchange: of a stream nothing comes home.
fn over(exchange: Exchange, two: &mut Two) {
    two.turn.take_back(Box::new(exchange));
    assert!(matches!(two.turn.next(), Next::Quiet), "a stream has brought a connection home");
}

#[test]
fn replies_of_two_streams_interleave_part_by_part() {
    let mut two = Two::new();
    let (mut one, mut other) = (two.request(1), two.request(3));
    let (mut first, mut second) = (builder(), builder());
    one.start(&mut first, None, &two.engine);
    other.start(&mut second, Some(4), &two.engine);
    one.write(&mut first, b"a", &two.engine).expect("a peer");
    other.write(&mut second, b"AB", &two.engine).expect("a peer");
    one.write(&mut first, b"b", &two.engine).expect("a peer");
    other.write(&mut second, b"CD", &two.engine).expect("a peer");
    other.finish(&mut second, &two.engine).expect("a peer");
    over(other, &mut two);
    one.write(&mut first, b"c", &two.engine).expect("a peer");
    one.finish(&mut first, &two.engine).expect("a peer");
    over(one, &mut two);
    let frames = two.read();
    let order: Vec<(u8, u8)> = frames.iter().map(|frame| (frame.0, frame.1)).collect();
    let (h, d, e) = (b'H', b'D', b'E');
    assert_eq!(order, [(1, h), (1, d), (3, h), (3, d), (1, d), (3, d), (3, e), (1, d), (1, e)]);
    assert_eq!((of(&frames, 1).1, of(&frames, 3).1), (b"abc".to_vec(), b"ABCD".to_vec()));
    let heads: Vec<String> =
        [&frames[0].2, &frames[2].2].map(|head| String::from_utf8_lossy(head).into_owned()).into();
    assert!(!heads.iter().any(|head| head.contains("chunked") || head.contains("Connection")), "{heads:?}");
    assert!(
        heads[1].contains("Content-Length: 4\r\n") && heads.iter().all(|head| head.ends_with("\r\n\r\n"))
    );
}

#[test]
fn every_way_to_reply_goes_through_a_stream() {
    let mut two = Two::new();
    let engine = Arc::clone(&two.engine);
    let mut exchange = two.request(1);
    exchange.whole(&mut builder(), b"small", &engine).expect("a peer");
    over(exchange, &mut two);
    let mut exchange = two.request(2);
    exchange.interim(b"HTTP/1.1 103 Early Hints\r\n\r\n", &engine).expect("a peer");
    exchange.whole_kept(&mut builder(), Box::new(vec![b'k'; 200_000]), &engine).expect("a peer");
    over(exchange, &mut two);
    let mut exchange = two.request(3);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&[b'f'; 150_000]).expect("a disk");
    let mut open = builder();
    exchange.start(&mut open, Some(149_000), &engine);
    exchange.file(&mut open, file, (1000, 149_000), &engine).expect("a peer");
    exchange.finish(&mut open, &engine).expect("a peer");
    over(exchange, &mut two);
    let mut exchange = two.request(4);
    exchange.refuse(&wire::QUEUE_FULL, &mut ReplyBuilder::new(), &engine);
    over(exchange, &mut two);
    let unanswered = two.request(5);
    over(unanswered, &mut two);
    let mut exchange = two.request(6);
    exchange.upgrade(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", &engine).expect("a peer");
    exchange.raw(&[b"raw"], &engine).expect("a peer");
    exchange.end_raw();
    over(exchange, &mut two);
    let frames = two.read_all();
    assert_eq!(of(&frames, 1), ("HDE".into(), b"small".to_vec()));
    assert_eq!(of(&frames, 2), ("HDE".into(), vec![b'k'; 200_000]));
    assert_eq!(of(&frames, 3), ("HDE".into(), vec![b'f'; 149_000]));
    assert_eq!(of(&frames, 4).0, "HDE");
    assert!(frames.iter().any(|frame| frame.0 == 4 && frame.2.starts_with(b"HTTP/1.1 503 ")));
    assert!(frames.iter().any(|frame| frame.0 == 5 && frame.2.starts_with(b"HTTP/1.1 500 ")), "not answered");
    assert_eq!(of(&frames, 6), ("HDE".into(), b"raw".to_vec()));
}

#[test]
fn a_stream_that_is_cut_closes_nothing_but_itself() {
    let mut two = Two::new();
    let engine = Arc::clone(&two.engine);
    let (mut cut, mut short, mut other) = (two.request(1), two.request(2), two.request(3));
    let (mut first, mut second, mut third) = (builder(), builder(), builder());
    cut.start(&mut first, None, &engine);
    short.start(&mut second, Some(10), &engine);
    other.start(&mut third, None, &engine);
    for (exchange, builder) in [(&mut cut, &mut first), (&mut short, &mut second), (&mut other, &mut third)] {
        exchange.write(builder, b"begun", &engine).expect("a peer");
    }
    cut.fail(&engine);
    over(cut, &mut two);
    short.finish(&mut second, &engine).expect("a peer");
    over(short, &mut two);
    let mut gone = two.request(4);
    two.shared.reset(4);
    assert!(gone.client_has_left() && !other.client_has_left());
    assert!(gone.whole(&mut builder(), b"late", &engine).is_err(), "its peer has cut it");
    over(gone, &mut two);
    other.write(&mut third, b" and ended", &engine).expect("the connection is whole");
    other.finish(&mut third, &engine).expect("a peer");
    over(other, &mut two);
    let frames = two.read_all();
    assert_eq!(of(&frames, 1), ("HDR".into(), b"begun".to_vec()));
    assert_eq!(of(&frames, 2), ("HDR".into(), b"begun".to_vec()), "five bytes are missing");
    assert_eq!(of(&frames, 3), ("HDE".into(), b"begun and ended".to_vec()));
    assert_eq!(of(&frames, 4), ("R".into(), Vec::new()));
}

#[test]
fn a_peer_that_reads_nothing_stops_both_streams_and_holds_no_lock() {
    let mut two = Two::new();
    let engine = Arc::clone(&two.engine);
    let (mut one, mut other) = (two.request(1), two.request(3));
    let (mut first, mut second) = (builder(), builder());
    one.start(&mut first, None, &engine);
    other.start(&mut second, None, &engine);
    let part = vec![b'x'; 3_000_000];
    one.write(&mut first, &part, &engine).expect("a peer");
    other.write(&mut second, &part, &engine).expect("a peer");
    for exchange in [&mut one, &mut other] {
        exchange.push(&engine).expect("a peer");
        assert!(exchange.unsent() > 0 && exchange.awaits_edge(), "the peer takes nothing");
        assert!(!exchange.has_room(&engine));
    }
    // Both wait; a third begins and is cut meanwhile, and nobody is held up by anybody.
    let shared = Arc::clone(&two.shared);
    let third = std::thread::spawn(move || {
        drop(Stream::open(&shared, 5, 5));
        shared.send().is_ok()
    });
    assert!(third.join().expect("nothing to wait for"));
    one.finish(&mut first, &engine).expect("a peer");
    other.finish(&mut second, &engine).expect("a peer");
    over(one, &mut two);
    over(other, &mut two);
    let frames = two.read_all();
    assert_eq!(of(&frames, 1), ("HDE".into(), part.clone()));
    assert_eq!(of(&frames, 3), ("HDE".into(), part));
    assert_eq!(of(&frames, 5).0, "R");
    let turns: Vec<u8> = frames.iter().filter(|frame| frame.1 == b'D').map(|frame| frame.0).collect();
    let changes = turns.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 10, "one stream has gone before the other: {changes} changes");
}

#[test]
fn a_deadline_answers_its_own_stream_in_its_exchanges_place() {
    let request_timeouts = RequestTimeouts { usual: 1, by_path: Vec::new() };
    let mut two = Two::with(Config { request_timeouts, ..Config::default() });
    let engine = Arc::clone(&two.engine);
    let (mut late, mut begun) = (two.request(1), two.request(2));
    let mut open = builder();
    begun.start(&mut open, None, &engine);
    begun.write(&mut open, b"part", &engine).expect("a peer");
    let telling =
        Telling { server_header: b"", request_id: None, counters: &engine.counters, log: &engine.log };
    let ignored = engine.deadlines.look(&telling, 0, false, monotonic_ms() + 1000);
    assert_eq!(ignored, Vec::<String>::new(), "no thread is in them");
    assert!(late.whole(&mut builder(), b"too late", &engine).is_err());
    assert!(begun.write(&mut open, b"more", &engine).is_err(), "its client was told that it is cut");
    over(late, &mut two);
    over(begun, &mut two);
    let frames = two.read_all();
    assert_eq!(of(&frames, 1).0, "HDE");
    assert!(frames.iter().any(|frame| frame.0 == 1 && frame.2.starts_with(b"HTTP/1.1 504 ")));
    assert_eq!(of(&frames, 2), ("HDR".into(), b"part".to_vec()));
}
