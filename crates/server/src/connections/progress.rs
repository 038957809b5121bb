//! What one connection does next, as far as it goes without waiting.
//!
//! Knows: one connection at a time, and the table that it belongs to. Does not know: threads
//! or Python. Runs under the baton.

use std::mem::MaybeUninit;
use std::sync::Arc;

use wire::{Fault, GATEWAY_FORMAT, GATEWAY_MODIFIER, HTTP_ON_TLS, Head, Millis, TLS_ON_HTTP, Version, Whose};

use super::Connections;
use crate::body::Body;
use crate::connection::{After, Connection, Phase, complain_of_file};
use crate::exchange::Exchange;
use crate::log::Level;
use crate::output::Flushed;
use crate::patience::Patience;
use crate::poller::Poller;
use crate::reading::{Reader, Step};
use crate::refusal::Refusal;
use crate::storing::Stored;

impl Connections {
    /// Carries a connection on until it yields a request, is parked, or is closed.
    pub fn progress(
        &mut self,
        mut connection: Box<Connection>,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        let mut reads = 0;
        loop {
            match connection.phase {
                // Whoever does not take its replies is not asked for another one.
                Phase::Reading if self.owes_much(&connection) => {
                    self.engine.counters.pipeline_waits.add();
                    connection.phase = Phase::Flushing(After::Continue);
                }
                Phase::Reading => {
                    let step = if !connection.pending.is_empty() {
                        self.reader.digest_pending(&mut connection, poller)
                    } else if connection.more && poller.allowance.may_read(reads) {
                        reads += 1;
                        connection.more = false;
                        self.reader.receive(&mut connection, poller)
                    } else if connection.sending.is_empty() {
                        self.park(connection, poller);
                        return None;
                    } else {
                        connection.phase = Phase::Flushing(After::Continue);
                        continue;
                    };
                    match step {
                        Step::More => {}
                        Step::Ready(head, body) => {
                            return Some(self.take_out(connection, head, body, poller));
                        }
                        Step::Store => {
                            self.note_partial(&connection, poller);
                            self.storing.store(connection);
                            return None;
                        }
                        Step::Refuse(fault) => self.refuse(&mut connection, &fault, poller),
                        Step::Mistaken(fault, seen) => self.mistaken(&mut connection, (&fault, seen), poller),
                        Step::Streams => {}
                        Step::Discarded | Step::Ended => connection.phase = Phase::Flushing(After::Close),
                    }
                }
                Phase::Streams => connection = self.visit_streams(connection, poller)?,
                Phase::Preface => connection = self.hear_preface(connection, &mut reads, poller)?,
                Phase::Discarding { keep } => {
                    connection = self.discard_body(connection, keep, &mut reads, poller)?;
                }
                Phase::Flushing(after) => connection = self.send_rest(connection, after, poller)?,
                Phase::Lingering { left } => {
                    if self.reader.discard(&mut connection, left, poller) {
                        self.park(connection, poller);
                    } else {
                        self.close(connection);
                    }
                    return None;
                }
            }
        }
    }

    /// Reads of what is said before the protocol; given back while there is more to read.
    #[cold]
    fn hear_preface(
        &mut self,
        mut connection: Box<Connection>,
        reads: &mut u32,
        poller: &mut Poller,
    ) -> Option<Box<Connection>> {
        if !connection.more || !poller.allowance.may_read(*reads) {
            self.park(connection, poller);
            return None;
        }
        *reads += 1;
        connection.more = false;
        if self.reader.receive_preface(&mut connection, poller) {
            return Some(connection);
        }
        self.close(connection);
        None
    }

