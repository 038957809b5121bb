//! The access log: a line for each reply, in a format that is compiled once.
//!
//! Knows: the tokens of Apache's `LogFormat` (`%h`, `%{Referer}i`) and gunicorn's spelling of
//! them (`%(h)s`, `%({referer}i)s`). Does not know: where lines go (`log.rs`). Runs on the
//! thread that hands an exchange back.

use reactor::Address;
use reactor::sys::wall_us;
use wire::{Head, Peer, Trust, Version};

use crate::calendar;
use crate::log::{Form, Log, push_clean};
use crate::request_id::RequestId;
use crate::statistics::phase::{NAMES, NOT_MEASURED, Phase, Spans};

const COMMON: &str = "%h %l %u %t \"%r\" %s %b";
const COMBINED: &str = "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-Agent}i\"";

/// A compiled format and the file that its lines go to.
pub struct AccessLog {
    pub format: Format,
    pub log: Log,
}

/// How a line is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    Line {
        parts: Vec<Part>,
        wanted: Vec<Wanted>,
        /// Some of its parts are phases.
        phases: bool,
    },
    Json,
}

/// One part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(Vec<u8>),
    Value(Value),
    RequestHeader(String),
    /// Of the reply as it was sent: its place among the notes of an exchange.
    ReplyHeader(usize),
    /// A key of `environ`: its place among the notes, which the bridge fills in.
    Environ(usize),
    /// How long it took, in microseconds: its place among the names of phases.
    Phase(usize),
}

/// What an exchange has to note down for its line, in the order of its notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A header of the reply, by its name in small letters.
    ReplyHeader(String),
    /// A key of `environ`.
    Environ(String),
}

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    RemoteAddress,
    Nothing,
    Time,
    RequestLine,
    Method,
    Path,
    Query,
    Protocol,
    Status,
    Bytes,
    BytesOrDash,
    Seconds,
    Milliseconds,
    Microseconds,
    DecimalSeconds,
    Process,
    RequestId,
}

impl Format {
    /// Compiles `common`, `combined`, `json`, or a format with tokens.
    ///
    /// # Errors
    /// A sentence that names the token that is not known.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "json" => return Ok(Self::Json),
            "common" => return Self::parse(COMMON),
            "combined" => return Self::parse(COMBINED),
            _ => {}
        }
        if !text.contains('%') {
            return Err(format!("'{text}' is neither common, combined nor json, and has no % token"));
        }
        let mut parts = Vec::new();
        let mut wanted = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                parts.push(Part::Text(rest.as_bytes()[..at].to_vec()));
            }
            let (part, after) = token(&rest[at + 1..], &mut wanted)?;
            parts.push(part);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.as_bytes().to_vec()));
        }
        let phases = parts.iter().any(|part| matches!(part, Part::Phase(_)));
        Ok(Self::Line { parts, wanted, phases })
    }

    /// What an exchange has to note down while it is there to be seen.
    pub fn wanted(&self) -> &[Wanted] {
        match self {
            Self::Line { wanted, .. } => wanted,
            Self::Json => &[],
        }
    }
}

/// One token and what follows it; `rest` begins behind the percent sign.
fn token<'a>(rest: &'a str, wanted: &mut Vec<Wanted>) -> Result<(Part, &'a str), String> {
    if let Some(after) = rest.strip_prefix('%') {
        return Ok((Part::Text(b"%".to_vec()), after));
    }
    if let Some(inner) = rest.strip_prefix('(') {
        let end = inner.find(")s").ok_or_else(|| format!("'%({inner}' has no closing ')s'"))?;
        return Ok((named(&inner[..end], wanted)?, &inner[end + 2..]));
    }
    // Apache's modifiers: `%>s` is the final status, which is the only one here.
    let rest = rest.strip_prefix('>').unwrap_or(rest);
    let length = match rest.find('}') {
        Some(end) if rest.starts_with('{') => end + 2,
        _ => 1,
    };
    let name = rest.get(..length).ok_or_else(|| format!("'%{rest}' is not a token"))?;
    Ok((named(name, wanted)?, &rest[length..]))
}

