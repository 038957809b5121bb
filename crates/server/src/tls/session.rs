//! One TLS connection as a machine: records in, plaintext out, and the other way round.
//!
//! Knows: rustls' API without buffers of its own, and what has to be kept between two calls of it. Does not know: the
//! socket, or what the plaintext means. Pure but for the keys' random numbers; whoever locks it calls it.
//!
//! An idle session holds no buffer: what is kept is the beginning of a record whose rest has not arrived, plaintext that
//! nobody has asked for yet, and sealed bytes that the socket did not take. These can be neither made again nor dropped.

use std::io;
use std::mem;
use std::sync::Arc;

use rustls::server::{ServerConfig, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus, WriteTraffic};
use rustls::{Error, HandshakeKind};

use super::resolver::{self, Noticed, Shown};
use super::sealing::{self, SEAL, append, encode, sealed_size};

/// What is to be done once all that has arrived is read.
#[derive(Clone, Copy)]
enum Then<'a> {
    Nothing,
    Seal(&'a [u8]),
    /// Say that nothing more will come.
    End,
}

/// What is kept between two calls.
#[derive(Default)]
struct Kept {
    /// Of what has arrived, what waits for the rest of its record or message.
    held: Vec<u8>,
    /// What was opened, and how much of it was given out.
    opened: Vec<u8>,
    given: usize,
    /// What was sealed, and how much of it was sent.
    sealed: Vec<u8>,
    sent: usize,
}

/// One side of a connection: ours.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// Behind a pointer, as most of the time there is nothing of it.
    kept: Option<Box<Kept>>,
    /// So much plaintext is sealed of which its sender has not been told that it is gone.
    owed: u32,
    /// The peer has said that nothing more will come.
    pub peer_ended: bool,
    /// We have said so, or must not, as the last reply was cut.
    ended: bool,
    /// What the handshake has shown beside keys.
    noticed: Option<Noticed>,
}

