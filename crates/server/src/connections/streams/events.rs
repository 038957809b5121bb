//! What a connection's machine tells, followed: requests begin, are answered without the application, or are cut.
//!
//! Knows: events, and the calls that they are about. Does not know: how bodies are kept (`bodies.rs`), or when the
//! connection is looked at. Runs under the baton.

use std::sync::Arc;

use wire::h2::{Event, Priority, Request, Wrong};
use wire::{Fault, Framing, Head, Version};

use super::{Heard, REQUESTS_A_VISIT, Visit, lose_all};
use crate::body::{Body, BodyBuffer};
use crate::connection::shown;
use crate::exchange::Exchange;
use crate::incoming::Incoming;
use crate::inlet::Inlet;
use crate::log::Level;
use crate::refusal::Refusal;
use crate::slots::Wakeup;
use crate::stream::Stream;
use crate::streams::{Arriving, Call, Place, Streams};

impl Visit<'_> {
    /// Lets the machine read, and follows its events.
    pub(super) fn hear(&mut self, streams: &mut Streams, input: &mut &[u8]) -> Heard {
        let before = self.opened.len();
        loop {
            let event = streams.receive.advance(input, self.shared, self.now);
            let told = match &event {
                Event::Settings(_)
                | Event::Window { .. }
                | Event::Reset { .. }
                | Event::StreamError { .. } => streams.shared.hear(&event),
                _ => Ok(()),
            };
            let mut heard = match event {
                Event::NeedMore => Some(Heard::All),
                Event::Fault(_) => Some(Heard::Fault),
                _ => None,
            };
            let nothing_yet = input.is_empty();
            self.follow(streams, event, nothing_yet);
            if let Err(overflow) = told {
                let event = streams.receive.overflow(overflow, self.shared, self.now);
                let _ = streams.shared.hear(&event);
                self.follow(streams, event, nothing_yet);
            }
            if self.opened.len() - before >= REQUESTS_A_VISIT {
                heard = heard.or(Some(Heard::Enough));
            }
            if let Some(heard) = heard {
                self.look_at_bodies(streams);
                return heard;
            }
        }
    }

    /// The peer has ended: bodies that are not complete are lost, replies are sent still.
    pub(super) fn hear_the_end(&mut self, streams: &mut Streams) {
        loop {
            let event = streams.receive.eof(self.shared, self.now);
            if let Event::NeedMore = event {
                break;
            }
            let _ = streams.shared.hear(&event);
            self.engine.counters.requests_incomplete.add();
            self.follow(streams, event, false);
        }
        streams.shared.peer_has_ended();
        for call in &streams.calls {
            if let Place::Away { token, .. } = call.place {
                self.slots.wake(Wakeup { token, hung_up: true });
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, streams: &mut Streams) {
        loop {
            let event = streams.receive.tick(self.shared, self.now);
            match event {
                Event::NeedMore => return,
                Event::Refused { .. } => self.engine.counters.request_timeouts.add(),
                _ => {}
            }
            let fault = matches!(event, Event::Fault(_));
            self.follow(streams, event, false);
            if fault {
                return;
            }
        }
    }

    fn follow(&mut self, streams: &mut Streams, event: Event<'_>, nothing_yet: bool) {
        match event {
            Event::Request(request) => self.begin(streams, *request, nothing_yet),
            Event::Data { stream, data } => self.add(streams, stream, data),
            Event::End { stream } => self.body_is_whole(streams, stream),
            Event::Reset { stream, .. } => self.lose(streams, stream),
            Event::StreamError { stream, wrong } => {
                self.engine.counters.h2_fault(&wrong);
                self.lose(streams, stream);
            }
            Event::Refused { stream, fault } => self.refuse(streams, stream, &fault),
            Event::Fault(wrong) => self.fail(streams, &wrong),
            Event::Priority { stream, priority } => streams.shared.prefer(stream, priority),
            Event::NeedMore | Event::Window { .. } | Event::Settings(_) | Event::Goaway { .. } => {}
        }
    }

    /// A request begins.
    fn begin(&mut self, streams: &mut Streams, request: Request, nothing_yet: bool) {
        let Request { stream, head, end, protocol, priority, .. } = request;
        streams.shared.half().open(stream);
        if priority != Priority::UNSAID {
            streams.shared.prefer(stream, priority);
        }
        let config = &self.engine.config;
        let arriving = Arriving {
            head: Arc::clone(&head),
            body: Some(BodyBuffer::new()),
            ahead: Vec::new(),
            complete: false,
            grown: false,
            since: self.statistics.stamp(),
        };
        streams.calls.push(Call { stream, place: Place::Arriving(Box::new(arriving)) });
        // What a client's certificate lets it do at one host it does not at another, and connections are shared by hosts.
        if streams.shared.transport().tls().is_some_and(|tls| tls.is_misdirected(head.host())) {
            return self.refuse(streams, stream, &wire::MISDIRECTED);
        }
        if end {
            return self.give_out(streams, stream, Some(Body::Empty));
        }
        if protocol.is_some() {
            // What comes is no body, and both sides speak at once.
            return self.give_out(streams, stream, None);
        }
        if config.evented {
            // What this look brings whole is given out as it is.
            return;
        }
        if !config.request_buffering {
            return self.give_out(streams, stream, None);
        }
        if let Framing::Length(length) = head.framing
            && config.limits.lacks_disk(length, self.engine.spool.disk.used())
        {
            return self.refuse(streams, stream, &wire::BODIES_DISK);
        }
        // A body that has begun to arrive needs no word (RFC 9110 §10.1.1).
        if head.expects_continue && nothing_yet {
            let _ = streams.shared.half().send(stream, wire::CONTINUE, &[], false);
        }
    }

    /// Gives a request to whoever answers; without a body given, that is read as it comes.
    pub(super) fn give_out(&mut self, streams: &mut Streams, stream: u32, body: Option<Body>) {
        let shared = Arc::clone(&streams.shared);
        let Some(call) = streams.call(stream) else { return };
        let token = self.slots.take_for_stream();
        let Place::Arriving(arriving) =
            std::mem::replace(&mut call.place, Place::Away { token, inlet: None })
        else {
            return self.slots.free_of_stream(token);
        };
        let Arriving { head, body: buffer, since, .. } = *arriving;
        let body = body.unwrap_or_else(|| {
            let bytes = buffer.map_or_else(Vec::new, BodyBuffer::into_bytes);
            let expects = head.expects_continue && bytes.is_empty();
            let inlet = Inlet::new(&shared, stream, bytes, expects);
            call.place = Place::Away { token, inlet: Some(Arc::clone(&inlet)) };
            Body::Stream(Arc::new(Incoming::Stream(inlet)))
        });
        self.engine.counters.requests_total.add_alone();
        let stream = Stream::of(&shared, stream, token);
        let mut exchange = Box::new(Exchange::on_stream(stream, head, body, self.engine, self.now));
        exchange.arrives(self.statistics, since, self.engine);
        self.opened.push_back(exchange);
    }

    /// The peer has cut a stream, or has done what it must not on it.
    fn lose(&mut self, streams: &mut Streams, stream: u32) {
        let Some(call) = streams.call(stream) else { return };
        match &call.place {
            Place::Away { token, inlet } => {
                if let Some(inlet) = inlet {
                    inlet.lose();
                }
                self.slots.wake(Wakeup { token: *token, hung_up: true });
            }
            Place::Arriving(_) => drop(streams.call_is_over(stream, false, self.shared, self.now)),
            Place::Over => {}
        }
    }

    /// What has arrived on a stream is answered without the application, or ends the body that is read there.
    pub(super) fn refuse(&mut self, streams: &mut Streams, stream: u32, fault: &Fault) {
        let Some(call) = streams.call(stream) else {
            streams.shared.half().open(stream);
            streams.calls.push(Call { stream, place: Place::Over });
            let head = self.shared.take_refused();
            return self.answer(streams, stream, head.as_ref(), fault);
        };
        match &call.place {
            Place::Away { token, inlet } => {
                if let Some(inlet) = inlet
                    && inlet.refuse(*fault)
                {
                    self.slots.wake(Wakeup { token: *token, hung_up: false });
                }
            }
            Place::Arriving(arriving) => {
                let head = Arc::clone(&arriving.head);
                call.place = Place::Over;
                self.answer(streams, stream, Some(&head), fault);
            }
            Place::Over => {}
        }
    }

    /// Answers with a refusal: what the peer does not take of it goes on by itself.
    fn answer(&mut self, streams: &Streams, stream: u32, head: Option<&Arc<Head>>, fault: &Fault) {
        let (engine, limits) = (self.engine, &self.engine.config.limits);
        let origin = streams.shared.origin();
        let refusal = Refusal::new(fault, head.cloned(), origin.peer, engine);
        engine.log.complain(Level::Info, || {
            format!("refused a request from {}: {} {refusal}", shown(&origin.peer), fault.status)
        });
        let spoken = (streams.shared.transport().tls().is_some(), Version::Http2);
        let reply = refusal.reply(spoken, self.statistics, engine);
        let mut stream = Stream::of(&streams.shared, stream, 0);
        // Whoever has cut it meanwhile wants no answer.
        if let Ok(taken) = stream.send(&[&reply], wire::head_length(&reply), true)
            && taken < reply.len()
        {
            stream.queue(limits, self.now).copy(&reply[taken..]);
        }
        stream.end();
    }

    /// The connection cannot go on: its machine has the farewell.
    fn fail(&mut self, streams: &mut Streams, wrong: &Wrong) {
        if streams.ends {
            return;
        }
        // A request that is refused by ending the connection has no reply, and no line.
        drop(self.shared.take_refused());
        streams.ends = true;
        if wrong.reason == "idle" {
            self.engine.counters.idle_timeouts.add();
        } else {
            self.engine.counters.h2_fault(wrong);
            let peer = streams.shared.origin().peer;
            self.engine.log.complain(Level::Info, || {
                format!("ends a connection of HTTP/2 from {}: {}", shown(&peer), wrong.text)
            });
        }
        streams.shared.close();
        lose_all(self.slots, streams);
    }
}