fn named(name: &str, wanted: &mut Vec<Wanted>) -> Result<Part, String> {
    if let Some(inner) = name.strip_prefix('{') {
        return match inner.split_once('}') {
            Some((header, "i")) if !header.is_empty() => Ok(Part::RequestHeader(header.to_string())),
            Some((header, "o")) if !header.is_empty() => {
                wanted.push(Wanted::ReplyHeader(header.to_ascii_lowercase()));
                Ok(Part::ReplyHeader(wanted.len() - 1))
            }
            Some(("id", "x")) => Ok(Part::Value(Value::RequestId)),
            Some((phase, "p")) => match NAMES.iter().position(|name| *name == phase) {
                Some(place) => Ok(Part::Phase(place)),
                None => Err(format!(
                    "'%{name}' is not known: with p in braces there are phases, which are {} (and %p is the process)",
                    NAMES.join(", ")
                )),
            },
            Some((key, "e")) if !key.is_empty() => {
                wanted.push(Wanted::Environ(key.to_string()));
                Ok(Part::Environ(wanted.len() - 1))
            }
            _ => Err(format!(
                "'%{name}' is not known: of the tokens in braces there are %{{Header}}i, %{{Header}}o, %{{KEY}}e, %{{id}}x \
                 and %{{PHASE}}p"
            )),
        };
    }
    Ok(Part::Value(match name {
        "h" => Value::RemoteAddress,
        "l" | "u" => Value::Nothing,
        "t" => Value::Time,
        "r" => Value::RequestLine,
        "m" => Value::Method,
        "U" => Value::Path,
        "q" => Value::Query,
        "H" => Value::Protocol,
        "s" => Value::Status,
        "B" => Value::Bytes,
        "b" => Value::BytesOrDash,
        "T" => Value::Seconds,
        "M" => Value::Milliseconds,
        "D" => Value::Microseconds,
        "L" => Value::DecimalSeconds,
        "p" | "P" => Value::Process,
        "f" => return Ok(Part::RequestHeader("Referer".into())),
        "a" => return Ok(Part::RequestHeader("User-Agent".into())),
        _ => {
            return Err(format!(
                "'%{name}' is not known: h l u t r m U q H s B b T M D L p f a {{Header}}i {{Header}}o {{KEY}}e {{id}}x and \
                 {{PHASE}}p are"
            ));
        }
    }))
}

/// The address that the application sees: a trusted proxy's word, or the peer; `-` for a unix socket's.
pub fn remote_address(head: &Head, peer: Address, trust: &Trust) -> String {
    let (peer, own) = match peer {
        Address::Ip(ip, port) => (Peer::Ip(ip, port), ip.to_string()),
        Address::Unix => (Peer::Unix, "-".to_string()),
    };
    match wire::effective(head, &peer, trust) {
        Ok(Some(effective)) => effective.addr.map_or(own, |address| address.to_string()),
        _ => own,
    }
}

impl AccessLog {
    /// Writes the line of a request that was refused before it was one: its head, as far as it was understood, and its name.
    /// `reply`: the refusal's status and its content bytes.
    pub fn write_refusal(
        &self,
        peer: Address,
        (head, id): (Option<&Head>, Option<&RequestId<'_>>),
        trust: &Trust,
        reply: (u16, u64),
    ) {
        let address = match (head, peer) {
            (Some(head), peer) => remote_address(head, peer, trust),
            (None, Address::Ip(ip, _)) => ip.to_string(),
            (None, Address::Unix) => "-".to_string(),
        };
        self.write(&Facts {
            head,
            address,
            status: reply.0,
            written: reply.1,
            elapsed: 0,
            id: id.map(RequestId::as_str),
            inside: Inside::default(),
            notes: &[],
        });
    }

    /// Writes a line.
    pub fn write(&self, facts: &Facts<'_>) {
        let line = match &self.format {
            Format::Line { parts, .. } => facts.line(parts),
            Format::Json => facts.json(),
        };
        // On a terminal what went wrong stands out.
        self.log.line(match (self.log.form(), facts.status) {
            (Form::Colour, 500..) => coloured(b"\x1b[31m", &line),
            (Form::Colour, 400..) => coloured(b"\x1b[33m", &line),
            _ => line,
        });
    }
}

fn coloured(colour: &[u8], line: &[u8]) -> Vec<u8> {
    [colour, line.strip_suffix(b"\n").unwrap_or(line), b"\x1b[0m\n"].concat()
}

/// What is known of a request inside the server, where that was looked at.
#[derive(Debug, Default)]
pub struct Inside {
    /// `GET /orders/*`
    pub route: Option<String>,
    /// How long its phases took until the line was written, in nanoseconds.
    pub spans: Option<Spans>,
    /// Its trace, and its span there.
    pub trace: Option<(u128, u64)>,
}

impl Inside {
    fn json(&self, line: &mut Vec<u8>) {
        if let Some(route) = &self.route {
            line.extend_from_slice(b",\"route\":\"");
            push_json(line, route.as_bytes());
            line.push(b'"');
        }
        if let Some(spans) = &self.spans {
            // The whole is `duration_us`.
            let phases = NAMES.iter().enumerate().take(Phase::Total as usize);
            let told = phases.filter_map(|(place, name)| Some((name, microseconds(spans, place)?)));
            let told: Vec<String> = told.map(|(name, us)| format!("\"{name}\":{us}")).collect();
            line.extend_from_slice(format!(",\"phases_us\":{{{}}}", told.join(",")).as_bytes());
        }
        if let Some((trace, span)) = self.trace {
            let told = format!(",\"trace_id\":\"{trace:032x}\",\"span_id\":\"{span:016x}\"");
            line.extend_from_slice(told.as_bytes());
        }
    }
}

/// How long a phase took, where that is known.
fn microseconds(spans: &Spans, place: usize) -> Option<u64> {
    let ns = *spans.get(place)?;
    let is_known = ns != NOT_MEASURED && (place != Phase::Upstream as usize || ns > 0);
    is_known.then_some(ns / 1000)
}

/// What a line is made from.
pub struct Facts<'a> {
    /// None where the request was refused before its head was understood.
    pub head: Option<&'a Head>,
    pub address: String,
    pub status: u16,
    /// Content bytes.
    pub written: u64,
    /// Microseconds.
    pub elapsed: u64,
    /// What names it, where requests have names.
    pub id: Option<&'a str>,
    pub inside: Inside,
    /// What the exchange has noted down; `Format::wanted` says what.
    pub notes: &'a [Vec<u8>],
}

