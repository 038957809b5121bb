//! One WebSocket's conversation: from `websocket.connect` to the last close frame.
//!
//! Knows: ASGI, "WebSocket", and when a client has been silent for too long. Does not know:
//! frames' grammar (`wire::ws`) or sockets. Runs on the event loop's thread.
//!
//! ```text
//!   CONNECTING ──accept──► OPEN ──close, ours──► CLOSING ──echo, or time──► handed back
//!      ├──close, http.response──► (an HTTP reply)  └──close, theirs: echoed──────┘
//! ```

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use reactor::sys::monotonic_ms;
use server::engine::{Engine, Stage as EngineStage};
use server::exchange::{Exchange, Raw};
use wire::ws::{
    Closing, Deflater, Due, Handshake, Kind, Liveness, Message, MessageQueue, Offer, WIDEST, WsEvent,
    WsMachine, close_frame, code, frame_head,
};

use super::awaitable::Attempt;
use super::reply::Http;
use super::shared::Shared;

/// Messages below this size would hardly become smaller.
const DEFLATE_FROM: usize = 128;

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `told`: the application has had `websocket.connect`.
    Connecting {
        told: bool,
    },
    /// The application answers in HTTP.
    Denying,
    Open,
    /// We have sent a close frame; the client's is waited for.
    Closing,
    Over,
}

/// One WebSocket.
pub struct WebSocket {
    /// None once it was handed back.
    pub exchange: Option<Box<Exchange>>,
    pub handshake: Handshake,
    pub stage: Stage,
    /// The reply of a denial.
    pub denial: Option<Box<Http>>,
    machine: WsMachine,
    queue: MessageQueue,
    /// How it has ended, which the application hears behind the last message.
    pub ended: Option<Closing>,
    /// The end was the application's own wish.
    pub by_us: bool,
    /// Reading has stopped because the queue is full.
    stalled: bool,
    liveness: Liveness,
    /// A ping that could not be answered yet; only the latest needs to be (RFC 6455 §5.5.3).
    owed_pong: Option<Vec<u8>>,
}

impl WebSocket {
    pub fn new(exchange: Box<Exchange>, handshake: Handshake) -> Self {
        let machine = WsMachine::new(handshake.deflate != Offer::None);
        Self {
            exchange: Some(exchange),
            handshake,
            stage: Stage::Connecting { told: false },
            denial: None,
            machine,
            queue: MessageQueue::default(),
            ended: None,
            by_us: false,
            stalled: false,
            liveness: Liveness::new(monotonic_ms()),
            owed_pong: None,
        }
    }

    /// True where nothing more can be sent.
    pub fn is_gone(&self) -> bool {
        self.exchange.as_ref().is_none_or(|exchange| exchange.is_broken())
    }

    /// True where somebody who waits for an event would get one.
    pub fn has_event(&self) -> bool {
        !self.queue.is_empty() || self.ended.is_some()
    }

