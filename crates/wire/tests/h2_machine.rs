//! The machines of HTTP/2 as whoever owns a connection uses them: windows, time, limits at their edges, the end.

use crate::h2_client::{
    Connection, DATA, GET, PING, POST, RST_STREAM, SETTINGS, block, frame, hello, request,
};
use std::sync::Arc;
use wire::h2::{Event, PREFACE, Receive};
use wire::{Limits, Policy, Shared};

/// What a connection's peer may still send, by what it was told.
#[derive(Default)]
struct PeerView {
    connection: i64,
    sent: i64,
}

/// The connection's window at the beginning: those of all streams, and a rest.
const WINDOW: i64 = 128 * 16 * 1024 + 64 * 1024;

/// Increments in frames that were sent.
fn increments(frames: &[String], stream: u32) -> i64 {
    let begin = format!("WINDOW_UPDATE {stream} ");
    frames
        .iter()
        .filter_map(|line| line.strip_prefix(&begin))
        .map(|n| n.parse::<i64>().expect("a number"))
        .sum()
}

fn send(connection: &mut Connection, stream: u32, mut length: usize) {
    while length > 0 {
        let part = length.min(16_384);
        connection.hear(&frame(DATA, 0, stream, &vec![b'x'; part]));
        length -= part;
    }
}

#[test]
fn what_we_say_at_first_is_what_the_limits_say() {
    let shared = Shared::new(Limits::default(), Policy::default());
    for (connect, length) in [(false, 24), (true, 30)] {
        let out = Receive::new(0, connect, &shared, 0).take_output();
        let said = crate::h2_client::described(&out);
        assert_eq!(
            said,
            [format!("SETTINGS 0 0x0 {length}"), format!("WINDOW_UPDATE 0 {}", WINDOW - 65_535)]
        );
        let entries: Vec<_> = out[9..9 + length]
            .chunks(6)
            .map(|entry| (entry[1], u32::from_be_bytes(entry[2..].try_into().expect("four"))))
            .collect();
        assert_eq!(entries[..4], [(3, 128), (4, 16 * 1024), (6, 64 * 1024), (9, 1)]);
        assert_eq!(entries.get(4), connect.then_some(&(8, 1)));
    }
}

#[test]
fn a_window_is_given_back_as_it_is_read_and_not_before() {
    let mut connection = Connection::greeted();
    connection.reads = false;
    connection.now = 10_000;
    connection.hear(&request(1, POST, &[]));
    let grown = 256 * 1024 - 16 * 1024;
    let said = [1, 0].map(|stream| format!("WINDOW_UPDATE {stream} {grown}"));
    assert_eq!(connection.take(), said, "a body may be long");
    send(&mut connection, 1, 256 * 1024);
    assert_eq!(connection.take(), [""; 0], "nobody has read anything");
    connection.receive.read(1, 32 * 1024 - 1, &connection.shared, 11_000);
    assert_eq!(connection.take(), [""; 0]);
    connection.receive.read(1, 1, &connection.shared, 11_000);
    assert_eq!(connection.take(), ["WINDOW_UPDATE 1 32768"], "an eighth");
    connection.receive.read(1, 96 * 1024, &connection.shared, 11_000);
    assert_eq!(connection.take(), ["WINDOW_UPDATE 1 98304"], "the first half took a second");
    connection.receive.read(1, 1 << 40, &connection.shared, 11_000);
    let said = connection.take();
    assert_eq!(increments(&said, 1), 128 * 1024 + 256 * 1024, "a reader that keeps up gets a larger one");
    assert!(connection.fault().is_none());
}

#[test]
fn more_than_a_streams_window_resets_the_stream() {
    for (length, good) in [(256 * 1024 - 1, true), (256 * 1024, true), (256 * 1024 + 1, false)] {
        let mut connection = Connection::greeted();
        connection.reads = false;
        connection.hear(&request(1, POST, &[]));
        send(&mut connection, 1, length);
        let reset = connection.events.contains(&"error: 1 stream-window".to_string());
        assert_eq!((reset, connection.fault()), (!good, None), "{length}");
    }
}