impl Facts<'_> {
    fn protocol(&self) -> &'static str {
        match self.head.map(|head| head.version) {
            Some(Version::Http10) => "HTTP/1.0",
            Some(Version::Http11) => "HTTP/1.1",
            Some(Version::Http2) => "HTTP/2.0",
            None => "-",
        }
    }

    fn line(&self, parts: &[Part]) -> Vec<u8> {
        let mut line = Vec::with_capacity(160);
        for part in parts {
            match part {
                Part::Text(text) => line.extend_from_slice(text),
                Part::RequestHeader(name) => {
                    push_quoted(&mut line, self.head.and_then(|head| head.block.get(name)).unwrap_or(b"-"));
                }
                Part::ReplyHeader(at) | Part::Environ(at) => {
                    let note = self.notes.get(*at).filter(|note| !note.is_empty());
                    push_quoted(&mut line, note.map_or(b"-", Vec::as_slice));
                }
                Part::Phase(place) => {
                    let us = self.inside.spans.as_ref().and_then(|spans| microseconds(spans, *place));
                    line.extend_from_slice(us.map_or("-".into(), |us| us.to_string()).as_bytes());
                }
                Part::Value(value) => self.push(&mut line, *value),
            }
        }
        line.push(b'\n');
        line
    }

    fn push(&self, line: &mut Vec<u8>, value: Value) {
        let of_head = |part: fn(&Head) -> &[u8]| self.head.map_or(&b"-"[..], part);
        let text = match value {
            Value::RequestLine => return push_quoted(line, of_head(Head::request_line)),
            Value::Method => return push_quoted(line, of_head(Head::method)),
            Value::Path => return push_quoted(line, of_head(Head::path)),
            Value::Query => return push_quoted(line, of_head(Head::query)),
            Value::RemoteAddress => return push_quoted(line, self.address.as_bytes()),
            Value::RequestId => self.id.unwrap_or("-").into(),
            Value::Nothing => "-".into(),
            Value::Time => format!("[{}]", calendar::common(wall_us() / 1_000_000)),
            Value::Protocol => self.protocol().into(),
            Value::Status => self.status.to_string(),
            Value::BytesOrDash if self.written == 0 => "-".into(),
            Value::Bytes | Value::BytesOrDash => self.written.to_string(),
            Value::Seconds => (self.elapsed / 1_000_000).to_string(),
            Value::Milliseconds => (self.elapsed / 1000).to_string(),
            Value::Microseconds => self.elapsed.to_string(),
            Value::DecimalSeconds => format!("{}.{:06}", self.elapsed / 1_000_000, self.elapsed % 1_000_000),
            Value::Process => format!("<{}>", std::process::id()),
        };
        line.extend_from_slice(text.as_bytes());
    }

    fn json(&self) -> Vec<u8> {
        let us = wall_us();
        let (date, time) = calendar::iso(us / 1_000_000);
        let mut line = format!("{{\"time\":\"{date}T{time}.{:06}Z\"", us % 1_000_000).into_bytes();
        let of_head = |part: fn(&Head) -> &[u8]| self.head.map_or(&b""[..], part).to_vec();
        let header = |name: &str| self.head.and_then(|head| head.block.get(name)).unwrap_or(b"").to_vec();
        for (key, value) in [
            ("remote_addr", self.address.clone().into_bytes()),
            ("method", of_head(Head::method)),
            ("target", of_head(Head::target)),
            ("protocol", self.protocol().as_bytes().to_vec()),
            ("host", self.head.and_then(Head::host).unwrap_or(b"").to_vec()),
            ("referer", header("Referer")),
            ("user_agent", header("User-Agent")),
        ] {
            line.extend_from_slice(format!(",\"{key}\":\"").as_bytes());
            push_json(&mut line, &value);
            line.push(b'"');
        }
        let numbers = [
            ("status", u64::from(self.status)),
            ("bytes", self.written),
            ("duration_us", self.elapsed),
            ("pid", u64::from(std::process::id())),
        ];
        for (key, value) in numbers {
            line.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        }
        if let Some(id) = self.id {
            line.extend_from_slice(format!(",\"request_id\":\"{id}\"").as_bytes());
        }
        self.inside.json(&mut line);
        line.extend_from_slice(b"}\n");
        line
    }
}

