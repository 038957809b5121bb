//! Connections whose bodies are being written to their files, on the spool's thread.
//!
//! Knows: who is with that thread, and who comes back from it. Does not know: the loop, which is woken when a
//! connection comes back. The loop gives and takes under the baton.
//!
//! ```text
//!   loop: reads ─► BodyBuffer ── large ──► connection given to the spool ─► thread: write(2)
//!     ▲                                                                            │
//!     └──────────── woken, takes what has been stored and goes on reading ─────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use reactor::Waker;

use crate::body::BodyBuffer;
use crate::connection::Connection;
use crate::inbox::Inbox;
use crate::spool::Spool;

/// A body that was written, or could not be. True in a result: its file was made now.
pub(crate) enum Stored {
    Connection(Box<Connection>, io::Result<bool>),
    /// That of a stream, whose connection has stayed: by the connection's token and its number.
    Stream {
        token: u64,
        stream: u32,
        body: BodyBuffer,
        result: io::Result<bool>,
    },
}

/// The loop's end of the spool.
pub(crate) struct Storing {
    spool: Arc<Spool>,
    stored: Arc<Inbox<Stored>>,
    waker: Arc<Waker>,
    /// Those that have come back and have not been looked at.
    back: VecDeque<Stored>,
}

impl Storing {
    /// What is stored wakes the loop by this.
    pub fn new(spool: Arc<Spool>, waker: Arc<Waker>) -> Self {
        Self { spool, stored: Arc::default(), waker, back: VecDeque::new() }
    }

    /// Has the body of a connection written; the connection comes back by [`Storing::next`].
    pub fn store(&self, mut connection: Box<Connection>) {
        self.run(move || {
            let result = connection.receiving.as_mut().map_or(Ok(false), |receiving| receiving.body.store());
            Stored::Connection(connection, result)
        });
    }

    /// Has the body of a stream written, while its connection stays.
    pub fn store_stream(&self, (token, stream): (u64, u32), mut body: BodyBuffer) {
        self.run(move || {
            let result = body.store();
            Stored::Stream { token, stream, body, result }
        });
    }

    fn run(&self, job: impl FnOnce() -> Stored + Send + 'static) {
        let (stored, waker) = (Arc::clone(&self.stored), Arc::clone(&self.waker));
        self.spool.run(move || {
            if stored.put(job()) {
                waker.wake();
            }
        });
    }

    /// Takes in those whose bodies have been dealt with since the last call.
    pub fn fetch(&mut self) {
        if self.stored.is_full() {
            self.back.extend(self.stored.take());
        }
    }

    /// The next of those that were fetched.
    #[inline]
    pub fn next(&mut self) -> Option<Stored> {
        self.back.pop_front()
    }

    /// [`Storing::next`] has something.
    #[inline]
    pub fn any(&self) -> bool {
        !self.back.is_empty()
    }
}

impl Drop for Storing {
    /// The loop is no more: what comes back is dropped.
    fn drop(&mut self) {
        self.stored.close();
        self.spool.end();
    }
}
