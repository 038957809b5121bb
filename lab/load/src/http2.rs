//! HTTP/2 of one connection, by the `h2` crate: bytes in and out, judgements of replies out. Knows no socket; a client's.
//!
//! ```text
//! come(bytes) ──► turn: connection ◄─► streams whose flag is up ──► outcomes
//! ask(request) ─┘                                              └──► output
//! ```
//!
//! The library is written for an asynchronous runtime, and there is none here: it reads from and writes to memory, what it wakes is
//! a flag, and a turn polls until no flag is up.

mod pipe;
mod stream;

pub use stream::{Asked, Stream};

use crate::client::Flight;
use crate::job::Job;
use crate::kinds::Wrong;
use crate::reply::{LONGEST_HEAD, Reply};
use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, Connection, SendRequest};
use pipe::{Ends, Pipe};
use std::cell::RefCell;
use std::future::Future as _;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stream::Flag;

/// Windows as wide as a browser's (Chromium's), so that a load over a network measures the server and not us.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;

/// Why a stream has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Wrong(Wrong),
    /// The server is going away and has not looked at it: it is to be asked elsewhere (RFC 9113 section 6.8).
    Unseen,
}

impl Lost {
    fn by(error: &h2::Error) -> Lost {
        let reason = error.reason();
        Lost::Wrong(match (error.is_remote(), error.is_go_away()) {
            (true, true) if reason == Some(Reason::NO_ERROR) => return Lost::Unseen,
            (true, true) => Wrong::GoAway,
            (true, false) if reason == Some(Reason::REFUSED_STREAM) => Wrong::StreamRefused,
            (true, false) => Wrong::StreamReset,
            // What the server sent is not HTTP/2, as the library has it.
            (false, _) => Wrong::BadHttp2,
        })
    }
}

/// A request that is over.
#[derive(Debug)]
pub struct Outcome {
    pub flight: Flight,
    pub was_sent: bool,
    pub came: Result<Reply, Lost>,
}

pub struct Http2 {
    ends: Rc<RefCell<Ends>>,
    sender: SendRequest<Bytes>,
    connection: Connection<Pipe, Bytes>,
    flag: Arc<Flag>,
    waker: Waker,
    pub streams: Vec<Stream>,
    /// Nothing new may be asked on it.
    closing: bool,
    /// Its streams are being looked at: what is asked meanwhile goes out at the end of that.
    pub busy: bool,
}

impl Http2 {
    /// The preface and our settings are ready to be sent. None only where the library refuses its own configuration.
    pub fn begin() -> Option<Http2> {
        let ends = Rc::<RefCell<Ends>>::default();
        let flag = Flag::raised();
        let waker = Waker::from(Arc::clone(&flag));
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(LONGEST_HEAD as u32);
        let handshake = pin!(builder.handshake(Pipe(Rc::clone(&ends))));
        // It only writes, and memory has room.
        let Poll::Ready(Ok((sender, connection))) = handshake.poll(&mut Context::from_waker(&waker)) else {
            return None;
        };
        Some(Http2 {
            ends,
            sender,
            connection,
            flag,
            waker,
            streams: Vec::new(),
            closing: false,
            busy: false,
        })
    }

    /// Whether one more may be on its way, of `most` that the load wants and as many as the server allows.
    pub fn has_room(&self, most: usize) -> bool {
        !self.closing && self.streams.len() < most.min(self.sender.current_max_send_streams())
    }

    /// Whether the server has said that it ends this connection.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Begins a stream; false where the connection takes no more.
    pub fn ask(&mut self, flight: Flight, asked: &Asked) -> bool {
        let made = self.sender.send_request(asked.head.clone(), asked.body.is_empty());
        match made {
            Ok(made) => self.streams.push(Stream::new(flight, asked, made)),
            Err(_) => self.closing = true,
        }
        !self.closing
    }

    pub fn come(&self, bytes: &[u8]) {
        self.ends.borrow_mut().come(bytes);
    }

    /// Looks at everything that there is news of. What is over is added to `outcomes`; Some: so is the connection.
    pub fn turn(&mut self, job: &Job, now: u64, outcomes: &mut Vec<Outcome>) -> Option<Result<(), Wrong>> {
        loop {
            self.flag.lower();
            let over = Pin::new(&mut self.connection).poll(&mut Context::from_waker(&self.waker));
            let mut place = 0;
            while let Some(stream) = self.streams.get_mut(place) {
                let came = if stream.flag.lower() { stream.progress(job, now) } else { Poll::Pending };
                let Poll::Ready(came) = came else {
                    place += 1;
                    continue;
                };
                self.closing |= came == Err(Lost::Unseen);
                let stream = self.streams.swap_remove(place);
                outcomes.push(Outcome { flight: stream.flight, was_sent: stream.is_sent(), came });
            }
            match over {
                Poll::Ready(Ok(())) => return Some(Ok(())),
                Poll::Ready(Err(error)) => {
                    return Some(match Lost::by(&error) {
                        Lost::Wrong(wrong) => Err(wrong),
                        Lost::Unseen => Ok(()),
                    });
                }
                Poll::Pending if self.flag.is_up() => {}
                Poll::Pending => return None,
            }
        }
    }

    /// Streams whose time is up are given up, and the server is told at the next turn.
    pub fn expire(&mut self, now: u64, outcomes: &mut Vec<Outcome>) {
        let mut place = 0;
        while let Some(stream) = self.streams.get(place) {
            if stream.limit > now {
                place += 1;
                continue;
            }
            let began = stream.flight.first_byte > 0;
            let wrong = if began { Wrong::BodyTimeout } else { Wrong::FirstByteTimeout };
            let stream = self.streams.swap_remove(place);
            let came = Err(Lost::Wrong(wrong));
            outcomes.push(Outcome { flight: stream.flight, was_sent: stream.is_sent(), came });
        }
    }

    /// The first moment at which a stream's time is up.
    pub fn limit(&self) -> Option<u64> {
        self.streams.iter().map(|stream| stream.limit).min()
    }

    /// Whether bytes wait to be sent.
    pub fn has_output(&self) -> bool {
        !self.ends.borrow().output().is_empty()
    }

    /// Gives what waits to `write`, which says how much of it went out.
    pub fn output(&self, write: impl FnOnce(&[u8]) -> usize) {
        let count = write(self.ends.borrow().output());
        self.ends.borrow_mut().sent(count);
    }
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Http2").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}