/// Appends what a peer sent, so that it can neither end the line nor the quotes around it.
fn push_quoted(line: &mut Vec<u8>, text: &[u8]) {
    for piece in text.split_inclusive(|&byte| byte == b'"') {
        match piece.split_last() {
            Some((b'"', before)) => {
                push_clean(line, before);
                line.extend_from_slice(b"\\x22");
            }
            _ => push_clean(line, piece),
        }
    }
}

/// Appends bytes, read as latin-1, inside a JSON string (RFC 8259 §7).
fn push_json(line: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => line.push(byte),
            _ => line.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_format_mean_the_same() {
        let apache = Format::parse("%h \"%r\" %>s %{User-Agent}i %{queue}p %p 100%%");
        let gunicorn = Format::parse("%(h)s \"%(r)s\" %(s)s %({User-Agent}i)s %({queue}p)s %(p)s 100%%");
        assert_eq!(apache, gunicorn);
        assert!(apache.is_ok());
    }

    #[test]
    fn an_unknown_token_is_named() {
        for (bad, named) in [
            ("%Z", "%Z"),
            ("%(nope)s", "%nope"),
            ("%{X}x", "%{X}x"),
            ("%", "%"),
            ("%(h", "%(h"),
            ("short", "short"),
            ("%{}i", "%{}i"),
            (
                "%{remote}p",
                "'%{remote}p' is not known: with p in braces there are phases, which are upstream, receive,",
            ),
            ("%{Queue}p", "%{Queue}p"),
        ] {
            let error = Format::parse(bad).expect_err(bad);
            assert!(error.contains(named), "{bad}: {error}");
        }
    }

    #[test]
    fn a_line_tells_phases_in_microseconds_and_a_dash_where_nobody_knows() {
        let format = Format::parse("%{upstream}p %{queue}p %{app}p %{cpu}p %{total}p").expect("a format");
        let Format::Line { parts, phases: true, .. } = &format else { panic!("{format:?}") };
        let line = |spans| {
            let inside = Inside { spans, ..Inside::default() };
            let facts = Facts {
                head: None,
                address: String::new(),
                status: 200,
                written: 0,
                elapsed: 0,
                id: None,
                inside,
                notes: &[],
            };
            String::from_utf8(facts.line(parts)).expect("a text")
        };
        let spans = [0, 0, 1999, 0, 7_000_000, NOT_MEASURED, NOT_MEASURED, 0, 7_002_000];
        assert_eq!(line(Some(spans)), "- 1 7000 - 7002\n");
        assert_eq!(line(None), "- - - - -\n", "it was refused, or nobody looked");
        assert!(matches!(Format::parse(COMMON), Ok(Format::Line { phases: false, .. })), "nobody is asked");
    }

    #[test]
    fn a_quote_or_newline_in_a_request_stays_inside_its_field() {
        let mut line = Vec::new();
        push_quoted(&mut line, b"a\"b\nc");
        assert_eq!(line, b"a\\x22b\\x0ac");
        let mut json = Vec::new();
        push_json(&mut json, b"a\"b\n\xff");
        assert_eq!(json, b"a\\\"b\\u000a\\u00ff");
    }
}
