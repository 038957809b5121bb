//! Streams that share one sending half.
//!
//! What must hold: each stream's bytes come out in its order, no frame inside another, nothing twice; and nothing is
//! left behind: when the transport has room and everybody has returned, all of it is sent. Whoever left its bytes to
//! another thread, and an edge that came while somebody was writing, must not be lost.

use std::io;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use reactor::Sent;
use server::send_half::{Closed, Framing, SendHalf, Written};

/// A frame: the stream, then what it is.
struct Frames;

impl Framing for Frames {
    fn head(&mut self, stream: u32, head: &[u8], _end: bool, out: &mut Vec<u8>) {
        out.push(stream as u8);
        out.extend_from_slice(head);
    }

    fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&[stream as u8, content[0]]);
        if end && content.len() == 1 {
            self.end(stream, out);
        }
        1
    }

    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&[stream as u8, b'.']);
    }

    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&[stream as u8, b'!']);
    }
}

/// A transport with room for so many bytes; a byte a call, so that frames are cut.
#[derive(Default)]
struct Peer {
    room: AtomicUsize,
    got: Mutex<Vec<u8>>,
}

impl Peer {
    fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        let mut got = self.got.lock().unwrap();
        if self.room.load(Ordering::Relaxed) == 0 {
            return Ok(Sent::Full);
        }
        self.room.fetch_sub(1, Ordering::Relaxed);
        got.push(bytes[0]);
        Ok(Sent::Some(1))
    }

    /// Room is made, which the kernel tells once.
    fn take(&self, more: usize) {
        let got = self.got.lock().unwrap();
        self.room.fetch_add(more, Ordering::Relaxed);
        drop(got);
    }

    fn frames(&self) -> Vec<(u8, u8)> {
        self.got.lock().unwrap().chunks(2).map(|frame| (frame[0], frame[1])).collect()
    }
}

fn of(frames: &[(u8, u8)], stream: u8) -> Vec<u8> {
    frames.iter().filter(|frame| frame.0 == stream).map(|frame| frame.1).collect()
}

#[test]
fn replies_of_two_streams_come_out_whole_and_in_order() {
    loom::model(|| {
        let peer = Arc::new(Peer::default());
        peer.take(100);
        let half = Arc::new(SendHalf::new(Frames));
        half.open(1);
        half.open(2);
        let reply = |stream: u32| {
            let (half, peer) = (Arc::clone(&half), Arc::clone(&peer));
            thread::spawn(move || {
                half.send(stream, b"h", &[], false).unwrap();
                let _ = half.write(|bytes| peer.send(bytes));
                half.end(stream);
                let _ = half.write(|bytes| peer.send(bytes));
            })
        };
        let (one, two) = (reply(1), reply(2));
        one.join().unwrap();
        two.join().unwrap();
        let frames = peer.frames();
        assert_eq!(
            (of(&frames, 1), of(&frames, 2)),
            (b"h.".to_vec(), b"h.".to_vec()),
            "nothing is left behind"
        );
        assert_eq!(half.waiting(), 0);
    });
}

#[test]
fn an_edge_that_comes_while_somebody_writes_is_not_lost() {
    loom::model(|| {
        let peer = Arc::new(Peer::default());
        peer.take(1);
        let half = Arc::new(SendHalf::new(Frames));
        half.open(1);
        let writer = {
            let (half, peer) = (Arc::clone(&half), Arc::clone(&peer));
            thread::spawn(move || {
                half.send(1, b"h", &[], false).unwrap();
                half.write(|bytes| peer.send(bytes))
            })
        };
        peer.take(3);
        // The loop is told so, once.
        let edge = half.write(|bytes| peer.send(bytes));
        let written = writer.join().unwrap();
        let all = peer.got.lock().unwrap().len() == 2;
        assert!(all, "the edge found {edge:?}, the writer {written:?}, and nobody will come again");
    });
}

#[test]
fn a_stream_that_is_cut_sends_nothing_more_and_the_other_all_of_its_own() {
    loom::model(|| {
        let peer = Arc::new(Peer::default());
        peer.take(100);
        let half = Arc::new(SendHalf::new(Frames));
        half.open(1);
        half.open(2);
        let sender = {
            let (half, peer) = (Arc::clone(&half), Arc::clone(&peer));
            thread::spawn(move || {
                let sent = half.content(1, b"c", true);
                let _ = half.write(|bytes| peer.send(bytes));
                sent
            })
        };
        let cutter = {
            let (half, peer) = (Arc::clone(&half), Arc::clone(&peer));
            thread::spawn(move || {
                half.reset(1);
                let _ = half.write(|bytes| peer.send(bytes));
            })
        };
        half.content(2, b"c", true).unwrap();
        let _ = half.write(|bytes| peer.send(bytes));
        let sent = sender.join().unwrap();
        cutter.join().unwrap();
        let frames = peer.frames();
        let expected: &[&[u8]] = if sent == Err(Closed) { &[b"!"] } else { &[b"c.", b"c!"] };
        assert!(expected.contains(&of(&frames, 1).as_slice()), "{frames:?}");
        assert_eq!(of(&frames, 2), b"c.");
    });
}

#[test]
fn a_connection_that_breaks_closes_all_of_its_streams() {
    loom::model(|| {
        let half = Arc::new(SendHalf::new(Frames));
        half.open(1);
        half.open(2);
        half.send(1, b"h", &[], false).unwrap();
        let other = Arc::clone(&half);
        let writer = thread::spawn(move || other.write(|_| Err(io::ErrorKind::BrokenPipe.into())));
        let _ = half.send(2, b"h", &[], false);
        let _ = half.write(|_| Err(io::ErrorKind::BrokenPipe.into()));
        let _ = writer.join().unwrap();
        assert_eq!(half.write(|_| panic!("nobody is there")).0, Written::Broken);
        assert_eq!(
            (half.send(1, b"h", &[], false), half.content(2, b"c", false)),
            (Err(Closed), Err(Closed))
        );
    });
}
