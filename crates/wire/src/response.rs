//! Response heads: written once, into one buffer, with the framing that the request allows.
//!
//! Knows: RFC 9112 §6 (framing), §9.3 (persistence), RFC 9110 §6.6.1 (Date), §8.6. Does not
//! know: bodies or sockets. Runs for each response: tables, no allocation once warm.

mod field;
mod form;
mod named;
mod own;
mod prepared;

pub use field::{FieldName, HeadError, NameMark};
use field::{Meaning, NameMarks, meaning, wants_status};
pub use form::ReplyForm;
use form::{USUAL, USUAL_STATUS, VERSION};

use crate::bytes::{decimal, is_token, is_value, trim_ows};
use crate::date::DateLine;
use crate::gateway::fastcgi::Records;
use crate::reason::reason_phrase;
use crate::request_line::Version;

/// The last chunk, with no trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What of the request decides framing and persistence.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts {
    pub version: Version,
    pub is_head: bool,
    /// The peer wants to go on, and so do we.
    pub persistent: bool,
    pub form: ReplyForm,
}

/// How the body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPlan {
    /// No content, whatever the application gives (HEAD, 204, 205, 304).
    None,
    Length(u64),
    Chunked,
    /// The end of the connection is the end of the body (HTTP/1.0), or that of its stream.
    UntilClose,
}

/// What was decided when a head was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub body: BodyPlan,
    pub keep_alive: bool,
}

/// A head under construction; reused from response to response.
#[derive(Debug, Default)]
pub struct ResponseHead {
    bytes: Vec<u8>,
    code: u16,
    length: Option<u64>,
    close: bool,
    date: bool,
    server: bool,
    dropped: bool,
    file: bool,
    /// A header was written beside which a web server wants to be told the status.
    wants_status: bool,
    /// Names of headers that were written.
    names: NameMarks,
}

/// Memory beyond this is given back after a response.
const KEPT_BYTES: usize = 64 * 1024;

