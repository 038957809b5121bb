//! What an exchange replies through: a connection of its own, or one stream of a connection that others share.
//!
//! Knows: the verbs that both have. Does not know: the request, or how far its reply has come. Belongs to the thread
//! that owns the exchange.

use std::io;
use std::sync::Arc;

use reactor::{Address, MayWait, PIECES, PollFor, Sent};
use wire::proxy::Proxied;
use wire::{Limits, Millis, ReplyForm};

use crate::connection::Connection;
use crate::incoming::Flow;
use crate::multiplexed::Multiplexed;
use crate::output::{Flushed, Output};
use crate::patience::Patience;
use crate::pipelined::PipelinedReplies;
use crate::stream::Stream;
use crate::transport::Transport;

/// The way to an exchange's client.
pub(crate) enum Downstream {
    /// HTTP/1: the connection is away from its slot for as long as the exchange lasts.
    Connection(Box<Connection>),
    /// The connection stays in its slot.
    Stream(Box<Stream>),
}

impl Downstream {
    pub fn peer(&self) -> Address {
        match self {
            Self::Connection(connection) => connection.client(),
            Self::Stream(stream) => stream.peer(),
        }
    }

    pub fn listener(&self) -> u16 {
        match self {
            Self::Connection(connection) => connection.listener,
            Self::Stream(stream) => stream.listener(),
        }
    }

    /// What names the connection to the loop.
    #[inline]
    pub fn token(&self) -> u64 {
        match self {
            Self::Connection(connection) => connection.token,
            Self::Stream(stream) => stream.token(),
        }
    }

    pub fn transport(&self) -> &Arc<Transport> {
        match self {
            Self::Connection(connection) => &connection.transport,
            Self::Stream(stream) => stream.shared().transport(),
        }
    }

    /// The connection, where it is the exchange's own.
    #[inline]
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Connection(connection) => Some(connection),
            Self::Stream(_) => None,
        }
    }

    /// What a web server has said of the request beside its head, where one hands its requests on.
    #[inline]
    pub fn given(&self) -> Option<&wire::gateway::Given> {
        self.connection()?.machine.given()
    }

    /// The same, to be changed.
    #[inline]
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Connection(connection) => Some(connection),
            Self::Stream(_) => None,
        }
    }

    /// The receiving half of a connection, which was lent to read a body, comes back.
    pub fn take_up(&mut self, flow: Box<Flow>) {
        let Flow { machine, pending, .. } = *flow;
        if let Some(connection) = self.connection_mut() {
            connection.machine = machine;
            connection.pending = pending;
            connection.more = true;
        }
    }

    /// How replies are written on it.
    #[inline]
    pub fn form(&self) -> ReplyForm {
        match self {
            Self::Connection(connection) => connection.machine.form(),
            Self::Stream(_) => ReplyForm::Stream,
        }
    }

    /// Replies of its own connection to earlier requests.
    #[inline]
    pub fn pipelined(&self) -> Option<&Arc<PipelinedReplies>> {
        self.connection().and_then(|connection| connection.sending.pipelined.as_ref())
    }

    /// What a load balancer has said of the client, where its connections begin with that.
    #[inline]
    pub fn proxied(&self) -> Option<&Proxied> {
        match self {
            Self::Connection(connection) => connection.proxied(),
            Self::Stream(stream) => stream.shared().origin().proxied.as_deref(),
        }
    }

    /// Where whoever writes waits for room.
    pub fn room(&self) -> Room {
        match self {
            Self::Connection(connection) => Room::Connection(Arc::clone(&connection.transport)),
            Self::Stream(stream) => Room::Stream(Arc::clone(stream.shared()), stream.shared().news().count()),
        }
    }

    /// Nothing waits that has to be sent first.
    #[inline]
    pub fn is_clear(&self) -> bool {
        match self {
            Self::Connection(connection) => connection.sending.is_empty(),
            Self::Stream(stream) => stream.output().is_empty(),
        }
    }

    /// What waits for the peer, if anything does.
    #[inline]
    pub fn output(&self) -> Option<&Output> {
        match self {
            Self::Connection(connection) => connection.sending.output.as_deref(),
            Self::Stream(stream) => Some(stream.output()),
        }
    }

    /// The same, to be changed.
    pub fn output_mut(&mut self) -> Option<&mut Output> {
        match self {
            Self::Connection(connection) => connection.sending.output.as_deref_mut(),
            Self::Stream(stream) => Some(stream.output_mut()),
        }
    }

    pub fn patience(&self) -> Patience {
        match self {
            Self::Connection(connection) => connection.patience,
            Self::Stream(stream) => stream.patience(),
        }
    }

    /// The queue. With the first that waits in it the peer's patience begins.
    pub fn queue(&mut self, limits: &Limits, now: Millis) -> &mut Output {
        match self {
            Self::Connection(connection) => connection.queue(limits, now),
            Self::Stream(stream) => stream.queue(limits, now),
        }
    }

    /// One send of everything, or of as much as `most` allows, where nothing waits; how much was taken. The first
    /// `head` bytes are a head, which a stream takes whole, and which `end`s with the last of the pieces.
    ///
    /// # Errors
    /// The peer is gone.
    #[inline]
    pub fn send(&mut self, pieces: &[&[u8]], (head, end): (usize, bool), most: usize) -> io::Result<usize> {
        let transport = match self {
            Self::Connection(connection) => &connection.transport,
            Self::Stream(stream) => return stream.send(pieces, head, end),
        };
        let mut first = [&[][..]; PIECES];
        let mut room = most;
        for (slot, piece) in first.iter_mut().zip(pieces) {
            *slot = &piece[..piece.len().min(room)];
            room -= slot.len();
        }
        let sent = match &first[..pieces.len().min(PIECES)] {
            [one] => transport.send(one)?,
            many => transport.send_pieces(many)?,
        };
        Ok(match sent {
            Sent::Some(n) => n,
            Sent::Full => 0,
        })
    }

    /// Sends more of what waits. What the peer takes, and nothing else, renews its patience.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn flush(&mut self, limits: &Limits, now: Millis) -> io::Result<Flushed> {
        match self {
            Self::Connection(connection) => connection.flush(limits, now),
            Self::Stream(stream) => stream.flush(limits, now),
        }
    }

    /// The peer must not take what it got for the whole: the connection is reset when it is closed, or the stream now.
    pub fn reset(&mut self) {
        match self {
            Self::Connection(connection) => connection.transport.reset_at_close(),
            Self::Stream(stream) => stream.reset(),
        }
    }

    /// The same, as the peer takes too little.
    pub fn give_up(&mut self) {
        match self {
            Self::Connection(connection) => connection.transport.reset_at_close(),
            Self::Stream(stream) => stream.give_up(),
        }
    }

    /// Nothing more is sent: what waits is dropped.
    pub fn drop_waiting(&mut self) {
        match self {
            Self::Connection(connection) => connection.sending.drop_waiting(),
            Self::Stream(stream) => stream.reset(),
        }
    }

    /// True when the client has gone, with nothing more to be read. Takes nothing.
    pub fn has_left(&self) -> bool {
        match self {
            Self::Connection(connection) => {
                connection.pending.is_empty() && connection.transport.peer_has_left()
                    || connection.machine.form().has_one_reply() && connection.is_given_up_unread()
            }
            Self::Stream(stream) => !stream.is_open(),
        }
    }

    /// What can answer in the place of whoever owns the exchange.
    pub fn stand_in(&self) -> StandIn {
        match self {
            Self::Connection(connection) => StandIn::Connection {
                transport: Arc::clone(&connection.transport),
                pipelined: connection.sending.pipelined.clone(),
                clean: connection.sending.output.is_none(),
                form: connection.machine.form(),
            },
            Self::Stream(stream) => StandIn::Stream(Arc::clone(stream.shared()), stream.id()),
        }
    }
}

