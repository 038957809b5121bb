//! The two ends of a connection in memory: the `h2` crate wants to read and write by itself, and here it may not touch a socket.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that have come and were not looked at, and bytes that wait to be sent.
#[derive(Debug, Default)]
pub struct Ends {
    incoming: Vec<u8>,
    looked_at: usize,
    outgoing: Vec<u8>,
    sent: usize,
}

impl Ends {
    pub fn come(&mut self, bytes: &[u8]) {
        if self.looked_at == self.incoming.len() {
            self.incoming.clear();
            self.looked_at = 0;
        }
        self.incoming.extend_from_slice(bytes);
    }

    pub fn output(&self) -> &[u8] {
        &self.outgoing[self.sent..]
    }

    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.outgoing.len() {
            self.outgoing.clear();
            self.sent = 0;
        }
    }
}

/// What the library holds of them.
#[derive(Debug)]
pub struct Pipe(pub Rc<RefCell<Ends>>);

impl AsyncRead for Pipe {
    /// Never at the end: an end is dealt with where the socket is read.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let ends = &mut *self.0.borrow_mut();
        let new = &ends.incoming[ends.looked_at..];
        if new.is_empty() {
            // Whoever puts bytes here polls the connection next, so that nobody needs to be woken.
            return Poll::Pending;
        }
        let count = new.len().min(room.remaining());
        room.put_slice(&new[..count]);
        ends.looked_at += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
