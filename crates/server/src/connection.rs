//! One connection's life: what has been received, what is being received, what waits to be sent.
//!
//! Knows: its machine and its queues. Does not know: the loop, or who answers. Owned by its
//! slot while it is home and by one thread while its exchange is played.
//!
//! ```text
//!            ┌────────────── the reply is sent, keep-alive ───────────────┐
//!            ▼                                                            │
//!   READING ─► (exchange: away with a thread) ─► FLUSHING ─► close        │
//!      │ fault                                     │  └───────────────────┘
//!      └────────────── refusal ──► FLUSHING ──► LINGERING ──► close
//! ```

use std::io;
use std::sync::Arc;

use reactor::Address;
use wire::{Head, Http1, Limits, Millis};

use crate::body::BodyBuffer;
use crate::output::{Carry, Flushed, Output};
use crate::patience::Patience;
use crate::pending::Pending;
use crate::transport::Transport;

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for requests, or in the middle of one.
    Reading,
    /// The socket is full; what follows when it has taken everything.
    Flushing(After),
    /// Our side has ended; what the peer still sends is read and thrown away, so that it is
    /// not met with a reset before it has read our reply (RFC 9112 §9.6). With nothing left to
    /// read, it only waits: the peer's own writing stops when its buffers are full.
    Lingering { left: u64 },
}

/// What follows a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Continue,
    Close,
    /// Read and throw away at most so many bytes.
    Linger {
        left: u64,
    },
}

/// A request whose body is being received.
pub struct Receiving {
    pub head: Arc<Head>,
    pub body: BodyBuffer,
    /// All of it has arrived; what is in memory is being added to its file.
    pub complete: bool,
}

/// One connection.
pub struct Connection {
    /// Shared with what may have to speak for a thread that is stuck (`tickets.rs`, `Carry`).
    pub transport: Arc<Transport>,
    pub token: u64,
    pub peer: Address,
    /// Which listener it came from.
    pub listener: u16,
    /// The set watches it.
    pub watched: bool,
    /// The socket may hold more, and no edge will tell.
    pub more: bool,
    /// The peer has ended its side, or the connection broke: the edge that said so does not
    /// come again, so there is more to read until a read tells the end.
    pub hung_up: bool,
    pub phase: Phase,
    /// Until when the peer has time to take what waits, or to end while nobody reads.
    pub patience: Patience,
    pub machine: Http1,
    pub pending: Pending,
    pub receiving: Option<Box<Receiving>>,
    pub sending: Sending,
}

/// What waits to be sent, in its two forms.
#[derive(Default)]
pub struct Sending {
    pub output: Option<Box<Output>>,
    pub carry: Option<Arc<Carry>>,
}

impl Sending {
    /// Nothing is queued, and nothing is carried.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.is_none() && self.carry.as_ref().is_none_or(|carry| carry.is_empty())
    }

    /// Bytes that wait, those of files included.
    pub fn waiting(&self) -> u64 {
        self.carry.as_ref().map_or(0, |carry| carry.waiting() as u64)
            + self.output.as_ref().map_or(0, |output| output.left())
    }

    /// Large replies are kept for the peer.
    pub fn keeps(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.keeps())
    }

    /// Sends what is carried, then what is queued; drops the queue when it is empty. With it
    /// comes how much the peer has taken since this was last asked.
    fn flush(&mut self, transport: &Transport, most: usize) -> io::Result<(Flushed, u64)> {
        let mut taken = 0;
        if let Some(carry) = &self.carry {
            let flushed = carry.send()?;
            // Whoever else has sent of it has sent it to this peer.
            taken = carry.take_count();
            if flushed == Flushed::Full {
                if let Some(output) = &mut self.output {
                    output.note_full();
                }
                return Ok((Flushed::Full, taken));
            }
        }
        if let Some(output) = &mut self.output {
            let before = output.left();
            let flushed = output.flush(transport, most)?;
            taken += before - output.left();
            if flushed != Flushed::All {
                return Ok((flushed, taken));
            }
            self.output = None;
        }
        Ok((Flushed::All, taken))
    }
}

impl Connection {
    /// The queue. With the first that waits in it the peer's patience begins.
    pub fn queue(&mut self, limits: &Limits, now: Millis) -> &mut Output {
        if self.sending.is_empty() {
            self.patience = Patience::to_write(limits, now);
        }
        self.sending.output.get_or_insert_with(Box::default)
    }

    /// Sends more of what waits. What the peer takes, and nothing else, renews its patience.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        let most = usize::try_from(limits.send_burst_bytes).unwrap_or(usize::MAX);
        let (flushed, taken) = self.sending.flush(&self.transport, most)?;
        self.patience.earn(taken, limits, now);
        Ok(flushed)
    }

    /// A connection that was just accepted. `variant` names the listener and the trust in
    /// the peer for the head cache.
    pub fn new(transport: Transport, token: u64, peer: (Address, u16), variant: u32, now: Millis) -> Self {
        Self {
            transport: Arc::new(transport),
            token,
            peer: peer.0,
            listener: peer.1,
            watched: false,
            more: true,
            hung_up: false,
            phase: Phase::Reading,
            patience: Patience::of(0, now),
            machine: Http1::new(variant, now),
            pending: Pending::default(),
            receiving: None,
            sending: Sending::default(),
        }
    }

    /// An edge came, now or while it was away.
    #[inline]
    pub fn note_edge(&mut self, readable: bool, hung_up: bool) {
        self.hung_up |= hung_up;
        self.more |= readable | hung_up;
    }

    /// Between requests, with nothing received and nothing to send.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Reading
            && self.machine.idle()
            && self.pending.is_empty()
            && self.receiving.is_none()
            && self.sending.is_empty()
    }

    /// Idle, and nobody here knows its transport but itself: another process may have it.
    pub fn can_leave(&self) -> bool {
        let own =
            self.sending.carry.as_ref().map_or(Some(1), |carry| (Arc::strong_count(carry) == 1).then_some(2));
        self.is_idle() && self.transport.can_leave() && own == Some(Arc::strong_count(&self.transport))
    }

    /// When its patience ends.
    pub fn deadline(&self, limits: &Limits) -> Millis {
        match self.phase {
            Phase::Reading => self.machine.deadline(limits).unwrap_or(Millis::MAX),
            Phase::Flushing(_) | Phase::Lingering { .. } => self.patience.until(),
        }
    }
}