/// Where a thread waits for its client to take more, with nothing borrowed.
pub enum Room {
    Connection(Arc<Transport>),
    /// What has happened on it is known to whoever has looked since.
    Stream(Arc<Multiplexed>, u64),
}

impl Room {
    /// Waits until there may be some, at most so many milliseconds.
    pub fn wait(&self, milliseconds: Millis, may_wait: &MayWait) {
        match self {
            // What is wrong with the transport shows at the next look.
            Self::Connection(transport) => drop(transport.wait(PollFor::Writable, milliseconds, may_wait)),
            Self::Stream(shared, seen) => shared.news().wait(*seen, milliseconds, may_wait),
        }
    }
}

/// Answers a client whose exchange is stuck with its thread, or cuts it off. From any thread; nothing waits.
pub enum StandIn {
    Connection {
        transport: Arc<Transport>,
        /// Replies to earlier requests of the connection, which go first.
        pipelined: Option<Arc<PipelinedReplies>>,
        /// Nothing else waits for the transport.
        clean: bool,
        form: ReplyForm,
    },
    Stream(Arc<Multiplexed>, u32),
}

impl StandIn {
    /// Sends a reply, whose first `head` bytes are its head, and ends; or cuts where it would not come in order.
    pub fn answer(&self, reply: &[u8], head: usize) {
        match self {
            Self::Connection { transport, pipelined, clean, form } => {
                let in_order = || {
                    pipelined
                        .as_ref()
                        .is_none_or(|pipelined| pipelined.send().is_ok() && pipelined.is_empty())
                };
                if !(*clean && in_order()) {
                    return self.cut();
                }
                // A peer that is gone, or so slow that its socket is full, is not waited for.
                let mut reply = reply.to_vec();
                form.apply(&mut reply);
                let _ = transport.send(&reply);
                transport.shut_both();
            }
            Self::Stream(shared, id) => shared.answer(*id, &reply[..head], &reply[head..]),
        }
    }

    /// Cuts a reply that was begun.
    pub fn cut(&self) {
        match self {
            Self::Connection { transport, .. } => {
                transport.reset_at_close();
                transport.shut_both();
            }
            Self::Stream(shared, id) => shared.reset(*id),
        }
    }
}
