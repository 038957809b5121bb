//! One stream of a connection that several share: what an exchange replies through while the connection stays in its
//! slot.
//!
//! Knows: what of a reply is not framed yet, and that the sending half is shared. Does not know: how frames look, the
//! request, the loop. Belongs to the thread that owns its exchange.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reactor::Address;
use wire::h2::Priority;
use wire::{Limits, Millis};

use crate::multiplexed::{Left, Multiplexed, frame};
use crate::output::{Flushed, Output};
use crate::patience::Patience;

/// One stream, as far as it sends.
pub struct Stream {
    shared: Arc<Multiplexed>,
    id: u32,
    /// What names it to the loop: it has a slot of its own while its exchange is away.
    token: u64,
    /// Content that is not framed.
    output: Output,
    /// Until when the peer has time to take of it.
    patience: Patience,
    /// It was ended or cut here: nothing is owed any more.
    over: bool,
    batching: Batching,
    /// The application is called for it.
    is_called: bool,
    /// Some of its reply goes on without it.
    has_left_some: bool,
    /// What it held back when that was counted last.
    held: AtomicU64,
}

/// Whether what is framed is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batching {
    No,
    /// A whole reply may wait for those of its batch.
    May,
    /// One does.
    Waits,
}

/// What is left of a stream when its exchange is over.
pub(crate) struct Ended {
    pub shared: Arc<Multiplexed>,
    pub id: u32,
    pub token: u64,
    /// Its reply is framed and waits to be sent with others.
    pub waits: bool,
}

impl Drop for Stream {
    /// Whoever drops a stream in the middle of its reply cuts it.
    fn drop(&mut self) {
        if !self.over {
            self.reset();
        }
        self.note_call(false);
        self.note_held();
    }
}

impl Stream {
    /// A stream begins, whose own token is this.
    pub fn open(shared: &Arc<Multiplexed>, id: u32, token: u64) -> Self {
        shared.half().open(id);
        Self::of(shared, id, token)
    }