    /// Reads on in a body that nobody wants; given back while there is more to do with its connection.
    #[cold]
    fn discard_body(
        &mut self,
        mut connection: Box<Connection>,
        keep: bool,
        reads: &mut u32,
        poller: &mut Poller,
    ) -> Option<Box<Connection>> {
        let step = if !connection.pending.is_empty() {
            self.reader.digest_pending(&mut connection, poller)
        } else if connection.more && poller.allowance.may_read(*reads) {
            *reads += 1;
            connection.more = false;
            self.reader.receive(&mut connection, poller)
        } else {
            self.park(connection, poller);
            return None;
        };
        match step {
            Step::More => {}
            Step::Discarded if keep => {
                connection.answered(poller.now);
                connection.phase = Phase::Flushing(After::Continue);
            }
            Step::Ended => {
                self.close(connection);
                return None;
            }
            // It has ended, is no body any more, or was given up.
            _ => self.linger(&mut connection, self.engine.config.limits.drain_bytes, poller.now),
        }
        Some(connection)
    }

    /// Sends what waits; given back when all of it is sent and the connection goes on.
    #[inline]
    fn send_rest(
        &mut self,
        mut connection: Box<Connection>,
        after: After,
        poller: &mut Poller,
    ) -> Option<Box<Connection>> {
        match connection.flush(&self.engine.config.limits, poller.now) {
            Ok(Flushed::All) => match self.is_sent(connection.token, after) {
                After::Continue => connection.phase = Phase::Reading,
                After::Discard { keep } => {
                    // Where the reply has no other end, that of the connection is.
                    if !keep {
                        connection.transport.shut_write();
                    }
                    connection.more = true;
                    connection.phase = Phase::Discarding { keep };
                }
                After::Linger { left } => self.linger(&mut connection, left, poller.now),
                After::Close => {
                    // The end is the message. Where a process has been forked that our handlers
                    // have not seen, close(2) alone would not send it.
                    if reactor::sys::has_forked() {
                        connection.transport.shut_write();
                    }
                    self.close(connection);
                    return None;
                }
            },
            Ok(flushed) => {
                self.send_later(connection, flushed, poller);
                return None;
            }
            Err(error) => {
                complain_of_file(&self.engine.log, &error, &connection.peer);
                self.engine.counters.replies_incomplete.add();
                self.close(connection);
                return None;
            }
        }
        Some(connection)
    }

    /// All that waited is sent: a request whose reply that was is over.
    #[inline]
    fn is_sent(&mut self, token: u64, after: After) -> After {
        self.unsettled.end((token, 0), false);
        after
    }

    /// More is to be sent when the socket has room or, if it has, when others have had their turn.
    fn send_later(&mut self, connection: Box<Connection>, flushed: Flushed, poller: &mut Poller) {
        let token = connection.token;
        self.park(connection, poller);
        if flushed == Flushed::More {
            self.engine.counters.send_bursts.add_alone();
            poller.allowance.count_sent(self.engine.config.limits.send_burst_bytes);
            self.slots.resume(token);
        }
    }

    /// As much waits of earlier replies as may wait while the next request is answered.
    #[inline]
    fn owes_much(&self, connection: &Connection) -> bool {
        let waiting = connection.sending.waiting();
        waiting > 0 && waiting >= self.engine.config.limits.response_buffer_bytes
    }

    /// A connection whose body was written comes back.
    pub fn resume_stored(&mut self, stored: Stored, poller: &mut Poller) -> Option<Box<Exchange>> {
        let (mut connection, result) = match stored {
            Stored::Connection(connection, result) => (connection, result),
            Stored::Stream { token, stream, body, result } => {
                return self.resume_stored_stream((token, stream), body, result, poller);
            }
        };
        self.slots.deliver_missed_edges(&mut connection);
        match result {
            Ok(first) => {
                if first {
                    self.engine.counters.bodies_spooled.add();
                }
                if connection.receiving.as_ref().is_some_and(|receiving| receiving.complete)
                    && let Step::Ready(head, body) = Reader::take_body(&mut connection)
                {
                    return Some(self.take_out(connection, head, body, poller));
                }
            }
            Err(error) => {
                let fault = self.cannot_store(&error);
                self.refuse(&mut connection, &fault, poller);
            }
        }
        self.progress(connection, poller)
    }