#[test]
fn more_than_the_connections_window_ends_the_connection() {
    for (length, good) in [(1023, true), (1024, true), (1025, false)] {
        let mut connection = Connection::with(|shared| {
            shared.limits.h2_connection_window_bytes = 100_000;
            (shared.limits.h2_window_bytes, shared.limits.h2_window_most_bytes) = (256 * 1024, 0);
        });
        connection.reads = false;
        connection.hear(&[request(1, POST, &[]), request(3, POST, &[])].concat());
        send(&mut connection, 1, 100_000 - 1024);
        send(&mut connection, 3, length);
        assert_eq!(connection.fault(), (!good).then_some("connection-window"), "{length}");
    }
}

#[test]
fn bodies_that_nobody_reads_leave_every_other_its_own_window() {
    let mut connection = Connection::greeted();
    connection.reads = false;
    let mut view = PeerView { connection: WINDOW, sent: 0 };
    let mut windows = vec![0; 257];
    let mut read = 0;
    let hear = |connection: &mut Connection, windows: &mut [i64], view: &mut PeerView| {
        let said = connection.take();
        view.connection += increments(&said, 0);
        for (stream, window) in windows.iter_mut().enumerate().skip(1) {
            *window += increments(&said, stream as u32);
        }
    };
    // The first has a reader that keeps up, and then no more; of the others every third has one that reads a little.
    for stream in (1..256u32).step_by(2) {
        windows[stream as usize] += 16 * 1024;
        connection.hear(&request(stream, POST, &[]));
        let mut reads = if stream == 1 { 40 } else { i64::from(stream % 3 == 0) };
        loop {
            hear(&mut connection, &mut windows, &mut view);
            let all = std::mem::take(&mut windows[stream as usize]);
            assert!(
                view.connection - view.sent >= all,
                "{stream}: {all} of its own, less of the connection's"
            );
            send(&mut connection, stream, all as usize);
            view.sent += all;
            if reads == 0 {
                break;
            }
            reads -= 1;
            let more = if stream == 1 { all } else { 10_000 };
            connection.receive.read(stream, more as usize, &connection.shared, 0);
            read += more;
        }
    }
    assert_eq!((connection.fault(), connection.receive.streams()), (None, 128));
    let most = WINDOW + connection.shared.limits.h2_window_most_bytes as i64;
    assert!(view.connection - view.sent >= 0 && view.sent > most, "{}", view.sent);
    // What may wait is bounded all the same.
    assert!(view.sent - read <= most, "{} bytes wait", view.sent - read);
}

#[test]
fn a_body_that_began_before_its_peer_knew_its_window_goes_on() {
    for (first, reads_at_first) in [(65_535, 0), (65_535, 65_535), (65_535, 10_000), (1000, 1000), (0, 0)] {
        let mut shared = Shared::new(Limits::default(), Policy::default());
        (shared.limits.h2_window_bytes, shared.limits.h2_window_most_bytes) = (10_000, 0);
        let mut connection = Connection::new(shared);
        connection.reads = false;
        connection.hear(&[&PREFACE[..], &frame(SETTINGS, 0, 0, b""), &request(1, POST, &[])].concat());
        // As the peer counts: by what every stream has before anything is said, and from its acknowledgement on by what was.
        let (mut window, mut sent, mut read) = (65_535i64, 0i64, 0i64);
        send(&mut connection, 1, first);
        (sent, window) = (sent + first as i64, window - first as i64);
        connection.receive.read(1, reads_at_first, &connection.shared, 1000);
        read += reads_at_first as i64;
        window += increments(&connection.take(), 1);
        connection.hear(&frame(SETTINGS, 1, 0, b""));
        window -= 65_535 - 10_000;
        for _ in 0..100 {
            connection.receive.read(1, (sent - read) as usize, &connection.shared, 1000);
            read = sent;
            window += increments(&connection.take(), 1);
            assert!(window > 0, "{first} {reads_at_first}: {window} after {sent}");
            send(&mut connection, 1, window as usize);
            (sent, window) = (sent + window, 0);
        }
        assert_eq!(connection.fault(), None);
        let errors = connection.events.iter().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 0, "{first}: no more than may come");
        send(&mut connection, 1, 10_001);
        assert!(connection.events.contains(&"error: 1 stream-window".to_string()), "and no less: {first}");
    }
}

