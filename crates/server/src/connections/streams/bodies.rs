//! Bodies that arrive on streams: kept until they are complete, in memory or a file, or given on as they come.
//!
//! Knows: when what has come counts as read, so that the peer may send more: when it is kept, or the application has read
//! it. Does not know: frames or windows. Runs under the baton.

use std::io;

use wire::Fault;

use super::super::Connections;
use super::Visit;
use crate::body::BodyBuffer;
use crate::exchange::Exchange;
use crate::poller::Poller;
use crate::slots::Wakeup;
use crate::streams::{Arriving, Place, Streams};

/// What becomes of a body that has grown.
enum Kept {
    /// It waits for more.
    Waits,
    /// What is in memory goes to its file.
    Stores,
    Whole,
    Refused(Fault),
}

impl Visit<'_> {
    /// Part of a body.
    pub(super) fn add(&mut self, streams: &mut Streams, stream: u32, data: &[u8]) {
        self.pieces += 1;
        let Some(call) = streams.call(stream) else { return };
        match &mut call.place {
            Place::Arriving(arriving) => {
                arriving.grown = true;
                match &mut arriving.body {
                    // Under an event loop it is given on with what this look brings.
                    Some(body) if self.engine.config.evented => body.add(data),
                    Some(body) => {
                        body.add(data);
                        streams.receive.read(stream, data.len(), self.shared, self.now);
                    }
                    None => arriving.ahead.extend_from_slice(data),
                }
            }
            Place::Away { token, inlet: Some(inlet) } => {
                if inlet.put(data) {
                    self.slots.wake(Wakeup { token: *token, hung_up: false });
                }
            }
            // Nobody wants it: it is given back when the stream is let go.
            Place::Away { .. } | Place::Over => {}
        }
    }

    /// All of a body has come.
    pub(super) fn body_is_whole(&mut self, streams: &mut Streams, stream: u32) {
        let Some(call) = streams.call(stream) else { return };
        match &mut call.place {
            Place::Arriving(arriving) => {
                (arriving.complete, arriving.grown) = (true, true);
                if arriving.body.is_some() {
                    self.look_at_body(streams, stream);
                }
            }
            Place::Away { token, inlet: Some(inlet) } => {
                if inlet.complete() {
                    self.slots.wake(Wakeup { token: *token, hung_up: false });
                }
            }
            Place::Away { .. } | Place::Over => {}
        }
    }

    /// What a look has brought of bodies is counted, and goes where it shall be. Under an event loop those that it has not
    /// brought whole are given on as they come.
    pub(super) fn look_at_bodies(&mut self, streams: &mut Streams) {
        let evented = self.engine.config.evented;
        let grown: Vec<u32> = streams
            .calls
            .iter()
            .filter(|call| match &call.place {
                Place::Arriving(arriving) => evented || arriving.grown && arriving.body.is_some(),
                _ => false,
            })
            .map(|call| call.stream)
            .collect();
        for stream in grown {
            match evented {
                true => self.give_out(streams, stream, None),
                false => self.look_at_body(streams, stream),
            }
        }
    }

    fn look_at_body(&mut self, streams: &mut Streams, stream: u32) {
        let Some(call) = streams.call(stream) else { return };
        let Place::Arriving(arriving) = &mut call.place else { return };
        arriving.grown = false;
        match self.kept(arriving) {
            Kept::Waits => {}
            Kept::Stores => {
                if let Some(body) = arriving.body.take() {
                    self.storing.store_stream((self.token, stream), body);
                }
            }
            Kept::Whole => {
                let body = arriving.body.take().unwrap_or_default();
                if self.engine.config.evented {
                    let length = usize::try_from(body.held()).unwrap_or(usize::MAX);
                    streams.receive.read(stream, length, self.shared, self.now);
                }
                self.give_out(streams, stream, Some(body.finish()));
            }
            Kept::Refused(fault) => self.refuse(streams, stream, &fault),
        }
    }

    /// As `reading.rs` does for a connection of its own.
    fn kept(&self, arriving: &mut Arriving) -> Kept {
        let Some(body) = &mut arriving.body else { return Kept::Waits };
        let (limits, spool) = (&self.engine.config.limits, &self.engine.spool);
        if self.engine.config.evented || arriving.complete && !body.has_a_rest(limits.body_memory_bytes) {
            return Kept::Whole;
        }
        let held = body.charge(spool);
        if held > limits.bodies_memory_bytes {
            return Kept::Refused(wire::BODIES_MEMORY);
        }
        let short = held > limits.bodies_memory_bytes / 2;
        if !arriving.complete && !body.shall_be_stored(limits.body_memory_bytes, short) {
            return Kept::Waits;
        }
        if body.charge_disk(spool) > limits.bodies_disk_bytes {
            return Kept::Refused(wire::BODIES_DISK);
        }
        Kept::Stores
    }
}

impl Connections {
    /// What a stream's body had in memory has been added to its file, or could not be.
    pub(in crate::connections) fn resume_stored_stream(
        &mut self,
        (token, stream): (u64, u32),
        body: BodyBuffer,
        result: io::Result<bool>,
        poller: &mut Poller,
    ) -> Option<Box<Exchange>> {
        let mut connection = self.slots.check_out(token)?;
        let fault = match &result {
            Ok(first) => {
                self.engine.counters.bodies_spooled.add_many(u64::from(*first));
                None
            }
            Err(error) => Some(self.cannot_store(error)),
        };
        if let Some(mut streams) = connection.take_streams() {
            let mut visit = self.visiting(token, &mut poller.statistics, poller.now);
            match fault {
                Some(fault) => visit.refuse(&mut streams, stream, &fault),
                None => visit.take_back_body(&mut streams, stream, body),
            }
            connection.put_streams(streams);
        }
        self.progress(connection, poller)
    }
}

impl Visit<'_> {
    fn take_back_body(&mut self, streams: &mut Streams, stream: u32, mut body: BodyBuffer) {
        let Some(call) = streams.call(stream) else { return };
        let Place::Arriving(arriving) = &mut call.place else { return };
        let ahead = std::mem::take(&mut arriving.ahead);
        if !ahead.is_empty() {
            body.add(&ahead);
        }
        arriving.body = Some(body);
        streams.receive.read(stream, ahead.len(), self.shared, self.now);
        self.look_at_body(streams, stream);
    }
}
