//! A server that speaks HTTP/2 by prior knowledge on a loopback port: what h2spec, curl and other clients judge the
//! machines of `wire::h2` by.
//!
//! `cargo run -p wire --example h2c -- [PORT]` prints its address on a line. `/bytes/N` answers with so many bytes,
//! `/echo` with what was sent, anything else with the request as text. One thread a connection, which waits for its
//! client; that is all that makes it no server for anybody else.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use wire::h2::{Event, Receive, Request, Send, reply};
use wire::{Fault, Limits, Millis, Policy, Shared, reason_phrase};

/// Not so much of a reply is framed that the client has not taken what was framed before.
const AHEAD: usize = 64 * 1024;

/// One request, and what is left of its reply.
struct Call {
    request: Option<Box<Request>>,
    body: Vec<u8>,
    reply: Option<(Vec<u8>, usize)>,
}

struct Connection {
    socket: TcpStream,
    shared: Shared,
    receive: Receive,
    send: Send,
    calls: BTreeMap<u32, Call>,
    begun: Instant,
}

impl Connection {
    fn new(socket: TcpStream) -> Self {
        let shared = Shared::new(Limits::default(), Policy::default());
        let receive = Receive::new(0, false, &shared, 0);
        Self { socket, shared, receive, send: Send::default(), calls: BTreeMap::new(), begun: Instant::now() }
    }

    fn now(&self) -> Millis {
        self.begun.elapsed().as_millis() as Millis
    }

    fn serve(mut self) -> io::Result<()> {
        let mut buffer = vec![0; AHEAD];
        loop {
            if !self.receive.is_over() {
                self.answer()?;
            }
            if self.receive.is_over() {
                // A farewell is the last that is said.
                let farewell = self.receive.take_output();
                self.socket.write_all(&farewell)?;
                return self.linger(&mut buffer);
            }
            let wait =
                self.receive.deadline(&self.shared.limits).map(|at| at.saturating_sub(self.now()).max(1));
            self.socket.set_read_timeout(wait.map(Duration::from_millis))?;
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => self.hear(&buffer[..length]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let event = self.receive.tick(&self.shared, self.now());
                    self.act(event);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Until the client has read why: an end before that would be a reset, which takes unread bytes along.
    fn linger(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)?;
        self.socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        while self.socket.read(buffer)? > 0 {}
        Ok(())
    }

    fn hear(&mut self, mut input: &[u8]) {
        let now = self.now();
        loop {
            let event = self.receive.advance(&mut input, &mut self.shared, now);
            let told = self.send.hear(&event);
            let stop = matches!(event, Event::NeedMore | Event::Fault(_));
            self.act(event);
            if let Err(overflow) = told {
                let event = self.receive.overflow(overflow, &self.shared, now);
                self.act(event);
            }
            if stop {
                return;
            }
        }
    }

    fn act(&mut self, event: Event<'_>) {
        let now = self.now();
        match event {
            Event::Request(request) => {
                let (stream, end) = (request.stream, request.end);
                self.send.open(stream);
                self.calls.insert(stream, Call { request: Some(request), body: Vec::new(), reply: None });
                if end {
                    self.reply(stream);
                }
            }
            Event::Data { stream, data } => {
                if let Some(call) = self.calls.get_mut(&stream) {
                    call.body.extend_from_slice(data);
                }
                self.receive.read(stream, data.len(), &self.shared, now);
            }
            Event::End { stream } => self.reply(stream),
            Event::Refused { stream, fault } => self.refuse(stream, fault),
            Event::Reset { stream, .. } | Event::StreamError { stream, .. } => {
                self.calls.remove(&stream);
                self.receive.release(stream, &self.shared, now);
            }
            Event::NeedMore
            | Event::Window { .. }
            | Event::Settings(_)
            | Event::Priority { .. }
            | Event::Goaway { .. }
            | Event::Fault(_) => {}
        }
    }

    fn refuse(&mut self, stream: u32, fault: Fault) {
        if !self.calls.contains_key(&stream) {
            self.send.open(stream);
        }
        let text = format!("{} {}: {}\n", fault.status, reason_phrase(fault.status), fault.text);
        self.begin_reply(stream, fault.status, text.into_bytes());
    }

    fn reply(&mut self, stream: u32) {
        let Some(Call { request: Some(request), body, .. }) = self.calls.get_mut(&stream) else { return };
        let path = String::from_utf8_lossy(request.head.path()).into_owned();
        let is_head = request.head.is_head();
        let mut content = match path.strip_prefix("/bytes/").and_then(|number| number.parse().ok()) {
            Some(number) => vec![b'x'; number],
            None if path == "/echo" => std::mem::take(body),
            None => {
                let mut text = [request.head.request_line(), b"\n"].concat();
                for (name, value) in request.head.block.fields() {
                    text.extend_from_slice(&[name, b": ", value, b"\n"].concat());
                }
                text
            }
        };
        if is_head {
            content.clear();
        }
        self.begin_reply(stream, 200, content);
    }

    fn begin_reply(&mut self, stream: u32, status: u16, content: Vec<u8>) {
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            reason_phrase(status),
            content.len()
        );
        let mut block = Vec::new();
        reply::encode(head.as_bytes(), &mut block);
        let mut out = self.receive.take_output();
        self.send.head(stream, &block, content.is_empty(), &mut out);
        // What cannot be sent is seen at the next write.
        let _ = self.socket.write_all(&out);
        self.calls.insert(stream, Call { request: None, body: Vec::new(), reply: Some((content, 0)) });
    }

    /// Sends what can be sent, streams in turn.
    fn answer(&mut self) -> io::Result<()> {
        loop {
            let mut out = self.receive.take_output();
            for (&stream, call) in &mut self.calls {
                let Some((content, at)) = &mut call.reply else { continue };
                if out.len() < AHEAD && *at < content.len() {
                    *at += self.send.content(stream, &content[*at..], true, &mut out);
                }
            }
            self.receive.sent(self.send.take_frames());
            let done: Vec<u32> =
                self.calls.iter().filter(|call| is_done(call.1)).map(|call| *call.0).collect();
            let now = self.now();
            for stream in done {
                self.calls.remove(&stream);
                self.receive.release(stream, &self.shared, now);
            }
            if out.is_empty() {
                return Ok(());
            }
            self.socket.write_all(&out)?;
        }
    }
}

fn is_done(call: &Call) -> bool {
    call.reply.as_ref().is_some_and(|(content, at)| *at == content.len())
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    io::stdout().flush()?;
    for socket in listener.incoming() {
        let connection = Connection::new(socket?);
        connection.socket.set_nodelay(true)?;
        connection.socket.set_write_timeout(Some(Duration::from_secs(10)))?;
        // A client that is gone is nobody's loss here.
        std::thread::spawn(move || connection.serve().ok());
    }
    Ok(())
}
