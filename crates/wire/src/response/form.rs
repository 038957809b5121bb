//! How a reply is written: as HTTP/1 has it, or as the protocol of a web server does.
//!
//! Knows: status lines, and what stands in their place. Does not know: headers. Pure.

use crate::gateway::fastcgi::Records;

/// How a reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    Http1,
    /// What it is sent through says itself where the content ends.
    Stream,
    /// A status line as in HTTP/1 and no framing: the end of the connection is the end of a body without a length.
    Uwsgi,
    /// The same with a `Status` header in the status line's place (RFC 3875 §6.3.3).
    Cgi,
    /// That in records, which have an end of their own.
    FastCgi(Records),
}

impl ReplyForm {
    /// Writes a whole reply that begins with a status line in this form.
    pub fn apply(self, reply: &mut Vec<u8>) {
        self.write_status(reply, true);
        if let Self::FastCgi(records) = self {
            records.wrap(reply, true);
        }
    }

    /// Writes the status line of a head in this form. `is_told`: it is said even where it goes without saying. To read a
    /// line less is worth more to a web server than to leave it out is to us.
    #[inline]
    pub(super) fn write_status(self, head: &mut Vec<u8>, is_told: bool) {
        if !matches!(self, Self::Cgi | Self::FastCgi(_)) {
            return;
        }
        match head.strip_prefix(USUAL) {
            // A head has at least one line (RFC 3875 §6.2).
            Some(lines) if !is_told && lines != b"\r\n" => drop(head.drain(..USUAL.len())),
            _ if head.starts_with(VERSION) => drop(head.splice(..VERSION.len(), *b"Status: ")),
            _ => {}
        }
    }

    /// Whoever takes it to the client dates it, as all do that pass on what has no date (RFC 9110 §6.6.1).
    pub(super) fn is_dated_behind(self) -> bool {
        self.has_one_reply()
    }

    /// One reply is all that its web server takes for a request: there are no interim ones.
    pub fn has_one_reply(self) -> bool {
        matches!(self, Self::Uwsgi | Self::Cgi | Self::FastCgi(_))
    }
}

/// What a status line begins with.
pub(super) const VERSION: &[u8] = b"HTTP/1.1 ";

/// The status of most replies, which is meant where none is said (RFC 3875 §6.3.3), and its line.
pub(super) const USUAL_STATUS: &[u8] = b"200 OK";
pub(super) const USUAL: &[u8] = b"HTTP/1.1 200 OK\r\n";

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, finished};
    use super::super::{BodyPlan, RequestFacts};
    use super::*;

    #[test]
    fn a_gateways_reply_has_no_framing_of_its_own_and_ends_with_the_connection() {
        for (form, first) in
            [(ReplyForm::Uwsgi, "HTTP/1.1 201 Created\r\n"), (ReplyForm::Cgi, "Status: 201 Created\r\n")]
        {
            let request = RequestFacts { form, ..PLAIN };
            for (known, body) in [(None, BodyPlan::UntilClose), (Some(5), BodyPlan::Length(5))] {
                let (plan, text) = finished("201 Created", &[("Connection", "keep-alive")], request, known);
                assert_eq!((plan.body, plan.keep_alive), (body, false));
                assert!(text.starts_with(first) && text.ends_with("\r\n\r\n"), "{text}");
                assert!(!text.contains("Connection") && !text.contains("Transfer-Encoding"), "{text}");
            }
        }
        let mut refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
        ReplyForm::Uwsgi.apply(&mut refusal);
        assert_eq!(refusal, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        ReplyForm::Cgi.apply(&mut refusal);
        assert_eq!(refusal, b"Status: 400 Bad Request\r\n\r\n");
    }

    #[test]
    fn to_a_web_server_nothing_is_said_that_it_knows_or_says_itself() {
        let records = Records::new(1, true);
        for form in [ReplyForm::Cgi, ReplyForm::FastCgi(records)] {
            let request = RequestFacts { form, ..PLAIN };
            for (status, name, value, said) in [
                ("200 OK", "A", "b", ""),
                ("200 OK", "Expires", "0", ""),
                ("200 OK", "Content-Location", "/", ""),
                ("200 OK", "location", "/", "Status: 200 OK\r\n"),
                ("200 OK", "ETAG", "\"a\"", "Status: 200 OK\r\n"),
                ("200 OK", "Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT", "Status: 200 OK\r\n"),
                ("200 Fine", "A", "b", "Status: 200 Fine\r\n"),
                ("200", "A", "b", "Status: 200 \r\n"),
                ("404 OK", "A", "b", "Status: 404 OK\r\n"),
            ] {
                let (_, text) = finished(status, &[("C", "d"), (name, value)], request, None);
                assert_eq!(text, format!("{said}C: d\r\n{name}: {value}\r\n\r\n"));
            }
            assert_eq!(finished("200 OK", &[], request, None).1, "Status: 200 OK\r\n\r\n");
            let (_, text) = finished("200 OK", &[("Date", "now")], request, Some(1));
            assert_eq!(text, "Date: now\r\nContent-Length: 1\r\n\r\n", "what the application says stays");
        }
        for (form, dated) in [(ReplyForm::Uwsgi, false), (ReplyForm::Http1, true), (ReplyForm::Stream, true)]
        {
            let (_, text) = finished("200 OK", &[], RequestFacts { form, ..PLAIN }, Some(1));
            assert_eq!(text.contains("\r\nDate: "), dated, "{text}");
        }
    }
}
