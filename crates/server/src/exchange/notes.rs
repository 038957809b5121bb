//! An exchange's line in the access log, and what it notes down for it where the log's format asks.
//!
//! Knows: which notes are wanted, by their place. Does not know: how a line looks (`access.rs`).

use super::Exchange;
use crate::access::{AccessLog, Facts, Format, Inside, Wanted, remote_address};
use crate::engine::Engine;
use crate::request_id::RequestId;
use crate::statistics::route_of;

/// Values by their place. Rare, so that an exchange has a pointer to them and no more.
#[derive(Default)]
pub(super) struct Notes(Vec<Vec<u8>>);

impl Exchange {
    /// The notes, in the order of `Format::wanted`.
    pub fn notes(&self) -> &[Vec<u8>] {
        self.notes.as_ref().map_or(&[], |notes| notes.0.as_slice())
    }

    /// Notes a value at its place.
    pub fn note(&mut self, at: usize, value: Vec<u8>) {
        let notes = &mut self.notes.get_or_insert_default().0;
        if notes.len() <= at {
            notes.resize_with(at + 1, Vec::new);
        }
        if let Some(note) = notes.get_mut(at) {
            *note = value;
        }
    }

    /// The address that the application sees: a trusted proxy's word, or the peer; `-` for a unix socket's.
    pub fn remote_address(&self, engine: &Engine) -> String {
        remote_address(&self.head, self.peer(), &engine.config.trust)
    }

    /// Writes its line, when it is about to be handed back.
    pub(super) fn log_access(&self, access: &AccessLog, engine: &Engine) {
        // First the phases: none of them has lasted longer than the whole, whose end is looked at afterwards.
        let inside = match access.format {
            Format::Json => self.inside(engine),
            Format::Line { phases: true, .. } => Inside { spans: self.spans_so_far(), ..Inside::default() },
            Format::Line { .. } => Inside::default(),
        };
        access.write(&Facts {
            head: Some(&self.head),
            address: self.remote_address(engine),
            status: self.status(),
            written: self.written(),
            elapsed: self.elapsed_us(),
            id: self.id(&engine.config).as_ref().map(RequestId::as_str),
            inside,
            notes: self.notes(),
        });
    }

    /// What only a format with names for everything tells.
    fn inside(&self, engine: &Engine) -> Inside {
        let told = self.times.rare().route.as_deref();
        Inside {
            route: route_of(engine.config.statistics, &self.head, told, self.status()),
            spans: self.spans_so_far(),
            trace: self.recorded_in(&engine.config),
        }
    }

    /// Notes what is wanted of the reply's head, which is complete.
    pub(super) fn note_reply(&mut self, wanted: &[Wanted], head: &[u8]) {
        for (at, wanted) in wanted.iter().enumerate() {
            if let Wanted::ReplyHeader(name) = wanted {
                self.note(at, field(head, name).unwrap_or_default());
            }
        }
    }
}

/// The value of a header in a reply's head; `name` in small letters. Several are joined (RFC 9110 §5.2).
pub(super) fn field(head: &[u8], name: &str) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = head
        .split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            let (found, value) = line.split_at(at);
            found
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| value.get(1..).unwrap_or_default().trim_ascii())
        })
        .collect();
    if values.is_empty() { None } else { Some(values.join(&b", "[..])) }
}

/// Content bytes of a whole reply of ours: what follows its head.
pub(crate) fn content_length(reply: &[u8]) -> u64 {
    (reply.len() - wire::head_length(reply)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_whatever_its_letters_and_joined_where_it_repeats() {
        let head = b"HTTP/1.1 200 OK\r\nContent-TYPE:  text/plain\r\nVia: a\r\nvia: b\r\nEmpty:\r\n\r\n";
        assert_eq!(field(head, "content-type").as_deref(), Some(&b"text/plain"[..]));
        assert_eq!(field(head, "via").as_deref(), Some(&b"a, b"[..]));
        assert_eq!(field(head, "empty").as_deref(), Some(&b""[..]));
        assert_eq!(field(head, "none"), None);
    }

    #[test]
    fn content_is_what_follows_the_head() {
        assert_eq!(content_length(b"HTTP/1.1 400 Bad Request\r\nA: b\r\n\r\nxyz"), 3);
        assert_eq!(content_length(b"HTTP/1.1 400 Bad Request\r\n\r\n"), 0);
    }
}