impl Session {
    /// Before the handshake.
    ///
    /// # Errors
    /// rustls', where the configuration cannot be used.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self {
            tls: UnbufferedServerConnection::new(config)?,
            kept: None,
            owed: 0,
            peer_ended: false,
            ended: false,
            noticed: None,
        })
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The handshake was one of a client that came again.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Bytes that wait in front of those that arrive next.
    pub fn held(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.held.len())
    }

    /// Keeps nothing where there is nothing.
    fn tidy(&mut self) {
        if let Some(kept) = &self.kept
            && kept.held.is_empty()
            && kept.opened.is_empty()
            && kept.sealed.is_empty()
        {
            self.kept = None;
        }
    }

    /// Puts what is held in front of `room`; how much that was.
    pub fn put_held(&mut self, room: &mut [u8]) -> usize {
        let Some(kept) = &mut self.kept else { return 0 };
        let held = mem::take(&mut kept.held);
        room[..held.len()].copy_from_slice(&held);
        held.len()
    }

    /// Reads what has arrived, which is behind what was held. What it has of plaintext waits to be given out.
    ///
    /// # Errors
    /// The peer broke a rule, or its certificate is not believed. What is to be told to it waits to be sent.
    pub fn open(&mut self, arrived: &mut [u8]) -> Result<(), Error> {
        self.step(arrived, Then::Nothing)
    }

    /// Reads `wire` to its end, keeps what is not complete, and then does what is wanted.
    fn step(&mut self, wire: &mut [u8], then: Then<'_>) -> Result<(), Error> {
        let Self { tls, kept, peer_ended, .. } = self;
        let Kept { held, opened, sealed, .. } = &mut **kept.get_or_insert_default();
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = tls.process_tls_records(&mut wire[at..]);
            let mut over = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        opened.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, sealed)?,
                // It is in `sealed`, from which it is sent in order.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => *peer_ended = true,
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    write(traffic, then, sealed)?;
                    over = true;
                }
                Ok(ConnectionState::BlockedHandshake) if matches!(then, Then::Nothing) => over = true,
                Ok(ConnectionState::Closed) if !matches!(then, Then::Seal(_)) => over = true,
                Ok(_) => return Err(Error::General("nothing can be said here".into())),
                Err(error) => {
                    // What the peer is told of it, an alert behind what was under way, comes before anything is read.
                    while tls.wants_write() {
                        let after = tls.process_tls_records(&mut []).state;
                        let Ok(ConnectionState::EncodeTlsData(data)) = after else { break };
                        encode(data, sealed)?;
                    }
                    return Err(error);
                }
            }
            at += discard;
            if over {
                *held = wire[at..].to_vec();
                break;
            }
        }
        self.tidy();
        Ok(())
    }

    /// The same with nothing that has arrived but what is held.
    fn do_now(&mut self, then: Then<'_>) -> io::Result<()> {
        let mut held = self.kept.as_mut().map(|kept| mem::take(&mut kept.held)).unwrap_or_default();
        self.step(&mut held, then).map_err(io::Error::other)
    }

    /// Notes which name the client has asked for, once its first message has been read. For whoever has just read something,
    /// before anything of another session is read on the same thread. A client that is asked for other keys says its
    /// name twice (RFC 8446 §4.1.4): the second word is taken, too, as the next session would take it for its own client's.
    pub fn notice(&mut self) {
        if let Some(noticed) = resolver::take_noticed() {
            self.noticed = Some(noticed);
        }
    }

    /// Why a handshake has failed, in words. A client that was shown no certificate, as there is none for its name, is told
    /// so, which rustls calls something else.
    pub fn blame(&mut self, error: &Error) -> String {
        let Some(Noticed { server_name, shown: None }) = &self.noticed else { return error.to_string() };
        if let Some(kept) = &mut self.kept {
            sealing::blame_the_name(&mut kept.sealed);
        }
        match server_name {
            Some(name) => {
                format!("there is no certificate for {name}, and no other is shown (tls_strict_sni)")
            }
            None => "it asks for no name, and no certificate is shown then (tls_strict_sni)".into(),
        }
    }

    /// Nothing has come of the client's first message.
    pub fn is_new(&self) -> bool {
        self.noticed.is_none() && self.held() == 0
    }

    /// The client's first message has not come whole.
    pub fn is_unanswered(&self) -> bool {
        self.noticed.is_none()
    }

    /// The name that the client has asked for (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&str> {
        self.noticed.as_ref()?.server_name.as_deref()
    }

    /// Our certificate.
    pub fn shown(&self) -> Option<Shown> {
        self.noticed.as_ref()?.shown.clone()
    }

    /// Plaintext waits to be given out.
    pub fn has_opened(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.given < kept.opened.len())
    }

    /// Gives out plaintext, as much as there is room for; how much.
    pub fn give(&mut self, into: &mut [u8]) -> usize {
        let Some(kept) = &mut self.kept else { return 0 };
        let rest = &kept.opened[kept.given..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        kept.given += count;
        if kept.given == kept.opened.len() {
            (kept.opened, kept.given) = (Vec::new(), 0);
            self.tidy();
        }
        count
    }

    /// Seals what shall be sent. Only where nothing waits that its sender has not been told of.
    ///
    /// # Errors
    /// The keys are used up, or the connection is over.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        debug_assert_eq!(self.owed, 0, "the sender is to be told first");
        self.do_now(Then::Seal(plain))?;
        self.owed = u32::try_from(plain.len()).map_err(io::Error::other)?;
        Ok(())
    }

    /// Seals something small that goes before whatever is sent next, and of which nobody wants to hear.
    ///
    /// # Errors
    /// As [`Session::seal`].
    pub fn seal_aside(&mut self, plain: &[u8]) -> io::Result<()> {
        self.do_now(Then::Seal(plain))
    }

    /// Says in order that nothing more will come: the peer knows then that it has got everything. Not twice, and not behind
    /// a reply that was cut or has not gone.
    pub fn end(&mut self) {
        if !mem::replace(&mut self.ended, true) && self.owed == 0 && !self.is_handshaking() {
            // Where it cannot be said the peer takes what it has got for incomplete.
            let _ = self.do_now(Then::End);
        }
    }

    /// What the peer has got is not all, and nothing may say that it is.
    pub fn cut(&mut self) {
        self.ended = true;
    }

    /// What was sealed and not sent.
    pub fn unsent(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| &kept.sealed[kept.sent..])
    }

    /// So much of it was sent. How much plaintext its sender may be told is gone, at most `most`: all of it when nothing
    /// waits any more, and before that less, in step with what the peer takes.
    pub fn has_sent(&mut self, bytes: usize, most: usize) -> usize {
        let all = self.kept.as_mut().is_none_or(|kept| {
            kept.sent += bytes;
            let all = kept.sent == kept.sealed.len();
            if all {
                (kept.sealed, kept.sent) = (Vec::new(), 0);
            }
            all
        });
        if all {
            self.tidy();
        }
        let least = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.owed.saturating_sub(1));
        let told = if all { self.owed } else { least }.min(u32::try_from(most).unwrap_or(u32::MAX));
        self.owed -= told;
        told as usize
    }

    /// Its sender has not been told of all that was sealed.
    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// What rustls knows of the connection: version, cipher, the client's certificates.
    pub fn facts(&self) -> &rustls::CommonState {
        &self.tls
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Does what is wanted, where application data may be sent.
fn write(
    mut traffic: WriteTraffic<'_, ServerConnectionData>,
    then: Then<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    match then {
        Then::Nothing => Ok(()),
        Then::Seal(plain) => append(out, sealed_size(plain.len()), |room| traffic.encrypt(plain, room)),
        Then::End => append(out, SEAL + 2, |room| traffic.queue_close_notify(room)),
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore};
    use wire::pem::pem;

    use super::*;
    use crate::tls::material::Material;
    use crate::tls::self_signed::self_signed;

    /// A client that believes the server's certificate, and the server before the handshake.
    fn both() -> (ClientConnection, Session) {
        let made = self_signed(&["localhost".into()], 1_795_305_600).expect("a certificate");
        let (chain, key) = (pem("CERTIFICATE", &made.certificate), pem("PRIVATE KEY", &made.key));
        let mut handed = Vec::new();
        for (name, bytes) in [("chain", chain.as_bytes()), ("key", key.as_bytes()), ("ticket-key", &[7; 48])]
        {
            handed.extend_from_slice(format!("{name} {} a test\n", bytes.len()).as_bytes());
            handed.extend_from_slice(bytes);
            handed.push(b'\n');
        }
        let material = Material::read(&handed, 1_795_305_600).expect("what a server can use");
        assert!(material.warnings.is_empty() && material.expires > 1_795_305_600);
        assert!(material.lasts >= material.expires - 1_795_305_600, "it is good from now on at the latest");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(made.certificate)).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a client");
        (client, Session::new(material.terms(0).config).expect("a server"))
    }

    /// Lets the server have bytes, so many at a time, as a transport does.
    fn arrive(session: &mut Session, bytes: &[u8], most: usize) -> Result<(), Error> {
        for part in bytes.chunks(most) {
            let mut room = vec![0; session.held() + part.len()];
            let held = session.put_held(&mut room);
            room[held..].copy_from_slice(part);
            session.open(&mut room)?;
        }
        Ok(())
    }

    fn to_server(client: &mut ClientConnection) -> Vec<u8> {
        let mut out = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut out).expect("memory");
        }
        out
    }

    fn to_client(client: &mut ClientConnection, session: &mut Session) -> Vec<u8> {
        let bytes = session.unsent().to_vec();
        session.has_sent(bytes.len(), usize::MAX);
        let mut rest = &bytes[..];
        let mut plain = Vec::new();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("bytes");
            client.process_new_packets().expect("what a client understands");
            let _ = io::Read::read_to_end(&mut client.reader(), &mut plain);
        }
        plain
    }

    fn shaken(most: usize) -> (ClientConnection, Session) {
        let (mut client, mut session) = both();
        while session.is_handshaking() || client.is_handshaking() {
            let bytes = to_server(&mut client);
            arrive(&mut session, &bytes, most).expect("a handshake");
            session.notice();
            to_client(&mut client, &mut session);
        }
        (client, session)
    }

    #[test]
    fn what_arrives_may_be_cut_anywhere() {
        for most in [1, 2, 7, 100, usize::MAX] {
            let (mut client, mut session) = shaken(most);
            assert_eq!(session.server_name(), Some("localhost"));
            for said in [&b"first"[..], &[9; 40_000]] {
                io::Write::write_all(&mut client.writer(), said).expect("room");
                let bytes = to_server(&mut client);
                arrive(&mut session, &bytes, most).expect("records");
                let mut found = vec![0; said.len()];
                assert_eq!((session.give(&mut found), session.has_opened()), (said.len(), false));
                assert!(found == said, "{most}");
                session.seal(said).expect("keys");
                assert!(to_client(&mut client, &mut session) == said);
            }
        }
    }

    #[test]
    fn keys_are_agreed_on_that_no_quantum_computer_will_find_later() {
        let (client, session) = shaken(usize::MAX);
        for group in [client.negotiated_key_exchange_group(), session.facts().negotiated_key_exchange_group()]
        {
            assert_eq!(group.map(|group| group.name()), Some(NamedGroup::X25519MLKEM768));
        }
    }

    #[test]
    fn an_idle_session_holds_no_buffer() {
        let (mut client, mut session) = shaken(100);
        io::Write::write_all(&mut client.writer(), &[1; 20_000]).expect("room");
        let bytes = to_server(&mut client);
        arrive(&mut session, &bytes, 1000).expect("records");
        session.give(&mut [0; 20_000]);
        session.seal(&[2; 20_000]).expect("keys");
        to_client(&mut client, &mut session);
        assert!(session.kept.is_none());
    }

    #[test]
    fn a_sender_is_told_of_no_more_than_the_socket_has_taken_and_in_the_end_of_all() {
        for step in [1, 100, 16_000, 20_000, 70_000] {
            let (_client, mut session) = shaken(usize::MAX);
            session.seal(&[3; 50_000]).expect("keys");
            let (mut sent, mut told) = (0, 0);
            while !session.unsent().is_empty() {
                let some = session.unsent().len().min(step);
                sent += some;
                told += session.has_sent(some, 50_000 - told);
                assert!(told <= sent && (told < 50_000 || session.unsent().is_empty()), "{step}");
            }
            assert_eq!((told, session.owes()), (50_000, false), "{step}");
        }
        let (_client, mut session) = shaken(usize::MAX);
        session.seal(&[3; 1000]).expect("keys");
        let all = session.unsent().len();
        assert_eq!((session.has_sent(all, 300), session.owes()), (300, true), "no more than was offered");
        assert_eq!((session.has_sent(0, 700), session.owes()), (700, false));
    }

    #[test]
    fn the_end_is_told_once_and_not_behind_a_reply_that_was_cut() {
        let (mut client, mut session) = shaken(usize::MAX);
        session.seal(b"all of it").expect("keys");
        session.end();
        assert!(!session.unsent().is_empty(), "what is owed is not all");
        assert_eq!(to_client(&mut client, &mut session), b"all of it");
        let (mut client, mut session) = shaken(usize::MAX);
        session.end();
        to_client(&mut client, &mut session);
        assert_eq!(io::Read::read(&mut client.reader(), &mut [0; 1]).ok(), Some(0), "in order");
        session.end();
        assert!(session.unsent().is_empty(), "once");
        let (_client, mut session) = shaken(usize::MAX);
        session.cut();
        session.end();
        assert!(session.unsent().is_empty());
    }

    #[test]
    fn who_breaks_a_rule_is_told_so() {
        let (mut client, mut session) = shaken(usize::MAX);
        io::Write::write_all(&mut client.writer(), b"changed").expect("room");
        let mut bytes = to_server(&mut client);
        *bytes.last_mut().expect("a record") ^= 1;
        assert!(arrive(&mut session, &bytes, usize::MAX).is_err());
        let mut alert = session.unsent();
        client.read_tls(&mut alert).expect("bytes");
        assert!(matches!(client.process_new_packets(), Err(Error::AlertReceived(_))));
    }
}