#[test]
fn of_bodies_that_nobody_has_ever_read_little_is_held() {
    let mut connection = Connection::greeted();
    connection.reads = false;
    let mut sent = 0;
    for stream in (1..256u32).step_by(2) {
        connection.hear(&request(stream, POST, &[]));
        let window = 16 * 1024 + increments(&connection.take(), stream) as usize;
        send(&mut connection, stream, window);
        sent += window as u64;
    }
    assert_eq!((connection.fault(), connection.receive.streams()), (None, 128));
    let limits = &connection.shared.limits;
    let most = limits.h2_streams * limits.h2_window_bytes + limits.h2_window_most_bytes / 4;
    assert_eq!(sent, most);
    assert!(most < 4 << 20, "of one connection");
}

#[test]
fn no_way_in_which_a_stream_ends_keeps_some_of_the_connections_window() {
    let mut connection = Connection::greeted();
    connection.reads = false;
    let mut view = PeerView { connection: WINDOW, sent: 0 };
    for round in 0..400u32 {
        connection.now = 10_000 * u64::from(round);
        let id = 2 * round + 1;
        connection.hear(&request(id, POST, &[]));
        // Padding counts, too.
        let mut payload = vec![200];
        payload.extend_from_slice(&[b'x'; 7000]);
        payload.extend_from_slice(&[0; 200]);
        for _ in 0..3 {
            connection.hear(&frame(DATA, 8, id, &payload));
            view.sent += payload.len() as i64;
        }
        // Half of a frame has come when it ends.
        let cut = frame(DATA, 0, id, &[b'x'; 1000]);
        connection.hear(&cut[..500]);
        view.sent += 1000;
        let shared = &connection.shared;
        match round % 4 {
            0 => connection.receive.release(id, shared, 0),
            1 => connection.receive.was_cut(id, shared, 0),
            2 => connection.receive.read(id, 20_000, shared, 0),
            _ => {}
        }
        connection.hear(&cut[500..]);
        if round % 4 == 3 {
            connection.hear(&frame(RST_STREAM, 0, id, &8u32.to_be_bytes()));
        }
        // What comes behind a cut is dropped, and counts as read.
        if round % 4 < 2 {
            connection.hear(&frame(DATA, 1, id, &[b'x'; 3000]));
            view.sent += 3000;
        }
        connection.receive.release(id, &connection.shared, connection.now);
        view.connection += increments(&connection.take(), 0);
        assert!(connection.fault().is_none(), "{round}: {:?}", connection.events.last());
        let left = view.connection - view.sent;
        assert!(left >= WINDOW / 2, "round {round}: {left} of a window are left");
    }
}

#[test]
fn padding_is_given_back_while_its_stream_goes_on() {
    let mut connection = Connection::greeted();
    connection.hear(&request(1, POST, &[]));
    let mut padded = vec![0; 1 + 16 + 255];
    padded[0] = 255;
    // 2 MB of it, with content that is read.
    (0..8000).for_each(|_| connection.hear(&frame(DATA, 8, 1, &padded)));
    assert_eq!((connection.fault(), connection.events.len()), (None, 2));
}

#[test]
fn a_stream_counts_until_its_call_is_over() {
    let mut connection = Connection::with(|shared| shared.limits.h2_streams = 1);
    connection.hear(&request(1, GET, &[]));
    connection.hear(&frame(RST_STREAM, 0, 1, &8u32.to_be_bytes()));
    connection.hear(&request(3, GET, &[]));
    assert_eq!(
        (connection.receive.streams(), connection.take()),
        (1, vec!["RST_STREAM 3 REFUSED_STREAM".into()])
    );
    connection.receive.release(1, &connection.shared, 0);
    connection.hear(&request(5, GET, &[]));
    assert!(connection.events.last().is_some_and(|line| line.starts_with("request: 5")));
}

