//! Connections that go to another worker, because here one thread holds up the others, or none is free.
//!
//! Knows: which connections can leave, and the way on which they go: a socket pair of which all
//! workers hold both ends, so that what is under way outlives each of them and goes, like a new
//! connection, to whoever is free. Does not know: when it is time (`share.rs`). Runs under the
//! baton. How a connection leaves is in `handover.rs`.

use std::sync::Arc;

use reactor::sys::{Handoff, NOTE_BYTES};
use wire::Millis;

use crate::connection::Connection;
use crate::handover::{Way, depart};
use crate::poller::Poller;
use crate::returns::Returns;
use crate::staying::Staying;

/// Where a connection came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub listener: u16,
    /// From another worker, or from the thread of handshakes: its preface is over ...
    pub handed_over: bool,
    /// ... and it has had requests.
    pub used: bool,
    /// What its preface has said there, where that has changed something.
    pub said: Vec<u8>,
    /// A request that has been read there, and that nobody has begun.
    pub carried: Option<Carried>,
}

/// A request that goes to another worker with its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// When it had arrived, in monotonic milliseconds, which are the same in all processes.
    pub arrived: Millis,
    /// The request as its client has sent it, and what was read behind it.
    pub bytes: Vec<u8>,
}

/// In the first word of a note: a request goes with it.
const CARRIES: u32 = 1 << 31;

impl Source {
    /// A new one, from one of our listeners.
    pub fn accepted(listener: u16) -> Self {
        Self { listener, handed_over: false, used: false, said: Vec::new(), carried: None }
    }

    /// A new one, whose preface was heard before it came here, and what that was, where it has changed something.
    pub fn introduced(listener: u16, said: &[u8]) -> Self {
        Self { handed_over: true, said: said.to_vec(), ..Self::accepted(listener) }
    }

    /// What another worker is told of a connection.
    pub fn note(connection: &Connection) -> Vec<u8> {
        [&first_word(connection).to_ne_bytes()[..], connection.preface_said()].concat()
    }

    /// The same of one whose request goes with it, and came at that time. None: that is too much for a note.
    pub fn note_with(connection: &Connection, arrived: Millis, request: &[&[u8]]) -> Option<Vec<u8>> {
        let said = connection.preface_said();
        let first = (first_word(connection) | CARRIES).to_ne_bytes();
        let length = u32::try_from(said.len()).ok()?.to_ne_bytes();
        let arrived = arrived.to_ne_bytes();
        let parts = [&[&first[..], &arrived, &length, said], request].concat();
        (parts.iter().map(|part| part.len()).sum::<usize>() <= NOTE_BYTES).then(|| parts.concat())
    }

    /// What another worker has told. Its listeners are ours: the supervisor opened them.
    pub fn noted(note: &[u8]) -> Self {
        let (first, said) = note.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let first = u32::from_ne_bytes(*first);
        let (said, carried) = if first & CARRIES == 0 { (said, None) } else { carried(said) };
        let (listener, used) = ((first >> 1) as u16, first & 1 != 0);
        Self { listener, handed_over: true, used, said: said.to_vec(), carried }
    }
}

/// Which listener a connection came from, and whether it has had requests.
fn first_word(connection: &Connection) -> u32 {
    u32::from(connection.listener) << 1 | u32::from(connection.machine.was_used())
}

/// What follows the first word of a note with a request: what a preface has said, and the request.
fn carried(note: &[u8]) -> (&[u8], Option<Carried>) {
    let parts = || {
        let (arrived, rest) = note.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (said, request) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        Some((said, Some(Carried { arrived: Millis::from_ne_bytes(*arrived), bytes: request.to_vec() })))
    };
    parts().unwrap_or((&[], None))
}

/// How long a worker keeps its connections after it has found that nobody takes them.
const KEEP_MS: Millis = 1000;

/// The poller that watches it, the pair on which it goes, and what goes with it.
struct ToOthers<'a>(&'a Handoff, &'a Poller, &'a [u8]);

impl Way<Connection> for ToOthers<'_> {
    fn unwatch(&self, connection: &mut Connection) -> bool {
        self.1.unwatch(connection).is_ok()
    }

    fn give(&self, connection: &mut Connection) -> bool {
        matches!(connection.transport.hand_over(self.0, self.2), Ok(true))
    }
}

