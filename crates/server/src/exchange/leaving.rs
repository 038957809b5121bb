//! A request that has been read and that nobody has begun: another worker may answer it in place of this one.
//!
//! Knows: what of it has been read, and what else here knows of it. Does not know: when it is time, or on which way it
//! goes (`handoff.rs`). Runs under the baton.

use std::sync::Arc;

use wire::{Framing, Millis};

use super::{Exchange, Reply};
use crate::body::Body;
use crate::connection::Connection;
use crate::downstream::Downstream;
use crate::engine::Engine;
use crate::handoff::Source;

impl Exchange {
    /// What another worker is told of it: its bytes as they came, and those behind them. None: it stays, as it is more
    /// than goes with a connection, is still arriving, or came in another form.
    fn leaving_note(&self) -> Option<Vec<u8>> {
        let connection = self.downstream.connection().filter(|one| one.can_leave_with_request())?;
        let body = match (&self.body, self.head.framing) {
            (Body::Empty, Framing::None | Framing::Length(0)) => &[][..],
            (Body::Memory(received), Framing::Length(_)) => &received.bytes,
            _ => return None,
        };
        let request = [self.head.line(), self.head.block.raw(), body, connection.pending.rest()];
        Source::note_with(connection, self.arrived, &request)
    }

    /// Has another worker answer it: `give` gives its connection away, with what is told of it. Its connection, which
    /// is closed here; or all of it, where that cannot be now, and it waits as before.
    pub(crate) fn leave(
        mut self: Box<Self>,
        engine: &Engine,
        give: impl FnOnce(&mut Connection, &[u8]) -> bool,
    ) -> Result<Box<Connection>, Box<Self>> {
        self.send_pipelined();
        if self.reply != Reply::Nothing || self.is_overdue() {
            return Err(self);
        }
        let Some(note) = self.leaving_note() else { return Err(self) };
        let deadline = self.deadline.take();
        if let Some(deadline) = &deadline {
            // Nobody looks at it after this.
            engine.deadlines.complete(deadline);
            if deadline.is_overdue() {
                self.deadline = Some(Arc::clone(deadline));
                return Err(self);
            }
        }
        let had_deadline = deadline.is_some();
        // It knows the way to the client.
        drop(deadline);
        let gone = self.downstream.connection_mut().is_some_and(|connection| {
            connection.can_leave_with_request() && connection.is_alone() && give(connection, &note)
        });
        if !gone {
            if had_deadline {
                self.renew_deadline(engine);
            }
            return Err(self);
        }
        match self.downstream {
            Downstream::Connection(connection) => Ok(connection),
            Downstream::Stream(_) => Err(self),
        }
    }

    /// The deadline of a request that arrived when this one did, and has its name.
    fn renew_deadline(&mut self, engine: &Engine) {
        self.deadline =
            engine.deadlines.issue(&self.downstream, &self.head, &engine.config.mounted, self.arrived);
        if let (Some(deadline), Some(id)) = (&self.deadline, self.id(&engine.config)) {
            deadline.request.is_named(id);
        }
    }

    /// It was read by another worker at that time: it has waited since then.
    pub(crate) fn came_over(&mut self, arrived: Millis, engine: &Engine) {
        self.has_come_over = true;
        self.arrived = arrived.min(self.arrived);
        if let Some(deadline) = self.deadline.take() {
            engine.deadlines.complete(&deadline);
            self.renew_deadline(engine);
        }
        if self.began > 0 {
            self.began = self.began.min(self.arrived * 1000);
        }
        if self.times.complete > 0 {
            self.times.complete = self.times.complete.min(self.arrived * 1_000_000);
            self.times.first = self.times.first.min(self.times.complete);
        }
    }
}
