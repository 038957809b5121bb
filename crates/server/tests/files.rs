//! Files beside everything else: how many are served before others have their turn, and by whom, counted over real
//! sockets and without a clock.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use server::baton::{Lead, Next};
use server::engine::Config;
use server::evented::{After, Evented};
use server::files::Mount;
use server::log::Log;
use server::turn::Loop;

const FILES: usize = 1000;
/// What an event loop has waited for at the most: two rounds of sixty-four, and what was read together with the last.
const A_TURN: u64 = 2 * (64 + 16);

/// A loop that serves a folder with the file `a` below `/s`, a client of it, and what both need.
fn serving(evented: bool) -> (Loop, TcpStream, (tempfile::TempDir, TcpListener)) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), "content").expect("a file");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a flag");
    let fd = reactor::sys::ListenerFd::new(listener.as_raw_fd()).expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let mount = Mount { prefix: b"/s".to_vec(), root: folder.path().into(), ..Mount::default() };
    let config = Config { mounts: vec![mount], evented, ..Config::default() };
    let turn = Loop::new(config, Log::none(), vec![fd.into()]).expect("a loop");
    (turn, client, (folder, listener))
}

fn ask(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Reads replies until the content has come so often.
fn read(client: &mut TcpStream, replies: usize) {
    // Of what was read before, the end of a content that is not whole.
    let (mut seen, mut rest, mut room) = (0, Vec::new(), [0; 65536]);
    while seen < replies {
        let got = client.read(&mut room).expect("a reply");
        assert!(got > 0, "the connection has ended");
        rest.extend_from_slice(&room[..got]);
        while let Some(at) = rest.windows(7).position(|bytes| bytes == b"content") {
            seen += 1;
            rest.drain(..at + 7);
        }
    }
}

#[test]
fn an_event_loop_does_other_things_between_files_of_a_pipeline() {
    let (turn, mut client, _kept) = serving(true);
    let mut evented = Evented::new(turn).expect("an event loop's end");
    let mut reader = client.try_clone().expect("the same connection");
    let reading = thread::spawn(move || read(&mut reader, FILES));
    client.write_all(&ask("/s/a").repeat(FILES)).expect("room");
    let served = |evented: &Evented| evented.engine().counters.static_replies.get();
    let (mut requests, mut wakeups) = (Vec::new(), Vec::new());
    let mut turns = 0;
    while served(&evented) < FILES as u64 {
        let before = served(&evented);
        let after = evented.turn(&mut requests, &mut wakeups);
        let now = served(&evented) - before;
        assert!(now <= A_TURN, "{now} files in one turn");
        assert_ne!(after, After::Ended);
        turns += usize::from(now > 0);
    }
    assert!(turns >= FILES / A_TURN as usize, "{turns} turns");
    assert!(requests.is_empty(), "the application is not asked");
    while !reading.is_finished() {
        evented.turn(&mut requests, &mut wakeups);
    }
    reading.join().expect("all replies");
}

#[test]
fn files_are_served_by_whoever_waits_for_work_and_only_the_application_calls_it_back() {
    let (mut turn, mut client, _kept) = serving(false);
    let asking = thread::spawn(move || {
        for _ in 0..FILES {
            client.write_all(&ask("/s/a")).expect("room");
            read(&mut client, 1);
        }
        client.write_all(&ask("/page")).expect("room");
        client
    });
    let mut waits = 0;
    loop {
        match turn.next() {
            Next::Ready(exchange) => {
                assert_eq!(exchange.head.path(), b"/page");
                break;
            }
            Next::Quiet => {
                waits += 1;
                turn.wait();
            }
            Next::Ended => panic!("the loop has ended"),
        }
    }
    assert_eq!(turn.engine().counters.static_replies.get(), FILES as u64);
    // The first look asks a thread for the disk, which wakes the loop; the timer may, too.
    assert!(waits <= FILES / 10, "the interpreter was wanted {waits} times for {FILES} files");
    drop(asking.join().expect("all replies"));
}