/// Who shall have a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// Whoever takes new ones.
    Anybody,
    /// Whoever takes requests that compute.
    Apart,
}

/// Where idle connections go that another worker shall have.
pub(crate) struct Handover {
    handoff: Option<Arc<Handoff>>,
    apart: Option<Arc<Handoff>>,
    /// Idle connections are better off with another worker.
    on: bool,
    /// Before then none is given away again, as nobody has taken the last ones.
    again_at: Millis,
    /// Those that were given away because this worker was held up.
    returns: Returns,
    /// Those that hold it up, which are not.
    staying: Staying,
}

impl Handover {
    pub fn new(handoff: Option<Arc<Handoff>>, apart: Option<Arc<Handoff>>) -> Self {
        let (returns, staying) = (Returns::default(), Staying::default());
        Self { handoff, apart, on: false, again_at: 0, returns, staying }
    }

    /// True while connections that become idle are given away.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Gives connections away from now on, or keeps them.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// What is away, and when it is to come back.
    pub fn returns(&mut self) -> &mut Returns {
        &mut self.returns
    }

    /// Who stays whatever happens.
    #[inline]
    pub fn staying(&mut self) -> &mut Staying {
        &mut self.staying
    }

    /// True where the connection of that token does.
    pub fn stays(&self, token: u64, now: Millis) -> bool {
        self.staying.stays(token, now)
    }

    /// A connection can leave, and no other worker would suffer from it.
    #[inline]
    pub fn may_leave(&self, connection: &Connection, now: Millis) -> bool {
        connection.can_leave() && !self.staying.stays(connection.token, now)
    }

    /// False for a while after nobody has taken what was given.
    pub fn may_begin(&self, now: Millis) -> bool {
        now >= self.again_at
    }

    /// One comes back that was given away: nobody has room for it, nor for others.
    pub fn pause(&mut self, now: Millis) {
        self.on = false;
        self.again_at = now + KEEP_MS;
    }

    /// Gives a connection that can leave to whoever is free to take it; what its client has sent and nobody has read
    /// goes with it. False: that cannot be now.
    pub fn send(&self, connection: &mut Connection, poller: &Poller) -> bool {
        let note = Source::note(connection);
        self.send_with(connection, &note, To::Anybody, poller)
    }

    /// The same, with what another worker is told of it.
    pub fn send_with(&self, connection: &mut Connection, note: &[u8], to: To, poller: &Poller) -> bool {
        let handoff = match to {
            To::Anybody => &self.handoff,
            To::Apart => &self.apart,
        };
        handoff.as_ref().is_some_and(|handoff| depart(connection, &ToOthers(handoff, poller, note)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use reactor::{Address, Socket};
    use wire::{Limits, Trust};

    use super::*;
    use crate::listener::Kind;

    fn with_connection<R>(look: impl FnOnce(&Connection) -> R) -> R {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let socket = Socket::from_owned(OwnedFd::from(ours)).expect("a socket");
        let (trust, limits) = (Trust::none(), Limits::default());
        let rules = (Kind::HTTP, &trust, &limits);
        look(&Connection::new(socket.into(), 0, (Address::Unix, 7), rules, 0))
    }

    #[test]
    fn a_request_is_told_with_its_connection_byte_for_byte_and_when_it_came() {
        let note =
            with_connection(|one| Source::note_with(one, 1 << 40, &[b"GET / ", b"HTTP", b"", b"/1.1"]));
        let told = Source::noted(&note.expect("it is short"));
        assert_eq!((told.listener, told.handed_over, told.used), (7, true, false));
        assert!(told.said.is_empty());
        assert_eq!(told.carried, Some(Carried { arrived: 1 << 40, bytes: b"GET / HTTP/1.1".to_vec() }));
        let told = Source::noted(&with_connection(Source::note));
        assert_eq!((told.listener, told.carried), (7, None));
    }

    #[test]
    fn a_request_that_is_too_long_for_a_note_is_none() {
        let head = with_connection(|one| Source::note_with(one, 1, &[]).expect("nothing")).len();
        for (length, fits) in [(NOTE_BYTES - head, true), (NOTE_BYTES - head + 1, false)] {
            let note = with_connection(|one| Source::note_with(one, 1, &[&vec![b'x'; length]]));
            assert_eq!(note.is_some(), fits, "{length}");
        }
    }
}
