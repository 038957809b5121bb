//! One stream: a request on its way, and what has come of its reply. Knows no connection; its worker's thread.

use super::Lost;
use crate::client::Flight;
use crate::job::Job;
use crate::reply::{Body, Expectation, Reply};
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A request as the library takes it.
#[derive(Debug)]
pub struct Asked {
    pub head: Request<()>,
    pub body: Bytes,
    /// DATA frames are no longer than this.
    pub piece: usize,
}

/// Whether there is news for a stream or a connection. The library wakes; who waits looks.
#[derive(Debug)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn raised() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    /// Whether it was up; it is down now.
    pub(super) fn lower(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Flag>) {
        self.0.store(true, Ordering::Release);
    }
}

/// What is still to be sent of a body.
#[derive(Debug)]
struct Sending {
    stream: SendStream<Bytes>,
    left: Bytes,
    piece: usize,
}

impl Sending {
    /// Gives away as much as the server's window lets it: Ready when nothing is left, or the server wants no more.
    fn poll(&mut self, task: &mut Context<'_>, moved: &mut bool) -> Poll<()> {
        while !self.left.is_empty() {
            self.stream.reserve_capacity(self.left.len().min(self.piece));
            match self.stream.poll_capacity(task) {
                Poll::Ready(Some(Ok(room))) if room > 0 => {
                    let part = self.left.split_to(room.min(self.left.len()).min(self.piece));
                    *moved = true;
                    if self.stream.send_data(part, self.left.is_empty()).is_err() {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(Some(Ok(_))) | Poll::Pending => return Poll::Pending,
                // The reply says why.
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

#[derive(Debug)]
enum Receiving {
    Head(ResponseFuture),
    Body(RecvStream),
}

#[derive(Debug)]
pub struct Stream {
    pub flight: Flight,
    /// Its timeout.
    pub limit: u64,
    pub(super) flag: Arc<Flag>,
    waker: Waker,
    sending: Option<Sending>,
    receiving: Receiving,
    status: u16,
    announced: Option<u64>,
    body: Body,
}

impl Stream {
    pub(super) fn new(
        flight: Flight,
        asked: &Asked,
        (response, sender): (ResponseFuture, SendStream<Bytes>),
    ) -> Stream {
        let flag = Flag::raised();
        let sending = (!asked.body.is_empty()).then(|| Sending {
            stream: sender,
            left: asked.body.clone(),
            piece: asked.piece,
        });
        Stream {
            flight,
            limit: u64::MAX,
            waker: Waker::from(Arc::clone(&flag)),
            flag,
            sending,
            receiving: Receiving::Head(response),
            status: 0,
            announced: None,
            body: Body::default(),
        }
    }

    /// Whether all of the request went out.
    pub fn is_sent(&self) -> bool {
        self.sending.is_none()
    }

    /// Does what can be done now.
    pub(super) fn progress(&mut self, job: &Job, now: u64) -> Poll<Result<Reply, Lost>> {
        let waker = self.waker.clone();
        let task = &mut Context::from_waker(&waker);
        self.send(task, job, now);
        let expected = &job.templates[self.flight.template as usize].expected;
        if let Receiving::Head(response) = &mut self.receiving {
            let reply = match Pin::new(response).poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Lost::by(&error))),
                Poll::Ready(Ok(reply)) => reply,
            };
            self.flight.first_byte = now.max(1);
            self.limit = now + job.body_limit;
            self.status = reply.status().as_u16();
            if expected.head {
                self.announced = length(reply.headers());
            }
            self.receiving = Receiving::Body(reply.into_body());
        }
        self.receive(task, expected)
    }

    fn send(&mut self, task: &mut Context<'_>, job: &Job, now: u64) {
        let mut moved = self.limit == u64::MAX;
        if let Some(sending) = &mut self.sending
            && sending.poll(task, &mut moved).is_ready()
        {
            self.sending = None;
        }
        if moved && self.flight.first_byte == 0 {
            self.limit = now + job.first_byte_limit;
            if self.is_sent() {
                self.flight.sent = now.max(1);
            }
        }
    }

    fn receive(&mut self, task: &mut Context<'_>, expected: &Expectation) -> Poll<Result<Reply, Lost>> {
        let Receiving::Body(stream) = &mut self.receiving else { return Poll::Pending };
        loop {
            match stream.poll_data(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(part))) => {
                    self.body.take(&part, expected);
                    // It fails only where the stream is over, and then its window matters to nobody.
                    let _ = stream.flow_control().release_capacity(part.len());
                }
                Poll::Ready(Some(Err(error)))
                    if error.reason() == Some(Reason::NO_ERROR) && error.is_reset() =>
                {
                    // RFC 9113 section 8.1: the reply is whole, and the rest of the request is not wanted.
                    break;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(Lost::by(&error))),
                Poll::Ready(None) => break,
            }
        }
        match stream.poll_trailers(task) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) if error.reason() != Some(Reason::NO_ERROR) => {
                return Poll::Ready(Err(Lost::by(&error)));
            }
            Poll::Ready(_) => {}
        }
        let wrong = self.body.judge(self.status, self.announced, expected);
        Poll::Ready(Ok(Reply { status: self.status, keeps_alive: true, wrong }))
    }
}

/// What Content-Length says, where it is a number.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
