//! The access log: a line for each reply, in a format that is compiled once.
//!
//! Knows: the tokens of Apache's `LogFormat` (`%h`, `%{Referer}i`) and gunicorn's spelling of
//! them (`%(h)s`, `%({referer}i)s`). Does not know: where lines go (`log.rs`). Runs on the
//! thread that hands an exchange back.

use reactor::Address;
use reactor::sys::wall_us;
use wire::{Head, Peer, Version};

use crate::calendar;
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::log::{Log, push_clean};

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
    Line(Vec<Part>),
    Json,
}

/// One part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(Vec<u8>),
    Value(Value),
    RequestHeader(String),
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
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                parts.push(Part::Text(rest.as_bytes()[..at].to_vec()));
            }
            let (part, after) = token(&rest[at + 1..])?;
            parts.push(part);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.as_bytes().to_vec()));
        }
        Ok(Self::Line(parts))
    }
}

/// One token and what follows it; `rest` begins behind the percent sign.
fn token(rest: &str) -> Result<(Part, &str), String> {
    if let Some(after) = rest.strip_prefix('%') {
        return Ok((Part::Text(b"%".to_vec()), after));
    }
    if let Some(inner) = rest.strip_prefix('(') {
        let end = inner.find(")s").ok_or_else(|| format!("'%({inner}' has no closing ')s'"))?;
        return Ok((named(&inner[..end])?, &inner[end + 2..]));
    }
    // Apache's modifiers: `%>s` is the final status, which is the only one here.
    let rest = rest.strip_prefix('>').unwrap_or(rest);
    let length = match rest.find('}') {
        Some(end) if rest.starts_with('{') => end + 2,
        _ => 1,
    };
    let name = rest.get(..length).ok_or_else(|| format!("'%{rest}' is not a token"))?;
    Ok((named(name)?, &rest[length..]))
}

fn named(name: &str) -> Result<Part, String> {
    if let Some(inner) = name.strip_prefix('{') {
        return match inner.split_once('}') {
            Some((header, "i")) if !header.is_empty() => Ok(Part::RequestHeader(header.to_string())),
            _ => Err(format!("'%{name}' is not known: of the tokens in braces there is %{{Header}}i")),
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
                "'%{name}' is not known: h l u t r m U q H s B b T M D L p f a and {{Header}}i are"
            ));
        }
    }))
}

impl Engine {
    /// Writes the line of an exchange that is about to be handed back.
    pub fn log_access(&self, access: &AccessLog, exchange: &Exchange) {
        let facts =
            Facts { exchange, address: self.remote_address(exchange), elapsed: exchange.elapsed_us() };
        access.log.line(match &access.format {
            Format::Line(parts) => facts.line(parts),
            Format::Json => facts.json(),
        });
    }

    /// The address that the application sees: a trusted proxy's word, or the peer.
    fn remote_address(&self, exchange: &Exchange) -> String {
        let (peer, own) = match exchange.peer() {
            Address::Ip(ip, port) => (Peer::Ip(ip, port), ip.to_string()),
            Address::Unix => (Peer::Unix, "-".to_string()),
        };
        match wire::effective(&exchange.head, &peer, &self.config.trust) {
            Ok(Some(effective)) => effective.addr.unwrap_or(own),
            _ => own,
        }
    }
}

/// What a line is made from.
struct Facts<'a> {
    exchange: &'a Exchange,
    address: String,
    elapsed: u64,
}

impl Facts<'_> {
    fn head(&self) -> &Head {
        &self.exchange.head
    }

    fn protocol(&self) -> &'static str {
        match self.head().version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }

    fn line(&self, parts: &[Part]) -> Vec<u8> {
        let mut line = Vec::with_capacity(160);
        for part in parts {
            match part {
                Part::Text(text) => line.extend_from_slice(text),
                Part::RequestHeader(name) => {
                    push_quoted(&mut line, self.head().block.get(name).unwrap_or(b"-"));
                }
                Part::Value(value) => self.push(&mut line, *value),
            }
        }
        line.push(b'\n');
        line
    }

    fn push(&self, line: &mut Vec<u8>, value: Value) {
        let head = self.head();
        let text = match value {
            Value::RequestLine => return push_quoted(line, head.request_line()),
            Value::Method => return push_quoted(line, head.method()),
            Value::Path => return push_quoted(line, head.path()),
            Value::Query => return push_quoted(line, head.query()),
            Value::RemoteAddress => return push_quoted(line, self.address.as_bytes()),
            Value::Nothing => "-".into(),
            Value::Time => format!("[{}]", calendar::common(wall_us() / 1_000_000)),
            Value::Protocol => self.protocol().into(),
            Value::Status => self.exchange.status().to_string(),
            Value::BytesOrDash if self.exchange.written() == 0 => "-".into(),
            Value::Bytes | Value::BytesOrDash => self.exchange.written().to_string(),
            Value::Seconds => (self.elapsed / 1_000_000).to_string(),
            Value::Milliseconds => (self.elapsed / 1000).to_string(),
            Value::Microseconds => self.elapsed.to_string(),
            Value::DecimalSeconds => format!("{}.{:06}", self.elapsed / 1_000_000, self.elapsed % 1_000_000),
            Value::Process => format!("<{}>", std::process::id()),
        };
        line.extend_from_slice(text.as_bytes());
    }

    fn json(&self) -> Vec<u8> {
        let head = self.head();
        let us = wall_us();
        let (date, time) = calendar::iso(us / 1_000_000);
        let mut line = format!("{{\"time\":\"{date}T{time}.{:06}Z\"", us % 1_000_000).into_bytes();
        let header = |name: &str| head.block.get(name).unwrap_or(b"").to_vec();
        for (key, value) in [
            ("remote_addr", self.address.clone().into_bytes()),
            ("method", head.method().to_vec()),
            ("target", head.target().to_vec()),
            ("protocol", self.protocol().as_bytes().to_vec()),
            ("host", head.host().unwrap_or(b"").to_vec()),
            ("referer", header("Referer")),
            ("user_agent", header("User-Agent")),
        ] {
            line.extend_from_slice(format!(",\"{key}\":\"").as_bytes());
            push_json(&mut line, &value);
            line.push(b'"');
        }
        let numbers = [
            ("status", u64::from(self.exchange.status())),
            ("bytes", self.exchange.written()),
            ("duration_us", self.elapsed),
            ("pid", u64::from(std::process::id())),
        ];
        for (key, value) in numbers {
            line.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        }
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
        let apache = Format::parse("%h \"%r\" %>s %{User-Agent}i 100%%");
        let gunicorn = Format::parse("%(h)s \"%(r)s\" %(s)s %({User-Agent}i)s 100%%");
        assert_eq!(apache, gunicorn);
        assert!(apache.is_ok());
    }

    #[test]
    fn an_unknown_token_is_named() {
        for (bad, named) in [
            ("%Z", "%Z"),
            ("%(nope)s", "%nope"),
            ("%{X}o", "%{X}o"),
            ("%", "%"),
            ("%(h", "%(h"),
            ("short", "short"),
            ("%{}i", "%{}i"),
        ] {
            let error = Format::parse(bad).expect_err(bad);
            assert!(error.contains(named), "{bad}: {error}");
        }
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