    pub(super) fn cannot_store(&self, error: &std::io::Error) -> Fault {
        self.engine.counters.spool_failures.add();
        self.engine.log.complain(Level::Error, || {
            format!("a request body cannot be stored in {}: {error}", std::env::temp_dir().display())
        });
        wire::NO_STORAGE
    }

    #[inline]
    fn take_out(
        &mut self,
        connection: Box<Connection>,
        head: Arc<Head>,
        body: Body,
        poller: &Poller,
    ) -> Box<Exchange> {
        self.engine.counters.requests_total.add_alone();
        // It travels far: as a pointer, where its fields would be copied a dozen times.
        let first = self.unsettled.take_first(connection.token);
        // Made where it stays, and not copied there.
        let mut exchange =
            Box::write(self.free.take(), Exchange::new(connection, head, body, &self.engine, poller.now));
        exchange.arrives(&poller.statistics, first, &self.engine);
        exchange
    }

    /// Keeps the memory of a request that has ended for another one.
    #[inline]
    pub fn keep_free(&mut self, empty: Box<MaybeUninit<Exchange>>) {
        self.free.keep(empty);
    }

    /// Answers with a refusal; nothing that follows is read as a request.
    pub fn refuse(&mut self, connection: &mut Connection, fault: &Fault, poller: &mut Poller) {
        let strange = matches!(*fault, GATEWAY_FORMAT | GATEWAY_MODIFIER | HTTP_ON_TLS | TLS_ON_HTTP);
        let refusal = self.refusal(connection, fault);
        self.engine.log.complain(if strange { Level::Warning } else { Level::Info }, || {
            let (peer, status) = (connection.shown_peer(), fault.status);
            match connection.machine.expected_and_seen().filter(|_| strange) {
                Some((expected, seen)) => {
                    format!("refused a connection from {peer}: expected {expected}, got {seen}: {refusal}")
                }
                None => format!("refused a request from {peer}: {status} {refusal}"),
            }
        });
        self.turn_away(connection, (fault, &refusal), poller);
    }

    /// [`Connections::refuse`] for another protocol than HTTP/1.
    #[cold]
    fn mistaken(&mut self, connection: &mut Connection, (fault, seen): (&Fault, &str), poller: &mut Poller) {
        let refusal = self.refusal(connection, fault);
        self.engine.log.complain(Level::Warning, || {
            let peer = connection.shown_peer();
            format!("refused a connection from {peer}: expected an HTTP request, got {seen}: {refusal}")
        });
        self.turn_away(connection, (fault, &refusal), poller);
    }

    fn refusal<'a>(&self, connection: &Connection, fault: &'a Fault) -> Refusal<'a> {
        let head = connection.receiving.as_ref().map(|receiving| Arc::clone(&receiving.head));
        Refusal::new(fault, head, connection.client(), &self.engine)
    }

    /// The same where the log has its line.
    fn turn_away(
        &mut self,
        connection: &mut Connection,
        (fault, refusal): (&Fault, &Refusal<'_>),
        poller: &mut Poller,
    ) {
        let now = poller.now;
        let spoken = (connection.transport.tls().is_some(), Version::Http11);
        let mut reply = refusal.reply(spoken, &mut poller.statistics, &self.engine);
        connection.machine.form().apply(&mut reply);
        let limits = &self.engine.config.limits;
        connection.queue(limits, now).copy(&reply);
        connection.receiving = None;
        // A body that is too large, or that we cannot keep, is already on its way: as much of it as
        // is allowed is read, so that the peer comes to read the refusal (RFC 9110 §15.5.14).
        let unkept = fault.status == 413 || fault.whose == Whose::Us;
        let body = if unkept { limits.body_bytes } else { 0 };
        let left = limits.drain_bytes.saturating_add(body);
        connection.phase = Phase::Flushing(After::Linger { left });
    }

    /// Ends our side and begins to read what the peer still sends.
    fn linger(&mut self, connection: &mut Connection, left: u64, now: Millis) {
        connection.transport.shut_write();
        connection.patience = Patience::of(self.engine.config.limits.linger_timeout, now);
        connection.more = true;
        connection.phase = Phase::Lingering { left };
    }
}
