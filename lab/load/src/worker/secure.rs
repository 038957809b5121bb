//! Agreeing on TLS: between a connection and its first request. `tls` does what there is to do; this says when, and what came of it.

use super::Worker;
use crate::kinds::Wrong;
use crate::record;
use crate::system::{Moved, NoConnection};
use crate::tls::Session;

impl Worker<'_> {
    /// The kernel has it connected: the first words of TLS go out. The time to connect goes on.
    pub(super) fn secure(&mut self, index: u32, now: u64) {
        let Some(session) = self.job.tls.as_ref().and_then(Session::begin) else {
            return self.no_connection(index, NoConnection::Server(Wrong::TlsFailed), now);
        };
        let client = &mut self.clients[index as usize];
        let session = client.tls.insert(Box::new(session));
        if let Some(socket) = &client.socket {
            // A failure shows where the answer is read.
            let _ = session.flush(socket);
        }
        self.schedule(index);
    }

    /// Reads and answers as long as there is something, until TLS is agreed on.
    pub(super) fn agree(&mut self, index: u32) {
        let (mut buffer, mut plain) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.plain));
        plain.clear();
        let outcome = loop {
            let client = &mut self.clients[index as usize];
            let (Some(socket), Some(tls)) = (&client.socket, &mut client.tls) else { break None };
            let _ = tls.flush(socket);
            match tls.read(socket, &mut buffer, &mut plain) {
                Moved::Bytes(_) if tls.is_handshaking() => {}
                Moved::Later => break None,
                moved => break Some(moved),
            }
        };
        self.buffer = buffer;
        let now = self.clock.now();
        match outcome {
            None => {}
            Some(Moved::Bytes(_)) => self.agreed(index, &plain, now),
            Some(Moved::Bad) => self.no_connection(index, NoConnection::Server(Wrong::TlsFailed), now),
            Some(Moved::Reset) => {
                self.no_connection(index, NoConnection::Server(Wrong::ResetBeforeReply), now);
            }
            Some(_) => {
                self.record.second.tally.counts.closed_by_server += 1;
                self.no_connection(index, NoConnection::Server(Wrong::EndBeforeReply), now);
            }
        }
        self.plain = plain;
    }

    /// TLS stands; `plain` came with its last words.
    fn agreed(&mut self, index: u32, plain: &[u8], now: u64) {
        let client = &self.clients[index as usize];
        let Some(tls) = &client.tls else { return };
        if self.job.is_http2 && !tls.speaks_http2() {
            return self.no_connection(index, NoConnection::Server(Wrong::NotHttp2), now);
        }
        let counts = &mut self.record.second.tally.counts;
        counts.handshakes += 1;
        counts.resumed += u64::from(tls.was_resumed());
        counts.bytes_received += plain.len() as u64;
        record::record(self.record.second.times.handshake(), now.saturating_sub(client.connected_at));
        let slot = self.slot(index);
        self.established(index, now);
        if !plain.is_empty() && self.is_present(slot) && self.clients[index as usize].connected {
            self.feed(index, plain, now);
        }
        // More may have come in the meantime, and its edge with what was read.
        if self.is_present(slot) {
            self.again.push(slot);
        }
    }
}
