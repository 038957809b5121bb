//! The plan made ready: addresses looked up, files read, requests as bytes. Built once, on the main thread, and then only read.

use crate::http2::Asked;
use crate::pace::Shape;
use crate::plan::{Load, MOST_THREADS, Plan, Request, Slow, Stop, wrong};
use crate::reply::Expectation;
use crate::tls;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use rustix::net::{SocketAddrAny, SocketAddrUnix};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// One kind of request, as the bytes that go out.
#[derive(Debug)]
pub struct Template {
    pub name: String,
    pub weight: u32,
    pub bytes: Vec<u8>,
    /// The same request, as the last of a session: it says `Connection: close`.
    pub last: Vec<u8>,
    /// The same for HTTP/2, and only where the plan has that.
    pub asked: Option<Asked>,
    pub expected: Expectation,
}

/// Where connections go to.
#[derive(Debug)]
pub struct Endpoint {
    pub address: SocketAddrAny,
    /// The same, as people write it.
    pub shown: String,
    pub is_unix: bool,
    /// Local addresses, used in turn; none: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// The address that stands for any of this machine's, in the server's family.
    pub any_source: IpAddr,
}

/// Everything that a thread needs to know. Times are nanoseconds.
#[derive(Debug)]
pub struct Job {
    pub plan: Plan,
    pub endpoint: Endpoint,
    pub templates: Vec<Template>,
    /// None: in the clear.
    pub tls: Option<tls::Terms>,
    pub is_http2: bool,
    pub keeps_alive: bool,
    /// How many requests may be on their way on a connection.
    pub depth: usize,
    pub shape: Option<Shape>,
    pub duration: u64,
    pub drain: u64,
    pub connect_limit: u64,
    pub first_byte_limit: u64,
    pub body_limit: u64,
    pub think: u64,
    pub late_after: u64,
    pub threads: usize,
    /// Which of several engines this one is, from 0 on, and how many there are.
    pub part: (usize, usize),
}

/// Seconds as nanoseconds.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl Job {
    pub fn prepare(mut plan: Plan) -> Result<Job, Stop> {
        let shape = plan.shape()?;
        plan.check()?;
        let url = Url::parse(&plan.url)?;
        let endpoint = Endpoint::find(&plan, &url)?;
        let keeps_alive = plan.keeps_alive();
        let mut templates = Vec::new();
        for request in &plan.requests {
            if plan.requests.iter().filter(|other| other.name == request.name).count() > 1 {
                return wrong(format!("two requests are named {:?}: give each its own name", request.name));
            }
            templates.push(template(request, &plan, &url)?);
        }
        let think = if let Load::Sessions(sessions) = &plan.load { nanoseconds(sessions.think_s) } else { 0 };
        Ok(Job {
            tls: url.is_secure.then(|| tls::Terms::of(&plan, &url.host)).transpose()?,
            is_http2: plan.is_http2(),
            keeps_alive,
            depth: plan.depth(),
            shape,
            duration: nanoseconds(plan.duration_s),
            drain: nanoseconds(plan.drain_s),
            connect_limit: nanoseconds(plan.timeouts.connect_s),
            first_byte_limit: nanoseconds(plan.timeouts.first_byte_s),
            body_limit: nanoseconds(plan.timeouts.body_s),
            think,
            late_after: nanoseconds(plan.late_after_ms / 1e3),
            threads: threads(&plan),
            part: plan.part.map_or((0, 1), |(number, parts)| (number - 1, parts)),
            endpoint,
            templates,
            plan,
        })
    }

    pub fn slow_read(&self) -> Option<Slow> {
        self.plan.slow_read
    }

    pub fn slow_write(&self) -> Option<Slow> {
        self.plan.slow_write
    }

    /// So many requests, or sessions, and no more.
    pub fn count(&self) -> Option<u64> {
        match &self.plan.load {
            Load::Closed(closed) => closed.count,
            Load::Open(open) => open.count,
            Load::Sessions(sessions) => sessions.count,
        }
    }

    /// The share of `total` that falls to one of the threads; the shares of all threads of all parts add up.
    pub fn share(&self, total: u64, thread: usize) -> u64 {
        fair(fair(total, self.part.0, self.part.1), thread, self.threads)
    }

    /// Every how many planned moments one is a thread's, and how many pass before its first: among all parts.
    pub fn dealt(&self, thread: usize) -> (usize, usize) {
        (self.part.0 + thread * self.part.1, self.threads * self.part.1)
    }
}

/// What the `number`-th of `all` gets when `total` is dealt round.
fn fair(total: u64, number: usize, all: usize) -> u64 {
    let all = all as u64;
    total / all + u64::from((number as u64) < total % all)
}