#[test]
fn a_client_that_still_sends_is_told_that_it_need_not() {
    let mut connection = Connection::greeted();
    connection.hear(&request(1, POST, &[("content-length", "100")]));
    assert_eq!(connection.answer(1, b"no"), 2);
    let said = connection.take();
    assert_eq!(said, ["HEADERS 1 0x4 1", "DATA 1 0x1 2", "RST_STREAM 1 NO_ERROR"]);
    // What was under way is dropped without a word.
    connection.events.clear();
    connection.hear(&frame(DATA, 1, 1, b"late"));
    assert_eq!((connection.take(), connection.events.len()), (vec![], 0));
}

#[test]
fn each_patience_ends_when_the_limit_says() {
    let limits = Limits::default();
    let partial = [&hello()[..], &request(1, GET, &[])[..20]].concat();
    let settings = [&PREFACE[..], &frame(SETTINGS, 0, 0, b"")].concat();
    for (bytes, patience, fault) in [
        (&b""[..], limits.first_byte_timeout, "idle"),
        (&PREFACE[..7], limits.header_timeout, "frame-too-slow"),
        (&PREFACE[..], limits.header_timeout, "frame-too-slow"),
        (&settings, 10_000, "settings-timeout"),
        (&partial, limits.header_timeout, "frame-too-slow"),
        (&hello(), limits.keep_alive_timeout, "idle"),
    ] {
        let mut connection = Connection::new(Shared::new(limits.clone(), Policy::default()));
        connection.hear(bytes);
        assert_eq!(connection.receive.deadline(&connection.shared.limits), Some(patience), "{fault}");
        for (now, ended) in [(patience - 1, None), (patience, Some(fault))] {
            connection.now = now;
            connection.tick();
            assert_eq!(connection.fault(), ended);
        }
        assert!(connection.receive.is_over());
    }
}

#[test]
fn the_time_of_an_idle_connection_begins_when_its_last_stream_is_over() {
    let mut connection = Connection::greeted();
    connection.hear(&request(1, GET, &[]));
    assert_eq!(
        connection.receive.deadline(&connection.shared.limits),
        None,
        "it waits for nothing but its own side"
    );
    connection.now = 70_000;
    assert_eq!(connection.answer(1, b"late"), 4);
    let idle = connection.shared.limits.keep_alive_timeout;
    assert_eq!(connection.receive.deadline(&connection.shared.limits), Some(70_000 + idle));
}

#[test]
fn no_byte_extends_the_time_of_a_block() {
    let mut connection = Connection::greeted();
    let head = request(1, GET, &[("x", "a long value that comes byte by byte")]);
    for (place, byte) in head.iter().enumerate() {
        connection.now = 1000 * place as u64;
        connection.tick();
        connection.hear(&[*byte]);
        if connection.fault().is_some() {
            break;
        }
    }
    assert_eq!((connection.fault(), connection.now), (Some("frame-too-slow"), 10_000));
}

#[test]
fn a_body_that_stalls_is_refused_and_one_that_may_not_come_is_not() {
    let mut connection = Connection::greeted();
    connection.reads = false;
    connection.hear(&[request(1, POST, &[]), request(3, POST, &[])].concat());
    send(&mut connection, 1, 256 * 1024);
    let grace = connection.shared.limits.body_grace;
    for (now, refused) in [(grace - 1, 0), (grace, 1)] {
        connection.now = now;
        connection.tick();
        let lines = connection.events.iter().filter(|line| line.starts_with("refused: "));
        assert_eq!(lines.clone().count(), refused);
        assert!(lines.clone().all(|line| line == "refused: 3 408 body-too-slow"));
    }
    // Its window is used up; when it is given back, its time begins.
    connection.now = 100_000;
    connection.tick();
    connection.receive.read(1, 256 * 1024, &connection.shared, 100_000);
    connection.hear(&frame(DATA, 0, 1, b"more"));
    connection.now = 100_000 + connection.shared.limits.body_idle_timeout;
    connection.tick();
    assert_eq!(connection.events.last().map(String::as_str), Some("refused: 1 408 body-stalled"));
}