    /// One that has begun.
    pub(crate) fn of(shared: &Arc<Multiplexed>, id: u32, token: u64) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            token,
            output: Output::default(),
            patience: Patience::of(0, 0),
            over: false,
            batching: Batching::No,
            is_called: false,
            has_left_some: false,
            held: AtomicU64::new(0),
        }
    }

    /// The application is called for it, or is not called after all.
    pub(crate) fn note_call(&mut self, begins: bool) {
        if std::mem::replace(&mut self.is_called, begins) != begins {
            self.shared.note_call(begins);
        }
    }

    /// What of it is in memory, and not in a file.
    fn held_back(&self) -> u64 {
        if self.output.sends_file() { 0 } else { self.output.left() }
    }

    /// Tells the connection what is held back now.
    fn note_held(&self) {
        let bytes = self.held_back();
        let before = self.held.swap(bytes, Ordering::Relaxed);
        if before != bytes {
            self.shared.note_held(before, bytes);
        }
    }

    /// What waits for the peer, as it counts against `response_buffer_bytes`.
    pub(crate) fn unsent_counted(&self) -> u64 {
        self.note_held();
        self.shared.counted(self.output.left())
    }

    pub fn peer(&self) -> Address {
        self.shared.origin().peer
    }

    pub fn listener(&self) -> u16 {
        self.shared.origin().listener
    }

    /// What names it to the loop.
    pub fn token(&self) -> u64 {
        self.token
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn shared(&self) -> &Arc<Multiplexed> {
        &self.shared
    }

    /// The peer has not cut it, and it has not ended.
    pub fn is_open(&self) -> bool {
        self.shared.half().is_open(self.id)
    }

    /// Content that is not framed.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The same, to be changed.
    pub fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// A whole reply may wait for those of its batch, or not any more.
    pub fn may_wait(&mut self, may: bool) {
        self.batching = if may { Batching::May } else { Batching::No };
    }

    /// A whole reply is framed, and waits for those of its batch.
    pub fn waits(&self) -> bool {
        self.batching == Batching::Waits
    }

    /// It has ended, and some of its reply goes on without it.
    pub fn has_left_some(&self) -> bool {
        self.has_left_some
    }

    /// A reply that waits is sent: its batch has gone without it.
    pub fn send_batched(&mut self) {
        if std::mem::replace(&mut self.batching, Batching::No) == Batching::Waits {
            self.shared.send_batched();
        }
    }

    /// The queue. With the first that waits in it the peer's patience begins.
    pub fn queue(&mut self, limits: &Limits, now: Millis) -> &mut Output {
        if self.output.is_empty() {
            self.patience = Patience::to_write(limits, now);
        }
        &mut self.output
    }

    /// Sends the first `head` bytes of all pieces as a head and the rest as content, as far as there is room for that;
    /// how many bytes of both were taken. Nothing waits in the queue. `end`: the stream ends with it.
    ///
    /// # Errors
    /// The stream is closed, or the transport's.
    pub fn send(&mut self, pieces: &[&[u8]], head: usize, end: bool) -> io::Result<usize> {
        let joined: Vec<u8>;
        let mut first: &[u8] = b"";
        if let Some(piece) = pieces.first() {
            first = piece.get(..head).unwrap_or_default();
        }
        if first.len() < head {
            joined = pieces.iter().flat_map(|piece| piece.iter().copied()).take(head).collect();
            first = &joined;
        }
        let mut skip = head;
        let content: Vec<&[u8]> = pieces
            .iter()
            .map(|piece| {
                let rest = piece.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(piece.len());
                rest
            })
            .collect();
        let total: usize = content.iter().map(|piece| piece.len()).sum();
        let half = self.shared.half();
        let taken = half.send(self.id, first, &content, end).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.over = end && taken == total;
        if self.over && self.batching == Batching::May {
            self.batching = Batching::Waits;
        } else {
            self.shared.send()?;
        }
        Ok(head + taken)
    }

    /// Sends more of what waits. What is taken of it, and nothing else, renews the peer's patience.
    ///
    /// # Errors
    /// As [`Stream::send`], and the file's.
    pub fn flush(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        let flushed = self.flush_some(limits, now);
        self.note_held();
        flushed
    }

    fn flush_some(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        let (mut asked, mut all_moved) = (false, 0);
        self.output.note_room();
        loop {
            let moved = frame(self.shared.half(), self.id, &mut self.output, false)?;
            self.patience.earn(moved, limits, now);
            let written = self.shared.send()?;
            if self.output.is_empty() {
                return Ok(Flushed::All);
            }
            if moved == 0 || written == Flushed::Full {
                self.output.note_full();
                if std::mem::replace(&mut asked, true) {
                    return Ok(Flushed::Full);
                }
                // What makes room from now on is told.
                self.shared.wants_room(self.token);
            }
            all_moved += moved;
            if all_moved >= limits.send_burst_bytes {
                return Ok(Flushed::More);
            }
        }
    }

    /// The reply is cut: the peer is told, and the other streams go on.
    pub fn reset(&mut self) {
        self.over = true;
        self.output = Output::default();
        self.shared.reset(self.id);
    }

    /// The same, as its peer takes too little.
    pub fn give_up(&mut self) {
        self.shared.half().give_up(self.id);
        self.reset();
    }

    /// The reply is complete: what waits of it goes on without its exchange, then the stream ends.
    pub fn end(&mut self) {
        self.end_with(Vec::new());
    }

    /// The same with lines that stand behind its content, each ending in CR LF; empty: none.
    pub fn end_with(&mut self, trailers: Vec<u8>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let output = std::mem::take(&mut self.output);
        self.note_held();
        if output.is_empty() {
            match trailers.is_empty() {
                true => self.shared.half().end(self.id),
                false => self.shared.half().end_with(self.id, &trailers),
            }
            // A peer that is gone needs no further word.
            let _ = self.shared.send();
        } else {
            let (stream, patience) = (self.id, self.patience);
            self.has_left_some = true;
            self.shared.leave(Left { stream, output, trailers, patience, priority: Priority::UNSAID });
            self.shared.ask_for_visit();
        }
    }

    /// Its exchange is over. One that was not ended is cut.
    pub(crate) fn into_ended(mut self) -> Ended {
        if !self.over {
            self.reset();
        }
        let waits = self.waits();
        Ended { shared: Arc::clone(&self.shared), id: self.id, token: self.token, waits }
    }
}