/// A thread without a connection would only cost, so there are never more threads than connections.
fn threads(plan: &Plan) -> usize {
    let offered = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = plan.threads.unwrap_or(if plan.cpus.is_empty() { offered } else { plan.cpus.len() });
    let (number, parts) = plan.part.unwrap_or((1, 1));
    let own = |connections: usize| fair(connections as u64, number - 1, parts) as usize;
    let most = match &plan.load {
        Load::Closed(closed) => own(closed.connections),
        Load::Open(open) => open.max_connections.map_or(MOST_THREADS, own),
        Load::Sessions(_) => MOST_THREADS,
    };
    threads.clamp(1, most.clamp(1, MOST_THREADS))
}

/// The parts of a URL that a load needs.
struct Url {
    /// For the Host field.
    authority: String,
    host: String,
    port: u16,
    target: String,
    is_secure: bool,
}

impl Url {
    fn parse(text: &str) -> Result<Url, Stop> {
        let bad = |why: &str| {
            Stop::Plan(format!("{text:?} is no URL for a load: {why} (for example http://127.0.0.1:8000/)"))
        };
        let (rest, is_secure) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err(bad("it does not begin with http:// or https://")),
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(
                "it has a space, a control character or a letter beyond ASCII; write it percent-encoded",
            ));
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(cut);
        if authority.is_empty() || authority.contains('@') {
            return Err(bad("it has no plain host"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port
                    .parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| bad("its port is no number from 1 to 65535"))?;
                (host, port)
            }
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
        Ok(Url { authority: authority.to_string(), host, port, target, is_secure })
    }
}

impl Endpoint {
    fn find(plan: &Plan, url: &Url) -> Result<Endpoint, Stop> {
        if let Some(path) = &plan.unix {
            if !plan.sources.is_empty() {
                return wrong(
                    "unix and sources are both given, but a unix socket has no source address: choose one"
                        .into(),
                );
            }
            let address = SocketAddrUnix::new(path.as_str()).map_err(|_| {
                Stop::Plan(format!("{path:?} is too long for a unix socket: 107 bytes at most"))
            })?;
            return Ok(Endpoint {
                address: address.into(),
                shown: format!("unix:{path}"),
                is_unix: true,
                sources: Vec::new(),
                any_source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            });
        }
        let found = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| {
            Stop::Plan(format!("cannot find the host {:?} of {}: {error}", url.host, plan.url))
        })?;
        // As other clients try one after the other, a server of `localhost` need not be at both of its addresses.
        let Some(address) = found.min_by_key(SocketAddr::is_ipv6) else {
            return wrong(format!("the host {:?} has no address", url.host));
        };
        let mut sources = Vec::new();
        for source in &plan.sources {
            let source: IpAddr = source.parse().map_err(|_| {
                Stop::Plan(format!("the source {source:?} is no address (for example 127.0.0.2)"))
            })?;
            if source.is_ipv4() != address.is_ipv4() {
                return wrong(format!(
                    "the source {source} and the server's address {} are of different families",
                    address.ip()
                ));
            }
            sources.push(source);
        }
        let any_source = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Ok(Endpoint {
            address: address.into(),
            shown: address.to_string(),
            is_unix: false,
            sources,
            any_source,
        })
    }
}

fn read(path: &str, what: &str) -> Result<Vec<u8>, Stop> {
    fs::read(path).map_err(|error| Stop::Plan(format!("cannot read the {what} {path:?}: {error}")))
}

/// A text or a file, or neither.
fn content(text: Option<&String>, path: Option<&String>, what: &str) -> Result<Option<Vec<u8>>, Stop> {
    match (text, path) {
        (Some(_), Some(_)) => wrong(format!("{what} is given as text and as a file: choose one")),
        (Some(text), None) => Ok(Some(text.clone().into_bytes())),
        (None, Some(path)) => read(path, what).map(Some),
        (None, None) => Ok(None),
    }
}

