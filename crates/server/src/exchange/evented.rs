//! An exchange under an event loop: nothing here waits.
//!
//! Knows: what is still to be sent, whether the peer is there, and the parts of a reply that
//! only ASGI has (trailers, several files). Runs on the event loop's thread.

use std::fs::File;
use std::sync::Arc;

use reactor::Read;
use reactor::sys::monotonic_ms;
use wire::{BodyPlan, Millis, ReplyForm, chunk_prefix};

use super::{Exchange, Gone, Reply};
use crate::body::Body;
use crate::connection::Connection;
use crate::downstream::{Downstream, Room};
use crate::engine::Engine;
use crate::incoming::Arrival;
use crate::output::{Flushed, Output};
use crate::reply_builder::ReplyBuilder;

/// How much of another protocol one read may bring.
const RAW_BYTES: usize = 64 * 1024;

/// What a read of another protocol brought.
pub enum Raw<'a> {
    Data(&'a [u8]),
    Nothing,
    Ended,
}

/// How much is read of what follows a request while it is answered.
const AHEAD: usize = 16 * 1024;

impl Exchange {
    /// What names its connection to the loop.
    #[inline]
    pub fn token(&self) -> u64 {
        self.downstream.token()
    }

    /// What names the connection on which it came, also where that stays and the exchange is a stream of it.
    pub(crate) fn connection_token(&self) -> u64 {
        match &self.downstream {
            Downstream::Connection(connection) => connection.token,
            Downstream::Stream(stream) => stream.shared().origin().token,
        }
    }