#[test]
fn what_nobody_asks_for_is_not_slow() {
    let limits = Limits::default();
    let (head, body) = (limits.header_timeout, limits.body_grace);
    let mut connection = Connection::greeted();
    connection.hear(&[&request(1, POST, &[])[..], &request(3, GET, &[])[..20]].concat());
    let deadline = |connection: &Connection| connection.receive.deadline(&connection.shared.limits);
    let before = deadline(&connection);
    connection.receive.reader_paused(100_000);
    assert_eq!(deadline(&connection), before.map(|at| at + 100_000));
    for (now, fault) in [(100_000 + head.min(body) - 1, None), (100_000 + head, Some("frame-too-slow"))] {
        connection.now = now;
        connection.tick();
        assert_eq!(connection.fault(), fault);
    }
}

#[test]
fn a_body_is_not_slow_while_another_holds_the_connections_window() {
    let mut connection = Connection::with(|shared| {
        shared.limits.h2_connection_window_bytes = 65_535;
        (shared.limits.h2_window_bytes, shared.limits.h2_window_most_bytes) = (256 * 1024, 0);
    });
    connection.reads = false;
    connection.hear(&[request(1, POST, &[]), request(3, POST, &[])].concat());
    send(&mut connection, 1, 65_535);
    connection.now = 50_000;
    connection.tick();
    assert_eq!(connection.events.len(), 3, "{:?}", connection.events);
    // Read again: from here on both have their time.
    connection.receive.read(1, 65_535, &connection.shared, 50_000);
    connection.tick();
    assert_eq!(connection.events.len(), 3, "{:?}", connection.events);
    connection.now = 50_000 + connection.shared.limits.body_grace;
    connection.tick();
    assert_eq!(connection.events.last().map(String::as_str), Some("refused: 3 408 body-too-slow"));
}