impl ResponseHead {
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins anew.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
        (self.code, self.length) = (0, None);
        (self.close, self.date, self.server) = (false, false, false);
        (self.dropped, self.file, self.wants_status) = (false, false, false);
        self.names = NameMarks::default();
    }

    /// Begins anew with all that another one has had written.
    #[inline]
    pub fn begin_as(&mut self, other: &Self) {
        self.clear();
        self.bytes.extend_from_slice(&other.bytes);
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..*other };
    }

    /// The status line from `200 OK`.
    ///
    /// # Errors
    /// [`HeadError`], for what is no final status.
    #[inline]
    pub fn status(&mut self, line: &[u8]) -> Result<(), HeadError> {
        if line == USUAL_STATUS {
            self.code = 200;
            self.bytes.extend_from_slice(USUAL);
            return Ok(());
        }
        let (code, phrase) = match line {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
                let digit = |byte: u8| u16::from(byte - b'0');
                (digit(*a) * 100 + digit(*b) * 10 + digit(*c), rest)
            }
            _ => return Err(HeadError::Status),
        };
        if code < 200 {
            return Err(HeadError::Interim);
        }
        if !(phrase.is_empty() || phrase[0] == b' ') || !is_value(phrase) {
            return Err(HeadError::Status);
        }
        self.code = code;
        self.bytes.extend_from_slice(VERSION);
        self.bytes.extend_from_slice(line);
        // RFC 9112 §4: the blank is there even where there is no phrase.
        self.bytes.extend_from_slice(if phrase.is_empty() { b" \r\n" } else { b"\r\n" });
        Ok(())
    }

    /// The status line from a number.
    ///
    /// # Errors
    /// [`HeadError`], for what is no final status.
    #[inline]
    pub fn status_code(&mut self, code: u16) -> Result<(), HeadError> {
        if code < 200 {
            return Err(if code < 100 { HeadError::Status } else { HeadError::Interim });
        }
        if code > 999 {
            return Err(HeadError::Status);
        }
        self.code = code;
        self.bytes.extend_from_slice(VERSION);
        push_number(u64::from(code), 10, &mut self.bytes);
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(reason_phrase(code).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// One header. Those that are about the connection are the server's: `Connection: close`
    /// closes, the others are left out (PEP 3333, "Other HTTP Features").
    ///
    /// # Errors
    /// [`HeadError`], for what would be no header, or more than one.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        let meaning = meaning(name)?;
        if !is_value(value) {
            return Err(HeadError::Value);
        }
        if meaning == Meaning::Plain || self.special(meaning, value)? {
            self.line(name, value);
        }
        Ok(())
    }

    /// A header that is sent as it is, whatever it means.
    ///
    /// # Errors
    /// [`HeadError`], for what would be no header, or more than one.
    pub fn plain(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        if !is_token(name) {
            return Err(HeadError::Name);
        }
        if !is_value(value) {
            return Err(HeadError::Value);
        }
        self.line(name, value);
        Ok(())
    }

    /// A trailer. Those that frame, route or authenticate must not be one (RFC 9110 §6.5.1).
    ///
    /// # Errors
    /// [`HeadError`], for what would be no trailer, or more than one.
    pub fn trailer(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        const NEVER: [&[u8]; 6] = [
            b"host",
            b"authorization",
            b"set-cookie",
            b"content-type",
            b"content-encoding",
            b"cache-control",
        ];
        let plain = matches!(meaning(name)?, Meaning::Plain | Meaning::Server | Meaning::File);
        if !plain || NEVER.iter().any(|never| name.eq_ignore_ascii_case(never)) {
            return Err(HeadError::Name);
        }
        self.plain(name, value)
    }

    /// One header, whose name was judged before.
    ///
    /// # Errors
    /// As [`ResponseHead::field`].
    #[inline]
    pub fn named(&mut self, name: &FieldName, value: &[u8]) -> Result<(), HeadError> {
        if !is_value(value) {
            return Err(HeadError::Value);
        }
        if name.meaning != Meaning::Plain && !self.special(name.meaning, value)? {
            return Ok(());
        }
        self.wants_status |= name.wants_status;
        self.names.add(name.mark);
        self.bytes.reserve(name.line.len() + value.len() + 2);
        self.bytes.extend_from_slice(&name.line);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Headers that mean something to the server. False: it is not to be sent as given.
    #[inline]
    fn special(&mut self, meaning: Meaning, value: &[u8]) -> Result<bool, HeadError> {
        match meaning {
            Meaning::Length => {
                let length = decimal(trim_ows(value)).ok_or(HeadError::Length)?;
                if self.length.is_some_and(|before| before != length) {
                    return Err(HeadError::TwoLengths);
                }
                // Sent when the head is finished: some responses must not have it.
                self.length = Some(length);
                return Ok(false);
            }
            Meaning::Date => self.date = true,
            Meaning::Server => self.server = true,
            Meaning::Connection => {
                let mut members = value.split(|&byte| byte == b',').map(trim_ows);
                self.close |= members.any(|member| member.eq_ignore_ascii_case(b"close"));
                self.dropped |= !self.close;
                return Ok(false);
            }
            Meaning::Dropped => {
                self.dropped = true;
                return Ok(false);
            }
            Meaning::File => self.file = true,
            Meaning::Plain => {}
        }
        Ok(true)
    }

    /// The status; zero before there is one.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The length that the application has announced.
    pub fn content_length(&self) -> Option<u64> {
        self.length
    }

    /// A header that is the server's business was left out.
    pub fn dropped(&self) -> bool {
        self.dropped
    }

    /// Ends the head. `known`: the whole length of the body, where it is known now; what the
    /// application has announced goes first. `server`: the Server header, empty for none.
    #[inline]
    pub fn finish(
        &mut self,
        request: &RequestFacts,
        known: Option<u64>,
        date: &DateLine,
        server: &[u8],
    ) -> Plan {
        let is_11 = request.version == Version::Http11;
        let length = self.length.or(known);
        let body = match (self.code, length) {
            // RFC 9110 §15.3.5, §8.6: no content and no length.
            (204, _) => BodyPlan::None,
            // §15.3.6: no content, and a length that says so.
            (205, _) => BodyPlan::None,
            // §15.4.5, §9.3.2: the length, if given, is that of another response.
            (304, _) => BodyPlan::None,
            _ if request.is_head => BodyPlan::None,
            (_, Some(length)) => BodyPlan::Length(length),
            (_, None) if is_11 && request.form == ReplyForm::Http1 => BodyPlan::Chunked,
            (_, None) => BodyPlan::UntilClose,
        };
        match body {
            BodyPlan::Length(length) => self.length_line(length),
            BodyPlan::Chunked => self.bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            BodyPlan::None if self.code == 205 => self.length_line(0),
            BodyPlan::None if self.code != 204 => {
                // What the application said of the content it would have sent; an empty body
                // of ours says nothing of it (RFC 9110 §8.6).
                if let Some(length) = self.length {
                    self.length_line(length);
                }
            }
            BodyPlan::None | BodyPlan::UntilClose => {}
        }
        if !self.date && !request.form.is_dated_behind() {
            self.bytes.extend_from_slice(date.bytes());
        }
        if !self.server && !server.is_empty() {
            self.bytes.extend_from_slice(b"Server: ");
            self.bytes.extend_from_slice(server);
            self.bytes.extend_from_slice(b"\r\n");
        }
        if request.form != ReplyForm::Http1 {
            // What carries it has its own word for how it goes on.
            self.bytes.extend_from_slice(b"\r\n");
            request.form.write_status(&mut self.bytes, self.wants_status);
            let keep_alive = match request.form {
                ReplyForm::Stream => true,
                ReplyForm::FastCgi(_) => request.persistent,
                _ => false,
            };
            return Plan { body, keep_alive };
        }
        let keep_alive = request.persistent && !self.close && body != BodyPlan::UntilClose;
        self.bytes.extend_from_slice(match (keep_alive, is_11) {
            (true, true) => b"\r\n",
            (true, false) => b"Connection: keep-alive\r\n\r\n",
            (false, _) => b"Connection: close\r\n\r\n",
        });
        Plan { body, keep_alive }
    }

    #[inline]
    fn length_line(&mut self, length: u64) {
        self.bytes.extend_from_slice(b"Content-Length: ");
        push_number(length, 10, &mut self.bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The finished head.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the finished bytes away for an empty buffer.
    #[inline]
    pub fn swap(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, other);
    }

    /// Puts the finished bytes into records, a `whole` reply with its end.
    #[inline]
    pub fn wrap(&mut self, records: Records, whole: bool) {
        records.wrap(&mut self.bytes, whole);
    }

    /// Puts a small body behind the head, so that both leave in one piece.
    #[inline]
    pub fn append(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
    }
}

/// Digits of a number in base 10 or 16, without the formatting machinery.
#[inline]
fn push_number(mut number: u64, base: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// How many bytes of a whole reply are its head; all of them where that has no end.
pub fn head_length(reply: &[u8]) -> usize {
    reply.windows(4).position(|four| four == b"\r\n\r\n").map_or(reply.len(), |at| at + 4)
}

/// The line in front of a chunk's data.
#[inline]
pub fn chunk_prefix(length: usize, out: &mut Vec<u8>) {
    push_number(length as u64, 16, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const PLAIN: RequestFacts =
        RequestFacts { version: Version::Http11, is_head: false, persistent: true, form: ReplyForm::Http1 };

    /// A head that was ended, and how.
    pub(super) fn finished(
        status: &str,
        fields: &[(&str, &str)],
        request: RequestFacts,
        known: Option<u64>,
    ) -> (Plan, String) {
        let mut head = ResponseHead::new();
        head.status(status.as_bytes()).expect("a status");
        for (name, value) in fields {
            head.field(name.as_bytes(), value.as_bytes()).expect("a field");
        }
        let plan = head.finish(&request, known, &DateLine::at(0), b"");
        (plan, String::from_utf8(head.bytes().to_vec()).expect("text"))
    }

    #[test]
    fn framing_follows_from_version_method_status_and_what_is_known() {
        let old = RequestFacts { version: Version::Http10, ..PLAIN };
        let head = RequestFacts { is_head: true, ..PLAIN };
        let stream = RequestFacts { form: ReplyForm::Stream, ..PLAIN };
        let length = [("Content-Length", "7")];
        for (status, fields, request, known, plan, keep) in [
            ("200 OK", &[][..], PLAIN, Some(5), BodyPlan::Length(5), true),
            ("200 OK", &length[..], PLAIN, Some(5), BodyPlan::Length(7), true),
            ("200 OK", &[][..], PLAIN, None, BodyPlan::Chunked, true),
            ("200 OK", &[][..], old, None, BodyPlan::UntilClose, false),
            ("200 OK", &[][..], stream, None, BodyPlan::UntilClose, true),
            ("200 OK", &[("Connection", "close")][..], stream, Some(5), BodyPlan::Length(5), true),
            ("200 OK", &[][..], old, Some(5), BodyPlan::Length(5), true),
            ("200 OK", &length[..], head, Some(0), BodyPlan::None, true),
            ("204 No Content", &length[..], PLAIN, Some(0), BodyPlan::None, true),
            ("304 Not Modified", &length[..], PLAIN, Some(0), BodyPlan::None, true),
            ("200 OK", &[("Connection", "x, Close")][..], PLAIN, Some(5), BodyPlan::Length(5), false),
        ] {
            let (found, text) = finished(status, fields, request, known);
            assert_eq!((found.body, found.keep_alive), (plan, keep), "{text}");
            assert_eq!(
                text.contains("Content-Length"),
                matches!(plan, BodyPlan::Length(_)) || (plan == BodyPlan::None && !status.starts_with("204")),
                "{text}"
            );
            assert_eq!(text.contains("Connection: close"), !keep, "{text}");
        }
    }

    #[test]
    fn what_would_break_the_head_is_refused() {
        let mut head = ResponseHead::new();
        for status in ["", "20", "2000", "200OK", "200 O\nK", "abc OK", "099 X", "200 \0"] {
            assert_eq!(head.status(status.as_bytes()), Err(HeadError::Status), "{status:?}");
        }
        assert_eq!(head.status(b"101 Switching"), Err(HeadError::Interim));
        for (name, value, error) in [
            ("X Y", "a", HeadError::Name),
            ("", "a", HeadError::Name),
            ("X:", "a", HeadError::Name),
            ("X", "a\r\nSet-Cookie: b", HeadError::Value),
            ("X", "a\0", HeadError::Value),
            ("X", "a\x7f", HeadError::Value),
            ("Content-Length", "1x", HeadError::Length),
        ] {
            assert_eq!(head.field(name.as_bytes(), value.as_bytes()), Err(error), "{name}: {value:?}");
        }
        head.field(b"content-length", b"5").expect("a length");
        assert_eq!(head.field(b"Content-Length", b"6"), Err(HeadError::TwoLengths));
        assert_eq!(head.field(b"Content-Length", b"5"), Ok(()));
    }

    #[test]
    fn what_is_the_servers_business_is_left_out() {
        let fields = [
            ("Transfer-Encoding", "chunked"),
            ("Keep-Alive", "timeout=5"),
            ("Upgrade", "h2c"),
            ("X-Te", "1"),
        ];
        let (plan, text) = finished("200 OK", &fields, PLAIN, Some(2));
        assert_eq!(plan.body, BodyPlan::Length(2));
        assert!(
            !text.contains("chunked") && !text.contains("Keep-Alive") && !text.contains("Upgrade"),
            "{text}"
        );
        assert!(text.contains("X-Te: 1"), "{text}");
    }
}