    /// True where its exchange is over, or that of the reply which denies it.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Over && (self.exchange.is_some() || self.denial.is_some())
    }

    /// The exchange that is over, to be handed back.
    pub fn take_done(&mut self, shared: &Shared, py: Python<'_>) -> Option<Http> {
        if !self.is_done() {
            return None;
        }
        match self.denial.take() {
            Some(http) => Some(*http),
            None => self.exchange.take().map(|exchange| Http::new(exchange, shared.builder(py))),
        }
    }

    /// Bytes that the client has not taken.
    pub fn unsent(&self) -> u64 {
        self.exchange.as_ref().map_or(0, |exchange| exchange.unsent_counted())
    }

    /// The next event for the application, if there is one.
    pub fn next_event(&mut self, shared: &Shared, py: Python<'_>) -> PyResult<Attempt> {
        if self.stage == (Stage::Connecting { told: false }) {
            self.stage = Stage::Connecting { told: true };
            let event = PyDict::new(py);
            event.set_item(intern!(py, "type"), intern!(py, "websocket.connect"))?;
            return Ok(Attempt::Ready(event.into_any().unbind()));
        }
        if let Some(message) = self.queue.pop() {
            if std::mem::take(&mut self.stalled) {
                self.pump(shared, py, true);
            }
            return Ok(Attempt::Ready(message_event(py, &message)?));
        }
        if let Some(ended) = &self.ended {
            return Ok(Attempt::Ready(disconnect_event(py, ended)?));
        }
        if matches!(self.stage, Stage::Connecting { .. })
            && self.exchange.as_mut().is_some_and(|exchange| exchange.peer_has_left())
        {
            self.lost(&shared.engine);
            return self.next_event(shared, py);
        }
        if self.refuse_if_stopping(shared, py) {
            return self.next_event(shared, py);
        }
        Ok(Attempt::Wait)
    }

    /// A handshake that is not answered yet, of an application that waits for more to hear, while
    /// the server is on its way out: nothing would come any more. True: the client has been told.
    pub fn refuse_if_stopping(&mut self, shared: &Shared, py: Python<'_>) -> bool {
        if !matches!(self.stage, Stage::Connecting { told: true })
            || shared.engine.stage() == EngineStage::Serving
        {
            return false;
        }
        let Some(exchange) = &mut self.exchange else { return false };
        let mut builder = shared.builder(py);
        exchange.refuse(&wire::STOPPING, &mut builder, &shared.engine);
        self.note_end(code::ABNORMAL, "");
        self.stage = Stage::Over;
        true
    }

    /// The client is gone without a word.
    pub fn lost(&mut self, engine: &Engine) {
        if let Some(exchange) = &mut self.exchange {
            exchange.lose(engine);
        }
        self.note_end(code::ABNORMAL, "");
        self.stage = Stage::Over;
    }

    /// Notes how it ended; the first end counts.
    pub fn note_end(&mut self, code: u16, reason: &str) {
        self.ended.get_or_insert_with(|| Closing { code, reason: reason.into() });
    }

    /// The handshake is answered: the connection speaks WebSocket from here on.
    pub fn open(&mut self, head: &[u8], shared: &Shared, py: Python<'_>) -> bool {
        let Some(exchange) = &mut self.exchange else { return false };
        if exchange.upgrade(head, &shared.engine).is_err() {
            self.lost(&shared.engine);
            return false;
        }
        // An application that never suspends has not made it watched.
        shared.event_loop.watch(py, exchange);
        self.stage = Stage::Open;
        self.liveness.hear(monotonic_ms());
        if shared.engine.stage() != EngineStage::Serving {
            self.close(code::GOING_AWAY, "", shared, py);
        }
        // Frames may have come behind the request.
        self.pump(shared, py, true);
        self.check_timers(shared, py);
        true
    }

    /// Sends a message.
    pub fn send(&mut self, kind: Kind, data: &[u8], shared: &Shared, py: Python<'_>) {
        let small = match (self.handshake.deflate, shared.deflater.borrow(py)) {
            (Offer::Deflate { window }, Some(mut deflater)) if data.len() >= DEFLATE_FROM => {
                deflater.deflate(data, window.unwrap_or(WIDEST))
            }
            _ => None,
        };
        let mut head = Vec::with_capacity(10);
        frame_head(kind, small.is_some(), small.as_ref().map_or(data.len(), Vec::len), &mut head);
        self.raw(&[&head, small.as_deref().unwrap_or(data)], &shared.engine);
        if let Some(exchange) = &self.exchange {
            // A client that takes nothing is given up in time, whatever the application does.
            shared.event_loop.send_later(py, exchange);
        }
    }

    fn raw(&mut self, pieces: &[&[u8]], engine: &Engine) {
        let sent = self.exchange.as_mut().map(|exchange| exchange.raw(pieces, engine));
        if let Some(Err(_)) = sent {
            self.lost(engine);
        }
    }

    /// Begins the closing handshake (RFC 6455 §7.1.2).
    pub fn close(&mut self, code: u16, reason: &str, shared: &Shared, py: Python<'_>) {
        if self.stage != Stage::Open {
            return;
        }
        let mut frame = Vec::new();
        close_frame(code, reason, &mut frame);
        self.liveness.close(&shared.engine.config.limits, monotonic_ms());
        self.stage = Stage::Closing;
        self.note_end(code, reason);
        self.raw(&[&frame], &shared.engine);
        self.check_timers(shared, py);
    }

    /// The connection has an event, or a deadline has come.
    pub fn on_ready(&mut self, hung_up: bool, shared: &Shared, py: Python<'_>) {
        let Some(exchange) = &mut self.exchange else { return };
        if exchange.push(&shared.engine).is_err() {
            return self.lost(&shared.engine);
        }
        match self.stage {
            Stage::Open | Stage::Closing => {
                if let Some(data) = self.owed_pong.take() {
                    self.pong(data, shared);
                }
                self.pump(shared, py, hung_up);
                self.check_timers(shared, py);
            }
            Stage::Connecting { .. } if hung_up => self.lost(&shared.engine),
            Stage::Connecting { .. } | Stage::Denying | Stage::Over => {}
        }
    }

    /// Reads and takes what has come, until the queue is full. `thorough`: until the socket
    /// says that there is no more; otherwise a short read is taken for its word.
    fn pump(&mut self, shared: &Shared, py: Python<'_>, thorough: bool) {
        let (Some(mut buffer), Some(mut deflater)) =
            (shared.read_buffer.borrow(py), shared.deflater.borrow(py))
        else {
            return;
        };
        while matches!(self.stage, Stage::Open | Stage::Closing) {
            if self.queue.is_full(&shared.engine.config.limits) {
                if !std::mem::replace(&mut self.stalled, true) {
                    shared.engine.counters.ws_waits.add();
                }
                return;
            }
            let Some(exchange) = &mut self.exchange else { return };
            match exchange.read_raw(&mut buffer) {
                Raw::Nothing => return,
                Raw::Ended => return self.lost(&shared.engine),
                Raw::Data(bytes) => {
                    let short = bytes.len() < 64 * 1024;
                    self.liveness.hear(monotonic_ms());
                    let left = self.read_frames(bytes, shared, &mut deflater);
                    let left = &bytes[bytes.len() - left..];
                    if let Some(exchange) = &mut self.exchange
                        && !left.is_empty()
                        && self.stage != Stage::Over
                    {
                        exchange.unread(left);
                    } else if short && !thorough {
                        return;
                    }
                }
            }
        }
    }

    /// Takes frames; how many bytes are left because the queue is full.
    fn read_frames(&mut self, bytes: &[u8], shared: &Shared, deflater: &mut Deflater) -> usize {
        let engine = &shared.engine;
        let mut input = bytes;
        while !self.queue.is_full(&engine.config.limits) && self.stage != Stage::Over {
            match self.machine.advance(&mut input, &engine.config.limits, deflater) {
                WsEvent::NeedMore => break,
                // What the client had under way when we closed is nobody's any more.
                WsEvent::Message(message) if self.stage == Stage::Open => self.queue.push(message),
                WsEvent::Message(_) | WsEvent::Pong(_) => {}
                WsEvent::Ping(data) => self.pong(data, shared),
                WsEvent::Close(closing) => self.closed(&closing, engine),
                WsEvent::Fault(closing) => {
                    engine.counters.ws_faults.add();
                    self.closed(&closing, engine);
                }
            }
        }
        input.len()
    }

    /// A ping is answered with its own data, unless the client takes nothing: then later.
    fn pong(&mut self, data: Vec<u8>, shared: &Shared) {
        if self.stage != Stage::Open {
            return;
        }
        if self.unsent() > shared.room {
            self.owed_pong = Some(data);
            return;
        }
        let mut frame = Vec::with_capacity(data.len() + 2);
        frame_head(Kind::Pong, false, data.len(), &mut frame);
        frame.extend_from_slice(&data);
        self.raw(&[&frame], &shared.engine);
    }

    /// The client has closed, or must be closed at once: its code goes back to it.
    fn closed(&mut self, closing: &Closing, engine: &Engine) {
        if self.stage == Stage::Open {
            let mut frame = Vec::new();
            if closing.code == code::NO_STATUS {
                frame_head(Kind::Close, false, 0, &mut frame);
            } else {
                close_frame(closing.code, &closing.reason, &mut frame);
            }
            self.raw(&[&frame], engine);
        }
        self.note_end(closing.code, &closing.reason);
        self.finish();
    }

    fn finish(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.end_raw();
        }
        self.stage = Stage::Over;
    }

    /// What time has brought: a ping, the end of a client that answers none, the end of
    /// waiting for a close frame. Sees to it that the next such moment is not missed.
    fn check_timers(&mut self, shared: &Shared, py: Python<'_>) {
        let limits = &shared.engine.config.limits;
        let counters = &shared.engine.counters;
        if !matches!(self.stage, Stage::Open | Stage::Closing) {
            return;
        }
        let next = match self.liveness.due(limits, self.stalled, monotonic_ms()) {
            Due::Nothing(next) => next,
            Due::Ping(next) => {
                self.raw(&[&[0x80 | Kind::Ping as u8, 0]], &shared.engine);
                next
            }
            Due::NoPong => {
                counters.ws_ping_timeouts.add();
                let mut frame = Vec::new();
                close_frame(code::INTERNAL, "no answer to a ping", &mut frame);
                self.raw(&[&frame], &shared.engine);
                self.note_end(code::ABNORMAL, "no answer to a ping");
                return self.finish();
            }
            Due::NoClose => {
                counters.ws_close_timeouts.add();
                return self.finish();
            }
        };
        if let Some(exchange) = &self.exchange {
            shared.event_loop.wake_at(py, exchange.token(), next);
            shared.event_loop.send_later(py, exchange);
        }
    }
}

fn message_event(py: Python<'_>, message: &Message) -> PyResult<Py<PyAny>> {
    let event = PyDict::new(py);
    event.set_item(intern!(py, "type"), intern!(py, "websocket.receive"))?;
    // Only the key that has a value: applications ask `"text" in event`.
    if message.text {
        // The machine has found it to be UTF-8.
        event.set_item(intern!(py, "text"), PyString::new(py, &String::from_utf8_lossy(&message.data)))?;
    } else {
        event.set_item(intern!(py, "bytes"), PyBytes::new(py, &message.data))?;
    }
    Ok(event.into_any().unbind())
}

fn disconnect_event(py: Python<'_>, ended: &Closing) -> PyResult<Py<PyAny>> {
    let event = PyDict::new(py);
    event.set_item(intern!(py, "type"), intern!(py, "websocket.disconnect"))?;
    event.set_item(intern!(py, "code"), ended.code)?;
    event.set_item(intern!(py, "reason"), &*ended.reason)?;
    Ok(event.into_any().unbind())
}