#[test]
fn a_websocket_has_neither_the_size_nor_the_pace_of_a_body() {
    let mut connection = Connection::with(|shared| shared.limits.body_bytes = 10);
    let mut fields = block(&[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https")]);
    fields.extend(block(&[(":path", "/"), (":authority", "a")]));
    connection.hear(&frame(1, POST, 1, &fields));
    for hour in 0..10u64 {
        connection.now = hour * 3_600_000;
        connection.tick();
        connection.hear(&frame(DATA, 0, 1, &[b'm'; 100]));
    }
    assert_eq!(connection.receive.deadline(&connection.shared.limits), None);
    assert_eq!((connection.events.len(), connection.fault()), (2, None), "{:?}", connection.events);
    connection.hear(&frame(DATA, 1, 1, b""));
    assert_eq!(connection.events.last().map(String::as_str), Some("end: 1"));
}

#[test]
fn a_graceful_end_answers_what_was_asked_before_it_was_heard() {
    for by_ping in [true, false] {
        let mut connection = Connection::greeted();
        connection.hear(&request(1, GET, &[]));
        connection.receive.leave(0);
        connection.receive.leave(0);
        assert_eq!(connection.take(), ["GOAWAY 0 2147483647 NO_ERROR", "PING 0 0x0 8"]);
        connection.hear(&request(3, GET, &[]));
        if by_ping {
            connection.hear(&frame(PING, 1, 0, b"parting."));
        } else {
            connection.now = 999;
            connection.tick();
            assert_eq!(connection.take(), [""; 0]);
            connection.now = 1000;
            connection.tick();
        }
        assert_eq!(connection.take(), ["GOAWAY 0 3 NO_ERROR"]);
        connection.events.clear();
        // Too late; its block still counts for the table.
        connection.hear(&request(5, GET, &[]));
        assert_eq!(connection.events, [""; 0]);
        assert!(!connection.receive.is_over());
        for stream in [1, 3] {
            assert_eq!(connection.answer(stream, b"bye"), 3);
        }
        assert!(connection.receive.is_over());
        assert_eq!(connection.take().len(), 4);
    }
}

#[test]
fn an_end_in_the_middle_of_a_body_cuts_its_stream() {
    let mut connection = Connection::greeted();
    connection.hear(&[request(1, POST, &[]), request(3, GET, &[]), request(5, POST, &[])].concat());
    let mut cut = Vec::new();
    while let Event::Reset { stream, .. } = connection.receive.eof(&connection.shared, 0) {
        cut.push(stream);
    }
    assert_eq!(cut, [1, 5]);
}

#[test]
fn small_frames_that_nobody_reads_are_counted_from_the_limit_on() {
    for (count, glitches) in [(63, 0), (64, 0), (65, 1)] {
        let mut connection = Connection::greeted();
        connection.reads = false;
        connection.hear(&request(1, POST, &[]));
        (0..count).for_each(|_| connection.hear(&frame(DATA, 0, 1, &[b'a'; 63])));
        assert_eq!(connection.receive.glitches(), glitches);
        connection.receive.read(1, 1 << 20, &connection.shared, 0);
        (0..64).for_each(|_| connection.hear(&frame(DATA, 0, 1, &[b'a'; 63])));
        assert_eq!(connection.receive.glitches(), glitches, "they were read: it begins again");
    }
}

#[test]
fn answers_wait_up_to_the_limit() {
    for (room, pings) in [(16, 1), (17, 2), (33, 2), (34, 3)] {
        let mut connection = Connection::greeted();
        connection.shared.limits.h2_control_bytes = room;
        let mut taken = 0;
        while connection.fault().is_none() {
            connection.hear(&frame(PING, 0, 0, b"12345678"));
            taken += 1;
        }
        assert_eq!((connection.fault(), taken - 1), (Some("control-queue"), pings), "{room}");
    }
}

#[test]
fn a_smaller_table_holds_from_its_acknowledgement_on() {
    for (size, update, good) in [(100, 0x45, true), (100, 0x46, false), (4096, 0xe1, true)] {
        let mut connection = Connection::new(Shared::new(Limits::default(), Policy::default()));
        connection.shared.limits.h2_table_bytes = size;
        connection.receive = Receive::new(0, false, &connection.shared, 0);
        connection.hear(&hello());
        let fields = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")]);
        let resize: &[u8] = if update == 0xe1 { &[0x3f, 0xe1, 0x1f] } else { &[0x3f, update] };
        connection.hear(&frame(1, GET, 1, &[resize, &fields].concat()));
        assert_eq!(connection.fault(), (!good).then_some("compression"), "{size} {update:#x}");
    }
}

#[test]
fn a_block_that_repeats_is_the_same_head() {
    let mut shared = Shared::new(Limits::default(), Policy::default());
    // No cache but the connection's own.
    shared.limits.cached_heads = 0;
    let mut shared = Shared::new(shared.limits, Policy::default());
    let mut receive = Receive::new(0, false, &shared, 0);
    let mut heads = Vec::new();
    let adds = [&[0x82, 0x86, 0x84, 0x41, 1, b'a'][..]].concat();
    let says = vec![0x82, 0x86, 0x84, 0xbe];
    let other = [&[0x82, 0x86, 0x84, 0x41, 1, b'b'][..]].concat();
    let mut input = hello();
    for (place, fields) in [&adds, &says, &says, &other, &says, &says].iter().enumerate() {
        input.extend(frame(1, GET, 2 * place as u32 + 1, fields));
    }
    let mut rest = &input[..];
    loop {
        match receive.advance(&mut rest, &mut shared, 0) {
            Event::Request(request) => heads.push(request.head),
            Event::NeedMore => break,
            Event::Fault(wrong) => panic!("{}", wrong.text),
            _ => {}
        }
    }
    let hosts: Vec<_> = heads.iter().map(|head| head.host().expect("a host").to_vec()).collect();
    assert_eq!(hosts, [b"a", b"a", b"a", b"b", b"b", b"b"], "what a block says depends on the table");
    // A block that adds to the table adds each time.
    let second = [0x82, 0x86, 0x84, 0xc0];
    let twice = [frame(1, GET, 21, &adds), frame(1, GET, 23, &adds), frame(1, GET, 25, &second)].concat();
    let mut rest = &twice[..];
    let mut third = None;
    while let Event::Request(request) = receive.advance(&mut rest, &mut shared, 0) {
        third = request.head.host().map(<[u8]>::to_vec);
    }
    assert_eq!(third, Some(b"b".to_vec()), "the third newest");
    let same: Vec<_> = heads.windows(2).map(|pair| Arc::ptr_eq(&pair[0], &pair[1])).collect();
    assert_eq!(same, [false, true, false, false, true]);
}