fn template(request: &Request, plan: &Plan, url: &Url) -> Result<Template, Stop> {
    let named = format!("of request {:?}", request.name);
    let body = content(request.body.as_ref(), request.body_file.as_ref(), &format!("body {named}"))?;
    let expect = &request.expect;
    let expected_body =
        content(expect.body.as_ref(), expect.body_file.as_ref(), &format!("expected body {named}"))?;
    if expect.status.is_empty() {
        return wrong(format!("expect.status {named} is empty: no reply could be good"));
    }
    if request.chunked && (plan.http == "1.0" || body.is_none() || request.chunk_bytes == 0) {
        return wrong(format!(
            "request {:?} is chunked: that needs HTTP/1.1, a body, and chunk_bytes above 0",
            request.name
        ));
    }
    let head = RequestHead { request, plan, url, body: body.as_deref() };
    let asked = plan.is_http2().then(|| head.asked()).transpose()?;
    let body = body.as_deref().map_or(Vec::new(), |body| coded(body, request));
    let with_body = |close: bool| head.bytes(close).map(|head| [head, body.clone()].concat());
    Ok(Template {
        name: request.name.clone(),
        weight: request.weight,
        bytes: with_body(!plan.keeps_alive())?,
        last: with_body(true)?,
        asked,
        expected: Expectation {
            head: request.method == "HEAD",
            statuses: expect.status.clone(),
            length: expect.length,
            body: expected_body.map(Arc::from),
        },
    })
}

/// The body as it goes out: as it is, or in chunks.
fn coded(body: &[u8], request: &Request) -> Vec<u8> {
    if !request.chunked {
        return body.to_vec();
    }
    let mut coded = Vec::with_capacity(body.len() + 64);
    for chunk in body.chunks(request.chunk_bytes) {
        coded.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        coded.extend_from_slice(chunk);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

/// Fields that only HTTP/1 has (RFC 9113 section 8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

struct RequestHead<'a> {
    request: &'a Request,
    plan: &'a Plan,
    url: &'a Url,
    body: Option<&'a [u8]>,
}

impl RequestHead<'_> {
    /// As HTTP/2 has it (RFC 9113 section 8.2): the host is a part of the URI, and a connection has no fields.
    fn asked(&self) -> Result<Asked, Stop> {
        let Request { method, target, headers, name: called, .. } = self.request;
        let bad = |what: &str| Stop::Plan(format!("request {called:?} cannot be one of HTTP/2: {what}"));
        let given = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(HOST.as_str()));
        let authority = given.map_or(&self.url.authority, |(_, value)| value);
        let scheme = if self.url.is_secure { "https" } else { "http" };
        let target = target.as_ref().unwrap_or(&self.url.target);
        if !target.starts_with('/') {
            return Err(bad(&format!("its target {target:?} does not begin with a slash")));
        }
        let mut head = http::Request::builder()
            .version(http::Version::HTTP_2)
            .method(method.as_str())
            .uri(format!("{scheme}://{authority}{target}"));
        for (name, value) in headers {
            if OF_CONNECTIONS.iter().any(|field| name.eq_ignore_ascii_case(field)) {
                return Err(bad(&format!("HTTP/2 has no field {name:?}")));
            }
            if !name.eq_ignore_ascii_case(HOST.as_str()) {
                head = head.header(name.as_str(), value.as_str());
            }
        }
        let body = self.body.map_or_else(Bytes::new, Bytes::copy_from_slice);
        let names_length = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str()));
        if self.body.is_some() && !self.request.chunked && !names_length {
            head = head.header(CONTENT_LENGTH, body.len());
        }
        let piece = if self.request.chunked { self.request.chunk_bytes } else { body.len() };
        let head = head.body(()).map_err(|error| bad(&error.to_string()))?;
        Ok(Asked { head, body, piece })
    }

    fn bytes(&self, close: bool) -> Result<Vec<u8>, Stop> {
        let Request { method, target, headers, .. } = self.request;
        let target = target.as_ref().unwrap_or(&self.url.target);
        let is_token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte))
        };
        if !is_token(method) || target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(format!(
                "request {:?}: {method:?} {target:?} cannot be a method and a target",
                self.request.name
            ));
        }
        let names = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {target} HTTP/{}\r\n", self.plan.http);
        if !names("host") {
            head += &format!("Host: {}\r\n", self.url.authority);
        }
        for (name, value) in headers {
            if !is_token(name) || value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
                return wrong(format!(
                    "request {:?}: {name:?}: {value:?} cannot be a header field",
                    self.request.name
                ));
            }
            head += &format!("{name}: {value}\r\n");
        }
        match self.body {
            Some(_) if self.request.chunked => head += "Transfer-Encoding: chunked\r\n",
            Some(body) if !names("content-length") => head += &format!("Content-Length: {}\r\n", body.len()),
            _ => {}
        }
        match (self.plan.http.as_str(), close) {
            _ if names("connection") => {}
            ("1.1", true) => head += "Connection: close\r\n",
            ("1.0", false) => head += "Connection: keep-alive\r\n",
            _ => {}
        }
        Ok((head + "\r\n").into_bytes())
    }
}