    /// Its connection, where that is away for its sake; a stream's stays where it is.
    pub(crate) fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.downstream.connection_mut()
    }

    /// True once the reply is complete, or can no longer be.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.reply, Reply::Done | Reply::Broken)
    }

    /// Bytes that the peer has not taken, those of files included.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.downstream.output().map_or(0, Output::left)
    }

    /// False: there is more to send, and no edge will tell: it is to be woken soon.
    #[inline]
    pub fn awaits_edge(&self) -> bool {
        self.downstream.output().is_none_or(Output::awaits_edge)
    }

    /// A large body is kept for the peer.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.downstream.output().is_some_and(Output::keeps)
    }

    /// Sends more of what waits.
    ///
    /// # Errors
    /// [`Gone`] when the peer is, or its patience is over.
    pub fn push(&mut self, engine: &Engine) -> Result<(), Gone> {
        if self.downstream.is_clear() {
            return Ok(());
        }
        match self.flush(engine) {
            Ok(Flushed::Full) if self.downstream.patience().is_over(monotonic_ms()) => {
                return Err(self.give_up(engine));
            }
            Ok(_) => {}
            Err(_) => return Err(self.broke(engine)),
        }
        Ok(())
    }

    /// The peer has taken too little for too long, or the engine ends: the connection is reset.
    pub fn give_up(&mut self, engine: &Engine) -> Gone {
        engine.counters.write_timeouts.add();
        self.downstream.give_up();
        self.broke(engine)
    }

    /// Where whoever writes waits for room, while the exchange is not borrowed. Asked for before a look whether there is
    /// some.
    pub fn room(&self) -> Room {
        self.downstream.room()
    }

    /// Until when the peer must have taken something of what waits; never, where nothing does.
    pub fn send_until(&self) -> Millis {
        if self.downstream.is_clear() { Millis::MAX } else { self.downstream.patience().until() }
    }

    /// Looks whether the peer is still there. What it has sent of a next request is kept.
    pub fn peer_has_left(&mut self) -> bool {
        let Some(connection) = self.downstream.connection_mut() else { return self.downstream.has_left() };
        if !connection.pending.is_empty() {
            return !self.ended && connection.is_given_up();
        }
        let mut room = [0; AHEAD];
        match connection.transport.read(&mut room) {
            Read::Data { bytes, .. } => {
                connection.pending.keep(bytes);
                connection.more = true;
                !self.ended && connection.is_given_up()
            }
            Read::Nothing => false,
            Read::Ended | Read::Failed(_) => true,
        }
    }

    /// All of a body has been received: its connection is whole again.
    pub fn body_is_over(&mut self) {
        if let Body::Stream(incoming) = &self.body
            && let Some(flow) = incoming.take_back()
        {
            self.downstream.take_up(flow);
            self.body = Body::Empty;
        }
    }

    /// Sends the head without a body's first part.
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn send_head(&mut self, builder: &mut ReplyBuilder, engine: &Engine) -> Result<(), Gone> {
        let Reply::Open { plan, unsent: true } = self.reply else { return Ok(()) };
        self.reply = Reply::Open { plan, unsent: false };
        self.deliver(&[builder.head.bytes()], builder.head.bytes().len(), engine)
    }

    /// Sends part of a file as part of the body, whatever the framing; the kernel copies it.
    ///
    /// # Errors
    /// [`Gone`] when the peer is, or the file is shorter than its length.
    pub fn file_part(
        &mut self,
        builder: &mut ReplyBuilder,
        file: File,
        range: (u64, u64),
        engine: &Engine,
    ) -> Result<(), Gone> {
        let Reply::Open { plan, .. } = self.reply else { return self.unsendable() };
        if range.1 == 0 {
            return self.send_head(builder, engine);
        }
        if plan != BodyPlan::Chunked {
            return self.file(builder, file, range, engine);
        }
        self.send_head(builder, engine)?;
        self.written += range.1;
        let mut prefix = Vec::new();
        chunk_prefix(usize::try_from(range.1).unwrap_or(usize::MAX), &mut prefix);
        let file = self.sent_file(Arc::new(file.into()), range, engine);
        let queue = self.queue(engine);
        queue.copy(&prefix);
        queue.file(file);
        queue.copy(b"\r\n");
        match self.flush(engine) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.broke(engine)),
        }
    }

    /// True where trailers can be sent: in chunked framing (RFC 9112 §7.1.2), and behind all content of a stream.
    pub fn takes_trailers(&self) -> bool {
        match self.reply {
            Reply::Open { plan: BodyPlan::Chunked, .. } => true,
            Reply::Open { plan: BodyPlan::UntilClose, .. } => self.downstream.form() == ReplyForm::Stream,
            Reply::Open { plan: BodyPlan::Length(_), .. } => {
                self.downstream.form() == ReplyForm::Stream && self.left == Some(0)
            }
            _ => false,
        }
    }

    /// Ends a reply that takes them with trailers, whose lines are complete.
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn finish_with(
        &mut self,
        builder: &mut ReplyBuilder,
        trailers: &[u8],
        engine: &Engine,
    ) -> Result<(), Gone> {
        if !self.takes_trailers() || trailers.is_empty() {
            return self.finish(builder, engine);
        }
        self.send_head(builder, engine)?;
        self.reply = Reply::Done;
        if let Downstream::Stream(stream) = &mut self.downstream {
            stream.end_with(trailers.to_vec());
            return Ok(());
        }
        self.deliver(&[b"0\r\n", trailers, b"\r\n"], 0, engine)
    }

    /// The peer has ended its side in the middle of this exchange. Replies to its earlier
    /// requests are whole: they are still sent, for who only ends its side goes on to read.
    pub fn lose(&mut self, engine: &Engine) {
        let earlier = self.pipelined_replies().cloned();
        let _ = self.broke(engine);
        if let Some(connection) = self.downstream.connection_mut()
            && earlier.is_some()
        {
            connection.sending.pipelined = earlier;
        }
    }

    /// Leaves HTTP: the answer to an upgrade, after which the connection's bytes are not ours
    /// to frame any more (RFC 9110 §15.2.2).
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn upgrade(&mut self, head: &[u8], engine: &Engine) -> Result<(), Gone> {
        if self.deadline.as_ref().is_some_and(|deadline| !deadline.claim()) {
            return Err(self.broke(engine));
        }
        if let Some(deadline) = self.deadline.take() {
            // The deadline was for the handshake.
            engine.deadlines.complete(&deadline);
        }
        self.status = if self.downstream.form() == ReplyForm::Stream { 200 } else { 101 };
        self.keep_alive = false;
        self.reply = Reply::Open { plan: BodyPlan::UntilClose, unsent: false };
        self.written += head.len() as u64;
        self.deliver(&[head], head.len(), engine)
    }

    /// Sends bytes of the other protocol.
    ///
    /// # Errors
    /// [`Gone`] when the peer is.
    pub fn raw(&mut self, pieces: &[&[u8]], engine: &Engine) -> Result<(), Gone> {
        if self.reply == Reply::Broken {
            return Err(Gone);
        }
        self.written += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.deliver(pieces, 0, engine)
    }

    /// Reads bytes of the other protocol, those first that came behind the request.
    pub fn read_raw<'a>(&mut self, room: &'a mut Vec<u8>) -> Raw<'a> {
        let Some(connection) = self.downstream.connection_mut() else { return self.read_raw_of_stream(room) };
        if !connection.pending.is_empty() {
            let (bytes, at) = connection.pending.take().into_bytes();
            *room = bytes;
            return Raw::Data(&room[at..]);
        }
        if room.len() < RAW_BYTES {
            room.resize(RAW_BYTES, 0);
        }
        match connection.transport.read(room) {
            Read::Data { bytes, .. } => Raw::Data(bytes),
            Read::Nothing => Raw::Nothing,
            Read::Ended | Read::Failed(_) => Raw::Ended,
        }
    }

    /// The same on a stream, on which it arrives as a body does.
    fn read_raw_of_stream<'a>(&self, room: &'a mut Vec<u8>) -> Raw<'a> {
        let Body::Stream(incoming) = &self.body else { return Raw::Ended };
        room.clear();
        match incoming.try_read(room, RAW_BYTES) {
            Ok(Arrival::Some { .. }) if !room.is_empty() => Raw::Data(room),
            Ok(Arrival::None { .. }) => Raw::Nothing,
            Ok(Arrival::Some { .. }) | Err(_) => Raw::Ended,
        }
    }

    /// Keeps bytes that were read and are not wanted yet. Only what the last read gave.
    pub fn unread(&mut self, bytes: &[u8]) {
        match (self.downstream.connection_mut(), &self.body) {
            (Some(connection), _) => connection.pending.keep(bytes),
            (None, Body::Stream(incoming)) => incoming.unread(bytes),
            (None, _) => {}
        }
    }

    /// Ends the other protocol in order: what waits is sent, then the connection closes.
    pub fn end_raw(&mut self) {
        if self.reply != Reply::Broken {
            self.reply = Reply::Done;
            self.lingers = true;
            // What is left of the other protocol is no request.
            if let Some(connection) = self.downstream.connection_mut() {
                connection.pending = Default::default();
            }
            self.complete();
        }
    }
}
